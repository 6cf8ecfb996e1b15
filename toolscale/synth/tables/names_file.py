"""Names for a domain made from a database: prefixes are stripped, and a file gives names in other words.

The file is YAML, with names of the database (case does not matter) and what they are to be called, mostly in English:

    tables: {tblKunden: customers}
    columns: {Ort: city, tblKunden.Angelegt: created_on}   # in all tables, or in one
    values: {storniert: cancelled}                         # texts, wherever a cell holds just that
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from toolorchestra.toolscale.common.errors import DomainError, unknown_name
from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml
from toolorchestra.toolscale.requests.naming import singular, snake_case, spelled_out, word_lists
from toolorchestra.toolscale.synth.tables.sqlite_file import SqliteTable
from toolorchestra.toolscale.synth.tables.tables import Table

_TABLE_PREFIX = re.compile(r"^(?:(?:[Tt]bl|[Tt]ab|[Tt]b|TBL|TAB|TB)(?:_|(?=[A-Z]))|tbl(?=[a-z]))")
_TYPE_PREFIX = re.compile(r"^(?:str|txt|int|lng|dbl|cur|dat|dtm|bln|fld)_?(?=[A-Z])")


class GivenNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names that a file gives."""

    tables: dict[str, str] = {}
    columns: dict[str, str] = {}
    values: dict[str, str] = {}


class DomainNames:
    """What the tables, columns and texts of a database are called in a domain.

    Args:
        sources: The tables of the database.
        given: The names that a file gives.
        file: That file, for errors.

    Raises:
        DomainError: A name is given to something that the database does not have.
    """

    def __init__(self, sources: Sequence[SqliteTable], given: GivenNames, file: Path | None = None) -> None:
        tables = [source.name for source in sources]
        columns = [column.name for source in sources for column in source.columns]
        columns += [f"{source.name}.{column.name}" for source in sources for column in source.columns]
        self._tables = _known("table", given.tables, tables, file)
        self._columns = _known("column", given.columns, columns, file)
        self.values = given.values
        plain = _numbered("table", tables, _TABLE_PREFIX)
        self._plain = dict(zip(tables, _without_prefixes(list(map(snake_case, plain.values()))), strict=True))
        columns_of = {source.name: [column.name for column in source.columns] for source in sources}
        self._plain_columns = {name: _numbered("column", names, _TYPE_PREFIX) for name, names in columns_of.items()}

    def table(self, name: str, taken: Collection[str]) -> str:
        """Return what a table is called."""
        return snake_case(self._tables.get(name.lower()) or self._plain[name], taken, "table")

    def column(self, table: str, name: str, one: str) -> str:
        """Return what a column of a table of rows called `one` is called; `table` is as the database has it."""
        given = self._columns.get(f"{table}.{name}".lower()) or self._columns.get(name.lower())
        called = given or self._plain_columns[table][name]
        return f"{one}_id" if snake_case(called, fallback="") in ("id", "pk", "key", "rowid") else called

    def value(self, cell: object) -> object:
        """Return what a cell's text is called, or the cell as it is."""
        return self.values.get(cell, cell) if isinstance(cell, str) else cell

    def sql_value(self, token: str) -> str:
        """Return a quoted text of SQL with what it is called."""
        text = token[1:-1].replace("''", "'")
        return "'" + self.values[text].replace("'", "''") + "'" if text in self.values else token


def read_names(file: Path | None) -> GivenNames:
    """Return the names that a file gives.

    Raises:
        DomainError: It cannot be read.
    """
    try:
        return GivenNames() if file is None else convert(read_yaml(file), GivenNames)
    except (DomainError, UnicodeDecodeError) as error:
        remedy = "Write it as docs/from_sqlite.md shows: objects `tables`, `columns` and `values` of names."
        raise DomainError(str(error), file=file, remedy=remedy) from None


def all_names(tables: Iterable[Table], given: GivenNames) -> GivenNames:
    """Return what all tables, columns and texts of categories are called; as a file of names, it changes nothing."""
    tables = list(tables)
    columns = {f"{t.source}.{c.source}": c.name for t in tables for c in t.columns.values() if c.source}
    texts = [str(choice) for t in tables for c in t.columns.values() if c.type == "TEXT" for choice in c.choices]
    values = given.values | {text: text for text in texts if text not in given.values.values()}
    return GivenNames({table.source: table.name for table in tables}, columns, values)


def look_foreign(names: GivenNames) -> bool:
    """Whether names do not look English: more words of other languages, and letters, than words of English schemas."""
    called = [*names.tables.values(), *names.columns.values()]
    words = {word for name in called for word in name.split("_")}
    unspelled = {name for name in called if re.match(r"(?:table|column)_\d", name)}
    return len(words & word_lists().foreign) + len(unspelled) > len(words & word_lists().english)


def _known(kind: str, given: dict[str, str], known: Iterable[str], file: Path | None) -> dict[str, str]:
    names = {name.lower(): name for name in known}
    for name in given:
        if name.lower() not in names:
            raise DomainError(unknown_name(kind, name, names.values()), file=file, path=f"{kind}s")
    return {name.lower(): called for name, called in given.items()}


def _numbered(kind: str, names: Sequence[str], prefix: re.Pattern[str]) -> dict[str, str]:
    """Return names without a prefix, and a number for those of which letters cannot be written, such as ``table_1``."""
    found = {name: prefix.sub("", name) for name in names}
    for number, name in enumerate((name for name in names if not is_spelled(name)), 1):
        found[name] = f"{kind}_{number}_{snake_case(found[name], fallback='')}".strip("_")
    return found


def is_spelled(name: str) -> bool:
    """Whether all letters of a name, and one at least, can be written in snake_case."""
    return any(map(str.isalnum, name)) and all(spelled_out(letter) for letter in name if letter.isalpha())


def _without_prefixes(names: Sequence[str]) -> list[str]:
    """Return names of tables without the first word that all share; in Django's files, several do: those of its apps.

    A prefix stays where it is a table's own name, and where what is left is another's.
    """
    firsts = Counter(name.partition("_")[0] for name in names)
    shared = {first for first, count in firsts.items() if count > 1}
    if "auth_user" in names or "auth_group" in names:
        shared -= {form for name in names for form in (name, singular(name))}
    elif len(firsts) > 1 or len(names) < 3:
        return list(names)
    short = [name.partition("_")[2] if name.partition("_")[0] in shared else name for name in names]
    count = Counter(short)
    fits = [count[left] == 1 and left[:1].isalpha() for left in short]
    if len(firsts) == 1 and not all(fits):
        return list(names)
    return [left if fit else name for name, left, fit in zip(names, short, fits, strict=True)]
