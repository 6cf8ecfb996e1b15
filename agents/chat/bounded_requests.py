"""Bounds on what a server can do to a request: how long an attempt takes in all, and how long its answer is.

The timeouts of HTTP clients are for each read, so a server that sends one byte a second is never late. Here requests
run on an event loop, where whatever they wait for can be given up. Not covered: retries, which are the client's, and
the deadline over all attempts (`toolorchestra.agents.chat.openai_chat`).
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

MAX_REPLY_BYTES = 64_000_000
"""Bytes of an answer, decompressed."""
_NOT_KEPT = (b"content-encoding", b"content-length", b"transfer-encoding")
"""Headers that do not fit an answer that was read already."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the event loop of this process, from any thread, and return its result."""
    with _lock:
        loop = _loop(os.getpid())
    return asyncio.run_coroutine_threadsafe(work, loop).result()


_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of a process; it runs in a thread that does not keep the process from ending."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="requests", daemon=True).start()
    return loop


def bounded_client(attempt_seconds: float | None) -> httpx2.AsyncClient:
    """Return a client for the `openai` library whose answers are read at once, each attempt within so many seconds.

    What exceeds the time, or `MAX_REPLY_BYTES`, raises an error that the library tries again.
    """
    import httpx2
    import openai

    class BoundedClient(openai.DefaultAsyncHttpxClient):
        async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
            try:
                async with asyncio.timeout(attempt_seconds):
                    response = await super().send(request, stream=True, **options)
                    try:
                        content = await _content(response)
                    finally:
                        await response.aclose()
            except TimeoutError:
                raise httpx2.ReadTimeout("The answer was not there in time.", request=request) from None
            if content is None:
                reason = f"its answer is longer than {MAX_REPLY_BYTES:,} bytes"
                raise httpx2.RemoteProtocolError(reason, request=request)
            headers = [(name, value) for name, value in response.headers.raw if name.lower() not in _NOT_KEPT]
            return httpx2.Response(response.status_code, headers=headers, content=content, request=request)

    return BoundedClient()


async def _content(response: httpx2.Response) -> bytes | None:
    """Return the content of a response, or None if it is too long."""
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > MAX_REPLY_BYTES:
            return None
        pieces.append(piece)
    return b"".join(pieces)
