"""Keys and values of earlier turns, so that a turn reads only what is new since the one before.

Prompts only grow: a turn's prompt is that of the turn before, what was written, and what came back. What is kept is
found by the ids themselves, so that branches of an episode, and rollouts of the same task, share what they have in
common. Not here: models whose layers are not all attention to everything before (`ModelShape.causal`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(eq=False)
class KeptPrefix:
    """Ids that have been read or written, with the keys and values of every layer.

    Attributes:
        ids: The ids.
        states: By layer, keys and values, of shape ``(2, heads, ids, width)``.
        lengths: After how many ids another prompt may go on differently, such as the ends of turns.
        hashes: Of the first ids up to each of these lengths.
    """

    ids: NDArray[np.int64]
    states: list[Tensor]
    lengths: tuple[int, ...]
    hashes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.hashes = _hashes(self.ids)[list(self.lengths)].tolist()

    @property
    def bytes(self) -> int:
        """Bytes of the keys and values."""
        return sum(state.numel() * state.element_size() for state in self.states)


class KnownPrefix(NamedTuple):
    """The first `length` ids of a prompt, whose keys and values are kept."""

    kept: KeptPrefix
    length: int


class TurnCache:
    """Keeps keys and values of prompts and of what was written after them; the oldest make room for new ones.

    Attributes:
        counts: Ids of all prompts so far (``asked``), and those of them that were computed (``read``).
        held: Bytes of what is kept.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.held = 0
        self._kept: dict[int, KeptPrefix] = {}
        self._by_hash: dict[int, KeptPrefix] = {}

    def find(self, prompts: Sequence[Sequence[int]]) -> list[KnownPrefix | None]:
        """Return the longest prefix of each prompt that is kept, without its last id, if it is half of it or more."""
        known = np.fromiter(self._by_hash, np.uint64, len(self._by_hash))
        return [self._find(np.array(prompt, np.int64), known) if len(known) else None for prompt in prompts]

    def _find(self, ids: NDArray[np.int64], known: NDArray[np.uint64]) -> KnownPrefix | None:
        hashes = _hashes(ids[:-1])
        for length in np.flatnonzero(np.isin(hashes, known))[::-1].tolist():
            kept = self._by_hash[int(hashes[length])]
            if 2 * length < len(ids):
                break
            if np.array_equal(kept.ids[:length], ids[:length]):
                return KnownPrefix(kept, length)
        return None

    def keep(self, ids: Sequence[int], states: list[Tensor], before: KnownPrefix | None, *lengths: int) -> None:
        """Keep the keys and values of ids; other prompts may go on after `lengths` of them, or after all.

        `before` is what was known of them; if that is all of an earlier prefix, this one replaces it.
        """
        earlier: Iterable[int] = ()
        if before is not None:
            earlier = (*(length for length in before.kept.lengths if length < before.length), before.length)
            if before.length == len(before.kept.ids):
                self._forget(before.kept)
        found = KeptPrefix(np.array(ids, np.int64), states, tuple(sorted({*earlier, *lengths, len(ids)})))
        self._kept[id(found)] = found
        self._by_hash.update(dict.fromkeys(found.hashes, found))
        self.held += found.bytes

    def shrink(self, limit: int) -> None:
        """Forget the oldest, so that at most `limit` bytes are kept."""
        while self.held > limit:
            self._forget(next(iter(self._kept.values())))

    def _forget(self, kept: KeptPrefix) -> None:
        if self._kept.pop(id(kept), None) is None:
            return
        self.held -= kept.bytes
        for one in kept.hashes:
            if self._by_hash.get(one) is kept:
                del self._by_hash[one]

    def clear(self) -> None:
        """Forget everything, since the weights have changed."""
        self.shrink(0)


def _hashes(ids: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hash of the first 0, 1, … of the ids; equal hashes are no proof of equal ids."""
    powers = np.cumprod(np.full(len(ids), _FACTOR))
    return np.concatenate([np.zeros(1, np.uint64), np.cumsum((ids + 1).astype(np.uint64) * powers, dtype=np.uint64)])
