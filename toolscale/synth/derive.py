"""Tools derived from tables: what a person at the desk would want to do with such records.

Look up by key and by name, find by reference, search by category and date, sum up, create, change, end (cancel,
return, close …), tie and untie. The rules that the guards enforce come from the schema (references, uniqueness,
CHECKs), and from what the records never do: a thing that is never in two open loans at once cannot be lent twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolorchestra.toolscale.format import GuardSpec, ParameterSpec, ReturnsSpec, StatementSpec, ToolSpec
from toolorchestra.toolscale.synth.survey import Column, Natural, Table, bare, default_state, numbered
from toolorchestra.toolscale.synth.words import FINAL, GOOD, an, said, snake_case, verb

MOST_LISTED = 50
"""Rows that a search returns."""
MOST_UPDATES = 2
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
_READ: dict[str, Any] = {"price": 0.0005, "latency": 0.1}
_SEARCH: dict[str, Any] = {"price": 0.001, "latency": 0.15}
_WRITE: dict[str, Any] = {"price": 0.002, "latency": 0.25}


@dataclass
class Ending:
    """A way in which a row's life goes on to another state: the verb, the state, and the column that dates it."""

    verb: str
    state: str | None
    dated: str | None


@dataclass
class Life:
    """The states of a table's rows: which are open, and how they end."""

    status: str | None
    open: str
    words: str
    endings: list[Ending]


@dataclass
class Creation:
    """A tool that makes a row: the columns that its caller gives."""

    tool: str
    required: list[str]
    optional: list[str]


@dataclass
class Toolbox:
    """The derived tools, by what they are for, and the rules that their guards enforce."""

    tools: dict[str, ToolSpec] = field(default_factory=dict)
    get: dict[str, str] = field(default_factory=dict)
    find: dict[tuple[str, str], str] = field(default_factory=dict)
    named: dict[str, tuple[str, str]] = field(default_factory=dict)
    listing: dict[tuple[str, str], str] = field(default_factory=dict)
    search: dict[str, str] = field(default_factory=dict)
    summary: dict[str, str] = field(default_factory=dict)
    totals: dict[str, list[str]] = field(default_factory=dict)
    create: dict[str, Creation] = field(default_factory=dict)
    update: dict[tuple[str, str], str] = field(default_factory=dict)
    ending: dict[tuple[str, str], str] = field(default_factory=dict)
    remove: dict[str, str] = field(default_factory=dict)
    lives: dict[str, Life] = field(default_factory=dict)
    exclusive: set[tuple[str, str]] = field(default_factory=set)
    trusted: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)


def derive_tools(tables: Mapping[str, Table]) -> Toolbox:
    """Return the tools for tables in the order of their references."""
    box = Toolbox()
    for table in tables.values():
        if life := _life(table):
            box.lives[table.name] = life
    _observe(tables, box)
    deriver = _Deriver(tables, box)
    for table in tables.values():
        deriver.table(table)
    return box


def literal(value: Any) -> str:
    """Return a value as it stands in SQL."""
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def natural_sql(natural: Natural, alias: str = "") -> str:
    """Return the SQL of a row's natural name."""
    dot = f"{alias}." if alias else ""
    return " || ' ' || ".join(dot + bare(column) for column in natural.columns)


def main_date(table: Table) -> Column | None:
    """Return the column that says when a row happened."""
    days = [c for c in table.columns.values() if c.kind in ("date", "datetime") and not verb(c.name)]
    return next((column for column in days if not column.nullable), days[0] if days else None)


def dated(column: Column, value: str) -> str:
    """Return the SQL that puts a date into a column."""
    return f"{value} || ' 00:00:00'" if column.kind == "datetime" else value


# ---------------------------------------------------------------------------------------- what the records show


