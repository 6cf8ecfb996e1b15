"""Write tools: create, change and end a row, and remove a link between rows."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolorchestra.toolscale.database.format import GuardSpec
from toolorchestra.toolscale.requests.naming import an, in_words
from toolorchestra.toolscale.synth.derived.tool_base import ToolMaker, same
from toolorchestra.toolscale.synth.derived.toolbox import Creation, Lifecycle, dated
from toolorchestra.toolscale.synth.tables.tables import Column, Table, bare, default_state, literal, numbered

MAX_UPDATES = 2
"""Columns of a table with names that have a tool to change them; of other tables, one has."""

_TODAY = re.compile(
    r"^(?:date|(?:last_?)?(?:updat|modif|chang|edit)\w*?"
    r"|(?:creat|register|join|add|plac|open|issu|logg|loan|borrow|reserv|order|acquir|request|submitt|report|book|hir"
    r"|enroll|post|record|rent|purchas|paid|pay|loan|invoic|rental|payment|transaction|admission|visit|signup|start)\w*?"
    r"(?:_(?:at|on|date|time|day))?)$"
)


class WriteTools(ToolMaker):
    """Tools that change rows; their guards enforce the rules."""

    def tools(self, table: Table) -> None:
        """Derive what changes rows of a table."""
        life = self.box.lifecycles.get(table.name)
        self._create(table, life)
        self._update(table, life)
        self._end(table, life)
        referred = any(column.target[0] == table.name for t in self.tables.values() for column in t.references)
        if table.is_link and not referred:
            self.box.remove[table.name] = self._tool("remove", table, self._keys(table), [self._exists(table)])

    def _create(self, table: Table, life: Lifecycle | None) -> None:
        cells: dict[str, str] = {}
        required: list[str] = []
        optional: list[str] = []
        for column in table.columns.values():
            name = column.name
            if name in table.key and table.generated:
                cells[name] = self._next_key(table)
                continue
            fixed = None if name in table.key else self._fixed(table, column, life)
            if fixed is not None:
                cells[name] = fixed
                if ":today" in fixed:
                    self._rule(f"The {column.words} of a new {in_words(table.one)} is today.")
            elif column.required or name in table.key:
                required.append(name)
            elif len(optional) < 3:
                optional.append(name)
            if fixed is None and name in (*required, *optional):
                cells[name] = dated(column, f":{name}")
        for composite in table.composites:  # of several columns all are given, or none
            if not {*required, *optional}.issuperset(composite.columns):
                for name in set(composite.columns) & set(optional):
                    optional.remove(name)
                    del cells[name]
        if not required or len(required) > 8:
            self._rules.clear()
            return
        parameters = {n: self.parameter(table, table.columns[n]) for n in required}
        parameters |= {n: self.parameter(table, table.columns[n], required=False) for n in optional}
        guards = self._creation_guards(table, required, optional, cells, life)
        if not table.generated:
            parts = " and ".join(map(in_words, table.key))
            self._rule(f"No two {in_words(table.many)} share {parts}.")
        tool = self._tool(
            "create_with_key" if table.generated else "create",
            table,
            parameters,
            guards,
            verb="add" if table.is_link else "create",
            what=f"Add {an(in_words(table.one))}" if table.is_link else f"Make a new {in_words(table.one)}",
            columns=", ".join(map(bare, cells)),
            cells=", ".join(cells.values()),
        )
        self.box.create[table.name] = Creation(tool, required, optional)

    def _fixed(self, table: Table, column: Column, life: Lifecycle | None) -> str | None:
        """Return the SQL of what every new row has in a column, or None if its caller gives it."""
        if life is not None and column.name in life.columns - {life.status}:
            return "NULL"
        if column is table.status and (begins := default_state(column)) is not None:
            return literal(begins)
        shared = column.is_plain and not column.unique
        if column.is_date and column.required and shared and _TODAY.search(column.name):
            return dated(column, ":today")
        if (column.is_number or column.kind == "flag") and column.default and re.fullmatch(r"\d{1,6}", column.default):
            return column.default
        if column.kind == "json":
            return "NULL" if column.nullable else literal("[]" if str(table.data[column.name][0])[0] == "[" else "{}")
        return None

    def _next_key(self, table: Table) -> str:
        prefix, width = numbered(table) or ("", 0)
        key = bare(table.key[0])
        if table.columns[table.key[0]].type == "INTEGER":
            return f"coalesce(max({key}), 0) + 1"
        number = f"coalesce(max(CAST(substr({key}, {len(prefix) + 1}) AS INTEGER)), 0) + 1"
        return f"{literal(prefix)} || printf('%0{width}d', {number})"

    def _creation_guards(
        self, table: Table, required: list[str], optional: list[str], cells: Mapping[str, str], life: Lifecycle | None
    ) -> list[GuardSpec]:
        """Return the guards of a new row."""
        guards: list[GuardSpec] = []
        given = [*required, *optional]
        for name in given:
            column = table.columns[name]
            if column.references:
                guards.append(self._refers(table, column, optional=name in optional))
            if column.traits.check:
                guards.append(self._fits(table, column, optional=name in optional))
            elif column.is_text and not column.references and name in required:
                guards.append(self._guard("given", table, name=name, label=in_words(name)))
        for composite in table.composites:
            if set(composite.columns) <= {*given}:
                guards.append(self._refers(table, composite, optional=set(composite.columns) <= set(optional)))
        guards += self._uniqueness_guards(table, given)
        for name in required:
            if table.columns[name].references:
                guards += self._standing_guards(table, name, life)
        known = {name: f"({cell})" for name, cell in cells.items() if name not in table.key or not table.generated}
        for tokens in table.checks:
            names = _column_names(table, tokens)
            by_parameter = len(tokens) > 2 and tokens[1] == "IN" and table.columns[names[0]].kind == "category"
            if names and not by_parameter and all(name in known for name in names):
                plain = _plain(table, tokens)
                guards.append(self._guard("check", table, plain=plain, condition=_holds(tokens, known)))
                self._rule(f"Of every {in_words(table.one)}: {plain}.")
        return guards

    def _fits(self, table: Table, column: Column, *, optional: bool = False) -> GuardSpec:
        """Return the guard that a value is a date or a time, as its column has."""
        name, what = column.name, "date" if column.is_date else "time"
        checked = (f":{name} IS NULL OR " if optional else "") + column.traits.check.format(f":{name}")
        return self._guard("fits", table, name=name, checked=checked, what=what)

    def _uniqueness_guards(self, table: Table, given: list[str]) -> list[GuardSpec]:
        """Return the guards that what a new row must not share is free."""
        guards = []
        for column in table.columns.values():
            if column.unique and column.name in given:
                value = dated(column, f":{column.name}")
                guards.append(self._guard("free", table, column=column, value=value))
                self._rule(f"No two {in_words(table.many)} have the same {column.words}.")
        if not table.generated:
            guards.append(self._guard("new_key", table))
        for parts in table.uniques:
            if len(parts) > 1 and parts != table.key and all(part in given for part in parts):
                label = " and ".join(in_words(part.removesuffix("_id")) for part in parts)
                guards.append(self._guard("new_parts", table, label=label, same=same(zip(parts, parts, strict=True))))
        return guards

    def _standing_guards(self, table: Table, name: str, life: Lifecycle | None) -> list[GuardSpec]:
        """Return the guards that what a new row refers to is in a good state, and in no other open row."""
        guards = []
        if (table.name, name) in self.box.trusted:
            state, good = self.box.trusted[table.name, name]
            target, to = table.columns[name].target
            values = {"parent": self.tables[target], "owner": in_words(self.tables[target].one), "to": to}
            guards.append(self._guard("trusted", table, name=name, state=state, good=good, **values))
        if (table.name, name) in self.box.exclusive and life is not None:
            stem = in_words(table.columns[name].stem)
            guards.append(self._guard("exclusive", table, name=name, stem=stem, life=life))
        return guards

    def _update(self, table: Table, life: Lifecycle | None) -> None:
        """Derive the tools that change the columns which are most likely to change."""
        fixed = {*table.key, *table.paired, *(life.columns if life else ())}
        scores = {name: _update_score(table, column) for name, column in table.columns.items() if name not in fixed}
        ranked = sorted((-score, name) for name, score in scores.items() if score)
        for _, name in ranked[: MAX_UPDATES if table.naturals else 1]:
            self._update_one(table, table.columns[name], life)

    def _update_one(self, table: Table, column: Column, life: Lifecycle | None) -> None:
        name, value = column.name, dated(column, f":{column.name}")
        guards = [self._exists(table)]
        if column.traits.check:
            guards.append(self._fits(table, column))
        if column.is_date and life is not None:
            guards.append(self._guard("open", table, life=life))
            rule = f"The {column.words} of {an(in_words(table.one))} can be changed only while {life.words}."
            self._rule(rule)
        if column.unique:
            guards.append(self._guard("free", table, column=column, value=value))
        if column.is_text and not column.traits.check:
            guards.append(self._guard("given", table, name=name, label=column.words))
        for tokens in table.checks:
            if name in _column_names(table, tokens) and not (len(tokens) > 2 and tokens[1] == "IN"):
                holds = _holds(tokens, {name: value})
                guards.append(self._guard("check_of_row", table, plain=_plain(table, tokens), condition=holds))
        words = f"new {column.words}{column.traits.hint}"
        parameters = self._keys(table) | {name: self.parameter(table, column, words)}
        stem = name.removeprefix(f"{table.one}_")
        self.box.update[table.name, name] = self._tool(
            "update", table, parameters, guards, column=column, value=value, stem=stem
        )

    def _end(self, table: Table, life: Lifecycle | None) -> None:
        if life is None:
            return
        for ending in life.endings:
            changes = []
            guards = [self._exists(table), self._guard("open", table, life=life)]
            if ending.state is not None:
                assert life.status is not None
                changes.append(f"{bare(life.status)} = {literal(ending.state)}")
                guards.append(self._guard("other_state", table, life=life, ending=ending))
            if ending.dated is not None:
                changes.append(f"{bare(ending.dated)} = {dated(table.columns[ending.dated], ':today')}")
            what = f"{in_words(ending.verb).capitalize()} {an(in_words(table.one))}"
            self._rule(f"{what} only while {life.words}.")
            self.box.ending[table.name, ending.verb] = self._tool(
                "end", table, self._keys(table), guards, ending=ending, changes=", ".join(changes)
            )


def _column_names(table: Table, tokens: list[str]) -> list[str]:
    """Return the columns that a CHECK is about."""
    return [name for token in tokens if (name := token.strip('"')) in table.columns and token[0] != "'"]


def _holds(tokens: list[str], values: Mapping[str, str]) -> str:
    """Return the SQL of a CHECK with values in place of columns; what is unknown holds."""
    condition = " ".join(token if token[0] == "'" else values.get(token.strip('"'), token) for token in tokens)
    return f"coalesce(({condition}), 1)"


def _plain(table: Table, tokens: list[str]) -> str:
    """Return a CHECK as a person reads it."""
    names = {name: column.words for name, column in table.columns.items()}
    return " ".join(names.get(token.strip('"'), token.lower()) for token in tokens)


def _update_score(table: Table, column: Column) -> int:
    """Return how likely a column is to be changed: 0 is never."""
    if column is table.status:
        return 6
    kind = column.traits
    if not column.is_plain or (kind.shape in ("date", "datetime", "number") and not column.required):
        return 0
    return kind.change if re.search(kind.change_named, column.name) else 0
