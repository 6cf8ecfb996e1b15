"""Analysis of an external database's schema: names, types, keys, references, kinds of columns.

`analyse_schema` turns what `toolorchestra.toolscale.synth.tables.sqlite_file` read into tables that the domain format
can say: one spelling of every name and value, a primary key for every table, references that hold (declared ones, and
those that names and data imply), tables in the order of their references, and no more rows than a domain should carry.
Everything that is changed or left out is noted.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.database.connection import Connection
from toolorchestra.toolscale.database.sql import quote
from toolorchestra.toolscale.requests.filters import Stage
from toolorchestra.toolscale.requests.naming import singular, snake_case, word_lists
from toolorchestra.toolscale.synth.tables.foreign_keys import ordered, refer
from toolorchestra.toolscale.synth.tables.kinds import MAX_CHOICES, is_secret, kind_of, words_of
from toolorchestra.toolscale.synth.tables.names_file import DomainNames, GivenNames, all_names, is_spelled, read_names
from toolorchestra.toolscale.synth.tables.notes import Notes
from toolorchestra.toolscale.synth.tables.references_file import GivenReferences
from toolorchestra.toolscale.synth.tables.sampling import MAX_ROWS_IN_ALL, sample
from toolorchestra.toolscale.synth.tables.sqlite_file import SqliteTable, read_sqlite, without_framework_tables
from toolorchestra.toolscale.synth.tables.tables import Column, Table, bare, is_unique, numbered
from toolorchestra.toolscale.synth.tables.values import offsets_of, spelled

_KEY_ENDS = ("id", "no", "number", "code", "key")
_CURRENCY = re.compile(r"(?:^|_)(?:currency|currencies|waehrung|wahrung|devise|moneda|valuta)(?:_|$)")
_FEW = 10
_CODE = re.compile(r"[A-Za-z0-9._-]{1,12}")
_UNIT = re.compile(r"(?:^|_)(?:unit|unit_name|unit_of_measure|uom|einheit)$")


@dataclass
class SchemaAnalysis:
    """The tables in the order of their references, what was changed or left out, and what all things are called."""

    tables: dict[str, Table]
    notes: Notes
    names: GivenNames
    stages: list[Stage] = field(default_factory=list)


def analyse_schema(
    file: Path,
    given_names: Path | GivenNames | None = None,
    rows: int = MAX_ROWS_IN_ALL,
    references_file: Path | None = None,
) -> SchemaAnalysis:
    """Return what a SQLite file's tables mean, with about so many `rows`.

    Names that are given, or a file of them, say what they are called, and a file of references what refers to what.

    Raises:
        DomainError: A file cannot be read, or holds nothing that a domain can be made of.
    """
    notes = Notes()
    names: dict[str, str] = {}
    names_file = None if isinstance(given_names, GivenNames) else given_names
    given_names = given_names if isinstance(given_names, GivenNames) else read_names(names_file)
    sources = without_framework_tables(read_sqlite(file), given_names.tables, notes)
    called = DomainNames(sources, given_names, names_file)
    given = GivenReferences(sources, references_file)
    for source in sources:
        names[source.name] = called.table(source.name, names.values())
    tables: dict[str, Table] = {}
    for source in sources:
        drafted = _drafted(source, names[source.name], called, notes)
        if drafted is None:
            notes.left_out(f"The table {source.name!r} holds nothing but BLOBs and was left out.")
        else:
            tables[drafted.name] = drafted
    if not any(table.size for table in tables.values()):
        raise DomainError("Expected a database with records; all of its tables are empty.", file=file)
    refer(tables, sources, names, given, notes)
    tables = ordered(tables, notes)
    sample(tables, notes, rows)
    for table in tables.values():
        _characterise(table)
        _keep_checks(table, notes)
    _mark_mixed(tables, notes)
    return SchemaAnalysis(tables, notes, all_names(tables.values(), given_names))


# ------------------------------------------------------------------------------------------- tables one by one


def _drafted(source: SqliteTable, name: str, called: DomainNames, notes: Notes) -> Table | None:
    """Return a table with its values in one spelling and a primary key; references are not known yet."""
    one = singular(name)
    columns: dict[str, Column] = {}
    data: dict[str, list[Any]] = {}
    renamed: dict[str, str] = {}
    naming = {part.lower() for parts in (source.key, *source.uniques) if len(parts) == 1 for part in parts}
    referring = {part.lower() for parts, _, _ in source.references for part in parts}
    cells = list(zip(*source.rows, strict=True)) or [()] * len(source.columns)
    to_utc = len(set().union(*map(offsets_of, cells))) > 1
    for raw, values in zip(source.columns, cells, strict=True):
        column = snake_case(called.column(source.name, raw.name, one), columns, "column")
        cells_called = [called.value(value) for value in values] if called.values else values
        names_rows = raw.name.lower() in naming | referring
        found = spelled(column, raw.declared, cells_called, source=raw.name, names_rows=names_rows, to_utc=to_utc)
        if found is None:
            notes.left_out(f"The column {source.name}.{raw.name} holds BLOBs and was left out.")
            continue
        identifies = raw.name.lower() in referring | {part.lower() for part in source.key}
        if any(is_secret(known, found, identifies=identifies) for known in (column, snake_case(raw.name))):
            notes.left_out(f"{source.name}.{raw.name} looks like a secret: left out.")
            continue
        if found.note:
            notes.append(f"{source.name}.{raw.name}: {found.note}.")
        nullable = None in found.values if values else not raw.not_null
        default = called.sql_value(raw.default) if raw.default and raw.default[0] == "'" else raw.default
        columns[column] = Column(
            column, raw.name, found.type, found.shape, nullable, default=default, required=raw.not_null
        )
        data[column], renamed[raw.name.lower()] = found.values, column
    if source.computed:
        notes.left_out(f"Computed columns of {source.name} were left out: {', '.join(source.computed)}.")
    if not columns:
        return None
    lost = [(source.name, name), *((column.source, column.name) for column in columns.values())]
    lost = [(old, new) for old, new in lost if not is_spelled(old) and re.match(r"(?:table|column)_\d", new)]
    if lost:
        notes.changed(f"{', '.join(f'{old} is called {new}' for old, new in lost)}: its letters cannot be written.")
    uniques = [
        tuple(renamed[part.lower()] for part in parts)
        for parts in source.uniques
        if all(p.lower() in renamed for p in parts)
    ]
    table = Table(name, source.name, columns, data, (), uniques=uniques, total=source.total)
    declared = tuple(renamed[part.lower()] for part in source.key if part.lower() in renamed)
    _choose_key(table, declared if len(declared) == len(source.key) else (), notes)
    checks = [[called.sql_value(token) if token[0] == "'" else token for token in tokens] for tokens in source.checks]
    table.checks = [check for tokens in checks if (check := _translated(tokens, renamed, columns)) is not None]
    return table


def _choose_key(table: Table, declared: tuple[str, ...], notes: Notes) -> None:
    """Give a table its primary key: the declared one, a column that serves as one, or a number of its own."""
    one = table.one
    key = declared
    if not key:
        likely = (*(f"{one}_{end}" for end in _KEY_ENDS), "code", "number")
        singles = [*((name,) for name in likely if name in table.columns), *table.uniques]
        ids = tuple(name for name in table.columns if name.endswith("_id"))
        start = next(iter(table.columns))
        coded = table.columns[start].type != "REAL" and all(_CODE.fullmatch(str(v)) for v in table.data[start])
        leading = [(start,)] if coded and table.size >= _FEW else []  # fewer may differ by chance
        key = next((k for k in [*singles, *leading, ids] if k and table.size and is_unique(table, k)), ())
        if key:
            sources = ", ".join(table.columns[part].source for part in key)
            notes.inferred(f"{table.source}({sources}) is taken for the primary key: no two rows share it.")
    if key:
        first: dict[Any, int] = {}
        for i, values in enumerate(zip(*(table.data[part] for part in key), strict=True)):
            if None not in values:
                first.setdefault(values, i)
        if lost := table.size - len(first):
            notes.left_out(f"Rows of {table.source} without a key, or with that of another: {lost}, left out.")
            table.take(list(first.values()))
    else:
        name = snake_case(f"{one}_id", table.columns)
        table.columns = {name: Column(name, "", "INTEGER", "number", nullable=False)} | table.columns
        table.data = {name: list(range(1, table.size + 1))} | table.data
        key = (name,)
        notes.append(f"{table.source} has no primary key; its rows were numbered.")
    table.key = key
    for column in (table.columns[part] for part in key):
        column.in_key, column.nullable, column.required = True, False, True


_PLAIN = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|'(?:[^']|'')*'|[<>=!]=?|<>|[-+*/%(),]|\|\|", re.DOTALL)
_ALLOWED = frozenset(
    ("AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "LIKE", "GLOB", "LENGTH", "LOWER", "UPPER", "TRIM", "ABS",
     "ROUND", "COALESCE", "IFNULL")
)  # fmt: skip


def _translated(tokens: Sequence[str], renamed: Mapping[str, str], columns: Mapping[str, Column]) -> list[str] | None:
    """Return a CHECK in the domain's names, if it says no more than the format may."""
    found = []
    for token in tokens:
        name = token[1:-1].lower() if token[0] in '"`[' else token.lower()
        if name in renamed and token[0] != "'":
            if renamed[name] not in columns:
                return None
            found.append(bare(renamed[name]))
        elif token.upper() in _ALLOWED or _PLAIN.fullmatch(token):
            found.append(token.upper() if token[0].isalpha() else token)
        else:
            return None
    return found


