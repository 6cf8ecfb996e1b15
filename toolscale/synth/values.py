"""Values of an external database, brought into one spelling: dates, booleans, numbers, text."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from toolorchestra.toolscale.tool import SAFE_INTEGER

Type = Literal["TEXT", "INTEGER", "REAL"]
Shape = Literal["text", "json", "date", "datetime", "flag", "number"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?:[T ](?P<h>\d{1,2}):(?P<min>\d{2})(?::(?P<s>\d{2})(?:\.\d+)?)?\s*(?:Z|UTC|[+-]\d{2}:?\d{2})?)?"
_SPELLINGS = tuple(
    re.compile(pattern + _TIME, re.IGNORECASE)
    for pattern in (
        r"(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})",
        r"(?P<a>\d{1,2})(?P<sep>[-/.])(?P<b>\d{1,2})(?P=sep)(?P<y>\d{4})",
        r"(?P<d>\d{1,2})[ -](?P<name>[a-z]{3})[a-z]*\.?,?[ -](?P<y>\d{4})",
        r"(?P<name>[a-z]{3})[a-z]*\.? (?P<d>\d{1,2}),? (?P<y>\d{4})",
        r"(?P<y>(?:19|20)\d{2})(?P<m>\d{2})(?P<d>\d{2})",
    )
)
_DATED = re.compile(
    r"(?:^|_)(?:date|dated|day|at|on|time|timestamp|datetime|since|until|created|updated|born|dob)(?:_|$)"
)
_FLAG = re.compile(
    r"^(?:is|has|can|was|allows?|should)_|^(?:active|enabled|disabled|deleted|archived|paid|available|verified|visible"
    r"|published|confirmed|completed|done|approved|discontinued|blocked)$"
)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,10})?")
_CONTROL = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010fffd]")


class Cells(NamedTuple):
    """The cells of a column in one type and spelling, and what they look like."""

    values: list[Any]
    type: Type
    shape: Shape


def spelled(name: str, declared: str, values: Sequence[Any]) -> Cells | None:
    """Return the cells of the column `name` in one type and spelling; None where they are BLOBs.

    Missing are NULLs, empty texts and numbers that are none.

    >>> spelled("born", "TEXT", ["3 July 1990", None, "1990-07-04"]).values
    ['1990-07-03', None, '1990-07-04']
    """
    found = [_cleaned(value) for value in values]
    present = [value for value in found if value is not None]
    if any(isinstance(value, bytes) for value in present) or (not present and declared == "BLOB"):
        return None
    if not present:
        return Cells(found, *_declared(name, declared))
    if dated := _dates(name, found, present):
        return dated
    if all(isinstance(value, int) for value in present):
        shape: Shape = "flag" if set(present) <= {0, 1} and ("BOOL" in declared or _FLAG.search(name)) else "number"
        real = shape == "number" and any(word in declared for word in ("REAL", "FLOA", "DOUB", "DEC", "NUM", "MONEY"))
        return (
            Cells([v if v is None else float(v) for v in found], "REAL", shape)
            if real
            else Cells(found, "INTEGER", shape)
        )
    if all(isinstance(value, (int, float)) for value in present):
        return Cells([value if value is None else float(value) for value in found], "REAL", "number")
    texts = [value if value is None else str(value) for value in found]
    if not declared and all(_NUMBER.fullmatch(value) for value in texts if value is not None):
        whole = all("." not in value for value in texts if value is not None)
        kind: type = int if whole else float
        return Cells([v if v is None else kind(v) for v in texts], "INTEGER" if whole else "REAL", "number")
    return Cells(texts, "TEXT", "json" if all(map(_is_json, filter(None, texts))) else "text")


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _CONTROL.sub(" ", value).strip() or None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, int) and abs(value) > SAFE_INTEGER else value


def _declared(name: str, declared: str) -> tuple[Type, Shape]:
    """Return the type and shape of a column without values."""
    if re.search(r"DATE|TIME", declared) or (not declared and _DATED.search(name)):
        return "TEXT", "datetime" if "TIME" in declared else "date"
    if "BOOL" in declared:
        return "INTEGER", "flag"
    if "INT" in declared:
        return "INTEGER", "number"
    if re.search(r"REAL|FLOA|DOUB|DEC|NUM|MONEY", declared):
        return "REAL", "number"
    return "TEXT", "text"


def _is_json(text: str) -> bool:
    if text[0] not in "[{":
        return False
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _dates(name: str, values: Sequence[Any], present: Sequence[Any]) -> Cells | None:
    """Return the cells as ISO dates, or dates and times, if that is what they all are."""
    hinted = _DATED.search(name) is not None
    if all(isinstance(value, str) for value in present):
        found = [_SPELLED.fullmatch(value) for value in present]
        if not all(found) or (not hinted and all(value.isdecimal() for value in present)):
            return None
        month_first = not any(
            int(match["a"]) > 12 for match in map(_match, present) if match and match.groupdict().get("a")
        )
        moments = [None if value is None else _moment(value, month_first) for value in values]
    elif hinted and all(isinstance(value, (int, float)) and 3e8 <= value < 5e12 for value in present):
        epoch = datetime.datetime(1970, 1, 1)
        moments = [
            None if v is None else epoch + datetime.timedelta(seconds=int(v / 1000 if v > 1e11 else v)) for v in values
        ]
    else:
        return None
    if any(moment is None and value is not None for moment, value in zip(moments, values, strict=True)):
        return None
    if all(moment is None or moment.time() == datetime.time() for moment in moments):
        return Cells([m if m is None else m.date().isoformat() for m in moments], "TEXT", "date")
    return Cells([m if m is None else m.isoformat(" ", "seconds") for m in moments], "TEXT", "datetime")


_SPELLED = re.compile(r"[\d\w.,/:+\- ]{6,40}")  # cheap look before the careful one


def _match(value: str) -> re.Match[str] | None:
    return next((match for pattern in _SPELLINGS if (match := pattern.fullmatch(value))), None)


def _moment(value: str, month_first: bool) -> datetime.datetime | None:
    match = _match(value)
    if match is None:
        return None
    part = match.groupdict()
    if part.get("name"):
        month, day = _MONTHS.index(part["name"].lower()) + 1 if part["name"].lower() in _MONTHS else 0, int(part["d"])
    elif part.get("a"):
        first, second = int(part["a"]), int(part["b"])
        swap = part["sep"] == "/" and month_first
        month, day = (first, second) if swap else (second, first)
    else:
        month, day = int(part["m"]), int(part["d"])
    try:
        return datetime.datetime(
            int(part["y"]), month, day, int(part["h"] or 0), int(part["min"] or 0), int(part["s"] or 0)
        )
    except ValueError:
        return None
