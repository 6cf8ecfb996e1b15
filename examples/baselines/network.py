"""DyLAN: experts answer in rounds, see one another's answers, and stop when enough of them agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import gymnasium

from examples.baselines.fitting import LearnedPolicy
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.baselines import REVIEW, Baseline, Script, described
from toolorchestra.agents.policies.expert_roles import (
    ExpertRole,
    Proposal,
    choose,
    plurality,
    proposal,
    same_proposal,
    slug,
)
from toolorchestra.toolscale.common.errors import OptionError

CONSENSUS = 2 / 3
"""Share of the agents that must agree to stop."""


class DyLAN(Baseline, LearnedPolicy):
    """A layered network of experts with early stopping, ranking and a team chosen by importance (arXiv:2310.02170).

    In the first round every expert of the team answers. While fewer than two thirds agree, the `keep` experts ranked
    best go on to another round, in which each sees the answers so far. The importance of an expert in an episode is
    what reaches it when the answer's credit is passed back through the rounds along the ratings that experts give
    those before them. `fit` plays training tasks with all experts, and keeps the `size` most important: it reads no
    outcomes, as in the paper.

    Simplified: an expert rates another by whether it comes to the same, which works with any expert; in the paper a
    model is asked for a rating and for the ranking. Agents differ by model, not by role prompts.

    Args:
        seed: See `Policy`.
        team: Names of the experts, as slugs; all that answer by default.
        rounds: Maximum number of rounds.
        keep: Experts that go on to the next round.
    """

    def __init__(self, seed: int = 0, team: Sequence[str] | None = None, rounds: int = 3, keep: int = 2) -> None:
        super().__init__(seed)
        if min(rounds, keep) < 1 or (team is not None and not team):
            raise OptionError(f"Expected a team, a round and experts to keep, got {team=}, {rounds=} and {keep=}.")
        self.team = None if team is None else tuple(map(slug, team))
        self.rounds, self.keep = rounds, keep
        self.importance: dict[str, float] = {}
        """Importance of each expert, summed over all steps so far."""

    @classmethod
    def fit(
        cls,
        env: gymnasium.Env[Any, Any],
        *,
        split: str = "train",
        seed: int = 0,
        questions: int = 30,
        size: int = 3,
        **options: Any,
    ) -> Self:
        """Return the policy of the `size` experts that were most important for training tasks."""
        everybody = cls(seed=seed, **options)
        for number in range(seed, seed + questions):
            play_episode(env, everybody, seed=number, options={"split": split})
        ranked = sorted(everybody.importance, key=lambda name: (-everybody.importance[name], name))
        if not ranked:
            raise OptionError("No expert answered anything: fit on an environment with experts, and at least one task.")
        return cls(seed=seed, team=ranked[:size], **options)

    def learnt(self) -> dict[str, Any]:
        """Return the team."""
        return {"team": self.team, "rounds": self.rounds, "keep": self.keep}

    def propose(self) -> Script:
        """Answer in rounds until enough agree."""
        active = [role for role in self.roles("answer") if self.team is None or slug(role.expert) in self.team]
        active = active or self.roles("answer")[:1]
        history: list[list[tuple[ExpertRole, Proposal | None]]] = []
        for number in range(self.rounds):
            if number:
                active = self._ranked(history[-1])[: self.keep]
            calls = [role.call() if not history else self._second_look(role, history[-1]) for role in active]
            replies = yield from self.ask(calls)
            history.append(list(zip(active, map(proposal, replies), strict=True)))
            if _agreed(history[-1]):
                break
        answer = plurality([found for _, found in history[-1] if found is not None])
        if answer is None:  # nobody said anything in the last round
            answer = plurality([found for layer in history for _, found in layer if found is not None])
        if answer is not None:
            for name, share in importance(history, answer).items():
                self.importance[name] = self.importance.get(name, 0.0) + share
        return answer

    def _ranked(self, layer: Sequence[tuple[ExpertRole, Proposal | None]]) -> list[ExpertRole]:
        """Return the experts of a round, those first with whom most agree."""
        order = sorted(range(len(layer)), key=lambda n: (-sum(_same(layer[n][1], other) for _, other in layer), n))
        return [layer[n][0] for n in order]

    def _second_look(self, role: ExpertRole, layer: Sequence[tuple[ExpertRole, Proposal | None]]) -> Any:
        """Return the call that shows an expert the answers so far."""
        reviewing = choose(self.experts, "review", role.expert)
        if reviewing is not None:  # it reads the history
            return reviewing.call()
        shown = " or ".join(dict.fromkeys(described(found) for _, found in layer))
        return role.call(REVIEW.format(request=self.request, answer=shown))


def importance(history: Sequence[Sequence[tuple[ExpertRole, Proposal | None]]], answer: Proposal) -> dict[str, float]:
    """Return the importance of every expert: the answer's credit, passed back from round to round by ratings."""
    total: dict[str, float] = {}
    credit = _shares([_same(found, answer) for _, found in history[-1]])
    for number in reversed(range(len(history))):
        layer = history[number]
        for (role, _), share in zip(layer, credit, strict=True):
            total[slug(role.expert)] = total.get(slug(role.expert), 0.0) + share
        if number:
            before = history[number - 1]
            ratings = [_shares([_same(found, earlier) for _, earlier in before]) for _, found in layer]
            credit = [
                sum(share * rating[place] for share, rating in zip(credit, ratings, strict=True))
                for place in range(len(before))
            ]
    return total


def _shares(ratings: Sequence[bool]) -> list[float]:
    """Return ratings as shares of 1: equal shares where all are 0."""
    count = sum(ratings)
    return [rating / count if count else 1 / len(ratings) for rating in ratings]


def _same(one: Proposal | None, other: Proposal | None) -> bool:
    return one is not None and other is not None and same_proposal(one, other)


def _agreed(layer: Sequence[tuple[ExpertRole, Proposal | None]]) -> bool:
    """Return whether at least two thirds of a round came to the same."""
    most = max(sum(_same(one, other) for _, other in layer) for _, one in layer)
    return most >= CONSENSUS * len(layer)
