"""Requests that follow a reference of several columns, there and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolorchestra.toolscale.database.format import ReferenceCallSpec
from toolorchestra.toolscale.requests.naming import in_words
from toolorchestra.toolscale.synth.derived.request_base import Request, Requester, listed
from toolorchestra.toolscale.synth.tables.tables import CompositeReference, Table, bare


class CompositeRequests(Requester):
    """Requests about the row that several columns refer to together, and about the rows that refer to one row."""

    def requests(self, table: Table) -> Iterator[Request]:
        """Yield the requests about the references of several columns that a table has."""
        for composite in table.composites:
            parent = self.tables[composite.target]
            if parent.name in self.box.get:
                yield from self._path(table, parent, composite)
            if (table.name, composite.columns) in self.box.paired:
                yield from self._back(table, parent, composite)

    def _joins(self, parent: Table, composite: CompositeReference, alias: str) -> str:
        pairs = zip(parent.key, composite.columns, strict=True)
        return f" JOIN {bare(parent.name)} z ON " + " AND ".join(
            f"z.{bare(part)} = {alias}.{bare(column)}" for part, column in pairs
        )

    def _path(self, table: Table, parent: Table, composite: CompositeReference) -> Iterator[Request]:
        """What the reference leads to."""
        label = self._label(parent)
        if label is None or table.name not in self.box.get or len(table.key) > 1:
            return
        arguments = {part: f"$row_0.{column}" for part, column in zip(parent.key, composite.columns, strict=True)}
        steps = [
            ReferenceCallSpec(call=self.box.get[table.name], arguments={table.key[0]: "$id"}, save="row_0"),
            ReferenceCallSpec(call=self.box.get[parent.name], arguments=arguments, save="row_1"),
        ]
        joins = self._joins(parent, composite, "t0")
        values: dict[str, Any] = {"label": label, "trail": in_words(parent.one), "length": 1, "joins": joins}
        yield self._request(f"follow_{table.one}_to_{parent.one}", "path", table, steps, **values)

    def _back(self, table: Table, parent: Table, composite: CompositeReference) -> Iterator[Request]:
        """What is in the only row that refers to a row, and which of several has most.

        Counts are not asked for: parts of such keys are often small numbers themselves.
        """
        bindings = {part: f"id_{i}" for i, part in enumerate(parent.key)}
        pairs = zip(parent.key, composite.columns, strict=True)
        arguments: dict[str, Any] = {column: f"${bindings[part]}" for part, column in pairs}
        steps = [ReferenceCallSpec(call=self.box.paired[table.name, composite.columns], arguments=arguments)]
        keys = listed([f"{in_words(part)} {{{binding}}}" for part, binding in bindings.items()])
        values: dict[str, Any] = {
            "owner": in_words(parent.one),
            "whose": f"the {in_words(parent.one)} with {keys}",
            "columns": ", ".join(f"z.{bare(part)} AS {binding}" for part, binding in bindings.items()),
            "group": ", ".join(f"z.{bare(part)}" for part in parent.key),
            "joins": self._joins(parent, composite, "t"),
        }
        if measure := self._measure(table):
            intent = f"find_highest_{measure.name}_of_{parent.one}"
            yield self._request(intent, "most_of_composite", table, steps, measure=measure, **values)
        if columns := [c for c in self._answer_columns(table) if c.name not in table.paired]:
            values |= {"column": columns[0]}
            yield self._request(f"ask_{table.one}_of_{parent.one}", "only_of_composite", table, steps, **values)
