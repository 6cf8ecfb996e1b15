"""Creations: new rows, for others known by id or by name, and those that a rule forbids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolorchestra.toolscale.format import IntentSpec, ReferenceCallSpec
from toolorchestra.toolscale.synth.derived_tools import Creation, literal
from toolorchestra.toolscale.synth.naming import an, said, snake_case
from toolorchestra.toolscale.synth.request_base import Handle, Request, Requester, is_person
from toolorchestra.toolscale.synth.tables import Column, Table, bare, settled

_PRIMES = (7, 11, 13, 17, 19, 23)


class CreationRequests(Requester):
    """Requests for new rows."""

    def requests(self, table: Table) -> Iterator[Request]:
        """Yield the requests for new rows of a table."""
        yield from self._creations(table)

    def _creations(self, table: Table) -> Iterator[Request]:
        creation = self.box.create.get(table.name)
        if creation is None:
            return
        yield from self._creation(table, creation, by_name=False)
        if any(self._named_parent(table, name) for name in creation.required):
            yield from self._creation(table, creation, by_name=True)
        yield from self._refused_creations(table, creation)

    def _named_parent(self, table: Table, name: str) -> Handle | None:
        column = table.columns[name]
        if column.references is None:
            return None
        return self._handle(self.tables[column.references[0]], snake_case(f"{name.removesuffix('_id')}_name"))

    def _creation(self, table: Table, creation: Creation, *, by_name: bool) -> Iterator[Request]:
        one = said(table.one)
        order = ", ".join(f"x.{bare(part)}" for part in table.key)
        ctes = [f"t AS (SELECT x.*, row_number() OVER (ORDER BY {order}) AS n FROM {bare(table.name)} x)"]
        joins = ""
        columns: list[str] = []
        clauses: list[str] = []
        with_clauses: list[str] = []
        steps: list[ReferenceCallSpec] = []
        arguments: dict[str, str] = {}
        derived = settled(table, self.tables)
        for i, name in enumerate(creation.required):
            column = table.columns[name]
            if column.references is not None:
                target, to = column.references
                parent = self.tables[target]
                before = creation.required[:i]
                if name in derived and derived[name][0] in before:
                    via, far = before.index(derived[name][0]), derived[name][1]
                    joins += f" JOIN {bare(target)} p{i} ON p{i}.{bare(to)} = p{via}.{bare(far)}"
                else:
                    pool = f"SELECT *, row_number() OVER (ORDER BY {bare(to)}) - 1 AS pos FROM {bare(target)} q"
                    ctes.append(f"c{i} AS ({pool} WHERE {self._eligible(table, name)})")
                    turn = f"(t.n * {_PRIMES[i % len(_PRIMES)]}) % (SELECT count(*) FROM c{i})"
                    joins += f" JOIN c{i} p{i} ON p{i}.pos = {turn}"
                handle = self._named_parent(table, name) if by_name else None
                stem = said(name.removesuffix("_id"))
                role = "" if stem == said(parent.one) else f" as {stem}"
                if handle is None:
                    columns.append(f"p{i}.{bare(to)} AS {name}")
                    clauses.append(f"{said(parent.one)} {{{name}}}{role}")
                    arguments[name] = f"${name}"
                else:
                    columns.append(handle.sql(f"p{i}"))
                    clauses.append(f"{handle.phrase}{role}")
                    step = handle.call
                    steps.append(
                        ReferenceCallSpec(
                            call=step.call, arguments=step.arguments, save=step.save, parallel=bool(steps)
                        )
                    )
                    arguments[name] = self._key_of(handle, to)
                continue
            if column.kind == "flag":
                columns += [f"NOT t.{bare(name)} AS {name}", f"iif(t.{bare(name)}, 'yes', 'no') AS {name}_said"]
                arguments[name] = f"!${name}"
                with_clauses.append(f"{column.words} {{{name}_said}}")
                continue
            columns.append(f"{self._new_value(table, column)} AS {name}")
            arguments[name] = f"${name}"
            shown = f"{{{name}:date}}" if column.kind in ("date", "datetime") else f"{{{name}}}"
            if column.kind in ("text", "note", "key") and column.type == "TEXT" and "name" not in name:
                shown = f'"{shown}"' if name.endswith("title") or column.kind == "note" else shown
            with_clauses.append(f"{column.words if name not in table.key else said(name)} {shown}")
        what = self._listed(clauses)
        more = self._listed(with_clauses)
        details = ", ".join(part for part in (f"for {what}" if what else "", f"with {more}" if more else "") if part)
        tail = ", ".join(part for part in (what, more) if part)
        add = "add" if table.is_link else "make"
        yield (
            f"{'add' if table.is_link else 'create'}_{table.one}{'_by_name' if by_name else ''}",
            IntentSpec(
                description=f"Make a new {one}{' for rows known by name' if by_name else ''}.",
                bindings=f"WITH {', '.join(ctes)} SELECT DISTINCT {', '.join(columns)} FROM t{joins}",
                instructions=[
                    f"Please {add} a new {one} {details}.",
                    f"I need a new {one}: {tail}.",
                    f"Could you enter {an(one)} {details}?",
                ],
                reference_calls=[*steps, ReferenceCallSpec(call=creation.tool, arguments=arguments)],
                answer=f"The new {one} is entered.",
            ),
        )

    def _eligible(self, table: Table, name: str) -> str:
        """Return the SQL condition under which the row ``q`` may be what a new row refers to."""
        _, to = table.columns[name].references  # type: ignore[misc]  # asked of references only
        conditions = ["1"]
        if (table.name, name) in self.box.trusted:
            state, good = self.box.trusted[table.name, name]
            conditions.append(f"q.{bare(state)} = {literal(good)}")
        if (table.name, name) in self.box.exclusive:
            life = self.box.lives[table.name].open
            conditions.append(
                f"q.{bare(to)} NOT IN (SELECT {bare(name)} FROM {bare(table.name)} "
                f"WHERE {life} AND {bare(name)} IS NOT NULL)"
            )
        if table.columns[name].unique:
            conditions.append(
                f"q.{bare(to)} NOT IN (SELECT {bare(name)} FROM {bare(table.name)} WHERE {bare(name)} IS NOT NULL)"
            )
        return " AND ".join(conditions)

    def _new_value(self, table: Table, column: Column) -> str:
        """Return the SQL of a plausible value for a new row, from the row ``t`` that it is like."""
        cell = f"t.{bare(column.name)}"
        present = [value for value in table.data[column.name] if value is not None]
        if column.kind in ("date", "datetime"):
            days = [
                c for c in table.columns.values() if c.kind in ("date", "datetime") and c is not column and c.required
            ]
            before = next((c for c in days if _never_after(table, c, column)), None)
            if before is not None and self._is_today(table, before):
                gap = f"CAST(julianday({cell}) - julianday(t.{bare(before.name)}) AS INTEGER)"
                return f"date(:today, '+' || {gap} || ' days')"
            return (
                "date(:today, '+' || (1 + t.n * 7 % 60) || ' days')"
                if self._ahead(column)
                else f"substr({cell}, 1, 10)"
            )
        serial = (
            next((m for m in [self._serial(present)] if m), None) if column.unique or column.name in table.key else None
        )
        if column.unique or column.name in table.key or any(column.name in n.columns for n in table.naturals):
            if "email" in column.name:
                return f"'new' || t.n || '.' || {cell}"
            if column.type == "INTEGER":
                return f"(SELECT max({bare(column.name)}) FROM {bare(table.name)}) + t.n"
            if serial is not None:
                prefix, width, highest = serial
                return f"{literal(prefix)} || printf('%0{width}d', {highest} + t.n * 3)"
            parts = next((n.columns for n in table.naturals if len(n.columns) > 1 and column.name in n.columns), None)
            if parts is not None and not column.unique:
                pick = "o.n = 1 + (t.n * 7) % (SELECT count(*) FROM t)"
                return cell if column.name == parts[0] else f"(SELECT o.{bare(column.name)} FROM t o WHERE {pick})"
            if column.name.endswith("name") and is_person(table):
                pick = "o.n = 1 + (t.n * 7) % (SELECT count(*) FROM t)"
                other = f"(SELECT o.{bare(column.name)} FROM t o WHERE {pick})"
                return (
                    f"substr({cell} || ' ', 1, instr({cell} || ' ', ' ')) || substr({other}, instr({other}, ' ') + 1)"
                )
            gap = " " if any(" " in str(value) for value in present) else "-"
            return f"{cell} || '{gap}' || (1 + t.n)"
        return cell if not column.nullable else f"coalesce({cell}, {literal(present[0] if present else '')})"

    def _is_today(self, table: Table, column: Column) -> bool:
        creation = self.box.create[table.name]
        return column.name not in (*creation.required, *creation.optional)

    @staticmethod
    def _ahead(column: Column) -> bool:
        return not any(word in column.name for word in ("birth", "born", "dob", "publish", "acquir", "found", "hire"))

    @staticmethod
    def _serial(values: list[Any]) -> tuple[str, int, int] | None:
        """Return prefix, width and highest number of values that count on, such as LB00042."""
        texts = [str(value) for value in values]
        prefix = texts[0].rstrip("0123456789") if texts else ""
        numbers = [text[len(prefix) :] for text in texts]
        if not all(t.startswith(prefix) and n.isascii() and n.isdecimal() for t, n in zip(texts, numbers, strict=True)):
            return None
        if len({len(number) for number in numbers}) != 1 or len(numbers[0]) > 15 or "%" in prefix:
            return None
        return prefix, len(numbers[0]), max(map(int, numbers))

    def _refused_creations(self, table: Table, creation: Creation) -> Iterator[Request]:
        """New rows that a rule forbids: the thing is taken, the person is not in good standing, the name is used."""
        one = said(table.one)
        for name in creation.required:
            column = table.columns[name]
            if column.references is None:
                continue
            target, to = column.references
            parent = self.tables[target]
            handle = self._handle(parent, "owner")
            if handle is None:
                continue
            if (table.name, name) in self.box.trusted:
                state, good = self.box.trusted[table.name, name]
                yield (
                    f"create_{table.one}_refused_{state}",
                    IntentSpec(
                        description=f"A new {one} is asked for {an(said(parent.one))} that is not {good}; refuse.",
                        bindings=f"SELECT {handle.sql('p')}, p.{bare(state)} AS fact FROM {bare(target)} p "
                        f"WHERE fact <> {literal(good)}",
                        instructions=[
                            f"{handle.phrase[0].upper()}{handle.phrase[1:]} wants a new {one}. Is that possible? "
                            f"If not, which {said(state)} stands in the way?",
                            f"Check whether {handle.phrase} may have a new {one}; if not, tell me the {said(state)}.",
                            f"Before I prepare {an(one)} for {handle.phrase}: may they have one? "
                            f"Give me the {said(state)} if they may not.",
                        ],
                        reference_calls=[handle.call],
                        communicate=["{fact}"],
                        answer=f"That is not possible: the {said(state)} of {handle.phrase} is {{fact}}.",
                        refuses=True,
                    ),
                )
            listing = self.box.listing.get((table.name, name))
            life = self.box.lives.get(table.name)
            if (table.name, name) in self.box.exclusive and life is not None and listing is not None:
                after, before = self._sides(table, life, life.endings[0])
                told = before or after
                if told is None:
                    continue
                yield (
                    f"create_{table.one}_refused_{said(name.removesuffix('_id')).replace(' ', '_')}",
                    IntentSpec(
                        description=f"A new {one} is asked for {an(said(parent.one))} that has an open one; refuse.",
                        bindings=f"SELECT {handle.sql('p')}, t.{bare(told.name)} AS fact FROM {bare(table.name)} t "
                        f"JOIN {bare(target)} p ON p.{bare(to)} = t.{bare(name)} WHERE {self._alias(life, table)} "
                        f"AND fact IS NOT NULL",
                        instructions=[
                            f"Is {handle.phrase} free for a new {one}? "
                            f"If not, tell me the {told.words} of the open one.",
                            f"Somebody asks for {an(one)} of {handle.phrase}. Should it be taken, "
                            f"let me know the {told.words} of the present {one}.",
                            f"Check whether {handle.phrase} can have a new {one} today; "
                            f"if an open one stands in the way, what is its {told.words}?",
                        ],
                        reference_calls=[
                            handle.call,
                            ReferenceCallSpec(
                                call=listing, arguments={name: self._key_of(handle, to), **self._only_open(table, life)}
                            ),
                        ],
                        communicate=["{fact}"],
                        answer=f"It is taken; the {told.words} of the open {one} is {self._shown(told, 'fact')}.",
                        refuses=True,
                        branches=True,
                    ),
                )
        unique = next((n for n in table.naturals if n.columns == (n.name,) and table.columns[n.name].unique), None)
        told_columns = [c for c in self._told(table) if not c.nullable]
        if unique is not None and told_columns and unique.name in creation.required:
            told = told_columns[0]
            find = ReferenceCallSpec(call=self.box.find[table.name, unique.name], arguments={unique.name: "$name"})
            words = said(unique.name)
            yield (
                f"create_{table.one}_refused_{unique.name}",
                IntentSpec(
                    description=f"A new {one} is to get the {words} of another; refuse and say of which.",
                    bindings=f"SELECT {bare(unique.name)} AS name, {bare(told.name)} AS fact FROM {bare(table.name)} "
                    f"WHERE fact IS NOT NULL",
                    instructions=[
                        f"I want to enter a new {one} with the {words} {{name}}. "
                        f"If another has it, what is its {told.words}?",
                        f"Is the {words} {{name}} free for a new {one}? "
                        f"If it is taken, tell me the {told.words} on file.",
                        f"Check the {words} {{name}} before we make a new {one}: should it be used already, "
                        f"I need the {told.words} of that {one}.",
                    ],
                    reference_calls=[find],
                    communicate=["{fact}"],
                    answer=f"It is taken, by {an(one)} whose {told.words} is {self._shown(told, 'fact')}.",
                    refuses=True,
                ),
            )


def _never_after(table: Table, first: Column, second: Column) -> bool:
    """Whether no row has the date `first` after the date `second`."""
    pairs = zip(table.data[first.name], table.data[second.name], strict=True)
    return all(a <= b for a, b in pairs if a is not None and b is not None)
