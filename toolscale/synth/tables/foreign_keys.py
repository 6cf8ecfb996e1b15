"""References of an external database: those declared or given, those inferred, and the order they give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.synth.tables.inferred_references import infer
from toolorchestra.toolscale.synth.tables.notes import Notes
from toolorchestra.toolscale.synth.tables.references_file import GivenReferences
from toolorchestra.toolscale.synth.tables.sqlite_file import SqliteTable
from toolorchestra.toolscale.synth.tables.tables import CompositeReference, Table, is_unique

_FOUND = 0.9  # share of the values of a reference that are found, if it is one


def refer(
    tables: dict[str, Table],
    sources: Sequence[SqliteTable],
    names: Mapping[str, str],
    given: GivenReferences,
    notes: Notes,
) -> None:
    """Find the references: those declared, as a file corrects them, then those that names and values imply.

    Raises:
        DomainError: A reference that the file gives does not hold.
    """
    by_source = {name.lower(): new for name, new in names.items()}
    for source in sources:
        if (table := tables.get(names[source.name])) is None:
            continue
        for columns, target, targets in given.of(source):
            parent = tables.get(by_source.get(target.lower(), ""))
            fault = f"{target} is not in the domain"
            if parent is not None:
                attach = _attach_composite if len(columns) > 1 else _attach
                fault = attach(table, _called(table, columns), parent, _called(parent, targets))
            if fault and given.names(source.name, columns):
                message = f"{source.name}.{','.join(columns)} does not refer to {target}: {fault}."
                raise DomainError(message, file=given.file, remedy="Correct it, or leave it out.")
            if fault:
                _note_plain(notes, source.name, columns, f"does not refer to {target} as it says ({fault})")
    infer(tables, given, notes)


def _note_plain(notes: Notes, table: str, columns: Sequence[str], why: str) -> None:
    """Note that columns do not refer to rows, and why."""
    if len(columns) > 1:
        notes.changed(f"{table}({', '.join(columns)}) {why}; these are plain columns.")
    else:
        notes.changed(f"{table}.{columns[0]} {why}; it is a plain column.")


def _called(table: Table, columns: Iterable[str]) -> list[str]:
    """Return what columns of the database are called; "" for those that the domain does not have."""
    by_source = {column.source.lower(): column.name for column in table.columns.values()}
    return [by_source.get(column.lower(), "") for column in columns]


def _attach_composite(table: Table, columns: Sequence[str], parent: Table, targets: Sequence[str]) -> str:
    """Make several columns refer to another table's key; return why they cannot, or nothing."""
    by_part = dict(zip(targets or parent.key, columns, strict=False))
    columns = tuple(by_part.get(part, "") for part in parent.key)
    if parent is table or len(by_part) != len(parent.key) or not all(columns):
        return f"they are no columns for each of its key, {', '.join(parent.key)}"
    if any(table.columns[c].type != parent.columns[p].type for c, p in zip(columns, parent.key, strict=True)):
        return "the types differ"
    composite = CompositeReference(columns, parent.name)
    if fault := _missing(composite.values(table), parent.keys()):
        return fault
    table.composites.append(composite)
    for name in columns:
        column = table.columns[name]
        if column.kind == "number":
            column.kind = "identifier"
    return ""


def _attach(table: Table, columns: Sequence[str], parent: Table, targets: Sequence[str]) -> str:
    """Make a column refer to another; return why it cannot, or nothing."""
    to = targets[0] if targets else parent.key[0] if len(parent.key) == 1 else ""
    if not columns[0] or not to:
        return "one of the columns is not in the domain, or its key has several"
    column, goal = table.columns[columns[0]], parent.columns[to]
    if parent.key != (to,) and not (parent.size and is_unique(parent, (to,))):
        return f"rows share what stands in {parent.source}.{goal.source}"
    values = table.data[column.name]
    if column.type != goal.type:
        convert: Any = {"TEXT": str, "INTEGER": int, "REAL": float}[goal.type]
        try:
            values = [None if value is None else convert(value) for value in values]
        except ValueError:
            return "the types differ"
    if fault := _missing(values, set(parent.data[to])):
        return fault
    table.data[column.name] = values
    column.type, column.references = goal.type, (parent.name, to)
    goal.unique = goal.unique or parent.key != (to,)
    return ""


def _missing(values: Iterable[Any], keys: set[Any]) -> str:
    """Return how many of the values are not found, if they are too many."""
    present = [value for value in values if value is not None]
    lost = [value for value in present if value not in keys]
    if len(present) - len(lost) >= _FOUND * len(present):
        return ""
    return f"{len(lost):,} of {len(present):,} values are not found there, such as {lost[0]!r}"


def ordered(tables: dict[str, Table], notes: Notes) -> dict[str, Table]:
    """Return the tables with every one after those that it refers to; what would keep on in a circle is cut."""
    links: dict[tuple[str, str], list[tuple[str, ...]]] = {}  # the columns by which a table refers to another
    for name, table in tables.items():
        singles = [((column.name,), column.target[0]) for column in table.references]
        for columns, target in [*singles, *((one.columns, one.target) for one in table.composites)]:
            if target != name:
                links.setdefault((name, target), []).append(columns)
    kept = _without_circles({pair: _weight(tables[pair[0]], references) for pair, references in links.items()})
    for name, target in links:
        if target not in kept[name]:
            for columns in links[name, target]:
                _detach(tables[name], columns, notes)
    found: dict[str, Table] = {}
    while waiting := tables.keys() - found.keys():
        name = min(name for name in waiting if not kept[name] & waiting)
        found[name] = tables[name]
    return found


def _weight(table: Table, references: Iterable[tuple[str, ...]]) -> tuple[int, bool]:
    """Return how many rows refer by these references, and whether they must."""
    rows = sum(min(len(table.present(name)) for name in columns) for columns in references)
    return rows, any(all(table.columns[name].required for name in columns) for columns in references)


def _without_circles(weights: Mapping[tuple[str, str], tuple[int, bool]]) -> dict[str, set[str]]:
    """Return what each table still refers to: the heaviest first, all that closes no circle with what is kept."""
    kept: dict[str, set[str]] = defaultdict(set)
    for name, target in sorted(weights, key=lambda pair: (weights[pair], pair), reverse=True):
        seen, waiting = {target}, [target]
        while waiting:
            news = kept[waiting.pop()] - seen
            seen |= news
            waiting += news
        if name not in seen:
            kept[name].add(target)
    return kept


def _detach(table: Table, columns: tuple[str, ...], notes: Notes) -> None:
    """Make a reference that is part of a circle plain columns."""
    _note_plain(notes, table.name, columns, "refers in a circle")
    if len(columns) > 1:
        table.composites = [one for one in table.composites if one.columns != columns]
    else:
        table.columns[columns[0]].detach()
