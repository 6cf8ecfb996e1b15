"""Requests that change rows: end, update, link, make and unlink them, and those that a rule forbids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolorchestra.toolscale.requests.naming import in_words, snake_case, word_lists
from toolorchestra.toolscale.synth.derived.request_parts import (
    Handle,
    OwnedRows,
    Parts,
    Request,
    Requester,
    joins,
    listed,
    row_key,
)
from toolorchestra.toolscale.synth.derived.toolbox import Creation, Ending, Lifecycle
from toolorchestra.toolscale.synth.tables.fresh_values import fresh_names, fresh_values, times_of_day
from toolorchestra.toolscale.synth.tables.tables import Column, Table, bare, implied_references, label_rank, literal

_REMARK = re.compile("note|comment|remark|reason|details|description|summary|memo")
_PRIMES = (7, 11, 13, 17, 19, 23)
_PAST = ("birth", "born", "dob", "publish", "acquir", "found", "hire")


class WriteRequests(Requester):
    """Requests that change something, or must be refused."""

    def about(self, table: Table) -> Iterator[Request]:
        """Yield the changes of a table's rows, and the requests for new ones."""
        if table.name in self.box.get:
            yield from self._endings(table)
        for (name, column), tool in self.box.update.items():
            if name == table.name and (value := self._changed(table, table.columns[column])):
                yield self._update(table, table.columns[column], tool, value)
        if tool := self.box.remove.get(table.name, ""):
            yield self._removal(table, tool)
        if creation := self.box.create.get(table.name):
            yield from self._creations(table, creation)

    # ------------------------------------------------------------------------------------------- rows that there are

    def _ending(self, table: Table, life: Lifecycle, ending: Ending, alias: str = "") -> dict[str, Any]:
        """Return what all requests say that end a row."""
        values = {"life": life, "ending": ending, "verb": in_words(ending.verb)}
        return values | {"endable": life.endable(ending, alias), "tool": self.box.ending[table.name, ending.verb]}

    def _endings(self, table: Table) -> Iterator[Request]:
        """End a row; refuse where it has ended already; end it only if it is open."""
        life = self.box.lifecycles.get(table.name)
        for ending in life.endings if life else ():
            assert life is not None
            after, before = self._ended_and_open(table, life, ending)
            values = self._ending(table, life, ending) | {"after": after, "before": before}
            yield self._request("end", table, **values)
            if after:
                yield self._request("end_refused", table, **values)
            if after and before:
                yield self._request("end_if_open", table, **values)

    def _changed(self, table: Table, column: Column) -> str | None:
        """Return the SQL of another value for a column of the row ``t``, or None if there is none that makes sense."""
        name, own, key = bare(column.name), bare(table.name), bare(table.key[0])
        cell = f"t.{name}"
        number = "row_number() OVER (ORDER BY " + ", ".join(f"t.{bare(part)}" for part in table.key) + ")"
        if column.unique or column.traits.renewed:
            return _one_of(fresh_values(table, column), number)
        if column.is_date:
            return f"date({cell}, '+' || (7 * (1 + {number} % 3)) || ' days')"
        if column.kind == "category" and len(column.choices) > 1:
            after = [*column.choices[1:], column.choices[0]]
            cases = " ".join(f"WHEN {literal(a)} THEN {literal(b)}" for a, b in zip(column.choices, after, strict=True))
            return f"CASE {cell} {cases} END"
        if column.kind == "flag":
            return cell  # the call gives the opposite
        if column.kind == "note" and _REMARK.search(column.name):
            return f"'Checked, see file ' || (100 + {number})"
        other = f"o.{key} > t.{key} AND o.{name} <> {cell}"
        return f"(SELECT o.{name} FROM {own} o WHERE {other} ORDER BY o.{key} LIMIT 1)"

    def _update(self, table: Table, column: Column, tool: str, value: str) -> Request:
        """Change a column of a row that is known by its name, or else by its key, to the `value` that SQL gives."""
        life, flag = self.box.lifecycles.get(table.name), column.kind == "flag"
        given = "!$value" if flag else "$value"
        values = {
            "tool": tool,
            "column": column,
            "value": value,
            "opposite": f", iif(t.{bare(column.name)}, 'no', 'yes') AS opposite" if flag else "",
            "shown": "{opposite}" if flag else '"{value}"' if column.kind == "note" else f"{{value{column.format}}}",
            "condition": f"AND {life.open}" if life and column.is_date else "",
        }
        handles = self._handles(table, "name", "t")
        if handle := next((one for one in handles if column.name not in one.natural.columns), None):
            arguments = handle.keys | {column.name: given}
            return self._request("update_by_name", table, handle=handle, arguments=arguments, **values)
        return self._request("update", table, arguments=row_key(table).arguments | {column.name: given}, **values)

    def _removal(self, table: Table, tool: str) -> Request:
        """Remove a row that ties others together, which are named."""
        parts, joined = Parts(), ""
        for i, part in enumerate(table.key):
            link = table.columns[part]
            target, to = link.target
            joined += joins([link], ["t", f"p{i}"])
            if handle := self._handle(self.tables[target], f"name_{i}", f"p{i}"):
                parts.add_name(link.name, to, handle)
            else:
                parts.add_binding(link.name, f"t.{bare(link.name)}", f"id_{i}")
                parts.phrases.append(f"{in_words(self.tables[target].one)} {{id_{i}}}")
        values = {"columns": ", ".join(parts.columns), "pair": listed(parts.phrases)}
        return self._request("remove", table, tool=tool, parts=parts, joins=joined, **values)

    def of_owner(self, rows: OwnedRows) -> Iterator[Request]:
        """Change all rows that belong to one: move a date of every open one; end the only, every or one open one.

        The one is that with the highest amount or the latest date.
        """
        table, life = rows.table, rows.life
        if life is None:
            return
        updates = (
            (table.columns[column], tool) for (name, column), tool in self.box.update.items() if name == table.name
        )
        for column, tool in updates:
            if column.kind == "date":
                yield self._request("postpone_all", table, column=column, tool=tool, **rows.values)
                break
        values = self._ending(table, life, life.endings[0], "t") | rows.values
        yield self._request("end_only", table, **values)
        yield self._request("end_all", table, **values)
        for column in table.columns.values():
            extreme = {"money": "highest", "price": "highest", "date": "latest"}.get(column.kind)
            if extreme and column.can_be_compared and column.name not in life.columns and not column.nullable:
                yield self._request("end_extreme", table, column=column, extreme=extreme, **values)
                return

    # ------------------------------------------------------------------------------------------------------ new rows

    def _creations(self, table: Table, creation: Creation) -> Iterator[Request]:
        """Make a row, for rows that are known by id or by name, and ask for one that a rule forbids."""
        references = [name for name in creation.required if table.columns[name].references]
        plain = (table.columns[name] for name in creation.required if name not in references)
        new = {column.name: value for column in plain if (value := self._new_value(table, column))}
        if len(new) + len(references) == len(creation.required):
            yield self._creation(table, creation, new, by_name=False)
            if any(self._named_target(table, name, "") for name in references):
                yield self._creation(table, creation, new, by_name=True)
        for name in references:
            if handle := self._handle(self._target(table, name), "owner", "p"):
                yield from self._refused(table, name, handle)
        unique = next((n.name for n in table.naturals if n.columns == (n.name,) and table.columns[n.name].unique), None)
        column = next((column for column in self._answer_columns(table) if not column.nullable), None)
        if column and unique in creation.required:
            find = self.box.find[table.name, unique]
            yield self._request("create_refused_unique", table, name=unique, column=column, find=find)

    def _target(self, table: Table, name: str) -> Table:
        return self.tables[table.columns[name].target[0]]

    def _named_target(self, table: Table, name: str, alias: str) -> Handle | None:
        return self._handle(self._target(table, name), snake_case(f"{name.removesuffix('_id')}_name"), alias)

    def _creation(self, table: Table, creation: Creation, new: Mapping[str, str], *, by_name: bool) -> Request:
        """Make a row like an existing one, with `new` values, for rows that are known by id or by name."""
        order = ", ".join(f"x.{bare(part)}" for part in table.key)
        ctes = [f"t AS (SELECT x.*, row_number() OVER (ORDER BY {order}) AS n FROM {bare(table.name)} x)"]
        joined = ""
        parts = Parts()
        details: list[str] = []
        for i, name in enumerate(creation.required):
            column = table.columns[name]
            if column.references is None:
                details.append(_detail(table, column, new[name], parts))
                continue
            paired = name in table.paired  # it refers together with others: all are taken from the row like it
            sources, join = ([], "") if paired else self._source(table, creation.required, i)
            ctes += sources
            joined += join
            parent, to = self._target(table, name), column.target[1]
            stem = in_words(column.stem)
            role = "" if stem == in_words(parent.one) else f" as {stem}"
            if by_name and not paired and (handle := self._named_target(table, name, f"p{i}")):
                parts.add_name(name, to, handle, role)
            else:
                parts.add_binding(name, f"t.{bare(name)}" if paired else f"p{i}.{bare(to)}", name)
                parts.phrases.append(f"{in_words(parent.one)} {{{name}}}{role}")
        owners, values = listed(parts.phrases), listed(details)
        return self._request(
            "create",
            table,
            creation=creation,
            parts=parts,
            kind="add" if table.is_link else "create",
            suffix="_by_name" if by_name else "",
            by_name=" for rows known by name" if by_name else "",
            ctes=", ".join(ctes),
            columns=", ".join(parts.columns),
            joins=joined,
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

    def _new_value(self, table: Table, column: Column) -> str | None:
        """Return the SQL of a plausible value for a new row, from the row ``t`` that it is like; None if none is."""
        name, cell = column.name, f"t.{bare(column.name)}"
        if name in table.paired:
            return cell  # of the same row as the columns with which it refers
        if column.in_key and len(table.key) > 1 and not column.unique:
            return self._new_part(table, column)
        natural = next((one.columns for one in table.naturals if name in one.columns), ())
        if len(natural) > 1 and not column.unique:
            return _one_of([pair[natural.index(name)] for pair in fresh_names(table, natural)], "t.n")
        present = table.present(name)
        names = column.is_text and label_rank(name) < len(word_lists().labels) and len(set(present)) == len(present)
        if column.unique or column.in_key or natural or names:
            return _one_of(fresh_values(table, column), "t.n")
        if column.is_date:
            return self._new_date(table, column, cell)
        return cell if not column.nullable else f"coalesce({cell}, {literal(present[0] if present else '')})"

    def _new_part(self, table: Table, column: Column) -> str | None:
        """Return the SQL of a part of a new row's key of several columns: one part is new, the others are as they are.

        The new one is the last number, which counts on, or else the last part: one that no row with the others has.
        """
        own = [part for part in table.key if table.columns[part].references is None and part not in table.paired]
        numbers = [part for part in own if table.columns[part].type == "INTEGER"]
        if column.name != [*own, *numbers][-1]:
            return f"t.{bare(column.name)}"
        required = self.box.create[table.name].required
        same = ""
        for part in table.key:
            chosen = table.columns[part].references and part not in table.paired
            source = f"p{required.index(part)}.{bare(table.columns[part].target[1])}" if chosen else f"t.{bare(part)}"
            same += f" AND o.{bare(part)} = {source}" if part != column.name else ""
        cell, rows = f"o.{bare(column.name)}", f"FROM {bare(table.name)} o WHERE"
        if numbers:
            return f"(SELECT coalesce(max({cell}), 0) + 1 {rows} 1{same})"
        free, present = fresh_values(table, column), table.present(column.name)
        if column.kind == "time":
            free = [time for time in times_of_day(column, present) if time <= max(present)]
        elif not column.is_date:  # the parts of other rows will do
            free = [*dict.fromkeys(present), *free][:60]
        among = (
            f"SELECT g.value, (g.key + t.n) % {len(free) or 1} AS place FROM json_each({literal(json.dumps(free))}) g"
        )
        among += f" WHERE NOT EXISTS (SELECT 1 {rows} {cell} = g.value{same})"
        return f"(SELECT value FROM ({among}) ORDER BY place LIMIT 1)" if free else None

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
        values: dict[str, Any] = {"handle": handle, "target": target, "to": to}
        if (table.name, name) in self.box.trusted:
            state, good = self.box.trusted[table.name, name]
            yield self._request("create_refused_state", table, state=state, good=good, **values)
        listing, life = self.box.listing.get((table.name, name)), self.box.lifecycles.get(table.name)
        if (table.name, name) not in self.box.exclusive or life is None or listing is None:
            return
        after, before = self._ended_and_open(table, life, life.endings[0])
        if column := before or after:
            values |= {"column": column, "listing": listing, "opened": life.opened("t"), "name": name}
            values["arguments"] = {name: handle.value(to), **life.open_arguments}
            stem = table.columns[name].stem
            yield self._request("create_refused_open", table, stem=stem, **values)


def _detail(table: Table, column: Column, value: str, parts: Parts) -> str:
    """Return what an instruction says of a value of a new row, which becomes a binding and an argument."""
    name = column.name
    if column.kind == "flag":
        cell = f"t.{bare(name)}"
        parts.columns += [f"NOT {cell} AS {name}", f"iif({cell}, 'yes', 'no') AS {name}_in_words"]
        parts.arguments[name] = f"!${name}"
        return f"{column.words} {{{name}_in_words}}"
    parts.add_binding(name, value, name)
    shown = f"{{{name}:date}}" if column.traits.format == "date" else f"{{{name}}}"
    if column.kind == "note" or (column.is_text and name.endswith("title")):
        shown = f'"{shown}"'
    return f"{column.words} {shown}"


def _one_of(values: Sequence[Any], number: str) -> str | None:
    """Return the SQL of one of some values, by the number of the row from 1, or None if there are none."""
    items = literal(json.dumps(values, ensure_ascii=False))
    return f"({items} ->> (({number} - 1) % {len(values)}))" if values else None


def _never_after(table: Table, first: Column, second: Column) -> bool:
    """Whether no row has the date `first` after the date `second`."""
    pairs = zip(table.data[first.name], table.data[second.name], strict=True)
    return all(a <= b for a, b in pairs if a is not None and b is not None)
