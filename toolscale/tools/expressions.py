"""Expressions of reference trajectories: how an intent names values of its bindings and of earlier results.

- ``$dishes.0.price`` takes a value of any type; dots descend into objects, numbers index lists and ``*``
  projects over one (``$dishes.*.price`` is the list of prices). ``!$path`` is its negation.
- ``"Table {table.id} on {date:date}"`` builds a string; after the colon comes one of `FORMATS`.
- ``"{guests guest|guests}"`` is a number (or the length of a list) with the word that agrees with it, and
  ``"{guests|is|are}"`` that word alone.
- Everything else is literal.

The language computes nothing: whatever an intent decides, it decides in its SQL bindings.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any

from toolorchestra.toolscale.common.errors import TaskError

_PLACEHOLDER = re.compile(r"\{([^{}:|]+?)(?::([a-z]+))?(?:([ |])([^{}|:]+)\|([^{}|:]+))?\}")
_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_AN = re.compile(r"(?:[aeio]|u(?!ni|se|su|ti|ro)|honest|hour|8|11\b|18\b)(?!n?e\b)", re.IGNORECASE)


def shown_value(value: Any) -> str:
    """Return a value as a person writes it."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return f"{value:.0f}" if whole else str(value)


def _listed(values: list[Any], last: str) -> str:
    words = [shown_value(value) for value in values]
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def _long_date(value: str) -> str:
    day = datetime.date.fromisoformat(value)
    return f"{day:%B} {day.day}, {day.year}"


def _day(value: str) -> str:
    day = datetime.date.fromisoformat(value)
    return f"{day:%B} {day.day}"


def _money(value: float | str, sign: str = "$") -> str:
    amount = f"{float(value):z,.2f}"
    return f"-{sign}{amount[1:]}" if amount[0] == "-" else f"{sign}{amount}"


def _clock(value: str) -> str:
    time = datetime.time.fromisoformat(value)
    minutes = f":{time:%M}" if time.minute else ""
    return f"{(time.hour - 1) % 12 + 1}{minutes} {time:%p}".lower()


def _in_words(value: float) -> str:
    return _NUMBERS[int(value)] if value in range(len(_NUMBERS)) else shown_value(value)


def _near(value: str, today: str) -> str:
    day = datetime.date.fromisoformat(value)
    distance = (day - datetime.date.fromisoformat(today)).days
    return {-1: "yesterday", 0: "today", 1: "tomorrow"}.get(distance) or f"{day:%A}, {_day(value)}"


def _on(value: str, today: str) -> str:
    near = _near(value, today)
    return f"on {near}" if "," in near else near


FORMATS: dict[str, Callable[[Any], str]] = {
    "date": _long_date,
    "day": _day,
    "weekday": lambda value: f"{datetime.date.fromisoformat(value):%A}",
    "money": _money,
    "dollars": lambda value: _money(value).removesuffix(".00"),
    "euros": lambda value: _money(value, "€").removesuffix(".00"),
    "number": lambda value: f"{value:,}",
    "time": lambda value: f"{datetime.time.fromisoformat(value):%I:%M %p}".lstrip("0"),
    "clock": _clock,
    "words": _in_words,
    "a": lambda value: f"{'an' if _AN.match(shown_value(value)) else 'a'} {shown_value(value)}",
    "and": lambda values: _listed(values, "and"),
    "or": lambda values: _listed(values, "or"),
    "days": lambda values: _listed([_day(value) for value in values], "and"),
    "ordays": lambda values: _listed([_day(value) for value in values], "or"),
    "plus": lambda values: " + ".join(map(shown_value, values)),
}
"""Formats of placeholders: ``{date:date}`` is "July 30, 2025", ``{names:and}`` is "a, b and c"."""

FORMATS_BY_TODAY: dict[str, Callable[[Any, Any], str]] = {"near": _near, "on": _on}
"""Formats that depend on the day of the task too: ``{date:on}`` is "tomorrow" or "on Friday, July 25"."""


def lookup(path: str, scope: Mapping[str, Any]) -> Any:
    """Return the value that a dotted `path` names in `scope`.

    >>> lookup("dishes.*.price", {"dishes": [{"price": 4}, {"price": 5}]})
    [4, 5]

    Raises:
        TaskError: Nothing is there.
    """
    return _descend(scope, path.split("."), path)


def _descend(value: Any, parts: list[str], path: str) -> Any:
    for position, part in enumerate(parts):
        if part == "*" and isinstance(value, list):
            return [_descend(item, parts[position + 1 :], path) for item in value]
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            known = f"one of {', '.join(map(str, value))}" if isinstance(value, Mapping) else type(value).__name__
            raise TaskError(f"Nothing at {path!r}: {part!r} is not there; expected {known}.") from None
    return value


def placeholders(template: str) -> list[str]:
    """Return the paths that the placeholders of a template name.

    >>> placeholders("{names:and} on {day.date:day} with {guests guest|guests}")
    ['names', 'day.date', 'guests']
    """
    return [found[1] for found in _PLACEHOLDER.finditer(template)]


def fill(template: str, scope: Mapping[str, Any]) -> str:
    """Return `template` with its placeholders filled from `scope`.

    >>> fill("{names:and} on {day:date}", {"names": ["Ada", "Bo"], "day": "2025-07-30"})
    'Ada and Bo on July 30, 2025'
    >>> fill("{n:words guest|guests} {n|is|are} coming {day:on}", {"n": 1, "day": "2025-07-24", "today": "2025-07-23"})
    'one guest is coming tomorrow'
    """

    def value(found: re.Match[str]) -> str:
        content = lookup(found[1], scope)
        text = "" if found[3] == "|" else _formatted(found, content, scope)
        return text if found[3] is None else f"{text}{found[3].strip('|')}{_agreeing(found, content)}"

    return _PLACEHOLDER.sub(value, template)


def _formatted(found: re.Match[str], content: Any, scope: Mapping[str, Any]) -> str:
    """Return the value of a placeholder as its format says."""
    name = found[2]
    if not name:
        return shown_value(len(content) if isinstance(content, list) and found[3] else content)
    try:
        if name in FORMATS_BY_TODAY:
            return FORMATS_BY_TODAY[name](content, scope["today"])
        if name in FORMATS:
            return FORMATS[name](content)
    except (ValueError, TypeError, KeyError):
        raise TaskError(f"{found[0]} cannot format {content!r}.") from None
    known = ", ".join((*FORMATS, *FORMATS_BY_TODAY))
    raise TaskError(f"Unknown format {name!r} in {found[0]}; expected one of {known}.")


def _agreeing(found: re.Match[str], content: Any) -> str:
    """Return the word of a placeholder that agrees with its number."""
    number = len(content) if isinstance(content, list) else content
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TaskError(f"{found[0]} expects a number or a list, found {content!r}.")
    return found[4] if number == 1 else found[5]


def evaluate(expression: Any, scope: Mapping[str, Any]) -> Any:
    """Return the value of an `expression` (a string, or a list or object of expressions) in `scope`."""
    if isinstance(expression, str):
        if expression.startswith("!$"):
            return not lookup(expression[2:], scope)
        if expression.startswith("$"):
            return lookup(expression[1:], scope)
        return fill(expression, scope)
    if isinstance(expression, list):
        return [evaluate(item, scope) for item in expression]
    if isinstance(expression, dict):
        return {key: evaluate(item, scope) for key, item in expression.items()}
    return expression
