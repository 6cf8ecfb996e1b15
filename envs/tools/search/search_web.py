"""Search on the web, through a provider, or a recording of one that needs neither key nor network.

The providers themselves are in `toolorchestra.envs.tools.search.search_providers`, and summaries of the pages that they
find in `toolorchestra.envs.tools.search.page_summaries`.

Pages are untrusted: a tool shows them as data and never executes them. A `RecordedProvider` without another provider
is the public fake: with it, episodes that search the web can be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import msgspec

from toolorchestra.envs.tools.search.page_summaries import PageSummaries
from toolorchestra.envs.tools.search.search import MAX_QUERIES, Hit, SearchTool
from toolorchestra.toolscale.common.append_only import AppendOnly, read_appended
from toolorchestra.toolscale.common.errors import ExpertError
from toolorchestra.toolscale.tools.tool import ToolContext, ToolOrigin, ToolResult

_WHAT = "a recorded search"
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

    `timeout` is in seconds of real time, for a call; with `summaries` a model reads the pages and says what each has
    about its query, at its cost; for the other arguments see `SearchTool`. A Tavily credit is $0.008.
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
        summaries: PageSummaries | None = None,
    ) -> None:
        super().__init__(name, DESCRIPTION, k=k, price=price, latency=latency)
        self.provider, self.summaries = provider, summaries
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
            result = super().run(arguments, context)
            return result if self.summaries is None or not result.value else self._summarised(result, self.summaries)
        except ExpertError as error:
            if error.outage:
                raise
            return ToolResult.failed(str(error))

    @staticmethod
    def _summarised(result: ToolResult, summaries: PageSummaries) -> ToolResult:
        """Return a result with summaries in place of the texts, their cost and their time."""
        pages = [(found["query"], page) for found in result.value for page in found["passages"]]
        texts, cost, seconds = summaries.of(pages)
        left = iter(texts)
        value = [
            {**found, "passages": [{**page, "text": next(left)} for page in found["passages"]]}
            for found in result.value
        ]
        return msgspec.structs.replace(result, value=value, cost=result.cost + cost, seconds=result.seconds + seconds)
