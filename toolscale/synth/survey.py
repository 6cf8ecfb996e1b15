"""What the tables of a foreign database mean: names, types, keys, references, kinds of columns.

`survey` turns what `toolorchestra.toolscale.synth.foreign` read into tables that the domain format can say: one
spelling of every name and value, a primary key for every table, references that hold (declared ones, and those
that names and data imply), tables in the order of their references, and no more rows than a domain should carry.
Whatever is changed or left out on the way is noted.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from toolorchestra.toolscale.build import quote
from toolorchestra.toolscale.errors import DomainError
from toolorchestra.toolscale.synth.foreign import ForeignTable, read_foreign
from toolorchestra.toolscale.synth.values import Type, spelled
from toolorchestra.toolscale.synth.words import INITIAL, plural, said, singular, snake_case, verb

Kind = Literal["key", "reference", "flag", "category", "date", "datetime", "money", "number", "text", "note", "json"]

MOST_ROWS = 2_000
"""Rows kept of one table."""
MOST_ROWS_IN_ALL = 12_000
MOST_CHOICES = 12
"""Values of a category."""

_MONEY = re.compile(r"price|amount|cost|fee|total|balance|salary|wage|budget|charge|fine$|deposit|discount")
_NOTE = re.compile(r"note|comment|description|remark|reason|summary|bio|text|body|message|details")
_STATUS = re.compile(r"(?:^|_)(?:status|state|stage)$")
_LABEL = ("name", "title", "full_name", "label", "email", "email_address", "username", "code", "isbn", "barcode", "sku",
          "number")  # fmt: skip
_SELF = re.compile(
    r"(?:parent|manager|supervisor|boss|reports_to|mentor|leader|referred_by|replaces|previous|successor)"
)


@dataclass
class Column:
    """A column as the domain will have it."""

    name: str
    source: str
    type: Type
    kind: Kind
    nullable: bool
    unique: bool = False
    default: str | None = None
    choices: list[Any] = field(default_factory=list)
    references: tuple[str, str] | None = None
    required: bool = False
    words: str = ""


@dataclass
class Natural:
    """A way to name a row without its key: a column, or first and last name, that no two rows share."""

    name: str
    columns: tuple[str, ...]


@dataclass
class Table:
    """A table as the domain will have it, column by column."""

    name: str
    source: str
    columns: dict[str, Column]
    data: dict[str, list[Any]]
    key: tuple[str, ...]
    generated: bool = False
    uniques: list[tuple[str, ...]] = field(default_factory=list)
    checks: list[list[str]] = field(default_factory=list)
    naturals: list[Natural] = field(default_factory=list)
    total: int = 0

    @property
    def one(self) -> str:
        """The name of one row, e.g. ``loan``."""
        return singular(self.name)

    @property
    def many(self) -> str:
        """The name of several rows, e.g. ``loans``."""
        return plural(self.name)

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(next(iter(self.data.values())))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows, as objects."""
        names = list(self.data)
        return [dict(zip(names, row, strict=True)) for row in zip(*self.data.values(), strict=True)]

    @property
    def references(self) -> list[Column]:
        """The columns that refer to other rows."""
        return [column for column in self.columns.values() if column.references]

    @property
    def is_link(self) -> bool:
        """Whether a row does little but tie others together."""
        return len(self.key) > 1 and all(self.columns[part].references for part in self.key)

    @property
    def status(self) -> Column | None:
        """The column that says in which state a row is."""
        found = [
            c for c in self.columns.values() if c.kind == "category" and c.type == "TEXT" and _STATUS.search(c.name)
        ]
        if not found:
            found = [
                column
                for column in self.columns.values()
                if column.kind == "category" and len({verb(str(choice)) for choice in column.choices} - {None}) > 1
            ]
        return found[0] if found else None

    def take(self, chosen: Sequence[int]) -> None:
        """Keep the rows at the positions `chosen`, in that order."""
        self.data = {name: [cells[i] for i in chosen] for name, cells in self.data.items()}

    def describe(self) -> None:
        """Say anew how rows are named, after the rows have changed."""
        self.naturals = _naturals(self)


