"""The vocabulary of derived requests: names of rows, what questions ask for, the rows that belong to one row.

What a request says, in words and in SQL, is in ``derived_requests.yaml``; which requests there are about a table is in
`read_requests` and `write_requests`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from toolorchestra.toolscale.common.yaml_reader import convert
from toolorchestra.toolscale.database.format import IntentSpec, ReferenceCallSpec
from toolorchestra.toolscale.requests.naming import in_words
from toolorchestra.toolscale.requests.sense_checks import MAX_COMMON
from toolorchestra.toolscale.synth.derived.templates import fill, read_templates
from toolorchestra.toolscale.synth.derived.toolbox import Ending, Lifecycle, Toolbox, natural_sql
from toolorchestra.toolscale.synth.tables.tables import FULL_NAMES, Column, Natural, Table, bare

Request = tuple[str, IntentSpec]
"""An intent and its name."""
Step = dict[str, Any]
"""A reference call, as it is written in YAML."""


@dataclass
class Handle:
    """A way for an instruction to name a row: by the binding of its natural name."""

    table: Table
    natural: Natural
    binding: str
    find: str
    """The tool that looks the row up."""
    alias: str
    """The row in SQL."""

    @property
    def one(self) -> str:
        """What the row is, in words."""
        return in_words(self.table.one)

    @property
    def phrase(self) -> str:
        """The row, as an instruction names it."""
        name, value = self.natural.name, f"{{{self.binding}}}"
        if is_person(self.table) and name.endswith("name"):
            return f"{self.one} {value}"
        if name.endswith(("name", "title")):
            return f'the {self.one} "{value}"'
        words = self.table.columns[name].words if name in self.table.columns else in_words(name)
        return f"the {self.one} with the {words} {value}"

    @property
    def sql(self) -> str:
        """The SQL of the natural name, under the binding's name."""
        return f"{natural_sql(self.natural, self.alias)} AS {self.binding}"

    @property
    def call(self) -> Step:
        """The call that looks the row up."""
        return {"call": self.find, "arguments": {self.natural.name: f"${self.binding}"}, "save": f"{self.binding}_row"}

    @property
    def keys(self) -> dict[str, str]:
        """The arguments of a call that takes the key of the row that was looked up."""
        return {part: self.value(part) for part in self.table.key}

    def value(self, column: str) -> str:
        """The expression of a column of the row that was looked up."""
        return f"${self.binding}_row.{column}"


@dataclass
class Parts:
    """The parts of a request that names several rows: columns of its bindings, phrases, look-ups, arguments."""

    columns: list[str] = field(default_factory=list)
    phrases: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)

    def add_name(self, argument: str, to: str, handle: Handle, role: str = "") -> None:
        """Let `argument` be the column `to` of a row that is looked up by its name."""
        self.columns.append(handle.sql)
        self.phrases.append(f"{handle.phrase}{role}")
        self.steps.append(handle.call | {"parallel": bool(self.steps)})
        self.arguments[argument] = handle.value(to)

    def add_binding(self, argument: str, sql: str, binding: str) -> None:
        """Let `argument` be a binding."""
        self.columns.append(f"{sql} AS {binding}")
        self.arguments[argument] = f"${binding}"


class RowKey(NamedTuple):
    """How a request names a row by its key: bindings in SQL, words with these bindings, and the arguments of calls."""

    columns: str
    phrase: str
    arguments: dict[str, str]


class Label(NamedTuple):
    """What a question asks of a row that was looked up: in words, the column, and how a placeholder of it ends."""

    words: str
    name: str
    format: str = ""


class Amount(NamedTuple):
    """What a question asks of many rows: their number or a total; its verb, words, SQL, and field of a summary."""

    verb: str
    of_the: str
    sql: str
    field: str


