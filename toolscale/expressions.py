"""Expressions of reference trajectories: how an intent names values of its bindings and of earlier results.

- ``$dishes.0.price`` takes a value of any type; dots descend into objects, numbers index lists and ``*``
  projects over one (``$dishes.*.price`` is the list of prices). ``!$path`` is its negation.
- ``"Table {table.id} on {date:date}"`` builds a string; after the colon comes one of `FORMATS`.
- Everything else is literal.

The language computes nothing: whatever an intent decides, it decides in its SQL bindings.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any

from toolorchestra.toolscale.errors import TaskError

_PLACEHOLDER = re.compile(r"\{([^{}:]+)(?::([a-z]+))?\}")


def shown_value(value: Any) -> str:
    """Return a value as a person writes it."""
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


def _listed(values: list[Any], last: str) -> str:
    words = [shown_value(value) for value in values]
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def _long_date(value: str) -> str:
    day = datetime.date.fromisoformat(value)
    return f"{day:%B} {day.day}, {day.year}"


FORMATS: dict[str, Callable[[Any], str]] = {
    "date": _long_date,
    "weekday": lambda value: f"{datetime.date.fromisoformat(value):%A}",
    "money": lambda value: f"${value:,.2f}",
    "number": lambda value: f"{value:,}",
    "time": lambda value: f"{datetime.time.fromisoformat(value):%I:%M %p}".lstrip("0"),
    "and": lambda values: _listed(values, "and"),
    "or": lambda values: _listed(values, "or"),
    "plus": lambda values: " + ".join(map(shown_value, values)),
}
"""Formats of placeholders: ``{date:date}`` is "July 30, 2025", ``{names:and}`` is "a, b and c"."""


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


def fill(template: str, scope: Mapping[str, Any]) -> str:
    """Return `template` with its placeholders filled from `scope`.

    >>> fill("{names:and} on {day:date}", {"names": ["Ada", "Bo"], "day": "2025-07-30"})
    'Ada and Bo on July 30, 2025'
    """

    def value(found: re.Match[str]) -> str:
        content = lookup(found[1], scope)
        if not found[2]:
            return shown_value(content)
        if found[2] not in FORMATS:
            raise TaskError(f"Unknown format {found[2]!r} in {found[0]}; expected one of {', '.join(FORMATS)}.")
        try:
            return FORMATS[found[2]](content)
        except (ValueError, TypeError):
            raise TaskError(f"{found[0]} cannot format {content!r}.") from None

    return _PLACEHOLDER.sub(value, template)


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