def _life(table: Table) -> Life | None:
    """Return how the rows of a table begin and end, if they do."""
    ends = [
        column.name
        for column in table.columns.values()
        if column.kind in ("date", "datetime") and column.nullable and verb(column.name)
        and 0 < sum(value is None for value in table.data[column.name]) < table.size
    ]  # fmt: skip
    status = table.status
    if status is None:
        if not ends:
            return None
        condition = " AND ".join(f"{bare(name)} IS NULL" for name in ends)
        words = f"it has no {' or '.join(table.columns[name].words for name in ends)}"
        return Life(None, condition, words, [Ending(str(verb(name)), None, name) for name in ends])
    opens = [choice for choice in status.choices if said(choice).lower() not in FINAL]
    begins = default_state(status)
    endings: list[Ending] = []
    for choice in status.choices:
        word = verb(choice)
        if word is None or choice == begins or any(word == ending.verb for ending in endings):
            continue
        rows = [row for row in table.rows if row[status.name] == choice]
        stamped = [name for name in ends if rows and all(row[name] is not None for row in rows)]
        endings.append(Ending(word, choice, next(iter(sorted(stamped, key=lambda n: verb(n) != word)), None)))
    if not opens or not endings:
        return None
    words = f"its {status.words} is {' or '.join(opens)}"
    return Life(status.name, f"{bare(status.name)} IN ({', '.join(map(literal, opens))})", words, endings)


def is_open(table: Table, life: Life, row: Mapping[str, Any]) -> bool:
    """Whether a row has not ended."""
    if life.status is not None:
        return said(str(row[life.status])).lower() not in FINAL
    return all(row[str(ending.dated)] is None for ending in life.endings)


def _observe(tables: Mapping[str, Table], box: Toolbox) -> None:
    """Find the rules that the records keep, though no schema says so."""
    for name, life in box.lives.items():
        table = tables[name]
        open_rows = [row for row in table.rows if is_open(table, life, row)]
        for column in table.references:
            assert column.references is not None
            parent = tables[column.references[0]]
            held = [row[column.name] for row in open_rows if row[column.name] is not None]
            again = sum(times - 1 for times in Counter(v for v in table.data[column.name] if v is not None).values())
            if len(held) ** 2 >= 8 * parent.size and len(set(held)) == len(held) and again >= 5 and not column.unique:
                box.exclusive.add((name, column.name))
            state = parent.status
            if state is None or parent is table:
                continue
            good = [choice for choice in state.choices if said(choice).lower() in GOOD]
            by_key = dict(zip(parent.data[column.references[1]], parent.data[state.name], strict=True))
            others = sum(value not in good for value in by_key.values()) / parent.size
            if len(good) == 1 and held and len(held) * others >= 8 and all(by_key[value] in good for value in held):
                box.trusted[name, column.name] = (state.name, good[0])


# --------------------------------------------------------------------------------------------------- the tools


