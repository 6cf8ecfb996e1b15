"""References that are not declared, but that names and values imply.

A reference needs both: the column's name has that of the table to which it refers, or of its key, and its values are
keys of that table. Values alone say nothing (small numbers are found everywhere), and a whole primary key never
refers: that it is another table's key, too, has to be declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolorchestra.toolscale.synth.tables.notes import Notes
from toolorchestra.toolscale.synth.tables.references_file import GivenReferences
from toolorchestra.toolscale.synth.tables.tables import Column, Table

_FOUND = 0.98  # share of the values that are keys of the other table
_DISTINCT = 20  # different values without which a name has to say exactly what it refers to
_SELF = r"parent|manager|supervisor|boss|reports_to|mentor|leader|referred_by|replaces|previous|successor"
_ENDS = ("id", "key", "ref", "fk")
_NUMBERS = ("no", "nr", "num", "number", "code")


def infer(tables: Mapping[str, Table], given: GivenReferences, notes: Notes) -> None:
    """Make columns references, where names and values say so; a file of references has the last word on a column."""
    for table in tables.values():
        for column in table.columns.values():
            fits = column.source and table.key != (column.name,) and column.kind not in ("date", "datetime", "flag")
            if not fits or column.references or given.names(table.source, [column.source]):
                continue
            named = {name: fit for name, parent in tables.items() if (fit := _named(table, column, parent, tables))}
            best = [name for name, fit in named.items() if fit == max(named.values())]
            if len(best) == 1 and (evidence := _evidence(table, column, tables[best[0]])):
                to = tables[best[0]].key[0]
                column.nullable = column.nullable or not set(table.present(column.name)) <= set(
                    tables[best[0]].data[to]
                )
                column.refer(best[0], to, in_key=column.name in table.key)
                column.inferred = True
                place = f"{tables[best[0]].source}.{tables[best[0]].columns[to].source}"
                notes.inferred(f"{table.source}.{column.source} → {place}: {evidence}; the name says so.")


def _named(table: Table, column: Column, parent: Table, tables: Mapping[str, Table]) -> int:
    """Return how many letters of a column's name speak of `parent` or its key; 0 where it is no column for its keys."""
    key = parent.columns[parent.key[0]]
    if len(parent.key) > 1 or not key.source or key.type != column.type:
        return 0
    if parent is table:
        ends = "|".join((*_ENDS, *_NUMBERS, parent.one, key.name, f"{parent.one}_id"))
        found = re.search(rf"(?:^|_)(?:{_SELF})(?:_(?:{ends}))?$", column.name)
        return len(found[0]) if found else 0
    if key.references == (table.name, column.name):
        return 0
    forms = _exact(parent) | {f"id_{parent.one}", f"fk_{parent.one}"}
    distinctive = key.name not in ("number", "name") and ("_" in key.name or len(key.name) > 4)
    if distinctive and sum(other.key == parent.key for other in tables.values()) == 1:
        forms.add(key.name)
    if not _is_run(parent.data[key.name]):
        forms.add(parent.one)
    ended = [form for form in forms if column.name == form or column.name.endswith(f"_{form}")]
    ended += [name for name in (parent.name, parent.one) if column.name == name]
    return max(map(len, ended), default=0)


def _exact(parent: Table) -> set[str]:
    """Return the names that say exactly that a column holds keys of `parent`, such as ``member_id``."""
    last = parent.key[0].rpartition("_")[2]
    ends = (*_ENDS, last) if last in _NUMBERS else _ENDS
    return {f"{word}_{end}" for word in (parent.one, parent.many, parent.name) for end in ends} | {f"{parent.one}id"}


def _evidence(table: Table, column: Column, parent: Table) -> str | None:
    """Return what the values say for a reference, or None where they do not say enough.

    A few different values are enough only under an exact name, and if all of them are keys; and where the keys
    only count on from 1, which any small numbers would hit, the column has to hold at least half of them.
    """
    keys, present = set(parent.data[parent.key[0]]), table.present(column.name)
    found = sum(value in keys for value in present)
    distinct = set(present)
    if not present or found < _FOUND * len(present):
        return None
    if len(distinct) < _DISTINCT:
        hits = len(distinct) > 1 and 2 * len(distinct) >= len(keys)
        chance = _is_run(list(keys)) and not hits
        if column.name not in _exact(parent) or not distinct <= keys or chance:
            return None
    return f"{found:,} of {len(present):,} values, {len(distinct):,} different"


def _is_run(keys: Sequence[Any]) -> bool:
    """Whether keys are numbers that count on from about 1, most of them in use."""
    return all(isinstance(key, int) for key in keys) and 0 <= min(keys, default=0) <= max(keys, default=0) < 2 * len(
        keys
    )
