"""What functions that write tables of the documents have in common: reading records, and numbers and tables as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
Rows = Iterable[Sequence[str]]


def read(name: str) -> Any:
    """Return the record of a name."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def markdown(header: str, rows: Rows) -> str:
    """Return a table; a column whose title ends in ``:`` is aligned to the right."""
    titles = header.split("|")
    rule = ["--:" if title.endswith(":") else "---" for title in titles]
    lines = ["| " + " | ".join(title.rstrip(":") for title in titles) + " |", "|" + "|".join(rule) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines).replace("|  |", "| |") + "\n"


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent, without the sign."""
    return f"{100 * share:.{digits}f}"


def interval(found: Mapping[str, float], digits: int, scale: float = 1) -> str:
    """Return a difference with its 95 % interval."""
    low, high = (f"{scale * found[end]:.{digits}f}" for end in ("low", "high"))
    return f"{scale * found['estimate']:+.{digits}f} [{low}, {high}]"


def change(before: float, after: float, digits: int = 1, scale: float = 100) -> str:
    """Return a value before and after; in percent, without the sign, if not scaled otherwise."""
    return f"{scale * before:.{digits}f} → {scale * after:.{digits}f}"
