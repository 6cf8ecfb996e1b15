"""Sums of floats that come out the same on every Python.

From Python 3.12 on, `sum` of floats compensates for rounding, so that a cost or a reward that it adds up may differ in
its last digit from that of Python 3.11.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable


def float_sum(values: Iterable[float]) -> float:
    """Return the sum, added from left to right.

    >>> float_sum([0.1] * 10)
    0.9999999999999999
    """
    return functools.reduce(operator.add, values, 0)
