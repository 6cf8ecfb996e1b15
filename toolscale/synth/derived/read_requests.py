"""Requests that only look up: about one row, its references, counts and totals, and the rows that belong to one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolorchestra.toolscale.requests.naming import in_words, plural
from toolorchestra.toolscale.synth.derived.request_parts import (
    Label,
    OwnedRows,
    Request,
    Requester,
    joins,
    listed,
    measure_of,
    row_key,
)
from toolorchestra.toolscale.synth.derived.toolbox import main_date
from toolorchestra.toolscale.synth.tables.tables import Column, CompositeReference, Table, bare

_PATHS = {1: 2, 2: 1, 3: 1}
"""Requests of a table that follow so many references, at most."""
_TRACED = (2, 3, 4, 5, 6)
"""Numbers of rows that are followed one by one."""


class ReadRequests(Requester):
    """Requests that are answered by looking up."""

    def about(self, table: Table) -> Iterator[Request]:
        """Yield the questions about a table."""
        if table.name in self.box.get:
            yield from self._facts(table)
            yield from self._paths(table)
        yield from self._totals(table)
        yield from self._extremes(table)
        yield from self._of_a_day(table)
        yield from self._counts_by_key(table)
        for composite in table.composites:
            yield from self._paired(table, self.tables[composite.target], composite)

    def _facts(self, table: Table) -> Iterator[Request]:
        """One value of one row: by id, by each natural name, and by a search for a name that is not unique."""
        columns, handles = self._answer_columns(table), self._handles(table, "name", "t")
        numbered = bool(handles) and not table.columns[table.key[0]].source  # the file has no such ids
        for column in columns[: 0 if numbered else 1 if handles else 2]:
            yield self._request("fact_by_id", table, column=column)
        if not columns:
            return
        for i, handle in enumerate(handles, 1):
            yield self._request("fact_by_name", table, column=columns[i % len(columns)], handle=handle)
        if table.name in self.box.named:
            name, tool = self.box.named[table.name]
            found = {part: f"$found.0.{part}" for part in table.key}
            for column in [column for column in columns if column.name != name][:1]:
                yield self._request("fact_by_search", table, column=column, name=name, search=tool, found=found)

    def _paths(self, table: Table) -> Iterator[Request]:
        """What references lead to: one, two and three rows on."""
        paths = list(self._walks(table, []))
        for length, limit in _PATHS.items():
            for path in [path for path in paths if len(path) == length and path[0].name not in table.key][:limit]:
                stems = [column.stem for column in path]
                calls = [(table.name, row_key(table).arguments)]
                calls += [(c.target[0], {c.target[1]: f"$row_{i}.{c.name}"}) for i, c in enumerate(path)]
                yield from self._path(table, calls, stems, joins(path, [*(f"t{i}" for i in range(length)), "z"]))

    def _path(
        self, table: Table, calls: Sequence[tuple[str, dict[str, str]]], stems: Sequence[str], sql: str
    ) -> Iterator[Request]:
        """What look-ups in tables, one after the other, lead to; `stems` are what the rows are on the way."""
        if label := self._label(self.tables[calls[-1][0]]):
            yield self._request(
                "path",
                table,
                label=label,
                steps=[
                    {"call": self.box.get[name], "arguments": arguments, "save": f"row_{i}"}
                    for i, (name, arguments) in enumerate(calls)
                ],
                trail=" of the ".join(map(in_words, reversed(stems))),
                end="_".join(stems),
                length=len(stems),
                known=row_key(table, "t0"),
                joins=sql,
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

    def _state_column(self, table: Table, tool: str) -> Column | None:
        """Return the column of the first category by which a tool filters."""
        parameters = self.box.tools[tool].parameters
        return next((c for c in table.columns.values() if c.kind == "category" and c.name in parameters), None)

    def _totals(self, table: Table) -> Iterator[Request]:
        """How many there are, and what they come to, over all rows of a state or a time."""
        summary = self.box.summary.get(table.name)
        if summary is None:
            return
        if state := self._state_column(table, summary):
            for amount in self._amounts(table):
                yield self._request("total_of_state", table, amount=amount, state=state, summary=summary)
        day = main_date(table)
        if day and "from_date" in self.box.tools[summary].parameters:
            yield self._request("count_of_month", table, day=day, summary=summary)

    def _extremes(self, table: Table) -> Iterator[Request]:
        """Which row of a search has most: listed, compared, then looked up."""
        tool = self.box.search.get(table.name)
        if tool is None or table.name not in self.box.get:
            return
        state, measure = self._state_column(table, tool), measure_of(table)
        columns = [table.columns[n.name] for n in table.naturals if len(n.columns) == 1]
        columns += [c for c in self._answer_columns(table) if c not in (state, measure) and not c.is_number]
        if state and measure and columns:
            values = {"state": state, "measure": measure, "search": tool}
            yield self._request("extreme_of_state", table, column=columns[0], **values)

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
        yield self._request(
            "only_row_of_day",
            table,
            search=tool,
            arguments={"from_date": "$day", "to_date": "$day"} | ({state.name: "$state"} if state else {}),
            follow=self.box.get[target],
            cells=f"substr(t.{bare(day.name)}, 1, 10) AS day" + (f", t.{bare(state.name)} AS state" if state else ""),
            group="day, state" if state else "day",
            which=f'with the {state.words} "{{state}}" and ' if state else "with ",
            stem=in_words(link.stem),
            target=target,
            to=to,
            day=day,
            link=link,
            label=label,
        )

    # ------------------------------------------------------------------------------- references of several columns

    def _paired(self, table: Table, parent: Table, composite: CompositeReference) -> Iterator[Request]:
        """What a reference of several columns leads to; what is in the only row that refers so; which has most.

        Counts are not asked for: parts of such keys are often small numbers themselves.
        """
        pairs = list(zip(parent.key, composite.columns, strict=True))

        def joined(alias: str) -> str:
            same = " AND ".join(f"z.{bare(part)} = {alias}.{bare(column)}" for part, column in pairs)
            return f" JOIN {bare(parent.name)} z ON {same}"

        if parent.name in self.box.get and table.name in self.box.get:
            calls = [(table.name, row_key(table).arguments), (parent.name, {p: f"$row_0.{c}" for p, c in pairs})]
            yield from self._path(table, calls, [parent.one], joined("t0"))
        tool = self.box.paired.get((table.name, composite.columns))
        if tool is None:
            return
        values = {
            "tool": tool,
            "arguments": {column: f"$id_{i}" for i, (_, column) in enumerate(pairs)},
            "parent": parent,
            "owner": row_key(parent, "z"),
            "group": ", ".join(f"z.{bare(part)}" for part in parent.key),
            "joins": joined("t"),
        }
        if measure := measure_of(table):
            yield self._request("most_of_composite", table, measure=measure, **values)
        if columns := [c for c in self._answer_columns(table) if c.name not in table.paired]:
            yield self._request("only_of_composite", table, column=columns[0], **values)

    # ---------------------------------------------------------------------------------- all that belongs to one row

    def totals(self, rows: OwnedRows) -> Iterator[Request]:
        """How many rows there are, and what they add up to."""
        summary = self.box.summary.get(rows.table.name)
        if summary and rows.column.name in self.box.tools[summary].parameters:
            for amount in self._amounts(rows.table, "t.", only_money=True):
                yield self._request("total_of_owner", rows.table, amount=amount, summary=summary, **rows.values)

    def counts(self, rows: OwnedRows) -> Iterator[Request]:
        """How many rows there are of a table that only ties others together: listed, then counted."""
        if rows.listing and rows.table.name not in self.box.summary:
            yield self._request("count_listed", rows.table, tied=_tied(rows.table, rows.column), **rows.values)

    def _counts_by_key(self, table: Table) -> Iterator[Request]:
        """How many rows refer to one that has no name: listed, then counted."""
        for column in table.references:
            target, to = column.target
            listing = self.box.listing.get((table.name, column.name))
            if listing and not self._handles(self.tables[target], "", "") and self.tables[target].key == (to,):
                role = "" if column.stem == self.tables[target].one else f" as {in_words(column.stem)}"
                values = {"column": column, "listing": listing, "stem": column.stem}
                of_owner = f"{'with' if role else 'of'} {row_key(self.tables[target]).phrase}{role}"
                values |= {"tied": _tied(table, column), "of_owner": of_owner}
                yield self._request("count_listed_by_key", table, **values)

    def below(self, rows: OwnedRows) -> Iterator[Request]:
        """How many other rows refer to these rows: listed, then counted one by one."""
        for child in self.tables.values():
            for link in child.references:
                tool = self.box.listing.get((child.name, link.name))
                if child is not rows.table and link.target == (rows.table.name, rows.table.key[0]) and tool:
                    yield self._request("count_below", rows.table, child=child, link=link, tool=tool, **rows.values)
                    return

    def traces(self, rows: OwnedRows) -> Iterator[Request]:
        """What each of the rows refers to: listed, then looked up one by one."""
        passed = (rows.column.target[0], rows.table.name)

        def leads_on(column: Column) -> bool:
            target = column.target[0]
            return target in self.box.get and target not in passed

        for column in filter(leads_on, rows.table.references):
            if column is rows.column:
                continue
            path, end = [column], self.tables[column.target[0]]
            named = self._label(end)
            if named is None or not named.name.endswith(("name", "title")):
                further = filter(leads_on, end.references)
                path += [one for one in further if self.tables[one.target[0]].naturals][:1]
            if label := self._label(self.tables[path[-1].target[0]]):
                for size in _TRACED:
                    yield self._trace(rows, path, label, size)
            return

    def _trace(self, rows: OwnedRows, path: list[Column], label: Label, size: int) -> Request:
        """Ask where each of so many rows leads to, along a path of references."""
        facts = [f"{{fact_{i}}}" for i in range(size)]
        last = " of the ".join(in_words(column.stem) for column in reversed(path))
        links = len(path) == 1 and all(not c.is_plain or c.is_date for c in rows.table.columns.values())
        return self._request(
            "trace",
            rows.table,
            **rows.values,
            looked_up=[
                {
                    "call": self.box.get[column.target[0]],
                    "each": f"$found_{i - 1}" if i else "$rows",
                    "arguments": {column.target[1]: f"$item.{column.name}"},
                    "save": f"found_{i}",
                }
                for i, column in enumerate(path)
            ],
            facts=facts,
            cells=", ".join(f"max(CASE WHEN n = {i + 1} THEN fact END) AS fact_{i}" for i in range(size)),
            joins=joins(path, ["t", *(f"y{i}" for i in range(len(path) - 1)), "z"]),
            last=last,
            things=in_words(self.tables[path[0].target[0]].many if links else rows.table.many),
            of_last="" if links else f" of the {last}",
            order=", ".join(f"t.{bare(part)}" for part in rows.table.key),
            listed=listed(facts),
            label=label,
            size=size,
        )


def _tied(table: Table, column: Column) -> str:
    """Return what the rows of a table are called that refer to a row by a column: of a link, the rows that it ties."""
    others = [other for other in table.references if other is not column]
    return in_words(plural(others[0].stem) if table.is_link and len(others) == 1 else table.many)
