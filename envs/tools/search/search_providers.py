"""Providers of web search: Tavily, Bing and DuckDuckGo, asked over HTTP by `toolorchestra.agents.http_client`.

Not covered: the tool that asks a provider, and recordings (`toolorchestra.envs.tools.search.search_web`).
"""

from __future__ import annotations

import html.parser
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, TypedDict, Unpack

import msgspec

from toolorchestra.agents.http_client import HTTPClient, RequestError, Response, key_in
from toolorchestra.envs.tools.search.search import Hit
from toolorchestra.toolscale.common.errors import ExpertError, OptionError

_REMEDIES = {
    401: "Look at the key.",
    403: "Look at the key.",
    410: "Look at url=: this service was shut down.",
    429: "Ask less often, or raise retries=.",
    432: "The plan's limit is reached.",
    "timeout": "Raise timeout=.",
}


class ServerOptions(TypedDict, total=False):
    """How any provider is asked."""

    url: str
    """Where it is, if not at its usual address."""
    timeout: float
    """Seconds that an attempt may take in all, however slowly the answer comes: 20."""
    retries: int
    """Attempts after the first, where they may help (`HTTPClient`): 3."""
    pause: float
    """Seconds before the second attempt, doubled before each further one; by default as the provider has it."""


class HTTPProvider(ABC):
    """A provider that is asked over HTTP. Override `headers`, `request` and `pages`.

    Attributes:
        title: What errors call it.
        address: Where it usually is.
        pause: Seconds before the second attempt.
        name: What recordings know it by, settings that change its answers included.

    Raises:
        OptionError: The key's variable is unset, or an option is out of its range.
    """

    title: ClassVar[str]
    address: ClassVar[str]
    pause: ClassVar[float] = 1.0
    name: str

    def __init__(self, **server: Unpack[ServerOptions]) -> None:
        url, pause = server.get("url", self.address), server.get("pause", self.pause)
        timeout, retries = server.get("timeout", 20.0), server.get("retries", 3)
        if timeout <= 0 or retries < 0 or pause < 0:
            raise OptionError(f"expected timeout > 0, retries and pause >= 0, got {timeout}, {retries} and {pause}.")
        if not url.startswith(("https://", "http://")):
            raise OptionError(f"expected a web address, got url={url!r}.")
        self._client = HTTPClient(url, self.headers, timeout=timeout, retries=retries, pause=pause)
        self.headers()  # so that a missing key is reported now

    @abstractmethod
    def headers(self) -> Mapping[str, str]:
        """Return the headers of every request; a missing key raises `OptionError`."""

    @abstractmethod
    def request(self, query: str, k: int) -> tuple[str, bytes | None]:
        """Return what asks for `k` pages: the end of the address, and what is posted, if anything."""

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
        try:
            found = self._client.submit(self._client.ask, self._read, *self.request(query, k), "pages")
            pages: list[Hit] = found.result()
            return pages[:k]
        except RequestError as error:
            text = f"{self.title}: {error}. {_REMEDIES.get(error.about, '')}".strip()
            raise ExpertError(text, outage=not error.blames_request) from error

    def _read(self, response: Response) -> list[Hit]:
        return self.pages(response.content)

    def close(self) -> None:
        """Free the connections; a later search opens new ones."""
        self._client.close()


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
        server: See `ServerOptions`.
    """

    title = "Tavily"
    address = "https://api.tavily.com/search"

    def __init__(
        self,
        api_key_env: str = "TAVILY_API_KEY",
        *,
        depth: Literal["basic", "advanced"] = "basic",
        whole_pages: bool = False,
        **server: Unpack[ServerOptions],
    ) -> None:
        self.name = f"tavily-{depth}{'-pages' if whole_pages else ''}"
        self._depth, self._whole, self._key_variable = depth, whole_pages, api_key_env
        super().__init__(**server)

    def headers(self) -> Mapping[str, str]:
        """Return the key as OpenAI's clients send theirs."""
        return {"Authorization": f"Bearer {key_in(self._key_variable)}", "Content-Type": "application/json"}

    def request(self, query: str, k: int) -> tuple[str, bytes]:
        """Return the request: the query as JSON."""
        body = {"query": query, "max_results": k, "search_depth": self._depth}
        if self._whole:
            body["include_raw_content"] = True
        return "", msgspec.json.encode(body)

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
        server: See `ServerOptions`.
    """

    title = "Bing"
    address = "https://api.bing.microsoft.com/v7.0/search"

    def __init__(
        self, api_key_env: str = "BING_SEARCH_API_KEY", *, market: str = "en-US", **server: Unpack[ServerOptions]
    ) -> None:
        self.name = f"bing-{market}"
        self._market, self._key_variable = market, api_key_env
        super().__init__(**server)

    def headers(self) -> Mapping[str, str]:
        """Return the key by the name that Bing has for it."""
        return {"Ocp-Apim-Subscription-Key": key_in(self._key_variable)}

    def request(self, query: str, k: int) -> tuple[str, None]:
        """Return the request: the query in the address."""
        asked = urllib.parse.urlencode({"q": query, "count": k, "mkt": self._market, "responseFilter": "Webpages"})
        return f"?{asked}", None

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
        server: See `ServerOptions`.
    """

    title = "DuckDuckGo"
    address = "https://html.duckduckgo.com/html/"
    pause = 2.0

    def __init__(self, *, region: str = "wt-wt", **server: Unpack[ServerOptions]) -> None:
        self.name = f"duckduckgo-{region}"
        self._region = region
        super().__init__(**server)

    def headers(self) -> Mapping[str, str]:
        """Return what a browser says of itself and of a form."""
        form = "application/x-www-form-urlencoded"
        return {"User-Agent": "Mozilla/5.0 (compatible; toolorchestra)", "Content-Type": form}

    def request(self, query: str, k: int) -> tuple[str, bytes]:
        """Return the request: the form of its page."""
        return "", urllib.parse.urlencode({"q": query, "kl": self._region}).encode()

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


PROVIDERS: dict[str, type[TavilyProvider | BingProvider | DuckDuckGoProvider]] = {
    "tavily": TavilyProvider,
    "bing": BingProvider,
    "duckduckgo": DuckDuckGoProvider,
}
"""The providers by the names that a catalogue knows them by."""
