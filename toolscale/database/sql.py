"""Common parts of a domain's SQL: quoted names, and the bounds and authorizers under which it runs.

SQLite asks an authorizer about each action of a statement that it compiles: `Confinement` for tools, `read_only` for
all other SQL of a domain.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from toolorchestra.toolscale.database.format import TableSpec

_FORBIDDEN_FUNCTIONS = frozenset({
    "random", "randomblob", "load_extension", "readfile", "writefile", "edit", "fts3_tokenizer",
    "current_date", "current_time", "current_timestamp", "changes", "total_changes", "last_insert_rowid",
    "zeroblob", "sqlite_compileoption_get", "sqlite_version", "sqlite_source_id", "sqlite_log",
})  # fmt: skip
_TABLE_FUNCTIONS = frozenset({"json_each", "json_tree"})
_VERBS = {getattr(sqlite3, f"SQLITE_{verb}"): verb for verb in ("INSERT", "UPDATE", "DELETE", "READ")}


def quote(name: str) -> str:
    """Return `name` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def primary_key(table: TableSpec) -> tuple[str, ...]:
    """Return the columns of a table's primary key, in order."""
    return (table.primary_key,) if isinstance(table.primary_key, str) else tuple(table.primary_key)


class Confinement:
    """An authorizer for SQLite: tools may read and write the rows of the domain's tables, and nothing else.

    `read` and `written` are the tables of which it allowed that since the last `clear`; `refusal` says why it refused
    something, or is None.
    """

    def __init__(self, tables: Mapping[str, TableSpec]) -> None:
        self._keys = {name: frozenset(primary_key(table)) for name, table in tables.items()}
        self.clear()

    def clear(self) -> None:
        """Forget what was seen."""
        self.read: set[str] = set()
        self.written: set[str] = set()
        self.refusal: str | None = None

    def __call__(
        self, action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
    ) -> int:
        """Allow or deny one action of a statement under preparation (the signature is SQLite's)."""
        # `trigger` names a trigger, but a CTE as well: what happens inside is judged like everything else
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            name = (second or "").lower()
            return self._refuse(f"uses the function {name}()") if name in _FORBIDDEN_FUNCTIONS else 0
        if action in _VERBS:
            if action == sqlite3.SQLITE_READ and (first in _TABLE_FUNCTIONS or not first):
                return sqlite3.SQLITE_OK
            if first not in self._keys:
                return self._refuse(f"reaches for {first!r} ({_VERBS[action]})")
            if action == sqlite3.SQLITE_UPDATE and second in self._keys[first]:
                return self._refuse(f"changes the primary key {first}.{second}")
            (self.read if action == sqlite3.SQLITE_READ else self.written).add(first)
            return sqlite3.SQLITE_OK
        return self._refuse(f"does something that tools may not (SQLite action {action} on {first!r})")

    def _refuse(self, what: str) -> int:
        self.refusal = self.refusal or what
        return sqlite3.SQLITE_DENY


def read_only(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    """Allow reading rows and nothing else: the authorizer for the SQL that a domain holds beside its tools."""
    allowed = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE)
    if action == sqlite3.SQLITE_READ:
        allowed = not (first or "").startswith("sqlite_")  # SQLite's own tables
    elif action == sqlite3.SQLITE_FUNCTION:
        allowed = (second or "").lower() not in _FORBIDDEN_FUNCTIONS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


SQL_ERRORS = (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeEncodeError)
"""What SQL of a domain, or a value for it, may raise: several statements at once are a warning in Python 3.11."""

_MAX_ROWS = 200_000
_MAX_CHARACTERS = 50_000_000
_MAX_VALUE = 1_000_000
_MAX_BOUNDED = 100_000
_TICK = 2_000  # virtual-machine operations of SQLite between two looks at the bound
_MAX_TICKS = 100_000
_MAX_SECONDS = 20.0


@contextmanager
def bounded(connection: sqlite3.Connection) -> Iterator[None]:
    """Stop SQL that a domain holds beside its tools where it runs without end.

    The bound is SQLite's operations, which are the same everywhere, and the clock for the few operations that take
    long (sorting what fills the disk).
    """
    ticks = count(1)
    end = time.monotonic() + _MAX_SECONDS
    connection.set_progress_handler(lambda: next(ticks) > _MAX_TICKS or time.monotonic() > end, _TICK)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_BOUNDED)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)


def fetch(cursor: sqlite3.Cursor) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the columns and the rows of a query that a domain holds.

    Raises:
        sqlite3.DataError: They are more than a domain can need.
    """
    names = [column[0] for column in cursor.description or ()]
    rows: list[tuple[Any, ...]] = []
    characters = 0
    while some := cursor.fetchmany(100):
        rows += some
        characters += sum([len(cell) for row in some for cell in row if isinstance(cell, (str, bytes))])
        if len(rows) > _MAX_ROWS or characters > _MAX_CHARACTERS:
            raise sqlite3.DataError(f"more than {_MAX_ROWS:,} rows or {_MAX_CHARACTERS:,} characters")
    return names, [dict(zip(names, row, strict=True)) for row in rows]


def sql_error(error: Exception) -> str:
    """Return what is wrong with SQL of a domain, in a sentence."""
    if str(error) == "interrupted":
        return "The SQL was stopped: it took too long."
    if "authorized" in str(error) or "prohibited" in str(error):
        return f"SQL error: {error}. Here it may only read tables, and nothing that depends on chance or the machine."
    return f"SQL error: {error}."


def prepare_connection(connection: sqlite3.Connection) -> None:
    """Bound the length of values, and let SQLite set up table-valued functions before a confinement forbids that."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
    for function in sorted(_TABLE_FUNCTIONS):
        connection.execute(f"SELECT * FROM {function}('[]')").close()
