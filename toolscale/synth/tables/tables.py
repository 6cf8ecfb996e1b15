"""The tables of an external database, converted for a domain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolorchestra.toolscale.database.sql import quote
from toolorchestra.toolscale.requests.naming import in_words, plural, singular, snake_case, verb, word_lists
from toolorchestra.toolscale.synth.tables.kinds import ColumnKind, kinds
from toolorchestra.toolscale.synth.tables.values import Type

_NAMED = 0.1  # share of the rows that a name must name
_STATUS = re.compile(r"(?:^|_)(?:status|state|stage)$")
FULL_NAMES = (
    ("first_name", "last_name"), ("given_name", "family_name"), ("forename", "surname"), ("vorname", "nachname"),
    ("vorname", "name"), ("prenom", "nom"), ("nombre", "apellido"), ("nombre", "apellidos"), ("nome", "cognome"),
    ("voornaam", "achternaam"),
)  # fmt: skip
"""Names of the columns that together are the name of a person."""


@dataclass
class Column:
    """A column as the domain will have it."""

    name: str
    source: str
    type: Type
    kind: str
    """What it holds (`kinds`); whether it is a part of the key, or refers to a row, is another matter."""
    nullable: bool
    unique: bool = False
    default: str | None = None
    choices: list[Any] = field(default_factory=list)
    references: tuple[str, str] | None = None
    inferred: bool = False
    required: bool = False
    words: str = ""
    in_key: bool = False
    can_be_summed: bool = False
    can_be_compared: bool = False
    """Whether one row can have the highest of its values."""

    @property
    def target(self) -> tuple[str, str]:
        """The table and column that a reference refers to."""
        assert self.references is not None
        return self.references

    @property
    def stem(self) -> str:
        """What a reference is called: ``home_branch`` for ``home_branch_id``, ``room`` for ``room_no``."""
        if self.references and self.references[1] == self.name:
            return singular(self.references[0])
        name = self.words.replace(" ", "_") or self.name
        words, (first, _, last) = word_lists(), name.rpartition("_")
        return words.roles.get(name) or (first if first and last in words.identifying else name)

    def detach(self) -> None:
        """Make a reference a plain column."""
        self.references, self.inferred = None, False

    @property
    def traits(self) -> ColumnKind:
        """What may be done with values of its kind."""
        return next(kind for kind in kinds() if kind.name == self.kind)

    @property
    def is_plain(self) -> bool:
        """Whether it neither refers to a row nor is a part of the key."""
        return self.references is None and not self.in_key

    @property
    def is_date(self) -> bool:
        """Whether it holds dates, or dates and times."""
        return self.traits.shape in ("date", "datetime")

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers."""
        return self.traits.shape == "number"

    @property
    def is_text(self) -> bool:
        """Whether it holds short texts of any number."""
        return self.traits.shape == "text" and self.kind not in ("category", "note")

    @property
    def be(self) -> str:
        """The verb that goes with its words: the notes "are", the note "is"."""
        head = re.split(" (?:in|of|on|per|to) ", self.words)[0]
        return "are" if singular(head) != head else "is"

    @property
    def format(self) -> str:
        """How a placeholder of a value ends: dates are written in words."""
        return ":date" if self.kind == "date" else ""


@dataclass
class CompositeReference:
    """A reference of several columns to a row of another table, by its primary key and in its order."""

    columns: tuple[str, ...]
    target: str

    def values(self, table: Table) -> list[tuple[Any, ...] | None]:
        """Return the key that each row of `table` refers to, or None where a part of it is missing."""
        rows = zip(*(table.data[column] for column in self.columns), strict=True)
        return [None if None in row else row for row in rows]


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
    composites: list[CompositeReference] = field(default_factory=list)

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
    def paired(self) -> set[str]:
        """The columns that refer to a row together with others."""
        return {name for composite in self.composites for name in composite.columns}

    def keys(self) -> set[tuple[Any, ...]]:
        """Return the keys of all rows."""
        return set(zip(*(self.data[part] for part in self.key), strict=True))

    @property
    def is_link(self) -> bool:
        """Whether a row does little but tie others together."""
        return len(self.key) > 1 and all(self.columns[part].references or part in self.paired for part in self.key)

    @property
    def status(self) -> Column | None:
        """The column that says in which state a row is."""
        categories = [column for column in self.columns.values() if column.kind == "category"]
        named = [column for column in categories if column.type == "TEXT" and _STATUS.search(column.name)]
        ended = (c for c in categories if len({verb(str(choice)) for choice in c.choices} - {None}) > 1)
        return named[0] if named else next(ended, None)

    def present(self, column: str) -> list[Any]:
        """Return the values of a column that are not missing."""
        return [value for value in self.data[column] if value is not None]

    def take(self, chosen: Sequence[int]) -> None:
        """Keep the rows at the positions `chosen`, in that order."""
        self.data = {name: [cells[i] for i in chosen] for name, cells in self.data.items()}

    def describe(self) -> None:
        """Say anew how rows are named, after the rows have changed."""
        self.naturals = naturals_of(self)


