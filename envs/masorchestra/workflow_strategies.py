"""Ways to propose workflows: at random, by evolution with niches, and by tree search over edits.

Evolution is similar to EvoFlow, and tree search to AFlow. A proposal follows from the candidates before it
and the random numbers alone. Measuring and recording are in `toolorchestra.envs.masorchestra.workflow_search`.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.workflow_edits import Space, crossed, mutated, random_workflow
from toolorchestra.toolscale.intervals import wilson_interval

_BY_RANK = attrgetter("rank")


class WorkflowCandidate(msgspec.Struct, frozen=True, tag="candidate"):
    """A workflow that was measured.

    Attributes:
        number: From 0, in the order proposed.
        design: The workflow.
        parents: Numbers of the candidates that it was made of.
        move: How.
        score: Share of the validation questions that it answered rightly.
        episodes: How many were asked, those apart that came to nothing (a model that could not be reached).
        usd: Mean cost of a question in US dollars.
        seconds: Mean time of a question.
    """

    number: int
    design: Design
    parents: tuple[int, ...] = ()
    move: str = "start"
    score: float = 0.0
    episodes: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the score."""
        return wilson_interval(round(self.score * self.episodes), self.episodes)

    @property
    def rank(self) -> tuple[float, float, int]:
        """A key that sorts the best first: the highest score, of equal ones the cheapest, then the first."""
        return -self.score, self.usd, self.number


@dataclass
class WorkflowSearch(ABC):
    """A way to propose workflows of a `space`. Override `propose`."""

    space: Space

    @abstractmethod
    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return the next workflow, not measured yet, given those measured: at least the single agent."""


class RandomSearch(WorkflowSearch):
    """Every workflow is drawn anew."""

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return a random workflow."""
        return WorkflowCandidate(len(history), random_workflow(self.space, rng), (), "random")


@dataclass
class Evolution(WorkflowSearch):
    """Evolution with niches: workflows compete with those of their size, so that small ones live beside large ones.

    Attributes:
        first: Workflows drawn at random before any is bred.
        niche: Survivors of each size.
        crossing: Probability that two are crossed rather than one mutated.
    """

    first: int = 8
    niche: int = 2
    crossing: float = 0.3

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return a random workflow at first, then a child of survivors."""
        if len(history) < self.first:
            return WorkflowCandidate(len(history), random_workflow(self.space, rng), (), "random")
        alive = self.survivors(history)
        mother, father = self._fittest(alive, rng), self._fittest(alive, rng)
        if rng.random() < self.crossing and mother is not father:
            both = crossed(mother.design, father.design, self.space, rng)
            if both is not None:
                return WorkflowCandidate(len(history), both, (mother.number, father.number), "crossed")
        child, move = mutated(mother.design, self.space, rng)
        return WorkflowCandidate(len(history), child, (mother.number,), move)

    def survivors(self, history: Sequence[WorkflowCandidate]) -> list[WorkflowCandidate]:
        """Return the best of each size."""
        niches: dict[int, list[WorkflowCandidate]] = {}
        for candidate in sorted(history, key=_BY_RANK):
            niches.setdefault(len(candidate.design.agents), []).append(candidate)
        return [candidate for _, found in sorted(niches.items()) for candidate in found[: self.niche]]

    @staticmethod
    def _fittest(alive: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        return min(rng.choices(alive, k=2), key=_BY_RANK)


@dataclass
class TreeSearch(WorkflowSearch):
    """Monte Carlo tree search: every workflow is an edit of another, and good branches are followed further.

    From the root it descends to the child with the best upper bound, until it comes to a node that may have one more
    child (as many as the root of its visits); the score of a new workflow counts for all above it.

    Attributes:
        exploration: Weight of workflows that have few edits yet.
    """

    exploration: float = 0.5

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return an edit of the node to which the descent comes."""
        children: list[list[int]] = [[] for _ in history]
        visits, total = [1] * len(history), [one.score for one in history]
        for candidate in reversed(history):  # children come after their parents
            if candidate.parents:
                (parent,) = candidate.parents
                children[parent].append(candidate.number)
                visits[parent] += visits[candidate.number]
                total[parent] += total[candidate.number]
        at = 0
        while len(children[at]) >= math.sqrt(visits[at]):
            spread = self.exploration * math.sqrt(math.log(visits[at]))
            at = max(children[at], key=lambda one: (total[one] / visits[one] + spread / math.sqrt(visits[one]), -one))
        design, move = mutated(history[at].design, self.space, rng)
        return WorkflowCandidate(len(history), design, (at,), move)


SEARCHES: dict[str, type[WorkflowSearch]] = {"evolution": Evolution, "random": RandomSearch, "tree": TreeSearch}
"""Ways to search, by name."""
