"""Requests about all that belongs to somebody: counted, ended, postponed, compared, traced on one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from toolorchestra.toolscale.format import IntentSpec, ReferenceCallSpec
from toolorchestra.toolscale.synth.derived_tools import Ending, Life, literal
from toolorchestra.toolscale.synth.naming import an, said
from toolorchestra.toolscale.synth.request_base import Handle, Request, Requester
from toolorchestra.toolscale.synth.tables import Column, Table, bare


class _OwnedRows(NamedTuple):
    """The rows of a table that refer to one other row.

    Attributes:
        table: Their table.
        column: The column by which they refer.
        owner: How the other row is named.
        to: The column referred to.
        stem: What the other row is to them.
        whose: The phrase for the other row.
        source: The FROM clause: the rows as ``t``, the other rows as ``p``.
        life: How such rows end, if they do.
        opened: The SQL condition that a row is open.
        only: Arguments by which a look-up gives open rows only.
        adjective: The word for those rows, with a space after it.
    """

    table: Table
    column: Column
    owner: Handle
    to: str
    stem: str
    whose: str
    source: str
    life: Life | None
    opened: str
    only: dict[str, Any]
    adjective: str

    @property
    def many(self) -> str:
        """The rows in words."""
        return said(self.table.many)

    @property
    def one(self) -> str:
        """One of them in words."""
        return said(self.table.one)


class OwnershipRequests(Requester):
    """Requests about the rows that refer to one other row, which is named."""

    def requests(self, table: Table) -> Iterator[Request]:
        """Yield the requests about the rows of a table that belong to one row of another."""
        for column in table.references:
            assert column.references is not None
            if owner := self._handle(self.tables[column.references[0]], "owner"):
                yield from self._of_owner(table, column, owner)
                yield from self._traces(table, column, owner)

    def _of_owner(self, table: Table, column: Column, owner: Handle) -> Iterator[Request]:
        """Yield the requests about the rows that belong to one other row, which is named."""
        rows = self._owned(table, column, owner)
        yield from self._totals(rows)
        listing = self.box.listing.get((table.name, column.name))
        if listing is None or len(table.key) > 1:
            return
        yield from self._below(table, column, owner)
        listed = ReferenceCallSpec(
            call=listing, arguments={column.name: self._key_of(owner, rows.to), **rows.only}, save="rows"
        )
        if rows.life:
            yield from self._postponed(rows, listed)
            yield from self._ended(rows, rows.life, listed)

    def _owned(self, table: Table, column: Column, owner: Handle) -> _OwnedRows:
        target, to = column.references  # type: ignore[misc]  # called for references only
        stem, life = column.name.removesuffix("_id"), self.box.lives.get(table.name)
        only = self._only_open(table, life) if life else {}
        return _OwnedRows(
            table,
            column,
            owner,
            to,
            stem,
            whose=owner.phrase + ("" if stem == owner.table.one else f" (as {said(stem)})"),
            source=f"FROM {bare(table.name)} t JOIN {bare(target)} p ON p.{bare(to)} = t.{bare(column.name)}",
            life=life,
            opened=self._alias(life, table) if life else "1",
            only=only,
            adjective="" if not only else "open " if "open" in only else f"{next(iter(only.values()))} ",
        )

    def _totals(self, rows: _OwnedRows) -> Iterator[Request]:
        """How many rows somebody has, and what they come to."""
        table, owner, stem, many, source = rows.table, rows.owner, rows.stem, rows.many, rows.source
        summary = self.box.summary.get(table.name)
        if summary is not None and rows.column.name in self.box.tools[summary].parameters:
            for amount in [None, *self.box.totals[table.name][:1]]:
                if amount and table.columns[amount].kind != "money":
                    continue
                words = f"the total {table.columns[amount].words} of the" if amount else "the number of"
                fact = f"round(total(t.{bare(amount)}), 2)" if amount else "count(*)"
                where = f"WHERE {rows.opened}" if rows.only else ""
                yield (
                    f"{'total' if amount else 'count'}_{table.many}_of_{stem}",
                    IntentSpec(
                        description=f"Ask for {words} {rows.adjective}{many} of {an(said(owner.table.one))}.",
                        bindings=f"SELECT {owner.sql('p')}, {fact} AS fact {source} {where} GROUP BY p.{bare(rows.to)}",
                        instructions=[
                            f"What is {words} {rows.adjective}{many} of {rows.whose}?",
                            f"Please find out {words} {rows.adjective}{many} on file for {rows.whose}.",
                            f"About {rows.whose}: I would like to know {words} {rows.adjective}{many}.",
                        ],
                        reference_calls=[
                            owner.call,
                            ReferenceCallSpec(
                                call=summary,
                                arguments={rows.column.name: self._key_of(owner, rows.to), **rows.only},
                                save="sum",
                            ),
                        ],
                        communicate=["{fact}"],
                        answer=f"It is {{sum.{f'total_{amount}' if amount else 'count'}}}.",
                    ),
                )

    def _postponed(self, rows: _OwnedRows, listed: ReferenceCallSpec) -> Iterator[Request]:
        """Move a date of every open row."""
        table, owner, stem, key = rows.table, rows.owner, rows.stem, rows.table.key[0]
        many, one, source = rows.many, rows.one, rows.source
        updates = [n for (t, n) in self.box.update if t == table.name and table.columns[n].kind == "date"]
        if updates:
            name, words = updates[0], table.columns[updates[0]].words
            cell = f"t.{bare(name)}"
            item = f"json_object('id', t.{bare(key)}, 'value', date({cell}, '+' || days || ' days'))"
            yield (
                f"postpone_{table.many}_of_{stem}",
                IntentSpec(
                    description=f"Postpone the {words} of every open {one} of {an(said(owner.table.one))}.",
                    bindings=f"SELECT {owner.sql('p')}, days, json_group_array({item}) AS items "
                    f"{source} JOIN (SELECT 7 AS days UNION SELECT 14) WHERE {rows.opened} "
                    f"GROUP BY p.{bare(rows.to)}, days HAVING count(*) BETWEEN 2 AND 7",
                    json=["items"],
                    instructions=[
                        f"Please postpone the {words} of every open {one} of {rows.whose} by {{days}} days.",
                        f"{rows.whose[0].upper()}{rows.whose[1:]} needs {{days}} more days: "
                        f"move the {words} of each open {one}.",
                        f"All open {many} of {rows.whose}: the {words} is to be {{days}} days later.",
                    ],
                    reference_calls=[
                        owner.call,
                        listed,
                        ReferenceCallSpec(
                            call=self.box.update[table.name, name],
                            each="$items",
                            arguments={key: "$item.id", name: "$item.value"},
                        ),
                    ],
                    answer=f"The {words} of all open {many} is {{days}} days later now.",
                ),
            )

    def _ended(self, rows: _OwnedRows, life: Life, listed: ReferenceCallSpec) -> Iterator[Request]:
        """End the only open row, every open row, or one chosen among them."""
        table = rows.table
        ending = life.endings[0]
        tool = self.box.ending[table.name, ending.verb]
        endable = " AND ".join(
            [rows.opened] + ([f"t.{bare(str(life.status))} <> {literal(ending.state)}"] if ending.state else [])
        )
        yield self._only_one_ended(rows, ending, endable, listed, tool)
        yield self._all_ended(rows, ending, endable, listed, tool)
        ends = {life.status, *(e.dated for e in life.endings)}
        for measure in table.columns.values():
            if measure.kind in ("money", "date") and measure.name not in ends and not measure.nullable:
                yield self._extreme_ended(rows, ending, endable, listed, tool, measure)
                return

    def _only_one_ended(
        self, rows: _OwnedRows, ending: Ending, endable: str, listed: ReferenceCallSpec, tool: str
    ) -> Request:
        table, owner, stem, key = rows.table, rows.owner, rows.stem, rows.table.key[0]
        one, source = rows.one, rows.source
        do = said(ending.verb)
        return (
            f"{ending.verb}_the_{table.one}_of_{stem}",
            IntentSpec(
                description=f"{do.capitalize()} the only open {one} of {an(said(owner.table.one))}.",
                bindings=f"SELECT {owner.sql('p')}, max(t.{bare(key)}) AS id {source} WHERE {endable} "
                f"GROUP BY p.{bare(rows.to)} HAVING count(*) = 1",
                instructions=[
                    f"Please {do} the open {one} of {rows.whose}.",
                    f"{rows.whose[0].upper()}{rows.whose[1:]} has one open {one}: {do} it.",
                    f"Find the {one} of {rows.whose} that is open still, and {do} it.",
                ],
                reference_calls=[owner.call, listed, ReferenceCallSpec(call=tool, arguments={key: "$id"})],
                answer=f"Done: {do} {one} {{id}}.",
            ),
        )

    def _all_ended(
        self, rows: _OwnedRows, ending: Ending, endable: str, listed: ReferenceCallSpec, tool: str
    ) -> Request:
        table, owner, stem, key = rows.table, rows.owner, rows.stem, rows.table.key[0]
        many, one, source = rows.many, rows.one, rows.source
        do = said(ending.verb)
        return (
            f"{ending.verb}_all_{table.many}_of_{stem}",
            IntentSpec(
                description=f"{do.capitalize()} every open {one} of {an(said(owner.table.one))}.",
                bindings=f"SELECT {owner.sql('p')}, json_group_array(t.{bare(key)}) AS items, count(*) AS fact "
                f"{source} WHERE {endable} GROUP BY p.{bare(rows.to)} HAVING count(*) BETWEEN 2 AND 8",
                json=["items"],
                instructions=[
                    f"Please {do} every open {one} of {rows.whose}, and tell me how many there were.",
                    f"{do.capitalize()} all open {many} of {rows.whose}. How many is that?",
                    f"For {rows.whose}: {do} whatever {one} is open, one by one, and give me their number.",
                ],
                reference_calls=[
                    owner.call,
                    listed,
                    ReferenceCallSpec(call=tool, each="$items", arguments={key: "$item"}),
                ],
                communicate=["{fact}"],
                answer=f"Done, {{fact}} {many}.",
            ),
        )

    def _extreme_ended(
        self, rows: _OwnedRows, ending: Ending, endable: str, listed: ReferenceCallSpec, tool: str, measure: Column
    ) -> Request:
        table, owner, stem, key = rows.table, rows.owner, rows.stem, rows.table.key[0]
        many, one, source = rows.many, rows.one, rows.source
        do = said(ending.verb)
        extreme = "highest" if measure.kind == "money" else "latest"
        cell = f"t.{bare(measure.name)}"
        return (
            f"{ending.verb}_{extreme}_{table.one}_of_{stem}",
            IntentSpec(
                description=f"{do.capitalize()} the open {one} with the {extreme} {measure.words}, "
                "and tell which it is.",
                bindings=f"""WITH mine AS (
  SELECT {owner.sql("p")}, t.{bare(key)} AS id, {cell} AS fact,
    rank() OVER (PARTITION BY p.{bare(rows.to)} ORDER BY {cell} DESC) AS place,
    count(*) OVER (PARTITION BY p.{bare(rows.to)}) AS size_of
  {source} WHERE {endable})
