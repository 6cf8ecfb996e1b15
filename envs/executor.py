"""The executor: runs the calls of one turn and books their cost and virtual time.

Calls that only read run concurrently: on the virtual clock they start together, and a turn lasts as long as
its slowest one. A call that writes is a barrier: it starts when all before it have ended, and what follows
waits for it. Calls run in the order written, each on its own; one that errs does not stop the others.

Calls of tools that block (a real model, a server) run at the same time in real time too, each in a thread; one that
hangs is given up after its tool's timeout, and all of a message together after `MESSAGE_SECONDS`. Everything else is
over in microseconds and runs where it stands.

What an error of a tool means: an outage (`toolorchestra.toolscale.common.errors.is_outage`) is raised, since the policy
did not cause it, or is observed by the policy where that is asked for; any other error is the call's EXEC_ERR, since
its arguments may have caused it.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from toolorchestra.agents.messages.model_message import ParsedCall
from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.toolscale.common.errors import ExpertError, is_outage, unknown_name
from toolorchestra.toolscale.tools.tool import ArgumentError, Status, Tool, ToolContext, ToolResult

Outages = Literal["infra_error", "observed"]
"""What an outage of a model or server is: an infrastructure error, or the EXEC_ERR or TIMEOUT of a call."""
MESSAGE_SECONDS = 60.0
"""Seconds of real time for all calls of one message; where a tool has a timeout of its own, at least twice that."""


class ToolFaultWarning(UserWarning):
    """A tool raised an error, which its contract forbids; the call ended in an EXEC_ERR."""


class _HangsError(ExpertError):
    """A model or server has not answered within the timeout of its tool."""


def execute(
    calls: Sequence[ParsedCall], context: ToolContext, *, clock: float, first: int, outages: Outages = "infra_error"
) -> list[CallRecord]:
    """Run `calls` and return their records, in the order written.

    Args:
        calls: Calls of one turn.
        context: The episode at the beginning of the turn: its session, and the tools that can be called.
        clock: Virtual time at which the turn begins, in seconds.
        first: Number of the first call, from which ids are made for calls that have none.
        outages: ``infra_error``: an outage is raised; ``observed``: it is the call's EXEC_ERR, or TIMEOUT if it hangs.

    Raises:
        ExpertError: A model or server failed for good, and `outages` is ``infra_error``.
        SandboxError: A program could not be run.
        Exception: A tool without parameters has a fault.
    """
    tools, session = context.tools, context.session
    records: list[CallRecord] = []
    given = {call.id for call in calls} if len(calls) > 1 else ()
    ready = latest = clock  # when the next call may start; when all so far have ended
    over = 0  # calls that had ended when `ready` was
    started: dict[int, _Waiting] | None = None
    for position, call in enumerate(calls):
        call_id = call.id or f"call_{first + position}"
        if not call.id and call_id in given:
            call_id += "_"
        tool = tools.get(call.name)
        arguments = _arguments(call, tool, tools)
        if tool is None or isinstance(arguments, str):
            wrong = CallRecord(call_id, call.name, None, Status.PARSE_ERR, None, str(arguments), start=ready, end=ready)
            records.append(wrong)
            continue
        writes = tool.effect == "write"
        if writes:
            ready, over = latest, position
        try:
            if tool.blocking:
                if context.deadline is None:
                    context = msgspec.structs.replace(context, deadline=_deadline(calls, tools))
                if started is None or position not in started:
                    started = _start(calls, position, tools, partial(_at, context, records[:over], first))
                result = started[position].result()
            elif tool.uses_episode:
                result = tool.run(arguments, _at(context, records[:over], first, position))
            else:
                result = session.call(tool, arguments)
        except Exception as error:
            result = _failed(tool, error, outages)
        end = ready + tool.latency + result.seconds
        spent = tool.price + result.cost, result.tokens, ready, end, result.children
        records.append(CallRecord(call_id, call.name, arguments, result.status, result.value, result.error, *spent))
        if end > latest:
            latest = end
        if writes:
            ready, over = latest, position + 1
    return records


def _arguments(call: ParsedCall, tool: Tool | None, tools: Mapping[str, Tool]) -> dict[str, Any] | str:
    """Return the arguments of a call, or what is wrong with it."""
    if call.error is not None:
        return call.error
    if tool is None:
        return unknown_name("tool", call.name, tools)
    try:
        return tool.decode(call.arguments)
    except ArgumentError as wrong:
        return str(wrong)


def _at(context: ToolContext, earlier: Sequence[CallRecord], first: int, position: int) -> ToolContext:
    """Return the context of the call at a position."""
    return msgspec.structs.replace(context, earlier=tuple(earlier), number=first + position)


def _failed(tool: Tool, error: Exception, outages: Outages) -> ToolResult:
    """Return the result of a call that raised an error, or raise it again if the call cannot be to blame."""
    if is_outage(error):
        if outages == "infra_error" or not isinstance(error, ExpertError):
            raise error
        if isinstance(error, _HangsError):
            return ToolResult(Status.TIMEOUT, error=str(error), seconds=tool.timeout or 0.0)
    if isinstance(error, ExpertError):
        return ToolResult.failed(str(error))
    if not tool.parameters:
        raise error
    *_, place = traceback.extract_tb(error.__traceback__)
    warnings.warn(
        f"The tool {tool.name!r} raised {type(error).__name__}: {str(error)[:200]} ({place.filename}:{place.lineno}). "
        "Expected a ToolResult for any arguments; let it return ToolResult.failed(…).",
        ToolFaultWarning,
        stacklevel=2,
    )
    return ToolResult.failed(f"{tool.name} cannot be run with these arguments ({type(error).__name__}).")


def _deadline(calls: Sequence[ParsedCall], tools: Mapping[str, Tool]) -> float:
    """Return until when the calls of a message, begun now, must have ended."""
    timeouts = (tools[call.name].timeout or 0.0 for call in calls if call.name in tools)
    return time.monotonic() + max(MESSAGE_SECONDS, 2 * max(timeouts))


class _Waiting:
    """A call under way in a thread; it is not started if the time of its message is over."""

    def __init__(self, tool: Tool, arguments: Any, context: ToolContext) -> None:
        self._tool = tool
        self._deadline = math.inf if context.deadline is None else context.deadline
        self._given_up = time.monotonic() + (math.inf if tool.timeout is None else tool.timeout)
        self._result: ToolResult | None = None
        self._error: Exception | None = None
        # a daemon: what hangs for good must not keep the process from ending
        self._thread = threading.Thread(target=self._answer, args=(arguments, context), name=tool.name, daemon=True)
        if time.monotonic() < self._deadline:
            self._thread.start()

    def _answer(self, arguments: Any, context: Any) -> None:
        try:
            self._result = self._tool.run(arguments, context)
        except Exception as error:
            self._error = error

    def result(self) -> ToolResult:
        """Return the result, or a TIMEOUT when the time of the message is over.

        Raises:
            ExpertError: The tool has not answered within its own timeout.
        """
        if self._thread.ident is not None:
            until = min(self._given_up, self._deadline, time.monotonic() + threading.TIMEOUT_MAX)
            self._thread.join(max(0.0, until - time.monotonic()))
        if self._error is not None:
            raise self._error
        if self._result is not None:
            return self._result
        name, timeout = self._tool.name, self._tool.timeout
        if self._given_up <= self._deadline:
            raise _HangsError(f"{name} has not answered within {timeout:g} s. Try again later, or ask another.")
        return ToolResult.timed_out(f"{name} was not done when the time for one message was over. Call less at once.")


def _start(
    calls: Sequence[ParsedCall], first: int, tools: Mapping[str, Tool], context: Callable[[int], Any]
) -> dict[int, _Waiting]:
    """Start the blocking call at a position, and if it only reads those after it up to the next that writes."""
    started = {}
    for position in range(first, len(calls)):
        tool = tools.get(calls[position].name)
        arguments = _arguments(calls[position], tool, tools)
        if tool is None or isinstance(arguments, str):
            continue
        if not tool.blocking and tool.effect != "write":
            continue
        if tool.effect == "write" and position > first:
            break
        started[position] = _Waiting(tool, arguments, context(position))
        if tool.effect == "write":
            break
    return started
