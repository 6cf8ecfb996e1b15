"""Rows for SFT that are made as they are needed: an episode is played and encoded when it is first drawn.

With a real tokenizer and real tasks it takes minutes to make all of them, and a training may need few. A row depends on
the seed and on its number only, so that a run which is resumed, or has several processes, draws the same. Built-in
models learn from rows that are made before (`toolorchestra.algos.data.augmentation`).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos.data.augmentation import LabelledRow, labelled
from toolorchestra.algos.data.demonstrations import Candidates, encode
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.options.context import context_of
from toolorchestra.toolscale.common.errors import OptionError

_LOG = logging.getLogger(__name__)


class Rows(Protocol):
    """Rows by their number: a list of them, or `DrawnRows`."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> LabelledRow: ...


class DemonstrationPool:
    """Demonstrations to draw from, encoded for a policy; what is longer than the policy's model reads is left out.

    Args:
        candidates: Episodes that may be drawn.
        policy: Who learns from them.
        otherwise: Drawn from if nothing can be learnt from any of the candidates; None: that is an error.
    """

    def __init__(self, candidates: Candidates, policy: TokenPolicy, otherwise: DemonstrationPool | None = None) -> None:
        self.candidates, self.otherwise = candidates, otherwise
        self.longest, self._renderer = context_of(policy.model.config), policy.renderer
        self.encoded = self.too_long = 0
        self._rows: dict[int, list[LabelledRow]] = {}  # by the number of the candidate
        self._without: set[int] = set()  # candidates from which nothing can be learnt

    def draw(self, rng: random.Random) -> LabelledRow:
        """Return a row.

        Raises:
            OptionError: Nothing can be learnt from any of the candidates.
        """
        own = random.Random(rng.getrandbits(64))  # what was drawn before changes nothing for others
        while len(self._without) < self.candidates.count:
            if rows := self._made(own.randrange(self.candidates.count)):
                return own.choice(rows)
        if self.otherwise:
            return self.otherwise.draw(rng)
        raise OptionError(
            f"None of {self.candidates.count} episodes can be learnt from: {self.too_long} demonstrations are longer "
            f"than the {self.longest or 0:,} ids that the model reads, and no other episode was solved. Give other "
            "tasks (`difficulty`), another `teacher`, solved `episodes`, or a model with a longer context."
        )

    def _made(self, number: int) -> list[LabelledRow]:
        """Return the rows of a candidate, which are made once."""
        if number not in self._rows:
            rows = [labelled(*encode(self._renderer, one)) for one in self.candidates.make(number)]
            fitting = [row for row in rows if self.longest is None or len(row[0]) <= self.longest]
            self.encoded, self.too_long = self.encoded + len(rows), self.too_long + len(rows) - len(fitting)
            self._rows[number] = fitting
            if not fitting:
                self._without.add(number)
        return self._rows[number]


@dataclass(frozen=True)
class DrawnRows:
    """Rows by their number, each drawn when it is asked for.

    Attributes:
        count: How many.
        seed: Source of randomness.
        pools: What is drawn from.
        pick: Returns the pool of a row by its point, from 0 to 1, among the rows; by default the first.
    """

    count: int
    seed: int
    pools: Sequence[DemonstrationPool]
    pick: Callable[[float, random.Random], DemonstrationPool] | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int, /) -> LabelledRow:
        if not 0 <= number < self.count:
            raise IndexError(number)
        rng = random.Random(f"{self.seed}/{number}")
        pool = self.pick(number / self.count, rng) if self.pick else self.pools[0]
        return pool.draw(rng)

    def warn_of_long(self) -> None:
        """Say how many demonstrations were left out since the model cannot read them."""
        too_long = sum(pool.too_long for pool in self.pools)
        if too_long and distributed.is_main():
            _LOG.warning(
                "%d of %d demonstrations are longer than the %d ids that the model reads, and were left out.",
                too_long,
                sum(pool.encoded for pool in self.pools),
                self.pools[0].longest,
            )
