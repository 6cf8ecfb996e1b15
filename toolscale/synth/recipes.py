"""Recipes fitted to records: they make new rows that are like those of a table, without keeping any of them.

Categories keep their shares, numbers their range and skew, dates their span and the gaps between them, references
their parents, what depends on a state stays tied to it; people get new names, addresses and numbers from Faker. Tables
of a few rows (branches, categories) are what they are, and keep their rows, as do those whose keys cannot be invented.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from toolorchestra.toolscale.database.format import ColumnSpec, Recipe, Scalar, TableSpec
from toolorchestra.toolscale.synth.derived.request_parts import is_person
from toolorchestra.toolscale.synth.tables.tables import (
    Column,
    CompositeReference,
    Table,
    bare,
    implied_references,
    literal,
    numbered,
    serial_of,
)

MAX_KEPT = 12
"""A table of no more rows is one that the place has, not one that fills up."""
_MAX_PAIRS = 200_000
_MAX_CHOICES = 300

_PEOPLE: tuple[tuple[str, Recipe], ...] = (
    (r"first_name|given_name|forename", Recipe(faker="first_name")),
    (r"last_name|surname|family_name", Recipe(faker="last_name")),
    (r"email", Recipe(faker="ascii_safe_email")),
    (r"phone|mobile|fax", Recipe(faker="numerify", args={"text": "555-####"})),
    (r"street|address", Recipe(faker="street_address")),
    (r"zip|postcode|postal", Recipe(faker="postcode")),
    (r"user_?name|login", Recipe(faker="user_name")),
    (r"birth|dob", Recipe(faker="date_of_birth")),
)
_PERSON = Recipe(faker="name")


def recipe_tables(tables: Mapping[str, Table], specs: Mapping[str, TableSpec]) -> dict[str, TableSpec]:
    """Return the specifications of tables with recipes for rows where they can be fitted."""
    return {
        name: (table.size > MAX_KEPT and _fitted(table, tables, specs[name])) or specs[name]
        for name, table in tables.items()
    }


def _fitted(table: Table, tables: Mapping[str, Table], spec: TableSpec) -> TableSpec | None:
    """Return a table's specification with recipes instead of rows, or None if its keys cannot be invented."""
    columns: dict[str, ColumnSpec] = {}
    query, count = None, table.size
    if len(table.key) > 1:
        query, count = _pairs(table, tables), 0
        if query is None:
            return None
    elif not table.generated and not table.columns[table.key[0]].references:
        return None
    for name, column in spec.columns.items():
        if query is not None and name in table.key:
            columns[name] = column
            continue
        recipe = _key(table) if name in table.key else _recipe(table, table.columns[name], tables)
        if recipe is None:
            return None
        columns[name] = replace(column, recipe=recipe)
    return replace(spec, columns=columns, rows=[], query=query, count=count)


def _key(table: Table) -> Recipe:
    column = table.columns[table.key[0]]
    if column.references:
        return Recipe(reference=".".join(column.references), unique=True)
    prefix, width = numbered(table) or ("", 0)
    return Recipe(sequence=f"{prefix}{{:0{width}d}}" if width else "{}")


def _pairs(table: Table, tables: Mapping[str, Table]) -> str | None:
    """Return the query that draws as many pairs of referred rows as the table has, or None."""
    references = [table.columns[part].references for part in table.key]
    parents = [reference for reference in references if reference is not None]
    size = math.prod(tables[target].size for target, _ in parents)
    if len(parents) < len(references) or size > _MAX_PAIRS:
        return None
    cells = [f"p{i}.{bare(to)}" for i, (_, to) in enumerate(parents)]
    shown = ", ".join(f"{cell} AS {bare(part)}" for cell, part in zip(cells, table.key, strict=True))
    sources = " CROSS JOIN ".join(f"{bare(target)} p{i}" for i, (target, _) in enumerate(parents))
    return f"SELECT {shown} FROM {sources} ORDER BY draw('{table.name}', {', '.join(cells)}) LIMIT {table.size}"


