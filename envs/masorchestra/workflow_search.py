"""Search for workflows: what there was before orchestrators were trained, on the same graphs and the same sub-agents.

A search proposes one workflow after the other; each is measured on a validation set, until a budget is spent. Three
ways to propose are here: at random; by evolution with niches (in the spirit of EvoFlow); and by Monte Carlo tree search
over edits (in that of AFlow). A proposal follows from the candidates before it and the seed alone, so that a search
goes on from its record as if it had never stopped.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.envs.masorchestra.design import Design, to_text
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.workflow_edits import Space, crossed, mutated, random_workflow, single
from toolorchestra.toolscale.append_only import AppendOnly
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.intervals import wilson_interval

_TRIES = 50  # proposals drawn for one that is new


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


class SearchSettings(msgspec.Struct, frozen=True, tag="search"):
    """How a search is made: the first line of its record.

    Attributes:
        method: One of `SEARCHES`.
        seed: Of the proposals.
        env: Id of the environment.
        model: Name of the model behind the agents.
        kinds: Kinds of agent that may be used.
        max_agents: Maximum number of agents of a workflow.
        tasks: Ids of the validation questions.
    """

    method: str
    seed: int
    env: str
    model: str
    kinds: tuple[str, ...]
    max_agents: int
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class SearchBudget:
    """When a search ends.

    Attributes:
        candidates: Maximum number of workflows that are measured.
        usd: US dollars after which no further one is.
    """

    candidates: int = 50
    usd: float | None = None

    def __post_init__(self) -> None:
        if self.candidates < 1 or (self.usd is not None and not self.usd > 0):
            raise OptionError(f"Expected a budget of at least one candidate and more than $0, got {self}.")


class WorkflowSearch(ABC):
    """A way to propose workflows. Override `propose`.

    Args:
        space: Which workflows there are.
    """

    def __init__(self, space: Space) -> None:
        self.space = space

    @abstractmethod
    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return the next workflow, not measured yet, given those measured: at least the single agent."""


