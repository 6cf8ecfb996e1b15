"""The option `answer`: the final answer is the call `submit`, in domains with a value for each slot, or it is prose.

`toolorchestra.toolscale.answers.typed_answers` says what slots are and how they are compared. Here is what an
environment adds: the slots of the tasks of its source, what an orchestrator is told of them, and the call. To a
question its answer is a text, and a message without a call may answer as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args

import msgspec

from toolorchestra.envs.task_source import TaskSource
from toolorchestra.toolscale.answers.answers import MAX_TEXT
from toolorchestra.toolscale.answers.typed_answers import SUBMIT, TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.answer_slots import SlotTable
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import ArgumentError, Tool, ToolContext, ToolResult

SLOTS_FOLLOW = "The slots of the answer:"
"""What stands before the slots where the answer is given with the call `submit`."""
AnswerMode = Literal["typed", "text"]
"""Whether the final answer is the call `submit`, or prose."""


_ANSWER = ParameterSpec(type="string", description="the final answer, without any words around it", max_length=MAX_TEXT)
_MESSAGE = ParameterSpec(
    type="string", description="what you tell the user beside it; it is not judged", required=False, max_length=MAX_TEXT
)


class SubmitTool(Tool):
    """Ends the episode with an answer: to a question, a text."""

    def __init__(
        self,
        description: str = "End the conversation with the final answer.",
        parameters: Mapping[str, ParameterSpec] = MappingProxyType({"answer": _ANSWER, "message": _MESSAGE}),
    ) -> None:
        super().__init__(SUBMIT, description, parameters, latency=0.0)

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Do nothing: the rules of the episode judge what was submitted."""
        return ToolResult.ok("submitted")


class SubmitSlotsTool(SubmitTool):
    """Ends the episode with a typed answer.

    Its schema is the same for all tasks: the request says which slots there are.
    """

    def __init__(self) -> None:
        super().__init__(
            "End the conversation with the answer: a value for each slot that the request asks for.",
            {"message": _MESSAGE},
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


class _Submitted(msgspec.Struct, forbid_unknown_fields=True):
    answer: dict[str, Any]
    message: str | None = None


SUBMIT_TOOL = SubmitSlotsTool()
"""The call that answers a task in a domain; it has no state."""
SUBMIT_TEXT_TOOL = SubmitTool()
"""The call that answers a question, likewise."""


class AnswerSlots:
    """The slots of the tasks of a source: of those in domains, as questions have none.

    Args:
        source: The source.
    """

    def __init__(self, source: TaskSource) -> None:
        self._source = source
        self._tables: dict[str, SlotTable] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tables": {}}

    def of(self, task: Task) -> TypedAnswer | None:
        """Return the slots of a task and what is right in them; None for a question."""
        world = self._source.world(task)
        if not isinstance(world, Domain):
            return None
        table = self._tables.get(world.name)
        if table is None:
            every = (one for one in self._source.tasks("all") if one.domain == world.name)
            table = self._tables[world.name] = world.slots.with_tasks(every)
        return table.of(task)


def make_slots(mode: str, source: TaskSource, *, can_be_typed: bool) -> AnswerSlots | None:
    """Return the slots that an option asks for; None for prose, and for a protocol whose answers are always prose.

    Raises:
        UnknownNameError: There is no such mode.
    """
    if mode not in get_args(AnswerMode):
        raise UnknownNameError("value of `answer`", str(mode), get_args(AnswerMode))
    return AnswerSlots(source) if mode == "typed" and can_be_typed else None


def with_submit(tools: Mapping[str, Tool], submit: SubmitTool = SUBMIT_TOOL) -> Mapping[str, Tool]:
    """Return tools and the call `submit`.

    Raises:
        OptionError: There is a tool of that name already.
    """
    if SUBMIT in tools:
        raise OptionError(
            f"Answers are given with the call {SUBMIT!r}, and there is a tool of that name: rename it, or give "
            "answer='text'."
        )
    return {**tools, SUBMIT: submit}
