"""Requests about all rows that refer to one row: to count, end, postpone, compare, or look them up one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from toolorchestra.toolscale.database.format import ReferenceCallSpec
from toolorchestra.toolscale.requests.naming import in_words
from toolorchestra.toolscale.synth.derived.derived_tools import Lifecycle
from toolorchestra.toolscale.synth.derived.request_base import Handle, Label, Request, Requester, joins, listed
from toolorchestra.toolscale.synth.tables.tables import Column, Table, bare

_TRACED = (2, 3, 4, 5, 6)
"""Numbers of rows that are followed one by one."""


@dataclass
class _OwnedRows:
    """The rows of a table that refer to one other row by a column, and how requests speak of them."""

    table: Table
    column: Column
    owner: Handle
    life: Lifecycle | None

    @property
    def stem(self) -> str:
        """What the other row is to them."""
        return self.column.name.removesuffix("_id")

    @property
    def argument(self) -> dict[str, Any]:
        """The argument by which a tool gives these rows only."""
        return {self.column.name: self.owner.value(self.column.target[1])}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by which a tool gives the open ones of these rows only, if it can."""
        return self.argument | (self.life.open_arguments if self.life else {})

    @property
    def values(self) -> dict[str, Any]:
        """The values that all templates of these requests use; in SQL, the rows are ``t`` and the other row ``p``."""
        target, to = self.column.target
        only = self.life.open_arguments if self.life else {}
        opened = self.life.opened("t") if self.life else "1"
        return {
            "owner": self.owner,
            "owner_name": self.owner.sql("p"),
            "to": to,
            "whose": self.owner.phrase + ("" if self.stem == self.owner.table.one else f" (as {in_words(self.stem)})"),
            "source": f"FROM {bare(self.table.name)} t JOIN {bare(target)} p"
            f" ON p.{bare(to)} = t.{bare(self.column.name)}",
            "opened": opened,
            "where": f"WHERE {opened}" if only else "",
            "adjective": "" if not only else "open " if "open" in only else f"{next(iter(only.values()))} ",
        }


