"""Running coroutines from ordinary code: to their end, or item by item, and several that share what there is to do.

Episodes are coroutines on one event loop, so that one that waits holds up none of the others. Callers see functions and
iterators. Not covered: calls that are answered a batch at a time (`toolorchestra.agents.batch_calls`), and steps of
environments that block (`toolorchestra.envs.step_threads`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@contextmanager
def event_loop() -> Iterator[Run]:
    """Yield a function that runs a coroutine to its end on a new event loop, each time on the same one.

    In a thread whose event loop runs already, as that of a notebook does, the new one runs in a thread of its own.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner() as runner:
            yield runner.run
        return
    with ThreadPoolExecutor(1, "event-loop") as thread:
        runner = asyncio.Runner()
        try:
            yield lambda work: thread.submit(runner.run, work).result()
        finally:
            thread.submit(runner.close).result()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and return its result."""
    with event_loop() as run_here:
        result: T = run_here(work)
        return result


def iterate(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield what an asynchronous generator yields. Between two items nothing of it runs; it is closed at the end."""
    with event_loop() as run_here:
        while True:
            try:
                item = run_here(_next(items))
            except StopAsyncIteration:
                return
            yield item


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Run coroutines at the same time; if one fails, cancel the others, and raise its error."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
