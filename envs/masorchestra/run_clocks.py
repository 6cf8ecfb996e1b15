"""The clocks of a run: each starts agents, and returns which one ends next, when, and with what result.

On the `VirtualClock` agents answer at once and say how long they took. On the `WallClock` each works in a thread, and
time is measured.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
import time
from collections.abc import Callable

import msgspec

from toolorchestra.toolscale.tools.tool import Status, ToolResult

Job = Callable[[], tuple[ToolResult, str]]
"""Asks an agent; returns the result, and why the agent broke down if it did."""
Ended = tuple[str, ToolResult, str]
"""Id of an agent that has ended, its result, and why it broke down if it did."""


class VirtualClock:
    """Agents answer when they are started, and end after the time that they say they took.

    Attributes:
        now: Virtual seconds since the run began.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._ends: list[tuple[float, int, Ended]] = []
        self._starts = itertools.count()

    def start(self, agent_id: str, job: Job, timeout: float | None, stop: threading.Event) -> None:
        """Let an agent begin."""
        result, broken = job()
        seconds = result.seconds
        if timeout is not None and seconds > timeout:
            seconds, result = timeout, _timed_out(timeout, result)
        heapq.heappush(self._ends, (self.now + seconds, next(self._starts), (agent_id, result, broken)))

    def wait(self) -> Ended:
        """Return the agent that ends next; the time is then that of its end."""
        self.now, _, ended = heapq.heappop(self._ends)
        return ended

    def cancel(self) -> None:
        """Do nothing: agents have answered as soon as they are asked."""


class WallClock:
    """Every agent works in a thread of its own; one that exceeds its timeout is abandoned."""

    def __init__(self) -> None:
        self._origin = time.monotonic()
        self._done: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._deadlines: dict[str, tuple[float, float]] = {}  # of agents at work: when, and after how long
        self._at_work: dict[str, tuple[threading.Thread, threading.Event]] = {}

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._origin

    def start(self, agent_id: str, job: Job, timeout: float | None, stop: threading.Event) -> None:
        """Let an agent begin; `stop` is set when its answer is no longer needed."""
        self._deadlines[agent_id] = (self.now + timeout, timeout) if timeout else (threading.TIMEOUT_MAX, 0.0)
        # a daemon: an agent that hangs must not keep the process from ending
        thread = threading.Thread(target=lambda: self._done.put((agent_id, *job())), name=agent_id, daemon=True)
        self._at_work[agent_id] = thread, stop
        thread.start()

    def wait(self) -> Ended:
        """Wait for the agent that ends next, or is the first to exceed its timeout."""
        while True:
            latest = min(self._deadlines, key=lambda agent_id: self._deadlines[agent_id][0])
            deadline, timeout = self._deadlines[latest]
            try:
                ended = self._done.get(timeout=max(0.0, deadline - self.now))
            except queue.Empty:
                result = _timed_out(timeout)
                ended = latest, result, str(result.error)
                self._at_work[latest][1].set()
            if self._deadlines.pop(ended[0], None) is not None:  # else it was abandoned before
                del self._at_work[ended[0]]
                return ended

    def cancel(self) -> None:
        """Tell all agents at work to stop, and return when they have."""
        for _, stop in self._at_work.values():
            stop.set()
        for thread, _ in self._at_work.values():
            thread.join()


def _timed_out(seconds: float, result: ToolResult = ToolResult.ok(None)) -> ToolResult:  # noqa: B008
    error = f"has not answered within {seconds:g} s"
    return msgspec.structs.replace(result, status=Status.TIMEOUT, value=None, error=error)
