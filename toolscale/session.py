"""A session: one episode's own copy of a domain's database, and the tools' way to it.

The database lives in memory. The whole episode runs inside one savepoint, so `Session.reset` undoes what was
changed instead of copying the database again; temp triggers journal the key of every row touched, so that
verification and snapshots cost what changed, not what is there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolorchestra.toolscale.build import quote
from toolorchestra.toolscale.format import TableSpec
from toolorchestra.toolscale.sqltool import Confinement, prepare_connection, primary_key
from toolorchestra.toolscale.tool import Entry, Status, Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from toolorchestra.toolscale.domain import Domain

Row = tuple[Any, ...]
Changes = dict[str, dict[Any, Row | None]]
"""Rows by table and primary key; None is a row that is not there."""

_TICK = 20_000  # virtual-machine operations of SQLite between two looks at the bound
_MAX_TICKS = 250
_DENY_IN_EPISODE = frozenset({sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_TRANSACTION})


class Snapshot(msgspec.Struct, frozen=True):
    """A session's state: the rows that its episode touched, and the entries it operated on."""

    touched: Changes
    operated: frozenset[Entry]


class _RuntimeConfinement(Confinement):
    """The tools' confinement, plus what the session itself does: savepoints and its journal."""

    def __call__(
        self, action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
    ) -> int:
        if action in _DENY_IN_EPISODE or first in ("_journal", "defer_foreign_keys"):
            return sqlite3.SQLITE_OK
        return super().__call__(action, first, second, database, trigger)


class _Table:
    """The SQL of a table: how its rows are journalled, found and put back."""

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

    def journal(self, values: Iterable[str]) -> str:
        """Return the statement that notes a key in the journal, given SQL for its parts."""
        columns = ", ".join(f"k{i}" for i in range(self.width))
        return f"INSERT INTO _journal (tbl, {columns}) VALUES ('{self._name}', {', '.join(values)})"

    def triggers(self) -> list[str]:
        """Return the statements that make the table's journalling triggers."""
        return [
            f"CREATE TEMP TRIGGER _{event.lower()}_{self._name} AFTER {event} ON main.{quote(self._name)} "
            f"BEGIN {self.journal(f'{row}.{quote(column)}' for column in self._key)}; END"
            for event, row in (("INSERT", "NEW"), ("UPDATE", "OLD"), ("DELETE", "OLD"))
        ]


def table_access(tables: Mapping[str, TableSpec]) -> dict[str, _Table]:
    """Return the SQL by which sessions reach each table (made once per domain)."""
    return {name: _Table(name, spec) for name, spec in tables.items()}


class Session:
    """One episode's database, in its initial state until a tool writes.

    Attributes:
        connection: The episode's own SQLite connection, confined to the domain's tables.
        operated: Entries that calls looked up by identity so far.
        wrote: Whether a tool has written since the last reset.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.connection = sqlite3.connect(
            ":memory:", isolation_level=None, cached_statements=1024, check_same_thread=False
        )
        self.operated: set[Entry] = set()
        self.wrote = False
        self._tables = domain.access
        self._context = ToolContext(self)
        self._ticks = 0
        self._start: Changes = {}  # rows put in place by `restore`
        self._written: list[tuple[Tool, dict[str, Any]]] = []  # calls that wrote since then
        connection = self.connection
        connection.deserialize(domain.image)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA recursive_triggers = ON")  # rows that REPLACE removes are journalled too
        connection.execute("PRAGMA temp_store = MEMORY")
        columns = ", ".join(f"k{i}" for i in range(max((t.width for t in self._tables.values()), default=1)))
        connection.execute(f"CREATE TEMP TABLE _journal (tbl, {columns})")
        for table in self._tables.values():
            for trigger in table.triggers():
                connection.execute(trigger)
        prepare_connection(connection)
        connection.set_progress_handler(self._tick, _TICK)
        connection.set_authorizer(_RuntimeConfinement(domain.spec.tables))
        connection.execute("SAVEPOINT episode")
        self.execute = connection.cursor().execute

    def _tick(self) -> bool:
        self._ticks += 1
        return self._ticks > _MAX_TICKS

    def reset(self) -> None:
        """Undo everything since the session began."""
        if self.wrote:
            self.execute("ROLLBACK TO episode")
            self.wrote = False
            self._start = {}
            self._written.clear()
        self.operated.clear()

    def call(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Run `tool` with valid `arguments`; a call that does not end OK leaves nothing behind."""
        self._ticks = 0
        result = self._write(tool, arguments) if tool.effect == "write" else tool.run(arguments, self._context)
        if result.operated:
            self.operated.update(result.operated)
        return result

    def _write(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Run a tool that writes in a savepoint of its own, kept only if the call ends OK."""
        execute = self.execute
        execute("SAVEPOINT call")
        kept = False
        try:
            result = tool.run(arguments, self._context)
            kept = result.status is Status.OK
        finally:
            if kept:
                execute("RELEASE call")
                self.wrote = True
                self._written.append((tool, arguments))
            elif self.connection.in_transaction:
                execute("ROLLBACK TO call")
                execute("RELEASE call")
            else:
                self._replay()
        return result

    def _replay(self) -> None:
        """Write again what was written so far: SQLite undoes everything when it interrupts a write."""
        self.execute("SAVEPOINT episode")
        self._put(self._start)
        for tool, arguments in self._written:
            self._ticks = 0
            tool.run(arguments, self._context)

    def touched(self) -> Changes:
        """Return the rows that were written since the reset, as they are now (written twice or back: once)."""
        if not self.wrote:
            return {}
        self._ticks = 0
        changes: Changes = {}
        execute = self.execute
        for entry in execute("SELECT * FROM _journal").fetchall():
            table = self._tables[entry[0]]
            parts = entry[1 : table.width + 1]
            key = parts if table.width > 1 else parts[0]
            rows = changes.setdefault(entry[0], {})
            if key not in rows:
                rows[key] = execute(table.one, parts).fetchone()
        return changes

    def snapshot(self) -> Snapshot:
        """Return the state, to be restored in this or any other session of the domain."""
        return Snapshot(self.touched(), frozenset(self.operated))

    def restore(self, snapshot: Snapshot) -> None:
        """Put the session into the state of `snapshot`."""
        self.reset()
        self.operated.update(snapshot.operated)
        if snapshot.touched:
            self._start = snapshot.touched
            self._put(snapshot.touched)
            self.wrote = True

    def _put(self, changes: Changes) -> None:
        """Put rows in place of those with their keys."""
        self._ticks = 0
        execute = self.execute
        execute("PRAGMA defer_foreign_keys = ON")
        for name, rows in changes.items():  # all old rows first: new ones may take over their unique values
            table = self._tables[name]
            for key in rows:
                execute(table.delete, table.parts(key))
        for name, rows in changes.items():
            table = self._tables[name]
            for key, row in rows.items():
                if row is not None:
                    execute(table.insert, row)
                else:  # journalled even when there was none to delete, so that `touched` is what it was
                    execute(table.journal("?" * table.width), table.parts(key))
        execute("PRAGMA defer_foreign_keys = OFF")

    def close(self) -> None:
        """Release the database."""
        self.connection.close()