@dataclass
class OwnedRows:
    """The rows of a table that refer to one other row by a column."""

    table: Table
    column: Column
    owner: Handle
    life: Lifecycle | None
    listing: str | None
    """The tool that lists them."""

    @property
    def values(self) -> dict[str, Any]:
        """The values that all templates of these requests use; in SQL, the rows are ``t`` and the other row ``p``."""
        target, to = self.column.target
        stem = self.column.stem
        only = self.life.open_arguments if self.life else {}
        opened = self.life.opened("t") if self.life else "1"
        mine, whose = {self.column.name: self.owner.value(to)}, self.owner.phrase
        listed_rows = {"call": self.listing, "arguments": mine | only, "save": "rows"}
        return {
            "owner": self.owner,
            "stem": stem,
            "to": to,
            "of_whose": f"of {whose}" if stem == self.owner.table.one else f"with {whose} as {in_words(stem)}",
            "source": f"FROM {bare(self.table.name)} t JOIN {bare(target)} p"
            f" ON p.{bare(to)} = t.{bare(self.column.name)}",
            "opened": opened,
            "where": f"WHERE {opened}" if only else "",
            "adjective": "" if not only else "open " if "open" in only else f"{next(iter(only.values()))} ",
            "listing": self.listing,
            "mine": mine,
            "open_ones": mine | only,
            "steps": [self.owner.call, listed_rows],
        }


def row_key(table: Table, alias: str = "t") -> RowKey:
    """Return how a request names a row of a table, which is `alias` in SQL, by its key.

    Of several parts, references come first, then days and times: "the visit of room 4 on March 3, 2025 at 08:40".
    """
    one = in_words(table.one)
    if len(table.key) == 1:
        return RowKey(f"{alias}.{bare(table.key[0])} AS id", f"{one} {{id}}", {table.key[0]: "$id"})
    bindings = {part: f"id_{i}" for i, part in enumerate(table.key)}
    said: dict[str, list[str]] = {"of": [], "on": [], "at": [], "with": []}
    for part, binding in bindings.items():
        column = table.columns[part]
        if column.references:
            said["of"].append(f"{in_words(column.stem)} {{{binding}}}")
        elif column.kind == "date":
            said["on"].append(f"{{{binding}:date}}")
        elif column.kind in ("moment", "time"):
            said["at"].append(f"{{{binding}}}")
        else:
            said["with"].append(f"{column.words} {{{binding}}}")
    words = (f" {preposition} {listed(parts)}" for preposition, parts in said.items() if parts)
    columns = ", ".join(f"{alias}.{bare(part)} AS {binding}" for part, binding in bindings.items())
    return RowKey(columns, f"the {one}{''.join(words)}", {part: f"${binding}" for part, binding in bindings.items()})


def is_person(table: Table) -> bool:
    """Whether the rows of a table are people."""
    columns = set(table.columns)
    named = any(columns.issuperset(pair) for pair in FULL_NAMES) or not columns.isdisjoint(("last_name", "surname"))
    return named or any(name.endswith("email") for name in columns)


def listed(items: Sequence[str]) -> str:
    """Return items as a list in a sentence."""
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else "".join(items)


def joins(path: Sequence[Column], aliases: Sequence[str]) -> str:
    """Return the JOINs along references, from the first alias to the last."""
    return "".join(
        f" JOIN {bare(column.target[0])} {end} ON {end}.{bare(column.target[1])} = {start}.{bare(column.name)}"
        for column, start, end in zip(path, aliases[:-1], aliases[1:], strict=True)
    )


