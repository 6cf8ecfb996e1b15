"""Names for a domain made from a database: prefixes are stripped, and a file gives names in other words.

The file is YAML, with names of the database (case does not matter) and what they are to be called, mostly in English:

    tables: {tblKunden: customers}
    columns: {Ort: city, tblKunden.Angelegt: created_on}   # in all tables, or in one
    values: {storniert: cancelled}                         # texts, wherever a cell holds just that
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from toolorchestra.toolscale.common.errors import DomainError, unknown_name
from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml
from toolorchestra.toolscale.requests.naming import snake_case
from toolorchestra.toolscale.synth.tables.sqlite_file import SqliteTable

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
        file: A file of names, if there is one.

    Raises:
        DomainError: The file cannot be read, or names something that the database does not have.
    """

    def __init__(self, sources: Sequence[SqliteTable], file: Path | None = None) -> None:
        given = GivenNames() if file is None else _read(file)
        tables = [source.name for source in sources]
        columns = [column.name for source in sources for column in source.columns]
        columns += [f"{source.name}.{column.name}" for source in sources for column in source.columns]
        self._tables = _known("table", given.tables, tables, file)
        self._columns = _known("column", given.columns, columns, file)
        self.values = given.values
        plain = [_TABLE_PREFIX.sub("", name) for name in tables]
        prefix = _shared_prefix([snake_case(name) for name in plain])
        self._plain = {name: snake_case(short).removeprefix(prefix) for name, short in zip(tables, plain, strict=True)}

    def table(self, name: str, taken: Collection[str]) -> str:
        """Return what a table is called."""
        return snake_case(self._tables.get(name.lower()) or self._plain[name], taken, "table")

    def column(self, table: str, name: str) -> str:
        """Return what a column of a table is called, not in snake_case yet; `table` is as the database has it."""
        given = self._columns.get(f"{table}.{name}".lower()) or self._columns.get(name.lower())
        return given or _TYPE_PREFIX.sub("", name)

    def value(self, cell: object) -> object:
        """Return what a cell's text is called, or the cell as it is."""
        return self.values.get(cell, cell) if isinstance(cell, str) else cell

    def sql_value(self, token: str) -> str:
        """Return a quoted text of SQL with what it is called."""
        text = token[1:-1].replace("''", "'")
        return "'" + self.values[text].replace("'", "''") + "'" if text in self.values else token


def _read(file: Path) -> GivenNames:
    try:
        return convert(read_yaml(file), GivenNames)
    except (DomainError, UnicodeDecodeError) as error:
        remedy = "Write it as docs/from_sqlite.md shows: objects `tables`, `columns` and `values` of names."
        raise DomainError(str(error), file=file, remedy=remedy) from None


def _known(kind: str, given: dict[str, str], known: Iterable[str], file: Path | None) -> dict[str, str]:
    names = {name.lower(): name for name in known}
    for name in given:
        if name.lower() not in names:
            raise DomainError(unknown_name(kind, name, names.values()), file=file, path=f"{kind}s")
    return {name.lower(): called for name, called in given.items()}


def _shared_prefix(names: Sequence[str]) -> str:
    """Return the first word that all of three or more names share, with what ties it to the rest, or nothing."""
    firsts = {name.partition("_")[0] for name in names}
    rests = {name.partition("_")[2] for name in names}
    shared = len(names) > 2 and len(firsts) == 1 and len(rests) == len(names) and all(r[:1].isalpha() for r in rests)
    return f"{firsts.pop()}_" if shared else ""
