"""Documents and rows: τ²-bench's JSON database as tables of SQLite, and the view of an episode's rows as documents.

A document is a row: a column for each of its keys, in which lists and objects are JSON text. What stands under `dates`
of a flight are rows of a table of their own, as a booking changes one of them only. The functions of τ²-bench's
packages run on an `OpenDatabase`: documents that nobody has changed are those that were read from the package once,
all others come from the session's rows. What a function changes is written to the rows of the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolorchestra.toolscale.database.build import build_database
from toolorchestra.toolscale.database.database import Changes, Row
from toolorchestra.toolscale.database.format import DomainSpec, TableSpec
from toolorchestra.toolscale.database.sql import primary_key, quote
from toolorchestra.toolscale.tasks.session import Session

Document = dict[str, Any]
_INNER = {"flights": ("dates", "flight_dates")}
"""The key of a table's documents under which the documents of another table stand, and that table."""


class DocumentTables:
    """The tables of a world, and the documents that they hold at the beginning, which are never changed.

    Args:
        spec: Its tables.
        documents: The documents by table and key, as the package has them.
    """

    def __init__(self, spec: DomainSpec, documents: Mapping[str, Mapping[str, Document]]) -> None:
        self.spec, self.documents = spec, documents
        self.upserts = {name: _upsert(name, table) for name, table in spec.tables.items()}

    def image(self) -> bytes:
        """Return the initial database as SQLite's bytes."""
        rows: dict[str, list[Document]] = {name: [] for name in self.spec.tables}
        for name, documents in self.documents.items():
            for key, document in documents.items():
                for table, _, row in self.rows(name, key, document):
                    rows[table].append(dict(zip(self.spec.tables[table].columns, row, strict=True)))
        tables = {name: msgspec.structs.replace(table, rows=rows[name]) for name, table in self.spec.tables.items()}
        return build_database(msgspec.structs.replace(self.spec, tables=tables))

    def rows(self, name: str, key: str, document: Document) -> Iterator[tuple[str, Any, Row]]:
        """Yield the rows of a document of a table: table, key and cells."""
        yield name, key, _row(self.spec.tables[name], document)
        if name in _INNER:
            field, inner = _INNER[name]
            columns = primary_key(self.spec.tables[inner])
            for part, found in document[field].items():
                whole = dict(zip(columns, (key, part), strict=True)) | found
                yield inner, (key, part), _row(self.spec.tables[inner], whole)

    def document(self, name: str, row: Row, *, without: int = 0) -> Document:
        """Return the document of a row, but for its first columns; a key whose cell is NULL is left out."""
        cells = [*zip(self.spec.tables[name].columns.items(), row, strict=True)][without:]
        return {
            column: msgspec.json.decode(value) if spec.compare == "json" else value
            for (column, spec), value in cells
            if value is not None
        }


class OpenDatabase(dict[str, Any]):
    """The documents of an episode, as the functions of τ²-bench take them: by table and key.

    Args:
        tables: The tables.
        session: The episode's rows.
        writes: Whether documents may be changed: those that are looked up are then copies, which `save` writes.
    """

    def __init__(self, tables: DocumentTables, session: Session, *, writes: bool) -> None:
        changed = session.touched()
        if changed or writes:
            super().__init__((name, _OpenTable(name, tables, changed, writes)) for name in tables.documents)
        else:
            super().__init__(tables.documents)
        self._tables, self._session = tables, session

    def save(self) -> None:
        """Write what was changed to the session."""
        for name, table in self.items():
            for key, (before, document) in table.opened.items():
                if document == before:
                    continue
                known = [] if before is None else [*self._tables.rows(name, key, before)]
                for found in self._tables.rows(name, key, document):
                    if found not in known:
                        self._session.execute(self._tables.upserts[found[0]], found[2])


class _OpenTable(Mapping[str, Document]):
    """The documents of a table: `opened` has those that may have been changed, after what each was before."""

    def __init__(self, name: str, tables: DocumentTables, changed: Changes, writes: bool) -> None:
        self._name, self._tables, self._writes = name, tables, writes
        self._first = tables.documents[name]
        self._changed = {key: row for key, row in changed.get(name, {}).items() if row is not None}
        self._parts: dict[str, dict[str, Row]] = {}
        if name in _INNER:
            for (key, part), row in changed.get(_INNER[name][1], {}).items():
                if row is not None:
                    self._parts.setdefault(key, {})[part] = row
        self.opened: dict[str, tuple[Document | None, Document]] = {}

    def __getitem__(self, key: str) -> Document:
        if key in self.opened:
            return self.opened[key][1]
        before = self._made(key) if key in self._changed or key in self._parts else self._first[key]
        if not self._writes:
            return before
        document: Document = msgspec.json.decode(msgspec.json.encode(before))
        self.opened[key] = before, document
        return document

    def _made(self, key: str) -> Document:
        """Return a document that was changed before."""
        row = self._changed.get(key)
        if row is not None:
            return self._tables.document(self._name, row)
        field, inner = _INNER[self._name]
        parts = {part: self._tables.document(inner, found, without=2) for part, found in self._parts[key].items()}
        first = self._first[key]
        return {**first, field: {**first[field], **parts}}

    def __setitem__(self, key: str, document: Document) -> None:
        self.opened[key] = None, document

    def __contains__(self, key: object) -> bool:
        return key in self._first or key in self._changed or key in self.opened

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys((*self._first, *self._changed, *self.opened))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _row(table: TableSpec, document: Document) -> Row:
    """Return the cells of a document; lists and objects as JSON text, and NULL for what it does not have."""
    found = (document.get(column) for column in table.columns)
    return tuple(msgspec.json.encode(one).decode() if isinstance(one, list | dict) else one for one in found)


def _upsert(name: str, table: TableSpec) -> str:
    """Return the SQL that puts a row in the place of that with its key, or adds it."""
    key = primary_key(table)
    others = ", ".join(f"{quote(column)} = excluded.{quote(column)}" for column in table.columns if column not in key)
    places = ", ".join("?" * len(table.columns))
    return (
        f"INSERT INTO {quote(name)} VALUES ({places}) ON CONFLICT ({', '.join(map(quote, key))}) DO UPDATE SET {others}"
    )