@dataclass
class Survey:
    """The tables in the order of their references, and what was changed or left out."""

    tables: dict[str, Table]
    notes: list[str]


def survey(file: Path) -> Survey:
    """Return what a SQLite file's tables mean.

    Raises:
        DomainError: The file cannot be read, or holds nothing that a domain can be made of.
    """
    notes: list[str] = []
    names: dict[str, str] = {}
    foreign = read_foreign(file)
    for source in foreign:
        names[source.name] = snake_case(source.name, names.values(), "table")
    tables: dict[str, Table] = {}
    for source in foreign:
        drafted = _drafted(source, names[source.name], notes)
        if drafted is None:
            notes.append(f"The table {source.name!r} holds nothing but BLOBs and was left out.")
        else:
            tables[drafted.name] = drafted
    if not any(table.size for table in tables.values()):
        raise DomainError("Expected a database with records; all of its tables are empty.", file=file)
    _refer(tables, foreign, names, notes)
    tables = _ordered(tables, notes)
    _sample(tables, notes)
    for table in tables.values():
        _characterise(table)
        _keep_checks(table, notes)
    return Survey(tables, notes)


# ------------------------------------------------------------------------------------------- tables one by one


def _drafted(source: ForeignTable, name: str, notes: list[str]) -> Table | None:
    """Return a table with its values in one spelling and a primary key; references are not known yet."""
    one = singular(name)
    columns: dict[str, Column] = {}
    data: dict[str, list[Any]] = {}
    renamed: dict[str, str] = {}
    cells = list(zip(*source.rows, strict=True)) or [()] * len(source.columns)
    for raw, values in zip(source.columns, cells, strict=True):
        wanted = f"{one}_id" if raw.name.lower() in ("id", "pk", "key", "rowid") else raw.name
        column = snake_case(wanted, columns, "column")
        found = spelled(column, raw.declared, values)
        if found is None:
            notes.append(f"The column {source.name}.{raw.name} holds BLOBs and was left out.")
            continue
        kind: Kind = "number" if found.shape == "number" else found.shape
        nullable = not raw.not_null if not values else any(value is None for value in found.values)
        columns[column] = Column(column, raw.name, found.type, kind, nullable, default=raw.default)
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
    table.checks = [check for tokens in source.checks if (check := _translated(tokens, renamed, columns)) is not None]
    return table


def _choose_key(table: Table, declared: tuple[str, ...], notes: list[str]) -> None:
    """Give a table its primary key: the declared one, a column that serves as one, or a number of its own."""
    one = table.one
    key = declared
    if not key:
        likely = (f"{one}_id", f"{one}_no", f"{one}_number", f"{one}_code", f"{one}_key", "code", "number")
        singles = [*((name,) for name in likely if name in table.columns), *table.uniques]
        ids = tuple(name for name in table.columns if name.endswith("_id"))
        key = next((k for k in [*singles, ids] if k and table.size and _is_unique(table, k)), ())
    if key:
        seen: set[Any] = set()
        chosen = []
        for i, values in enumerate(zip(*(table.data[part] for part in key), strict=True)):
            if None not in values and values not in seen:
                seen.add(values)
                chosen.append(i)
        if len(chosen) < table.size:
            notes.append(
                f"Rows of {table.source} without a key, or with that of another: {table.size - len(chosen)}, left out."
            )
            table.take(chosen)
    else:
        name = snake_case(f"{one}_id", table.columns)
        table.columns = {name: Column(name, "", "INTEGER", "key", nullable=False)} | table.columns
        table.data = {name: list(range(1, table.size + 1))} | table.data
        key = (name,)
        notes.append(f"{table.source} has no primary key; its rows were numbered.")
    table.key = key
    for part in key:
        table.columns[part].kind, table.columns[part].nullable = "key", False


