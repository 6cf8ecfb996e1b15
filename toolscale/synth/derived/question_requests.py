"""Questions about one row, about rows that it refers to, about counts and totals, and about the row with the most."""

from __future__ import annotations

from collections.abc import Iterator

from toolorchestra.toolscale.database.format import ReferenceCallSpec
from toolorchestra.toolscale.requests.naming import in_words
from toolorchestra.toolscale.synth.derived.derived_tools import main_date
from toolorchestra.toolscale.synth.derived.request_base import Request, Requester, joins
from toolorchestra.toolscale.synth.tables.tables import Column, Table, bare

_PATHS = {1: 2, 2: 1, 3: 1}
"""Requests of a table that follow so many references, at most."""


class QuestionRequests(Requester):
    """Requests that are answered by looking up."""

    def requests(self, table: Table) -> Iterator[Request]:
        """Yield the questions about a table."""
        if table.name in self.box.get and len(table.key) == 1:
            yield from self._facts(table)
            yield from self._paths(table)
        yield from self._totals(table)
        yield from self._extremes(table)
        yield from self._of_a_day(table)

    def _facts(self, table: Table) -> Iterator[Request]:
        """One value of one row: by id, by each natural name, and by a search for a name that is not unique."""
        columns = self._answer_columns(table)
        handles = [handle for rank in range(2) if (handle := self._handle(table, "name", rank))]
        for column in columns[: 1 if handles else 2]:
            yield self._request(f"ask_{table.one}_{column.name}", "fact_by_id", table, column=column)
        if not columns:
            return
        for i, handle in enumerate(handles, 1):
            column = columns[i % len(columns)]
            name = f"ask_{table.one}_{column.name}_by_{handle.natural.name}"
            values = {"column": column, "handle": handle, "row_name": handle.sql("t")}
            yield self._request(name, "fact_by_name", table, [handle.call], **values)
        if table.name in self.box.named:
            name, tool = self.box.named[table.name]
            column = columns[0] if columns[0].name != name else columns[-1]
            intent = f"ask_named_{table.one}_{column.name}"
            yield self._request(intent, "fact_by_search", table, column=column, name=name, search=tool)

    def _paths(self, table: Table) -> Iterator[Request]:
        """What references lead to: one, two and three rows on."""
        paths = list(self._walks(table, []))
        for length, limit in _PATHS.items():
            for path in [path for path in paths if len(path) == length][:limit]:
                label = self._label(self.tables[path[-1].target[0]])
                if label is None:
                    continue
                calls = [(table.name, table.key[0], "$id")]
                calls += [(*column.target, f"$row_{i}.{column.name}") for i, column in enumerate(path)]
                steps = [
                    ReferenceCallSpec(call=self.box.get[name], arguments={key: value}, save=f"row_{i}")
                    for i, (name, key, value) in enumerate(calls)
                ]
                stems = [column.name.removesuffix("_id") for column in path]
                yield self._request(
                    f"follow_{table.one}_to_{'_'.join(stems)}",
                    "path",
                    table,
                    steps,
                    label=label,
                    trail=" of the ".join(map(in_words, reversed(stems))),
                    length=length,
                    joins=joins(path, [*(f"t{i}" for i in range(length)), "z"]),
                )

    def _walks(self, table: Table, path: list[Column]) -> Iterator[list[Column]]:
        if path:
            yield path
        if len(path) == max(_PATHS):
            return
        for column in table.references:
            target, to = column.target
            parent = self.tables[target]
            seen = {table.name, *(passed.target[0] for passed in path)}
            if target in self.box.get and parent.key == (to,) and target not in seen:
                yield from self._walks(parent, [*path, column])

    def _totals(self, table: Table) -> Iterator[Request]:
        """How many there are, and what they come to, over all rows of a state or a time."""
        summary = self.box.summary.get(table.name)
        if summary is None:
            return
        if state := self._state_column(table, summary):
            for amount in [None, *self.box.totals[table.name][:1]]:
                yield self._request(
                    f"{'total' if amount else 'count'}_{table.many}_by_{state.name}",
                    "total_of_state",
                    table,
                    quantity=f"the total {table.columns[amount].words} of" if amount else "the number of",
                    fact=f"round(total({bare(amount)}), 2)" if amount else "count(*)",
                    field=f"total_{amount}" if amount else "count",
                    state=state,
                    summary=summary,
                )
        day = main_date(table)
        if day and "from_date" in self.box.tools[summary].parameters:
            yield self._request(f"count_{table.many}_of_a_month", "count_of_month", table, day=day, summary=summary)

    def _extremes(self, table: Table) -> Iterator[Request]:
        """Which row of a search has most: listed, compared, then looked up."""
        tool = self.box.search.get(table.name)
        if tool is None or len(table.key) > 1 or table.name not in self.box.get:
            return
        state = self._state_column(table, tool)
        measure = self._measure(table)
        natural = [table.columns[n.name] for n in table.naturals if len(n.columns) == 1]
        columns = [c for c in self._answer_columns(table) if c not in (state, measure) and c.kind != "number"]
        if state and measure and (natural or columns):
            yield self._request(
                f"find_{table.one}_with_most_{measure.name}",
                "extreme_of_state",
                table,
                column=(natural or columns)[0],
                state=state,
                measure=measure,
                search=tool,
            )

    def _of_a_day(self, table: Table) -> Iterator[Request]:
        """The only row of a state and a day: searched for, then its reference followed."""
        tool = self.box.search.get(table.name)
        if tool is None or not {"from_date", "to_date"} <= set(self.box.tools[tool].parameters):
            return
        state, day = table.status, main_date(table)
        link = next((column for column in table.references if column.target[0] in self.box.get), None)
        if day is None or link is None:
            return
        target, to = link.target
        label = self._label(self.tables[target])
        if label is None or self.tables[target].key != (to,):
            return
        arguments = {"from_date": "$day", "to_date": "$day"} | ({state.name: "$state"} if state else {})
        yield self._request(
            f"find_{table.one}_of_a_day",
            "only_row_of_day",
            table,
            [
                ReferenceCallSpec(call=tool, arguments=arguments, save="found"),
                ReferenceCallSpec(call=self.box.get[target], arguments={to: f"$found.0.{link.name}"}),
            ],
            cells=f"substr(t.{bare(day.name)}, 1, 10) AS day" + (f", t.{bare(state.name)} AS state" if state else ""),
            group="day, state" if state else "day",
            which=f'with the {state.words} "{{state}}" and ' if state else "with ",
            stem=in_words(link.name.removesuffix("_id")),
            target=target,
            to=to,
            day=day,
            link=link,
            label=label,
        )
