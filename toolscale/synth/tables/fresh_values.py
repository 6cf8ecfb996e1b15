"""New values within a column's kind that no row has: a later date, the next code, a name of the parts of two others.

Where nothing sensible can be made, such as another genre beside "Jazz" and "Rock", there is none.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count, cycle, islice, pairwise
from typing import Any

from toolorchestra.toolscale.synth.tables.tables import Column, Table

MAX_FRESH = 16
"""New values that are made for a column."""
_MAX_TRIED = 2_000
_WORD = re.compile(r"[^\W\d_][^\W\d_'’.&-]*(?:['’.&-][^\W\d_]*)*")


def fresh_values(table: Table, column: Column) -> list[Any]:
    """Return up to 16 values that new rows can have in a column whose values are not shared, or none."""
    present = table.present(column.name)
    make = _numbers if column.is_number else _MAKERS.get(column.kind)
    return _free(present, make(column, present)) if make and present else []


def fresh_names(table: Table, columns: Sequence[str]) -> list[tuple[str, str]]:
    """Return up to 16 pairs, such as first and last name, that no row has: of one row and of another."""
    rows = [row for row in zip(*(table.data[column] for column in columns), strict=True) if None not in row]
    return _free(rows, _crossed(rows))


def _free(present: Sequence[Any], made: Iterator[Any]) -> list[Any]:
    """Return the first of the values that are made which are not present in any case."""
    taken = {str(value).casefold() for value in present}
    found = (value for value in islice(made, _MAX_TRIED) if str(value).casefold() not in taken)
    return list(islice(dict.fromkeys(found), MAX_FRESH))


def times_of_day(column: Column, present: Sequence[str]) -> Iterator[str]:
    """Yield the times of day on the grid that some times lie on, first those in their range, then later ones."""
    minutes = sorted({60 * int(value[:2]) + int(value[3:]) for value in present})
    step = math.gcd(*(later - first for first, later in pairwise(minutes))) or 30
    yield from (f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(minutes[0], 24 * 60, step))


def _crossed(pairs: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield the first of each pair with the second of another."""
    for step in range(1, len(pairs)):
        for i, (first, _) in enumerate(pairs):
            yield first, pairs[(i + step) % len(pairs)][1]


def _numbers(column: Column, present: Sequence[Any]) -> Iterator[Any]:
    if column.type == "INTEGER":
        yield from count(max(present) + 1)
    decimals = max(len(repr(value).partition(".")[2]) for value in present)
    yield from (round((low + high) / 2, decimals) for low, high in pairwise(sorted(set(present))))


def _days(column: Column, present: Sequence[str]) -> Iterator[str]:
    """Yield days after the last one, as far apart as two days are, a week at most; the time is that of a row."""
    days = sorted({datetime.date.fromisoformat(value[:10]) for value in present if value < "2100"})
    step = min([7, *((later - first).days for first, later in pairwise(days))])
    for i in range(1, MAX_FRESH + 1) if days else ():
        yield f"{days[-1] + datetime.timedelta(i * step)}{present[i % len(present)][10:] if column.in_key else ''}"


def _emails(column: Column, present: Sequence[str]) -> Iterator[str]:
    """Yield addresses at the same domains, of the names in two others, or counted on."""
    names, domains = zip(*(value.split("@") for value in present), strict=True)
    marks = re.findall(r"[._-]", "".join(names))
    mark = max(sorted(set(marks)), key=marks.count, default="")
    halves = [(name.split(mark)[0], name.split(mark)[-1]) if mark else (name, name) for name in names]
    crossed = (f"{first}{mark or '.'}{last}" for first, last in _crossed(halves))
    made = chain(_counted_on(names) if _is_serial(names) or not mark else (), crossed)
    yield from (f"{name}@{domains[i % len(domains)]}" for i, name in enumerate(made))


def _urls(column: Column, present: Sequence[str]) -> Iterator[str]:
    """Yield addresses with the end of another, or with other digits."""
    pairs = [(match[1], match[2]) for value in present if (match := re.fullmatch(r"(\w+://.+[/_-])([^/_-]+/?)", value))]
    yield from (first + last for first, last in _crossed(pairs))
    yield from _with_other_digits(column, [first + last for first, last in pairs if re.search(r"\d", last)])
    yield from (f"{first.rstrip('/')}-{last}" for first, last in _crossed([(a + b, b) for a, b in pairs]))


def _codes(column: Column, present: Sequence[str]) -> Iterator[str]:
    """Yield codes that count on, or else have the shape of another: other digits, or the halves of two."""
    if _is_serial(present):
        yield from _counted_on(present)
    yield from _with_other_digits(column, [value for value in present if re.search(r"\d", value)])
    alike = defaultdict(list)
    for value in present:
        alike[len(value)].append((value[: len(value) // 2], value[len(value) // 2 :]))
    for halves in alike.values():
        yield from (first + last for first, last in _crossed(halves))


def _texts(column: Column, present: Sequence[str]) -> Iterator[str]:
    """Yield texts that count on, or begin like one and end like another that is written alike."""
    yield from _counted_on(present)
    alike = defaultdict(list)
    for words in (value.split(" ") for value in present):
        if 2 <= len(words) <= 6 and all(map(_WORD.fullmatch, words)):
            alike[tuple(word[0].isupper() for word in words)].append((" ".join(words[:-1]), words[-1]))
    for halves in alike.values():
        yield from (f"{first} {last}" for first, last in _crossed(halves) if last not in first.split(" "))


def _is_serial(values: Sequence[str]) -> bool:
    return len({value.rstrip("0123456789") for value in values}) == 1


def _counted_on(values: Sequence[str]) -> Iterator[str]:
    """Yield texts that count on where all end with a number: LB00042, Story night 7."""
    matches = [match for value in values if (match := re.fullmatch(r"(.*\D|)([0-9]{1,15})", value))]
    widths = {len(match[2]) for match in matches}
    if len(matches) < len(values) or (len(widths) > 1 and any(re.match(r"0\d", match[2]) for match in matches)):
        return
    for i, match in enumerate(islice(cycle(matches), MAX_FRESH), 1):
        number = f"{max(int(one[2]) for one in matches) + i:0{min(widths)}d}"
        if len(number) in widths or len(widths) > 1 or widths == {1}:
            yield match[1] + number


def _with_other_digits(column: Column, values: Sequence[str]) -> Iterator[str]:
    """Yield texts with other digits in place of their last ones, four at most."""
    for turn in range(1, 20):
        for value in values:
            places = [place for place, char in enumerate(value) if char in "0123456789"][-4:]
            number = (int("".join(value[place] for place in places)) + 37 * turn) % 10 ** len(places)
            other = dict(zip(places, f"{number:0{len(places)}d}", strict=True))
            yield "".join(other.get(place, char) for place, char in enumerate(value))


_MAKERS: dict[str, Callable[[Column, Sequence[Any]], Iterator[Any]]]
_MAKERS = {"date": _days, "datetime": _days, "moment": _days, "time": times_of_day, "email": _emails, "url": _urls}
_MAKERS |= {"phone": _with_other_digits, "coordinates": _with_other_digits}
_MAKERS |= {"code": _codes, "text": _texts, "note": _texts}
