"""Batches of rows: of equal size, of rows of similar length, or of rows that begin with the same ids.

A batch is padded to its longest row, and padding costs as much as text does, while an orchestrator's episodes differ in
length by an order of magnitude. So rows are sampled and trained on in bundles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

MIN_ROWS = 8
"""Minimum of rows of a bundle."""
MAX_PADDING = 0.25
"""Share of a row that may be padding, unless its bundle has too few rows."""
MIN_SHARED = 256
"""Minimum of ids with which rows begin that are computed once for all of them."""

T = TypeVar("T")


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in their order, `size` at a time."""
    return (items[first : first + size] for first in range(0, len(items), size))


def spread(items: Sequence[T], most: int) -> list[T]:
    """Return at most so many of the items, at even distances.

    >>> spread("abcdef", 3), spread("ab", 3)
    (['a', 'c', 'e'], ['a', 'b'])
    """
    return list(items) if most >= len(items) else [items[n * len(items) // most] for n in range(most)]


def bundles(
    lengths: Sequence[int], min_rows: int = MIN_ROWS, max_rows: Callable[[int], int] | None = None
) -> list[list[int]]:
    """Return the rows by bundle, the longest first.

    But for the last, a bundle has at least `min_rows` rows, or as many as `max_rows` allows: it returns the maximum of
    rows of a length, such as those that memory has room for (`toolorchestra.algos.hardware.memory`).

    >>> bundles([3, 100, 90, *[4] * 8, 95])
    [[1, 11, 2, 3, 4, 5, 6, 7], [8, 9, 10, 0]]
    >>> bundles([3, 100, 90, *[4] * 8, 95], max_rows=lambda length: 200 // length)
    [[1, 11], [2, 3], [4, 5, 6, 7, 8, 9, 10, 0]]
    """
    found: list[list[int]] = []
    max_length = most = 0
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        padded = lengths[row] < (1 - MAX_PADDING) * max_length
        if not found or len(found[-1]) >= most or (len(found[-1]) >= min_rows and padded):
            found.append([])
            max_length = lengths[row]
            most = len(lengths) if max_rows is None else max_rows(max_length)
        found[-1].append(row)
    return found


def common_prefix(rows: Sequence[list[int]]) -> int:
    """Return with how many ids all of some rows begin; the last id of a row does not count.

    >>> common_prefix([[1, 2, 3, 4], [1, 2, 5]]), common_prefix([[1, 2], [1, 2, 5]])
    (2, 1)
    """
    first, last = min(rows), max(rows)  # those between them begin as these two do
    differing = (n for n, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    shortest = min(map(len, rows))
    return min(next(differing, shortest), shortest - 1)


def sharing_bundles(rows: Sequence[list[int]], room: int, most: int | None = None) -> list[list[int]]:
    """Return the numbers of rows to compute together since they begin with the same `MIN_SHARED` ids or more.

    The beginning is computed once, so a bundle has as many ids as that and what follows it in each row, padded. Rows
    that are not computed faster so are in no bundle.

    Args:
        rows: Ids.
        room: Maximum of ids of a bundle.
        most: Maximum of rows of a bundle.
    """
    found: list[list[int]] = []
    bundle: list[int] = []
    computed = 0
    for row in sorted(range(len(rows)), key=rows.__getitem__):
        several = [*bundle, row]
        shared = common_prefix([rows[several[0]], rows[row]])  # those between them begin alike, as they are sorted
        together = shared + len(several) * (max(len(rows[n]) for n in several) - shared)
        if shared < MIN_SHARED or together > min(room, computed + len(rows[row])) or len(bundle) == most:
            several, together = [row], len(rows[row])
            found.append(bundle)
        bundle, computed = several, together
    return [several for several in (*found, bundle) if len(several) > 1]
