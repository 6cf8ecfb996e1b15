"""Typed answers with one thing changed, and right ones in other spellings: what `validate` tries on the comparison.

An attempt is made of the right answer of a task and of what other tasks of its intent have in the same slots. A plain
value that happens to read as right, such as that of another task, is left out; what hedges, denies or lists is always
wrong. Not covered: episodes that do something else (`toolorchestra.toolscale.validation.detours`).
"""

from __future__ import annotations

import datetime
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from toolorchestra.toolscale.answers.mentions import MONTHS
from toolorchestra.toolscale.answers.typed_answers import AnswerSlot, TypedAnswer, Value, reads_right
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.answer_slots import OUTCOME, SlotTable
from toolorchestra.toolscale.tasks.task import Task

Neighbours = Mapping[str, Sequence[Value]]
"""Values of slots that other tasks of the intent have, by the names of the slots."""

MAX_NEIGHBOURS = 8
"""Values of others that are tried in one slot."""
_ALWAYS_WRONG = frozenset(
    ("object", "empty text", "list", "two values", "a or b", "a, b", "not a", "at least a", "maybe a", "list in a list")
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"(\d{2}):(\d{2})")
_encode = json.JSONEncoder(ensure_ascii=False).encode
_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£"}


class Attempt(NamedTuple):
    """An answer that is tried: what was done to the right one, the text, and whether it is right."""

    kind: str
    text: str
    right: bool


def slots_of(domain: Domain, tasks: Sequence[Task]) -> SlotTable:
    """Return the slots of the tasks of a domain, and of `tasks`, which may be others."""
    return domain.slots.with_tasks(tasks)


def neighbours_of(answers: Sequence[TypedAnswer]) -> dict[str, list[Value]]:
    """Return the values that answers have in their slots, each once, in order."""
    found: dict[str, dict[str, Value]] = {}
    for answer in answers:
        for slot, value in zip(answer.slots, answer.values, strict=True):
            found.setdefault(slot.name, {}).setdefault(_written(value), value)
    return {name: list(values.values()) for name, values in found.items()}


def attempts(typed: TypedAnswer, neighbours: Neighbours, key: str) -> Iterator[Attempt]:
    """Yield changed answers, and right ones in other spellings; which neighbours are tried, the `key` decides."""
    yield from wrong_answers(typed, neighbours, key)
    yield from (Attempt(kind, text, True) for kind, text in spellings(typed))


def wrong_answers(typed: TypedAnswer, neighbours: Neighbours, key: str) -> Iterator[Attempt]:
    """Yield answers with one thing changed."""
    rng = random.Random(f"attacks:{key}")
    written = _Written(typed)
    for place, (slot, right, value) in enumerate(zip(typed.slots, typed.right, typed.values, strict=True)):
        others = [
            other for other in neighbours.get(slot.name, ()) if not reads_right(other, right, several=slot.several)
        ]
        others = rng.sample(others, min(MAX_NEIGHBOURS, len(others)))
        for kind, other in _changed(slot, value, others):
            if kind in _ALWAYS_WRONG or not reads_right(other, right, several=slot.several):
                yield Attempt(kind, written.with_value(place, other), False)
        yield Attempt("slot missing", written.without(place), False)
        yield Attempt("slot twice", written.with_more(slot.name, value), False)
        yield Attempt("slot twice, once wrong", written.with_more(slot.name, others[0] if others else "x"), False)
    yield Attempt("unknown slot", written.with_more("note", "x"), False)
    whole = typed.written()
    yield Attempt("two answers", f"{whole}{whole}", False)
    yield Attempt("answer twice", f'{{"answer":{{}},{whole[1:]}', False)
    yield Attempt("in a sentence", f"The answer is {whole}", False)
    yield Attempt("slots without the object", json.dumps(dict(written.pairs)), False)


def spellings(typed: TypedAnswer) -> Iterator[tuple[str, str]]:
    """Yield the right answer in the spellings that its types allow: what was done, and the text."""
    written = _Written(typed)
    yield "as it is", typed.written()
    yield "with spaces", json.dumps({"answer": dict(written.pairs)}, indent=2)
    yield "in a block of code", f"Here it is:\n\n```json\n{typed.written()}\n```"
    yield "slots in reverse", json.dumps({"answer": dict(reversed(written.pairs))})
    for place, (slot, value) in enumerate(zip(typed.slots, typed.values, strict=True)):
        if isinstance(value, list):
            yield "list in reverse", written.with_value(place, value[::-1])
            spelled = [{**dict(_spelled(slot, one))} for one in value]
            for kind in dict.fromkeys(kind for one in spelled for kind in one):
                yield kind, written.with_value(place, [s.get(kind, v) for s, v in zip(spelled, value, strict=True)])
        else:
            yield from ((kind, written.with_value(place, other)) for kind, other in _spelled(slot, value))


