"""Reading an external SQLite file: its tables as they are, without trusting anything in it.

The file is opened read-only, its schema is not trusted (no function with side effects can hide in it), no view,
trigger or generated column is ever run, and the work of reading is bounded. What the tables mean is
worked out in `toolorchestra.toolscale.synth.tables.schema_analysis`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as quote_url

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.database.sql import quote
from toolorchestra.toolscale.synth.tables.notes import Notes

if TYPE_CHECKING:
    from sqlite_utils.db import Table

MAX_SCANNED = 200_000
"""Rows read of one table; of a longer one, these are taken for the whole."""
MAX_TEXT = 2_000
"""Characters read of a text."""
MAX_TABLES = 200

_TICK = 1_000_000  # virtual-machine operations of SQLite between two looks at the bound
_MAX_TICKS = 5_000


@dataclass
class SqliteColumn:
    """A column as the file declares it."""

    name: str
    declared: str
    not_null: bool
    default: str | None


@dataclass
class SqliteTable:
    """A table as the file declares it, and its rows; a BLOB reads as ``b""``."""

    name: str
    columns: list[SqliteColumn]
    key: list[str]
    uniques: list[list[str]]
    references: list[tuple[Sequence[str], str, Sequence[str]]]
    checks: list[list[str]]
    total: int
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    computed: list[str] = field(default_factory=list)


def read_sqlite(file: Path) -> list[SqliteTable]:
    """Return the ordinary tables of a SQLite file, in the order of their names.

    Raises:
        DomainError: It is no SQLite file that can be read, or has no table.
    """
    from sqlite_utils import Database  # with pandas, where that is installed: half a second

    if not file.is_file():
        raise DomainError("Expected a SQLite file; there is none.", file=file, remedy="Check the path.")
    try:
        with closing(sqlite3.connect(f"file:{quote_url(str(file.resolve()))}?mode=ro", uri=True)) as connection:
            _restrict(connection)
            database = Database(connection, recursive_triggers=False, execute_plugins=False)
            tables = [_read(database.table(name), connection) for name in _ordinary(connection)]
    except (sqlite3.Error, OverflowError) as error:
        raise DomainError(
            f"Expected a SQLite file that can be read: {error}.",
            file=file,
            remedy="Check it with: sqlite3 FILE 'PRAGMA integrity_check'.",
        ) from None
    tables = [table for table in tables if table.columns]
    if not tables:
        raise DomainError("Expected a database with tables; it has none that can be read.", file=file)
    if len(tables) > MAX_TABLES:
        message = f"Expected at most {MAX_TABLES} tables, found {len(tables)}."
        raise DomainError(message, file=file, remedy="Copy those that matter to a database of their own.")
    return tables


def without_framework_tables(sources: Sequence[SqliteTable], named: Iterable[str], notes: Notes) -> list[SqliteTable]:
    """Return the tables but for those in which a framework keeps its own books (``framework_tables.yaml``).

    Those that are `named` stay, and where no others are, all do.
    """
    kept = {source.name: source for source in sources}
    wanted = {name.lower() for name in named}
    for framework, patterns in read_yaml(Path(__file__).with_name("framework_tables.yaml")).items():
        own = [name for name in kept if any(fnmatchcase(name.lower(), pattern) for pattern in patterns)]
        if left := [name for name in own if name.lower() not in wanted]:
            notes.left_out(f"Tables of {framework}'s own: {', '.join(left)}. To keep one, name it in a file of names.")
            kept = {name: source for name, source in kept.items() if name not in left}
    return list(kept.values() or sources)


def _restrict(connection: sqlite3.Connection) -> None:
    ticks = iter(range(_MAX_TICKS))
    connection.set_progress_handler(lambda: next(ticks, None) is None, _TICK)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 64_000_000)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.text_factory = lambda data: data.decode("utf-8", "replace")


def _ordinary(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the tables that hold data of their own: no view, no virtual table, no shadow of one."""
    found = connection.execute(
        "SELECT name, type FROM pragma_table_list WHERE schema = 'main' ORDER BY name"
    ).fetchall()
    virtual = [name for name, kind in found if kind == "virtual"]
    shadow = re.compile("|".join(rf"{re.escape(name)}_\w+" for name in virtual) or r"(?!)", re.IGNORECASE)
    return [
        name
        for name, kind in found
        if kind == "table" and not name.lower().startswith("sqlite_") and not shadow.fullmatch(name)
    ]


def _read(table: Table, connection: sqlite3.Connection) -> SqliteTable:
    columns = [
        SqliteColumn(column.name, column.type.upper(), bool(column.notnull), column.default_value)
        for column in table.columns
    ]
    facts = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden ORDER BY cid"
    computed = [column for (column,) in connection.execute(facts, (table.name,))]
    # Not `table.foreign_keys`, which fails where one refers to a view.
    references: dict[int, tuple[list[str], str, list[str]]] = {}
    facts = 'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq'
    for number, target, source, to in connection.execute(facts, (table.name,)):
        sources, _, targets = references.setdefault(number, ([], target, []))
        sources.append(source)
        targets += [to] if to is not None else []
    uniques = [
        index.columns for index in table.indexes if index.unique and not index.partial and None not in index.columns
    ]
    cells = ", ".join(
        f"CASE typeof({c}) WHEN 'blob' THEN x'' WHEN 'text' THEN substr({c}, 1, {MAX_TEXT}) ELSE {c} END"
        for c in (quote(column.name) for column in columns)
    )
    # Not `table.schema`, which may be that of a trigger of the table's name.
    facts = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
    (schema,) = connection.execute(facts, (table.name,)).fetchone()
    source = f"main.{quote(table.name)}"
    (total,) = connection.execute(f"SELECT count(*) FROM {source}").fetchone()
    rows = connection.execute(f"SELECT {cells} FROM {source} LIMIT {MAX_SCANNED}").fetchall() if columns else []
    return SqliteTable(
        table.name,
        columns,
        [] if table.use_rowid else table.pks,
        uniques,
        list(references.values()),
        list(_checks(tokenize(schema or ""))),
        total,
        rows,
        computed,
    )


_TOKEN = re.compile(
    r"""
      \s+ | --[^\n]* | /\*.*?\*/
    | (?P<token> '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\]
        | [^\W\d]\w* | \d+(?:\.\d*)?(?:[eE][+-]?\d+)? | \.\d+ | \|\| | <> | [<>=!]=? | . )
    """,
    re.VERBOSE | re.DOTALL,
)


def tokenize(sql: str) -> list[str]:
    r"""Return the tokens of SQL without spaces and comments; what is quoted stays quoted.

    >>> tokenize("CHECK (a >= 1.5 -- no less\n AND [b c] <> 'it''s')")
    ['CHECK', '(', 'a', '>=', '1.5', 'AND', '[b c]', '<>', "'it''s'", ')']
    """
    return [found["token"] for found in _TOKEN.finditer(sql) if found["token"]]


def _checks(tokens: list[str]) -> Iterator[list[str]]:
    """Yield the tokens of each CHECK constraint of a CREATE TABLE statement."""
    for position, token in enumerate(tokens):
        if token.upper() != "CHECK" or tokens[position + 1 : position + 2] != ["("]:
            continue
        depth, inside = 0, []
        for other in tokens[position + 1 :]:
            depth += (other == "(") - (other == ")")
            inside.append(other)
            if not depth:
                yield inside[1:-1]
                break
