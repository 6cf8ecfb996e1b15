"""Attention whose query heads share keys and values, without copies of these for each of the heads.

Where there is a mask, transformers copies keys and values of every layer, since a GPU has no fast kernel otherwise.
Without a GPU the copies take most of the time in which ids are written: attention over 32 rows of 900 ids, nine heads
on three, took 48 ms with them, 2.5 ms without, and 1.7 ms with the heads of a group beside one another as rows are,
so that keys and values are read once for all of them; over four rows of 6,400 ids, 16 heads on eight, 14 and 7 ms.
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
    rows, heads, ids, width = query.shape
    shared = key.size(1)
    if ids == 1 and heads > shared:
        together = query.reshape(rows, shared, heads // shared, width)
        states = torch.nn.functional.scaled_dot_product_attention(
            together, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling
        )
        return states.reshape(rows, ids, heads, width), None
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
