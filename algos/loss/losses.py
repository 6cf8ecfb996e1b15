"""Losses of the learners as pure tensor functions, small enough to read in full.

TRL's trainers carry the training; these are what they lack (the unnormalised sequence ratio), and the references that
tests compare them with. The names of the aggregations are TRL's. Not here: advantages
(`toolorchestra.algos.loss.advantages`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  # PyTorch's own name for it
from torch import Tensor

from toolorchestra.toolscale.common.errors import OptionError

Level = Literal["token", "sequence", "sequence_mean"]
Aggregation = Literal["grpo", "bnpo", "dapo", "dr_grpo"]


class PolicyLoss(NamedTuple):
    """A policy loss and what to report of it; all are scalars and only `loss` carries a gradient.

    Attributes:
        loss: What to minimise.
        kl: Mean k3 estimate per token, as it enters the loss; 0 without a reference.
        ratio: Mean importance ratio.
        clipped: Share of ratios whose gradient the clip cut off.
    """

    loss: Tensor
    kl: Tensor
    ratio: Tensor
    clipped: Tensor


def token_logps(logits: Tensor, ids: Tensor) -> Tensor:
    """Return the log-probability of each id, ``(..., T)``, from logits ``(..., T, V)`` whose entry t predicts id t."""
    return logits.log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)


def log_ratio(logps: Tensor, old_logps: Tensor, mask: Tensor, level: Level = "token") -> Tensor:
    """Return the log importance ratio of the policy to the one that sampled: ``(B, T)`` for tokens, else ``(B, 1)``.

    Args:
        logps: Log-probabilities under the policy, shape ``(B, T)``.
        old_logps: Those under the sampling policy, shape ``(B, T)``.
        mask: 1 on the policy's own tokens, else 0, shape ``(B, T)``.
        level: ``"token"``: one ratio per token (0 off the mask). ``"sequence"``: π(τ)/π_old(τ), the product over
            the sequence's tokens (ToolOrchestra Eq. 4, ParaManager Eq. 20). ``"sequence_mean"``: the same to the
            power 1/length, which is what TRL (after GSPO) calls "sequence".
    """
    difference = torch.where(mask.bool(), logps - old_logps, 0.0)  # (B, T)
    if level == "token":
        return difference
    total = difference.sum(-1, keepdim=True)  # (B, 1)
    if level == "sequence":
        return total
    if level == "sequence_mean":
        return total / mask.sum(-1, keepdim=True).clamp(min=1)
    raise OptionError(f"level must be 'token', 'sequence' or 'sequence_mean', got {level!r}.")


def k3(logps: Tensor, ref_logps: Tensor) -> Tensor:
    """Return Schulman's k3 estimate of KL(π ‖ π_ref) per token: exp(d) - d - 1 with d = log π_ref - log π."""
    d = ref_logps - logps
    return d.exp() - d - 1.0


def aggregate(per_token: Tensor, mask: Tensor, how: Aggregation = "grpo", normalizer: float | None = None) -> Tensor:
    """Reduce a loss per token to a scalar; 0 if the mask is empty.

    Args:
        per_token: Shape ``(B, T)`` or ``(B, 1)``, which stands for every token of its sequence.
        mask: 1 on the tokens that count, shape ``(B, T)``.
        how: ``"grpo"``: mean over each sequence's tokens, then over sequences. ``"bnpo"``: mean over the tokens of
            this batch. ``"dapo"``: sum over tokens divided by ``normalizer``, the tokens of the whole accumulated
            batch (of this one, if None). ``"dr_grpo"``: sum over tokens divided by B times ``normalizer``, the
            completion limit, so that long sequences are not diluted.
        normalizer: See ``how``.
    """
    counts = mask.to(per_token.dtype)
    summed = torch.where(mask.bool(), per_token, 0.0).sum(-1)  # (B,)
    match how:
        case "grpo":
            return (summed / counts.sum(-1).clamp(min=1)).mean()
        case "dapo" if normalizer is not None:
            return summed.sum() / max(normalizer, 1.0)
        case "bnpo" | "dapo":
            return summed.sum() / counts.sum().clamp(min=1)
        case "dr_grpo" if normalizer is not None:
            return summed.sum() / (len(summed) * normalizer)
        case "dr_grpo":
            raise OptionError("dr_grpo needs normalizer=…, the largest number of tokens of a completion.")
    raise OptionError(f"aggregation must be 'grpo', 'bnpo', 'dapo' or 'dr_grpo', got {how!r}.")


