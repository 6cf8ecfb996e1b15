"""Typed answers: named slots, each with one value, compared exactly once their types are read.

Not covered: which slots a task has (`toolorchestra.toolscale.tasks.answer_slots`), and answers in prose
(`toolorchestra.toolscale.answers.prose_answers`).
"""

from __future__ import annotations

import calendar
import datetime
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec

from toolorchestra.toolscale.answers.answers import boxed
from toolorchestra.toolscale.answers.mentions import tokens

SlotType = Literal["money", "number", "date", "time", "id", "name", "text", "true or false"]
"""What a slot may hold, in the order in which they are named."""

SUBMIT = "submit"
"""Name of the call that ends an episode with a typed answer."""
MAX_CHARACTERS = 20_000
"""A longer answer is wrong, unread."""
MAX_NUMBER = 10**30
CURRENCIES = {"USD": r"[$]|dollar|usd", "EUR": r"€|euro|eur\b", "GBP": r"£|pound|gbp"}
"""How the currencies that are known are written in small letters."""
_CURRENCY = r"(?:[$€£]|(?:us\s)?dollars?|euros?|usd|eur|pounds?|gbp)"
_DIGIT = re.compile(r"\d")
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d{1,30})(?:\.\d{1,30})?"
_AMOUNT = re.compile(rf"(-)?(?:{_CURRENCY}\s?)?(-)?({_DIGITS})(?:\s?(?:{_CURRENCY}|%|percent))?")
_WEEKDAYS = tuple(day.casefold() for day in calendar.day_name)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE_WORDS = re.compile(rf"(?:\w+day,? )?(?:{_DAY}(?: of)? [a-z]{{3,9}}\.?|[a-z]{{3,9}}\.? {_DAY})(?:,? \d{{4}})?")
_CLOCK = re.compile(r"\d{1,2}(?::\d{2}){1,2}(?:\s?[ap]\.?m\.?)?|\d{1,2}\s?[ap]\.?m\.?")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
NO_YEAR = "@"
"""How the reading of a date begins that names no year, as a date does whose year is known."""
_FENCED = re.compile(r"```[ \t]*+(?:json[ \t]*+)?\n(.*?)```", re.DOTALL | re.IGNORECASE)
_ABBREVIATED = re.compile(r"(?<=\w)\.(?=\s|$)")
_NOTHING = frozenset(("none", "nothing", "null"))
_SWITCH = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}

Value = None | bool | int | float | str | list[Any]
"""What stands in a slot."""


class AnswerSlot(msgspec.Struct, frozen=True):
    """One place of an answer.

    Attributes:
        name: What stands in it.
        types: What it may hold.
        unit: The currency of money, if it is known.
        options: The texts that it may hold, if they are few.
        nullable: Whether null says that there is none.
        several: Whether it holds a list, in any order.
        is_outcome: Whether it says how the request, or a part of it, ended.
    """

    name: str
    types: tuple[SlotType, ...] = ("text",)
    unit: str = ""
    options: tuple[str, ...] = ()
    nullable: bool = False
    several: bool = False
    is_outcome: bool = False

    def __str__(self) -> str:
        words: list[str] = [
            f"money in {self.unit}" if kind == "money" and self.unit else kind
            for kind in self.types
            if kind != "text" or not self.options
        ]
        if self.options:
            words.append(" | ".join(f'"{option}"' for option in self.options))
        kinds = " or ".join(words)
        return f"{self.name} ({f'list of {kinds}' if self.several else kinds}{' or null' if self.nullable else ''})"


class TypedAnswer(msgspec.Struct, frozen=True):
    """The slots of a task, and what is right in them.

    Attributes:
        slots: The slots.
        right: For each slot the readings of values that are right; of a list those of each of its values.
        values: For each slot a value that is right.
        text: The slots as they stand with the request.
    """

    slots: tuple[AnswerSlot, ...]
    right: tuple[tuple[frozenset[str], ...], ...]
    values: tuple[Value, ...]
    text: str = ""

    def __str__(self) -> str:
        return self.text or ", ".join(map(str, self.slots))

    def written(self, values: Sequence[Value] | None = None) -> str:
        """Return the answer with values in its slots, by default right ones, as JSON.

        >>> TypedAnswer((AnswerSlot("total", ("money",)),), ((frozenset(("#12.5",)),),), (12.5,)).written()
        '{"answer":{"total":12.5}}'
        """
        names = (slot.name for slot in self.slots)
        pairs = zip(names, self.values if values is None else values, strict=True)
        return msgspec.json.encode({"answer": dict(pairs)}).decode()


class JudgedSlot(NamedTuple):
    """A slot, what an answer has in it, what is right in it, and whether the first reads as the second."""

    slot: AnswerSlot
    given: Value
    value: Value
    holds: bool


def judged_slots(text: str, expected: TypedAnswer) -> list[JudgedSlot] | str:
    """Return the slots of an answer, as JSON, or what is wrong with it as a whole. It never raises."""
    found = _read(text, expected)
    if isinstance(found, str):
        return found
    return [
        JudgedSlot(slot, found[slot.name], value, reads_right(found[slot.name], right, several=slot.several))
        for slot, right, value in zip(expected.slots, expected.right, expected.values, strict=True)
    ]