class OwnershipRequests(Requester):
    """Requests about the rows that refer to one other row, which is named."""

    def requests(self, table: Table) -> Iterator[Request]:
        """Yield the requests about the rows of a table that belong to one row of another."""
        for column in table.references:
            owner = self._handle(self.tables[column.target[0]], "owner")
            if owner is None:
                continue
            rows = _OwnedRows(table, column, owner, self.box.lifecycles.get(table.name))
            yield from self._totals(rows)
            listing = self.box.listing.get((table.name, column.name))
            if listing is None:
                continue
            steps = [owner.call, ReferenceCallSpec(call=listing, arguments=rows.arguments, save="rows")]
            if len(table.key) == 1:
                yield from self._below(rows, listing)
                if rows.life:
                    yield from self._postponed(rows, steps)
                    yield from self._ended(rows, rows.life, steps)
            yield from self._traces(rows, steps)

    def _totals(self, rows: _OwnedRows) -> Iterator[Request]:
        """How many rows there are, and what they add up to."""
        table, summary = rows.table, self.box.summary.get(rows.table.name)
        if summary is None or rows.column.name not in self.box.tools[summary].parameters:
            return
        money = [name for name in self.box.totals[table.name][:1] if table.columns[name].kind == "money"]
        for amount in [None, *money]:
            yield self._request(
                f"{'total' if amount else 'count'}_{table.many}_of_{rows.stem}",
                "total_of_owner",
                table,
                [rows.owner.call, ReferenceCallSpec(call=summary, arguments=rows.arguments, save="sum")],
                quantity=f"the total {table.columns[amount].words} of the" if amount else "the number of",
                fact=f"round(total(t.{bare(amount)}), 2)" if amount else "count(*)",
                field=f"total_{amount}" if amount else "count",
                **rows.values,
            )

    def _postponed(self, rows: _OwnedRows, steps: list[ReferenceCallSpec]) -> Iterator[Request]:
        """Move a date of every open row."""
        table = rows.table
        for (name, column), tool in self.box.update.items():
            if name == table.name and table.columns[column].kind == "date":
                values = rows.values | {"column": table.columns[column], "tool": tool}
                yield self._request(f"postpone_{table.many}_of_{rows.stem}", "postpone_all", table, steps, **values)
                return

    def _ended(self, rows: _OwnedRows, life: Lifecycle, steps: list[ReferenceCallSpec]) -> Iterator[Request]:
        """End the only open row, every open row, or the one with the highest amount or the latest date."""
        table, ending = rows.table, life.endings[0]
        values = rows.values | {"verb": in_words(ending.verb), "endable": life.endable(ending, "t")}
        values["tool"] = self.box.ending[table.name, ending.verb]
        yield self._request(f"{ending.verb}_the_{table.one}_of_{rows.stem}", "end_only", table, steps, **values)
        yield self._request(f"{ending.verb}_all_{table.many}_of_{rows.stem}", "end_all", table, steps, **values)
        for column in table.columns.values():
            if column.kind in ("money", "date") and column.name not in life.columns and not column.nullable:
                extreme = "highest" if column.kind == "money" else "latest"
                values |= {"column": column, "extreme": extreme}
                name = f"{ending.verb}_{extreme}_{table.one}_of_{rows.stem}"
                yield self._request(name, "end_extreme", table, steps, **values)
                return

    def _below(self, rows: _OwnedRows, listing: str) -> Iterator[Request]:
        """How many other rows refer to these rows: listed, then counted one by one."""
        steps = [rows.owner.call, ReferenceCallSpec(call=listing, arguments=rows.argument, save="rows")]
        for child in self.tables.values():
            for link in child.references:
                tool = self.box.listing.get((child.name, link.name))
                if child is not rows.table and link.target == (rows.table.name, rows.table.key[0]) and tool:
                    values = rows.values | {"child": child, "link": link, "tool": tool}
                    yield self._request(
                        f"count_{child.many}_below_{rows.stem}", "count_below", rows.table, steps, **values
                    )
                    return

    def _traces(self, rows: _OwnedRows, steps: list[ReferenceCallSpec]) -> Iterator[Request]:
        """What each of the rows refers to: listed, then looked up one by one."""
        passed = (rows.column.target[0], rows.table.name)
        for column in rows.table.references:
            target = column.target[0]
            if column is rows.column or target in passed or target not in self.box.get:
                continue
            path = [column]
            end = self.tables[target]
            named = end.naturals and len(end.naturals[0].columns) == 1
            if not (named and end.naturals[0].name.endswith(("name", "title"))):
                path += [further for further in end.references if self._leads_on(further, passed)][:1]
            label = self._label(self.tables[path[-1].target[0]])
            if label is not None:
                for size in _TRACED:
                    yield self._trace(rows, path, label, steps, size)
            return

    def _leads_on(self, column: Column, passed: tuple[str, ...]) -> bool:
        """Whether a reference leads to a row with a name, and not back."""
        target = column.target[0]
        return target in self.box.get and target not in passed and bool(self.tables[target].naturals)

    def _trace(
        self, rows: _OwnedRows, path: list[Column], label: Label, steps: list[ReferenceCallSpec], size: int
    ) -> Request:
        """Ask where each of so many rows leads to, along a path of references."""
        looked_up = []
        for i, column in enumerate(path):
            target, to = column.target
            step = ReferenceCallSpec(
                call=self.box.get[target],
                each=f"$found_{i - 1}" if i else "$rows",
                arguments={to: f"$item.{column.name}"},
                save=f"found_{i}",
            )
            looked_up.append(step)
        facts = [f"{{fact_{i}}}" for i in range(size)]
        name, intent = self._request(
            f"trace_{size}_{rows.table.many}_of_{rows.stem}",
            "trace",
            rows.table,
            [*steps, *looked_up],
            facts=", ".join(f"max(CASE WHEN n = {i + 1} THEN fact END) AS fact_{i}" for i in range(size)),
            joins=joins(path, ["t", *(f"y{i}" for i in range(len(path) - 1)), "z"]),
            last=in_words(self.tables[path[-1].target[0]].one),
            order=", ".join(f"t.{bare(part)}" for part in rows.table.key),
            listed=listed(facts),
            label=label,
            size=size,
            **rows.values,
        )
        return name, replace(intent, communicate=facts)
