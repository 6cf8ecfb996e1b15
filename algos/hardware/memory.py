"""How much memory there is, what a model takes of it per token, and so how many rows are computed at once.

Sampling and training divide their rows into bundles (`toolorchestra.algos.hardware.batching`); a bundle may take
`budget` bytes beside the weights, so that the peak does not depend on the number of slots or of rows in a batch.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch

GIB = 2**30
CPU_BUDGET = GIB
"""Maximum of the default budget without a GPU: more is faster only where rows begin alike."""
SHARE = 0.5
"""Share of the free memory that is the default budget; the rest is for what other code and fragmentation take."""
PAIR_BYTES = 5
"""Bytes of a mask for an id that may attend to another: as boolean and as number."""
MASK_BYTES = 24
"""Bytes that the masks of padding take of one id: while they grow."""
CHUNK = 2**24
"""Maximum of logits computed at once: positions times vocabulary."""


def free(device: torch.device) -> int:
    """Return the bytes that this process can still allocate on a device.

    Without a GPU these are the available bytes of the machine, or what its control group or `ulimit -v` leaves, if that
    is less.
    """
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + held
    found = [int(psutil.virtual_memory().available)]
    with suppress(OSError, ValueError):  # no control group, or one whose limit is the word `max`
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        found.append(limit - psutil.Process().memory_info().vms)
    return max(0, min(found))


def budget(device: torch.device, gib: float | None = None) -> int:
    """Return the bytes that a bundle of rows may take beside the weights: `gib`, or half of what is free.

    Without a GPU the default is at most 1 GiB.
    """
    if gib is not None:
        return round(gib * GIB)
    half = round(SHARE * free(device))
    return half if device.type == "cuda" else min(half, CPU_BUDGET)


def token_budget(model: Any, gib: float | None = None) -> int:
    """Return the tokens of all the episodes that are played at the same time.

    One forward pass can read as many, or half of the room can keep their keys and values from turn to turn, while the
    other half has those that are written. It depends on `gib` or on the device, not on what is free at the moment, so
    that a run can be repeated.
    """
    device = next(model.parameters()).device
    if gib is not None:
        room = gib * GIB
    elif device.type == "cuda":
        room = SHARE * torch.cuda.mem_get_info(device)[1]
    else:
        room = CPU_BUDGET
    shape, size = ModelShape.of(model.config), number_size(model)
    read = shape.read_bytes(size)
    return int(room // (min(read, 2 * shape.cache_bytes(size)) if shape.causal else read))


def peak(device: torch.device) -> int:
    """Return the most bytes that this process has held so far: of the GPU's memory, or of the machine's."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a causal language model that decide about its memory; missing ones are taken from the others.

    Attributes:
        layers: Number of layers.
        hidden: Width of the residual stream.
        inner: Width inside the feed-forward blocks.
        queries: Width of all query heads together.
        keys: Width of all key heads together; values have the same.
        vocabulary: Number of ids.
        causal: Whether every layer is attention to all that is before, so that padding on the right changes nothing of
            the cache but places that a mask can leave out.
    """

    layers: int
    hidden: int
    inner: int
    queries: int
    keys: int
    vocabulary: int
    causal: bool

    @classmethod
    def of(cls, config: Any) -> ModelShape:
        """Return the shape that a model's configuration gives."""
        text = config.get_text_config()
        hidden = text.hidden_size
        heads = getattr(text, "num_attention_heads", None) or 1
        width = getattr(text, "head_dim", None) or hidden // heads
        kinds = getattr(text, "layer_types", None)
        sliding = getattr(text, "sliding_window", None) and getattr(text, "use_sliding_window", True)
        plain = set(kinds) <= {"full_attention"} if kinds else heads > 1 and not sliding
        return cls(
            layers=text.num_hidden_layers,
            hidden=hidden,
            inner=getattr(text, "intermediate_size", None) or 4 * hidden,
            queries=heads * width,
            keys=(getattr(text, "num_key_value_heads", None) or heads) * width,
            vocabulary=text.vocab_size,
            causal=plain,
        )

    def cache_bytes(self, size: int) -> int:
        """Return the bytes of keys and values of one id, its numbers being of `size` bytes."""
        return 2 * self.layers * self.keys * size

    def read_bytes(self, size: int) -> int:
        """Return the bytes that reading one id takes: its keys and values, and what one layer computes with."""
        computed = 4 * self.hidden + 4 * self.queries + 4 * self.keys + 3 * self.inner
        return self.cache_bytes(size) + size * computed + MASK_BYTES

    def write_bytes(self, size: int) -> int:
        """Return the bytes that an id takes while others are read or written after it.

        They are its keys and values, in one layer repeated for all query heads.
        """
        return self.cache_bytes(size) + 2 * self.queries * size + MASK_BYTES

    def draw_bytes(self) -> int:
        """Return the bytes in which the next id of a row is drawn: logits, their logarithms, exponentials and sums."""
        return 4 * 4 * self.vocabulary

    @property
    def written(self) -> int:
        """The numbers that the linear layers of a layer write of one id, which adapters add to (measured)."""
        return 2 * self.hidden + self.queries + 2 * self.keys + 2 * self.inner

    def layer_bytes(self, size: int) -> int:
        """Return the bytes that one layer keeps of one id for the backward pass."""
        return size * (7 * self.hidden + 8 * self.queries + 5 * self.keys + 4 * self.inner)

    def train_bytes(self, size: int, *, checkpointing: bool = False) -> int:
        """Return the bytes that a forward and backward pass take of one id, logits aside.

        With gradient checkpointing only the inputs of the layers are kept, and one layer is computed again at a time.
        """
        gradients = size * (4 * self.hidden + 2 * self.queries + 2 * self.inner)
        if checkpointing:
            return self.layers * self.hidden * size + self.layer_bytes(size) + gradients
        return self.layers * self.layer_bytes(size) + gradients


def padded_rows(available: int, per_id: int, *, masked: bool, more: int = 0, per_row: int = 0) -> Callable[[int], int]:
    """Return how many rows, padded to a length, fit into so many bytes: at least one.

    Args:
        available: Bytes.
        per_id: Bytes of one id.
        masked: Whether padding needs a mask of every id for every other, as booleans and as numbers.
        more: Ids that are yet to be written to each row.
        per_row: Bytes of one row, whatever its length.
    """

    def rows(length: int) -> int:
        width = length + more
        return max(1, int(available // max(1, width * (per_id + PAIR_BYTES * length * masked) + per_row)))

    return rows


def number_size(model: Any) -> int:
    """Return the bytes of the numbers that a model computes with: 2 under autocast, else those of its weights."""
    parameter = next(model.parameters())
    if torch.is_autocast_enabled(parameter.device.type):
        return torch.get_autocast_dtype(parameter.device.type).itemsize
    return int(parameter.element_size())
