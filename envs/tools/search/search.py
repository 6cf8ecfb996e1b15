"""Search as a tool: a batch of queries, and the best passages for each.

`LocalSearch` searches local passages through any `Index`. `BM25Index` is SQLite's FTS5, in memory or in a file.
Queries come from models and are not trusted: an index is given words, never query syntax. Not covered: an index of
embeddings (`toolorchestra.envs.tools.search.search_vectors`) and the web
(`toolorchestra.envs.tools.search.search_web`).
"""

from __future__ import annotations

import functools
import re
import sqlite3
import threading
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.jsonl import read_jsonl
from toolorchestra.toolscale.database.connection import Connection
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolOrigin, ToolResult

MAX_QUERIES = 8
MAX_PASSAGES = 20
_MAX_WORDS = 48
_MAX_RANKED = 20_000  # passages; beyond it, a query's most common words are left out
_WORD = re.compile(r"[^\W_]+")
_FUNCTION_WORDS = frozenset(Path(__file__).with_name("function_words.txt").read_text(encoding="utf-8").split())


class Passage(msgspec.Struct, frozen=True):
    """A piece of text that can be found; its id is unique within the index."""

    id: str
    title: str
    text: str


class Hit(msgspec.Struct, frozen=True):
    """A passage that was found, and its score: higher is better, on the scale of its index."""

    id: str
    title: str
    text: str
    score: float


class Index(Protocol):
    """Passages that can be searched. Equal indexes give equal hits; ties are in the order of the passages."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits for each query, the best first; a query that fits nothing has none."""


def read_passages(file: str | Path) -> list[Passage]:
    """Return the passages of a JSONL file of objects with ``id``, ``title`` and ``text``.

    Raises:
        OptionError: The file cannot be read, or a line is no passage.
    """
    return [passage for _, passage in read_jsonl(Path(file), Passage, "a passage")]