SELECT owner, max(id) AS id, fact FROM mine WHERE place = 1 AND size_of BETWEEN 2 AND 20
GROUP BY owner HAVING count(*) = 1""",
                instructions=[
                    f"Of the open {many} of {rows.whose}, {do} the one with the {extreme} {measure.words}, "
                    f"and tell me that {measure.words}.",
                    f"Please {do} the open {one} of {rows.whose} that has the {extreme} {measure.words}. "
                    f"Which {measure.words} is it?",
                    f"{rows.whose[0].upper()}{rows.whose[1:]} has several open {many}. "
                    f"{do.capitalize()} only the "
                    f"one with the {extreme} {measure.words}, and report it.",
                ],
                reference_calls=[owner.call, listed, ReferenceCallSpec(call=tool, arguments={key: "$id"})],
                communicate=["{fact}"],
                answer=f"Done: {do} {one} {{id}}, {measure.words} {self._shown(measure, 'fact')}.",
                branches=True,
            ),
        )

    def _below(self, table: Table, column: Column, owner: Handle) -> Iterator[Request]:
        """How many rows belong to the rows of somebody: listed, then counted one by one."""
        target, to = column.references  # type: ignore[misc]  # called for references only
        key = table.key[0]
        below = next(
            (
                (child, link)
                for child in self.tables.values()
                for link in child.references
                if child is not table
                and link.references == (table.name, key)
                and (child.name, link.name) in self.box.listing
            ),
            None,
        )
        if below is None:
            return
        child, link = below
        many, stem = said(table.many), column.name.removesuffix("_id")
        yield (
            f"count_{child.many}_below_{stem}",
            IntentSpec(
                description=f"Ask how many {said(child.many)} all {many} of {an(said(owner.table.one))} have together.",
                bindings=f"""SELECT {owner.sql("p")}, sum((
  SELECT count(*) FROM {bare(child.name)} c WHERE c.{bare(link.name)} = t.{bare(key)})) AS fact
