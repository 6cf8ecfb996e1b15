"""Providers of web search: Tavily, Bing and DuckDuckGo, asked over HTTP.

Statuses 429 and 5xx, timeouts, broken connections and replies that cannot be read are tried again, later each time. Not
covered: the tool that asks a provider, and recordings (`toolorchestra.envs.tools.search.search_web`).
"""

from __future__ import annotations

import functools
import html.parser
import os
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Literal, TypeVar

import msgspec

from toolorchestra.envs.tools.search.search import Hit
from toolorchestra.toolscale.common.errors import ExpertError, OptionError
from toolorchestra.toolscale.common.urls import without_credentials

TAVILY = "https://api.tavily.com/search"
BING = "https://api.bing.microsoft.com/v7.0/search"
DUCKDUCKGO = "https://html.duckduckgo.com/html/"
_LARGEST_REPLY = 8_000_000  # bytes
_REFUSED = (400, 413, 422)
"""Statuses that blame the query."""
_REMEDIES = {
    401: "Look at the key.",
    403: "Look at the key.",
    410: "Look at url=: this service was shut down.",
    429: "Ask less often, or raise retries=.",
    432: "The plan's limit is reached.",
}
T = TypeVar("T")


class _StatusError(Exception):
    """The API answered with a status that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HTTPProvider(ABC):
    """A provider that is asked over HTTP. Override `request` and `pages`.

    Args:
        url: Where it is.
        timeout: Seconds that an attempt may take in all, however slowly the answer comes.
        retries: Attempts after the first.
        pause: Seconds before the second attempt, doubled before each further one.

    Attributes:
        title: What errors call it.
        name: What recordings know it by, settings that change its answers included.
    """

    title: str
    name: str

    def __init__(self, url: str, timeout: float = 20.0, retries: int = 3, pause: float = 1.0) -> None:
        if timeout <= 0 or retries < 0 or pause < 0:
            raise OptionError(f"expected timeout > 0, retries and pause >= 0, got {timeout}, {retries} and {pause}.")
        if not url.startswith(("https://", "http://")):
            raise OptionError(f"expected a web address, got url={url!r}.")
        self._url, self._timeout, self._retries, self._pause = url, timeout, retries, pause

    @abstractmethod
    def request(self, query: str, k: int) -> urllib.request.Request:
        """Return the request that asks for `k` pages."""

    @abstractmethod
    def pages(self, reply: bytes) -> list[Hit]:
        """Return the pages of a reply.

        Raises:
            ValueError: It is no reply of this provider.
        """

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most `k` pages, the best first.

        Raises:
            ExpertError: The provider failed for good.
        """
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(self._pause * 2 ** (attempt - 1))
            try:
                return within(self._timeout, functools.partial(self._ask, self.request(query, k)))[:k]
            except _StatusError as wrong:
                error = ExpertError(str(wrong), outage=wrong.status not in _REFUSED)
                if wrong.status != 429 and wrong.status < 500:
                    raise error from None
            except TimeoutError:
                error = ExpertError(f"{self.title} did not answer within {self._timeout:g} s. Raise timeout=.")
            except (OSError, ValueError, RecursionError) as wrong:  # no connection, or no reply that can be read
                reason = getattr(wrong, "reason", wrong)
                error = ExpertError(without_credentials(f"{self._url} cannot be asked: {reason}."))
        raise error

    def _ask(self, request: urllib.request.Request) -> list[Hit]:
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                read = response.read(_LARGEST_REPLY + 1)
        except urllib.error.HTTPError as wrong:
            with wrong:
                text = wrong.read(300).decode(errors="replace")
            message = f"{self.title} answered {wrong.code}: {text}. {_REMEDIES.get(wrong.code, '')}".strip()
            raise _StatusError(wrong.code, message) from None
        if len(read) > _LARGEST_REPLY:
            raise ValueError(f"its reply is longer than {_LARGEST_REPLY:,} bytes")
        return self.pages(read)


