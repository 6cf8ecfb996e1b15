"""Search for workflows, the alternative to training an orchestrator, with the same sub-agents.

A search proposes one workflow after the other (`examples.searches.strategies`) and measures each on a validation set,
until a budget is spent. A proposal follows from the candidates before it and the seed alone, so a
search that goes on from its record gives the same result as one that was never interrupted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from examples.searches.strategies import METHODS, WorkflowCandidate, WorkflowSearch
from examples.searches.workflows import Space, single
from toolorchestra.envs.masorchestra.design import to_text
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.toolscale.common.append_only import AppendOnly
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

_TRIES = 50  # proposals drawn for one that is new


class _Settings(msgspec.Struct, frozen=True, tag="search"):
    """How a search is made: the first line of its record; `tasks` are the ids of the validation questions."""

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


class Validation:
    """Measures workflows on questions of an environment of a high degree of MAS.

    `tasks` are the ids of the questions, `seed` is the noise seed of simulated agents, the same for every workflow.
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
        rewards, usd, seconds = [], 0.0, 0.0
        for number, task in enumerate(self.tasks):
            self.env.reset(seed=self.seed + number, options={"task_id": task})
            _, reward, _, truncated, info = self.env.step(text)
            usd += info["cost"]
            seconds += info["clock"]
            if not truncated:
                rewards.append(float(reward))
        score, count = (sum(rewards) / len(rewards) if rewards else 0.0), len(self.tasks)
        means = {"score": score, "usd": usd / count, "seconds": seconds / count}
        return msgspec.structs.replace(candidate, episodes=len(rewards), **means)


def search(
    method: str,
    validation: Validation,
    budget: SearchBudget = SearchBudget(),
    *,
    seed: int = 0,
    max_agents: int = 8,
    file: Path | None = None,
    watch: Callable[[WorkflowCandidate], object] = lambda candidate: None,
    **options: Any,
) -> list[WorkflowCandidate]:
    """Search for workflows and return all that were measured; `best` finds the best of them.

    The first is always a single agent. The search ends early when it finds nothing new.

    Args:
        method: One of `METHODS`.
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
    if method not in METHODS:
        raise UnknownNameError("search", method, METHODS)
    space = Space(validation.kinds, max_agents)
    try:
        strategy = METHODS[method](space, **options)
    except TypeError as error:
        raise OptionError(f"The search {method!r} cannot be made so: {error}.") from None
    env, tasks = validation.env, validation.tasks
    env_id = env.spec.id if env.spec else env.source.name
    settings = _Settings(method, seed, env_id, env.model.name, space.kinds, max_agents, tasks)
    with nullcontext() if file is None else closing(_record(file)) as record:
        history = [] if record is None else _resumed(record, settings)
        for candidate in history:
            watch(candidate)
        while len(history) < budget.candidates and (
            budget.usd is None or sum(one.usd for one in history) * len(tasks) < budget.usd
        ):
            proposed = _proposed(strategy, history, seed)
            if proposed is None:
                break
            history.append(validation.measured(proposed))
            if record is not None:
                record.add(history[-1])
            watch(history[-1])
    return history


def best(history: Sequence[WorkflowCandidate]) -> WorkflowCandidate:
    """Return the candidate with the highest score; of equal ones the cheapest, then the first."""
    return min(history, key=lambda candidate: candidate.rank)


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


def _record(file: Path) -> AppendOnly[Any]:
    lines: Any = _Settings | WorkflowCandidate
    return AppendOnly[Any](file, lines, "a line of a workflow search")


def _resumed(record: AppendOnly[Any], settings: _Settings) -> list[WorkflowCandidate]:
    """Return the candidates of a record, which must be that of the same search."""
    if not record.lines:
        record.add(settings)
        return []
    if record.lines[0] != settings:
        found, wanted = record.lines[0], settings.__struct_fields__
        differing = ", ".join(name for name in wanted if getattr(found, name, None) != getattr(settings, name))
        raise OptionError(f"{record.file} is the record of another search ({differing}): give another file.")
    return list(record.lines[1:])