FROM {bare(table.name)} t JOIN {bare(target)} p ON p.{bare(to)} = t.{bare(column.name)}
GROUP BY p.{bare(to)} HAVING count(*) BETWEEN 3 AND 12 AND fact > 0""",
                instructions=[
                    f"How many {said(child.many)} belong to the {many} of {owner.phrase}, taken together?",
                    f"Go through the {many} of {owner.phrase} one by one and count their {said(child.many)}.",
                    f"For each of the {many} of {owner.phrase}, look for {said(child.many)}. "
                    f"How many are there in all?",
                ],
                reference_calls=[
                    owner.call,
                    ReferenceCallSpec(
                        call=self.box.listing[table.name, column.name],
                        arguments={column.name: self._key_of(owner, to)},
                        save="rows",
                    ),
                    ReferenceCallSpec(
                        call=self.box.listing[child.name, link.name],
                        each="$rows",
                        arguments={link.name: f"$item.{key}"},
                    ),
                ],
                communicate=["{fact}"],
                answer=f"There are {{fact}} {said(child.many)} in all.",
            ),
        )

    def _traces(self, table: Table, column: Column, owner: Handle) -> Iterator[Request]:
        """What each row of somebody leads to: listed, then looked up one by one."""
        target, _ = column.references  # type: ignore[misc]  # called for references only
        listing = self.box.listing.get((table.name, column.name))
        if listing is None:
            return
        for next_column in table.references:
            assert next_column.references is not None
            if next_column is column or next_column.references[0] in (target, table.name):
                continue
            end = self.tables[next_column.references[0]]
            if end.name not in self.box.get:
                continue
            path = [next_column]
            named = end.naturals and len(end.naturals[0].columns) == 1
            if not (named and end.naturals[0].name.endswith(("name", "title"))):
                path += [c for c in end.references if self._tells_more(c, (target, table.name))][:1]
            last = self.tables[path[-1].references[0]]  # type: ignore[index]
            label = self._label(last)
            if label is not None:
                yield from self._trace(table, column, owner, path, label, listing)
            return

    def _tells_more(self, column: Column, passed: tuple[str, ...]) -> bool:
        """Whether a reference leads to a row with a name, and not back."""
        assert column.references is not None
        target = column.references[0]
        return target in self.box.get and target not in passed and bool(self.tables[target].naturals)

    def _trace(
        self, table: Table, column: Column, owner: Handle, path: list[Column], label: tuple[str, str, str], listing: str
    ) -> Iterator[Request]:
        target, to = column.references  # type: ignore[misc]
        words, sql, _ = label
        life = self.box.lives.get(table.name)
        only = self._only_open(table, life) if life else {}
        opened = f"WHERE {self._alias(life, table)}" if life and only else ""
        adjective = "" if not only else "open " if "open" in only else f"{next(iter(only.values()))} "
        joins, alias = "", "t"
        for i, step in enumerate(path):
            to_table, to_column = step.references  # type: ignore[misc]
            name = "z" if i == len(path) - 1 else f"y{i}"
            joins += f" JOIN {bare(to_table)} {name} ON {name}.{bare(to_column)} = {alias}.{bare(step.name)}"
            alias = name
        last = said(self.tables[path[-1].references[0]].one)  # type: ignore[index]
        order = ", ".join(f"t.{bare(part)}" for part in table.key)
        for size in (2, 3, 4, 5, 6):
            facts = ", ".join(f"max(CASE WHEN n = {i + 1} THEN fact END) AS fact_{i}" for i in range(size))
            told = [f"{{fact_{i}}}" for i in range(size)]
            steps = [
                owner.call,
                ReferenceCallSpec(call=listing, arguments={column.name: self._key_of(owner, to), **only}, save="rows"),
            ]
            items = "$rows"
            for i, step in enumerate(path):
                to_table, to_column = step.references  # type: ignore[misc]
                save = f"found_{i}"
                argument = {to_column: f"$item.{step.name}"}
                steps.append(ReferenceCallSpec(call=self.box.get[to_table], each=items, arguments=argument, save=save))
                items = f"${save}"
            many = said(table.many)
            yield (
                f"trace_{size}_{table.many}_of_{column.name.removesuffix('_id')}",
                IntentSpec(
                    description=f"Ask for the {words} of the {last} of each of {size} {adjective}{many} of "
                    f"{an(said(owner.table.one))}.",
                    bindings=f"""WITH mine AS (
  SELECT {owner.sql("p")}, p.{bare(to)} AS owner_id, {sql} AS fact,
    row_number() OVER (PARTITION BY p.{bare(to)} ORDER BY {order}) AS n
  FROM {bare(table.name)} t JOIN {bare(target)} p ON p.{bare(to)} = t.{bare(column.name)}{joins} {opened})
SELECT owner, {facts} FROM mine GROUP BY owner_id HAVING count(*) = {size} AND count(fact) = {size}
  AND NOT EXISTS (SELECT 1 FROM mine a JOIN mine b ON a.owner_id = b.owner_id AND a.n <> b.n
    WHERE a.owner_id = mine.owner_id AND instr(lower(b.fact), lower(a.fact)))""",
                    instructions=[
                        f"Which {words} belongs to the {last} of each of the {adjective}{many} of {owner.phrase}? "
                        f"I expect {size}.",
                        f"{owner.phrase[0].upper()}{owner.phrase[1:]} has {size} {adjective}{many}. "
                        f"Look up the {last} of each "
                        f"and tell me every {words}.",
                        f"Please go through the {adjective}{many} of {owner.phrase}, {size} in number, and tell me "
                        f"the {words} of each {last}.",
                    ],
                    reference_calls=steps,
                    communicate=list(told),
                    answer=f"These are {self._listed(told)}.",
                ),
            )