def _key(variable: str) -> str:
    if not (key := os.environ.get(variable)):
        raise OptionError(
            f"api_key_env: expected a key in the environment variable {variable}, which is not set. "
            f"Run: export {variable}=…"
        )
    return key


class _TavilyPage(msgspec.Struct):
    url: str
    title: str | None = None
    content: str | None = None
    raw_content: str | None = None
    score: float | None = None


class _TavilyReply(msgspec.Struct):
    results: list[_TavilyPage]


class TavilyProvider(HTTPProvider):
    """Tavily's search API.

    Args:
        api_key_env: Environment variable that holds the key.
        depth: ``basic`` (one credit a query) or ``advanced`` (two).
        whole_pages: Whether the text of a page is the page, rather than what of it fits the query.
        url: As of `HTTPProvider`, and so are `timeout`, `retries` and `pause`.

    Raises:
        OptionError: The key's variable is unset, or an option is out of its range.
    """

    title = "Tavily"

    def __init__(
        self,
        api_key_env: str = "TAVILY_API_KEY",
        *,
        depth: Literal["basic", "advanced"] = "basic",
        whole_pages: bool = False,
        url: str = TAVILY,
        timeout: float = 20.0,
        retries: int = 3,
        pause: float = 1.0,
    ) -> None:
        super().__init__(url, timeout, retries, pause)
        self.name = f"tavily-{depth}{'-pages' if whole_pages else ''}"
        self._depth, self._whole = depth, whole_pages
        self._headers = {"Authorization": f"Bearer {_key(api_key_env)}", "Content-Type": "application/json"}

    def request(self, query: str, k: int) -> urllib.request.Request:
        """Return the request: the query as JSON."""
        body = {"query": query, "max_results": k, "search_depth": self._depth}
        if self._whole:
            body["include_raw_content"] = True
        return urllib.request.Request(self._url, msgspec.json.encode(body), self._headers)

    def pages(self, reply: bytes) -> list[Hit]:
        """Return the pages of a reply, with Tavily's scores."""
        found = msgspec.json.decode(reply, type=_TavilyReply).results
        return [
            Hit(page.url, page.title or "", page.raw_content or page.content or "", page.score or 0.0) for page in found
        ]


class _BingPage(msgspec.Struct):
    url: str
    name: str = ""
    snippet: str = ""


class _BingPages(msgspec.Struct):
    value: list[_BingPage]


class _BingReply(msgspec.Struct, rename="camel"):
    web_pages: _BingPages | None = None
    type_: str = msgspec.field(name="_type", default="")


class BingProvider(HTTPProvider):
    """Bing's Web Search API, version 7.

    Microsoft closed its own service to the public in August 2025: give the `url` of one that still speaks its format.

    Args:
        api_key_env: Environment variable that holds the key.
        market: Country and language, e.g. ``en-US``.
        url: As of `HTTPProvider`, and so are `timeout`, `retries` and `pause`.

    Raises:
        OptionError: The key's variable is unset, or an option is out of its range.
    """

    title = "Bing"

    def __init__(
        self,
        api_key_env: str = "BING_SEARCH_API_KEY",
        *,
        market: str = "en-US",
        url: str = BING,
        timeout: float = 20.0,
        retries: int = 3,
        pause: float = 1.0,
    ) -> None:
        super().__init__(url, timeout, retries, pause)
        self.name = f"bing-{market}"
        self._market = market
        self._headers = {"Ocp-Apim-Subscription-Key": _key(api_key_env)}

    def request(self, query: str, k: int) -> urllib.request.Request:
        """Return the request: the query in the address."""
        asked = urllib.parse.urlencode({"q": query, "count": k, "mkt": self._market, "responseFilter": "Webpages"})
        return urllib.request.Request(f"{self._url}?{asked}", headers=self._headers)

    def pages(self, reply: bytes) -> list[Hit]:
        """Return the pages of a reply, their scores falling from 1 by rank: Bing gives none."""
        read = msgspec.json.decode(reply, type=_BingReply)
        if read.web_pages is None and read.type_ != "SearchResponse":
            raise ValueError("its reply has no `webPages` and is no `SearchResponse`")
        return _ranked([(page.url, page.name, page.snippet) for page in read.web_pages.value] if read.web_pages else [])


