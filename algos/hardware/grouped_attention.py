"""Attention whose query heads share keys and values, without copies of these for each of the heads.

Where there is a mask, transformers copies keys and values of every layer, since a GPU has no fast kernel otherwise.
Without a GPU the copies take most of the time in which ids are written: attention over 32 rows of 900 ids, nine heads
on three, took 48 ms with them and 2.8 ms without, on two cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "grouped_sdpa"


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Return what transformers does by its name ``sdpa``, of shape ``(B, ids, heads, width)``."""
    if attention_mask is None:
        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, None, dropout=dropout, scaling=scaling, **options
        )
        return found
    states = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling, enable_gqa=True
    )
    return states.transpose(1, 2).contiguous(), None


AttentionInterface.register(_NAME, _attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)


@contextmanager
def grouped_attention(model: torch.nn.Module) -> Iterator[None]:
    """Let a model of transformers compute so for a while, if it is faster: without a GPU, if heads share keys."""
    config: Any = model.config
    config = config.get_text_config()
    shared = (getattr(config, "num_key_value_heads", None) or 0) < (getattr(config, "num_attention_heads", None) or 0)
    if not shared or config._attn_implementation != "sdpa" or next(model.parameters()).device.type != "cpu":
        yield
        return
    config._attn_implementation = _NAME
    try:
        yield
    finally:
        config._attn_implementation = "sdpa"
