"""The entries of a domain's database: which of them a request names, and which facts the domain's read tools return.

This is derived from the tables' keys, from the columns that the tools' parameters name, and by running the tools.
Not covered: entries with a composite key, and entries that no tool shows. Descriptions of entries without their keys
are in `toolorchestra.toolscale.evolution.referring_expressions`.
"""

from __future__ import annotations

import datetime
import functools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.database.sql import primary_key
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.naming import in_words, singular
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.expressions import FORMATS, shown_value
from toolorchestra.toolscale.tools.sqltool import SqlTool
from toolorchestra.toolscale.tools.tool import Entry, Status, Tool, ToolResult

Kind = Literal["number", "date", "category"]

_SAMPLE = 40
_CATEGORIES = 8
MAX_LENGTH = 32
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_CLOCK = re.compile(r"\d{2}:\d{2}")
_VERB = re.compile(
    r"^(?:get|look_up|lookup|find|show|read|check|fetch|view|describe|retrieve|list|search|track)_(?:details_of_)?"
)
_NOUNS = {
    "expires": "expiry", "starts": "start", "ends": "end", "opens": "opening", "closes": "closing",
    "departs": "departure", "arrives": "arrival", "leaves": "departure", "returns": "return", "begins": "start",
    "born": "birth", "since": "start", "joined": "joining", "bought": "purchase", "opened": "opening",
    "decided": "decision", "announced": "announcement", "installed": "installation", "calibrated": "calibration",
}  # fmt: skip
_IN_FULL = {"min": "minimum", "max": "maximum", "vat": "VAT", "gpa": "GPA", "egfr": "eGFR", "kyc": "KYC"}
_NO_NOUNS = frozenset({
    "since", "until", "from", "to", "at", "by", "on", "fewest", "most", "least", "first", "last", "min", "max",
    "before", "after", "is", "has", "was", "no", "born", "active", "available", "held", "overdue", "paid", "unpaid",
    "owed", "due", "open", "free", "left", "sent", "used", "taken", "remaining", "today", "outstanding", "spent",
    "seconds", "minutes", "hours", "days", "weeks", "months", "years", "kg", "needs", "day", "daily", "low", "high",
    "yellow", "utc", "then", "advice", "sleeps", "added", "written",
})  # fmt: skip
_NO_FACTS = frozenset({"title", "sex", "gender"})  # nobody makes anything depend on them
_NO_DATES = frozenset({"until", "added", "written", "last", "next"})
_PREDICATES: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "number": (("at least {}", "more than {}"), ("below {}", "at most {}")),
    "date": (("after {}",), ("before {}",)),
    "category": (("anything but {}",), ("{}",)),
}
_DATE_WORDS = re.compile(r"\b(?:date|day|deadline|birthday|time)\b")


class EntityFact(NamedTuple):
    """A fact that a look-up returns about an entry: `thing` ("the price of dish D07") has the value `value`."""

    call: Call
    entry: Entry
    field: str
    kind: Kind
    value: Any
    thing: str

    def about(self, subject: str, phrase: str) -> EntityFact:
        """Return the same fact with a phrase for the entry, which is the `subject` at the end of the thing."""
        return self._replace(thing=f"{self.thing.removesuffix(subject)}{phrase}")

    @property
    def be(self) -> str:
        """The verb that goes with the thing."""
        return "are" if self.plural else "is"

    @property
    def plural(self) -> bool:
        """Whether the thing is many ("the points of ...")."""
        return self.kind == "number" and self.field.endswith("s") and not self.field.endswith(("ss", "us", "is"))


