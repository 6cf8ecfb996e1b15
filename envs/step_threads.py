"""`StepThreads`: steps of environments, on the event loop where they take no time, in threads where they may block.

A simulated step is over in microseconds and would pay more for being handed to a thread than for itself; a real tool, a
sandbox or an expert at a server can take seconds, in which other episodes go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import gymnasium

with contextlib.suppress(ImportError):  # there is none on Windows
    import resource

T = TypeVar("T")

WAIT = 0.005
"""Seconds for which a step has waited if it is to count as one that blocks."""


class StepThreads:
    """Runs steps of environments so that none holds up the others.

    Whether a step may block is what the environment says by its attribute ``may_block``; those of this library know it
    from their tools. Of an environment without it the steps are measured: once one has slept for `WAIT` seconds, those
    that follow run in threads.

    Args:
        threads: Maximum number of steps at a time.
    """

    def __init__(self, threads: int) -> None:
        self._count = threads
        self._threads: ThreadPoolExecutor | None = None
        self._seen_waiting = False

    async def run(self, env: gymnasium.Env[Any, Any] | Any, step: Callable[[], T]) -> T:
        """Return what a step of an environment, or a reset, returns."""
        may_block = getattr(getattr(env, "unwrapped", env), "may_block", None)
        if may_block is None and not self._seen_waiting:
            return self._measured(step)
        if may_block is False:
            return step()
        self._threads = self._threads or ThreadPoolExecutor(self._count, "step")
        return await asyncio.get_running_loop().run_in_executor(self._threads, step)

    def _measured(self, step: Callable[[], T]) -> T:
        slept, began, worked = _sleeps(), time.perf_counter(), time.thread_time()
        result = step()
        waited = time.perf_counter() - began - (time.thread_time() - worked)
        self._seen_waiting = waited > WAIT and _sleeps() > slept  # not if it was only kept from a core by others
        return result

    def close(self) -> None:
        """Free the threads; steps under way end by themselves."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _sleeps() -> int:
    """Return how often this thread has given up its core by itself; where that is not counted, always more often."""
    try:
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    except (AttributeError, NameError):
        return time.perf_counter_ns()
