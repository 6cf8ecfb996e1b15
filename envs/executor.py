"""The executor: runs the calls of one turn and books their cost and virtual time.

Calls that only read run concurrently: on the virtual clock they start together, and a turn lasts as long as
its slowest one. A call that writes is a barrier: it starts when all before it have ended, and what follows
waits for it. Calls run in the order written, each on its own; one that errs does not stop the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from toolorchestra.envs.episode import CallRecord
from toolorchestra.envs.parsing import ParsedCall
from toolorchestra.toolscale.errors import unknown_name
from toolorchestra.toolscale.tool import ArgumentError, Status, Tool

if TYPE_CHECKING:
    from toolorchestra.envs.play import WorldSession


def execute(
    calls: Sequence[ParsedCall], tools: Mapping[str, Tool], session: WorldSession, *, clock: float, first: int
) -> list[CallRecord]:
    """Run `calls` and return their records, in the order written.

    Args:
        calls: Calls of one turn.
        tools: Tools on offer, by name.
        session: The episode's state.
        clock: Virtual time at which the turn begins, in seconds.
        first: Number of the first call, from which ids are made for calls that have none.
    """
    records = []
    given = {call.id for call in calls} if len(calls) > 1 else ()
    ready = latest = clock  # when the next call may start; when all so far have ended
    for number, call in enumerate(calls, first):
        call_id = call.id or f"call_{number}"
        if call_id in given and not call.id:
            call_id = f"call_{number}_"
        error = call.error
        tool = None
        if error is None:
            tool = tools.get(call.name)
            if tool is None:
                error = unknown_name("tool", call.name, tools)
        if tool is None:
            records.append(_refused(call_id, call.name, error or "", ready))
            continue
        try:
            arguments = tool.decode(call.arguments)
        except ArgumentError as wrong:
            records.append(_refused(call_id, call.name, str(wrong), ready))
            continue
        if tool.effect == "write":
            ready = latest
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
            )
        )
        latest = max(latest, end)
        if tool.effect == "write":
            ready = latest
    return records


def _refused(call_id: str, name: str, error: str, now: float) -> CallRecord:
    return CallRecord(call_id, name, None, Status.PARSE_ERR, error=error, start=now, end=now)