class Requester:
    """Derives requests about tables from their tools: what those that read and those that write have in common."""

    def __init__(self, tables: Mapping[str, Table], box: Toolbox) -> None:
        self.tables = tables
        self.box = box

    def owned_rows(self, table: Table) -> Iterator[OwnedRows]:
        """Yield the rows of a table that belong to one row of another which has a name, by reference."""
        for column in table.references:
            if owner := self._handle(self.tables[column.target[0]], "owner", "p"):
                listing = self.box.listing.get((table.name, column.name))
                yield OwnedRows(table, column, owner, self.box.lifecycles.get(table.name), listing)

    def _request(self, template: str, table: Table, /, **values: Any) -> Request:
        """Return a request written from its template."""
        always = {"table": table, "one": in_words(table.one), "many": in_words(table.many)}
        always |= {"key": table.key[0], "get": self.box.get.get(table.name), "known": row_key(table)}
        filled = fill(read_templates("derived_requests.yaml")[template], **always | values)
        name: str = filled.pop("name")
        intent = convert(filled, IntentSpec)
        return name, replace(intent, bindings=self._named(intent.bindings, intent.reference_calls))

    def _named(self, bindings: str, calls: Sequence[ReferenceCallSpec]) -> str:
        """Return bindings without the rows that lack a name by which something is looked up."""
        lacking = []
        for (table, natural), find in self.box.find.items():
            columns = next(one.columns for one in self.tables[table].naturals if one.name == natural)
            if any(self.tables[table].columns[column].nullable for column in columns):
                given = (call.arguments.get(natural) for call in calls if call.call == find)
                lacking += [value[1:] for value in given if isinstance(value, str) and value[0] == "$"]
        conditions = " AND ".join(f"{bare(name)} IS NOT NULL" for name in dict.fromkeys(lacking))
        return f"SELECT * FROM ({bindings}) WHERE {conditions}" if conditions else bindings

    def _handles(self, table: Table, binding: str, alias: str) -> list[Handle]:
        """Return the ways to name a row of a table, the best first."""
        finds = ((natural, self.box.find.get((table.name, natural.name))) for natural in table.naturals)
        return [Handle(table, natural, binding, find, alias) for natural, find in finds if find]

    def _handle(self, table: Table, binding: str, alias: str) -> Handle | None:
        return next(iter(self._handles(table, binding, alias)), None)

    def _answer_columns(self, table: Table) -> list[Column]:
        """Return the columns that questions ask for, the most informative first."""
        known = {column for found in table.naturals for column in found.columns}
        known |= {name for name in table.paired if table.columns[name].is_number}
        columns = [(c.traits.asked, c) for c in table.columns.values() if c.is_plain and c.name not in known]
        columns = [(rank, c) for rank, c in columns if not c.name.endswith("_id") and _tells(table.present(c.name))]
        return [c for _, c in sorted(((rank, c) for rank, c in columns if rank is not None), key=lambda pair: pair[0])]

    def _label(self, table: Table) -> Label | None:
        """Return what a question asks of a row that was looked up."""
        names = [natural.name for natural in table.naturals if len(natural.columns) == 1]
        firsts = {first for first, _ in FULL_NAMES}
        names += [n for n, c in table.columns.items() if n.endswith(("name", "title")) and c.is_text and c.is_plain]
        names.sort(key=lambda name: not name.endswith(("name", "title")))
        if found := next((name for name in names if name not in firsts), None):
            return Label(table.columns[found].words, found)
        columns = self._answer_columns(table)
        return Label(columns[0].words, columns[0].name, columns[0].format) if columns else None

    def _amounts(self, table: Table, alias: str = "", *, only_money: bool = False) -> list[Amount]:
        """Return the amounts that a summary of a table gives: the number of rows, and a total."""
        amounts = [Amount("count", "the number of", "count(*)", "count")]
        for name in self.box.totals[table.name][:1]:
            if table.columns[name].kind == "money" or not only_money:
                what = table.columns[name].words.removeprefix("total").strip()
                sql = f"round(total({alias}{bare(name)}), 2)"
                amounts.append(Amount("total", " ".join(f"the total {what} of the".split()), sql, f"total_{name}"))
        return amounts

    def _ended_and_open(self, table: Table, life: Lifecycle, ending: Ending) -> tuple[Column | None, Column | None]:
        """Return the columns asked for of a row that has ended, and of one that has not."""
        over = life.status or ending.dated
        before = (c for c in self._answer_columns(table) if c.name not in life.columns and not c.nullable)
        return table.columns[over] if over else None, next(before, None)


def _tells(values: Sequence[Any]) -> bool:
    """Whether a question for a value cannot be answered by the most frequent one more often than not."""
    return bool(values) and max(Counter(values).values()) <= MAX_COMMON * len(values)


def measure_of(table: Table) -> Column | None:
    """Return the first column of numbers by which rows can be compared."""
    numbers = (c for c in table.columns.values() if c.is_number and c.can_be_compared and not c.unique)
    return next((column for column in numbers if len(set(table.present(column.name))) > 1), None)
