"""The calls of a recorded episode, which answer those that are made when its messages are taken again.

What costs something, waits for something outside of the process, or draws a chance is not run again: experts,
sub-agents, sandboxes, searches and MCP servers reply what the record says. Only the own tools of a world with a state
are run, on that, and the call `submit`; where one returns something else than it did, the replay notes it. Not covered:
how an episode is judged anew (`toolorchestra.envs.checks.reverification`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.messages.model_message import ParsedCall
from toolorchestra.envs.records.episode import CallRecord, Episode, Turn
from toolorchestra.envs.world import FollowsUp
from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.common.visible import cut, visible
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolResult

_SHOWN = 100  # characters of a result that differs
_BEFORE = 20  # of them before the first difference
Execute = Callable[..., list[CallRecord]]


class RecordedCalls:
    """The calls of a record, handed out turn after turn.

    Args:
        record: The episode.
        execute: Runs calls, as `toolorchestra.envs.executor.execute` does.

    Attributes:
        drift: What first differs from the record, in words; empty: nothing so far.
        missing: Which call was made that the record cannot answer; empty: none.
    """

    def __init__(self, record: Episode, execute: Execute) -> None:
        self.record = record
        self.drift = self.missing = ""
        self._execute = execute
        self._count = 0  # of calls in the turns so far
        self._left: list[tuple[int, CallRecord]] = []  # of the turn in progress, with their numbers in the episode

    def begin(self, turn: Turn) -> None:
        """Hand out the calls of the next turn."""
        self._left = list(enumerate(turn.calls, self._count + 1))
        self._count += len(turn.calls)

    def end(self) -> None:
        """Note calls of the turn that were not made again."""
        for number, call in self._left:
            self.note(f"call {number} ({call.name}) of the record is in no message")

    def note(self, drift: str) -> None:
        """Note what differs from the record, if it is the first difference."""
        self.drift = self.drift or drift

    def reply(self, name: str) -> CallRecord:
        """Return the recorded call of a tool that is not run again.

        Raises:
            LookupError: The turn has none, or no more.
        """
        found = self._take(name)
        if found is None:
            self.missing = self.missing or f"the record has no reply of {name} to a call in its messages"
            raise LookupError(self.missing)
        return found[1]

    def replay(self, calls: Sequence[ParsedCall], context: ToolContext, **how: Any) -> list[CallRecord]:
        """Return the records of calls, in the place of `toolorchestra.envs.executor.execute`, whose arguments it takes.

        Costs and times are those of the record.

        Raises:
            LookupError: The record has no reply to one that is not run again.
        """
        return [
            self._rerun(call, context, **how) if _is_rerun(call.name, context) else self.reply(call.name)
            for call in calls
        ]

    def _take(self, name: str) -> tuple[int, CallRecord] | None:
        for place, (_, call) in enumerate(self._left):
            if call.name == name:
                return self._left.pop(place)
        return None

    def _rerun(self, call: ParsedCall, context: ToolContext, **how: Any) -> CallRecord:
        (now,) = self._execute([call], context, **how)
        found = self._take(call.name)
        if found is None:
            self.note(f"a call of {call.name} in the messages is not in the record")
            return now
        number, then = found
        if now.arguments != then.arguments:
            given, meant = _differing(_json(then.arguments), _json(now.arguments))
            self.note(
                f"call {number} ({call.name}) has the arguments {given} in the record, and {meant} in its message"
            )
        elif _result(now) != _result(then):
            was, is_now = _differing(_result(then), _result(now))
            self.note(f"call {number} ({call.name}) returned {was}, and now {is_now}")
        kept = {name: getattr(then, name) for name in ("id", "cost", "tokens", "start", "end", "children")}
        return msgspec.structs.replace(now, **kept)


class RecordedTool(Tool):
    """A tool of which only the name is known, since its calls are not run again."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "Replies what it has replied.", {})

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Raise an error: nobody may ask it.

        Raises:
            LookupError: Always.
        """
        raise LookupError(f"{self.name} is there as a record only, and cannot be run.")


def _is_rerun(name: str, context: ToolContext) -> bool:
    """Return whether a call is run again: of a world's own tools, where it has a state and they need nothing beyond."""
    tool = context.tools.get(name)
    if tool is None or tool.blocking:
        return False
    own = name in context.world.tools and not tool.uses_episode
    own = own and (isinstance(context.world, Domain) or isinstance(context.session, FollowsUp))
    return own or (name == SUBMIT and not isinstance(tool, RecordedTool))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _result(call: CallRecord) -> str:
    return _json(call.value) if call.error is None else f"{call.status}: {call.error}"


def _differing(one: str, other: str) -> tuple[str, str]:
    """Return two texts cut to where they differ."""
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    first = max(0, same - _BEFORE) if max(len(one), len(other)) > _SHOWN else 0
    mark = "…" if first else ""
    a, b = (cut(visible(f"{mark}{text[first:]}"), _SHOWN) for text in (one, other))
    return a, b
