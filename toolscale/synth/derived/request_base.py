"""The base of all families of derived requests: how rows are named, what questions ask for, when rows are open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from toolorchestra.toolscale.common.yaml_reader import convert
from toolorchestra.toolscale.database.format import IntentSpec, ReferenceCallSpec
from toolorchestra.toolscale.requests.naming import in_words
from toolorchestra.toolscale.synth.derived.derived_tools import Ending, Lifecycle, Toolbox, natural_sql
from toolorchestra.toolscale.synth.derived.templates import fill, read_templates
from toolorchestra.toolscale.synth.tables.tables import FULL_NAMES, Column, Natural, Table, bare, is_identifying

Request = tuple[str, IntentSpec]
"""An intent and its name."""


@dataclass
class Handle:
    """A way for an instruction to name a row: by the binding of its natural name."""

    table: Table
    natural: Natural
    binding: str
    call: ReferenceCallSpec
    """The call that looks the row up."""

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
        return f"the {self.one} with the {in_words(name)} {value}"

    def sql(self, alias: str) -> str:
        """The SQL of the natural name, under the binding's name."""
        return f"{natural_sql(self.natural, alias)} AS {self.binding}"

    def value(self, column: str) -> str:
        """The expression of a column of the row that was looked up."""
        return f"${self.binding}_row.{column}"


@dataclass
class Parts:
    """The parts of a request that names several rows: columns of its bindings, phrases, look-ups, arguments."""

    columns: list[str] = field(default_factory=list)
    phrases: list[str] = field(default_factory=list)
    steps: list[ReferenceCallSpec] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)

    def add_name(self, argument: str, to: str, handle: Handle, alias: str, role: str = "") -> None:
        """Let `argument` be the column `to` of a row that is looked up by its name."""
        self.columns.append(handle.sql(alias))
        self.phrases.append(f"{handle.phrase}{role}")
        self.steps.append(replace(handle.call, parallel=bool(self.steps)))
        self.arguments[argument] = handle.value(to)

    def add_binding(self, argument: str, sql: str, binding: str) -> None:
        """Let `argument` be a binding."""
        self.columns.append(f"{sql} AS {binding}")
        self.arguments[argument] = f"${binding}"


class Label(NamedTuple):
    """What a question asks of a row that was looked up: in words, in SQL (of the alias ``z``), and the column."""

    words: str
    sql: str
    name: str


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
    """Derives requests about tables from their tools; subclasses are the families of requests.

    Override `requests`. The texts of the requests are in ``derived_requests.yaml``.
    """

    def __init__(self, tables: Mapping[str, Table], box: Toolbox) -> None:
        self.tables = tables
        self.box = box

    def requests(self, table: Table) -> Iterator[Request]:
        """Yield candidate intents about a table that has rows."""
        raise NotImplementedError

    def _request(
        self, name: str, template: str, table: Table, steps: Sequence[ReferenceCallSpec] = (), /, **values: Any
    ) -> Request:
        """Return a request written from its template; `steps` come before the template's reference calls."""
        values |= {"table": table, "one": in_words(table.one), "many": in_words(table.many)}
        values |= {"key": table.key[0], "get": self.box.get.get(table.name)}
        intent = convert(fill(read_templates("derived_requests.yaml")[template], **values), IntentSpec)
        calls = [*steps, *intent.reference_calls]
        return name, replace(intent, reference_calls=calls, bindings=self._named(intent.bindings, calls))

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

    def _handle(self, table: Table, binding: str, rank: int = 0) -> Handle | None:
        for natural in table.naturals[rank:]:
            call = self.box.find.get((table.name, natural.name))
            if call is not None and table.key[0] in table.columns:
                step = ReferenceCallSpec(call=call, arguments={natural.name: f"${binding}"}, save=f"{binding}_row")
                return Handle(table, natural, binding, step)
        return None

    def _answer_columns(self, table: Table) -> list[Column]:
        """Return the columns that questions ask for, the most informative first."""
        order = {"category": 0, "date": 1, "money": 2, "text": 3, "number": 4, "datetime": 5}
        natural = {column for found in table.naturals for column in found.columns}
        columns = [c for c in table.columns.values() if c.kind in order and c.name not in natural | set(table.key)]
        return sorted((c for c in columns if table.present(c.name)), key=lambda column: order[column.kind])

    def _label(self, table: Table) -> Label | None:
        """Return what a question asks of a row that was looked up."""
        names = [natural.name for natural in table.naturals if len(natural.columns) == 1]
        names += [n for n, c in table.columns.items() if n.endswith(("name", "title")) and c.kind == "text"]
        if names:
            return Label(in_words(names[0]), f"z.{bare(names[0])}", names[0])
        columns = self._answer_columns(table)
        return Label(columns[0].words, f"z.{bare(columns[0].name)}", columns[0].name) if columns else None

    def _measure(self, table: Table) -> Column | None:
        """Return the first column of numbers by which rows can be compared."""
        numbers = (c for c in table.columns.values() if c.kind in ("money", "number") and not c.unique)
        return next((column for column in numbers if not is_identifying(column.name)), None)

    def _state_column(self, table: Table, tool: str) -> Column | None:
        """Return the column of the first category by which a tool filters."""
        parameters = self.box.tools[tool].parameters
        return next((c for c in table.columns.values() if c.kind == "category" and c.name in parameters), None)

    def _ended_and_open(self, table: Table, life: Lifecycle, ending: Ending) -> tuple[Column | None, Column | None]:
        """Return the columns asked for of a row that has ended, and of one that has not."""
        over = life.status or ending.dated
        before = (c for c in self._answer_columns(table) if c.name not in life.columns and not c.nullable)
        return table.columns[over] if over else None, next(before, None)