class RandomSearch(WorkflowSearch):
    """Every workflow is drawn anew."""

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return a random workflow."""
        return WorkflowCandidate(len(history), random_workflow(self.space, rng), (), "random")


class Evolution(WorkflowSearch):
    """Evolution with niches: workflows compete with those of their size, so that small ones live beside large ones.

    Args:
        space: Which workflows there are.
        first: Workflows drawn at random before any is bred.
        niche: Survivors of each size.
        crossing: Probability that two are crossed rather than one mutated.
    """

    def __init__(self, space: Space, first: int = 8, niche: int = 2, crossing: float = 0.3) -> None:
        super().__init__(space)
        self.first, self.niche, self.crossing = first, niche, crossing

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return a random workflow at first, then a child of survivors."""
        if len(history) < self.first:
            return WorkflowCandidate(len(history), random_workflow(self.space, rng), (), "random")
        alive = self.survivors(history)
        mother, father = self._fittest(alive, rng), self._fittest(alive, rng)
        if rng.random() < self.crossing and mother is not father:
            child = crossed(mother.design, father.design, self.space, rng)
            if child is not None:
                return WorkflowCandidate(len(history), child, (mother.number, father.number), "crossed")
        child, move = mutated(mother.design, self.space, rng)
        return WorkflowCandidate(len(history), child, (mother.number,), move)

    def survivors(self, history: Sequence[WorkflowCandidate]) -> list[WorkflowCandidate]:
        """Return the best of each size."""
        niches: dict[int, list[WorkflowCandidate]] = {}
        for candidate in sorted(history, key=_rank):
            niches.setdefault(len(candidate.design.agents), []).append(candidate)
        return [candidate for _, found in sorted(niches.items()) for candidate in found[: self.niche]]

    @staticmethod
    def _fittest(alive: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        return min(rng.choices(alive, k=2), key=_rank)


class TreeSearch(WorkflowSearch):
    """Monte Carlo tree search: every workflow is an edit of another, and good branches are followed further.

    From the root it descends to the child with the best upper bound, until it comes to a node that may have one more
    child (as many as the root of its visits); the score of a new workflow counts for all above it.

    Args:
        space: Which workflows there are.
        exploration: Weight of what has been tried little.
    """

    def __init__(self, space: Space, exploration: float = 0.5) -> None:
        super().__init__(space)
        self.exploration = exploration

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


class Validation:
    """Measures workflows on questions of an environment.

    Args:
        env: The environment, of a high degree of MAS.
        tasks: Ids of the questions.
        seed: Noise seed of simulated agents, the same for every workflow.
    """

    def __init__(self, env: MASOrchestraEnv, tasks: Sequence[str], seed: int = 0) -> None:
        if not tasks or env.dom != "high":
            raise OptionError("Expected at least one question, in an environment with dom='high'.")
        self.env, self.tasks, self.seed = env, tuple(tasks), seed

    @classmethod
    def drawn(cls, env: MASOrchestraEnv, count: int, seed: int = 0, split: str = "train") -> Validation:
        """Return a validation set of so many questions drawn from a split."""
        tasks = [task.id for task in env.source.tasks(split)]
        if not 1 <= count <= len(tasks):
            raise OptionError(f"Expected 1 to {len(tasks)} questions of the split {split!r}, got {count}.")
        return cls(env, sorted(random.Random(seed).sample(tasks, count)), seed)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of agent that are available for all of its questions."""
        kinds = [set(self.env.reset(options={"task_id": task})[1]["tool_names"]) for task in self.tasks]
        return tuple(sorted(set.intersection(*kinds)))

    def measured(self, candidate: WorkflowCandidate) -> WorkflowCandidate:
        """Return a candidate with its score and costs."""
        text = to_text(candidate.design)
        right, graded, usd, seconds = 0.0, 0, 0.0, 0.0
        for number, task in enumerate(self.tasks):
            self.env.reset(seed=self.seed + number, options={"task_id": task})
            _, reward, _, truncated, info = self.env.step(text)
            usd += info["cost"]
            seconds += info["clock"]
            if not truncated:
                right += float(reward)
                graded += 1
        count = len(self.tasks)
        score = right / graded if graded else 0.0
        return msgspec.structs.replace(
            candidate, score=score, episodes=graded, usd=usd / count, seconds=seconds / count
        )


def search(
    method: str,
    validation: Validation,
    budget: SearchBudget = SearchBudget(),
    *,
    seed: int = 0,
    max_agents: int = 8,
    file: Path | None = None,
    watch: Callable[[WorkflowCandidate], object] | None = None,
    **options: Any,
) -> list[WorkflowCandidate]:
    """Search for workflows and return all that were measured; `best` finds the best of them.

    The first is always a single agent. The search ends early when it finds nothing new.

    Args:
        method: One of `SEARCHES`.
        validation: Measures them.
        budget: When to end.
        seed: Of the proposals.
        max_agents: Maximum number of agents of a workflow.
        file: JSONL file to which every candidate is written as soon as it is measured, and from which a search that
            was interrupted goes on.
        watch: Called with every candidate, those of the file included.
        options: Options of the method.

    Raises:
        UnknownNameError: There is no such method.
        OptionError: The method does not take these options, or the file is another search's.
    """
    if method not in SEARCHES:
        raise UnknownNameError("search", method, SEARCHES)
    space = Space(validation.kinds, max_agents)
    try:
        strategy = SEARCHES[method](space, **options)
    except TypeError as error:
        raise OptionError(f"The search {method!r} cannot be made so: {error}.") from None
    env_id = validation.env.spec.id if validation.env.spec else validation.env.source.name
    settings = SearchSettings(
        method, seed, env_id, validation.env.model.name, space.kinds, max_agents, validation.tasks
    )
    with ExitStack() as stack:
        record = None
        history: list[WorkflowCandidate] = []
        if file is not None:
            record = AppendOnly[Any](file, SearchSettings | WorkflowCandidate, "a line of a workflow search")  # type: ignore[arg-type]
            stack.callback(record.close)
            history = _resumed(record, settings)
        for candidate in history:
            if watch is not None:
                watch(candidate)
        while len(history) < budget.candidates:
            if budget.usd is not None and sum(one.usd for one in history) * len(validation.tasks) >= budget.usd:
                break
            fresh = _proposed(strategy, history, seed)
            if fresh is None:
                break
            measured = validation.measured(fresh)
            if record is not None:
                record.add(measured)
            history.append(measured)
            if watch is not None:
                watch(measured)
    return history


def best(history: Sequence[WorkflowCandidate]) -> WorkflowCandidate:
    """Return the candidate with the highest score; of equal ones the cheapest, then the first."""
    return min(history, key=_rank)


def _rank(candidate: WorkflowCandidate) -> tuple[float, float, int]:
    return -candidate.score, candidate.usd, candidate.number


def _proposed(strategy: WorkflowSearch, history: Sequence[WorkflowCandidate], seed: int) -> WorkflowCandidate | None:
    """Return the next candidate, which is none of those before; None if none is found."""
    if not history:
        kinds = strategy.space.kinds
        return WorkflowCandidate(0, single("CoTAgent" if "CoTAgent" in kinds else kinds[0]))
    rng = random.Random(f"{seed}/{len(history)}")
    known = {candidate.design for candidate in history}
    for _ in range(_TRIES):
        candidate = strategy.propose(history, rng)
        if candidate.design not in known:
            return candidate
    return None


def _resumed(record: AppendOnly[Any], settings: SearchSettings) -> list[WorkflowCandidate]:
    """Return the candidates of a record, which must be that of the same search."""
    if not record.lines:
        record.add(settings)
        return []
    if record.lines[0] != settings:
        differing = [
            name
            for name in settings.__struct_fields__
            if getattr(record.lines[0], name, None) != getattr(settings, name)
        ]
        raise OptionError(f"{record.file} is the record of another search ({', '.join(differing)}): give another file.")
    return list(record.lines[1:])
