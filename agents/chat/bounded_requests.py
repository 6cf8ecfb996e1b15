"""Bounds on what a server can do to a request: how long an attempt takes in all, and how long its answer is.

The timeouts of HTTP clients are for each read, so a server that sends one byte a second is never late. Here requests
run on an event loop, where whatever they wait for can be given up; thousands can be under way in its one thread. Not
covered: retries, and the deadline over all attempts (`toolorchestra.agents.chat.openai_chat`).
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import urllib.request
import weakref
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

MAX_REPLY_BYTES = 64_000_000
"""Bytes of an answer, decompressed."""
_KEPT_SECONDS = 4.0
"""Seconds for which an idle connection is kept: less than servers do, of which the shortest is uvicorn's 5."""


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine on the event loop of this process, from any thread."""
    with _lock:
        loop = _loop(os.getpid())
    return asyncio.run_coroutine_threadsafe(work, loop)


_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of a process; it runs in a thread that does not keep the process from ending."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="requests", daemon=True).start()
    return loop


class Response(NamedTuple):
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    reason: str


def _close_abandoned(session: aiohttp.ClientSession, loop: asyncio.AbstractEventLoop, process: int) -> None:
    """Close the connections of a client that nobody has closed and nobody has any more."""
    if process == os.getpid() and loop.is_running() and not session.closed:
        asyncio.run_coroutine_threadsafe(session.close(), loop)


class BoundedClient:
    """Asks one server, over connections that are kept; used on the event loop of `submit` only.

    Args:
        url: Its address, which the paths of requests are appended to.
        headers: Headers of every request.
        timeout: Seconds to wait for a connection, and for the next piece of an answer.
        attempt: Seconds for all of a request and its answer; None: no bound.
    """

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float, attempt: float | None) -> None:
        self._url, self._headers, self._timeout, self._attempt = url, dict(headers), timeout, attempt
        self._proxy = _proxy(url)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes) -> Response:
        """Send a body to the address itself, and return the answer; see `request`."""
        return await self.request("POST", "", body)

    async def request(self, method: str, path: str = "", body: bytes | None = None) -> Response:
        """Send a request, and return the answer.

        Raises:
            TimeoutError: It was not there in time.
            aiohttp.ClientError: The server cannot be talked to, or its answer is longer than `MAX_REPLY_BYTES`.
        """
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(None, sock_connect=self._timeout, sock_read=self._timeout),
            )
            left = weakref.finalize(self, _close_abandoned, self._session, asyncio.get_running_loop(), os.getpid())
            left.atexit = False
        asked = self._session.request(method, self._url + path, data=body, proxy=self._proxy)
        async with asyncio.timeout(self._attempt), asked as found:
            pieces, size = [], 0
            async for piece in found.content.iter_any():
                size += len(piece)
                if size > MAX_REPLY_BYTES:
                    raise aiohttp.ClientPayloadError(f"its answer is longer than {MAX_REPLY_BYTES:,} bytes")
                pieces.append(piece)
            return Response(found.status, found.headers, b"".join(pieces), found.reason or "")

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for an address, if there is one."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")
