"""Logits in chunks of positions: those of a long batch over a large vocabulary are the largest tensor of a step.

The logits of a chunk are computed from the hidden states when they are needed, and again in the backward pass, so that
those of a whole batch never exist. Only positions that are asked for are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache

from toolorchestra.agents.builtin.adapters import AdaptedModel, AdapterReference
from toolorchestra.algos.hardware.batching import MIN_SHARED, common_prefix
from toolorchestra.algos.hardware.grouped_attention import grouped_attention
from toolorchestra.algos.hardware.memory import CHUNK, ModelShape
from toolorchestra.algos.hardware.sharding import sharded


def base_model(model: Any) -> Any:
    """Return the causal language model itself, with the adapter active where `model` is an adapter over it."""
    if isinstance(model, AdaptedModel):
        return model.activate()
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def shares_prefix(model: Any) -> bool:
    """Return whether ids with which rows begin can be computed once for all of them, with their gradients."""
    model = base_model(model)
    checkpointing = bool(getattr(model, "is_gradient_checkpointing", False))  # it keeps no keys and values
    return ModelShape.of(model.config).causal and not checkpointing and not sharded(model)


def shared_prefix(model: Any, sequences: Sequence[list[int]]) -> int:
    """Return how many ids are computed once for all of some sequences; 0 if they hardly begin alike."""
    shared = common_prefix(sequences) if len(sequences) > 1 else 0
    return shared if shared >= MIN_SHARED and shares_prefix(model) else 0


def hidden_states(model: Any, sequences: Sequence[list[int]], pad_id: int) -> Tensor:
    """Return the last hidden states of sequences of ids, padded on the right, of shape ``(B, W, H)``.

    Nothing attends to what follows it, so padding needs no mask, which would be of every id for every other. What all
    sequences begin with is computed once, if it is long.
    """
    device = next(model.parameters()).device
    rows = [torch.tensor(sequence, device=device, dtype=torch.long) for sequence in sequences]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad_id)
    shared = shared_prefix(model, sequences)
    with model.active() if isinstance(model, AdapterReference) else nullcontext():
        inner = base_model(model).base_model
        if not shared:
            states: Tensor = inner(input_ids=ids, use_cache=False).last_hidden_state
            return states
        cache = DynamicCache(config=inner.config)
        with grouped_attention(inner):
            first = inner(input_ids=ids[:1, :shared], past_key_values=cache, use_cache=True).last_hidden_state
            cache.batch_repeat_interleave(len(rows))
            rest = inner(input_ids=ids[:, shared:], past_key_values=cache, use_cache=True).last_hidden_state
    return torch.cat([first.expand(len(rows), -1, -1), rest], 1)


def in_chunks(model: Any, function: Callable[[Tensor, Tensor], Tensor], states: Tensor, ids: Tensor) -> Tensor:
    """Return a function of logits ``(n, V)`` and ids ``(n,)``, with a number for each, of all hidden states ``(N, H)``.

    Logits are at least of 32 bits.
    """
    size = _chunk_size(model)
    if len(ids) <= size:
        return function(logits_of(model, states), ids)

    def of_chunk(states: Tensor, ids: Tensor) -> Tensor:
        return function(logits_of(model, states), ids)

    again = torch.is_grad_enabled() and states.requires_grad
    parts = zip(torch.split(states, size), torch.split(ids, size), strict=True)
    found = [checkpoint(of_chunk, *part, use_reentrant=False) if again else of_chunk(*part) for part in parts]
    return torch.cat(found)


def logits_in_chunks(model: Any, states: Tensor) -> Iterator[Tensor]:
    """Yield the logits of hidden states ``(N, H)``, a chunk of positions at a time."""
    return (logits_of(model, part) for part in torch.split(states, _chunk_size(model)))


def logits_of(model: Any, states: Tensor) -> Tensor:
    """Return the logits of hidden states, in at least 32 bits."""
    model = base_model(model)
    logits = model.get_output_embeddings()(states)
    return _final(logits.to(torch.promote_types(logits.dtype, torch.float32)), model.config.get_text_config())


def _chunk_size(model: Any) -> int:
    return max(1, CHUNK // int(model.config.get_text_config().vocab_size))


def _final(logits: Tensor, config: Any) -> Tensor:
    """Return what a model makes of its head's output: some families scale it, or bound it."""
    for name in ("logit_scale", "output_multiplier", "lm_head_multiplier"):
        if getattr(config, name, None) is not None:
            logits = logits * getattr(config, name)
            break
    else:
        if scaling := getattr(config, "logits_scaling", None):
            logits = logits * scaling if config.model_type == "hyperclovax" else logits / scaling
    if bound := getattr(config, "final_logit_softcapping", None):
        logits = torch.tanh(logits / bound) * bound
    return logits
