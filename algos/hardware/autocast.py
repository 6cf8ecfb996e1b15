"""Which models compute in 16 bits, though their weights are of 32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

_MARK = "_computes_in_bf16"


def mark(model: Any, bf16: bool) -> None:
    """Let a model compute in bfloat16 wherever `autocast` is used, or not."""
    for one in (model, getattr(model, "host", None)):
        if one is not None:
            setattr(one, _MARK, bf16)


def autocast(model: Any) -> AbstractContextManager[Any]:
    """Return the context in which a model computes."""
    wrapped = (model, getattr(model, "host", None))
    if not any(getattr(one, _MARK, False) for one in wrapped if one is not None):
        return nullcontext()
    return torch.autocast(next(model.parameters()).device.type, torch.bfloat16)
