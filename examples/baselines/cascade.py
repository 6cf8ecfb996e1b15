"""FrugalGPT: cheap experts are asked first, and dearer ones only where a learnt score doubts the answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from examples.baselines.fitting import Floats, QuestionVectors, logistic_weights, sigmoid
from examples.baselines.routing import EvaluationBank, Router, RoutingEvaluation, proposal_text
from toolorchestra.agents.policies.baselines import Script
from toolorchestra.agents.policies.expert_roles import ExpertRole, Proposal, proposal, slug
from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.errors import OptionError

_QUANTILES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)  # of the scores of an expert, tried as thresholds


class Cascade(NamedTuple):
    """Experts in the order in which they are asked, with the scores from which on an answer is accepted.

    The last threshold is 0. `solved` and `cost` are means over the training questions.
    """

    experts: tuple[str, ...]
    thresholds: tuple[float, ...]
    solved: float = 0.0
    cost: float = 0.0


class FrugalGPT(Router):
    """A cascade of experts with a learnt scorer, of the best success within a budget (arXiv:2305.05176).

    The scorer g(question, answer) is learnt from graded answers on half of the training questions. On the other half
    every list of up to `length` experts, each dearer than the one before, is tried with thresholds on a grid; of those
    whose mean cost is within the budget the one that solves most is kept, of equals the cheapest. An answer whose score
    reaches its expert's threshold is given, otherwise the next expert is asked. In a domain that is done for each step,
    where a proposed call is scored like an answer by whether its episode was solved.

    Simplified: the scorer is a logistic regression on the question, the expert, and the form of the answer, where the
    paper fine-tunes DistilBERT; thresholds are chosen on a grid. Of the paper's strategies this is the cascade; its
    approximation by a cache or a fine-tuned model, and its prompt adaptation, are not here.

    Args:
        seed: See `Policy`.
        bank: See `Router`.
        budget: Mean US dollars of an episode; by default those of the expert that solved most.
        length: Maximum number of experts in the cascade.
        size: Numbers in the vector of a question.
    """

    def __init__(
        self,
        seed: int = 0,
        bank: EvaluationBank | Path | str | None = None,
        budget: float | None = None,
        length: int = 3,
        size: int = 16,
    ) -> None:
        super().__init__(seed, bank)
        if length < 1 or (budget is not None and not budget > 0):
            raise OptionError(f"Expected at least one expert and a budget above $0, got {length=} and {budget=}.")
        self._options = {"budget": budget, "length": length, "size": size}
        self._vectors = QuestionVectors(self.bank, size)
        self._experts = self.bank.table().experts
        known = list(self.bank.questions)
        self._weights = self._learnt_scorer(set(known[::2]))
        self.cascade = self._best_cascade(known[1::2] or known, budget, length)

    def learnt(self) -> dict[str, Any]:
        """Return the bank and the options."""
        return {"bank": self.bank, **self._options}

    def score(self, question: str, answer: str, expert: str) -> float:
        """Return the chance that an expert's answer is right, as the scorer sees it."""
        return float(sigmoid(self._features(question, answer, expert) @ self._weights))

    def best(self, question: str, experts: Sequence[str]) -> str | None:
        """Return the expert that is asked first."""
        return next((name for name in self.cascade.experts if name in experts), None)

    def propose(self) -> Script:
        """Ask one after the other until a proposal is good enough."""
        steps = list(self._available()) or [(self.chosen(), 0.0)]
        proposed: Proposal | None = None
        for role, threshold in steps:
            (reply,) = yield [role.call()]
            found = proposal(reply)
            proposed = proposed if found is None else found
            if found is not None and self.score(self.request, proposal_text(found), slug(role.expert)) >= threshold:
                break
        return proposed

    def _available(self) -> Iterator[tuple[ExpertRole, float]]:
        able = {slug(role.expert): role for role in self.experts if role.job == "answer"}
        for name, threshold in zip(self.cascade.experts, self.cascade.thresholds, strict=True):
            if name in able:
                yield able[name], threshold

    def _features(self, question: str, answer: str, expert: str) -> Floats:
        words = list(tokens(answer))
        asked = set(tokens(question))
        shared = sum(word in asked for word in words) / (len(words) or 1)
        form = (1.0, not words, min(len(words), 40) / 40, shared, any(char.isdigit() for char in answer))
        which = [float(expert == name) for name in self._experts]
        return np.array([*form, *which, *self._vectors.of(question)], dtype=np.float64)

    def _learnt_scorer(self, questions: set[str]) -> Floats:
        cases = [
            (self._features(one.question, answer, one.expert), float(one.solved))
            for one in self.bank.evaluations
            if one.question in questions
            for answer in one.proposals or ("",)
        ]
        return logistic_weights(np.array([x for x, _ in cases]), np.array([y for _, y in cases]))

    def _score_of(self, one: RoutingEvaluation) -> float:
        """Return the mean score of what an expert proposed in an episode."""
        scores = [self.score(one.question, answer, one.expert) for answer in one.proposals or ("",)]
        return sum(scores) / len(scores)

    def _best_cascade(self, questions: Sequence[str], budget: float | None, length: int) -> Cascade:
        held = set(questions)
        found = {(one.question, one.expert): one for one in self.bank.evaluations if one.question in held}
        experts = [name for name in self._experts if all((question, name) in found for question in questions)]
        if not experts:
            raise OptionError(
                "No expert was evaluated on every question: a cascade compares experts on the same questions. Record "
                "the same seeds with each."
            )
        solved, cost, score = (
            np.array([[value(found[question, name]) for name in experts] for question in questions], dtype=np.float64)
            for value in (lambda one: one.solved, lambda one: one.cost, self._score_of)
        )
        column = {name: place for place, name in enumerate(experts)}
        dearer = sorted(experts, key=lambda name: cost[:, column[name]].mean())
        if budget is None:
            best = max(range(len(experts)), key=lambda place: (solved[:, place].mean(), -cost[:, place].mean()))
            budget = float(cost[:, best].mean()) * (1 + 1e-9)
        kept: Cascade | None = None
        for chain in itertools.chain.from_iterable(itertools.combinations(dearer, n) for n in range(1, length + 1)):
            places = [column[name] for name in chain]
            grids = [np.quantile(score[:, place], _QUANTILES) for place in places[:-1]]
            for thresholds in itertools.product(*grids):
                at = _measured(chain, places, (*map(float, thresholds), 0.0), solved, cost, score)
                if at.cost <= budget and (kept is None or (at.solved, -at.cost) > (kept.solved, -kept.cost)):
                    kept = at
        if kept is None:
            raise OptionError(
                f"No expert is within ${budget:g}: the cheapest costs ${cost.mean(0).min():g} a question."
            )
        return kept


def _measured(
    chain: Sequence[str],
    places: Sequence[int],
    thresholds: tuple[float, ...],
    solved: Floats,
    cost: Floats,
    score: Floats,
) -> Cascade:
    """Return a cascade with what it would have solved and cost on questions that all its experts were given."""
    open_ = np.ones(len(solved), dtype=bool)
    right, spent = np.zeros(len(solved)), np.zeros(len(solved))
    for place, threshold in zip(places, thresholds, strict=True):
        spent[open_] += cost[open_, place]
        accepted = open_ & (score[:, place] >= threshold)
        right[accepted] = solved[accepted, place]
        open_ &= ~accepted
    return Cascade(tuple(chain), thresholds, float(right.mean()), float(spent.mean()))
