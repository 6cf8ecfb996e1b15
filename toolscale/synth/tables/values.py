"""Normalisation of the values of an external database: dates, booleans, numbers, text."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from toolorchestra.toolscale.tools.tool import SAFE_INTEGER

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
_CORE_DATA = re.compile(r"z\w*(?:date|time|timestamp)\d*")  # as Apple's Core Data names its columns of moments
_OFFSET = re.compile(r".{7,20}\d[T ]\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?\s*(Z|UTC|[+-]\d{2}:?\d{2})", re.IGNORECASE)
_FLAG = re.compile(
    r"^(?:is|has|can|was|allows?|should)_|^(?:active|enabled|disabled|deleted|archived|paid|available|verified|visible"
    r"|published|confirmed|completed|done|approved|discontinued|blocked)$"
)
_REAL = re.compile(r"REAL|FLOA|DOUB|DEC|NUM|MONEY")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,10})?")
_CONTROL = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010fffd]")


class Cells(NamedTuple):
    """The cells of a column in one type and spelling, what they look like, and as what else they were read."""

    values: list[Any]
    type: Type
    shape: Shape
    note: str = ""


def offsets_of(values: Iterable[Any]) -> set[str]:
    """Return the offsets from UTC of the times among some values, such as ``+01:00``."""
    found = {match[1].upper() for value in values if isinstance(value, str) and (match := _OFFSET.fullmatch(value))}
    return {"+00:00" if zone in ("Z", "UTC") else f"{zone[:3]}:{zone[-2:]}" for zone in found}


def spelled(
    name: str, declared: str, values: Sequence[Any], *, names_rows: bool = False, to_utc: bool = False
) -> Cells | None:
    """Return the cells of the column `name` in one type and spelling; None where they are BLOBs.

    Missing are NULLs, empty texts and numbers that are none. Integers that are all plausible days or Unix times become
    dates whatever the column's name is, unless it `names_rows`: keys and unique numbers look like that by chance.
    Times with an offset stay local ones unless they are to be times `to_utc`, for those of a table to be comparable.

    >>> spelled("born", "TEXT", ["3 July 1990", None, "1990-07-04"]).values
    ['1990-07-03', None, '1990-07-04']
    """
    found = [_cleaned(value) for value in values]
    present = [value for value in found if value is not None]
    if any(isinstance(value, bytes) for value in present) or (not present and declared == "BLOB"):
        return None
    if not present:
        return Cells(found, *_declared(name, declared))
    if dated := _dates(name, found, names_rows, to_utc):
        return dated
    if all(isinstance(value, int) for value in present):
        if set(present) <= {0, 1} and ("BOOL" in declared or _FLAG.search(name)):
            return Cells(found, "INTEGER", "flag", "0 and 1 were read as no and yes")
        if not _REAL.search(declared):
            return Cells(found, "INTEGER", "number")
    if all(isinstance(value, (int, float)) for value in present):
        return Cells(_rounded(found), "REAL", "number")
    texts = _mapped(str, found)
    if not declared and all(_NUMBER.fullmatch(str(value)) for value in present):
        note = "texts were read as numbers" if any(isinstance(value, str) for value in present) else ""
        if any("." in str(value) for value in present):
            return Cells(_rounded(texts), "REAL", "number", note)
        return Cells(_mapped(int, texts), "INTEGER", "number", note)
    return Cells(texts, "TEXT", "json" if all(_is_json(str(value)) for value in present) else "text")


def _rounded(values: Sequence[Any]) -> list[Any]:
    """Return numbers without the noise of floating-point arithmetic.

    Numbers that have at most six decimals but for that noise keep them; measured ones are rounded to four significant
    digits of a typical value, and at least two decimals.

    >>> _rounded([12.340000000000002, None, 7]), _rounded([3.14159265, 25.12345678])
    ([12.34, None, 7.0], [3.14, 25.12])
    """
    floats = _mapped(float, values)
    present = [value for value in floats if value is not None]
    for decimals in range(7):
        if all(math.isclose(value, round(value, decimals), rel_tol=1e-12, abs_tol=1e-12) for value in present):
            break
    else:
        sizes = sorted(abs(value) for value in present if value)
        decimals = max(2, 3 - math.floor(math.log10(sizes[len(sizes) // 2])))
    return _mapped(lambda value: round(value, decimals), floats)


def _mapped(change: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    return [None if value is None else change(value) for value in values]


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
    if _REAL.search(declared):
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


def _dates(name: str, values: Sequence[Any], names_rows: bool, to_utc: bool) -> Cells | None:
    """Return the cells as ISO dates, or dates and times, if that is what they all are."""
    present = [value for value in values if value is not None]
    hinted = _DATED.search(name) is not None
    names_rows = names_rows or _NO_TIME.search(name) is not None
    whole = all(isinstance(value, int) for value in present)
    note = ""
    if epoch := _epoch(name, present, names_rows, hinted):
        begin = datetime.datetime(1970, 1, 1)
        moments = _mapped(lambda v: begin + datetime.timedelta(seconds=math.floor(_seconds(v, epoch))), values)
        note = "numbers were read as times in UTC"
    elif all(isinstance(value, str) for value in present):
        if not all(map(_SPELLED.fullmatch, present)) or (not hinted and all(map(str.isdecimal, present))):
            return None
        parts = [match.groupdict() for value in present if (match := _match(value))]
        month_first = not any(int(part["a"]) > 12 for part in parts if part.get("a"))
        moments = _mapped(lambda value: _moment(value, month_first, to_utc), values)
        if offsets := sorted(offsets_of(present)):
            kept = "times are in UTC" if offsets[0] == "+00:00" else f"times are local ones, {offsets[0]} from UTC"
            note = f"times with offsets ({', '.join(offsets)}) were converted to UTC" if to_utc else kept
    elif whole and (hinted or (not names_rows and _spread(present, 40))) and all(map(_is_written_day, present)):
        moments, note = _mapped(lambda value: _moment(str(value), False), values), "numbers were read as days"
    else:
        return None
    if moments.count(None) > values.count(None):
        return None
    days = all(moment is None or moment.time() == datetime.time() for moment in moments)
    texts = _mapped(lambda m: m.date().isoformat() if days else m.isoformat(" ", "seconds"), moments)
    if not note and any(a is not None and a[:10] != b[:10] for a, b in zip(texts, values, strict=True)):
        note = "dates were rewritten as YYYY-MM-DD"
    return Cells(texts, "TEXT", "date" if days else "datetime", note)


_NO_TIME = re.compile(
    r"(?:^|_)(?:id|no|nr|num|number|nummer|code|key|ean|gtin|isbn|tel|phone|telefon|fax|mobile)(?:_|$)"
)
_EPOCHS = ((1, 0), (1_000, 0), (1_000_000, 0), (1_000_000, 11_644_473_600), (10_000_000, 11_644_473_600))
"""Ways to count time: units a second, and the seconds before 1970 from which on they are counted (1601: Windows)."""
_SINCE_2001 = (1, -978_307_200)


def _seconds(value: Any, epoch: tuple[int, int]) -> float:
    """Return the seconds since 1970; long numbers are texts."""
    return (int(value) if isinstance(value, str) else value) / epoch[0] - epoch[1]


def _epoch(name: str, present: Sequence[Any], names_rows: bool, hinted: bool) -> tuple[int, int] | None:
    """Return how numbers count time, if they do: by the name of their column, or as all are times of this century."""
    if not all(isinstance(value, (int, float)) or (value.isdecimal() and len(value) > 15) for value in present):
        return None
    epochs: Sequence[tuple[int, int]] = _EPOCHS
    first, last = 300_000_000, 5_000_000_000
    apple = _CORE_DATA.fullmatch(name) is not None
    if apple and all(0 <= _seconds(value, _SINCE_2001) < 2_208_988_800 for value in present):
        return _SINCE_2001
    if not hinted and not apple:
        if names_rows or not all(isinstance(value, int) for value in present) or not _spread(present, 86_400):
            return None
        epochs, first, last = _EPOCHS[:3], 946_684_800, 2_208_988_800  # from 2000 to 2039; longer ones may be ids
    return next((e for e in epochs if all(first <= _seconds(value, e) < last for value in present)), None)


def _spread(present: Sequence[Any], least: int) -> bool:
    """Whether integers lie apart as moments do, and do not count on as ids do."""
    distinct = {value for value in present if isinstance(value, int)}
    span = max(distinct) - min(distinct) if distinct else 0
    return len(distinct) > 2 and span > max(least, 20 * len(distinct) if least > 40 else 0)


def _is_written_day(value: Any) -> bool:
    """Whether an integer is a day written as YYYYMMDD."""
    return isinstance(value, int) and 19000101 <= value <= 21001231 and _moment(str(value), False) is not None


_SPELLED = re.compile(r"[\d\w.,/:+\- ]{6,40}")  # cheap look before the careful one


def _match(value: str) -> re.Match[str] | None:
    return next((match for pattern in _SPELLINGS if (match := pattern.fullmatch(value))), None)


def _moment(value: str, month_first: bool, to_utc: bool = False) -> datetime.datetime | None:
    match = _match(value)
    if match is None:
        return None
    part = match.groupdict()
    if part.get("name"):
        name = part["name"].lower()
        month, day = _MONTHS.index(name) + 1 if name in _MONTHS else 0, int(part["d"])
    elif part.get("a"):
        day, month = int(part["a"]), int(part["b"])
        if part["sep"] == "/" and month_first:
            day, month = month, day
    else:
        month, day = int(part["m"]), int(part["d"])
    hour, minute, second = (int(part[name] or 0) for name in ("h", "min", "s"))
    try:
        moment = datetime.datetime(int(part["y"]), month, day, hour, minute, second)
        for offset in offsets_of([value]) if to_utc else ():
            ahead = datetime.timedelta(hours=int(offset[1:3]), minutes=int(offset[4:]))
            moment += ahead if offset[0] == "-" else -ahead
    except (ValueError, OverflowError):
        return None
    return moment
