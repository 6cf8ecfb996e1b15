"""The draws of a problem: those of `random.Random`, without its checks of arguments and about twice as fast.

A problem takes some hundred draws, which would else be a third of its cost. The same seed gives the same draws as
`random.Random` does.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
_SMALL = 21  # things up to which `random.Random.sample` always draws from a shrinking pool


class Dice:
    """A series of draws.

    >>> dice, plain = Dice("masbench:1"), random.Random("masbench:1")
    >>> dice.below(23) == plain.randrange(23), dice.sample("abcd", 2) == plain.sample("abcd", 2)
    (True, True)

    Args:
        seed: All follows from it.

    Attributes:
        random: Returns a number from 0 to 1 (excluded).
    """

    __slots__ = ("_bits", "_plain", "random")

    def __init__(self, seed: str) -> None:
        self._plain = random.Random(seed)
        self._bits = self._plain.getrandbits
        self.random = self._plain.random

    def below(self, end: int) -> int:
        """Return one of 0, 1, … `end` - 1."""
        bits, size = self._bits, end.bit_length()
        drawn = bits(size)
        while drawn >= end:
            drawn = bits(size)
        return drawn

    def between(self, first: int, last: int) -> int:
        """Return one of `first`, … `last`."""
        return first + self.below(last - first + 1)

    def choice(self, things: Sequence[T]) -> T:
        """Return one of some things, of which there is at least one."""
        bits, end = self._bits, len(things)
        size = end.bit_length()
        drawn = bits(size)
        while drawn >= end:
            drawn = bits(size)
        return things[drawn]

    def weighted(self, sums: Sequence[int]) -> int:
        """Return a position among weights, of which the sums up to each are given."""
        return bisect_right(sums, self.random() * sums[-1], 0, len(sums) - 1)

    def shuffle(self, things: list[T]) -> None:
        """Put a list in another order."""
        below = self.below
        for at in range(len(things) - 1, 0, -1):
            other = below(at + 1)
            things[at], things[other] = things[other], things[at]

    def sample(self, things: Sequence[T], count: int) -> list[T]:
        """Return so many of some things, each once, in an order that is drawn."""
        left = len(things)
        if not count <= left <= max(count, _SMALL):
            return self._plain.sample(things, count)
        bits, pool, found = self._bits, list(things), []
        for end in range(left, left - count, -1):
            size = end.bit_length()
            drawn = bits(size)
            while drawn >= end:
                drawn = bits(size)
            found.append(pool[drawn])
            pool[drawn] = pool[end - 1]
        return found
