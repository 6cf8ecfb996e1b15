"""Sampling of rows from an external database, so that every reference of a sampled row finds its row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from toolorchestra.toolscale.synth.tables.notes import Notes
from toolorchestra.toolscale.synth.tables.tables import Column, Table

MAX_ROWS = 1_500
"""Rows kept of one table."""
MAX_ROWS_IN_ALL = 4_500
"""Rows kept of all tables together by default: every value is a word of the built-in model, which more words slow."""
MAX_CUT = 0.02
"""Share of a column's references to its own table that may close circles; with more, it refers to nothing."""


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


_Own = tuple[Column, dict[Any, int]]


def _own(table: Table) -> list[_Own]:
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
    own, whole = _own(table), dict(table.data)
    lost = dict.fromkeys((column.name for column, _ in own), 0)
    placed: dict[int, None] = {}
    while len(placed) < table.size:
        before = len(placed)
        for i in order:
            if i not in placed and _blocked(table, own, i, placed) is None:
                placed[i] = None
        if len(placed) > before:
            continue
        column, i = _circle(table, own, [i for i in order if i not in placed], placed)
        lost[column.name] += 1
        present = sum(value is not None for value in whole[column.name])
        if not column.required and lost[column.name] <= max(1, MAX_CUT * present):
            table.data[column.name] = [None if j == i else v for j, v in enumerate(table.data[column.name])]
            column.nullable = True
        else:
            notes.changed(f"{table.name}.{column.name} refers in a circle; it is a plain column.")
            column.detach()
            own = [pair for pair in own if pair[0] is not column]
            table.data[column.name], lost[column.name] = whole[column.name], 0
    for name, count in lost.items():
        if count:
            notes.left_out(f"{table.name}.{name}: {count} values that close a circle of rows were left out.")
    table.take(list(placed))


def _blocked(table: Table, own: list[_Own], i: int, placed: Collection[int]) -> tuple[Column, int] | None:
    """Return the first reference of a row to another of its table that is not placed, and that one's position."""
    for column, place in own:
        value = table.data[column.name][i]
        if value is not None and place[value] != i and place[value] not in placed:
            return column, place[value]
    return None


def _circle(table: Table, own: list[_Own], waiting: Sequence[int], placed: Collection[int]) -> tuple[Column, int]:
    """Return the reference by which a circle of rows is cut: column and row; one that may be missing, if there is."""
    trail: dict[int, Column] = {}
    i = waiting[0]
    while i not in trail and (blocked := _blocked(table, own, i, placed)):
        trail[i], i = blocked
    circle = list(trail)[list(trail).index(i) :]
    row = min(circle, key=lambda row: (trail[row].required, waiting.index(row)))
    return trail[row], row
