"""The executor: runs the calls of one turn and books their cost and virtual time.

Calls that only read run concurrently: on the virtual clock they start together, and a turn lasts as long as
its slowest one. A call that writes is a barrier: it starts when all before it have ended, and what follows
waits for it. Calls run in the order written, each on its own; one that errs does not stop the others.

Calls of tools that block (a real model, a server) run at the same time in real time too, each in a thread; one that
hangs is given up after its tool's timeout. Everything else is over in microseconds and runs where it stands.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from toolorchestra.envs.episode import CallRecord
from toolorchestra.envs.parsing import ParsedCall
from toolorchestra.toolscale.errors import ExpertError, unknown_name
from toolorchestra.toolscale.tool import ArgumentError, Status, Tool, ToolContext, ToolResult


def execute(calls: Sequence[ParsedCall], context: ToolContext, *, clock: float, first: int) -> list[CallRecord]:
    """Run `calls` and return their records, in the order written.

    Args:
        calls: Calls of one turn.
        context: The episode at the beginning of the turn: its session, and the tools that can be called.
        clock: Virtual time at which the turn begins, in seconds.
        first: Number of the first call, from which ids are made for calls that have none.
    """
    tools, session = context.tools, context.session
    records: list[CallRecord] = []
    given = {call.id for call in calls} if len(calls) > 1 else ()
    ready = latest = clock  # when the next call may start; when all so far have ended
    over = 0  # calls that had ended when `ready` was
    started: dict[int, _Waiting] | None = None
    for position, call in enumerate(calls):
        call_id = call.id
        if not call_id:
            call_id = f"call_{first + position}"
            if call_id in given:
                call_id += "_"
        tool = tools.get(call.name)
        arguments = _arguments(call, tool, tools)
        if tool is None or isinstance(arguments, str):
            error = str(arguments)
            records.append(CallRecord(call_id, call.name, None, Status.PARSE_ERR, error=error, start=ready, end=ready))
            continue
        writes = tool.effect == "write"
        if writes:
            ready, over = latest, position
        if tool.blocking:
            if started is None or position not in started:
                started = _start(calls, position, tools, partial(_at, context, records[:over], first))
            result = started[position].result()
        elif tool.uses_episode:
            result = _run(tool, arguments, _at(context, records[:over], first, position))
        else:
            result = session.call(tool, arguments)
        end = ready + tool.latency + result.seconds
        records.append(
            CallRecord(
                call_id,
                call.name,
                arguments,
                result.status,
                result.value,
                result.error,
                tool.price + result.cost,
                result.tokens,
                ready,
                end,
                result.children,
            )
        )
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


def _run(tool: Tool, arguments: Any, context: Any) -> ToolResult:
    try:
        return tool.run(arguments, context)
    except ExpertError as error:  # an endpoint that is down is part of the world that an orchestrator lives in
        return ToolResult.failed(str(error))


class _Waiting:
    """A call under way in a thread."""

    def __init__(self, tool: Tool, arguments: Any, context: Any) -> None:
        self._tool = tool
        self._begun = time.monotonic()
        self._result: ToolResult | None = None
        self._error: Exception | None = None
        # a daemon: what hangs for good must not keep the process from ending
        self._thread = threading.Thread(target=self._answer, args=(arguments, context), name=tool.name, daemon=True)
        self._thread.start()

    def _answer(self, arguments: Any, context: Any) -> None:
        try:
            self._result = _run(self._tool, arguments, context)
        except Exception as error:
            self._error = error

    def result(self) -> ToolResult:
        """Return the result, or a TIMEOUT when it has not come in time."""
        timeout = self._tool.timeout
        self._thread.join(None if timeout is None else max(0.0, self._begun + timeout - time.monotonic()))
        if self._error is not None:
            raise self._error
        if self._result is not None:
            return self._result
        error = f"{self._tool.name} has not answered within {timeout:g} s. Try again later, or ask another."
        return ToolResult(Status.TIMEOUT, error=error, seconds=timeout or 0.0)


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
