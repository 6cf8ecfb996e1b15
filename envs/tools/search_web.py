"""Search on the web, through a provider: Tavily, or a recording of one that needs neither key nor network.

Pages are untrusted: a tool shows them as data and never executes them. A `RecordedProvider` without another provider
is the public fake: with it, episodes that search the web can be repeated.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from toolorchestra.envs.tools.search import MAX_QUERIES, Hit, SearchTool
from toolorchestra.toolscale.append_only import AppendOnly, read_appended
from toolorchestra.toolscale.errors import ExpertError, OptionError
from toolorchestra.toolscale.tool import ToolContext, ToolOrigin, ToolResult
from toolorchestra.toolscale.urls import without_credentials

TAVILY = "https://api.tavily.com/search"
_LARGEST_REPLY = 8_000_000  # bytes
_WHAT = "a recorded search"
T = TypeVar("T")
DESCRIPTION = "Search the web. All queries of a call run at once; each is charged."
"""Description of `web_search`, for the orchestrator: the same whether the web is real or simulated."""


class Provider(Protocol):
    """A provider of web search.

    Attributes:
        name: What recordings know it by, settings that change its answers included.
    """

    name: str

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most `k` pages, the best first; the id of each is its address.

        Raises:
            ExpertError: It failed for good.
        """


class _Page(msgspec.Struct):
    url: str
    title: str | None = None
    content: str | None = None
    score: float | None = None


class _Reply(msgspec.Struct):
    results: list[_Page]


