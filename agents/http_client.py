"""The one HTTP client of the library, for chat models, vLLM servers and web search alike.

A request is tried again where that may help, within a deadline, and within limits of how many are under way and how
many are sent in a minute. The timeouts of HTTP clients are for each read, so a server that sends one byte a second is
never late. Here requests run on an event loop, where whatever they wait for can be given up; thousands can be under way
in its one thread. Not covered: what is asked, and how an answer is read: each caller gives a function that reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import functools
import itertools
import math
import os
import random
import threading
import time
import urllib.request
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from toolorchestra.toolscale.common.errors import OptionError, ToolOrchestraError
from toolorchestra.toolscale.common.urls import without_credentials

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

MAX_REPLY_BYTES = 64_000_000
"""Bytes of an answer, decompressed."""
_KEPT_SECONDS = 4.0
"""Seconds for which an idle connection is kept: less than servers do, of which the shortest is uvicorn's 5."""
_FIRST_PAUSE, _LONGER, _MAX_PAUSE = 0.05, 5.0, 8.0
"""Seconds before another attempt, how many times as long before the next, and at most.

What fails now and then costs little, and five attempts still span seven seconds or so, for a server that restarts.
"""
_MAX_RETRY_AFTER = 120.0
"""Seconds that a server may ask to wait for in ``Retry-After``; if it asks for more, the request fails."""
_WINDOW = 60.0
"""Seconds that limits per minute look back."""
_NO_HEADERS: Mapping[str, str] = {}
_MAX_SHOWN = 300
"""Characters of a server's message that are shown."""


class BrokenOffError(Exception):
    """An answer ended before it was whole."""