def judge_typed(text: str, expected: TypedAnswer) -> list[str]:
    """Return what is wrong with an answer, as JSON; nothing if it is right. It never raises."""
    found = judged_slots(text, expected)
    if isinstance(found, str):
        return [found]
    return [
        f"the slot {one.slot.name!r} has {_shown(one.given)}, expected {_shown(one.value)}"
        for one in found
        if not one.holds
    ]


def reads_right(value: Value, right: Sequence[frozenset[str]], *, several: bool) -> bool:
    """Return whether a value reads as what is right in a slot; of several, whether each does, in any order."""
    if not several:
        return not isinstance(value, list) and not right[0].isdisjoint(readings(value))
    found = [readings(one) for one in (value if isinstance(value, list) else [value])]
    if not isinstance(value, list) and "none" in found[0]:
        found = []
    left = list(right)
    for item in found:
        match = next((one for one in left if not one.isdisjoint(item)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def _read(text: str, expected: TypedAnswer) -> dict[str, Value] | str:
    """Return what an answer has in its slots, or what is wrong with it."""
    if len(text) > MAX_CHARACTERS:
        return f"expected one JSON object, found {len(text):,} characters; at most {MAX_CHARACTERS:,} are read"
    text = text.strip()
    if not text.startswith("{"):
        blocks = _FENCED.findall(text) or [box for box in (boxed(text),) if box is not None]
        if len(blocks) != 1:
            return f"expected one JSON object, found {f'{len(blocks)} of them' if blocks else 'text'}"
        text = blocks[0].strip()
    try:
        found = _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        return f"expected one JSON object: {str(error)[:200]}"
    names = [slot.name for slot in expected.slots]
    answers = [value for name, value in found if name == "answer"] if isinstance(found, _Pairs) else []
    answer = answers[0] if len(answers) == 1 else None
    if not isinstance(answer, _Pairs):
        return 'expected an object {"answer": {…}}'
    values = dict(answer)
    if len(values) == len(answer) and values.keys() == set(names):
        return values
    given = Counter(name for name, _ in answer)
    if missing := [name for name in names if name not in given]:
        return f"the slot {missing[0]!r} is missing"
    if unknown := [name for name in given if name not in names]:
        return f"there is no slot {unknown[0][:80]!r}, only {', '.join(names) or 'none'}"
    repeated = next(name for name, count in given.items() if count > 1)
    return f"the slot {repeated!r} stands there {given[repeated]} times"


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of a JSON object, in which a key may stand more than once."""


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_refuse)


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) > MAX_NUMBER:  # its digits could be more than Python writes
        return "a number beyond all bounds"
    try:
        text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    except (ValueError, RecursionError):
        text = "a value that cannot be shown"
    return text if len(text) <= 80 else text[:79] + "…"


def readings(value: Any) -> frozenset[str]:
    """Return what a value can be read as: each type of value in its one spelling."""
    if value is None:
        return frozenset(("none",))
    if isinstance(value, bool):
        return frozenset(("yes" if value else "no",))
    if isinstance(value, int | float):
        return frozenset((_number(value),)) if abs(value) < MAX_NUMBER else frozenset()
    if not isinstance(value, str):
        return frozenset()
    text = plain_text(value)
    found = {f"={text}"}
    if text in _NOTHING:
        found.add("none")
    if text in _SWITCH:
        found.add(_SWITCH[text])
    if _DIGIT.search(text) is None:
        return frozenset(found)
    if (amount := _AMOUNT.fullmatch(text)) and not (amount[1] and amount[2]):
        number = _number((amount[1] or amount[2] or "") + amount[3].replace(",", ""))
        stated = {code for code, name in CURRENCIES.items() if re.search(name, text)}
        found |= {f"{number} {code}" for code in stated} if len(stated) == 1 else set() if stated else {number}
    if _ISO_DATE.fullmatch(text) or _DATE_WORDS.fullmatch(text):
        dates = [token for token in tokens(text) if token[0] == "@" and _is_that_day(text, token)]
        found.update(dates)
        found |= {f"@????{date[5:]}" for date in dates}
        found |= {f"{NO_YEAR}{date[5:]}" for date in dates if "?" in date}
    if _CLOCK.fullmatch(text):
        found |= {token for token in tokens(text) if token[0] == "~"}
    return frozenset(found)


def _is_that_day(text: str, date: str) -> bool:
    """Return whether a date, as a token, falls on the day of the week that a text names, if it names one."""
    named = next((place for place, day in enumerate(_WEEKDAYS) if text.startswith(day)), None)
    if named is None or "?" in date:
        return True
    try:
        day = datetime.date.fromisoformat(date[1:])
    except ValueError:  # there is no such day
        return False
    return day.weekday() == named


def _number(value: float | str) -> str:
    """Return a number in its one spelling, that of `toolorchestra.toolscale.answers.mentions.tokens`."""
    text = f"{Decimal(str(value)):f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    whole, _, fraction = text.removeprefix("-").partition(".")
    digits = (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")
    return f"#-{digits}" if text.startswith("-") and digits != "0" else f"#{digits}"


def plain_text(text: str) -> str:
    """Return a text without differences that do not count: case, accents, spaces, quotes, full stops after words."""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in decomposed if not unicodedata.combining(char)).replace("’", "'")
    plain = " ".join(text.casefold().split()).strip("\"'")
    return _ABBREVIATED.sub("", plain) if "." in plain else plain
