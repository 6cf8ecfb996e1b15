"""GRPO's loss with the importance ratio of whole sequences, a product over their tokens, which TRL does not have.

ToolOrchestra Eq. 4, ParaManager Eq. 20 to 22 and MAS-Orchestra Eq. 20. TRL's ``sequence`` is the geometric mean. The
formula is `toolorchestra.algos.loss.losses.clipped_policy_loss`; here are the inputs and metrics of TRL's trainer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from toolorchestra.algos.loss.losses import clipped_policy_loss


def product_ratio_loss(trainer: Any, model: Any, inputs: dict[str, Any]) -> Tensor:
    """Return the loss of a batch as `GRPOTrainer._compute_loss` would, and record the metrics that learners report.

    With one update for a batch the ratio is 1, and the gradient of a sequence is its advantage times that of the sum
    of its log-probabilities.
    """
    mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)  # (B, T)
    ids, attention = (
        torch.cat([inputs[f"prompt_{kind}"], inputs[f"completion_{kind}"]], dim=1) for kind in ("ids", "mask")
    )  # (B, P + T)
    width = inputs["completion_ids"].size(1)
    logps, entropies, _ = trainer._get_per_token_logps_and_entropies(model, ids, attention, width, compute_entropy=True)
    dapo = trainer.loss_type == "dapo"
    window = trainer.current_gradient_accumulation_steps / trainer.args.steps_per_generation if dapo else 1.0
    found = clipped_policy_loss(
        logps,
        inputs["old_per_token_logps"] if inputs.get("old_per_token_logps") is not None else logps.detach(),
        inputs["advantages"],
        mask,
        eps_low=trainer.epsilon_low,
        eps_high=trainer.epsilon_high,
        level="sequence",
        aggregation="dapo" if dapo else "grpo",
        normalizer=float(inputs["num_items_in_batch"]) / trainer.accelerator.num_processes * window if dapo else None,
        ref_logps=inputs["ref_per_token_logps"] if trainer.beta else None,
        beta=trainer.beta,
        weigh_kl=trainer.args.use_bias_correction_kl,
        weights=inputs.get("importance_sampling_ratio") if trainer.use_vllm else None,
    )
    metrics = trainer._metrics["train" if trainer.model.training else "eval"]
    metrics["entropy"].append(float((entropies.detach() * mask).sum() / mask.sum().clamp(min=1)))
    metrics["clip_ratio/region_mean"].append(float(found.clipped))
    if trainer.beta:
        metrics["kl"].append(float(found.kl))
    return found.loss