def _is_unique(table: Table, columns: Iterable[str]) -> bool:
    rows = list(zip(*(table.data[column] for column in columns), strict=True))
    return len(set(rows)) == len(rows) and not any(None in row for row in rows)


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


def bare(name: str) -> str:
    """Return a name as it stands in SQL: quoted only where it is a word of SQL's own."""
    return quote(name) if name.upper() in _RESERVED else name


_RESERVED = frozenset({
    "ABORT", "ACTION", "ADD", "AFTER", "ALL", "ALTER", "ALWAYS", "ANALYZE", "AND", "AS", "ASC", "ATTACH",
    "AUTOINCREMENT", "BEFORE", "BEGIN", "BETWEEN", "BY", "CASCADE", "CASE", "CAST", "CHECK", "COLLATE", "COLUMN",
    "COMMIT", "CONFLICT", "CONSTRAINT", "CREATE", "CROSS", "CURRENT", "CURRENT_DATE", "CURRENT_TIME",
    "CURRENT_TIMESTAMP", "DATABASE", "DEFAULT", "DEFERRABLE", "DEFERRED", "DELETE", "DESC", "DETACH", "DISTINCT",
    "DO", "DROP", "EACH", "ELSE", "END", "ESCAPE", "EXCEPT", "EXCLUDE", "EXCLUSIVE", "EXISTS", "EXPLAIN", "FAIL",
    "FALSE", "FILTER", "FIRST", "FOLLOWING", "FOR", "FOREIGN", "FROM", "FULL", "GENERATED", "GLOB", "GROUP", "GROUPS",
    "HAVING", "IF", "IGNORE", "IMMEDIATE", "IN", "INDEX", "INDEXED", "INITIALLY", "INNER", "INSERT", "INSTEAD",
    "INTERSECT", "INTO", "IS", "ISNULL", "JOIN", "KEY", "LAST", "LEFT", "LIKE", "LIMIT", "MATCH", "MATERIALIZED",
    "NATURAL", "NO", "NOT", "NOTHING", "NOTNULL", "NULL", "NULLS", "OF", "OFFSET", "ON", "OR", "ORDER", "OTHERS",
    "OUTER", "OVER", "PARTITION", "PLAN", "PRAGMA", "PRECEDING", "PRIMARY", "QUERY", "RAISE", "RANGE", "RECURSIVE",
    "REFERENCES", "REGEXP", "REINDEX", "RELEASE", "RENAME", "REPLACE", "RESTRICT", "RETURNING", "RIGHT", "ROLLBACK",
    "ROW", "ROWID", "OID", "ROWS", "SAVEPOINT", "SELECT", "SET", "TABLE", "TEMP", "TEMPORARY", "THEN", "TIES", "TO",
    "TRANSACTION", "TRIGGER", "TRUE", "UNBOUNDED", "UNION", "UNIQUE", "UPDATE", "USING", "VACUUM", "VALUES", "VIEW",
    "VIRTUAL", "WHEN", "WHERE", "WINDOW", "WITH", "WITHOUT",
})  # fmt: skip


# ------------------------------------------------------------------------------------------------- references


def _refer(
    tables: dict[str, Table], foreign: Sequence[ForeignTable], names: Mapping[str, str], notes: list[str]
) -> None:
    """Find the references: those declared, then those that names and data imply."""
    by_source = {name.lower(): new for name, new in names.items()}
    for source in foreign:
        table = tables.get(names[source.name])
        if table is None:
            continue
        sources = {column.source.lower(): column.name for column in table.columns.values()}
        for columns, target, targets in source.references:
            parent = tables.get(by_source.get(target.lower(), ""))
            if len(columns) != 1 or parent is None or columns[0].lower() not in sources:
                notes.append(f"The reference {source.name}({', '.join(columns)}) is not one that a domain can hold.")
                continue
            column = table.columns[sources[columns[0].lower()]]
            there = {c.source.lower(): c.name for c in parent.columns.values()}
            goal = there.get(targets[0].lower()) if targets else (parent.key[0] if len(parent.key) == 1 else None)
            if goal is None or not _attach(table, column, parent, goal, share=0.9):
                notes.append(f"{source.name}.{columns[0]} does not refer to {target} as it says; it is a plain column.")
    for table in tables.values():
        for column in table.columns.values():
            if column.references is None and (implied := _implied(table, column, tables)):
                notes.append(f"{table.source}.{column.source} refers to {implied}, as its name and values say.")


