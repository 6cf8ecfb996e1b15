"""Requests for changes: ending, updating and unlinking rows, conditional endings, and endings that must be refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolorchestra.toolscale.database.format import ReferenceCallSpec
from toolorchestra.toolscale.requests.naming import in_words
from toolorchestra.toolscale.synth.derived.request_base import Handle, Parts, Request, Requester, joins, listed
from toolorchestra.toolscale.synth.tables.tables import Column, Table, bare, literal


class ChangeRequests(Requester):
    """Requests that change or remove one row."""

    def requests(self, table: Table) -> Iterator[Request]:
        """Yield the changes of a table's rows."""
        if table.name in self.box.get and len(table.key) == 1:
            yield from self._endings(table)
        for (name, column), tool in self.box.update.items():
            if name == table.name:
                yield self._update(table, table.columns[column], tool)
        if tool := self.box.remove.get(table.name, ""):
            yield self._removal(table, tool)

    def _endings(self, table: Table) -> Iterator[Request]:
        """End a row; refuse where it has ended already; end it only if it is open."""
        life = self.box.lifecycles.get(table.name)
        for ending in life.endings if life else ():
            assert life is not None
            after, before = self._ended_and_open(table, life, ending)
            name = f"{ending.verb}_{table.one}"
            values: dict[str, Any] = {"life": life, "endable": life.endable(ending), "after": after, "before": before}
            values |= {"verb": in_words(ending.verb), "tool": self.box.ending[table.name, ending.verb]}
            yield self._request(name, "end", table, **values)
            if after:
                yield self._request(f"{name}_refused", "end_refused", table, **values)
            if after and before:
                yield self._request(f"{name}_if_open", "end_if_open", table, **values)

    def _changed(self, table: Table, column: Column) -> str:
        """Return the SQL of another value for a column of the row ``t``."""
        cell, key = f"t.{bare(column.name)}", bare(table.key[0])
        number = "row_number() OVER (ORDER BY " + ", ".join(f"t.{bare(part)}" for part in table.key) + ")"
        if column.is_date:
            return f"date({cell}, '+' || (7 * (1 + {number} % 3)) || ' days')"
        if column.kind == "category" and column.type == "TEXT" and len(column.choices) > 1:
            after = [*column.choices[1:], column.choices[0]]
            cases = " ".join(f"WHEN {literal(a)} THEN {literal(b)}" for a, b in zip(column.choices, after, strict=True))
            return f"CASE {cell} {cases} END"
        if column.kind == "flag":
            return cell  # the call gives the opposite
        if column.type != "TEXT" and column.unique:
            return f"(SELECT max({bare(column.name)}) FROM {bare(table.name)}) + {number}"
        if "email" in column.name:
            return f"'new.' || {cell}"
        if "phone" in column.name or "mobile" in column.name:
            return f"'555-' || printf('%04d', ({number} * 37) % 10000)"
        if column.kind == "note":
            return f"'Checked, see file ' || (100 + {number})"
        if column.unique:
            return f"{cell} || '-2'"
        return (
            f"(SELECT o.{bare(column.name)} FROM {bare(table.name)} o WHERE o.{key} > t.{key} "
            f"AND o.{bare(column.name)} <> {cell} ORDER BY o.{key} LIMIT 1)"
        )

    def _update(self, table: Table, column: Column, tool: str) -> Request:
        """Change a column of a row that is known by its name, or else by its key."""
        life, flag = self.box.lifecycles.get(table.name), column.kind == "flag"
        condition = f"AND {life.open}" if life and column.is_date else ""
        values = {
            "column": column,
            "value": self._changed(table, column),
            "opposite": f", iif(t.{bare(column.name)}, 'no', 'yes') AS opposite" if flag else "",
            "shown": "{opposite}" if flag else f"{{value{column.format}}}",
            "source": f"FROM (SELECT * FROM {bare(table.name)} WHERE {bare(column.name)} IS NOT NULL {condition}) t",
        }
        argument = {column.name: "!$value" if flag else "$value"}
        name = f"change_{table.one}_{column.name}"
        if handle := self._other_name(table, column):
            step = ReferenceCallSpec(call=tool, arguments={table.key[0]: handle.value(table.key[0])} | argument)
            values |= {"handle": handle, "row_name": handle.sql("t")}
            name += f"_by_{handle.natural.name}"
            return self._request(name, "update_by_name", table, [handle.call, step], **values)
        single = len(table.key) == 1
        bindings = {part: "id" if single else f"id_{i}" for i, part in enumerate(table.key)}
        keys = [f"{in_words(part)} {{{binding}}}" for part, binding in bindings.items()]
        values |= {
            "keys": ", ".join(f"t.{bare(part)} AS {binding}" for part, binding in bindings.items()),
            "row": f"{in_words(table.one)} {{id}}" if single else f"the {in_words(table.one)} with {listed(keys)}",
        }
        arguments = {part: f"${binding}" for part, binding in bindings.items()} | argument
        return self._request(name, "update", table, [ReferenceCallSpec(call=tool, arguments=arguments)], **values)

    def _other_name(self, table: Table, column: Column) -> Handle | None:
        """Return a way to name a row that does not use the column."""
        handles = (self._handle(table, "name", rank) for rank in range(2))
        return next((handle for handle in handles if handle and column.name not in handle.natural.columns), None)

    def _removal(self, table: Table, tool: str) -> Request:
        """Remove a row that ties others together, which are named."""
        parts = Parts()
        links = [table.columns[part] for part in table.key]
        for i, link in enumerate(links):
            target, to = link.target
            if handle := self._handle(self.tables[target], f"name_{i}"):
                parts.add_name(link.name, to, handle, f"p{i}")
            else:
                parts.add_binding(link.name, f"t.{bare(link.name)}", f"id_{i}")
                parts.phrases.append(f"{in_words(self.tables[target].one)} {{id_{i}}}")
        return self._request(
            f"remove_{table.one}",
            "remove",
            table,
            [*parts.steps, ReferenceCallSpec(call=tool, arguments=parts.arguments)],
            columns=", ".join(parts.columns),
            joins="".join(joins([link], ["t", f"p{i}"]) for i, link in enumerate(links)),
            pair=listed(parts.phrases),
        )
