"""Sampling of rows from an external database, so that every reference of a sampled row finds its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolorchestra.toolscale.synth.tables.notes import Notes
from toolorchestra.toolscale.synth.tables.tables import Column, Table

MAX_ROWS = 1_500
"""Rows kept of one table."""
MAX_ROWS_IN_ALL = 4_500
"""Rows kept of all tables together by default: every value is a word of the built-in model, which more words slow."""


def sample(tables: Mapping[str, Table], notes: Notes, rows: int = MAX_ROWS_IN_ALL) -> None:
    """Keep a bounded part of the rows, about so many `rows` in all, in which every reference finds its row."""
    for table in tables.values():
        _drop_dangling(table, tables, notes)
    bound = MAX_ROWS if rows <= MAX_ROWS_IN_ALL else rows
    while bound > 50 and sum(min(table.size, bound) for table in tables.values()) > rows:
        bound = bound * 9 // 10
    needed: dict[str, dict[str, set[Any]]] = {name: {} for name in tables}
    paired: dict[str, set[Any]] = {name: set() for name in tables}
    for table in reversed(list(tables.values())):
        chosen = set(range(table.size))
        if table.size > bound:
            chosen = {
                i for to, values in needed[table.name].items() for i, v in enumerate(table.data[to]) if v in values
            }
            keys = zip(*(table.data[part] for part in table.key), strict=True)
            chosen |= {i for i, key in enumerate(keys) if key in paired[table.name]}
            stride = table.size / bound
            even = (int(i * stride) for i in range(bound))
            while len(chosen) < bound:
                chosen.add(next(even))
            _with_ancestors(table, chosen)
            notes.left_out(f"Of the {table.total} rows of {table.source}, {len(chosen)} were kept.")
        table.take(sorted(chosen))
        for column in table.references:
            target, to = column.target
            needed[target].setdefault(to, set()).update(table.present(column.name))
        for composite in table.composites:
            paired[composite.target].update(composite.values(table))
    for table in tables.values():
        _sort_rows(table, notes)


def _drop_dangling(table: Table, tables: Mapping[str, Table], notes: Notes) -> None:
    """Leave out references that find no row: the value where it may be missing, else the whole row."""
    while True:
        lost: set[int] = set()
        for column in table.references:
            target, to = column.target
            keys = set(tables[target].data[to])
            cells = table.data[column.name]
            dangling = {i for i, value in enumerate(cells) if value is not None and value not in keys}
            if dangling and column.nullable:
                table.data[column.name] = [None if i in dangling else value for i, value in enumerate(cells)]
                count = f"{table.source}.{column.source}: {len(dangling)} values"
                notes.left_out(f"{count} that refer to nothing were left out.")
            else:
                lost |= dangling
        for composite in table.composites:
            found = tables[composite.target].keys()
            lost |= {i for i, key in enumerate(composite.values(table)) if key is not None and key not in found}
        if not lost:
            return
        notes.left_out(f"{len(lost)} rows of {table.source} refer to nothing and were left out.")
        table.take([i for i in range(table.size) if i not in lost])


def _own(table: Table) -> list[tuple[Column, dict[Any, int]]]:
    """Return the columns that refer to the table itself, with the position of the row for each of their values."""
    return [
        (column, {value: i for i, value in enumerate(table.data[column.target[1]])})
        for column in table.references
        if column.target[0] == table.name
    ]


def _with_ancestors(table: Table, chosen: set[int]) -> None:
    for column, place in _own(table):
        waiting = list(chosen)
        while waiting:
            value = table.data[column.name][waiting.pop()]
            if value is not None and (parent := place[value]) not in chosen:
                chosen.add(parent)
                waiting.append(parent)


def _sort_rows(table: Table, notes: Notes) -> None:
    """Sort the rows by key, each after those of its own table that it refers to."""
    order = sorted(
        range(table.size), key=lambda i: tuple((str(type(v)), v) for v in (table.data[p][i] for p in table.key))
    )
    for column, place in _own(table):
        placed: dict[int, None] = {}
        waiting = order
        while waiting:
            later = []
            for i in waiting:
                value = table.data[column.name][i]
                if value is None or place[value] in placed or place[value] == i:
                    placed[i] = None
                else:
                    later.append(i)
            if len(later) == len(waiting):  # they refer to one another in a circle
                notes.append(f"{table.name}.{column.name} refers in a circle; it is a plain column.")
                column.detach()
                placed |= dict.fromkeys(later)
                break
            waiting = later
        order = list(placed)
    table.take(order)