class _Written:
    """An answer as JSON, of which one slot is changed at a time."""

    def __init__(self, typed: TypedAnswer) -> None:
        self.pairs = [(slot.name, value) for slot, value in zip(typed.slots, typed.values, strict=True)]
        self._parts = [f"{_written(name)}:{_written(value)}" for name, value in self.pairs]

    def with_value(self, place: int, value: Any) -> str:
        """Return it with another value in a slot."""
        part = f"{_written(self.pairs[place][0])}:{_written(value)}"
        return self._of([*self._parts[:place], part, *self._parts[place + 1 :]])

    def without(self, place: int) -> str:
        """Return it without a slot."""
        return self._of([*self._parts[:place], *self._parts[place + 1 :]])

    def with_more(self, name: str, value: Any) -> str:
        """Return it with one more slot, which may be there already."""
        return self._of([*self._parts, f"{_written(name)}:{_written(value)}"])

    @staticmethod
    def _of(parts: Sequence[str]) -> str:
        return f'{{"answer":{{{",".join(parts)}}}}}'


def _written(value: Any) -> str:
    return _encode(value)


def _changed(slot: AnswerSlot, value: Value, others: Sequence[Value]) -> Iterator[tuple[str, Any]]:
    """Yield other values for a slot, some of which may be right: what was done, and the value."""
    yield from (("value of another task", other) for other in others)
    yield from (("another outcome" if slot.name == OUTCOME else "another option", option) for option in slot.options)
    yield "null", None
    yield "object", {"value": value}
    yield "empty text", ""
    if isinstance(value, list):
        yield from _changed_list(value, others)
        return
    other = next((one for one in others if not isinstance(one, list)), "something else")
    this, that = _said(value), _said(other)
    yield "list", [value]
    yield "two values", [value, other]
    yield "a or b", f"{this} or {that}"
    yield "a or b", f"{that} or {this}"
    yield "a, b", f"{this}, {that}"
    yield "not a", f"not {this}"
    yield "at least a", f"at least {this}"
    yield "maybe a", f"maybe {this}"
    yield "wrong type", 0 if isinstance(value, bool) or value is None else True
    yield "wrong type", 1e400 if isinstance(value, str) else "one"
    yield from _off_by_one(value)


def _changed_list(values: Sequence[Value], others: Sequence[Value]) -> Iterator[tuple[str, Any]]:
    other = next((one for listed in others if isinstance(listed, list) for one in listed), "something else")
    yield "list cut off", values[:-1]
    yield "list with one more", [*values, other]
    yield "list in a list", [values]
    yield "list in words", " and ".join(map(_said, values)) + "."
    if values:
        yield "item twice", [*values, values[0]]
        yield "a or b", [f"{_said(values[0])} or {_said(other)}", *values[1:]]
        yield "another item", [other, *values[1:]]
        yield from ((kind, [one, *values[1:]]) for kind, one in _off_by_one(values[0]))


def _said(value: Value) -> str:
    """Return a value as words have it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _off_by_one(value: Value) -> Iterator[tuple[str, Any]]:
    """Yield what is next to a number, a date or a time, and other texts than a text."""
    if isinstance(value, bool) or value is None or isinstance(value, list):
        return
    if isinstance(value, int | float):
        yield "number off by one", value + 1
        yield "number off by one", value - 1
        yield "number off by one", str(value + 1)
        yield "number off by little", value + 0.01
        yield "sign", -value
        yield "ten times as much", value * 10
    elif _DATE.fullmatch(value) and (day := _day(value)):
        for days in (1, -1):
            other = day + datetime.timedelta(days)
            yield "date off by one", other.isoformat()
            yield "date off by one", _long(other)
    elif found := _TIME.fullmatch(value):
        minutes = int(found[1]) * 60 + int(found[2])
        for time in (minutes + 1, minutes - 1, minutes + 720):
            yield "time off", f"{time // 60 % 24:02d}:{time % 60:02d}"
    else:
        yield "text cut off", value[:-1]
        yield "text with one more", f"{value} 1"
        if number := re.search(r"\d+", value):
            after = f"{int(number[0]) + 1:0{len(number[0])}d}"
            yield "number off by one", value[: number.start()] + after + value[number.end() :]


def _day(text: str) -> datetime.date | None:
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        return None
    return day if datetime.date.min < day < datetime.date.max else None


def _long(day: datetime.date) -> str:
    return f"{MONTHS[day.month - 1].capitalize()} {day.day}, {day.year}"


def _spelled(slot: AnswerSlot, value: Value) -> Iterator[tuple[str, Value]]:
    """Yield other spellings of a right value."""
    if value is None:
        yield "none for null", "none"
    elif isinstance(value, bool):
        yield "yes for true", "yes" if value else "no"
    elif isinstance(value, int | float):
        yield "number as text", str(value)
        if round(value, 2) == value:
            yield "number with decimals", f"{value:,.2f}"
            if "money" in slot.types:
                sign = _SIGNS.get(slot.unit, "$")
                yield "money with its sign", f"{'-' if value < 0 else ''}{sign}{abs(value):,.2f}"
                yield "money with its currency", f"{value:.2f} {slot.unit or 'USD'}"
    elif isinstance(value, str) and _DATE.fullmatch(value) and (day := _day(value)):
        yield "date in words", _long(day)
        yield "date in words", f"{day.day} {MONTHS[day.month - 1].capitalize()} {day.year}"
        yield "date in words", f"{day:%A}, {_long(day)}"
    elif isinstance(value, str) and (found := _TIME.fullmatch(value)):
        hours = int(found[1])
        yield "time on a twelve-hour clock", f"{hours % 12 or 12}:{found[2]} {'pm' if hours >= 12 else 'am'}"
    elif isinstance(value, str):
        yield "in capitals", value.upper()
        yield "in small letters", value.lower()
        yield "with spaces around it", f"  {value} "
