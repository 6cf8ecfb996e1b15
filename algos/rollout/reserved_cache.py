"""A key-value cache whose memory is taken once.

The cache of transformers is copied for each id, so that old and new stand beside one another, and leaves holes in the
heap in which nothing longer fits.
"""

from __future__ import annotations

from typing import Any

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
