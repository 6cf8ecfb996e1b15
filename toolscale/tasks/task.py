"""Tasks: an instruction and what is needed to check an answer, and files of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.jsonl import read_jsonl, write_jsonl


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call of a tool, as a reference trajectory names it.

    Calls of one `stage` do not need each other's results: an orchestrator may make them in one turn.
    """

    name: str
    arguments: dict[str, Any]
    stage: int = 0


class Attack(msgspec.Struct, frozen=True):
    """An attack of a `kind` of its domain: the appended instruction, calls that carry it out, and their bindings."""

    kind: str
    text: str
    calls: tuple[Call, ...]
    bindings: dict[str, Any] = {}


class Task(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A verifiable task (ToolOrchestra §3.3): instruction, reference calls, information to communicate.

    Attributes:
        id: Unique and stable, ``{domain}/{intent}/{number}``.
        domain: Name of the domain in which it takes place.
        intent: Kind of request it is an instance of.
        split: ``train``, ``test`` (new bindings) or ``test_intents`` (intents never trained on).
        difficulty: 1 (one call) to 5; see `toolorchestra.toolscale.requests.intents.difficulty`.
        instruction: What the user asks.
        reference_calls: Calls that lead to the right state, in order; `difficulty` counts these alone.
        communicate: Information for the user; of each tuple, any one phrase is enough.
        answer: A final answer that communicates all of it.
        alternatives: Further reference trajectories, whose end states are right as well.
        bindings: The values that make this task of its intent.
        branches: What is right depends on what a look-up returns.
        refuses: The right answer is to refuse, or to report that it cannot be done.
        parent: Id of the task that it was evolved from, if any (or ``{domain}/{intent}``, if its whole intent was).
        operator: Name of the evolution operator, if any.
        lookups: Calls that find the ids of what the instruction names otherwise; `reference_calls` take them as known.
            They are not demanded: an id may be found in another way.
        attack: What an adversary has added to the instruction, if anything; `reference_calls` does not follow it.
    """

    id: str
    domain: str
    intent: str
    split: str
    difficulty: int
    instruction: str
    reference_calls: tuple[Call, ...]
    communicate: tuple[tuple[str, ...], ...] = ()
    answer: str
    alternatives: tuple[tuple[Call, ...], ...] = ()
    bindings: dict[str, Any] = {}
    branches: bool = False
    refuses: bool = False
    parent: str | None = None
    operator: str | None = None
    lookups: tuple[Call, ...] = ()
    attack: Attack | None = None

    @property
    def whole_path(self) -> tuple[Call, ...]:
        """The look-ups and then the reference calls, in stages that follow one another: all that a solver calls."""
        return after_lookups(self.lookups, self.reference_calls)


def after_lookups(lookups: Sequence[Call], calls: Iterable[Call]) -> tuple[Call, ...]:
    """Return look-ups and then calls, in stages that follow one another."""
    after = max((call.stage for call in lookups), default=-1) + 1
    return (*lookups, *(msgspec.structs.replace(call, stage=call.stage + after) for call in calls))


def solution(task: Task) -> list[Any]:
    """Return what a task's solution is: reference calls and what must be communicated, without the stages."""
    return [[(call.name, call.arguments) for call in task.reference_calls], task.communicate]


def solution_key(task: Task) -> bytes:
    """Return what a task's solution is known by; a task without calls is known by its words as well."""
    words = None if task.reference_calls else sorted(tokens(task.instruction))
    return hashlib.blake2b(msgspec.json.encode([*solution(task), words], order="sorted"), digest_size=12).digest()


def read_tasks(file: Path) -> list[Task]:
    """Return the tasks of a JSONL file.

    Raises:
        OptionError: The file cannot be read, a line is not a task, an id is repeated, or there is no task.
    """
    tasks: dict[str, Task] = {}
    for number, task in read_jsonl(file, Task, "a task"):
        if task.id in tasks:
            raise OptionError(f"{file}:{number}: the task {task.id} stands in the file before; ids are unique.")
        tasks[task.id] = task
    if not tasks:
        raise OptionError(f"{file} holds no task.")
    return list(tasks.values())


def write_tasks(file: Path, tasks: Iterable[Task]) -> None:
    """Write tasks to a JSONL file, which appears whole or not at all."""
    write_jsonl(file, tasks)
