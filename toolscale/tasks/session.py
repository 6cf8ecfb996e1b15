"""A session: one episode's own copy of a database, through which tools reach it.

The database lives in memory. The whole episode runs inside one savepoint, so `Session.reset` undoes what was
changed instead of copying the database again; temp triggers journal the key of every row touched, in a list, so that
verification and snapshots cost what changed, not what is there. Until something is written, the database is the
initial one, which all episodes read alike: what a tool read there is kept, as JSON, with the database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec

from toolorchestra.toolscale.database.connection import Connection
from toolorchestra.toolscale.database.database import JOURNAL, Changes, Database
from toolorchestra.toolscale.database.sql import Confinement, prepare_connection
from toolorchestra.toolscale.tasks.observed import Shown
from toolorchestra.toolscale.tools.tool import Entry, Status, Tool, ToolContext, ToolResult

_TICK = 20_000  # virtual-machine operations of SQLite between two looks at the bound
_MAX_TICKS = 250
_MAX_KNOWN_READS = 10_000  # results of reading the initial database that are kept
_MAX_KNOWN_BYTES = 4_000  # of one of them, as JSON
_DENY_IN_EPISODE = frozenset({sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_TRANSACTION})


class Snapshot(msgspec.Struct, frozen=True):
    """A session's state: the rows that its episode touched, entries it operated on or was refused to, what it saw."""

    touched: Changes
    operated: frozenset[Entry]
    refused: frozenset[Entry] = frozenset()
    shown: tuple[Shown, ...] = ()
    failed: tuple[Mapping[str, Any], ...] = ()


class _RuntimeConfinement(Confinement):
    """The tools' confinement, plus what the session itself does: savepoints."""

    def __call__(
        self, action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
    ) -> int:
        if action in _DENY_IN_EPISODE or first == "defer_foreign_keys":
            return sqlite3.SQLITE_OK
        return super().__call__(action, first, second, database, trigger)


class _Ticks:
    """Counts what SQLite does in a call, apart from the session, which its connection must not keep alive."""

    count = 0

    def __call__(self) -> bool:
        self.count += 1
        return self.count > _MAX_TICKS


