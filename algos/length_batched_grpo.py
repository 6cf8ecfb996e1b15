"""TRL's GRPO trainer on rows of very unequal length: rows of like length are computed together.

TRL pads a batch to its longest row. Here what comes of each bundle is put back in its place; the loss is the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer

from toolorchestra.algos.length_batching import bundles


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