def _recipe(table: Table, column: Column, tables: Mapping[str, Table]) -> Recipe | None:
    values = table.data[column.name]
    present = [value for value in values if value is not None]
    nulls = round(1 - len(present) / len(values), 3)
    if not present:
        return Recipe(value=None)
    if composite := next((one for one in table.composites if column.name in one.columns), None):
        return _paired(table, column, composite, tables[composite.target], nulls)
    if column.references:
        return _reference(table, column, tables, nulls)
    if column.is_date and not re.search(r"birth|dob", column.name):
        return _date(table, column, present, nulls)
    if column.kind in ("category", "flag"):
        found = sorted(Counter(present).items(), key=lambda pair: str(pair[0]))
        choices, weights = [value for value, _ in found], [float(times) for _, times in found]
        return Recipe(choice=choices, weights=weights, null_share=nulls)
    if column.type != "TEXT":
        return _number(table, column, present, nulls)
    return _text(table, column, present, nulls)


def _draw(table: Table, *salt: str) -> str:
    """Return the SQL of a number in [0, 1) that is the row's own."""
    keys = ", ".join(f"{bare(table.name)}.{bare(part)}" for part in table.key)  # another table may have such names
    return f"draw({literal('.'.join((table.name, *salt)))}, {keys})"


def _reference(table: Table, column: Column, tables: Mapping[str, Table], nulls: float) -> Recipe | None:
    target, to = column.target
    if target == table.name:
        if not table.generated or to != table.key[0]:
            return None
        prefix, width = numbered(table) or ("", 0)
        key = bare(to)
        number = f"CAST(substr({key}, {len(prefix) + 1}) AS INTEGER)" if width else key
        before = f"1 + CAST({_draw(table, column.name)} * ({number} - 1) AS INTEGER)"
        found = f"{literal(prefix)} || printf('%0{width}d', {before})" if width else before
        first = "NULL" if column.nullable else key
        lacks = f" OR {_draw(table, column.name, 'none')} < {nulls}" if nulls else ""
        return Recipe(sql=f"CASE WHEN {number} = 1 THEN {first} WHEN 0{lacks} THEN NULL ELSE {found} END")
    via = implied_references(table, tables).get(column.name)
    if via is not None:
        other, far = via
        parent, key = table.columns[other].target
        source = f"SELECT p.{bare(far)} FROM {bare(parent)} p"
        return Recipe(sql=f"({source} WHERE p.{bare(key)} = {bare(table.name)}.{bare(other)})")
    shares = Counter(table.present(column.name))
    parents = tables[target].size
    mean = sum(shares.values()) / parents
    if not column.unique and max(shares.values()) > 4 * mean + 8:  # a few have most: draw them oftener
        place = f"CAST({_draw(table, column.name)} * {_draw(table, column.name)} * {parents} AS INTEGER)"
        return Recipe(sql=_nth(target, to, (to,), place))
    return Recipe(reference=f"{target}.{to}", unique=column.unique, null_share=nulls)


def _paired(table: Table, column: Column, composite: CompositeReference, parent: Table, nulls: float) -> Recipe:
    """Return the recipe of a column that refers with others to one row: all draw the same number."""
    salt = "_".join(composite.columns)
    part = parent.key[composite.columns.index(column.name)]
    place = f"CAST({_draw(table, salt)} * {parent.size} AS INTEGER)"
    found = _nth(parent.name, part, parent.key, place)
    return _unless(f"{_draw(table, salt, 'none')} < {nulls}" if nulls else "", found)


def _nth(table: str, column: str, order: Sequence[str], place: str) -> str:
    """Return the SQL of a column of the row at a place, from 0, in an order; an OFFSET could not depend on the row."""
    keys = ", ".join(f"p.{bare(part)}" for part in order)
    numbered_rows = (
        f"SELECT p.{bare(column)} AS cell, row_number() OVER (ORDER BY {keys}) - 1 AS pos FROM {bare(table)} p"
    )
    return f"(SELECT cell FROM ({numbered_rows}) WHERE pos = {place})"


