"""`StepThreads`: steps of environments, on the event loop where they take no time, in threads where they may block.

A simulated step is over in microseconds and would pay more for being handed to a thread than for itself, though far
less than for a model's reply; a real tool, a sandbox or an expert at a server can take seconds, in which other episodes
go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import gymnasium

T = TypeVar("T")


class StepThreads:
    """Runs steps of environments so that none holds up the others.

    Whether a step may block is what the environment says by its attribute ``may_block``; those of this library know it
    from their tools. Where it is None or missing, as in foreign environments, a step may block and runs in a thread. A
    foreign environment whose steps take no time, or must all run in the thread that made it, sets it to False.

    Args:
        threads: Maximum number of steps at a time.
    """

    def __init__(self, threads: int) -> None:
        self._count = threads
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, env: gymnasium.Env[Any, Any] | Any, step: Callable[[], T]) -> T:
        """Return what a step of an environment, or a reset, returns."""
        if getattr(getattr(env, "unwrapped", env), "may_block", None) is False:
            return step()
        self._threads = self._threads or ThreadPoolExecutor(self._count, "step")
        return await asyncio.get_running_loop().run_in_executor(self._threads, step)

    def close(self) -> None:
        """Free the threads; steps under way end by themselves."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