class DuckDuckGoProvider(HTTPProvider):
    """DuckDuckGo's page of results without scripts; it needs no key, and allows few queries.

    Args:
        region: Country and language, e.g. ``us-en``; ``wt-wt`` is none.
        url: As of `HTTPProvider`, and so are `timeout`, `retries` and `pause`.

    Raises:
        OptionError: An option is out of its range.
    """

    title = "DuckDuckGo"

    def __init__(
        self,
        *,
        region: str = "wt-wt",
        url: str = DUCKDUCKGO,
        timeout: float = 20.0,
        retries: int = 3,
        pause: float = 2.0,
    ) -> None:
        super().__init__(url, timeout, retries, pause)
        self.name = f"duckduckgo-{region}"
        self._region = region

    def request(self, query: str, k: int) -> urllib.request.Request:
        """Return the request: the form of its page."""
        body = urllib.parse.urlencode({"q": query, "kl": self._region}).encode()
        return urllib.request.Request(self._url, body, {"User-Agent": "Mozilla/5.0 (compatible; toolorchestra)"})

    def pages(self, reply: bytes) -> list[Hit]:
        """Return the pages of a reply without its advertisements, their scores falling from 1 by rank."""
        reader = _ResultPage()
        reader.feed(reply.decode(errors="replace"))
        reader.close()
        if reader.refused or not (reader.found or reader.empty):
            raise ValueError("it asks whether a person is there, or its page has changed; ask less often")
        return _ranked([(address, title, text) for address, title, text in reader.found if address])


class _ResultPage(html.parser.HTMLParser):
    """Reads DuckDuckGo's page: addresses, titles and texts of the results, in `found`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []
        self.refused = self.empty = False
        self._inside = ""  # the class of the link that is open
        self._address, self._title, self._text = "", "", ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        kinds = (given.get("class") or "").split()
        self.refused |= any(kind.startswith("anomaly-modal") for kind in kinds)
        self.empty |= "no-results" in kinds
        if "result__a" in kinds:
            self._end()
            self._address = _target(given.get("href") or "")
        if tag == "a":
            self._inside = next((kind for kind in ("result__a", "result__snippet") if kind in kinds), "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "result__a":
            self._title += data
        elif self._inside == "result__snippet":
            self._text += data

    def close(self) -> None:
        super().close()
        self._end()

    def _end(self) -> None:
        if self._title:
            title, text = (" ".join(one.split()) for one in (self._title, self._text))
            self.found.append((self._address, title, text))
        self._address, self._title, self._text = "", "", ""


def _target(link: str) -> str:
    """Return the address that a link of DuckDuckGo leads to; nothing if it is an advertisement."""
    parsed = urllib.parse.urlsplit(link)
    target = urllib.parse.parse_qs(parsed.query).get("uddg", [link])[0] if parsed.path == "/l/" else link
    parsed = urllib.parse.urlsplit(target)
    if parsed.scheme not in ("http", "https") or (parsed.hostname == "duckduckgo.com" and parsed.path == "/y.js"):
        return ""
    return target


def _ranked(pages: list[tuple[str, str, str]]) -> list[Hit]:
    return [Hit(*page, round(1 / rank, 6)) for rank, page in enumerate(pages, 1)]


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


PROVIDERS: dict[str, type[TavilyProvider | BingProvider | DuckDuckGoProvider]] = {
    "tavily": TavilyProvider,
    "bing": BingProvider,
    "duckduckgo": DuckDuckGoProvider,
}
"""The providers by the names that a catalogue knows them by."""
