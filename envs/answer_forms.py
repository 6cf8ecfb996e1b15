"""The option ``answer="form"``: the final answer fills typed slots instead of prose.

`toolorchestra.toolscale.judging.form` says what forms are and how they are compared. Here is what an environment adds:
the forms of the tasks of its source, what an orchestrator is told of them, and where they cannot be had.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, Literal, get_args

import msgspec

from toolorchestra.envs.task_source import TaskSource
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.judging.expected import ExpectedAnswer
from toolorchestra.toolscale.judging.form import AnswerForm, FormTable
from toolorchestra.toolscale.task import Task

AnswerMode = Literal["text", "form"]
"""Whether the final answer is prose or a form."""


class AnswerForms:
    """The forms of the tasks of a source.

    Args:
        source: The source: all its tasks take place in domains.
        place: The sentence that tells an orchestrator where it writes the form; empty where it cannot write one.
        protocol: Name of the protocol.

    Raises:
        OptionError: The protocol or the source has no forms.
    """

    def __init__(self, source: TaskSource, place: str, protocol: str) -> None:
        if not place:
            raise OptionError(
                f"{protocol} has no forms, as its answer is not one text of the orchestrator: leave answer='text', or "
                f"use ToolOrchestra or ParaManager."
            )
        self._made_from = source, place, protocol
        self._place = place
        self._tables: dict[str, FormTable] = {}
        tasks: dict[str, list[Task]] = {}
        worlds = {}
        for task in source.tasks("all"):
            world = source.world(task)
            if not isinstance(world, Domain):
                raise OptionError(
                    f"Forms are for tasks in domains, and {world.name} is a world of questions, whose answers are "
                    f"compared exactly anyway: leave answer='text'."
                )
            worlds[world.name] = world
            tasks.setdefault(world.name, []).append(task)
        for name, world in worlds.items():
            every = itertools.chain(world.tasks(), tasks[name])
            self._tables[name] = FormTable(every, functools.partial(_expected, world))

    def __reduce__(self) -> Any:
        return AnswerForms, self._made_from

    def of(self, task: Task) -> AnswerForm:
        """Return the form of a task."""
        return self._tables[task.domain].of(task)

    def asking(self, task: Task, form: AnswerForm) -> Task:
        """Return a task whose instruction asks for the form as well."""
        return msgspec.structs.replace(task, instruction=f"{task.instruction}\n\n{form.text(self._place)}")


def _expected(domain: Domain, task: Task) -> ExpectedAnswer:
    return domain.verifier.reference(task).answer


def make_forms(mode: str, source: TaskSource, place: str, protocol: str) -> AnswerForms | None:
    """Return the forms that an option asks for, or None for prose.

    Raises:
        UnknownNameError: There is no such mode.
        OptionError: There are no forms there.
    """
    if mode not in get_args(AnswerMode):
        raise UnknownNameError("value of `answer`", str(mode), get_args(AnswerMode))
    return AnswerForms(source, place, protocol) if mode == "form" else None