def _attach(table: Table, column: Column, parent: Table, to: str, share: float) -> bool:
    """Make a column refer to another, if at least this share of its values is found there."""
    goal = parent.columns[to]
    if parent.key != (to,) and not (parent.size and _is_unique(parent, (to,))):
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
    if column.kind in ("date", "datetime", "flag", "json") or not any(v is not None for v in table.data[column.name]):
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
    wanted = {
        f"{form}_{end}" for form in (parent.one, parent.many) for end in ("id", "key", "no", "code", "number", "ref")
    }
    wanted |= {f"{parent.one}id", f"id_{parent.one}", f"{parent.one}_fk", f"fk_{parent.one}"}
    if key not in ("id", "code", "number", "name", "key") and ("_" in key or len(key) > 4):
        wanted.add(key)
    wanted.add(parent.one)
    return column in wanted | {parent.name} or any(column.endswith(f"_{name}") for name in wanted)


def _ordered(tables: dict[str, Table], notes: list[str]) -> dict[str, Table]:
    """Return the tables with every one after those that it refers to; what keeps on in circles is cut."""
    ordered: dict[str, Table] = {}
    waiting = dict(tables)
    while waiting:
        open_references = {
            name: [
                c for c in table.references if c.references and c.references[0] in waiting and c.references[0] != name
            ]
            for name, table in waiting.items()
        }
        name = min(waiting, key=lambda n: (len(open_references[n]), sum(not c.nullable for c in open_references[n]), n))
        for column in open_references[name]:
            notes.append(f"{name}.{column.name} refers in a circle; it is a plain column.")
            column.references = None
            column.kind = "key" if column.name in waiting[name].key else "number" if column.type != "TEXT" else "text"
        ordered[name] = waiting.pop(name)
    return ordered


# -------------------------------------------------------------------------------------------------- the sample


def _sample(tables: Mapping[str, Table], notes: list[str]) -> None:
    """Keep a bounded part of the rows, in which every reference finds its row."""
    for table in tables.values():
        _mend(table, tables, notes)
    bound = MOST_ROWS
    while bound > 50 and sum(min(table.size, bound) for table in tables.values()) > MOST_ROWS_IN_ALL:
        bound = bound * 9 // 10
    needed: dict[str, dict[str, set[Any]]] = {name: {} for name in tables}
    for table in reversed(list(tables.values())):
        chosen = set(range(table.size))
        if table.size > bound:
            chosen = {
                i for to, values in needed[table.name].items() for i, v in enumerate(table.data[to]) if v in values
            }
            stride = table.size / bound
            for i in range(bound):
                if len(chosen) >= bound:
                    break
                chosen.add(int(i * stride))
            _with_ancestors(table, chosen)
            notes.append(f"Of the {table.total} rows of {table.source}, {len(chosen)} were kept.")
        table.take(sorted(chosen))
        for column in table.references:
            assert column.references is not None
            target, to = column.references
            needed[target].setdefault(to, set()).update(v for v in table.data[column.name] if v is not None)
    for table in tables.values():
        _sort_rows(table, notes)


def _mend(table: Table, tables: Mapping[str, Table], notes: list[str]) -> None:
    """Leave out references that find no row: the value where it may be missing, else the whole row."""
    while True:
        lost: set[int] = set()
        for column in table.references:
            assert column.references is not None
            target, to = column.references
            keys = set(tables[target].data[to])
            cells = table.data[column.name]
            dangling = {i for i, value in enumerate(cells) if value is not None and value not in keys}
            if dangling and column.nullable:
                table.data[column.name] = [None if i in dangling else value for i, value in enumerate(cells)]
                notes.append(
                    f"{table.source}.{column.source}: {len(dangling)} values that refer to nothing were left out."
                )
            else:
                lost |= dangling
        if not lost:
            return
        notes.append(f"{len(lost)} rows of {table.source} refer to nothing and were left out.")
        table.take([i for i in range(table.size) if i not in lost])


