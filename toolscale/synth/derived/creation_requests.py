"""Requests for new rows, which refer to others by id or by name, and requests that a rule forbids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolorchestra.toolscale.database.format import ReferenceCallSpec
from toolorchestra.toolscale.requests.naming import in_words, snake_case
from toolorchestra.toolscale.synth.derived.derived_tools import Creation
from toolorchestra.toolscale.synth.derived.request_base import Handle, Parts, Request, Requester, is_person, listed
from toolorchestra.toolscale.synth.tables.tables import Column, Table, bare, implied_references, literal

_PRIMES = (7, 11, 13, 17, 19, 23)
_PAST = ("birth", "born", "dob", "publish", "acquir", "found", "hire")
_OTHER_ROW = "(SELECT o.{0} FROM t o WHERE o.n = 1 + (t.n * 7) % (SELECT count(*) FROM t))"


class CreationRequests(Requester):
    """Requests for new rows."""

    def requests(self, table: Table) -> Iterator[Request]:
        """Yield the requests for new rows of a table."""
        creation = self.box.create.get(table.name)
        if creation is None:
            return
        yield self._creation(table, creation, by_name=False)
        if any(self._named_target(table, name) for name in creation.required):
            yield self._creation(table, creation, by_name=True)
        for name in creation.required:
            if table.columns[name].references and (handle := self._handle(self._target(table, name), "owner")):
                yield from self._refused(table, name, handle)
        yield from self._refused_as_taken(table, creation)

    def _target(self, table: Table, name: str) -> Table:
        return self.tables[table.columns[name].target[0]]

    def _named_target(self, table: Table, name: str) -> Handle | None:
        if table.columns[name].references is None:
            return None
        return self._handle(self._target(table, name), snake_case(f"{name.removesuffix('_id')}_name"))

    def _creation(self, table: Table, creation: Creation, *, by_name: bool) -> Request:
        """Make a row like an existing one, for rows that are known by id or by name."""
        order = ", ".join(f"x.{bare(part)}" for part in table.key)
        ctes = [f"t AS (SELECT x.*, row_number() OVER (ORDER BY {order}) AS n FROM {bare(table.name)} x)"]
        joins = ""
        parts = Parts()
        details: list[str] = []
        for i, name in enumerate(creation.required):
            column = table.columns[name]
            if column.references is None:
                details.append(self._detail(table, column, parts))
                continue
            paired = name in table.paired  # it refers together with others: all are taken from the row like it
            sources, join = ([], "") if paired else self._source(table, creation.required, i)
            ctes += sources
            joins += join
            parent, to = self._target(table, name), column.target[1]
            stem = in_words(name.removesuffix("_id"))
            role = "" if stem == in_words(parent.one) else f" as {stem}"
            if by_name and not paired and (handle := self._named_target(table, name)):
                parts.add_name(name, to, handle, f"p{i}", role)
            else:
                parts.add_binding(name, f"t.{bare(name)}" if paired else f"p{i}.{bare(to)}", name)
                parts.phrases.append(f"{in_words(parent.one)} {{{name}}}{role}")
        owners, values = listed(parts.phrases), listed(details)
        return self._request(
            f"{'add' if table.is_link else 'create'}_{table.one}{'_by_name' if by_name else ''}",
            "create",
            table,
            [*parts.steps, ReferenceCallSpec(call=creation.tool, arguments=parts.arguments)],
            by_name=" for rows known by name" if by_name else "",
            ctes=", ".join(ctes),
            columns=", ".join(parts.columns),
            joins=joins,
            add="add" if table.is_link else "make",
            details=", ".join(f"{word} {text}" for word, text in (("for", owners), ("with", values)) if text),
            tail=", ".join(filter(None, (owners, values))),
        )

    def _source(self, table: Table, required: list[str], i: int) -> tuple[list[str], str]:
        """Return the common table expression and the JOIN that give the row to which a required column refers."""
        name = required[i]
        target, to = table.columns[name].target
        via, far = implied_references(table, self.tables).get(name, ("", ""))
        if via in required[:i]:
            return [], f" JOIN {bare(target)} p{i} ON p{i}.{bare(to)} = p{required.index(via)}.{bare(far)}"
        pool = f"SELECT *, row_number() OVER (ORDER BY {bare(to)}) - 1 AS pos FROM {bare(target)} q"
        position = f"(t.n * {_PRIMES[i % len(_PRIMES)]}) % (SELECT count(*) FROM c{i})"
        return [f"c{i} AS ({pool} WHERE {self._eligible(table, name)})"], f" JOIN c{i} p{i} ON p{i}.pos = {position}"

    def _eligible(self, table: Table, name: str) -> str:
        """Return the SQL condition under which the row ``q`` may be what a new row refers to."""
        key = bare(table.columns[name].target[1])
        conditions = ["1"]
        if (table.name, name) in self.box.trusted:
            state, good = self.box.trusted[table.name, name]
            conditions.append(f"q.{bare(state)} = {literal(good)}")
        used = f"q.{key} NOT IN (SELECT {bare(name)} FROM {bare(table.name)} WHERE "
        if (table.name, name) in self.box.exclusive:
            conditions.append(f"{used}{self.box.lifecycles[table.name].open} AND {bare(name)} IS NOT NULL)")
        if table.columns[name].unique:
            conditions.append(f"{used}{bare(name)} IS NOT NULL)")
        return " AND ".join(conditions)

    def _detail(self, table: Table, column: Column, parts: Parts) -> str:
        """Return what an instruction says of a value of a new row, which becomes a binding and an argument."""
        name = column.name
        if column.kind == "flag":
            cell = f"t.{bare(name)}"
            parts.columns += [f"NOT {cell} AS {name}", f"iif({cell}, 'yes', 'no') AS {name}_in_words"]
            parts.arguments[name] = f"!${name}"
            return f"{column.words} {{{name}_in_words}}"
        parts.add_binding(name, self._new_value(table, column), name)
        shown = f"{{{name}:date}}" if column.is_date else f"{{{name}}}"
        quoted = column.kind == "note" or (column.kind in ("text", "key") and name.endswith("title"))
        if quoted and column.type == "TEXT" and "name" not in name:
            shown = f'"{shown}"'
        return f"{in_words(name) if name in table.key else column.words} {shown}"

    def _new_value(self, table: Table, column: Column) -> str:
        """Return the SQL of a plausible value for a new row, from the row ``t`` that it is like."""
        cell = f"t.{bare(column.name)}"
        if column.is_date:
            return self._new_date(table, column, cell)
        if column.name in table.paired:
            return cell  # of the same row as the columns with which it refers
        present = table.present(column.name)
        if column.name in table.key and len(table.key) > 1 and not column.unique:
            return self._new_part(table, column, cell)
        unique = column.unique or column.name in table.key
        if unique or any(column.name in natural.columns for natural in table.naturals):
            return _new_name(table, column, cell, present, unique)
        return cell if not column.nullable else f"coalesce({cell}, {literal(present[0] if present else '')})"

    def _new_part(self, table: Table, column: Column, cell: str) -> str:
        """Return the SQL of a part of a key of several columns: the last number among them counts on."""
        numbers = [p for p in table.key if table.columns[p].type == "INTEGER" and not table.columns[p].references]
        if not numbers:
            return _new_name(table, column, cell, table.present(column.name), unique=True)
        if column.name != numbers[-1]:
            return cell
        creation = self.box.create[table.name]
        others = [part for part in table.key if part != column.name]
        chosen = {p: f"p{creation.required.index(p)}.{bare(table.columns[p].target[1])}"
                  for p in others if table.columns[p].references and p not in table.paired}  # fmt: skip
        same = " AND ".join(f"o.{bare(part)} = {chosen.get(part, f't.{bare(part)}')}" for part in others)
        return f"(SELECT coalesce(max(o.{bare(column.name)}), 0) + 1 FROM {bare(table.name)} o WHERE {same})"

    def _new_date(self, table: Table, column: Column, cell: str) -> str:
        """Return the SQL of a date as long after today as the row's own is after its beginning, if there is one."""
        days = [c for c in table.columns.values() if c.is_date and c is not column and c.required]
        before = next((c for c in days if _never_after(table, c, column)), None)
        creation = self.box.create[table.name]
        if before is not None and before.name not in (*creation.required, *creation.optional):
            gap = f"CAST(julianday({cell}) - julianday(t.{bare(before.name)}) AS INTEGER)"
            return f"date(:today, '+' || {gap} || ' days')"
        latest = max((str(value)[:10] for value in table.present(column.name)), default="")
        ahead = not any(word in column.name for word in _PAST) and latest > self.box.today
        return "date(:today, '+' || (1 + t.n * 7 % 60) || ' days')" if ahead else f"substr({cell}, 1, 10)"

    def _refused(self, table: Table, name: str, handle: Handle) -> Iterator[Request]:
        """Refuse a new row for another that is not in a good state, or that has an open one already."""
        target, to = table.columns[name].target
        values: dict[str, Any] = {"handle": handle, "row_name": handle.sql("p"), "target": target, "to": to}
        if (table.name, name) in self.box.trusted:
            state, good = self.box.trusted[table.name, name]
            intent = f"create_{table.one}_refused_{state}"
            yield self._request(intent, "create_refused_state", table, [handle.call], state=state, good=good, **values)
        listing, life = self.box.listing.get((table.name, name)), self.box.lifecycles.get(table.name)
        if (table.name, name) not in self.box.exclusive or life is None or listing is None:
            return
        after, before = self._ended_and_open(table, life, life.endings[0])
        if column := before or after:
            arguments = {name: handle.value(to), **life.open_arguments}
            yield self._request(
                f"create_{table.one}_refused_{in_words(name.removesuffix('_id')).replace(' ', '_')}",
                "create_refused_open",
                table,
                [handle.call, ReferenceCallSpec(call=listing, arguments=arguments)],
                name=name,
                column=column,
                opened=life.opened("t"),
                **values,
            )

    def _refused_as_taken(self, table: Table, creation: Creation) -> Iterator[Request]:
        """Refuse a new row with a unique value that another row has."""
        unique = next((n.name for n in table.naturals if n.columns == (n.name,) and table.columns[n.name].unique), None)
        column = next((column for column in self._answer_columns(table) if not column.nullable), None)
        if column and unique in creation.required:
            find = self.box.find[table.name, unique]
            values = {"name": unique, "column": column, "find": find}
            yield self._request(f"create_{table.one}_refused_{unique}", "create_refused_unique", table, **values)


