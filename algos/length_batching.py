"""Bundles of rows of similar length: an orchestrator's episodes differ in length by an order of magnitude.

A batch is padded to its longest row, and padding costs as much as text does. So rows are computed in bundles, both
where they are sampled and where a model learns from them. A batch of rows that are nearly of one length is one bundle.
"""

from __future__ import annotations

from collections.abc import Sequence

MIN_ROWS = 8
"""Minimum of rows of a bundle."""
MAX_PADDING = 0.25
"""Share of a row that may be padding, unless its bundle has too few rows."""


def bundles(lengths: Sequence[int], min_rows: int = MIN_ROWS) -> list[list[int]]:
    """Return the rows by bundle, the longest first; but for the last, a bundle has at least `min_rows` rows.

    >>> bundles([3, 100, 90, *[4] * 8, 95])
    [[1, 11, 2, 3, 4, 5, 6, 7], [8, 9, 10, 0]]
    """
    found: list[list[int]] = []
    max_length = 0
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        if not found or (len(found[-1]) >= min_rows and lengths[row] < (1 - MAX_PADDING) * max_length):
            found.append([])
            max_length = lengths[row]
        found[-1].append(row)
    return found
