"""Derived tools by purpose, and the rules on open and ended rows that the records show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolorchestra.toolscale.database.format import ToolSpec
from toolorchestra.toolscale.requests.naming import in_words, verb, word_lists
from toolorchestra.toolscale.synth.tables.tables import Column, Natural, Table, bare, default_state, literal


@dataclass
class Ending:
    """A way in which a row's life goes on to another state: the verb, the state, and the column that dates it."""

    verb: str
    state: str | None
    dated: str | None


@dataclass
class Lifecycle:
    """The states of a table's rows: which are open, and how they end."""

    status: str | None
    open: str
    words: str
    endings: list[Ending]

    @property
    def columns(self) -> set[str]:
        """The columns that say whether a row is open."""
        return {name for name in (self.status, *(ending.dated for ending in self.endings)) if name}

    def opened(self, alias: str = "") -> str:
        """The SQL condition of an open row, of a table with an alias."""
        sql = self.open
        for name in sorted(self.columns) if alias else ():
            sql = sql.replace(f"{bare(name)} I", f"{alias}.{bare(name)} I")
        return sql

    def endable(self, ending: Ending, alias: str = "") -> str:
        """The SQL condition of a row that can be ended so."""
        if ending.state is None or self.status is None:
            return self.opened(alias)
        return f"{self.opened(alias)} AND {f'{alias}.' if alias else ''}{bare(self.status)} <> {literal(ending.state)}"

    @property
    def open_arguments(self) -> dict[str, Any]:
        """The arguments by which a list shows open rows only, where one filter can say so."""
        if self.status is None:
            return {"open": True}
        states = self.open.partition("(")[2].rstrip(")").split("', '")
        return {self.status: states[0].strip("'").replace("''", "'")} if len(states) == 1 else {}


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
    get: dict[str, str] = field(default_factory=dict)  # by table
    find: dict[tuple[str, str], str] = field(default_factory=dict)  # by table and natural name
    named: dict[str, tuple[str, str]] = field(default_factory=dict)  # by table: the column of names, the tool
    listing: dict[tuple[str, str], str] = field(default_factory=dict)  # by table and reference
    paired: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)  # by table and columns: listing
    search: dict[str, str] = field(default_factory=dict)  # by table
    summary: dict[str, str] = field(default_factory=dict)  # by table
    totals: dict[str, list[str]] = field(default_factory=dict)  # by table: the columns that its summary adds up
    create: dict[str, Creation] = field(default_factory=dict)  # by table
    update: dict[tuple[str, str], str] = field(default_factory=dict)  # by table and column
    ending: dict[tuple[str, str], str] = field(default_factory=dict)  # by table and verb
    remove: dict[str, str] = field(default_factory=dict)  # by table
    lifecycles: dict[str, Lifecycle] = field(default_factory=dict)  # by table
    exclusive: set[tuple[str, str]] = field(default_factory=set)  # references that no two open rows share
    trusted: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)  # by reference: the state needed
    rules: dict[str, list[str]] = field(default_factory=dict)  # by tool: what its guards enforce, in words
    today: str = ""


def natural_sql(natural: Natural, alias: str = "") -> str:
    """Return the SQL of a row's natural name."""
    dot = f"{alias}." if alias else ""
    return " || ' ' || ".join(dot + bare(column) for column in natural.columns)


def main_date(table: Table) -> Column | None:
    """Return the column that says when a row happened."""
    days = [column for column in table.columns.values() if column.is_date and not verb(column.name)]
    return next((column for column in days if not column.nullable), days[0] if days else None)


def dated(column: Column, value: str) -> str:
    """Return the SQL that puts a date into a column."""
    return f"{value} || ' 00:00:00'" if column.kind == "datetime" else value


def lifecycle_of(table: Table) -> Lifecycle | None:
    """Return how the rows of a table begin and end, if they do."""
    ends = [
        name
        for name, column in table.columns.items()
        if column.is_date and column.nullable and verb(name) and 0 < table.data[name].count(None) < table.size
    ]
    status = table.status
    if status is None:
        if not ends:
            return None
        condition = " AND ".join(f"{bare(name)} IS NULL" for name in ends)
        words = f"it has no {' or '.join(table.columns[name].words for name in ends)}"
        return Lifecycle(None, condition, words, [Ending(str(verb(name)), None, name) for name in ends])
    opens = [choice for choice in status.choices if in_words(choice).lower() not in word_lists().final]
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
    return Lifecycle(status.name, f"{bare(status.name)} IN ({', '.join(map(literal, opens))})", words, endings)


def is_open(table: Table, life: Lifecycle, row: Mapping[str, Any]) -> bool:
    """Whether a row has not ended."""
    if life.status is not None:
        return in_words(str(row[life.status])).lower() not in word_lists().final
    return all(row[str(ending.dated)] is None for ending in life.endings)


def observe(tables: Mapping[str, Table], box: Toolbox) -> None:
    """Find the rules that the records keep, though no schema says so."""
    for name, life in box.lifecycles.items():
        table = tables[name]
        open_rows = [row for row in table.rows if is_open(table, life, row)]
        for column in table.references:
            target, to = column.target
            parent = tables[target]
            held = [row[column.name] for row in open_rows if row[column.name] is not None]
            again = sum(times - 1 for times in Counter(v for v in table.data[column.name] if v is not None).values())
            if len(held) ** 2 >= 8 * parent.size and len(set(held)) == len(held) and again >= 5 and not column.unique:
                box.exclusive.add((name, column.name))
            state = parent.status
            if state is None or parent is table:
                continue
            good = [choice for choice in state.choices if in_words(choice).lower() in word_lists().good]
            by_key = dict(zip(parent.data[to], parent.data[state.name], strict=True))
            others = sum(value not in good for value in by_key.values()) / parent.size
            if len(good) == 1 and held and len(held) * others >= 8 and all(by_key[value] in good for value in held):
                box.trusted[name, column.name] = (state.name, good[0])