def _date(table: Table, column: Column, present: list[str], nulls: float) -> Recipe:
    days = sorted(value[:10] for value in present)
    before = takewhile(lambda other: other is not column, table.columns.values())
    dates = [other for other in before if other.kind == column.kind == "date" and other.required]
    earlier = [other for other in dates if _gaps(table, other, column)]
    lacks = _when_missing(table, column, nulls)
    if earlier:
        gaps = _gaps(table, earlier[-1], column)
        low, high = gaps[0], gaps[int(0.98 * (len(gaps) - 1))]
        step = f"CAST({low} + {_draw(table, column.name)} * {high - low + 1} AS INTEGER)"
        found = f"date({bare(earlier[-1].name)}, '+' || {step} || ' days')"
        if column.nullable:  # what has not happened when the records end has no date
            lacks = " OR ".join(part for part in (lacks, f"{found} > '{days[-1]}'") if part)
        return _unless(lacks, found)
    if column.kind == "date" and (not lacks or "draw" in lacks):
        return Recipe(dates=(days[0], days[-1]), null_share=nulls)
    span = f"julianday('{days[-1]}') - julianday('{days[0]}') + 1"
    found = f"date('{days[0]}', '+' || CAST({_draw(table, column.name)} * ({span}) AS INTEGER) || ' days')"
    if column.kind == "datetime":
        minute = f"CAST({_draw(table, column.name, 'time')} * 600 AS INTEGER)"
        found += f" || printf(' %02d:%02d:00', 8 + {minute} / 60, {minute} % 60)"
    return _unless(lacks, found)


def _unless(lacks: str, found: str) -> Recipe:
    """Return the recipe of an expression, or of NULL where the condition `lacks` holds."""
    return Recipe(sql=f"CASE WHEN {lacks} THEN NULL ELSE {found} END" if lacks else found)


def _gaps(table: Table, first: Column, second: Column) -> list[int]:
    """Return the days between two dates of every row, sorted; none if the second is ever the earlier one."""
    gaps = [
        (datetime.date.fromisoformat(end) - datetime.date.fromisoformat(start)).days
        for start, end in zip(table.data[first.name], table.data[second.name], strict=True)
        if start is not None and end is not None
    ]
    return sorted(gaps) if gaps and min(gaps) >= 0 else []


def _when_missing(table: Table, column: Column, nulls: float) -> str:
    """Return the SQL of when a value is missing: in certain states, or by chance."""
    state = table.status
    if not nulls:
        return ""
    if state is not None:
        lacking = {s for s, v in zip(table.data[state.name], table.data[column.name], strict=True) if v is None}
        having = {s for s, v in zip(table.data[state.name], table.data[column.name], strict=True) if v is not None}
        if not lacking & having:
            return f"{bare(state.name)} IN ({', '.join(map(literal, sorted(lacking, key=str)))})"
    return f"{_draw(table, column.name, 'none')} < {nulls}"


def _number(table: Table, column: Column, present: list[Any], nulls: float) -> Recipe:
    distinct = Counter(present)
    if len(distinct) <= 20 and not column.unique:
        values = sorted(distinct)
        return Recipe(choice=values, weights=[float(distinct[value]) for value in values], null_share=nulls)
    values = sorted(present)
    low, high, middle = values[0], values[-1], values[len(values) // 2]
    steps = (1.0, 0.5, 0.25, 0.05, 0.01)
    step = 1.0 if column.type == "INTEGER" else next(
        (s for s in steps if all(abs((v - low) / s - round((v - low) / s)) < 1e-6 for v in values)), 0.01
    )  # fmt: skip
    skewed = (middle - low) < 0.35 * (high - low)
    if column.unique or not skewed:
        return Recipe(range=(low, high), step=step, unique=column.unique, null_share=nulls)
    draw = _draw(table, column.name)
    grid = f"CAST({draw} * {draw} * {round((high - low) / step) + 1} AS INTEGER)"
    found = f"{low} + {grid}" if step == 1.0 and column.type == "INTEGER" else f"round({low!r} + {grid} * {step!r}, 4)"
    return _unless(f"{_draw(table, column.name, 'none')} < {nulls}" if nulls else "", found)


def _text(table: Table, column: Column, present: list[str], nulls: float) -> Recipe | None:
    unique = column.unique or any(natural.columns == (column.name,) for natural in table.naturals)
    for pattern, recipe in _PEOPLE:
        if re.search(pattern, f"{column.name} {column.kind}"):
            return replace(recipe, unique=unique, null_share=nulls)
    if is_person(table) and re.search(r"(?:^|_)name$", column.name):
        return replace(_PERSON, unique=unique, null_share=nulls)
    if unique and not nulls and (form := serial_of(present)):
        return Recipe(sequence=f"{form[0]}{{:0{form[1]}d}}")
    choices: list[Scalar] = list(dict.fromkeys(present))
    if unique:
        return Recipe(choice=choices, unique=True, null_share=nulls) if len(choices) == len(present) else None
    return Recipe(choice=choices[:_MAX_CHOICES], null_share=nulls)
