"""The filters and orders of the list of episodes, as SQL with bound parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolorchestra.toolscale.common.errors import OptionError

ORDERS = {
    "number": "number",
    "task": "task_id",
    "outcome": "outcome",
    "level": "level",
    "turns": "turns",
    "calls": "calls",
    "cost": "cost",
    "clock": "clock",
    "reward": "reward",
}
"""What the list can be ordered by, and the columns."""
_EQUAL = {
    "id": "id",
    "recording": "recording",
    "outcome": "outcome",
    "env": "env_id",
    "level": "level",
    "intent": "intent",
    "task": "task_id",
}
_HAVING = {"reason": "reasons", "tool": "tools"}
_BOUNDS = {"min_cost": "cost >= ?", "max_cost": "cost <= ?"}


def condition(filters: Mapping[str, str], policies: Mapping[str, Sequence[int]]) -> tuple[str, list[Any]]:
    """Return the condition that filters stand for, and its parameters; empty ones filter nothing.

    Args:
        filters: `outcome`, `reason`, `level`, `intent`, `tool`, `policy`, `env`, `recording`, `task` (its id) or `id`,
            `min_cost` and `max_cost` (US dollars), and `text`: a part of the task's id or of the reason.
        policies: Numbers of the recordings of each policy.

    Raises:
        OptionError: There is no such filter, or a bound is no number.
    """
    parts: list[str] = ["1"]
    values: list[Any] = []
    for name, value in filters.items():
        if value == "":
            continue
        if name in _EQUAL:
            parts.append(f"{_EQUAL[name]} = ?")
            values.append(_number(name, value) if name in ("id", "recording", "level") else value)
        elif name in _HAVING:
            parts.append(f"id IN (SELECT episode FROM {_HAVING[name]} WHERE name = ?)")
            values.append(value)
        elif name in _BOUNDS:
            parts.append(_BOUNDS[name])
            values.append(_number(name, value))
        elif name == "policy":
            numbers = policies.get(value, ())
            parts.append(f"recording IN ({', '.join('?' * len(numbers))})")
            values += numbers
        elif name == "text":
            pattern = "%" + value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
            parts.append("(task_id LIKE ? ESCAPE '\\' OR why LIKE ? ESCAPE '\\')")
            values += [pattern, pattern]
        else:
            known = ", ".join([*_EQUAL, *_HAVING, *_BOUNDS, "policy", "text"])
            raise OptionError(f"Unknown filter {name[:40]!r}. Known: {known}.")
    return " AND ".join(parts), values


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise OptionError(f"Expected a number for the filter {name}, got {value[:40]!r}.") from None
