"""Descriptions of entries without their keys, by which the domain's tools find them.

"The order of Ada on July 24, 2025" stands for O1126 when a search takes a customer and a date and returns that
order. A description is made of the entry's row and the rows it refers to, and is true of that entry alone; every
search is run, and must return the key once.
"""

from __future__ import annotations

import functools
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import msgspec

from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.database.sql import quote
from toolorchestra.toolscale.evolution.requests import Requests
from toolorchestra.toolscale.requests.entities import MAX_LENGTH, EntityIndex, field_words, is_code, is_date
from toolorchestra.toolscale.requests.naming import in_words
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.expressions import FORMATS, shown_value
from toolorchestra.toolscale.tools.tool import Status, Tool

_MAX_OPTIONAL = 2
_VARIANTS = 12
_KINDS = frozenset({"category", "kind", "type"})  # columns whose values stand before the noun: "the soup dish"
_PLACES = frozenset({"home", "origin", "destination", "start", "end"})  # fields that need a noun: "the home station"
_MAX_RECORDS = 200  # of a table by which entries of others are described


class Description(NamedTuple):
    """The description of an entry without its key, the calls that find it, and the values that it gives."""

    text: str
    calls: tuple[Call, ...]
    values: tuple[Any, ...]


class Finder:
    """Describes the entries of a domain; descriptions are cached."""

    def __init__(self, index: EntityIndex) -> None:
        self.index = index
        self._found: dict[tuple[str, Any, bool, str | None], Description | None] = {}

    def description(
        self, table: str, key: Any, *, nested: bool = True, without: str | None = None
    ) -> Description | None:
        """Return the shortest description by which an entry can be found, or None.

        With `nested`, entries that it refers to may be described as well, rather than named by their keys. It does not
        use a value that is `without`.
        """
        place = table, key, nested, without
        if place not in self._found:
            found = self._searched(table, key, nested=nested, without=without)
            self._found[place] = min(found, key=lambda one: (len(one.calls), len(one.values)), default=None)
        return self._found[place]

    def _searched(self, table: str, key: Any, *, nested: bool, without: str | None) -> Iterator[Description]:
        row = {column: None if value == without else value for column, value in self.index.row(table, key).items()}
        for tool in self.index.readers:
            if any(self.index.table_of(spec) == table for spec in tool.parameters.values()):
                continue
            sources = {name: self._source(table, row, name, spec) for name, spec in tool.parameters.items()}
            required = [name for name, spec in tool.parameters.items() if spec.required]
            optional = [name for name, source in sources.items() if source and name not in required]
            if not all(sources[name] for name in required):
                continue
            sets = [names for size in range(_MAX_OPTIONAL + 1) for names in combinations(optional, size)]
            for names in sets[:_VARIANTS]:
                chosen = {name: source for name in (*required, *names) if (source := sources[name])}
                found = self._tried(table, key, row, tool, chosen, nested=nested) if chosen else None
                if found is not None:
                    yield found
                    break

    def _source(self, table: str, row: Mapping[str, Any], name: str, spec: ParameterSpec) -> tuple[str, Any] | None:
        """Return where a parameter's value is: a column of the table, or ``column.column`` of one it refers to."""
        columns = self.index.database.tables[table].columns
        if spec.type == "array" or not (spec.column or spec.enum):
            return None
        of, _, column = (spec.column or "").partition(".")
        references = {s.references: c for c, s in reversed(columns.items()) if s.references}
        own = column if of == table else references.get(spec.column or "")
        if own is None and of in self.index.keys and (through := references.get(self.index.column(of))):
            value = None if row[through] is None else self.index.row(of, row[through])[column]
            return None if value is None else (f"{through}.{column}", value)
        own = own or next((c for c in (column, name) if c in columns), None)
        if own is None or row[own] is None or own == self.index.keys[table]:
            return None
        return None if spec.enum and row[own] not in spec.enum else (own, row[own])

    def _tried(
        self, table: str, key: Any, row: Mapping[str, Any], tool: Tool, chosen: Mapping[str, Any], *, nested: bool
    ) -> Description | None:
        """Return the description by these parameters of a search, if it finds the entry, and no other is meant."""
        call = Call(tool.name, {name: value for name, (_, value) in chosen.items()})
        result = self.index.run(call)
        if result.status is not Status.OK:
            return None
        rows = result.value if isinstance(result.value, list) else [result.value]
        ours = [found for found in rows if key in (found.values() if isinstance(found, dict) else [found])]
        if len(ours) != 1:
            return None
        values = dict(chosen.values())
        own: dict[str, Any] = {}
        for column, value in values.items():
            through, _, beyond = column.partition(".")
            if not beyond:
                own[column] = value
            elif self._count(self._target(table, through), {beyond: value}) == 1:
                own[through] = row[through]
        if self._count(table, own) == 1 and len(rows) == 1:
            return self._in_words(table, values, call, nested=nested)
        for column, value in self._marks(table, ours[0], row, own) if isinstance(ours[0], dict) else ():
            own[column] = values[column] = value
            if self._count(table, own) == 1:
                return self._in_words(table, values, call, nested=nested)
        return None

    def through_others(self, table: str, key: Any, requests: Requests, rng: random.Random) -> Iterator[Description]:
        """Yield descriptions of an entry by others of whom a look-up says it: "the clinician of Ada's appointment"."""
        known = self._records.get(key, []) if isinstance(key, str) else []
        for of, other, field, call in rng.sample(known, min(_VARIANTS, len(known))):
            called = requests.called(of, other)
            if called is not None:
                words = in_words(field.removesuffix("_id"))
                words = f"{words} {self.index.noun(table)}" if words in _PLACES else words
                calls = (*called.calls, Call(call.name, call.arguments))
                staged = tuple(msgspec.structs.replace(one, stage=stage) for stage, one in enumerate(calls))
                yield Description(f"the {words} of {called.text}", staged, called.stated)

    @functools.cached_property
    def _records(self) -> dict[str, list[tuple[str, Any, str, Call]]]:
        """The entries of whose records a look-up shows a key of another entry, with the field and the look-up."""
        index = self.index
        keys = {key for table in index.keys for key in index.entries(table) if isinstance(key, str)}
        found: dict[str, list[tuple[str, Any, str, Call]]] = defaultdict(list)
        for table in index.keys:
            for key in index.entries(table)[:_MAX_RECORDS]:
                for call, fields in index.records(table, key):
                    for field, value in fields.items():
                        if isinstance(value, str) and value != key and value in keys:
                            found[value].append((table, key, field, call))
        return found

    def _target(self, table: str, column: str) -> str:
        references = self.index.database.tables[table].columns[column].references
        assert references is not None
        return references.split(".")[0]

    def _marks(
        self, table: str, found: Mapping[str, Any], row: Mapping[str, Any], own: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """Yield further columns that the search shows of the entry, to tell it from the other rows."""
        columns = self.index.database.tables[table].columns
        for field, value in found.items():
            if (
                field in own
                or field == self.index.keys[table]
                or field not in columns
                or row[field] != value
                or value is None
            ):
                continue
            spec = columns[field]
            if field_words(field, "date" if is_date(value) else "category") is None:
                continue
            short = isinstance(value, str | int) and len(str(value)) <= MAX_LENGTH and value not in (0, 1)
            if short and spec.compare == "exact" and spec.references is None:
                yield field, value

    def _count(self, table: str, own: Mapping[str, Any]) -> int:
        where = " AND ".join(f"{quote(column)} = ?" for column in own) or "true"
        sql = f"SELECT count(*) FROM {quote(table)} WHERE {where}"
        return int(self.index.database.base.execute(sql, list(own.values())).fetchone()[0])

    def _in_words(self, table: str, values: Mapping[str, Any], call: Call, *, nested: bool) -> Description:
        columns = self.index.database.tables[table].columns
        called: list[str] = []
        owners: list[str] = []
        marks: list[str] = []
        whose: list[str] = []
        kinds: list[str] = []
        calls: tuple[Call, ...] = ()
        for column, value in values.items():
            through, _, beyond = column.partition(".")
            if column in _KINDS and isinstance(value, str) and value.isalpha():
                kinds.append(value)
                continue
            if columns[through].references is None:
                phrase = _attribute(column, value)
                (called if phrase[:7] == "called " else whose if phrase[:6] == "whose " else marks).append(phrase)
                continue
            of = self._target(table, through)
            noun = f"{self.index.noun(of)} {value}" if is_code(value) else str(value)
            if beyond:
                noun = f"the {self.index.noun(of)} {_attribute(beyond, value)}"
            elif is_code(value) and nested:
                found = self.description(of, value, nested=False)
                if found is not None and " whose " not in found.text:  # or what follows could belong to either
                    noun, calls = found.text, (*calls, *found.calls)
            owners.append(f"{'with' if owners else 'of'} {noun}")
        whose[1:] = [phrase.removeprefix("whose ") for phrase in whose[1:]]
        text = " ".join(["the", *kinds, self.index.noun(table), *called, *owners, *marks, " and ".join(whose)]).strip()
        staged = tuple(msgspec.structs.replace(one, stage=stage) for stage, one in enumerate((*calls, call)))
        return Description(text, staged, tuple(values.values()))


def _attribute(column: str, value: Any) -> str:
    """Return the phrase that says an attribute of an entry."""
    if column in ("name", "title", "label") or column.endswith(("_name", "_title")):
        return f"called {value}"
    if is_date(value):
        date = FORMATS["date"](value)
        if column in ("date", "day", "on"):
            return f"on {date}"
        if (verb := in_words(column).removesuffix(" on").removesuffix(" at")).endswith("ed"):
            return f"{verb} on {date}"
        return f"whose {field_words(column, 'date')} is {date}"
    words = in_words(column.removesuffix("_id"))
    many = isinstance(value, int | float) and words.endswith("s") and not words.endswith(("ss", "us", "is"))
    return f"whose {words} {'are' if many else 'is'} {shown_value(value)}"