class BM25Index:
    """Passages ranked by BM25 over their stemmed words, the title's counting three times (SQLite's FTS5).

    Args:
        passages: What can be found; None to open the index in `file`.
        file: Where the index is kept; None: in memory. With `passages`, it must not exist yet.

    Raises:
        OptionError: The file is no index or exists already, or an id is not unique.

    >>> index = BM25Index([Passage("1", "Tern", "A bird of the coast."), Passage("2", "Elm", "A tree.")])
    >>> [hit.id for hit in index.search(['which "bird" AND NOT (coasts*'], 5)[0]]
    ['1']
    """

    def __init__(self, passages: Iterable[Passage] | None = None, file: str | Path | None = None) -> None:
        self._file = None if file is None else Path(file)
        if passages is None:
            if self._file is None:
                raise OptionError("Expected `passages` to index, or the `file` of an index made before; found neither.")
            self._use(_opened(self._file))
            return
        if self._file is not None and self._file.exists():
            raise OptionError(f"{file} exists already. Open it without `passages`, or remove it.")
        self._use(_connected(":memory:" if file is None else str(file)))
        _filled(self._connection, passages)

    def _use(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._spread = functools.lru_cache(maxsize=65_536)(self._count)

    def __getstate__(self) -> Path | bytes:
        if self._file is not None:
            return self._file
        with self._lock:
            return self._connection.serialize()

    def __setstate__(self, state: Path | bytes) -> None:
        self._file = state if isinstance(state, Path) else None
        if isinstance(state, Path):
            self._use(_opened(state))
        else:
            self._use(_connected(":memory:"))
            self._connection.deserialize(state)

    def __len__(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM passages").fetchone()[0])

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the hits of each query."""
        return [self._search(_words(query), k) for query in queries]

    def passage(self, passage_id: str) -> Passage | None:
        """Return the passage with an id, if there is one."""
        query = "SELECT id, title, text FROM passages WHERE id = ?"
        with self._lock:
            row = self._connection.execute(query, (passage_id,)).fetchone()
        return Passage(*row) if row else None

    def close(self) -> None:
        """Release the index."""
        self._connection.close()

    def _search(self, words: Sequence[str], k: int) -> list[Hit]:
        if not words:
            return []
        with self._lock:  # SQLite may be used by many threads, one at a time
            ranked = 0
            rare: list[str] = []
            for word in sorted(words, key=self._spread):
                ranked += self._spread(word)
                if rare and ranked > _MAX_RANKED:
                    break
                rare.append(word)
            match = " OR ".join(f'"{word}"' for word in rare)  # quoted, a word is never an operator
            return [Hit(*row) for row in self._connection.execute(_SEARCH, (match, k)).fetchall()]

    def _count(self, word: str) -> int:
        """Return how many passages have a word."""
        count = "SELECT count(*) FROM words WHERE words MATCH ?"
        return int(self._connection.execute(count, (f'"{word}"',)).fetchone()[0])


# Scores are rounded before they are compared, so that passages of one score stay in their order on every machine.
_SEARCH = """
SELECT id, title, text, -score FROM passages JOIN (
    SELECT rowid AS place, round(bm25(words, 3.0, 1.0), 6) AS score FROM words WHERE words MATCH ?
    ORDER BY score, place LIMIT ?
) ON number = place ORDER BY score, place
"""


def _words(query: str) -> list[str]:
    """Return the words of a query, without function words unless there are no others."""
    found = list(dict.fromkeys(_WORD.findall(query.casefold())))
    return [word for word in found if word not in _FUNCTION_WORDS][:_MAX_WORDS] or found[:_MAX_WORDS]


def _connected(database: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(database, isolation_level=None, check_same_thread=False, factory=Connection, uri=uri)


def _opened(file: Path) -> sqlite3.Connection:
    connection = None
    try:
        connection = _connected(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        connection.execute("SELECT 1 FROM words, passages LIMIT 1")
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise OptionError(f"{file}: expected an index of passages, found none ({error}).") from None
    return connection


def _filled(connection: sqlite3.Connection, passages: Iterable[Passage]) -> None:
    execute = connection.execute
    execute("CREATE TABLE passages (number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, title TEXT, text TEXT)")
    execute(
        "CREATE VIRTUAL TABLE words USING fts5(title, text, content='passages', content_rowid='number', "
        "tokenize='porter unicode61 remove_diacritics 2')"
    )
    execute("BEGIN")
    try:
        rows = ((passage.id, passage.title, passage.text) for passage in passages)
        connection.executemany("INSERT INTO passages (id, title, text) VALUES (?, ?, ?)", rows)
    except sqlite3.IntegrityError as error:
        connection.close()
        raise OptionError(f"Expected passages with ids of their own ({error}).") from None
    execute("INSERT INTO words (words) VALUES ('rebuild')")
    execute("COMMIT")
    execute("INSERT INTO words (words) VALUES ('optimize')")


class SearchTool(Tool):
    """A tool that takes a batch of queries and returns the best passages for each. Override `hits`.

    Args:
        name: Name of the tool.
        description: What there is to be found, for the orchestrator.
        k: Passages shown for a query unless the call says otherwise.
        price: US dollars for a query.
        latency: Seconds of a call on the virtual clock, whatever the number of queries: they run at once.
    """

    effect = "pure"
    origin = ToolOrigin("search")

    def __init__(self, name: str, description: str, *, k: int, price: float, latency: float) -> None:
        if not 1 <= k <= MAX_PASSAGES:
            raise OptionError(f"`k` must lie between 1 and {MAX_PASSAGES}, got {k}.")
        parameters = {
            "query_list": ParameterSpec(
                type="array", items="string", max_length=MAX_QUERIES, description=f"Queries, at most {MAX_QUERIES}."
            ),
            "k": ParameterSpec(
                type="integer",
                required=False,
                default=k,
                minimum=1,
                maximum=MAX_PASSAGES,
                description="Passages to show for each query.",
            ),
        }
        super().__init__(name, description, parameters, price=price, latency=latency)
        self._k = k

    @abstractmethod
    def hits(self, queries: Sequence[str], k: int) -> Sequence[Sequence[Hit]]:
        """Return at most `k` hits for each query."""

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Return the passages found for each query; the tool's price is that of the first query."""
        queries = arguments["query_list"]
        if not queries:
            return ToolResult.failed("`query_list` is empty: give at least one query.")
        hits = self.hits(queries, arguments["k"] or self._k)
        value = [
            {"query": query, "passages": msgspec.to_builtins(of_query)}
            for query, of_query in zip(queries, hits, strict=True)
        ]
        return msgspec.structs.replace(ToolResult.ok(value), cost=self.price * (len(queries) - 1))


class LocalSearch(SearchTool):
    """Search in the passages of an `index`; for the other arguments see `SearchTool`."""

    def __init__(
        self,
        index: Index,
        *,
        name: str = "local_search",
        description: str = "Search the library of passages. All queries of a call run at once.",
        k: int = 5,
        price: float = 0.0,
        latency: float = 0.3,
    ) -> None:
        super().__init__(name, description, k=k, price=price, latency=latency)
        self.index = index

    def hits(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the hits of the index."""
        return self.index.search(queries, k)
