"""Tools that write: make a row, change it, end it, and untie what a row tied together."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolorchestra.toolscale.format import GuardSpec, ReturnsSpec, StatementSpec, ToolSpec
from toolorchestra.toolscale.synth.derived_tools import Creation, Lifecycle, dated
from toolorchestra.toolscale.synth.naming import an, in_words
from toolorchestra.toolscale.synth.tables import Column, Table, bare, default_state, literal, numbered
from toolorchestra.toolscale.synth.tool_base import WRITE, ToolMaker

MAX_UPDATES = 2
"""Columns of a table with names that have a tool to change them; of other tables, one has."""

_TODAY = re.compile(
    r"^(?:date|(?:creat|register|join|add|plac|open|issu|logg|loan|borrow|reserv|order|acquir|request|submitt|report|book|hir"
    r"|enroll|post|record|rent|purchas|paid|pay|loan|invoic|rental|payment|transaction|admission|visit|signup|start)\w*?"
    r"(?:_(?:at|on|date|time|day))?)$"
)
_AHEAD = re.compile(
    r"due|expir|until|end|held|scheduled|start|appointment|deadline|valid|deliver|arriv|depart|check|event"
)
_STOCK = re.compile(r"stock|quantity|capacity|seats|level|units|hours|limit|points|credits")
_CONTACT = re.compile(r"email|phone|address|mobile|contact")


class WriteTools(ToolMaker):
    """Tools that change rows; their guards enforce the rules, which they add to the box."""

    def tools(self, table: Table) -> None:
        """Derive what changes rows of a table."""
        self._create(table)
        self._update(table)
        self._end(table)
        referred = any(
            c.references[0] == table.name for t in self.tables.values() for c in t.references if c.references
        )
        if table.is_link and not referred:
            self._remove(table)

    def _create(self, table: Table) -> None:
        life = self.box.lifecycles.get(table.name)
        values: dict[str, str] = {}
        required: list[str] = []
        optional: list[str] = []
        for column in table.columns.values():
            name = column.name
            if name in table.key and table.generated:
                values[name] = self._next_key(table)
                continue
            fixed = None if name in table.key else self._fixed(table, column, life)
            if fixed is not None:
                values[name] = fixed
                if ":today" in fixed:
                    self.box.rules.append(f"The {column.words} of a new {in_words(table.one)} is today.")
            elif column.required or name in table.key:
                required.append(name)
                values[name] = dated(column, f":{name}")
            elif len(optional) < 3:
                optional.append(name)
                values[name] = dated(column, f":{name}")
        if not required or len(required) > 8:
            return
        parameters = {n: self.parameter(table, table.columns[n]) for n in required}
        parameters |= {n: self.parameter(table, table.columns[n], required=False) for n in optional}
        guards = self._creation_guards(table, required, optional, values, life)
        columns = ", ".join(map(bare, values))
        cells = ", ".join(values.values())
        if table.generated:
            insert: str | StatementSpec = StatementSpec(
                sql=f"INSERT INTO {bare(table.name)} ({columns}) SELECT {cells} FROM {bare(table.name)} "
                f"RETURNING {bare(table.key[0])}",
                save="made",
            )
            where = f"{bare(table.key[0])} = :made"
        else:
            insert = f"INSERT INTO {bare(table.name)} ({columns}) VALUES ({cells})"
            where = self._where(table)
            self.box.rules.append(
                f"No two {in_words(table.many)} share {' and '.join(in_words(p) for p in table.key)}."
            )
        shown = ", ".join(bare(c.name) for c in table.columns.values() if c.kind not in ("note", "json"))
        tool = self._add(
            f"{'add' if table.is_link else 'create'}_{table.one}",
            ToolSpec(
                description=f"Make a new {in_words(table.one)}."
                if not table.is_link
                else f"Add {an(in_words(table.one))}.",
                parameters=parameters,
                guards=guards,
                statements=[insert],
                returns=ReturnsSpec(shape="row", sql=f"SELECT {shown} FROM {bare(table.name)} WHERE {where}"),
                **WRITE,
            ),
        )
        self.box.create[table.name] = Creation(tool, required, optional)

    def _fixed(self, table: Table, column: Column, life: Lifecycle | None) -> str | None:
        """Return the SQL of what a new row has in a column whatever its maker says, or None."""
        if life is not None and column.name in (life.status, *(ending.dated for ending in life.endings)):
            if column.name != life.status:
                return "NULL"
            begins = default_state(column)
            return None if begins is None else literal(begins)
        if column is table.status and (begins := default_state(column)) is not None:
            return literal(begins)
        if column.kind in ("date", "datetime") and column.required and _TODAY.search(column.name):
            return dated(column, ":today")
        if column.kind in ("number", "money", "flag") and column.default and re.fullmatch(r"\d{1,6}", column.default):
            return column.default
        if column.kind == "json":
            return "NULL" if column.nullable else literal("[]" if str(table.data[column.name][0])[0] == "[" else "{}")
        return None

    def _next_key(self, table: Table) -> str:
        prefix, width = numbered(table)
        key = bare(table.key[0])
        if table.columns[table.key[0]].type == "INTEGER":
            return f"coalesce(max({key}), 0) + 1"
        number = f"coalesce(max(CAST(substr({key}, {len(prefix) + 1}) AS INTEGER)), 0) + 1"
        return f"{literal(prefix)} || printf('%0{width}d', {number})"

    def _creation_guards(
        self, table: Table, required: list[str], optional: list[str], values: Mapping[str, str], life: Lifecycle | None
    ) -> list[GuardSpec]:
        one, given = in_words(table.one), [*required, *optional]
        guards = []
        for name in given:
            column = table.columns[name]
            if column.references:
                guards.append(self._refers(table, column, optional=name in optional))
            if column.kind in ("date", "datetime"):
                guards.append(self._is_date(name, optional=name in optional))
            if column.type == "TEXT" and column.kind in ("text", "key") and not column.references and name in required:
                guards.append(GuardSpec(require=f"trim(:{name}) <> ''", error=f"The {in_words(name)} is missing."))
        for column in table.columns.values():
            if column.unique and column.name in given:
                guards.append(self._is_free(table, column))
                self.box.rules.append(f"No two {in_words(table.many)} have the same {column.words}.")
        if not table.generated:
            guards.append(
                GuardSpec(
                    require=f"NOT EXISTS (SELECT 1 FROM {bare(table.name)} WHERE {self._where(table)})",
                    error=f"There is such {an(one)} already.",
                )
            )
        for parts in table.uniques:
            if len(parts) > 1 and parts != table.key and all(part in given for part in parts):
                where = " AND ".join(f"{bare(part)} = :{part}" for part in parts)
                words = " and ".join(in_words(part.removesuffix("_id")) for part in parts)
                error = f"There is {an(one)} with this {words} already."
                guards.append(
                    GuardSpec(require=f"NOT EXISTS (SELECT 1 FROM {bare(table.name)} WHERE {where})", error=error)
                )
                self.box.rules.append(f"No two {in_words(table.many)} have the same {words}.")
        for name in required:
            column = table.columns[name]
            if column.references is None:
                continue
            target, to = column.references
            parent = in_words(self.tables[target].one)
            if (table.name, name) in self.box.trusted:
                state, good = self.box.trusted[table.name, name]
                guards.append(
                    GuardSpec(
                        require=f"(SELECT {bare(state)} FROM {bare(target)} WHERE {bare(to)} = :{name}) "
                        f"= {literal(good)}",
                        error=f"The {parent} {{{name}}} is not {good}.",
                    )
                )
                self.box.rules.append(f"Only {an(parent)} whose {in_words(state)} is {good} can have a new {one}.")
            if (table.name, name) in self.box.exclusive and life is not None:
                free = f"SELECT 1 FROM {bare(table.name)} WHERE {bare(name)} = :{name} AND {life.open}"
                word = in_words(name.removesuffix("_id"))
                guards.append(
                    GuardSpec(require=f"NOT EXISTS ({free})", error=f"The {word} {{{name}}} has an open {one} already.")
                )
                self.box.rules.append(f"{an(word).capitalize()} has at most one open {one} at a time.")
        known = {name: cell for name, cell in values.items() if name not in table.key or not table.generated}
        guards += self._check_guards(table, known)
        return guards

    def _is_date(self, name: str, *, optional: bool) -> GuardSpec:
        valid = f"date(:{name}) IS :{name}"
        return GuardSpec(require=f":{name} IS NULL OR {valid}" if optional else valid, error=f"{{{name}}} is no date.")

    def _is_free(self, table: Table, column: Column) -> GuardSpec:
        taken = f"SELECT 1 FROM {bare(table.name)} WHERE {bare(column.name)} = :{column.name}"
        return GuardSpec(
            require=f"NOT EXISTS ({taken})",
            error=f"Another {in_words(table.one)} has the {column.words} {{{column.name}}}.",
        )

    def _check_guards(self, table: Table, values: Mapping[str, str]) -> list[GuardSpec]:
        """Return the CHECKs about these columns, as guards over what they get."""
        guards = []
        for tokens in table.checks:
            names = [token.strip('"') for token in tokens if token.strip('"') in table.columns and token[0] != "'"]
            if len(tokens) > 2 and tokens[1] == "IN" and table.columns[names[0]].kind == "category":
                continue  # the parameter says it
            if not names or not all(name in values for name in names):
                continue
            sql = " ".join(
                f"({values[t.strip(chr(34))]})" if t.strip('"') in values and t[0] != "'" else t for t in tokens
            )
            plain = self._plain(table, tokens)
            guards.append(GuardSpec(require=f"coalesce(({sql}), 1)", error=f"Not possible; this must hold: {plain}."))
            self.box.rules.append(f"Of every {in_words(table.one)}: {plain}.")
        return guards

    @staticmethod
    def _plain(table: Table, tokens: list[str]) -> str:
        """Return a CHECK as a person reads it."""
        names = {name: column.words for name, column in table.columns.items()}
        return " ".join(names.get(token.strip('"'), token.lower()) for token in tokens)

    def _update(self, table: Table) -> None:
        life = self.box.lifecycles.get(table.name)
        ranked = []
        for column in table.columns.values():
            name = column.name
            if name in table.key or (life and name in (life.status, *(e.dated for e in life.endings))):
                continue
            score = 0
            if column is table.status:
                score = 6
            elif column.kind in ("date", "datetime") and column.required and _AHEAD.search(name):
                score = 5
            elif column.kind == "text" and _CONTACT.search(name):
                score = 4
            elif column.required and (column.kind == "money" or _STOCK.search(name)) and column.type != "TEXT":
                score = 3
            elif column.kind == "category":
                score = 2
            elif column.kind == "flag" or (column.kind == "note" and column.source):
                score = 1
            if score:
                ranked.append((-score, name))
        for _, name in sorted(ranked)[: MAX_UPDATES if table.naturals else 1]:
            self._update_one(table, table.columns[name], life)

    def _update_one(self, table: Table, column: Column, life: Lifecycle | None) -> None:
        name, one = column.name, in_words(table.one)
        guards = [self._exists(table)]
        if column.kind in ("date", "datetime"):
            guards.append(self._is_date(name, optional=False))
            if life is not None:
                guards.append(self._still_open(table, life))
                self.box.rules.append(f"The {column.words} of {an(one)} can be changed only while {life.words}.")
        if column.unique:
            guards.append(self._is_free(table, column))
        if column.type == "TEXT" and column.kind == "text":
            guards.append(GuardSpec(require=f"trim(:{name}) <> ''", error=f"The {column.words} is missing."))
        for tokens in table.checks:
            names = {t.strip('"') for t in tokens if t.strip('"') in table.columns and t[0] != "'"}
            if name not in names or (len(tokens) > 2 and tokens[1] == "IN"):
                continue
            sql = " ".join(dated(column, f":{name}") if t.strip('"') == name and t[0] != "'" else t for t in tokens)
            plain = self._plain(table, tokens)
            guards.append(
                GuardSpec(
                    require=f"EXISTS (SELECT 1 FROM {bare(table.name)} WHERE {self._where(table)} "
                    f"AND coalesce(({sql}), 1))",
                    error=f"Not possible; this must hold: {plain}.",
                )
            )
        words = f"new {column.words}{', YYYY-MM-DD' if column.kind in ('date', 'datetime') else ''}"
        self.box.update[table.name, name] = self._add(
            f"update_{table.one}_{name.removeprefix(f'{table.one}_')}",
            ToolSpec(
                description=f"Change the {column.words} of {an(one)}.",
                parameters=self._keys(table) | {name: self.parameter(table, column, words)},
                guards=guards,
                statements=[
                    f"UPDATE {bare(table.name)} SET {bare(name)} = {dated(column, f':{name}')} "
                    f"WHERE {self._where(table)}"
                ],
                returns=ReturnsSpec(
                    shape="row",
                    sql=f"SELECT {', '.join(map(bare, (*table.key, name)))} FROM {bare(table.name)} "
                    f"WHERE {self._where(table)}",
                ),
                **WRITE,
            ),
        )

    def _still_open(self, table: Table, life: Lifecycle) -> GuardSpec:
        return GuardSpec(
            require=f"EXISTS (SELECT 1 FROM {bare(table.name)} WHERE {self._where(table)} AND {life.open})",
            error=f"The {in_words(table.one)} {self._name_of(table)} is not open any more.",
        )

    def _end(self, table: Table) -> None:
        life = self.box.lifecycles.get(table.name)
        if life is None:
            return
        one = in_words(table.one)
        for ending in life.endings:
            changes = []
            guards = [self._exists(table), self._still_open(table, life)]
            if ending.state is not None:
                assert life.status is not None
                changes.append(f"{bare(life.status)} = {literal(ending.state)}")
                guards.append(
                    GuardSpec(
                        require=f"EXISTS (SELECT 1 FROM {bare(table.name)} WHERE {self._where(table)} "
                        f"AND {bare(life.status)} <> {literal(ending.state)})",
                        error=f"The {one} {self._name_of(table)} is {ending.state} already.",
                    )
                )
            if ending.dated is not None:
                changes.append(f"{bare(ending.dated)} = {dated(table.columns[ending.dated], ':today')}")
            self.box.ending[table.name, ending.verb] = self._add(
                f"{ending.verb}_{table.one}",
                ToolSpec(
                    description=f"{in_words(ending.verb).capitalize()} an open {one}.",
                    parameters=self._keys(table),
                    guards=guards,
                    statements=[f"UPDATE {bare(table.name)} SET {', '.join(changes)} WHERE {self._where(table)}"],
                    returns=ReturnsSpec(
                        shape="row",
                        sql=f"SELECT {self._shown(table)} FROM {bare(table.name)} WHERE {self._where(table)}",
                    ),
                    **WRITE,
                ),
            )
        words = ", ".join(sorted({in_words(ending.verb) for ending in life.endings}))
        self.box.rules.append(
            f"{an(one).capitalize()} is open while {life.words}; only an open one can be changed so: {words}."
        )

    def _remove(self, table: Table) -> None:
        self.box.remove[table.name] = self._add(
            f"remove_{table.one}",
            ToolSpec(
                description=f"Remove {an(in_words(table.one))}.",
                parameters=self._keys(table),
                guards=[self._exists(table)],
                statements=[f"DELETE FROM {bare(table.name)} WHERE {self._where(table)}"],
                **WRITE,
            ),
        )
