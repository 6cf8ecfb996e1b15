"""Analysis of an external database's schema: names, types, keys, references, kinds of columns.

`analyse_schema` turns what `toolorchestra.toolscale.synth.tables.sqlite_file` read into tables that the domain format
can say: one spelling of every name and value, a primary key for every table, references that hold (declared ones, and
those that names and data imply), tables in the order of their references, and no more rows than a domain should carry.
Everything that is changed or left out is noted.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.database.connection import Connection
from toolorchestra.toolscale.database.sql import quote
from toolorchestra.toolscale.requests.naming import in_words, quantity_words, singular, snake_case, word_lists
from toolorchestra.toolscale.synth.tables.foreign_keys import ordered, refer
from toolorchestra.toolscale.synth.tables.names_file import DomainNames
from toolorchestra.toolscale.synth.tables.sampling import MAX_ROWS_IN_ALL, sample
from toolorchestra.toolscale.synth.tables.sqlite_file import SqliteTable, read_sqlite
from toolorchestra.toolscale.synth.tables.tables import Column, Table, bare, counts_on, is_rate, is_unique
from toolorchestra.toolscale.synth.tables.values import spelled

_KEY_ENDS = ("id", "no", "number", "code", "key")
MAX_CHOICES = 12
"""Values of a category."""

_NOTE = re.compile(r"note|comment|description|remark|reason|summary|bio|text|body|message|details")


@dataclass
class SchemaAnalysis:
    """The tables in the order of their references, and what was changed or left out."""

    tables: dict[str, Table]
    notes: list[str]


def analyse_schema(file: Path, names_file: Path | None = None, rows: int = MAX_ROWS_IN_ALL) -> SchemaAnalysis:
    """Return what a SQLite file's tables mean, with about so many `rows`; a file of names says what they are called.

    Raises:
        DomainError: A file cannot be read, or holds nothing that a domain can be made of.
    """
    notes: list[str] = []
    names: dict[str, str] = {}
    sources = read_sqlite(file)
    called = DomainNames(sources, names_file)
    for source in sources:
        names[source.name] = called.table(source.name, names.values())
    tables: dict[str, Table] = {}
    for source in sources:
        drafted = _drafted(source, names[source.name], called, notes)
        if drafted is None:
            notes.append(f"The table {source.name!r} holds nothing but BLOBs and was left out.")
        else:
            tables[drafted.name] = drafted
    if not any(table.size for table in tables.values()):
        raise DomainError("Expected a database with records; all of its tables are empty.", file=file)
    refer(tables, sources, names, notes)
    tables = ordered(tables, notes)
    sample(tables, notes, rows)
    for table in tables.values():
        _characterise(table)
        _keep_checks(table, notes)
    return SchemaAnalysis(tables, notes)


# ------------------------------------------------------------------------------------------- tables one by one


def _drafted(source: SqliteTable, name: str, called: DomainNames, notes: list[str]) -> Table | None:
    """Return a table with its values in one spelling and a primary key; references are not known yet."""
    one = singular(name)
    columns: dict[str, Column] = {}
    data: dict[str, list[Any]] = {}
    renamed: dict[str, str] = {}
    naming = {part.lower() for parts in (source.key, *source.uniques) if len(parts) == 1 for part in parts}
    naming |= {part.lower() for parts, _, _ in source.references for part in parts}
    cells = list(zip(*source.rows, strict=True)) or [()] * len(source.columns)
    for raw, values in zip(source.columns, cells, strict=True):
        wanted = called.column(source.name, raw.name)
        wanted = f"{one}_id" if wanted.lower() in ("id", "pk", "key", "rowid") else wanted
        column = snake_case(wanted, columns, "column")
        cells_called = [called.value(value) for value in values] if called.values else values
        found = spelled(column, raw.declared, cells_called, names_rows=raw.name.lower() in naming)
        if found is None:
            notes.append(f"The column {source.name}.{raw.name} holds BLOBs and was left out.")
            continue
        nullable = None in found.values if values else not raw.not_null
        default = called.sql_value(raw.default) if raw.default and raw.default[0] == "'" else raw.default
        columns[column] = Column(column, raw.name, found.type, found.shape, nullable, default=default)
        data[column], renamed[raw.name.lower()] = found.values, column
    if source.computed:
        notes.append(f"Computed columns of {source.name} were left out: {', '.join(source.computed)}.")
    if not columns:
        return None
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


def _choose_key(table: Table, declared: tuple[str, ...], notes: list[str]) -> None:
    """Give a table its primary key: the declared one, a column that serves as one, or a number of its own."""
    one = table.one
    key = declared
    if not key:
        likely = (*(f"{one}_{end}" for end in _KEY_ENDS), "code", "number")
        singles = [*((name,) for name in likely if name in table.columns), *table.uniques]
        ids = tuple(name for name in table.columns if name.endswith("_id"))
        key = next((k for k in [*singles, ids] if k and table.size and is_unique(table, k)), ())
    if key:
        first: dict[Any, int] = {}
        for i, values in enumerate(zip(*(table.data[part] for part in key), strict=True)):
            if None not in values:
                first.setdefault(values, i)
        if lost := table.size - len(first):
            notes.append(f"Rows of {table.source} without a key, or with that of another: {lost}, left out.")
            table.take(list(first.values()))
    else:
        name = snake_case(f"{one}_id", table.columns)
        table.columns = {name: Column(name, "", "INTEGER", "key", nullable=False)} | table.columns
        table.data = {name: list(range(1, table.size + 1))} | table.data
        key = (name,)
        notes.append(f"{table.source} has no primary key; its rows were numbered.")
    table.key = key
    for part in key:
        table.columns[part].kind, table.columns[part].nullable = "key", False


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
        distinct = Counter(present)
        declared = any((column.name,) == unique for unique in table.uniques)
        column.unique = column.name not in table.key and (column.unique or declared) and len(distinct) == len(present)
        column.required = not column.nullable
        column.words = _words(table, column, present)
        if column.kind == "text":
            longest = max(map(len, present), default=0)
            repeats = len(distinct) <= MAX_CHOICES and len(present) >= 3 * len(distinct)
            if repeats and present and longest <= 30:
                column.kind, column.choices = "category", sorted(distinct, key=str)
            elif longest > 80 or (_NOTE.search(column.name) and not column.unique):
                column.kind = "note"
        elif column.kind == "number" and _is_money(column, present):
            column.kind = "money"
    for tokens in table.checks:
        if len(tokens) > 4 and tokens[1:3] == ["IN", "("] and (found := table.columns.get(tokens[0].strip('"'))):
            choices = [token[1:-1].replace("''", "'") for token in tokens[3:-1:2] if token[0] == "'"]
            if found.kind in ("category", "text") and len(choices) == len(tokens[3:-1:2]) <= 2 * MAX_CHOICES:
                found.kind = "category"
                found.choices = choices + [value for value in found.choices if value not in choices]
    if len(table.key) == 1 and not table.columns[table.key[0]].references:
        table.generated = counts_on(table)
    table.describe()


def _is_money(column: Column, present: Sequence[Any]) -> bool:
    """Whether numbers are amounts of money: their name says so, and they are no rates."""
    if column.name.endswith("_id") or is_rate(column, present):
        return False
    return bool(re.search("|".join(word_lists().money) + "|fine$", column.name))


def _words(table: Table, column: Column, present: Sequence[Any]) -> str:
    """Return what a column's values are called: ``returned_on`` is the "date returned", ``born`` a "year born".

    What the table is called is not said again: ``post_status`` of a post is the "status".
    """
    short = column.name.removeprefix(f"{table.one}_")
    name = column.name if short in table.columns or short in _KEY_ENDS else short
    if name == table.one and name not in table.key and not column.references:
        name = "name" if column.type == "TEXT" else "amount"
    if said := word_lists().said.get(name):
        return said
    words = in_words(name)
    if column.is_date and not re.search(r"dat|day|time|tag|zeit|fecha|jour|giorno", words):
        after = words.endswith(("since", "until", "from", "to"))
        return f"{words} date" if after else f"date {re.sub(r' (?:on|at)$', '', words)}"
    number = column.type == "INTEGER" and column.kind == "number" and present
    years = number and min(present) >= 1000 and max(present) < 2200
    if years and words.endswith(("ed", "born", "built", "made")):
        return f"year {words}"
    if column.kind == "flag":
        return re.sub(r"^(?:is|has) ", "", words)
    if column.type == "TEXT" or column.is_date:
        return words
    return quantity_words(name, counts=all(float(value).is_integer() for value in present))


def _keep_checks(table: Table, notes: list[str]) -> None:
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
            notes.append(f"A CHECK of {table.source} does not hold in the domain's spelling and was left out.")
        else:
            kept.append(tokens)
    table.checks = kept
    connection.close()
