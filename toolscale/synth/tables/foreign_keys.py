"""References of an external database: those declared, those that names and data imply, and the order they give."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolorchestra.toolscale.synth.tables.notes import Notes
from toolorchestra.toolscale.synth.tables.sqlite_file import SqliteTable
from toolorchestra.toolscale.synth.tables.tables import Column, CompositeReference, Table, is_unique

_SELF = re.compile(r"parent|manager|supervisor|boss|reports_to|mentor|leader|referred_by|replaces|previous|successor")


def refer(tables: dict[str, Table], sources: Sequence[SqliteTable], names: Mapping[str, str], notes: Notes) -> None:
    """Find the references: those declared, then those that names and data imply."""
    by_source = {name.lower(): new for name, new in names.items()}
    for source in sources:
        table = tables.get(names[source.name])
        if table is None:
            continue
        by_name = {column.source.lower(): column.name for column in table.columns.values()}
        for columns, target, targets in source.references:
            parent = tables.get(by_source.get(target.lower(), ""))
            if len(columns) > 1 and parent is not None:
                wanted = [(by_name.get(c.lower(), ""), t.lower()) for c, t in zip(columns, targets, strict=False)]
                if not _attach_composite(table, parent, wanted or [(by_name.get(c.lower(), ""), "") for c in columns]):
                    message = f"{source.name}({', '.join(columns)}) does not refer to keys of {target} as it says"
                    notes.append(f"{message}; these are plain columns.")
                continue
            if parent is None or columns[0].lower() not in by_name:
                notes.append(f"The reference {source.name}({', '.join(columns)}) is not one that a domain can hold.")
                continue
            column = table.columns[by_name[columns[0].lower()]]
            there = {c.source.lower(): c.name for c in parent.columns.values()}
            goal = there.get(targets[0].lower()) if targets else (parent.key[0] if len(parent.key) == 1 else None)
            if goal is None or not _attach(table, column, parent, goal, share=0.9):
                notes.append(f"{source.name}.{columns[0]} does not refer to {target} as it says; it is a plain column.")
    for table in tables.values():
        for column in table.columns.values():
            if column.references is None and (implied := _implied(table, column, tables)):
                notes.inferred(f"{table.source}.{column.source} refers to {implied}, as its name and values say.")


def _attach_composite(table: Table, parent: Table, pairs: Sequence[tuple[str, str]]) -> bool:
    """Make several columns refer to another table's key, if at least 90 % of what they hold is found there.

    `pairs` are the columns, and what each refers to as the database calls it ("" for the key's parts in order).
    """
    there = {parent.columns[part].source.lower(): part for part in parent.key}
    by_part = {there.get(to, part): column for (column, to), part in zip(pairs, parent.key, strict=False)}
    columns = tuple(by_part.get(part, "") for part in parent.key)
    if parent is table or len(pairs) != len(parent.key) or not all(columns):
        return False
    if any(table.columns[c].type != parent.columns[p].type for c, p in zip(columns, parent.key, strict=True)):
        return False
    composite = CompositeReference(columns, parent.name)
    keys, present = parent.keys(), [key for key in composite.values(table) if key is not None]
    if not present or sum(key in keys for key in present) < 0.9 * len(present):
        return False
    table.composites.append(composite)
    for name in columns:
        column = table.columns[name]
        if column.kind == "number":
            column.kind = "reference"
    return True


def _attach(table: Table, column: Column, parent: Table, to: str, share: float) -> bool:
    """Make a column refer to another, if at least this share of its values is found there."""
    goal = parent.columns[to]
    if parent.key != (to,) and not (parent.size and is_unique(parent, (to,))):
        return False
    values = table.data[column.name]
    if column.type != goal.type:
        convert: Any = {"TEXT": str, "INTEGER": int, "REAL": float}[goal.type]
        try:
            values = [None if value is None else convert(value) for value in values]
        except ValueError:
            return False
    keys = set(parent.data[to])
    present = [value for value in values if value is not None]
    if present and sum(value in keys for value in present) < share * len(present):
        return False
    table.data[column.name] = values
    column.type, column.references = goal.type, (parent.name, to)
    column.kind = "key" if column.name in table.key else "reference"
    goal.unique = goal.unique or parent.key != (to,)
    return True


def _implied(table: Table, column: Column, tables: Mapping[str, Table]) -> str | None:
    """Attach a column to the table that its name speaks of, and return what it refers to."""
    if column.is_date or column.kind in ("flag", "json") or not table.present(column.name):
        return None
    for parent in tables.values():
        to = parent.key[0]
        if len(parent.key) > 1 or not parent.size:
            continue
        if parent is table:
            if not _SELF.search(column.name) or column.name in table.key:
                continue
        elif (
            not _names(column.name, parent, to)
            or (table.key == (column.name,) and not column.source)
            or parent.columns[to].references == (table.name, column.name)
        ):
            continue
        if _attach(table, column, parent, to, share=0.98):
            return f"{parent.source}.{parent.columns[to].source or to}"
    return None


def _names(column: str, parent: Table, key: str) -> bool:
    """Whether a column's name says that it holds keys of `parent`."""
    ends = ("id", "key", "no", "code", "number", "ref")
    wanted = {f"{form}_{end}" for form in (parent.one, parent.many) for end in ends}
    wanted |= {parent.one, f"{parent.one}id", f"id_{parent.one}", f"{parent.one}_fk", f"fk_{parent.one}"}
    if key not in ("id", "code", "number", "name", "key") and ("_" in key or len(key) > 4):
        wanted.add(key)
    return column in wanted | {parent.name} or any(column.endswith(f"_{name}") for name in wanted)


def ordered(tables: dict[str, Table], notes: Notes) -> dict[str, Table]:
    """Return the tables with every one after those that it refers to; what keeps on in circles is cut."""
    ordered: dict[str, Table] = {}
    waiting = dict(tables)
    while waiting:
        ahead = {
            name: [column for column in table.references if column.target[0] in waiting and column.target[0] != name]
            for name, table in waiting.items()
        }
        pairs = {
            name: [one for one in table.composites if one.target in waiting and one.target != name]
            for name, table in waiting.items()
        }
        name = min(
            waiting, key=lambda n: (len(ahead[n]) + len(pairs[n]), sum(not column.nullable for column in ahead[n]), n)
        )
        for composite in pairs[name]:
            notes.append(f"{name}({', '.join(composite.columns)}) refers in a circle; these are plain columns.")
            waiting[name].composites.remove(composite)
        for column in ahead[name]:
            notes.append(f"{name}.{column.name} refers in a circle; it is a plain column.")
            column.detach("key" if column.name in waiting[name].key else None)
        ordered[name] = waiting.pop(name)
    return ordered