def bare(name: str) -> str:
    """Return a name as it stands in SQL: quoted only where it is a word of SQL's own."""
    return quote(name) if name.upper() in word_lists().sql else name


def literal(value: Any) -> str:
    """Return a value as it stands in SQL."""
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def serial_of(values: Iterable[Any]) -> tuple[str, int] | None:
    """Return prefix and width of texts that differ by a number at their end (``L0042``: ``("L", 4)``), or None."""
    matches = (re.fullmatch(r"([^\d{}%]{0,8}?)(\d{1,9})", str(value)) for value in values)
    forms = {(match[1], len(match[2])) if match else None for match in matches}
    return forms.pop() if len(forms) == 1 else None


def numbered(table: Table) -> tuple[str, int] | None:
    """Return prefix and width of keys that are numbers (``("", 0)``) or count on, so that the next one is known."""
    column = table.columns[table.key[0]]
    if column.type != "TEXT":
        return ("", 0) if column.type == "INTEGER" else None
    return serial_of(table.data[column.name])


def naturals_of(table: Table) -> list[Natural]:
    """Return the ways to name a row without its key, the best ones first."""
    if not table.size:
        return []
    found = []
    for name, column in table.columns.items():
        rank = label_rank(name)
        number = column.type == "INTEGER" and column.is_number and column.unique
        named = number or (column.is_text and (rank < len(word_lists().labels) or column.unique))
        if named and column.is_plain and _identifies(table, (name,)):
            found.append((rank, Natural(name, (name,))))
    for first, last in FULL_NAMES:
        if first in table.columns and last in table.columns and _identifies(table, (first, last)):
            found.append((0, Natural(snake_case("full_name", table.columns), (first, last))))
    return [natural for _, natural in sorted(found, key=lambda pair: pair[0])[:2]]


def _identifies(table: Table, columns: tuple[str, ...]) -> bool:
    """Whether what stands in these columns names one row each; some rows may have no name."""
    rows = [row for row in zip(*(table.data[column] for column in columns), strict=True) if None not in row]
    texts = {" ".join(map(str, row)).casefold() for row in rows}
    if len(texts) < len(rows) or len(rows) < max(1, _NAMED * table.size):
        return False
    return all(re.search(r"\w", t) and len(t) <= 80 and "{" not in t for t in texts)


def label_rank(name: str) -> int:
    """Return how likely a column of this name is to name a row: 0 is the likeliest; the number of words, unlikely."""
    labels = word_lists().labels
    ends = (i for i, end in enumerate(labels) if name == end or name.endswith(f"_{end}" if len(end) < 4 else end))
    return next(ends, len(labels))


def is_unique(table: Table, columns: Iterable[str]) -> bool:
    """Whether no two rows share what stands in these columns, and none lacks it."""
    rows = list(zip(*(table.data[column] for column in columns), strict=True))
    return len(set(rows)) == len(rows) and not any(None in row for row in rows)


def default_state(column: Column) -> Any:
    """Return the state in which new rows begin: the schema's default, or the likeliest word."""
    if column.default and column.default.strip("'\"") in column.choices:
        return column.default.strip("'\"")
    states = {in_words(str(choice)).lower(): choice for choice in column.choices}
    return next((states[word] for word in word_lists().initial if word in states), None)


def implied_references(table: Table, tables: Mapping[str, Table]) -> dict[str, tuple[str, str]]:
    """Return the references that follow from another one, with that one and the column that it leads to.

    The member of a fine is the member of its loan: ``{"member_id": ("loan_id", "member_id")}``.
    """
    found: dict[str, tuple[str, str]] = {}
    for column in table.references:
        for other in table.references:
            target, to = other.target
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