def _new_name(table: Table, column: Column, cell: str, present: list[Any], unique: bool) -> str:
    """Return the SQL of a value that no row has: counted on, mixed from two rows, or with a number behind it."""
    name, other = column.name, _OTHER_ROW.format(bare(column.name))
    if "email" in name:
        return f"'new' || t.n || '.' || {cell}"
    if column.type == "INTEGER":
        return f"(SELECT max({bare(name)}) FROM {bare(table.name)}) + t.n"
    if unique and (serial := _serial(present)):
        prefix, width, highest = serial
        return f"{literal(prefix)} || printf('%0{width}d', {highest} + t.n * 3)"
    parts = next((n.columns for n in table.naturals if len(n.columns) > 1 and name in n.columns), None)
    if parts is not None and not column.unique:
        return cell if name == parts[0] else other
    if name.endswith("name") and is_person(table):
        return f"substr({cell} || ' ', 1, instr({cell} || ' ', ' ')) || substr({other}, instr({other}, ' ') + 1)"
    gap = " " if any(" " in str(value) for value in present) else "-"
    return f"{cell} || '{gap}' || (1 + t.n)"


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


def _never_after(table: Table, first: Column, second: Column) -> bool:
    """Whether no row has the date `first` after the date `second`."""
    pairs = zip(table.data[first.name], table.data[second.name], strict=True)
    return all(a <= b for a, b in pairs if a is not None and b is not None)
