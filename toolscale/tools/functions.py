"""Tools that SQL cannot express: trusted Python functions of this library, named in a domain's YAML.

Each takes the validated arguments and the domain's date; a `ValueError` becomes the call's error message.
Nothing here evaluates text as code: `calculator` walks a syntax tree of arithmetic only.
"""

from __future__ import annotations

import ast
import datetime
import math
import operator
import re
import warnings
from collections.abc import Callable
from typing import Any

from toolorchestra.toolscale.common.errors import UnknownNameError
from toolorchestra.toolscale.database.format import ToolSpec
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolResult

Function = Callable[..., Any]

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_MAX_EXPRESSION = 500


def calculator(expression: str, today: datetime.date) -> float:
    """Return the value of an arithmetic expression over numbers, rounded to six decimals.

    >>> calculator("2 * (12.5 + 3)", datetime.date(2025, 7, 23))
    31.0

    Raises:
        ValueError: It is not arithmetic, is too long, or has no finite value.
    """
    if len(expression) > _MAX_EXPRESSION:
        raise ValueError(f"The expression has {len(expression)} characters; at most {_MAX_EXPRESSION}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # about the expression, not about us
            tree = ast.parse(expression.strip(), mode="eval")
        value = _value(tree.body)
    except (SyntaxError, RecursionError, MemoryError, ValueError, OverflowError) as error:
        reason = str(error.args[0]) if isinstance(error, ValueError) and error.args else "cannot be read"
        remedy = "Use numbers, + - * / // % and parentheses, e.g. '2 * 12.5 + 3'."
        raise ValueError(f"{expression!r} is not arithmetic ({reason}). {remedy}") from None
    except ZeroDivisionError:
        raise ValueError(f"{expression!r} divides by zero.") from None
    if not math.isfinite(value):
        raise ValueError(f"{expression!r} has no finite value.")
    return round(value, 6)


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
        case _:
            raise ValueError(f"{type(node).__name__} is not allowed")


def look_calendar(expression: str, today: datetime.date) -> dict[str, str]:
    """Return the date and weekday that a phrase names, seen from the domain's today.

    "last Monday" is the latest Monday before today, "next Monday" the first after it, "this Monday" the
    Monday of today's week (Monday to Sunday).

    >>> look_calendar("next Wednesday", datetime.date(2025, 7, 23))
    {'date': '2025-07-30', 'weekday': 'Wednesday'}

    Raises:
        ValueError: The phrase names no date.
    """
    day = _day(" ".join(expression.lower().split()), today)
    if day is None:
        raise ValueError(
            f"{expression!r} names no date. Use e.g. 'today', 'tomorrow', 'last Monday', 'next Wednesday', "
            "'in 3 days', '2 weeks ago' or '2025-07-30'."
        )
    return {"date": day.isoformat(), "weekday": f"{day:%A}"}


def _day(phrase: str, today: datetime.date) -> datetime.date | None:
    relative = {"today": 0, "tomorrow": 1, "yesterday": -1, "the day after tomorrow": 2, "day after tomorrow": 2}
    try:
        if phrase in relative:
            return today + datetime.timedelta(relative[phrase])
        if found := re.fullmatch(r"(in )?(\d{1,4}) (day|week)s?( ago)?", phrase):
            if bool(found[1]) == bool(found[4]):
                return None
            away = datetime.timedelta(**{f"{found[3]}s": int(found[2])})
            return today + away if found[1] else today - away
        if found := re.fullmatch(rf"(last|next|this) ({'|'.join(_WEEKDAYS)})", phrase):
            ahead = _WEEKDAYS.index(found[2]) - today.weekday()
            days = {"last": ahead % 7 - 7, "this": ahead, "next": ahead % 7 or 7}
            return today + datetime.timedelta(days[found[1]])
        return datetime.date.fromisoformat(phrase)
    except (ValueError, OverflowError):
        return None


FUNCTIONS: dict[str, Function] = {"calculator": calculator, "look_calendar": look_calendar}
"""Functions that a domain may name as a tool's ``function``."""


class FunctionTool(Tool):
    """A tool that runs a registered function (`ToolSpec.function`); `today` is the domain's date."""

    effect = "pure"

    def __init__(self, name: str, spec: ToolSpec, *, today: datetime.date) -> None:
        super().__init__(name, spec.description, spec.parameters, price=spec.price, latency=spec.latency)
        if spec.function not in FUNCTIONS:
            raise UnknownNameError("function", str(spec.function), FUNCTIONS)
        self._function = FUNCTIONS[spec.function]
        self._today = today

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Return the function's value, or its error as the call's: it depends on nothing but the arguments."""
        try:
            return ToolResult.ok(self._function(**arguments, today=self._today))
        except ValueError as error:
            return ToolResult.failed(str(error))
        except Exception as error:
            reason = f"{type(error).__name__}: these arguments are beyond what {self.name} can do"
            return ToolResult.failed(f"{reason}. Use smaller or simpler ones.")
