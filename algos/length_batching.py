"""Bundles of rows of like length: an orchestrator's episodes differ in length by an order of magnitude.

A batch is padded to its longest row, and padding costs as much as text does. So rows are computed in bundles, both
where they are sampled and where a model learns from them. A batch of rows that are nearly of one length is one bundle.
"""

from __future__ import annotations

from collections.abc import Sequence

LEAST_ROWS = 8
"""Fewer rows than these do not make a bundle of their own."""
MAX_PADDING = 0.25
"""Share of a row that may be padding, unless its bundle has too few rows."""


def bundles(lengths: Sequence[int], least: int = LEAST_ROWS) -> list[list[int]]:
    """Return the rows by bundle, the longest first; but for the last, a bundle has at least `least` rows.

    >>> bundles([3, 100, 90, *[4] * 8, 95])
    [[1, 11, 2, 3, 4, 5, 6, 7], [8, 9, 10, 0]]
    """
    found: list[list[int]] = []
    longest = 0
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        if not found or (len(found[-1]) >= least and lengths[row] < (1 - MAX_PADDING) * longest):
            found.append([])
            longest = lengths[row]
        found[-1].append(row)
    return found