class _Deriver:
    """Derives the tools of one table after another."""

    def __init__(self, tables: Mapping[str, Table], box: Toolbox) -> None:
        self.tables = tables
        self.box = box

    def table(self, table: Table) -> None:
        """Derive the tools of a table."""
        if not table.size:
            return
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
        self._create(table)
        self._update(table)
        self._end(table)
        if table.is_link and not any(
            c.references[0] == table.name for t in self.tables.values() for c in t.references if c.references
        ):
            self._remove(table)

    def _add(self, name: str, spec: ToolSpec) -> str:
        name = snake_case(name, self.box.tools)
        self.box.tools[name] = spec
        return name

    def parameter(
        self, table: Table, column: Column, description: str = "", *, own: bool = False, **changes: Any
    ) -> ParameterSpec:
        """Return the parameter that takes a value of a column."""
        words = description or self._words(table, column)
        options: dict[str, Any] = {"description": words}
        if column.references and not own:
            options["column"] = ".".join(column.references)
        elif column.kind not in ("note", "json", "date", "datetime"):
            options["column"] = f"{table.name}.{column.name}"
        if column.kind == "flag":
            return ParameterSpec(type="boolean", description=words, **changes)
        if column.type != "TEXT":
            options["type"] = "integer" if column.type == "INTEGER" else "number"
            values = [value for value in table.data[column.name] if value is not None]
            if column.kind in ("money", "number") and values and min(values) >= 0:
                options["minimum"] = 0
        elif column.kind in ("date", "datetime"):
            options |= {"type": "string", "format": "date"}
        elif column.kind == "category":
            options |= {"type": "string", "enum": list(column.choices)}
            del options["column"]
        else:
            longest = max((len(str(value)) for value in table.data[column.name] if value is not None), default=0)
            options |= {"type": "string", "max_length": max(60, min(2000, 2 * longest))}
        return ParameterSpec(**(options | changes))

    def _words(self, table: Table, column: Column) -> str:
        if column.references:
            parent = self.tables[column.references[0]]
            to = said(column.references[1])
            stem = said(column.name.removesuffix("_id"))
            return f"{to} of the {stem}" if stem not in (said(parent.one), to) else f"{said(parent.one)} id"
        if column.name in table.key:
            return f"{said(table.one)} id" if len(table.key) == 1 and column.name.endswith("_id") else column.words
        ends = {"money": "", "date": ", YYYY-MM-DD", "datetime": ", YYYY-MM-DD"}.get(column.kind, "")
        return f"{column.words} of the {said(table.one)}{ends}"

    def _keys(self, table: Table) -> dict[str, ParameterSpec]:
        return {part: self.parameter(table, table.columns[part], own=True) for part in table.key}

    def _operates(self, table: Table, mark: str = ":") -> dict[str, str | list[str]]:
        parts = [f"{mark}{part}" for part in table.key]
        return {table.name: parts[0] if len(parts) == 1 else parts}

    def _where(self, table: Table) -> str:
        return " AND ".join(f"{bare(part)} = :{part}" for part in table.key)

    def _name_of(self, table: Table) -> str:
        return " ".join(f"{{{part}}}" for part in table.key)

    def _exists(self, table: Table) -> GuardSpec:
        hint = f"; find it with {self.box.find[table.name, n.name]}" if (n := next(iter(table.naturals), None)) else ""
        return GuardSpec(
            require=f"EXISTS (SELECT 1 FROM {bare(table.name)} WHERE {self._where(table)})",
            error=f"There is no {said(table.one)} {self._name_of(table)}{hint}.",
        )

    def _shown(self, table: Table, most: int = 9) -> str:
        """Return the columns that lists show: keys and references first, no long texts."""
        columns = [c for c in table.columns.values() if c.kind not in ("note", "json")]
        return ", ".join(bare(column.name) for column in columns[:most])

    def _order(self, table: Table) -> str:
        return ", ".join(map(bare, table.key))

    def _get(self, table: Table) -> None:
        columns = ", ".join(map(bare, table.columns))
        self.box.get[table.name] = self._add(
            f"get_{table.one}",
            ToolSpec(
                description=f"Look up {an(said(table.one))} by id: {self._contents(table)}.",
                parameters=self._keys(table),
                returns=ReturnsSpec(
                    shape="row",
                    sql=f"SELECT {columns} FROM {bare(table.name)} WHERE {self._where(table)}",
                    json=[c.name for c in table.columns.values() if c.kind == "json"],
                    empty=f"There is no {said(table.one)} {self._name_of(table)}.",
                ),
                operates=self._operates(table),
                **_READ,
            ),
        )

    def _contents(self, table: Table) -> str:
        names = [
            said(column.name.removesuffix("_id")) if column.references else column.words
            for column in table.columns.values()
            if column.name not in table.key
        ][:6]
        return ", ".join(names) or "what is on file"

    def _find(self, table: Table, natural: Natural) -> None:
        columns = ", ".join(bare(c.name) for c in table.columns.values() if c.kind != "json")
        name = natural.name
        parameter = ParameterSpec(
            type="string",
            description=f"{said(name)} of the {said(table.one)}, in full",
            max_length=160,
            column=f"{table.name}.{name}" if natural.columns == (name,) else None,
        )
        self.box.find[table.name, name] = self._add(
            f"find_{table.one}_by_{name}",
            ToolSpec(
                description=f"Look up {an(said(table.one))} by {said(name)}.",
                parameters={name: parameter},
                returns=ReturnsSpec(
                    shape="row",
                    sql=f"SELECT {columns} FROM {bare(table.name)} "
                    f"WHERE lower({natural_sql(natural)}) = lower(:{name}) ORDER BY {self._order(table)}",
                    empty=f"There is no {said(table.one)} with the {said(name)} {{{name}}}.",
                ),
                operates=self._operates(table, "."),
                **_READ,
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
                    description=f"List the {said(table.many)} whose {column.words} contains a text.",
                    parameters={column.name: self.parameter(table, column, f"{column.words} or part of it")},
                    guards=[GuardSpec(require=f"trim(:{column.name}) <> ''", error="Give at least one letter.")],
                    returns=ReturnsSpec(
                        shape="rows",
                        sql=f"SELECT {self._shown(table)} FROM {bare(table.name)} WHERE "
                        f"instr(lower({bare(column.name)}), lower(:{column.name})) "
                        f"ORDER BY {self._order(table)} LIMIT {MOST_LISTED}",
                    ),
                    **_SEARCH,
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
        life = self.box.lives.get(table.name)
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
        return said(re.sub(r"_(?:at|on|date|time|day)$", "", str(ending.dated)))

    def _list(self, table: Table, column: Column) -> None:
        assert column.references is not None
        parent = self.tables[column.references[0]]
        filters, where = self._filters(table)
        filters = {n: p for n, p in filters.items() if n in ("open", table.status.name if table.status else "open")}
        where = [condition for condition in where if any(f":{name} " in condition for name in filters)]
        stem = column.name.removesuffix("_id")
        words = f"{said(stem)}" if stem != parent.one else said(parent.one)
        conditions = " AND ".join([f"{bare(column.name)} = :{column.name}", *where])
        self.box.listing[table.name, column.name] = self._add(
            f"find_{table.many}_by_{stem}",
            ToolSpec(
                description=f"List the {said(table.many)} of {an(words)}, at most {MOST_LISTED}.",
                parameters={column.name: self.parameter(table, column)} | filters,
                guards=[self._refers(table, column)],
                returns=ReturnsSpec(
                    shape="rows",
                    sql=f"SELECT {self._shown(table)} FROM {bare(table.name)} WHERE {conditions} "
                    f"ORDER BY {self._order(table)} LIMIT {MOST_LISTED}",
                ),
                **_SEARCH,
            ),
        )

    def _refers(self, table: Table, column: Column, *, optional: bool = False) -> GuardSpec:
        assert column.references is not None
        target, to = column.references
        found = f"EXISTS (SELECT 1 FROM {bare(target)} WHERE {bare(to)} = :{column.name})"
        return GuardSpec(
            require=f":{column.name} IS NULL OR {found}" if optional else found,
            error=f"There is no {said(self.tables[target].one)} {{{column.name}}}.",
        )

    def _search(self, table: Table) -> None:
        filters, where = self._filters(table)
        if not filters or table.size < 5:
            return
        self.box.search[table.name] = self._add(
            f"search_{table.many}",
            ToolSpec(
                description=f"List {said(table.many)} by any of the filters, at most {MOST_LISTED}.",
                parameters=filters,
                returns=ReturnsSpec(
                    shape="rows",
                    sql=f"SELECT {self._shown(table)} FROM {bare(table.name)} WHERE {' AND '.join(where)} "
                    f"ORDER BY {self._order(table)} LIMIT {MOST_LISTED}",
                ),
                **_SEARCH,
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
                description=f"Count the {said(table.many)} that meet the filters{words}.",
                parameters=filters,
                returns=ReturnsSpec(
                    shape="row", sql=f"SELECT {', '.join(shown)} FROM {bare(table.name)} WHERE {' AND '.join(where)}"
                ),
                **_SEARCH,
            ),
        )

    # ------------------------------------------------------------------------------------------------- writing

    def _create(self, table: Table) -> None:
        life = self.box.lives.get(table.name)
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
                    self.box.rules.append(f"The {column.words} of a new {said(table.one)} is today.")
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
            self.box.rules.append(f"No two {said(table.many)} share {' and '.join(said(p) for p in table.key)}.")
        shown = ", ".join(bare(c.name) for c in table.columns.values() if c.kind not in ("note", "json"))
        tool = self._add(
            f"{'add' if table.is_link else 'create'}_{table.one}",
            ToolSpec(
                description=f"Make a new {said(table.one)}." if not table.is_link else f"Add {an(said(table.one))}.",
                parameters=parameters,
                guards=guards,
                statements=[insert],
                returns=ReturnsSpec(shape="row", sql=f"SELECT {shown} FROM {bare(table.name)} WHERE {where}"),
                **_WRITE,
            ),
        )
        self.box.create[table.name] = Creation(tool, required, optional)

    def _fixed(self, table: Table, column: Column, life: Life | None) -> str | None:
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
        self, table: Table, required: list[str], optional: list[str], values: Mapping[str, str], life: Life | None
    ) -> list[GuardSpec]:
        one, given = said(table.one), [*required, *optional]
        guards = []
        for name in given:
            column = table.columns[name]
            if column.references:
                guards.append(self._refers(table, column, optional=name in optional))
            if column.kind in ("date", "datetime"):
                guards.append(self._is_date(name, optional=name in optional))
            if column.type == "TEXT" and column.kind in ("text", "key") and not column.references and name in required:
                guards.append(GuardSpec(require=f"trim(:{name}) <> ''", error=f"The {said(name)} is missing."))
        for column in table.columns.values():
            if column.unique and column.name in given:
                guards.append(self._is_free(table, column))
                self.box.rules.append(f"No two {said(table.many)} have the same {column.words}.")
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
                words = " and ".join(said(part.removesuffix("_id")) for part in parts)
                error = f"There is {an(one)} with this {words} already."
                guards.append(
                    GuardSpec(require=f"NOT EXISTS (SELECT 1 FROM {bare(table.name)} WHERE {where})", error=error)
                )
                self.box.rules.append(f"No two {said(table.many)} have the same {words}.")
        for name in required:
            column = table.columns[name]
            if column.references is None:
                continue
            target, to = column.references
            parent = said(self.tables[target].one)
            if (table.name, name) in self.box.trusted:
                state, good = self.box.trusted[table.name, name]
                guards.append(
                    GuardSpec(
                        require=f"(SELECT {bare(state)} FROM {bare(target)} WHERE {bare(to)} = :{name}) "
                        f"= {literal(good)}",
                        error=f"The {parent} {{{name}}} is not {good}.",
                    )
                )
                self.box.rules.append(f"Only {an(parent)} whose {said(state)} is {good} can have a new {one}.")
            if (table.name, name) in self.box.exclusive and life is not None:
                free = f"SELECT 1 FROM {bare(table.name)} WHERE {bare(name)} = :{name} AND {life.open}"
                word = said(name.removesuffix("_id"))
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
            error=f"Another {said(table.one)} has the {column.words} {{{column.name}}}.",
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
            self.box.rules.append(f"Of every {said(table.one)}: {plain}.")
        return guards

    @staticmethod
    def _plain(table: Table, tokens: list[str]) -> str:
        """Return a CHECK as a person reads it."""
        names = {name: column.words for name, column in table.columns.items()}
        return " ".join(names.get(token.strip('"'), token.lower()) for token in tokens)

    def _update(self, table: Table) -> None:
        life = self.box.lives.get(table.name)
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
        for _, name in sorted(ranked)[: MOST_UPDATES if table.naturals else 1]:
            self._update_one(table, table.columns[name], life)

    def _update_one(self, table: Table, column: Column, life: Life | None) -> None:
        name, one = column.name, said(table.one)
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
                **_WRITE,
            ),
        )

    def _still_open(self, table: Table, life: Life) -> GuardSpec:
        return GuardSpec(
            require=f"EXISTS (SELECT 1 FROM {bare(table.name)} WHERE {self._where(table)} AND {life.open})",
            error=f"The {said(table.one)} {self._name_of(table)} is not open any more.",
        )

    def _end(self, table: Table) -> None:
        life = self.box.lives.get(table.name)
        if life is None:
            return
        one = said(table.one)
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
                    description=f"{said(ending.verb).capitalize()} an open {one}.",
                    parameters=self._keys(table),
                    guards=guards,
                    statements=[f"UPDATE {bare(table.name)} SET {', '.join(changes)} WHERE {self._where(table)}"],
                    returns=ReturnsSpec(
                        shape="row",
                        sql=f"SELECT {self._shown(table)} FROM {bare(table.name)} WHERE {self._where(table)}",
                    ),
                    **_WRITE,
                ),
            )
        words = ", ".join(sorted({said(ending.verb) for ending in life.endings}))
        self.box.rules.append(
            f"{an(one).capitalize()} is open while {life.words}; only an open one can be changed so: {words}."
        )

    def _remove(self, table: Table) -> None:
        self.box.remove[table.name] = self._add(
            f"remove_{table.one}",
            ToolSpec(
                description=f"Remove {an(said(table.one))}.",
                parameters=self._keys(table),
                guards=[self._exists(table)],
                statements=[f"DELETE FROM {bare(table.name)} WHERE {self._where(table)}"],
                **_WRITE,
            ),
        )