def _own(table: Table) -> list[Column]:
    """Return the columns that refer to the table itself."""
    return [column for column in table.references if column.references and column.references[0] == table.name]


def _with_ancestors(table: Table, chosen: set[int]) -> None:
    for column in _own(table):
        assert column.references is not None
        place = {value: i for i, value in enumerate(table.data[column.references[1]])}
        waiting = list(chosen)
        while waiting:
            value = table.data[column.name][waiting.pop()]
            if value is not None and (parent := place[value]) not in chosen:
                chosen.add(parent)
                waiting.append(parent)


def _sort_rows(table: Table, notes: list[str]) -> None:
    """Sort the rows by key, each after those of its own table that it refers to."""
    order = sorted(
        range(table.size), key=lambda i: tuple((str(type(v)), v) for v in (table.data[p][i] for p in table.key))
    )
    for column in _own(table):
        assert column.references is not None
        place = {value: i for i, value in enumerate(table.data[column.references[1]])}
        placed: dict[int, None] = {}
        waiting = order
        while waiting:
            later = []
            for i in waiting:
                value = table.data[column.name][i]
                if value is None or place[value] in placed or place[value] == i:
                    placed[i] = None
                else:
                    later.append(i)
            if len(later) == len(waiting):  # they refer to one another in a circle
                notes.append(f"{table.name}.{column.name} refers in a circle; it is a plain column.")
                column.references, column.kind = None, "number" if column.type != "TEXT" else "text"
                placed |= dict.fromkeys(later)
                later = []
            waiting = later
        order = list(placed)
    table.take(order)


# ------------------------------------------------------------------------------------------- what columns are


def _characterise(table: Table) -> None:
    """Say of every column what kind of thing it holds, and how its rows are named."""
    for column in table.columns.values():
        present = [value for value in table.data[column.name] if value is not None]
        may_lack = not table.size or len(present) < table.size
        column.nullable = column.nullable and may_lack and column.name not in table.key
        distinct = Counter(present)
        declared = any((column.name,) == unique for unique in table.uniques)
        column.unique = column.name not in table.key and (column.unique or declared) and len(distinct) == len(present)
        column.required = not column.nullable
        column.words = _words(column, present)
        if column.kind == "text":
            longest = max(map(len, present), default=0)
            repeats = len(distinct) <= MOST_CHOICES and len(present) >= 3 * len(distinct)
            if repeats and present and longest <= 30:
                column.kind, column.choices = "category", sorted(distinct, key=str)
            elif longest > 80 or (_NOTE.search(column.name) and not column.unique):
                column.kind = "note"
        elif column.kind == "number" and _MONEY.search(column.name) and not column.name.endswith("_id"):
            column.kind = "money"
    for tokens in table.checks:
        if len(tokens) > 4 and tokens[1:3] == ["IN", "("] and (found := table.columns.get(tokens[0].strip('"'))):
            choices = [token[1:-1].replace("''", "'") for token in tokens[3:-1:2] if token[0] == "'"]
            if found.kind in ("category", "text") and len(choices) == len(tokens[3:-1:2]) <= 2 * MOST_CHOICES:
                found.kind = "category"
                found.choices = choices + [value for value in found.choices if value not in choices]
    if len(table.key) == 1 and not table.columns[table.key[0]].references:
        table.generated = _numbered(table) is not None
    table.naturals = _naturals(table)