class RefusedError(Exception):
    """A server refuses the request; `status` is the HTTP status that it gives, or names in its answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RequestError(Exception):
    """A request failed for good; the text says what was expected and what came, without a full stop.

    Attributes:
        about: The status of a refusal, or ``timeout``, ``deadline``, ``unreachable``, ``broken off`` or ``unreadable``.
    """

    def __init__(self, text: str, about: int | str) -> None:
        super().__init__(without_credentials(text).rstrip("."))
        self.about = about

    @property
    def blames_request(self) -> bool:
        """Whether the server refused what the request holds, so that it may answer another."""
        return self.about in (400, 413, 422)


class Response(NamedTuple):
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    reason: str


class Sent(msgspec.Struct):
    """A request that was sent, when, and the tokens that it counts with."""

    at: float
    tokens: int


class RateLimits:
    """Limits of requests and of tokens in any 60 seconds; it is told the time, in seconds.

    A request that alone exceeds the tokens of a minute is sent when no other was sent in the last minute.

    >>> limits = RateLimits(requests=1)
    >>> limits.add(0, now=10.0)
    Sent(at=10.0, tokens=0)
    >>> limits.wait(0, now=30.0)
    40.0
    """

    def __init__(self, requests: int | None = None, tokens: int | None = None) -> None:
        if not all(limit is None or limit >= 1 for limit in (requests, tokens)):
            raise OptionError(
                f"expected requests_per_minute and tokens_per_minute of at least 1, got {requests} and {tokens}."
            )
        self._requests, self._tokens = requests, tokens
        self._sent: deque[Sent] = deque()

    def wait(self, tokens: int, now: float) -> float:
        """Return the seconds until the oldest request leaves the minute; 0 if one of so many tokens may be sent."""
        while self._sent and now - self._sent[0].at >= _WINDOW:
            self._sent.popleft()
        full = self._requests is not None and len(self._sent) >= self._requests
        spent = sum(sent.tokens for sent in self._sent)
        if self._sent and (full or (self._tokens is not None and spent + tokens > self._tokens)):
            return _WINDOW - (now - self._sent[0].at)
        return 0.0

    def add(self, tokens: int, now: float) -> Sent:
        """Count a request that is sent; its tokens may be corrected when they are known."""
        sent = Sent(now, tokens)
        if self._requests is not None or self._tokens is not None:
            self._sent.append(sent)
        return sent


class HTTPClient:
    """Asks one server, over connections that are kept, from any thread and any event loop.

    Statuses 408, 409, 429 and 5xx, timeouts, broken connections, and answers that break off or cannot be read are tried
    again, with exponential backoff or after the time in ``Retry-After``. Copies, pickles and forked processes have
    connections of their own. Proxies are those that the environment names.

    Args:
        url: Its address, which the paths of requests are appended to; credentials in it are used and not shown.
        headers: Returns the headers of every request: a pickle is to hold no key.
        timeout: Seconds to wait for a connection, and for the next piece of an answer.
        whole: Whether an attempt and its answer may take no longer than `timeout` in all.
        deadline: Seconds for a request with all attempts and pauses; None: no bound.
        retries: Attempts after the first.
        pause: Seconds before the second attempt, five times as many before each further one, up to 8.
        patience: How many times as many retries an answer has that cannot be read, of a server that gave others.
        concurrency: Maximum number of functions under way (`submit`); None: no maximum.
        limits: How many requests may be sent in a minute (`admitted`).

    Attributes:
        url: The address as it is shown.
        answered: Whether the server has given an answer that could be read.
    """

    _NOT_COPIED: ClassVar[frozenset[str]] = frozenset(
        ("_lock", "_session", "_turns", "_admission", "_under_way", "_process")
    )

    def __init__(
        self,
        url: str,
        headers: Callable[[], Mapping[str, str]] = dict,
        *,
        timeout: float,
        whole: bool = True,
        deadline: float | None = None,
        retries: int = 4,
        pause: float | None = None,
        patience: int = 1,
        concurrency: int | None = None,
        limits: RateLimits | None = None,
    ) -> None:
        self._address, self._headers, self._proxy = url, headers, proxy_for(url)
        self._timeout, self._whole, self._deadline = timeout, whole, deadline
        self.retries, self._pause, self._patience = retries, pause, patience
        self._concurrency, self._limits = concurrency, limits or RateLimits()
        self.url, self.answered = without_credentials(url), False
        self._prepare()

    def _prepare(self) -> None:
        """Make what belongs to one process, and to one copy."""
        self._lock, self._process = threading.Lock(), os.getpid()
        self._session: aiohttp.ClientSession | None = None
        self._turns: contextlib.AbstractAsyncContextManager[Any] = contextlib.nullcontext()
        if self._concurrency is not None:
            self._turns = asyncio.Semaphore(self._concurrency)
        self._admission = asyncio.Lock()
        self._under_way: set[Future[Any]] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._NOT_COPIED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def submit(self, function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> Future[T]:
        """Run a coroutine function, such as `ask`, on the event loop of requests when it is its turn."""

        async def in_turn() -> T:
            async with self._turns:
                return await function(*arguments)

        with self._lock:
            if self._process != os.getpid():  # forked: event loop and connections are the parent's
                self._prepare()
            future = submit(in_turn())
            self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    async def admitted(self, tokens: int) -> Sent:
        """Wait until the limits allow a request of so many tokens, and count it."""
        clock = asyncio.get_running_loop().time
        async with self._admission:
            while (seconds := self._limits.wait(tokens, clock())) > 0:
                await asyncio.sleep(seconds)
            return self._limits.add(tokens, clock())

    async def ask(
        self, read: Callable[[Response], T], path: str = "", body: bytes | None = None, what: str = "an answer"
    ) -> T:
        """Send a request, again as long as that may help, and return what a function reads in the answer.

        Args:
            read: Raises a ValueError where the answer is not what it should be, `BrokenOffError` or `RefusedError`.
            path: Appended to the address.
            body: Is sent by POST; None: GET.
            what: What the answer should be, for the error of one that cannot be read.

        Raises:
            RequestError: It failed for good.
        """
        try:
            return await asyncio.wait_for(self._attempts(read, path, body, what), self._deadline)
        except TimeoutError:
            where = _shown(self.url, path)
            text = f"expected an answer from {where} within {self._deadline or 0:g} s in all, none came"
            raise RequestError(text, "deadline") from None

    async def _attempts(self, read: Callable[[Response], T], path: str, body: bytes | None, what: str) -> T:
        for attempt in itertools.count():
            waits, limit, headers = attempt, self.retries, _NO_HEADERS
            response = None
            try:
                response = await self.request(path, body)
                headers = response.headers
                if response.status >= 400:
                    raise RefusedError(response.status, message(response))
                found = read(response)
            except ToolOrchestraError:
                raise
            except Exception as error:
                failure = self._failure(error, response, _shown(self.url, path), what, attempt + 1)
                if isinstance(error, RefusedError) and not (response and may_pass(response)):
                    raise failure from error
                if failure.about == "unreadable" and self.answered and self._patience > 1:
                    waits, limit = 0, self._patience * limit  # a server with a fault that comes and goes
                if failure.about == 429:
                    waits += 1  # it has too many requests: the next one is not to come at once
                if attempt >= limit:
                    raise failure from error
            else:
                self.answered = True
                return found
            await asyncio.sleep(pause(waits, headers, self._pause))
        raise AssertionError("the last attempt ends in an answer or an error")

    def _failure(self, error: Exception, response: Response | None, where: str, what: str, tries: int) -> RequestError:
        """Return an error that says what was expected of an attempt, and what came."""
        count = f"in {tries} attempt{'s' * (tries > 1)}"
        reason = " ".join(str(error).split())[:_MAX_SHOWN].rstrip(".") or type(error).__name__
        match error:
            case RefusedError(status=status):
                return RequestError(f"expected an answer from {where}, got status {status}: {reason}", status)
            case BrokenOffError():
                text = f"expected a whole answer from {where}, it broke off {count}: {reason}"
                return RequestError(text, "broken off")
            case TimeoutError() if response is None:
                text = f"expected an answer from {where} within {self._timeout:g} s, none came {count}"
                return RequestError(text, "timeout")
        if response is None:  # no connection, or the client cannot read what came
            return RequestError(
                f"expected a server at {self.url}, could not reach it {count} ({reason})", "unreachable"
            )
        text = response.content[:200].decode(errors="replace")
        return RequestError(f"expected {what} from {where}, got {text!r} {count} ({reason})", "unreadable")

    async def request(self, path: str = "", body: bytes | None = None) -> Response:
        """Send a request once, and return the answer; called on the event loop of requests only.

        Raises:
            TimeoutError: It was not there in time.
            aiohttp.ClientError: The server cannot be talked to, or its answer is longer than `MAX_REPLY_BYTES`.
        """
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers(),
                timeout=aiohttp.ClientTimeout(None, sock_connect=self._timeout, sock_read=self._timeout),
            )
            left = weakref.finalize(self, _close_abandoned, self._session, asyncio.get_running_loop(), os.getpid())
            left.atexit = False
        method = "GET" if body is None else "POST"
        asked = self._session.request(method, self._address + path, data=body, proxy=self._proxy)
        async with asyncio.timeout(self._timeout if self._whole else None), asked as found:
            pieces, size = [], 0
            async for piece in found.content.iter_any():
                size += len(piece)
                if size > MAX_REPLY_BYTES:
                    raise aiohttp.ClientPayloadError(f"its answer is longer than {MAX_REPLY_BYTES:,} bytes")
                pieces.append(piece)
            return Response(found.status, found.headers, b"".join(pieces), found.reason or "")

    def close(self) -> None:
        """Wait for what is under way and free the connections; a later request opens new ones."""
        wait(tuple(self._under_way))
        with self._lock:
            session, self._session = self._session, None
        if session is not None and self._process == os.getpid():
            submit(session.close()).result()


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


def _shown(url: str, path: str) -> str:
    return url + path.partition("?")[0]


def _close_abandoned(session: aiohttp.ClientSession, loop: asyncio.AbstractEventLoop, process: int) -> None:
    """Close the connections of a client that nobody has closed and nobody has any more."""
    if process == os.getpid() and loop.is_running() and not session.closed:
        asyncio.run_coroutine_threadsafe(session.close(), loop)


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for an address, if there is one."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


def key_in(variable: str, option: str = "api_key_env") -> str:
    """Return the key that an environment variable holds; the error calls the option that names it so."""
    if not (key := os.environ.get(variable)):
        raise OptionError(
            f"{option}: expected a key in the environment variable {variable}, which is not set. "
            f"Run: export {variable}=…"
        )
    return key


def message(response: Response) -> str:
    """Return what a server says about its refusal, in OpenAI's form or one of its own."""
    try:
        body = msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return response.content[:_MAX_SHOWN].decode(errors="replace") or response.reason
    found = body.get("error") or body if isinstance(body, dict) else body
    if isinstance(found, dict) and isinstance(found.get("message"), str):
        return str(found["message"])
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()


def may_pass(response: Response) -> bool:
    """Return whether a request that a server refused may be sent again; it can say so itself."""
    if (after := retry_after(response.headers)) is not None and after > _MAX_RETRY_AFTER:
        return False
    if (wanted := response.headers.get("x-should-retry")) in ("true", "false"):
        return wanted == "true"
    return response.status in (408, 409, 429) or response.status >= 500


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds for which a server asks to wait, which it gives as a number or as a date."""
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers[name]) / divisor
        except (KeyError, ValueError):
            continue
        if not math.isnan(seconds):
            return seconds
    try:
        return float(email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def pause(attempt: int, headers: Mapping[str, str], first: float | None = None) -> float:
    """Return the seconds to wait before the next attempt; some at random, so that not all come back at once."""
    after = retry_after(headers)
    if after is not None and 0 < after <= _MAX_RETRY_AFTER:
        return after
    first = _FIRST_PAUSE if first is None else first
    return min(first * _LONGER**attempt, _MAX_PAUSE) * random.uniform(0.75, 1.0)
