"""What all families of derived requests share: how rows are named, what one asks after, when they are open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolorchestra.toolscale.format import IntentSpec, ReferenceCallSpec
from toolorchestra.toolscale.synth.derived_tools import Ending, Life, Toolbox, literal, natural_sql
from toolorchestra.toolscale.synth.naming import said
from toolorchestra.toolscale.synth.tables import Column, Natural, Table, bare

Request = tuple[str, IntentSpec]
"""An intent and its name."""


@dataclass
class Handle:
    """A way for an instruction to name a row: by the binding of its natural name."""

    table: Table
    natural: Natural
    binding: str
    call: ReferenceCallSpec

    @property
    def phrase(self) -> str:
        """The row, as an instruction names it."""
        one, name, value = said(self.table.one), self.natural.name, f"{{{self.binding}}}"
        if is_person(self.table) and name.endswith("name"):
            return f"{one} {value}"
        if name.endswith(("name", "title")):
            return f'the {one} "{value}"'
        return f"the {one} with the {said(name)} {value}"

    def sql(self, alias: str) -> str:
        """The SQL of the natural name, under the binding's name."""
        return f"{natural_sql(self.natural, alias)} AS {self.binding}"


def is_person(table: Table) -> bool:
    """Whether the rows of a table are people."""
    return any(name in ("first_name", "last_name", "surname") or name.endswith("email") for name in table.columns)


class Requester:
    """Derives requests about tables from their tools; subclasses are the families of requests.

    Override `requests`.
    """

    def __init__(self, tables: Mapping[str, Table], box: Toolbox) -> None:
        self.tables = tables
        self.box = box

    def requests(self, table: Table) -> Iterator[Request]:
        """Yield candidate intents about a table that has rows."""
        raise NotImplementedError

    def _handle(self, table: Table, binding: str, rank: int = 0) -> Handle | None:
        for natural in table.naturals[rank:]:
            call = self.box.find.get((table.name, natural.name))
            if call is not None and table.key[0] in table.columns:
                step = ReferenceCallSpec(call=call, arguments={natural.name: f"${binding}"}, save=f"{binding}_row")
                return Handle(table, natural, binding, step)
        return None

    def _key_of(self, handle: Handle, to: str) -> str:
        return f"${handle.binding}_row.{to}"

    def _told(self, table: Table) -> list[Column]:
        """Return the columns that one asks after, the most telling first."""
        order = {"category": 0, "date": 1, "money": 2, "text": 3, "number": 4, "datetime": 5}
        natural = {column for found in table.naturals for column in found.columns}
        columns = [c for c in table.columns.values() if c.kind in order and c.name not in natural | set(table.key)]
        columns = [c for c in columns if any(value is not None for value in table.data[c.name])]
        return sorted(columns, key=lambda column: order[column.kind])

    def _shown(self, column: Column, binding: str) -> str:
        """Return the placeholder of a value, as an answer says it."""
        return f"{{{binding}:date}}" if column.kind == "date" else f"{{{binding}}}"

    def _label(self, table: Table) -> tuple[str, str, str] | None:
        """Return what one tells of a row that was looked up: its words, its SQL (of ``z``) and its result path."""
        for natural in table.naturals:
            if len(natural.columns) == 1:
                return said(natural.name), f"z.{bare(natural.name)}", natural.name
        for name in table.columns:
            if name.endswith(("name", "title")) and table.columns[name].kind == "text":
                return said(name), f"z.{bare(name)}", name
        told = self._told(table)
        return (told[0].words, f"z.{bare(told[0].name)}", told[0].name) if told else None

    @staticmethod
    def _listed(facts: list[str], last: str = "and") -> str:
        return f"{', '.join(facts[:-1])} {last} {facts[-1]}" if len(facts) > 1 else "".join(facts)

    @staticmethod
    def _endable(life: Life, ending: Ending) -> str:
        if ending.state is None or life.status is None:
            return life.open
        return f"{life.open} AND {bare(life.status)} <> {literal(ending.state)}"

    def _sides(self, table: Table, life: Life, ending: Ending) -> tuple[Column | None, Column | None]:
        """Return what one asks of a row that has ended, and of one that has not."""
        over = life.status or ending.dated
        after = table.columns[over] if over else None
        ends = {life.status, *(e.dated for e in life.endings)}
        before = next((c for c in self._told(table) if c.name not in ends and not c.nullable), None)
        return after, before

    @staticmethod
    def _alias(life: Life, table: Table) -> str:
        """Return the condition of an open row for the alias ``t``."""
        names = {life.status, *(ending.dated for ending in life.endings)} - {None}
        sql = life.open
        for name in sorted(map(str, names)):
            sql = sql.replace(bare(name) + " I", f"t.{bare(name)} I")
        return sql

    def _only_open(self, table: Table, life: Life) -> dict[str, Any]:
        """Return the arguments by which a list shows open rows only, where one filter can say so."""
        if life.status is None:
            return {"open": True}
        states = life.open.partition("(")[2].rstrip(")").split("', '")
        return {life.status: states[0].strip("'").replace("''", "'")} if len(states) == 1 else {}
