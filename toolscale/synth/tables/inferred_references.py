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
    parents: dict[str, list[Table]] = {}  # by what the names of columns end with
    for parent in tables.values():
        if len(parent.key) == 1 and parent.columns[parent.key[0]].source:
            for form in _forms(parent, tables):
                parents.setdefault(form, []).append(parent)
    for table in tables.values():
        for column in table.columns.values():
            plain = column.source and not column.references and column.kind not in ("date", "datetime", "flag")
            if not plain or table.key == (column.name,) or given.names(table.source, [column.source]):
                continue
            found = _named(table, column, parents)
            if len(found) == 1 and (evidence := _evidence(table.present(column.name), column, found[0])):
                key = found[0].columns[found[0].key[0]]
                column.nullable |= not set(table.present(column.name)) <= set(found[0].data[key.name])
                column.references = found[0].name, key.name
                column.inferred = True
                place = f"{found[0].source}.{key.source}"
                notes.inferred(f"{table.source}.{column.source} → {place}: {evidence}; the name says so.")


def _named(table: Table, column: Column, parents: Mapping[str, Sequence[Table]]) -> list[Table]:
    """Return the tables of whose keys a column's name speaks, by the most of its words that are such a name."""
    ends = "|".join((*_ENDS, *_NUMBERS, table.one, *table.key, f"{table.one}_id"))
    if re.search(rf"(?:^|_)(?:{_SELF})(?:_(?:{ends}))?$", column.name):
        return [table] if len(table.key) == 1 and table.columns[table.key[0]].type == column.type else []
    words = column.name.split("_")
    for start in range(len(words)):
        end = "_".join(words[start:])
        named = [*parents.get(end, ()), *(parents.get(f"{end} alone", ()) if not start else ())]
        if found := [parent for parent in named if parent is not table and _may(table, column, parent)]:
            return found
    return []


def _may(table: Table, column: Column, parent: Table) -> bool:
    """Whether a column may hold keys of `parent`: of the same type, and not referred to by that key."""
    key = parent.columns[parent.key[0]]
    return key.type == column.type and key.references != (table.name, column.name)


def _forms(parent: Table, tables: Mapping[str, Table]) -> set[str]:
    """Return how the names of columns end that hold keys of `parent`; " alone" is said of a whole name."""
    key = parent.key[0]
    forms = _exact(parent) | {f"id_{parent.one}", f"fk_{parent.one}"}
    distinctive = key not in ("number", "name") and ("_" in key or len(key) > 4)
    if distinctive and sum(other.key == parent.key for other in tables.values()) == 1:
        forms.add(key)
    alone = " alone" if _is_run(parent.data[key]) else ""  # such as `sort_order`, which is no order
    return forms | {f"{parent.one}{alone}", f"{parent.name} alone"}


def _exact(parent: Table) -> set[str]:
    """Return the names that say exactly that a column holds keys of `parent`, such as ``member_id``."""
    last = parent.key[0].rpartition("_")[2]
    ends = (*_ENDS, last) if last in _NUMBERS else _ENDS
    return {f"{word}_{end}" for word in (parent.one, parent.many, parent.name) for end in ends} | {f"{parent.one}id"}


def _evidence(present: Sequence[Any], column: Column, parent: Table) -> str:
    """Return what the values say for a reference, or nothing where they do not say enough.

    A few different values are enough only under an exact name, and if all of them are keys; and where the keys
    only count on from 1, which any small numbers would hit, the column has to hold at least half of them.
    """
    keys, distinct = parent.data[parent.key[0]], set(present)
    hit = distinct.intersection(keys)
    found = sum(value in hit for value in present)
    if not present or found < _FOUND * len(present):
        return ""
    if len(distinct) < _DISTINCT:
        chance = _is_run(keys) and not 2 <= len(distinct) >= len(keys) / 2
        if column.name not in _exact(parent) or distinct != hit or chance:
            return ""
    return f"{found:,} of {len(present):,} values, {len(distinct):,} different"


def _is_run(keys: Sequence[Any]) -> bool:
    """Whether keys are numbers that count on from about 1, most of them in use."""
    numbers = all(isinstance(key, int) for key in keys)
    return numbers and min(keys, default=0) >= 0 and max(keys, default=0) < 2 * len(keys)
