"""Routers of other papers: each question goes to one expert, chosen by what experts did on training questions.

Common to all, beside their papers: questions are embedded by latent semantic analysis rather than by a neural encoder,
and the outcomes are those of the environment's own judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from examples.baselines.fitting import Floats, QuestionVectors, adam, k_means, sigmoid
from examples.baselines.routing import EvaluationBank, EvaluationTable, Router
from toolorchestra.agents.policies.baselines import Script
from toolorchestra.agents.policies.expert_roles import plurality, proposal
from toolorchestra.toolscale.common.errors import OptionError


class RouteLLM(Router):
    """A strong expert is asked where it is likelier to win than a threshold, a weak one elsewhere (arXiv:2406.18665).

    The probability that one expert wins over another on a question is that of the paper's matrix factorisation,
    ``σ(δ(i, q) - δ(j, q))`` with ``δ(m, q) = w · (v_m ⊙ (W x_q + b))``, learnt by the Bradley-Terry loss. A pair is
    won by the expert that solved the question; where both or none did, it counts half for each. The threshold is the
    one by which a `share` of the training questions goes to the strong expert, as the authors calibrate it.

    Simplified: preferences come from graded outcomes, without the votes of people and the labels of a judge that the
    paper adds; of its four routers only matrix factorisation, its best, is here.

    Args:
        seed: See `Policy`.
        bank: See `Router`.
        strong: Name of the strong expert, as a slug; by default the one that solved most.
        weak: Likewise; by default the cheapest one.
        share: Share of questions for the strong expert.
        size: Numbers in the vector of a question, and in that of an expert.
    """

    def __init__(
        self,
        seed: int = 0,
        bank: EvaluationBank | Path | str | None = None,
        strong: str | None = None,
        weak: str | None = None,
        share: float = 0.5,
        size: int = 16,
    ) -> None:
        super().__init__(seed, bank)
        if not 0 <= share <= 1:
            raise OptionError(f"Expected as `share` a share from 0 to 1 of questions, got {share!r}.")
        self.share, self._vectors = share, QuestionVectors(self.bank, size)
        self._options = {"strong": strong, "weak": weak, "share": share, "size": size}
        self._table = self.bank.table()
        experts = self._table.experts
        if unknown := [name for name in (strong, weak) if name is not None and name not in experts]:
            raise OptionError(f"Nobody evaluated {unknown[0]!r}; the bank has {', '.join(experts)}.")
        self._strong, self._weak = strong, weak
        self._factors = _factorised(self._table, self._vectors, size, seed)

    def learnt(self) -> dict[str, Any]:
        """Return the bank and the options."""
        return {"bank": self.bank, **self._options}

    def win_probability(self, question: str, strong: str, weak: str) -> float:
        """Return the probability that the first expert wins over the second on a question."""
        return float(self._wins(self._vectors.of(question)[None], strong, weak)[0])

    def _wins(self, x: Floats, strong: str, weak: str) -> Floats:
        experts, projection, bias, weights = self._factors
        i, j = (self._table.experts.index(name) for name in (strong, weak))
        return sigmoid((x @ projection + bias) @ (weights * (experts[i] - experts[j])))

    def best(self, question: str, experts: Sequence[str]) -> str | None:
        """Return the strong expert or the weak one."""
        known = [name for name in experts if name in self._table.experts]
        if not known:
            return None
        solved, cost = (np.nanmean(values, axis=0) for values in (self._table.solved, self._table.cost))
        column = self._table.experts.index
        strong = self._strong if self._strong in known else max(known, key=lambda name: solved[column(name)])
        weak = self._weak if self._weak in known else min(known, key=lambda name: cost[column(name)])
        if strong == weak or self.share in (0, 1):
            return strong if self.share == 1 else weak
        threshold = np.quantile(self._wins(self._vectors.rows, strong, weak), 1 - self.share)
        return strong if self.win_probability(question, strong, weak) > threshold else weak


class Avengers(Router):
    """Questions are clustered, each cluster has its best expert, and that expert votes with itself (arXiv:2505.19797).

    The four steps of the paper: embed the training questions, cluster them by k-means, score every expert in each
    cluster, and for a new question take the expert with the best score in the nearest clusters and sample it `votes`
    times. Of equals the cheapest is taken.

    Simplified: clusters count by their number of training questions rather than by a tuned weight.

    Args:
        seed: See `Policy`; it also seeds the clusters.
        bank: See `Router`.
        clusters: Number of clusters; fewer if the bank has fewer questions.
        nearest: Number of nearest clusters whose scores are taken together.
        votes: How often the chosen expert is asked.
        size: Numbers in the vector of a question.
    """

    def __init__(
        self,
        seed: int = 0,
        bank: EvaluationBank | Path | str | None = None,
        clusters: int = 8,
        nearest: int = 1,
        votes: int = 3,
        size: int = 32,
    ) -> None:
        super().__init__(seed, bank)
        if min(clusters, nearest, votes) < 1:
            raise OptionError(f"Expected at least 1 of each, got {clusters=}, {nearest=} and {votes=}.")
        self._options = {"clusters": clusters, "nearest": nearest, "votes": votes, "size": size}
        self.votes, self.nearest, self._vectors = votes, nearest, QuestionVectors(self.bank, size)
        self.centres, self.members = k_means(self._vectors.rows, clusters, seed)
        self._table = self.bank.table()

    def learnt(self) -> dict[str, Any]:
        """Return the bank and the options."""
        return {"bank": self.bank, **self._options}

    def best(self, question: str, experts: Sequence[str]) -> str | None:
        """Return the expert with the best score in the nearest clusters."""
        distance = ((self.centres - self._vectors.of(question)) ** 2).sum(1)
        near = np.isin(self.members, np.argsort(distance, kind="stable")[: self.nearest])

        def worth(expert: str) -> tuple[float, float]:
            column = self._table.experts.index(expert)
            solved, cost = self._table.solved[:, column], self._table.cost[:, column]
            tried = near & ~np.isnan(solved)
            tried = tried if tried.any() else ~np.isnan(solved)
            return float(solved[tried].mean()), -float(cost[tried].mean())

        return max((name for name in experts if name in self._table.experts), key=worth, default=None)

    def propose(self) -> Script:
        """Ask the chosen expert several times, and count."""
        replies = yield from self.ask([self.chosen().call()] * self.votes)
        return plurality([found for reply in replies if (found := proposal(reply)) is not None])


class IRTRouter(Router):
    """Routing by item response theory: abilities of experts and difficulty of questions (arXiv:2506.01048).

    The chance that expert m solves question q is ``σ(a_q · θ_m - b_q)``: the abilities θ of experts and the linear maps
    that give a question's discrimination a and difficulty b are learnt from outcomes (the paper's MIRT-Router). The
    expert with the highest ``weight · chance - (1 - weight) · cost`` is asked, costs as shares of the dearest expert's.
    The vector of a question is mixed with those of the nearest training questions, the paper's warm-up for questions
    of a new kind.

    Simplified: an expert's ability is a free vector, so that a new expert must be evaluated first; the paper derives it
    from an embedding of the expert's description.

    Args:
        seed: See `Policy`; it also seeds what is learnt.
        bank: See `Router`.
        weight: Weight of success over cost, from 0 to 1.
        warm_up: Share of the nearest training questions in a question's vector.
        size: Numbers in the vector of a question.
        abilities: Number of abilities.
    """

    def __init__(
        self,
        seed: int = 0,
        bank: EvaluationBank | Path | str | None = None,
        weight: float = 0.8,
        warm_up: float = 0.3,
        size: int = 16,
        abilities: int = 4,
    ) -> None:
        super().__init__(seed, bank)
        if not (0 <= weight <= 1 and 0 <= warm_up <= 1 and abilities >= 1):
            raise OptionError(f"Expected shares from 0 to 1 and an ability, got {weight=}, {warm_up=}, {abilities=}.")
        self._options = {"weight": weight, "warm_up": warm_up, "size": size, "abilities": abilities}
        self.weight, self.warm_up, self._vectors = weight, warm_up, QuestionVectors(self.bank, size)
        self._table = self.bank.table()
        self._fitted = _item_responses(self._table, self._vectors, abilities, seed)

    def learnt(self) -> dict[str, Any]:
        """Return the bank and the options."""
        return {"bank": self.bank, **self._options}

    @cached_property
    def _shares(self) -> Floats:
        cost = np.nanmean(self._table.cost, axis=0)
        return np.asarray(cost / (cost.max() or 1.0))

    def chances(self, question: str) -> dict[str, float]:
        """Return the chance of every evaluated expert to solve a question."""
        rows, x = self._vectors.rows, self._vectors.of(question)
        near = np.argsort(((rows - x) ** 2).sum(1), kind="stable")[:5]
        x = (1 - self.warm_up) * x + self.warm_up * rows[near].mean(0)
        theta, a, b = self._fitted
        padded = np.append(x, 1.0)
        return dict(zip(self._table.experts, map(float, sigmoid(theta @ (padded @ a) - padded @ b)), strict=True))

    def best(self, question: str, experts: Sequence[str]) -> str | None:
        """Return the expert that is worth most."""
        chances, shares = self.chances(question), dict(zip(self._table.experts, self._shares, strict=True))

        def worth(name: str) -> float:
            return self.weight * chances[name] - (1 - self.weight) * float(shares[name])

        return max((name for name in experts if name in chances), key=worth, default=None)


def _factorised(table: EvaluationTable, vectors: QuestionVectors, size: int, seed: int) -> list[Floats]:
    """Return vectors of experts, projection and bias of questions, and weights: RouteLLM's matrix factorisation."""
    rng = np.random.default_rng(seed)
    count = len(table.experts)
    pairs = [
        (row, i, j, (1 + table.solved[row, i] - table.solved[row, j]) / 2)
        for i in range(count)
        for j in range(i)
        for row in np.flatnonzero(~np.isnan(table.solved[:, i] + table.solved[:, j]))
    ]
    shapes = ((count, size), (vectors.size, size), (size,), (size,))
    start = [rng.normal(0, 0.3, shape) for shape in shapes]
    if not pairs:
        return start
    row, i, j = (np.array([pair[n] for pair in pairs], dtype=int) for n in range(3))
    won, x = np.array([pair[3] for pair in pairs]), vectors.rows

    def gradients(now: Sequence[Floats]) -> Sequence[Floats]:
        experts, projection, bias, weights = now
        hidden, apart = x[row] @ projection + bias, experts[i] - experts[j]
        error = (sigmoid((hidden * apart) @ weights) - won) / len(won)
        of_experts = np.zeros_like(experts)
        for sign, side in ((1, i), (-1, j)):
            np.add.at(of_experts, side, sign * error[:, None] * hidden * weights)
        of_hidden = error[:, None] * apart * weights
        exact = (of_experts, x[row].T @ of_hidden, of_hidden.sum(0), error @ (hidden * apart))
        return [one + 1e-3 * value for one, value in zip(exact, now, strict=True)]

    return adam(start, gradients)


def _item_responses(table: EvaluationTable, vectors: QuestionVectors, abilities: int, seed: int) -> list[Floats]:
    """Return the abilities of experts, and the maps to discrimination and difficulty of questions."""
    rng = np.random.default_rng(seed)
    x = np.hstack([vectors.rows, np.ones((len(vectors.rows), 1))])
    start = [rng.normal(0, 0.3, shape) for shape in ((len(table.experts), abilities), (x.shape[1], abilities))]
    start.append(np.zeros(x.shape[1]))
    known = ~np.isnan(table.solved)
    solved = np.where(known, table.solved, 0.0)

    def gradients(now: Sequence[Floats]) -> Sequence[Floats]:
        theta, a, b = now
        discrimination = x @ a
        error = np.where(known, sigmoid(discrimination @ theta.T - (x @ b)[:, None]) - solved, 0.0) / known.sum()
        exact = (error.T @ discrimination, x.T @ (error @ theta), -(x.T @ error.sum(1)))
        return [one + 1e-3 * value for one, value in zip(exact, now, strict=True)]

    return adam(start, gradients)
