"""The option ``answer="typed"``: the final answer has a value for each slot that the request asks for, and no prose.

`toolorchestra.toolscale.typed_answers` says what slots are and how they are compared. Here is what an environment adds:
the slots of the tasks of its source, what an orchestrator is told of them, the call `submit`, and where there are none.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from toolorchestra.envs.task_source import TaskSource
from toolorchestra.toolscale.answer_slots import SlotTable
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.format import ParameterSpec
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import ArgumentError, Tool, ToolContext, ToolResult
from toolorchestra.toolscale.typed_answers import TypedAnswer

AnswerMode = Literal["text", "typed"]
"""Whether the final answer is prose, or a value for each slot."""

SUBMIT = "submit"
"""Name of the call that ends an episode with a typed answer."""


class SubmitTool(Tool):
    """Ends the episode with a typed answer.

    Its schema is the same for all tasks: the request says which slots there are.
    """

    def __init__(self) -> None:
        message = ParameterSpec(
            type="string", description="what you tell the user beside it; it is not judged", required=False
        )
        super().__init__(
            SUBMIT,
            "End the conversation with the answer: a value for each slot that the request asks for.",
            {"message": message},
            latency=0.0,
        )

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        schema = super().schema
        parameters = schema["function"]["parameters"]
        answer = {"type": "object", "description": "a value for each slot, by its name"}
        parameters["properties"] = {"answer": answer, **parameters["properties"]}
        parameters["required"] = ["answer"]
        return schema

    def decode(self, raw: bytes | msgspec.Raw) -> dict[str, Any]:
        """Return the arguments; what stands in the slots is judged apart.

        Raises:
            ArgumentError: There is no object `answer`, or something else beside it and `message`.
        """
        try:
            found = msgspec.json.decode(raw, type=_Submitted)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise ArgumentError(
                f'Arguments of {SUBMIT}: {error}. Expected {{"answer": {{slot: value, …}}, "message"?: string}}.'
            ) from None
        return {"answer": found.answer} | ({} if found.message is None else {"message": found.message})

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Do nothing: the rules of the episode judge what was submitted."""
        return ToolResult.ok("submitted")


class _Submitted(msgspec.Struct, forbid_unknown_fields=True):
    answer: dict[str, Any]
    message: str | None = None


class AnswerSlots:
    """The slots of the tasks of a source.

    Args:
        source: The source: all its tasks take place in domains.
        place: The sentence that tells an orchestrator how it answers; empty where its answer cannot be typed.
        protocol: Name of the protocol.

    Raises:
        OptionError: The protocol or the source has no typed answers.
    """

    def __init__(self, source: TaskSource, place: str, protocol: str) -> None:
        if not place:
            raise OptionError(
                f"{protocol} has no typed answers, as its answer is not one text of the orchestrator: leave "
                f"answer='text', or use ToolOrchestra or ParaManager."
            )
        self._made_from = source, place, protocol
        self._place = place
        self._tables: dict[str, SlotTable] = {}
        tasks: dict[str, list[Task]] = {}
        worlds = {}
        for task in source.tasks("all"):
            world = source.world(task)
            if not isinstance(world, Domain):
                raise OptionError(
                    f"Typed answers are for tasks in domains, and {world.name} is a world of questions, whose answers "
                    f"are compared exactly anyway: leave answer='text'."
                )
            worlds[world.name] = world
            tasks.setdefault(world.name, []).append(task)
        for name, world in worlds.items():
            self._tables[name] = world.slot_table(itertools.chain(world.tasks(), tasks[name]))

    def __reduce__(self) -> Any:
        return AnswerSlots, self._made_from

    def of(self, task: Task) -> TypedAnswer:
        """Return the slots of a task and what is right in them."""
        return self._tables[task.domain].of(task)

    def asking(self, task: Task, typed: TypedAnswer) -> Task:
        """Return a task whose instruction says which slots there are as well."""
        return msgspec.structs.replace(task, instruction=f"{task.instruction}\n\n{self._place} {typed}")


def make_slots(mode: str, source: TaskSource, place: str, protocol: str) -> AnswerSlots | None:
    """Return the slots that an option asks for, or None for prose.

    Raises:
        UnknownNameError: There is no such mode.
        OptionError: There are no typed answers there.
    """
    if mode not in get_args(AnswerMode):
        raise UnknownNameError("value of `answer`", str(mode), get_args(AnswerMode))
    return AnswerSlots(source, place, protocol) if mode == "typed" else None


def with_submit(tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
    """Return tools and the call `submit`.

    Raises:
        OptionError: There is a tool of that name already.
    """
    if SUBMIT in tools:
        raise OptionError(
            f"Typed answers are given with the call {SUBMIT!r}, and there is a tool of that name: rename it."
        )
    return {**tools, SUBMIT: SubmitTool()}