class _StatusError(Exception):
    """The API answered with a status that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TavilyProvider:
    """Tavily's search API.

    Statuses 429 and 5xx, timeouts and broken connections are tried again, later each time.

    Args:
        api_key_env: Environment variable that holds the key.
        depth: ``basic`` (one credit a query) or ``advanced`` (two).
        url: Where the API is.
        timeout: Seconds that an attempt may take in all, however slowly the answer comes.
        retries: Attempts after the first.
        pause: Seconds before the second attempt, doubled before each further one.

    Raises:
        OptionError: The key's variable is unset.
    """

    def __init__(
        self,
        api_key_env: str = "TAVILY_API_KEY",
        *,
        depth: Literal["basic", "advanced"] = "basic",
        url: str = TAVILY,
        timeout: float = 20.0,
        retries: int = 3,
        pause: float = 1.0,
    ) -> None:
        if not (key := os.environ.get(api_key_env)):
            raise OptionError(
                f"api_key_env: expected a key in the environment variable {api_key_env}, which is not set. "
                f"Run: export {api_key_env}=…"
            )
        if timeout <= 0 or retries < 0 or pause < 0:
            raise OptionError(f"expected timeout > 0, retries and pause >= 0, got {timeout}, {retries} and {pause}.")
        if not url.startswith(("https://", "http://")):
            raise OptionError(f"expected a web address, got url={url!r}.")
        self.name = f"tavily-{depth}"
        self._depth, self._url, self._timeout, self._retries, self._pause = depth, url, timeout, retries, pause
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the pages that Tavily finds."""
        body = msgspec.json.encode({"query": query, "max_results": k, "search_depth": self._depth})
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(self._pause * 2 ** (attempt - 1))
            try:
                return within(self._timeout, functools.partial(self._ask, body))[:k]
            except _StatusError as wrong:
                error = ExpertError(str(wrong), outage=wrong.status not in _REFUSED)
                if wrong.status != 429 and wrong.status < 500:
                    raise error from None
            except TimeoutError:
                error = ExpertError(f"Tavily did not answer within {self._timeout:g} s. Raise timeout=.")
            except (OSError, ValueError, RecursionError) as wrong:  # no connection, or no reply that can be read
                reason = getattr(wrong, "reason", wrong)
                error = ExpertError(without_credentials(f"{self._url} cannot be asked: {reason}."))
        raise error

    def _ask(self, body: bytes) -> list[Hit]:
        request = urllib.request.Request(self._url, body, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                read = response.read(_LARGEST_REPLY + 1)
        except urllib.error.HTTPError as wrong:
            with wrong:
                text = wrong.read(300).decode(errors="replace")
            message = f"Tavily answered {wrong.code}: {text}. {_REMEDIES.get(wrong.code, '')}".strip()
            raise _StatusError(wrong.code, message) from None
        if len(read) > _LARGEST_REPLY:
            raise ValueError(f"its reply is longer than {_LARGEST_REPLY:,} bytes")
        pages = msgspec.json.decode(read, type=_Reply).results
        return [Hit(page.url, page.title or "", page.content or "", page.score or 0.0) for page in pages]


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what a function returns, run in a thread that is left behind after so many seconds.

    Raises:
        TimeoutError: It has not returned by then.
        Exception: What the function raised.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()  # a daemon: it must not keep the process from ending
    return done.result(seconds)


_REFUSED = (400, 413, 422)
"""Statuses that blame the query."""
_REMEDIES = {
    401: "Look at the key.",
    403: "Look at the key.",
    429: "Ask less often, or raise retries=.",
    432: "The plan's limit is reached.",
}


class _Record(msgspec.Struct, frozen=True):
    provider: str
    query: str
    k: int
    pages: list[Hit]


class RecordedProvider:
    """Answers from a file; a search that it lacks is sent to `provider` and added.

    Args:
        file: JSONL file of recorded searches.
        provider: Searches what the file lacks; without it, that is an error.
        name: Without `provider`: name of the provider whose recordings are used; None for all.

    Raises:
        AppendingError: The file cannot be read or written, or is no recording.
    """

    def __init__(self, file: str | Path, provider: Provider | None = None, name: str | None = None) -> None:
        self._file = Path(file)
        self._provider = provider
        self.name = provider.name if provider is not None else name or "recorded"
        self._wanted = self.name if provider is not None or name else None
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], list[Hit]] = {}
        self._record: AppendOnly[_Record] | None = None
        if provider is not None:
            self._record = AppendOnly(self._file, _Record, _WHAT)
        lines = self._record.lines if self._record else read_appended(self._file, _Record, _WHAT)[0]
        for line in lines:
            if self._wanted in (None, line.provider):
                self._known.setdefault((line.query, line.k), line.pages)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the recorded pages, or those that the provider finds."""
        with self._lock:
            pages = self._known.get((query, k))
        if pages is not None:
            return pages
        if self._provider is None or self._record is None:
            message = f"{self._file} has no search for {query[:100]!r} with k={k}, and nobody else is asked."
            raise ExpertError(message, outage=False)  # another query would have been answered
        pages = self._provider.search(query, k)
        with self._lock:
            known = self._known.setdefault((query, k), pages)
        if known is pages:
            self._record.add(_Record(self.name, query, k, pages))
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordedProvider, (self._file, self._provider, self._wanted)

    def __deepcopy__(self, memo: dict[int, object]) -> RecordedProvider:
        return self  # one object alone appends to the file

    def close(self) -> None:
        """Close the file."""
        if self._record is not None:
            self._record.close()


class WebSearch(SearchTool):
    """Search on the web through a `provider`, all queries of a message at once.

    `timeout` is in seconds of real time, for a call; for the other arguments see `SearchTool`. A Tavily credit is
    $0.008.
    """

    origin = ToolOrigin("search", provider="web", self_hosted=False)
    blocking = True

    def __init__(
        self,
        provider: Provider,
        *,
        name: str = "web_search",
        k: int = 5,
        price: float = 0.008,
        latency: float = 2.0,
        timeout: float = 120.0,
    ) -> None:
        super().__init__(name, DESCRIPTION, k=k, price=price, latency=latency)
        self.provider = provider
        self.timeout = timeout

    def hits(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the pages that the provider finds, asked for all queries at once."""
        with ThreadPoolExecutor(MAX_QUERIES) as threads:
            return list(threads.map(lambda query: self.provider.search(query, k), queries))

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Return the pages found for each query; one query that fails fails the call.

        Raises:
            ExpertError: The provider failed for good.
        """
        try:
            return super().run(arguments, context)
        except ExpertError as error:
            if error.outage:
                raise
            return ToolResult.failed(str(error))