class EntityIndex:
    """The entries of a domain as its tools show them; results are cached.

    Args:
        domain: The domain; its tools are run on a session of the index's own.

    Attributes:
        keys: The key column of each table whose key is one column.
        readers: The tools made of SQL that read.
        values: ``values(column)`` returns the distinct values of a column (``table.column``), in order.
        facts: ``facts(table, key)`` returns the facts about an entry that look-ups return and that can be put in words.
        kinds: ``kinds(table, tool)`` returns the fields of a look-up on which a condition can be put, with their
            kinds and values.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain, self.database, self.tools = domain, domain.database, domain.tools
        self.session = domain.session()
        self.keys = {name: key[0] for name, t in self.database.tables.items() if len(key := primary_key(t)) == 1}
        self.readers = [tool for tool in self.tools.values() if isinstance(tool, SqlTool) and tool.effect == "read"]
        self.values = functools.cache(self.database.values)
        self.facts = functools.cache(self._facts)
        self.kinds = functools.cache(self._kinds)
        self._traces: dict[str, tuple[Any, ...] | None] = {}
        self._look_ups = {name: list(self._looking_up(name)) for name in self.keys}

    # ------------------------------------------------------------------------------------------ running calls

    def run(self, call: Call) -> ToolResult:
        """Make one call in the initial state."""
        self.session.reset()
        return self.domain.call(call, self.session)

    def results(self, calls: Iterable[Call]) -> tuple[Any, ...] | None:
        """Return what `calls` return from the initial state on, or None if one errs."""
        self.session.reset()
        values = []
        for call in calls:
            result = self.domain.call(call, self.session)
            if result.status is not Status.OK:
                return None
            values.append(result.value)
        return tuple(values)

    def trace(self, task: Task) -> tuple[Any, ...] | None:
        """Return what the reference calls of a task return."""
        if task.id not in self._traces:
            self._traces[task.id] = self.results(task.reference_calls)
        return self._traces[task.id]

    def writes(self, calls: Iterable[Call]) -> bool:
        """Return whether one of `calls` may write."""
        return any(self.tools[call.name].effect == "write" for call in calls)

    # ------------------------------------------------------------------------------------------------ entries

    def column(self, table: str) -> str:
        """Return the key column of a table, as ``table.column``."""
        return f"{table}.{self.keys[table]}"

    def entries(self, table: str) -> list[Any]:
        """Return the keys of a table, in order."""
        return self.values(self.column(table))

    def row(self, table: str, key: Any) -> dict[str, Any]:
        """Return an entry's row by column."""
        row = self.database.row(table, key)
        assert row is not None
        return dict(zip(self.database.tables[table].columns, row, strict=True))

    def noun(self, table: str) -> str:
        """Return what one entry of a table is called."""
        return in_words(singular(table))

    def searched(self, tool: Tool) -> list[str]:
        """Return what a tool looks for, as nouns: "order item", "item"."""
        nouns = [self.noun(table) for table in sorted(tool.reads)] if isinstance(tool, SqlTool) else []
        return sorted({*nouns, *(noun.split()[-1] for noun in nouns)})

    def table_of(self, spec: ParameterSpec) -> str | None:
        """Return the table whose key a parameter takes."""
        table, _, column = (spec.column or "").partition(".")
        return table if self.keys.get(table) == column and column else None

    def _names(self, spec: ParameterSpec) -> str | None:
        """Return the table whose key a parameter takes, as a key or as a reference."""
        table, _, column = (spec.column or "").partition(".")
        references = self.database.tables[table].columns[column].references if column else None
        of, _, key = (references or "").partition(".")
        return self.table_of(spec) or (of if key and self.keys.get(of) == key else None)

    def taken(self, task: Task) -> Iterator[Entry]:
        """Yield the entries whose keys the reference calls of a task take."""
        seen: set[Entry] = set()
        for call in task.reference_calls:
            parameters = self.tools[call.name].parameters
            for name, value in call.arguments.items():
                table = self._names(parameters[name])
                for key in value if isinstance(value, list) else [value]:
                    if table is None or (table, key) in seen or not isinstance(key, str | int):
                        continue
                    seen.add((table, key))
                    if self.database.row(table, key):
                        yield table, key

    def mention(self, table: str, key: Any) -> re.Pattern[str]:
        """Return the pattern of an entry's key in a text, article and noun before it included.

        A number is a key only where the noun or a sign says so.
        """
        nouns = "|".join(re.escape(noun) for noun in (self.noun(table), in_words(self.keys[table].removesuffix("_id"))))
        named = rf"\b(?:{nouns})\s+(?:(?:no\.|number|id|#)\s*)?"
        word = rf"{re.escape(str(key))}(?![\w-]|[.,:]\d)"
        if isinstance(key, int):
            return re.compile(rf"(?:\bthe\s+)?(?:{named}|#\s*){word}", re.I)
        return re.compile(rf"(?:(?i:(?:\bthe\s+)?{named}))?(?<![\w/-]){word}")

    # -------------------------------------------------------------------------------------------------- facts

    def _looking_up(self, table: str) -> Iterator[SqlTool]:
        """Yield the tools that give one row for the key of a table and need nothing else."""
        for tool in self.readers:
            returns, needed = tool.spec.returns, required(tool)
            one = returns is not None and returns.shape == "row" and len(needed) == 1
            if one and self.table_of(tool.parameters[needed[0]]) == table:
                yield tool

    def _look_up(self, tool: Tool, key: Any) -> tuple[Call, dict[str, Any]]:
        """Return the call that looks up a key, and the fields of the entry, if it is found."""
        call = Call(tool.name, {required(tool)[0]: key})
        result = self.run(call)
        return call, result.value or {} if result.status is Status.OK else {}

    def records(self, table: str, key: Any) -> Iterator[tuple[Call, dict[str, Any]]]:
        """Yield the look-ups that give one row for a key, and what they return."""
        return (self._look_up(tool, key) for tool in self._look_ups[table])

    def _facts(self, table: str, key: Any) -> tuple[EntityFact, ...]:
        facts = []
        for tool in self._look_ups[table]:
            call, fields = self._look_up(tool, key)
            subject = f"{self.noun(table)} {key}"
            within = in_words(_VERB.sub("", tool.name))
            if within != self.noun(table):
                subject = f"the {within} of {subject}"
            for field, (kind, _) in self.kinds(table, tool).items() if fields else ():
                value, words = fields[field], field_words(field, kind)
                if value is not None and words is not None and field not in _NO_FACTS:
                    facts.append(EntityFact(call, (table, key), field, kind, value, f"the {words} of {subject}"))
        return tuple(facts)

    def _kinds(self, table: str, tool: Tool) -> dict[str, tuple[Kind, list[Any]]]:
        keys = self.entries(table)
        seen: dict[str, list[Any]] = {}
        for key in keys[:: max(1, len(keys) // _SAMPLE)]:
            for field, value in self._look_up(tool, key)[1].items():
                if value is not None and value != key:
                    seen.setdefault(field, []).append(value)
        return {
            field: (kind, sorted(set(values)))
            for field, values in seen.items()
            if (kind := _kind(values)) is not None and not self._refers(table, field)
        }

    def _refers(self, table: str, field: str) -> bool:
        """Return whether a field of a look-up is, by its name, a reference or a key."""
        columns = self.database.tables[table].columns
        of_tables = {self.noun(name) for name in self.keys}
        spec = columns.get(field) or columns.get(f"{field}_id")
        return field.endswith("_id") or in_words(field) in of_tables or bool(spec and spec.references)

    def predicate(self, fact: EntityFact, rng: random.Random, holds: bool) -> str | None:
        """Return a condition on a fact in words ("at least 30"), one that holds or one that does not, or None."""
        _, seen = self.kinds(fact.entry[0], self.tools[fact.call.name])[fact.field]
        others = [value for value in seen if value != fact.value]
        options = []
        if_above, otherwise = _PREDICATES[fact.kind]
        for other in others:
            above = fact.kind == "category" or fact.value > other
            shown = FORMATS["date"](other) if fact.kind == "date" else shown_value(other)
            options += [(words.format(shown), above) for words in if_above]
            options += [(words.format(shown), not above) for words in otherwise]
        if fact.kind == "category" and others:
            options += [(fact.value, True), (f"anything but {fact.value}", False)]
        fitting = [words for words, true in options if true is holds]
        return rng.choice(fitting) if fitting else None


# ------------------------------------------------------------------------------------------------- small words


def spellings(value: Any) -> list[str]:
    """Return the ways in which an instruction may have written a value."""
    text = str(value)
    if is_date(value):
        return [text, FORMATS["date"](text)]
    if isinstance(value, str) and _CLOCK.fullmatch(text):
        try:
            return [text, FORMATS["time"](text)]
        except ValueError:
            return [text]
    return list(dict.fromkeys([text, shown_value(value)]))


def states(text: str, value: Any) -> bool:
    """Return whether a text says a value, in any of its spellings."""
    return mentions(tokens(text), str(value))


def scalars(value: Any) -> Iterator[Any]:
    """Yield the values inside a JSON-like value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from scalars(item)
    elif value is not None:
        yield value


def is_code(value: Any) -> bool:
    """Return whether a key is an id rather than a name: it has a digit, or is a word in capitals.

    >>> [is_code(key) for key in ("O1001", "PARSLEY", 17, "Ada")]
    [True, True, True, False]
    """
    text = str(value)
    return any(character.isdigit() for character in text) or (len(text) > 2 and text.isupper())


def required(tool: Tool) -> list[str]:
    """Return the names of the parameters that a tool needs."""
    return [name for name, spec in tool.parameters.items() if spec.required]


def _kind(values: Sequence[Any]) -> Kind | None:
    """Return what a condition on such values can be, or None."""
    distinct = set(map(str, values))
    if len(distinct) < 2:
        return None
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return "number" if len(distinct) > 2 else None
    if not all(isinstance(value, str) for value in values):
        return None
    if all(is_date(value) for value in values):
        return "date"
    words = {"yes", "no"}.isdisjoint(distinct) and all(
        1 < len(value) <= MAX_LENGTH and value[0].isalpha() and not is_code(value) for value in values
    )
    return "category" if words and len(distinct) <= min(_CATEGORIES, len(values) // 2) else None


def is_date(value: Any) -> bool:
    """Return whether a value is an ISO date.

    >>> is_date("2025-07-23"), is_date("2025-07-32"), is_date(20250723)
    (True, False, False)
    """
    if not isinstance(value, str) or not _ISO_DATE.fullmatch(value):
        return False
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False
    return True


def field_words(field: str, kind: Kind) -> str | None:
    """Return a field's name as a noun, or None when it is none; a date is said to be one.

    >>> field_words("unit_price", "number"), field_words("issued_on", "date"), field_words("since", "number")
    ('unit price', 'issued date', None)
    """
    words = " ".join(_IN_FULL.get(word, word) for word in in_words(field).split())
    if kind == "date":
        if words.split()[-1] in _NO_DATES:
            return None
        words = re.sub(r" (?:on|at)$", "", words)
        *first, last = words.split()
        words = " ".join([*first, _NOUNS.get(last, last)])
        return words if _DATE_WORDS.search(words) else f"{words} date"
    last = in_words(field).split()[-1]
    return None if last in _NO_NOUNS or last in _NOUNS or last.endswith("ed") else words