# ------------------------------------------------------------------------------------------- what columns are


def _characterise(table: Table) -> None:
    """Say of every column what kind of thing it holds, and how its rows are named."""
    for column in table.columns.values():
        present = table.present(column.name)
        may_lack = not table.size or len(present) < table.size
        column.nullable = column.nullable and may_lack and column.name not in table.key
        distinct = set(present)
        declared = any((column.name,) == unique for unique in table.uniques)
        column.unique = not column.in_key and (column.unique or declared) and len(distinct) == len(present)
        column.required = not column.nullable
        shape = column.traits.shape
        if not column.is_plain and not column.is_date:  # what names a row is no answer to yes or no
            shape = "text" if column.type == "TEXT" else "number"
        if column.name not in table.paired or shape != "number":
            column.kind = kind_of(column.name, shape, present, plain=column.is_plain, unique=column.unique)
        column.can_be_summed = column.traits.summed and column.is_plain
        column.can_be_compared = column.traits.compared and column.is_plain
        column.words = words_of(_plain_name(table, column), shape, present)
        if column.kind == "category":
            column.choices = sorted(distinct, key=str)
    for tokens in table.checks:
        if len(tokens) > 4 and tokens[1:3] == ["IN", "("] and (found := table.columns.get(tokens[0].strip('"'))):
            choices = [token[1:-1].replace("''", "'") for token in tokens[3:-1:2] if token[0] == "'"]
            words = found.is_plain and (found.is_text or found.kind == "category")
            if words and len(choices) == len(tokens[3:-1:2]) <= 2 * MAX_CHOICES:
                found.kind = "category"
                found.choices = choices + [value for value in found.choices if value not in choices]
    if len(table.key) == 1 and not table.columns[table.key[0]].references:
        table.generated = numbered(table) is not None
    table.describe()


