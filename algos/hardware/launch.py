"""How a training was started: in how many processes, and whether models are divided over them. Needs no torch."""

from __future__ import annotations

import os

LAUNCHED_FSDP = "ACCELERATE_USE_FSDP"
"""Variable by which `accelerate launch` asks for FSDP; `distributed.start` moves it to `SHARD`."""
SHARD = "TOOLORCHESTRA_SHARD"
"""Variable that says the same to this library alone: accelerate would divide models as learners cannot use them."""


def processes() -> int:
    """Return the number of processes that were started together (the module `ranks` connects them)."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def launched_sharded() -> bool:
    """Return whether `accelerate launch` was asked to divide models over the processes by FSDP."""
    return any(os.environ.get(name, "").lower() == "true" for name in (LAUNCHED_FSDP, SHARD))
