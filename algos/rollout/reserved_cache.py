"""A key-value cache whose memory is taken once.

The cache of transformers is copied for each id, so that old and new stand beside one another, and leaves holes in the
heap in which nothing longer fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Cache
from transformers.cache_utils import DynamicLayer


class ReservedLayer(DynamicLayer):
    """The keys and values of one layer, of shape ``(B, heads, ids, width)``, with room for `capacity` ids."""

    def __init__(self, capacity: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers'
        self.capacity = capacity

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Take the memory."""
        super().lazy_initialization(key_states, value_states)
        self._stores = [
            states.new_empty((*states.shape[:-2], self.capacity, states.shape[-1]))
            for states in (key_states, value_states)
        ]

    def begin(self, rows: Sequence[Tensor], ids: int) -> None:
        """Begin each row with keys and values, of shape ``(2, heads, n, width)``, and zeros up to `ids` ids."""
        like = rows[0][0].expand(len(rows), -1, -1, -1)
        self.lazy_initialization(like, like)
        for kind, store in enumerate(self._stores):
            for row, states in enumerate(rows):
                known = states.size(2)
                store[row, :, :known] = states[kind]
                store[row, :, known:ids] = 0  # a mask hides numbers from attention, but not what is no number
        self.keys, self.values = (store[..., :ids, :] for store in self._stores)

    def select(self, row: int, spans: Sequence[tuple[int, int]]) -> Tensor:
        """Return a copy of keys and values of a row in spans of ids, of shape ``(2, heads, n, width)``."""
        return torch.stack([torch.cat([s[row, :, a:b] for a, b in spans], 1) for s in self._stores])

    def keep_rows(self, rows: Sequence[int]) -> None:
        """Forget all rows but these, in ascending order; the memory stays taken."""
        length = self.get_seq_length()
        for number, store in enumerate(self._stores):
            for place, row in enumerate(rows):
                if place != row:
                    store[place, :, :length] = store[row, :, :length]
            self._stores[number] = store[: len(rows)]
        self.keys, self.values = (store[..., :length, :] for store in self._stores)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write the keys and values of further ids, and return those of all."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        for store, states in zip(self._stores, (key_states, value_states), strict=True):
            store[..., start:end, :] = states
        self.keys, self.values = (store[..., :end, :] for store in self._stores)
        return self.keys, self.values


def reserved_cache(layers: int, capacity: int) -> Cache:
    """Return an empty cache of a model with so many layers of plain attention, for at most `capacity` ids of a row."""
    return Cache(layers=[ReservedLayer(capacity) for _ in range(layers)])