def _mark_mixed(tables: Mapping[str, Table], notes: Notes) -> None:
    """Mark amounts in several currencies or units, of the table itself or else of what its rows refer to."""
    for table in tables.values():
        parents = [tables[column.target[0]] for column in table.references]
        for named, kinds in ((_CURRENCY, ("money", "price")), (_UNIT, ("price", "quantity", "number"))):
            said = [_measures(table, named)]
            said = said if said[0] else [_measures(parent, named) for parent in parents]
            for column in table.columns.values() if max(map(len, said), default=0) > 1 else ():
                if column.kind in kinds and column.can_be_compared:
                    column.can_be_summed = column.can_be_compared = False
                    what = "currencies" if named is _CURRENCY else "units"
                    notes.append(f"{table.name}.{column.name} is in several {what}: neither added up nor compared.")


def _measures(table: Table, named: re.Pattern[str]) -> set[Any]:
    """Return the currencies or units in the columns of a table that are named so, or hold codes of currencies."""
    found: set[Any] = set()
    for column in table.columns.values():
        values = set(table.present(column.name))
        if named is _CURRENCY:  # a rate of exchange is none
            likely = not (column.is_number and column.is_plain)
        else:  # nor are apartments, such as 4B
            likely = column.type == "TEXT" and len(values) <= MAX_CHOICES and not re.search(r"\d", "".join(values))
        codes = named is _CURRENCY and values <= word_lists().currencies
        found |= values if codes or (likely and named.search(column.name)) else set()
    return found


def _plain_name(table: Table, column: Column) -> str:
    """Return a column's name without what the table's name says: ``post_status`` of a post is the "status"."""
    short = column.name.removeprefix(f"{table.one}_")
    name = column.name if short in table.columns or short in _KEY_ENDS else short
    if name == table.one and column.is_plain:
        return "name" if column.type == "TEXT" else "amount"
    return name


def _keep_checks(table: Table, notes: Notes) -> None:
    """Keep the CHECKs that compile and that every row meets."""
    connection = sqlite3.connect(":memory:", factory=Connection)
    connection.execute(f"CREATE TABLE t ({', '.join(f'{quote(c.name)} {c.type}' for c in table.columns.values())})")
    marks = ", ".join("?" * len(table.columns))
    connection.executemany(f"INSERT INTO t VALUES ({marks})", zip(*table.data.values(), strict=True))
    kept = []
    for tokens in table.checks:
        try:
            broken = connection.execute(f"SELECT count(*) FROM t WHERE NOT ({' '.join(tokens)})").fetchone()[0]
        except sqlite3.Error:
            broken = True
        if broken:
            notes.left_out(f"A CHECK of {table.source} does not hold in the domain's spelling and was left out.")
        else:
            kept.append(tokens)
    table.checks = kept
    connection.close()
