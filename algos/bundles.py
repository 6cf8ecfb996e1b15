"""TRL's GRPO trainer on rows of very unequal length: padding is cut off, since it costs as much as text does.

An orchestrator's episodes differ in length by an order of magnitude, and TRL pads a batch to its longest row. Here rows
of like length are computed together, and what comes of them is put back in its place; the loss is the same. A batch of
rows that are nearly of one length is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer

LEAST_ROWS = 8
"""Fewer rows than these do not make a bundle of their own."""
MOST_PADDING = 0.25
"""Share of a row that may be padding, unless its bundle has too few rows."""


def bundles(lengths: Sequence[int]) -> list[list[int]]:
    """Return the rows by bundle, the longest first.

    >>> bundles([3, 100, 90, *[4] * 8, 95])
    [[1, 11, 2, 3, 4, 5, 6, 7], [8, 9, 10, 0]]
    """
    found: list[list[int]] = []
    longest = 0
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        if not found or (len(found[-1]) >= LEAST_ROWS and lengths[row] < (1 - MOST_PADDING) * longest):
            found.append([])
            longest = lengths[row]
        found[-1].append(row)
    return found


class BundlingGRPOTrainer(GRPOTrainer):
    """`GRPOTrainer` that computes log-probabilities in bundles of rows of like length."""

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **others: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return log-probabilities (B, T) and entropies (B, T) of completions, padded on the right with 0.

        Prompts are padded on the left, completions on the right, as in TRL; `logits_to_keep` is T.
        """

        def compute(ids: Tensor, mask: Tensor, keep: int) -> tuple[Tensor, Tensor | None, Tensor | None]:
            found: tuple[Tensor, Tensor | None, Tensor | None] = super(
                BundlingGRPOTrainer, self
            )._get_per_token_logps_and_entropies(model, ids, mask, keep, batch_size, compute_entropy, **others)
            return found

        before = input_ids.size(1) - logits_to_keep
        prompts = attention_mask[:, :before].sum(1)
        completions = attention_mask[:, before:].sum(1)
        found = bundles((prompts + completions).tolist())
        if len(found) == 1 or any(value is not None and value is not False for value in others.values()):
            return compute(input_ids, attention_mask, logits_to_keep)  # images and the like are not cut
        logps, entropies = [], []
        for rows in found:
            first, keep = before - int(prompts[rows].max()), max(1, int(completions[rows].max()))
            here = slice(first, before + keep)
            ours, theirs, _ = compute(input_ids[rows, here], attention_mask[rows, here], keep)
            right = (0, logits_to_keep - keep)
            logps.append(torch.nn.functional.pad(ours, right))
            if theirs is not None:
                entropies.append(torch.nn.functional.pad(theirs, right))
        place = torch.tensor([row for rows in found for row in rows], device=input_ids.device).argsort()
        return torch.cat(logps)[place], torch.cat(entropies)[place] if entropies else None, None