def clipped_policy_loss(
    logps: Tensor,
    old_logps: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    eps_low: float = 0.2,
    eps_high: float | None = None,
    level: Level = "token",
    aggregation: Aggregation = "grpo",
    normalizer: float | None = None,
    ref_logps: Tensor | None = None,
    beta: float = 0.0,
    weigh_kl: bool = True,
    weights: Tensor | None = None,
) -> PolicyLoss:
    """Return the clipped surrogate loss, -min(ρA, clip(ρ, 1 - eps_low, 1 + eps_high)A) + beta · KL.

    Args:
        logps: Log-probabilities under the policy, with gradient, shape ``(B, T)``.
        old_logps: Those under the sampling policy, shape ``(B, T)``.
        advantages: Per sequence, shape ``(B,)``, or per token, shape ``(B, T)``.
        mask: 1 on the policy's own tokens, else 0, shape ``(B, T)``.
        eps_low: How far below 1 the ratio may move.
        eps_high: How far above 1; ``eps_low``, if None.
        level: Of the importance ratio; see `log_ratio`.
        aggregation: See `aggregate`, also for `normalizer`.
        normalizer: See `aggregate`.
        ref_logps: Log-probabilities under the reference, shape ``(B, T)``; needed if beta is not 0.
        beta: Weight of the KL to the reference.
        weigh_kl: Whether to multiply the KL by the importance ratio, which makes its gradient that of the reverse KL,
            unbiased, at token level (TRL's ``use_bias_correction_kl``, on by default there too).
        weights: Factors of the surrogate loss of each token, shape ``(B, T)``: of truncated importance sampling.
    """
    if beta != 0.0 and ref_logps is None:
        raise OptionError(f"beta={beta} needs ref_logps. Pass them, or beta=0 for no KL.")
    eps_high = eps_low if eps_high is None else eps_high
    a = advantages if advantages.dim() == 2 else advantages.unsqueeze(-1)  # (B, 1) or (B, T)
    ratio = log_ratio(logps, old_logps, mask, level).exp()  # (B, T) or (B, 1)
    bounded = ratio.clamp(1.0 - eps_low, 1.0 + eps_high)
    per_token = -torch.minimum(ratio * a, bounded * a).expand_as(logps)  # (B, T)
    if weights is not None:
        per_token = per_token * weights
    kl = torch.zeros_like(logps) if ref_logps is None else k3(logps, ref_logps)  # (B, T)
    if weigh_kl:
        kl = kl * ratio
    if beta != 0.0:
        per_token = per_token + beta * kl
    cut = ((ratio < 1.0 - eps_low) & (a < 0)) | ((ratio > 1.0 + eps_high) & (a > 0))
    return PolicyLoss(
        loss=aggregate(per_token, mask, aggregation, normalizer),
        kl=aggregate(kl.detach(), mask, "bnpo"),
        ratio=aggregate(ratio.detach().expand_as(logps), mask, "bnpo"),
        clipped=aggregate(cut.to(logps.dtype).expand_as(logps), mask, "bnpo"),
    )


def dpo_loss(
    chosen: Tensor, rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor, *, beta: float = 0.1
) -> tuple[Tensor, Tensor]:
    """Return loss and margin of each pair for direct preference optimisation, each of shape ``(B,)``.

    The margin of a pair is β (log π(τ⁺)/π_ref(τ⁺) − log π(τ⁻)/π_ref(τ⁻)), the loss −log σ(margin) (TMATR-HRL Eq. 6).
    Arguments are the log-probabilities of the preferred and the other sequences, each a sum over its own tokens, under
    the policy and under the reference, of shape ``(B,)``; `beta` weighs the divergence from the reference.
    """
    margins = beta * ((chosen - ref_chosen) - (rejected - ref_rejected))
    return -F.logsigmoid(margins), margins
