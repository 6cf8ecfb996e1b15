"""`BatchCalls`: a function of a batch, called by coroutines that have one item each.

This is how episodes that are played independently share a model that is most efficient on many prompts at once. Not
covered: models behind a server, which are asked for each item by itself, since the server makes the batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class BatchCalls(Generic[Q, A]):
    """Calls a function with all the items that wait when it is free.

    The function runs on the event loop, once every coroutine that could go on has done so. Coroutines that only wait
    for this function therefore share each of its calls, in the order in which they asked, as if they took turns
    together; one that waits for something else joins when it is ready, and holds up nobody.

    Args:
        answer: Returns the answer to each item, in their order. An answer that is an exception is raised to who asked.

    >>> async def main():
    ...     calls = BatchCalls(lambda items: print(items) or [item.upper() for item in items])
    ...     return await asyncio.gather(*map(calls.ask, "abc"))
    >>> asyncio.run(main())
    ['a', 'b', 'c']
    ['A', 'B', 'C']
    """

    def __init__(self, answer: Callable[[list[Q]], Sequence[A | Exception]]) -> None:
        self._answer = answer
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []

    async def ask(self, item: Q) -> A:
        """Return the answer to an item."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._call)  # after all that is ready now
        answer: asyncio.Future[A] = loop.create_future()
        self._waiting.append((item, answer))
        return await answer

    def _call(self) -> None:
        waiting = [(item, future) for item, future in self._waiting if not future.done()]  # cancelled ones are left out
        self._waiting = []
        if not waiting:
            return
        try:
            answers: Sequence[A | Exception] = self._answer([item for item, _ in waiting])
        except Exception as error:
            answers = [error] * len(waiting)
        for (_, future), answer in zip(waiting, answers, strict=True):
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