def _words(column: Column, present: Sequence[Any]) -> str:
    """Return what a column's values are called: ``returned_on`` is the "date returned", ``born`` a "year born"."""
    words = said(column.name)
    if column.kind in ("date", "datetime") and not re.search(r"date|day|time", words):
        return f"date {re.sub(r' (?:on|at)$', '', words)}"
    years = (
        column.type == "INTEGER"
        and column.kind == "number"
        and present
        and min(present) >= 1000
        and max(present) < 2200
    )
    return f"year {words}" if years and words.endswith(("ed", "born")) else words


def _numbered(table: Table) -> tuple[str, int] | None:
    """Return prefix and width of keys that count on (``L0042``: ``("L", 4)``; 42: ``("", 0)``), or None."""
    values = table.data[table.key[0]]
    if table.columns[table.key[0]].type == "INTEGER":
        return ("", 0)
    forms = {
        (match[1], len(match[2])) for value in values if (match := re.fullmatch(r"([^\d%]{0,8}?)(\d{1,9})", str(value)))
    }
    whole = all(re.fullmatch(r"[^\d%]{0,8}?\d{1,9}", str(value)) for value in values)
    return next(iter(forms)) if whole and len(forms) == 1 and table.columns[table.key[0]].type == "TEXT" else None


def numbered(table: Table) -> tuple[str, int]:
    """Return prefix and width of a table's generated keys."""
    found = _numbered(table)
    assert found is not None
    return found


def _naturals(table: Table) -> list[Natural]:
    """Return the ways to name a row without its key, the best ones first."""
    if not table.size or len(table.key) > 1:
        return []
    found = []
    for column in table.columns.values():
        if (
            column.name not in table.key
            and column.type == "TEXT"
            and column.kind == "text"
            and _tells(table, (column.name,))
        ):
            rank = next(
                (i for i, end in enumerate(_LABEL) if column.name == end or column.name.endswith(f"_{end}")), 99
            )
            if rank < 99 or column.unique:
                found.append((rank, Natural(column.name, (column.name,))))
    for first, last in (("first_name", "last_name"), ("given_name", "family_name"), ("forename", "surname")):
        if first in table.columns and last in table.columns and _tells(table, (first, last)):
            found.append((0, Natural(snake_case("full_name", table.columns), (first, last))))
    return [natural for _, natural in sorted(found, key=lambda pair: pair[0])[:2]]


def _tells(table: Table, columns: tuple[str, ...]) -> bool:
    rows = list(zip(*(table.data[column] for column in columns), strict=True))
    texts = {" ".join(map(str, row)).casefold() for row in rows if None not in row}
    return len(texts) == len(rows) and all(re.search(r"\w", t) and len(t) <= 80 and "{" not in t for t in texts)


def _keep_checks(table: Table, notes: list[str]) -> None:
    """Keep the CHECKs that compile and that every row meets."""
    connection = sqlite3.connect(":memory:")
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


def default_state(column: Column) -> Any:
    """Return the state in which new rows begin: the schema's default, or the likeliest word."""
    if column.default and column.default.strip("'\"") in column.choices:
        return column.default.strip("'\"")
    states = {said(str(choice)).lower(): choice for choice in column.choices}
    return next((states[word] for word in INITIAL if word in states), None)


def settled(table: Table, tables: Mapping[str, Table]) -> dict[str, tuple[str, str]]:
    """Return the references that another one settles, with that one and the column that it leads to.

    The member of a fine is the member of its loan: ``{"member_id": ("loan_id", "member_id")}``.
    """
    found: dict[str, tuple[str, str]] = {}
    for column in table.references:
        for other in table.references:
            assert other.references is not None
            target, to = other.references
            far = tables[target].columns.get(column.name)
            if other is column or target == table.name or other.name in found or far is None:
                continue
            if far.references != column.references or column.name in found:
                continue
            place = dict(zip(tables[target].data[to], tables[target].data[far.name], strict=True))
            pairs = zip(table.data[other.name], table.data[column.name], strict=True)
            if table.size and all(place.get(a) == b for a, b in pairs):
                found[column.name] = other.name, far.name
    return found
