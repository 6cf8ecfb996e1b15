"""Questions: about one row, what its references lead to, counts and totals, and which row has the most."""

from __future__ import annotations

from collections.abc import Iterator

from toolorchestra.toolscale.format import IntentSpec, ReferenceCallSpec
from toolorchestra.toolscale.synth.derived_tools import main_date
from toolorchestra.toolscale.synth.naming import an, said
from toolorchestra.toolscale.synth.request_base import Request, Requester
from toolorchestra.toolscale.synth.tables import Column, Table, bare


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
        """One thing about one row: by id, and by each natural name."""
        one, key = said(table.one), table.key[0]
        told = self._told(table)
        handles = [handle for rank in range(2) if (handle := self._handle(table, "name", rank))]
        for column in told[: 1 if handles else 2]:
            yield (
                f"ask_{table.one}_{column.name}",
                IntentSpec(
                    description=f"Ask for the {column.words} of {an(one)}, by id.",
                    bindings=f"SELECT {bare(key)} AS id, {bare(column.name)} AS fact FROM {bare(table.name)} "
                    f"WHERE fact IS NOT NULL",
                    instructions=[
                        f"What is the {column.words} of {one} {{id}}?",
                        f"I need the {column.words} of {one} {{id}}, please.",
                        f"Could you look up {one} {{id}} and tell me the {column.words}?",
                        f"{one.capitalize()} {{id}}: which {column.words} do we have on file?",
                    ],
                    reference_calls=[ReferenceCallSpec(call=self.box.get[table.name], arguments={key: "$id"})],
                    communicate=["{fact}"],
                    answer=f"The {column.words} of {one} {{id}} is {self._shown(column, 'fact')}.",
                ),
            )
        for i, handle in enumerate(handles):
            if not told:
                break
            column = told[(i + 1) % len(told)]
            yield (
                f"ask_{table.one}_{column.name}_by_{handle.natural.name}",
                IntentSpec(
                    description=f"Ask for the {column.words} of {an(one)} known by {said(handle.natural.name)}.",
                    bindings=f"SELECT {handle.sql('t')}, {bare(column.name)} AS fact FROM {bare(table.name)} t "
                    f"WHERE fact IS NOT NULL",
                    instructions=[
                        f"What is the {column.words} of {handle.phrase}?",
                        f"Please tell me the {column.words} of {handle.phrase}.",
                        f"I am asking about {handle.phrase}: what {column.words} is on file?",
                    ],
                    reference_calls=[handle.call],
                    communicate=["{fact}"],
                    answer=f"It is {self._shown(column, 'fact')}.",
                ),
            )
        if table.name in self.box.named and told:
            name, tool = self.box.named[table.name]
            column, cell = told[0] if told[0].name != name else told[-1], bare(name)
            alone = f"SELECT count(*) FROM {bare(table.name)} o WHERE instr(lower(o.{cell}), lower(t.{cell}))"
            yield (
                f"ask_named_{table.one}_{column.name}",
                IntentSpec(
                    description=f"Ask for the {column.words} of {an(one)} whose {said(name)} is no key.",
                    bindings=f"SELECT t.{bare(key)} AS id, t.{cell} AS name, t.{bare(column.name)} AS fact "
                    f"FROM {bare(table.name)} t WHERE fact IS NOT NULL AND ({alone}) = 1",
                    instructions=[
                        f"What is the {column.words} of the {one} called {{name}}?",
                        f"Find the {one} {{name}} and look up the {column.words}.",
                        f'There is {an(one)} on file as "{{name}}"; which {column.words} does the entry have?',
                    ],
                    reference_calls=[
                        ReferenceCallSpec(call=tool, arguments={name: "$name"}, save="found"),
                        ReferenceCallSpec(call=self.box.get[table.name], arguments={key: f"$found.0.{key}"}),
                    ],
                    communicate=["{fact}"],
                    answer=f"The {column.words} of {{name}} is {self._shown(column, 'fact')}.",
                ),
            )

    def _paths(self, table: Table) -> Iterator[Request]:
        """What references lead to: one, two and three rows on."""
        one, key = said(table.one), table.key[0]
        chosen: dict[int, list[list[Column]]] = {}
        for path in self._walks(table, []):
            chosen.setdefault(len(path), []).append(path)
        for length, limit in ((1, 2), (2, 1), (3, 1)):
            for path in chosen.get(length, [])[:limit]:
                end = self.tables[path[-1].references[0]]  # type: ignore[index]  # a walk goes over references
                label = self._label(end)
                if label is None:
                    continue
                words, sql, field = label
                steps = [ReferenceCallSpec(call=self.box.get[table.name], arguments={key: "$id"}, save="row_0")]
                joins, said_path = "", []
                for i, column in enumerate(path):
                    target, to = column.references  # type: ignore[misc]
                    alias = "z" if i == length - 1 else f"t{i + 1}"
                    joins += f" JOIN {bare(target)} {alias} ON {alias}.{bare(to)} = t{i}.{bare(column.name)}"
                    arguments = {to: f"$row_{i}.{column.name}"}
                    steps.append(ReferenceCallSpec(call=self.box.get[target], arguments=arguments, save=f"row_{i + 1}"))
                    said_path.append(said(column.name.removesuffix("_id")))
                trail = " of the ".join(reversed(said_path))
                yield (
                    f"follow_{table.one}_to_{'_'.join(c.name.removesuffix('_id') for c in path)}",
                    IntentSpec(
                        description=f"Ask for the {words} of the {trail} of {an(one)}.",
                        bindings=f"SELECT t0.{bare(key)} AS id, {sql} AS fact FROM {bare(table.name)} t0{joins} "
                        f"WHERE fact IS NOT NULL",
                        instructions=[
                            f"What is the {words} of the {trail} of {one} {{id}}?",
                            f"Starting from {one} {{id}}: please find the {trail}, and tell me the {words}.",
                            f"I only have the {one} id {{id}}. Which {words} does its {trail} have?",
                        ],
                        reference_calls=steps,
                        communicate=["{fact}"],
                        answer=f"The {words} of the {trail} of {one} {{id}} is {{row_{length}.{field}}}.",
                    ),
                )

    def _walks(self, table: Table, path: list[Column]) -> Iterator[list[Column]]:
        if path:
            yield path
        if len(path) == 3:
            return
        for column in table.references:
            assert column.references is not None
            target, to = column.references
            parent = self.tables[target]
            seen = {table.name, *(c.references[0] for c in path if c.references)}
            if target in self.box.get and parent.key == (to,) and target not in seen:
                yield from self._walks(parent, [*path, column])

    def _totals(self, table: Table) -> Iterator[Request]:
        """How many there are, and what they come to, over all rows of a state or a time."""
        tool = self.box.summary.get(table.name)
        if tool is None:
            return
        many = said(table.many)
        parameters = self.box.tools[tool].parameters
        state = next((c for c in table.columns.values() if c.kind == "category" and c.name in parameters), None)
        if state is not None:
            cell = bare(state.name)
            for i, amount in enumerate([None, *self.box.totals[table.name][:1]]):
                words = f"the total {table.columns[amount].words} of" if amount else "the number of"
                fact = f"round(total({bare(amount)}), 2)" if amount else "count(*)"
                yield (
                    f"{'total' if i else 'count'}_{table.many}_by_{state.name}",
                    IntentSpec(
                        description=f"Ask for {words} all {many} with one {state.words}.",
                        bindings=f"SELECT {cell} AS state, {fact} AS fact FROM {bare(table.name)} "
                        f"WHERE state IS NOT NULL GROUP BY state HAVING count(*) > 9",
                        instructions=[
                            f'What is {words} the {many} with the {state.words} "{{state}}"?',
                            f"Please give me {words} all {many} whose {state.words} is {{state}}.",
                            f'For the statistics: {words} {many} on file as "{{state}}" ({state.words})?',
                        ],
                        reference_calls=[ReferenceCallSpec(call=tool, arguments={state.name: "$state"}, save="sum")],
                        communicate=["{fact}"],
                        answer=f"It is {{sum.{f'total_{amount}' if amount else 'count'}}}.",
                    ),
                )
        day = main_date(table) if "from_date" in parameters else None
        if day is not None:
            month = f"substr({bare(day.name)}, 1, 7) || '-01'"
            yield (
                f"count_{table.many}_of_a_month",
                IntentSpec(
                    description=f"Ask how many {many} fall into one month.",
                    bindings=f"SELECT {month} AS first, date({month}, '+1 month', '-1 day') AS last, count(*) AS fact "
                    f"FROM {bare(table.name)} WHERE first IS NOT NULL GROUP BY first HAVING count(*) > 9",
                    instructions=[
                        f"How many {many} have a {day.words} from {{first:date}} to {{last:date}}?",
                        f"Count the {many} with a {day.words} between {{first}} and {{last}}, both included.",
                        f"For the monthly report: the number of {many}, {day.words} {{first}} to {{last}}?",
                    ],
                    reference_calls=[
                        ReferenceCallSpec(call=tool, arguments={"from_date": "$first", "to_date": "$last"}, save="sum")
                    ],
                    communicate=["{fact}"],
                    answer=f"There are {{sum.count}} such {many}.",
                ),
            )

    def _extremes(self, table: Table) -> Iterator[Request]:
        """Which row of a search has most: listed, compared, then looked up."""
        tool = self.box.search.get(table.name)
        if tool is None or len(table.key) > 1 or table.name not in self.box.get:
            return
        parameters = self.box.tools[tool].parameters
        state = next((c for c in table.columns.values() if c.kind == "category" and c.name in parameters), None)
        numbers = [
            c for c in table.columns.values() if c.kind in ("money", "number") and not c.words.startswith("year")
        ]
        measure = numbers[0] if numbers else None
        told = [c for c in self._told(table) if c not in (state, measure) and c.kind != "number"]
        natural = next((n for n in table.naturals if len(n.columns) == 1), None)
        if state is None or measure is None or not (told or natural):
            return
        wanted = table.columns[natural.name] if natural else told[0]
        many, one, key = said(table.many), said(table.one), bare(table.key[0])
        cell, size = bare(state.name), bare(measure.name)
        yield (
            f"find_{table.one}_with_most_{measure.name}",
            IntentSpec(
                description=f"Ask which of the {many} with one {state.words} has the highest {measure.words}.",
                bindings=f"""WITH rows AS (
  SELECT *, rank() OVER (PARTITION BY {cell} ORDER BY {size} DESC) AS place,
    rank() OVER (PARTITION BY {cell} ORDER BY {size}) AS back, count(*) OVER (PARTITION BY {cell}) AS size_of
  FROM {bare(table.name)} WHERE {cell} IS NOT NULL AND {size} IS NOT NULL)
SELECT {key} AS id, {cell} AS state, {bare(wanted.name)} AS fact, 'highest' AS which FROM rows
WHERE place = 1 AND size_of BETWEEN 3 AND 50 AND fact IS NOT NULL GROUP BY state HAVING count(*) = 1
UNION ALL SELECT {key}, {cell}, {bare(wanted.name)}, 'lowest' FROM rows
WHERE back = 1 AND size_of BETWEEN 3 AND 50 AND {bare(wanted.name)} IS NOT NULL GROUP BY {cell} HAVING count(*) = 1""",
                instructions=[
                    f"Of the {many} whose {state.words} is {{state}}, take the one with the {{which}} {measure.words} "
                    f"and tell me its {wanted.words}.",
                    f"Which {one} has the {{which}} {measure.words} among those with {state.words} {{state}}? "
                    f"Look it up and give me the {wanted.words}.",
                    f"I want the {wanted.words} of the {one} with the {{which}} {measure.words}; "
                    f"only {state.words} {{state}} counts.",
                ],
                reference_calls=[
                    ReferenceCallSpec(call=tool, arguments={state.name: "$state"}),
                    ReferenceCallSpec(call=self.box.get[table.name], arguments={table.key[0]: "$id"}),
                ],
                communicate=["{fact}"],
                answer=f"It is {one} {{id}}: {{fact}}.",
                branches=True,
            ),
        )

    def _of_a_day(self, table: Table) -> Iterator[Request]:
        """The only row of a state and a day: searched for, then its reference followed."""
        tool = self.box.search.get(table.name)
        if tool is None or not {"from_date", "to_date"} <= set(self.box.tools[tool].parameters):
            return
        state, day = table.status, main_date(table)
        link = next((c for c in table.references if c.references and c.references[0] in self.box.get), None)
        if day is None or link is None:
            return
        target, to = link.references  # type: ignore[misc]  # just asked
        label = self._label(self.tables[target])
        if label is None or self.tables[target].key != (to,):
            return
        words, sql, _ = label
        one, stem = said(table.one), said(link.name.removesuffix("_id"))
        moment = f"substr(t.{bare(day.name)}, 1, 10)"
        cells = f"{moment} AS day" + (f", t.{bare(state.name)} AS state" if state else "")
        which = f'with the {state.words} "{{state}}" and ' if state else "with "
        arguments = {"from_date": "$day", "to_date": "$day"} | ({state.name: "$state"} if state else {})
        yield (
            f"find_{table.one}_of_a_day",
            IntentSpec(
                description=f"Ask for the {words} of the {stem} of the only {one} of a day.",
                bindings=f"SELECT {cells}, max({sql}) AS fact FROM {bare(table.name)} t "
                f"JOIN {bare(target)} z ON z.{bare(to)} = t.{bare(link.name)} WHERE {moment} IS NOT NULL "
                f"GROUP BY {'day, state' if state else 'day'} HAVING count(*) = 1 AND fact IS NOT NULL",
                instructions=[
                    f"There is one {one} {which}the {day.words} {{day:date}}. What is the {words} of its {stem}?",
                    f"Find the {one} {which}the {day.words} {{day}}, and tell me the {words} of its {stem}.",
                    f"I am looking for a {one} {which}the {day.words} {{day:date}}: "
                    f"which {words} does the {stem} have?".replace(f"a {one}", an(one), 1),
                ],
                reference_calls=[
                    ReferenceCallSpec(call=tool, arguments=arguments, save="found"),
                    ReferenceCallSpec(call=self.box.get[target], arguments={to: f"$found.0.{link.name}"}),
                ],
                communicate=["{fact}"],
                answer="It is {fact}.",
            ),
        )