class Session:
    """One episode's database, in its initial state until a tool writes.

    A session can be copied and pickled: the copy is a new session in the same state.

    Args:
        database: Where it starts from.

    Attributes:
        connection: The episode's own SQLite connection, confined to the domain's tables.
        operated: Entries that calls looked up by identity so far.
        refused: Entries named by calls that a guard refused so far.
        shown: What calls that read have shown so far.
        failed: Arguments of the calls that have run and failed so far.
        wrote: Whether a tool has written since the last reset.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.connection = sqlite3.connect(
            ":memory:", isolation_level=None, cached_statements=1024, check_same_thread=False, factory=Connection
        )
        self.operated: set[Entry] = set()
        self.refused: set[Entry] = set()
        self.shown: list[Shown] = []
        self.failed: list[Mapping[str, Any]] = []
        self.wrote = False
        self._tables = database.access
        self._ticks = _Ticks()
        self._changes: Changes | None = None  # what `touched` has found since the last write
        self._start: Changes = {}  # rows put in place by `restore`
        self._written: list[tuple[Tool, dict[str, Any]]] = []  # calls that wrote since then
        connection = self.connection
        connection.deserialize(database.image)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA recursive_triggers = ON")  # rows that REPLACE removes are journalled too
        connection.execute("PRAGMA temp_store = MEMORY")
        journal: list[tuple[Any, ...]] = []
        self._journal = journal  # the table and the key's parts of each row that was written, again and again
        connection.create_function(JOURNAL, -1, lambda *entry: journal.append(entry))
        connection.executescript(database.journalling)
        prepare_connection(connection)
        connection.set_progress_handler(self._ticks, _TICK)
        connection.set_authorizer(_RuntimeConfinement(database.tables))
        connection.execute("SAVEPOINT episode")
        self.execute = connection.cursor().execute

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.database,), self.snapshot()

    def __setstate__(self, snapshot: Snapshot) -> None:
        self.restore(snapshot)

    def reset(self) -> None:
        """Undo everything since the session began."""
        if self.wrote:
            self.execute("ROLLBACK TO episode")
            self.wrote = False
            self._start = {}
            self._written.clear()
            self._journal.clear()
            self._changes = None
        self.operated.clear()
        self.refused.clear()
        self.shown.clear()
        self.failed.clear()

    def call(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Run `tool` with valid `arguments`; a call that does not end OK leaves nothing behind."""
        self._ticks.count = 0
        if tool.effect == "write":
            result = self._write(tool, arguments)
        elif self.wrote or not tool.reads_rows:
            result = tool.run(arguments, ToolContext(self))
        else:
            result = self._read(tool, arguments)
        if result.operated:
            entries = self.operated if result.status is Status.OK else self.refused
            entries.update(result.operated)
        if result.status is not Status.OK:
            self.failed.append(arguments)
        elif tool.reads_rows:
            self.shown.append(Shown(arguments, result.value))
        return result

    def _read(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Run a tool on the initial database, or return what it returned there before, as an object of its own."""
        key = tool, msgspec.json.encode(arguments)
        known = self.database.known_reads
        found = known.get(key)
        if found is not None:
            return ToolResult(Status.OK, msgspec.json.decode(found[0]), None, found[1])
        result = tool.run(arguments, ToolContext(self))
        if result.status is Status.OK:
            value = msgspec.json.encode(result.value)
            if len(value) <= _MAX_KNOWN_BYTES and msgspec.json.decode(value) == result.value:
                if len(known) >= _MAX_KNOWN_READS:
                    known.clear()
                known[key] = value, result.operated
        return result

    def _write(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Run a tool that writes in a savepoint of its own, kept only if the call ends OK."""
        execute = self.execute
        execute("SAVEPOINT call")
        kept, noted = False, len(self._journal)
        try:
            result = tool.run(arguments, ToolContext(self))
            kept = result.status is Status.OK
        finally:
            if kept:
                execute("RELEASE call")
                self.wrote = True
                self._changes = None
                self._written.append((tool, arguments))
            elif self.connection.in_transaction:
                execute("ROLLBACK TO call")
                execute("RELEASE call")
                del self._journal[noted:]
            else:
                self._replay()
        return result

    def _replay(self) -> None:
        """Write again what was written so far: SQLite undoes everything when it interrupts a write."""
        self._journal.clear()
        self.execute("SAVEPOINT episode")
        self._put(self._start)
        for tool, arguments in self._written:
            self._ticks.count = 0
            tool.run(arguments, ToolContext(self))

    def touched(self) -> Changes:
        """Return the rows that were written since the reset, as they are now (written twice or back: once).

        They are not to be changed.
        """
        if not self.wrote:
            return {}
        if self._changes is not None:
            return self._changes
        self._ticks.count = 0
        changes: Changes = {}
        execute = self.execute
        for entry in self._journal:
            table = self._tables[entry[0]]
            parts = entry[1:]
            key = parts if table.width > 1 else parts[0]
            rows = changes.setdefault(entry[0], {})
            if key not in rows:
                rows[key] = execute(table.one, parts).fetchone()
        self._changes = changes
        return changes

    def snapshot(self) -> Snapshot:
        """Return the state, to be restored in this or any other session of the database."""
        return Snapshot(
            self.touched(), frozenset(self.operated), frozenset(self.refused), tuple(self.shown), tuple(self.failed)
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Put the session into the state of `snapshot`."""
        self.reset()
        self.operated.update(snapshot.operated)
        self.refused.update(snapshot.refused)
        self.shown.extend(snapshot.shown)
        self.failed.extend(snapshot.failed)
        if snapshot.touched:
            self._start = snapshot.touched
            self._put(snapshot.touched)
            self.wrote = True

    def _put(self, changes: Changes) -> None:
        """Put rows in place of those with their keys."""
        self._ticks.count = 0
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
                    self._journal.append((name, *table.parts(key)))
        execute("PRAGMA defer_foreign_keys = OFF")

    def close(self) -> None:
        """Release the database."""
        self.connection.close()
