"""Net changes: differences of the rows that an episode touched from the initial database, in a comparable form.

Two episodes have the same effect when their net changes are equal, or equal up to the names of generated keys
(`canonical`).
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from typing import Any

import msgspec

from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.database.database import Changes, Database, Row
from toolorchestra.toolscale.database.format import TableSpec
from toolorchestra.toolscale.database.sql import primary_key
from toolorchestra.toolscale.tools.tool import Entry

_MAX_ROUNDS = 8

Edges = dict[Entry, list[tuple[str, Entry]]]
"""References of changed rows to inserted ones, by the row that refers: column and target."""


def net_changes(database: Database, touched: Changes) -> Changes:
    """Return the rows of `touched` that differ from the initial database, normalised for comparison."""
    changes: Changes = {}
    for table, rows in touched.items():
        spec = database.tables[table]
        for key, row in rows.items():
            now = _normal(spec, row)
            if now != _normal(spec, database.row(table, key)):
                changes.setdefault(table, {})[key] = now
    return changes


def _normal(spec: TableSpec, row: Row | None) -> Row | None:
    """Return a row as verification compares it: ignored columns blank, free text as words, floats rounded."""
    if row is None:
        return None
    cells: list[Any] = []
    for value, column in zip(row, spec.columns.values(), strict=True):
        if column.compare == "ignore":
            cells.append(None)
        elif column.compare == "text" and isinstance(value, str):
            cells.append(" ".join(tokens(value)))
        elif column.compare == "json" and isinstance(value, str):
            cells.append(_normal_json(value))
        else:
            cells.append(round(value, 6) if isinstance(value, float) else value)
    return tuple(cells)


def _normal_json(text: str) -> str:
    """Return JSON text that is the same for equal values: keys in order, whole numbers without a point."""

    def normal(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: normal(item) for key, item in value.items()}
        if isinstance(value, list):
            return [normal(item) for item in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    return msgspec.json.encode(normal(msgspec.json.decode(text)), order="sorted").decode()


def canonical(database: Database, changes: Changes) -> Counter[tuple[Any, ...]]:
    """Return changes as a multiset that does not depend on the names of generated keys.

    Each element is ``((table, key), row, colour, references)``, with the key None and generated cells blank for an
    inserted row.
    """
    new = {
        (table, key)
        for table, rows in changes.items()
        for key, row in rows.items()
        if row is not None and database.row(table, key) is None
    }
    blank, edges = _blanked(database, changes, new)
    colours = _colours(new, blank, edges)
    found: Counter[tuple[Any, ...]] = Counter()
    for (table, key), row in blank.items():
        refers = tuple((name, colours[target]) for name, target in edges[table, key])
        is_new = (table, key) in new and (database.tables[table].generated_key or bool(refers))
        colour = colours[table, key] if is_new else ""
        found[(table, None if is_new else key), row, colour, refers] += 1
    return found


def _blanked(database: Database, changes: Changes, new: set[Entry]) -> tuple[dict[Entry, Row | None], Edges]:
    """Return the rows without generated keys and references to inserted rows, and those references."""
    blank: dict[Entry, Row | None] = {}
    edges: Edges = defaultdict(list)
    for table, rows in changes.items():
        spec = database.tables[table]
        generated = set(primary_key(spec)) if spec.generated_key else set()
        for key, row in rows.items():
            if row is None:
                blank[table, key] = None
                continue
            cells: list[Any] = []
            for value, (name, column) in zip(row, spec.columns.items(), strict=True):
                target = (column.references.split(".")[0], value) if column.references else None
                if target in new and target is not None:
                    edges[table, key].append((name, target))
                    cells.append(None)
                else:
                    cells.append(None if name in generated and (table, key) in new else value)
            blank[table, key] = tuple(cells)
    return blank, edges


def _colours(new: set[Entry], blank: dict[Entry, Row | None], edges: Edges) -> dict[Entry, str]:
    """Return a colour for each inserted row, by which rows are equal that differ in their keys alone.

    Weisfeiler-Leman refinement on the graph of references between inserted rows, exact for the trees that they form.
    """
    colours = {entry: _digest(entry[0], blank[entry]) for entry in new}
    for _ in range(min(len(new), _MAX_ROUNDS)):
        back: dict[Entry, list[tuple[str, str, str]]] = defaultdict(list)
        for source, targets in edges.items():
            for name, target in targets:
                back[target].append((source[0], name, colours.get(source, repr(source))))
        colours = {
            entry: _digest(colours[entry], [(name, colours[to]) for name, to in edges[entry]], sorted(back[entry]))
            for entry in new
        }
    return colours


def _digest(*parts: Any) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()
