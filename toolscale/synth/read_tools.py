"""Tools that look up: by key and by name, by reference, by state and date, and summed up."""

from __future__ import annotations

import re

from toolorchestra.toolscale.format import GuardSpec, ParameterSpec, ReturnsSpec, ToolSpec
from toolorchestra.toolscale.synth.derived_tools import Ending, main_date, natural_sql
from toolorchestra.toolscale.synth.naming import an, in_words
from toolorchestra.toolscale.synth.tables import Column, Natural, Table, bare
from toolorchestra.toolscale.synth.tool_base import READ, SEARCH, ToolMaker

MAX_LISTED = 50
"""Rows that a search returns."""


class ReadTools(ToolMaker):
    """Tools that change nothing."""

    def tools(self, table: Table) -> None:
        """Derive what looks up rows of a table."""
        if not table.is_link:
            self._get(table)
        for natural in table.naturals:
            self._find(table, natural)
        self._find_named(table)
        for column in table.references:
            self._list(table, column)
        if not table.is_link:
            self._search(table)
            self._summarize(table)

    def _get(self, table: Table) -> None:
        columns = ", ".join(map(bare, table.columns))
        self.box.get[table.name] = self._add(
            f"get_{table.one}",
            ToolSpec(
                description=f"Look up {an(in_words(table.one))} by id: {self._contents(table)}.",
                parameters=self._keys(table),
                returns=ReturnsSpec(
                    shape="row",
                    sql=f"SELECT {columns} FROM {bare(table.name)} WHERE {self._where(table)}",
                    json=[c.name for c in table.columns.values() if c.kind == "json"],
                    empty=f"There is no {in_words(table.one)} {self._name_of(table)}.",
                ),
                operates=self._operates(table),
                **READ,
            ),
        )

    def _contents(self, table: Table) -> str:
        names = [
            in_words(column.name.removesuffix("_id")) if column.references else column.words
            for column in table.columns.values()
            if column.name not in table.key
        ][:6]
        return ", ".join(names) or "what is on file"

    def _find(self, table: Table, natural: Natural) -> None:
        columns = ", ".join(bare(c.name) for c in table.columns.values() if c.kind != "json")
        name = natural.name
        parameter = ParameterSpec(
            type="string",
            description=f"{in_words(name)} of the {in_words(table.one)}, in full",
            max_length=160,
            column=f"{table.name}.{name}" if natural.columns == (name,) else None,
        )
        self.box.find[table.name, name] = self._add(
            f"find_{table.one}_by_{name}",
            ToolSpec(
                description=f"Look up {an(in_words(table.one))} by {in_words(name)}.",
                parameters={name: parameter},
                returns=ReturnsSpec(
                    shape="row",
                    sql=f"SELECT {columns} FROM {bare(table.name)} "
                    f"WHERE lower({natural_sql(natural)}) = lower(:{name}) ORDER BY {self._order(table)}",
                    empty=f"There is no {in_words(table.one)} with the {in_words(name)} {{{name}}}.",
                ),
                operates=self._operates(table, "."),
                **READ,
            ),
        )

    def _find_named(self, table: Table) -> None:
        """A search by part of a name that several rows may share."""
        known = {column for natural in table.naturals for column in natural.columns}
        for column in table.columns.values():
            if column.kind != "text" or column.name in known or not re.search(r"(?:^|_)(?:name|title)$", column.name):
                continue
            if table.naturals and table.naturals[0].name != column.name and column.name in ("first_name", "last_name"):
                continue
            tool = self._add(
                f"find_{table.many}_by_{column.name}",
                ToolSpec(
                    description=f"List the {in_words(table.many)} whose {column.words} contains a text.",
                    parameters={column.name: self.parameter(table, column, f"{column.words} or part of it")},
                    guards=[GuardSpec(require=f"trim(:{column.name}) <> ''", error="Give at least one letter.")],
                    returns=ReturnsSpec(
                        shape="rows",
                        sql=f"SELECT {self._shown(table)} FROM {bare(table.name)} WHERE "
                        f"instr(lower({bare(column.name)}), lower(:{column.name})) "
                        f"ORDER BY {self._order(table)} LIMIT {MAX_LISTED}",
                    ),
                    **SEARCH,
                ),
            )
            self.box.named[table.name] = (column.name, tool)
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
            where.append(f"(:{column.name} IS NULL OR {bare(column.name)} = :{column.name})")
        life = self.box.lifecycles.get(table.name)
        if life is not None and life.status is None and "open" not in table.columns:
            words = (
                f"true: only those not {' or '.join(self._past(e) for e in life.endings)} yet; false: only the others"
            )
            parameters["open"] = ParameterSpec(type="boolean", description=words, required=False)
            where.append(f"(:open IS NULL OR ({life.open}) = :open)")
        if day := main_date(table):
            for name, mark, words in (("from_date", ">=", "on or after"), ("to_date", "<=", "on or before")):
                if name in table.columns:
                    continue
                words = f"only those with a {day.words} {words} this day"
                parameters[name] = ParameterSpec(type="string", format="date", description=words, required=False)
                cell = f"substr({bare(day.name)}, 1, 10)" if day.kind == "datetime" else bare(day.name)
                where.append(f"(:{name} IS NULL OR {cell} {mark} :{name})")
        return parameters, where

    @staticmethod
    def _past(ending: Ending) -> str:
        return in_words(re.sub(r"_(?:at|on|date|time|day)$", "", str(ending.dated)))

    def _list(self, table: Table, column: Column) -> None:
        assert column.references is not None
        parent = self.tables[column.references[0]]
        filters, where = self._filters(table)
        filters = {n: p for n, p in filters.items() if n in ("open", table.status.name if table.status else "open")}
        where = [condition for condition in where if any(f":{name} " in condition for name in filters)]
        stem = column.name.removesuffix("_id")
        words = f"{in_words(stem)}" if stem != parent.one else in_words(parent.one)
        conditions = " AND ".join([f"{bare(column.name)} = :{column.name}", *where])
        self.box.listing[table.name, column.name] = self._add(
            f"find_{table.many}_by_{stem}",
            ToolSpec(
                description=f"List the {in_words(table.many)} of {an(words)}, at most {MAX_LISTED}.",
                parameters={column.name: self.parameter(table, column)} | filters,
                guards=[self._refers(table, column)],
                returns=ReturnsSpec(
                    shape="rows",
                    sql=f"SELECT {self._shown(table)} FROM {bare(table.name)} WHERE {conditions} "
                    f"ORDER BY {self._order(table)} LIMIT {MAX_LISTED}",
                ),
                **SEARCH,
            ),
        )

    def _search(self, table: Table) -> None:
        filters, where = self._filters(table)
        if not filters or table.size < 5:
            return
        self.box.search[table.name] = self._add(
            f"search_{table.many}",
            ToolSpec(
                description=f"List {in_words(table.many)} by any of the filters, at most {MAX_LISTED}.",
                parameters=filters,
                returns=ReturnsSpec(
                    shape="rows",
                    sql=f"SELECT {self._shown(table)} FROM {bare(table.name)} WHERE {' AND '.join(where)} "
                    f"ORDER BY {self._order(table)} LIMIT {MAX_LISTED}",
                ),
                **SEARCH,
            ),
        )

    def _summarize(self, table: Table) -> None:
        filters, where = self._filters(table)
        owners = table.references[:3]
        for column in owners:
            filters[column.name] = self.parameter(table, column, required=False)
            where.append(f"(:{column.name} IS NULL OR {bare(column.name)} = :{column.name})")
        if not filters or table.size < 5:
            return
        amounts = [c for c in table.columns.values() if c.kind == "money"][:2]
        amounts = (
            amounts
            or [
                c
                for c in table.columns.values()
                if c.kind == "number" and not re.search(r"year|born|published|_no$|code", c.name)
            ][:1]
        )
        shown = ["count(*) AS count"]
        for column in amounts:
            cell = bare(column.name)
            shown += [
                f"round(total({cell}), 2) AS total_{column.name}",
                f"min({cell}) AS lowest_{column.name}",
                f"max({cell}) AS highest_{column.name}",
            ]
        words = f", and the total, lowest and highest {amounts[0].words}" if amounts else ""
        self.box.totals[table.name] = [column.name for column in amounts]
        self.box.summary[table.name] = self._add(
            f"summarize_{table.many}" if amounts else f"count_{table.many}",
            ToolSpec(
                description=f"Count the {in_words(table.many)} that meet the filters{words}.",
                parameters=filters,
                returns=ReturnsSpec(
                    shape="row", sql=f"SELECT {', '.join(shown)} FROM {bare(table.name)} WHERE {' AND '.join(where)}"
                ),
                **SEARCH,
            ),
        )
