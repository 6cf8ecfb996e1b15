"""Read tools: look-ups by key, name, reference, state and date, and summaries."""

from __future__ import annotations

import re

from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.requests.naming import in_words
from toolorchestra.toolscale.synth.derived.request_parts import is_person
from toolorchestra.toolscale.synth.derived.tool_base import ToolMaker, same
from toolorchestra.toolscale.synth.derived.toolbox import main_date, natural_sql
from toolorchestra.toolscale.synth.tables.tables import (
    FULL_NAMES,
    Column,
    CompositeReference,
    Natural,
    Table,
    bare,
    label_rank,
)


class ReadTools(ToolMaker):
    """Tools that change nothing."""

    def tools(self, table: Table) -> None:
        """Derive what looks up rows of a table."""
        tells = not table.is_link or len(table.columns) > len(table.key)  # more than that rows belong together
        if tells:
            self._get(table)
        for natural in table.naturals:
            self._find(table, natural)
        self._find_named(table)
        for column in table.references:
            self.box.listing[table.name, column.name] = self._list(table, column)
        for composite in table.composites:
            self.box.paired[table.name, composite.columns] = self._list(table, composite)
        if tells:
            self._search(table)
            self._summarize(table)

    def _get(self, table: Table) -> None:
        contents = [
            in_words(column.stem) if column.references else column.words
            for column in table.columns.values()
            if column.name not in table.key
        ]
        self.box.get[table.name] = self._tool(
            "get",
            table,
            self._keys(table),
            contents=", ".join(contents[:6]) or "what is on file",
            columns=", ".join(map(bare, table.columns)),
            json=[column.name for column in table.columns.values() if column.kind == "json"],
            operates=_operates(table, ":"),
        )

    def _find(self, table: Table, natural: Natural) -> None:
        words = f"{in_words(natural.name)} of the {in_words(table.one)}, in full"
        single = natural.columns == (natural.name,)
        if single and table.columns[natural.name].type != "TEXT":
            parameter = self.parameter(table, table.columns[natural.name], words)
        else:
            column = f"{table.name}.{natural.name}" if single else None
            parameter = ParameterSpec(type="string", description=words, max_length=160, column=column)
        columns = ", ".join(bare(c.name) for c in table.columns.values() if c.kind != "json")
        values = {"natural": natural, "natural_sql": natural_sql(natural), "columns": columns}
        parameters = {natural.name: parameter}
        self.box.find[table.name, natural.name] = self._tool(
            "find", table, parameters, operates=_operates(table, "."), **values
        )

    def _find_named(self, table: Table) -> None:
        """A search by part of a name that several rows may share."""
        known = {column for natural in table.naturals for column in natural.columns}
        firsts, lasts = ({pair[i] for pair in FULL_NAMES} for i in range(2))
        full = any(len(natural.columns) > 1 for natural in table.naturals)
        for column in table.columns.values():
            name = column.name
            if not (column.is_text and column.is_plain) or name in known or label_rank(name) > label_rank("titolo"):
                continue
            if name in firsts or (full and name in lasts) or (is_person(table) and name in ("title", "titel")):
                continue
            parameters = {name: self.parameter(table, column, f"{column.words} or part of it")}
            guard = self._guard("letter", table, name=name)
            self.box.named[table.name] = name, self._tool("find_named", table, parameters, [guard], column=column)
            return

    def _filters(self, table: Table) -> tuple[dict[str, ParameterSpec], list[str]]:
        """Return the optional filters of a table: state, categories, flags and a range of dates."""
        parameters: dict[str, ParameterSpec] = {}
        where = []
        columns = [c for c in table.columns.values() if c.kind in ("category", "flag") and c.name not in table.key]
        columns.sort(key=lambda column: column is not table.status)
        for column in columns[:3]:
            words = f"only those with this {column.words}"
            parameters[column.name] = self.parameter(table, column, words, required=False)
            where.append(_if_given(column))
        life = self.box.lifecycles.get(table.name)
        if life is not None and life.status is None and "open" not in table.columns:
            past = (in_words(re.sub(r"_(?:at|on|date|time|day)$", "", str(end.dated))) for end in life.endings)
            words = f"true: only those not {' or '.join(past)} yet; false: only the others"
            parameters["open"] = ParameterSpec(type="boolean", description=words, required=False)
            where.append(f"(:open IS NULL OR ({life.open}) = :open)")
        if day := main_date(table):
            for name, mark, words in (("from_date", ">=", "on or after"), ("to_date", "<=", "on or before")):
                if name in table.columns:
                    continue
                words = f"only those with a {day.words} {words} this day"
                parameters[name] = ParameterSpec(type="string", format="date", description=words, required=False)
                cell = f"substr({bare(day.name)}, 1, 10)" if day.traits.shape == "datetime" else bare(day.name)
                where.append(f"(:{name} IS NULL OR {cell} {mark} :{name})")
        return parameters, where

    def _list(self, table: Table, reference: Column | CompositeReference) -> str:
        """Derive a list of the rows that refer, by one column or by several together, to one row."""
        if isinstance(reference, Column):
            names: tuple[str, ...] = (reference.name,)
            stem = reference.stem
            filters, where = self._filters(table)
            kept = "open" if table.status is None else table.status.name
            filters = {name: parameter for name, parameter in filters.items() if name in ("open", kept)}
            where = [condition for condition in where if any(f":{name} " in condition for name in filters)]
        else:
            names, stem, filters, where = reference.columns, self.tables[reference.target].one, {}, []
        return self._tool(
            "list",
            table,
            {name: self.parameter(table, table.columns[name]) for name in names} | filters,
            [self._refers(table, reference)],
            stem=stem,
            owner=in_words(stem),
            filters=" AND ".join([same((name, name) for name in names), *where]),
        )

    def _search(self, table: Table) -> None:
        filters, where = self._filters(table)
        if filters and table.size >= 5:
            self.box.search[table.name] = self._tool("search", table, filters, filters=" AND ".join(where))

    def _summarize(self, table: Table) -> None:
        filters, where = self._filters(table)
        for column in table.references[:3]:
            filters[column.name] = self.parameter(table, column, required=False)
            where.append(_if_given(column))
        if not filters or table.size < 5:
            return
        numbers = [c for c in table.columns.values() if c.is_number and c.can_be_compared]
        numbers.sort(key=lambda column: not column.can_be_summed)
        money = [column for column in table.columns.values() if column in numbers and column.kind in ("money", "price")]
        amounts = money[:2] or [c for c in numbers if not c.unique][:1]
        summed = [column.name for column in amounts if column.can_be_summed]
        cells = ["count(*) AS count"]
        for column in amounts:
            cell, name = bare(column.name), column.name
            cells += [f"round(total({cell}), 2) AS total_{name}"] if name in summed else []
            cells += [f"min({cell}) AS lowest_{name}", f"max({cell}) AS highest_{name}"]
        self.box.totals[table.name] = summed
        measures = "total, lowest and highest" if amounts and amounts[0].name in summed else "lowest and highest"
        self.box.summary[table.name] = self._tool(
            "summarize",
            table,
            filters,
            verb="summarize" if amounts else "count",
            amounts=f", and the {measures} {amounts[0].words}" if amounts else "",
            cells=", ".join(cells),
            filters=" AND ".join(where),
        )


def _if_given(column: Column) -> str:
    return f"(:{column.name} IS NULL OR {bare(column.name)} = :{column.name})"


def _operates(table: Table, mark: str) -> dict[str, str | list[str]]:
    parts = [f"{mark}{part}" for part in table.key]
    return {table.name: parts[0] if len(parts) == 1 else parts}
