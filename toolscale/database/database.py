"""The initial database of a domain, which never changes: its tables, bytes and rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from toolorchestra.toolscale.database.connection import Connection
from toolorchestra.toolscale.database.format import TableSpec
from toolorchestra.toolscale.database.sql import prepare_connection, primary_key, quote, read_only

Row = tuple[Any, ...]
Changes = dict[str, dict[Any, Row | None]]
"""Rows by table and primary key; None is a row that is not there."""
JOURNAL = "_journal"
"""Name of the SQL function by which a session notes the rows that are written."""


class TableAccess:
    """The SQL of a table: `one` row by its key, `delete` by key, `insert`, and its triggers; `width` of the key."""

    def __init__(self, name: str, spec: TableSpec) -> None:
        key = primary_key(spec)
        table = quote(name)
        where = " AND ".join(f"{quote(column)} = ?" for column in key)
        self.width = len(key)
        self.one = f"SELECT * FROM {table} WHERE {where}"
        self.delete = f"DELETE FROM {table} WHERE {where}"
        self.insert = f"INSERT INTO {table} VALUES ({', '.join('?' * len(spec.columns))})"
        self._name, self._key = name, key

    def parts(self, key: Any) -> tuple[Any, ...]:
        """Return a key (a value, or a tuple of values) as the tuple of its values."""
        return key if self.width > 1 else (key,)

    def triggers(self) -> list[str]:
        """Return the statements that make triggers which call `JOURNAL` with the table and the key of a row."""
        found = []
        for event, row in (("INSERT", "NEW"), ("UPDATE", "OLD"), ("DELETE", "OLD")):
            key = ", ".join(f"{row}.{quote(column)}" for column in self._key)
            found.append(
                f"CREATE TEMP TRIGGER _{event.lower()}_{self._name} AFTER {event} ON main.{quote(self._name)} "
                f"BEGIN SELECT {JOURNAL}('{self._name}', {key}); END"
            )
        return found


class Database:
    """The initial database of a domain. It can be pickled; a deep copy is the database itself.

    Args:
        tables: Its tables by name.
        image: Its content as SQLite's bytes.
        today: The domain's date (ISO).

    Attributes:
        access: The SQL of each table.
        known_reads: What tools returned that read the initial rows, by tool and arguments: the value as JSON, and the
            entries looked up. `toolorchestra.toolscale.tasks.session.Session` fills it.
        journalling: The script that makes triggers which call the function `JOURNAL` for each row that is written.
        base: A read-only connection.
    """

    def __init__(self, tables: Mapping[str, TableSpec], image: bytes, today: str) -> None:
        self.tables = tables
        self.image = image
        self.today = today
        self.access = {name: TableAccess(name, spec) for name, spec in tables.items()}
        self.known_reads: dict[tuple[Any, bytes], tuple[bytes, tuple[Any, ...]]] = {}
        self.journalling = ";\n".join(trigger for table in self.access.values() for trigger in table.triggers())
        self._values: dict[str, tuple[Any, ...]] = {}
        self._rows: dict[tuple[str, Any], Row] = {}  # those that were asked for
        self.base = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=Connection)
        self.base.deserialize(image)
        self.base.execute("PRAGMA query_only = ON")
        prepare_connection(self.base)
        self.base.set_authorizer(read_only)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tables, self.image, self.today)

    def __deepcopy__(self, memo: dict[int, Any]) -> Database:
        return self

    def row(self, table: str, key: Any) -> Row | None:
        """Return a row by primary key, or None."""
        row: Row | None = self._rows.get((table, key))
        if row is None:
            access = self.access[table]
            row = self.base.execute(access.one, access.parts(key)).fetchone()
            if row is not None:
                self._rows[table, key] = row
        return row

    def values(self, column: str) -> list[Any]:
        """Return the distinct values of a column (``table.column``), in order and without NULL."""
        if column not in self._values:
            table, name = map(quote, column.split("."))
            sql = f"SELECT DISTINCT {name} FROM {table} WHERE {name} IS NOT NULL ORDER BY 1"
            self._values[column] = tuple(row[0] for row in self.base.execute(sql))
        return list(self._values[column])

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return int(self.base.execute(f"SELECT count(*) FROM {quote(table)}").fetchone()[0])

    def entries(self) -> int:
        """Return the number of rows of all tables."""
        return sum(map(self.count, self.tables))
