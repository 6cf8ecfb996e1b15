"""Advantages and rollout filters of GRPO (ToolOrchestra §3.2) as pure tensor functions.

Every function works along the last dimension, the rollouts of one task; the dimensions before it are independent
groups. `nested_advantages` works along the last two: paths, and the branches of each (MSARL §3.3). Not here: rewards
(`toolorchestra.envs.rewards`) and losses (`toolorchestra.algos.loss.losses`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from toolorchestra.algos.options.several_agents import NESTED_RULES, NestedRule
from toolorchestra.toolscale.common.errors import UnknownNameError

HOMOGENEITY = 0.1
"""Reward deviation below which the paper drops a group."""


def group_mean_std(rewards: Tensor, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return mean and sample deviation (n - 1, as in TRL) over the kept rollouts of each group, each ``(..., 1)``.

    Of `rewards` and `keep` (all, if None), both of shape ``(..., G)``, those are kept that are not NaN. The mean is 0
    where nothing is kept; the deviation is exactly 0 where the kept rewards are equal or fewer than two.
    """
    kept = ~rewards.isnan() if keep is None else ~rewards.isnan() & keep  # (..., G)
    r = torch.where(kept, rewards, 0.0)
    count = kept.sum(-1, keepdim=True)  # (..., 1)
    mean = r.sum(-1, keepdim=True) / count.clamp(min=1)
    squares = torch.where(kept, (r - mean) ** 2, 0.0).sum(-1, keepdim=True)
    std = (squares / (count - 1).clamp(min=1)).sqrt()
    low = r.masked_fill(~kept, torch.inf).amin(-1, keepdim=True)
    high = r.masked_fill(~kept, -torch.inf).amax(-1, keepdim=True)
    return mean, torch.where(high > low, std, 0.0)


def group_advantages(rewards: Tensor, *, scale: bool = True, delta: float = 1e-4) -> Tensor:
    """Return A = (r - mean) / (std + delta) within each group (Eq. 3), without the division if not `scale`.

    Rewards and advantages have shape ``(..., G)``; a NaN reward stands for an infrastructure error. The advantage is 0
    there, and in groups whose rewards agree.

    >>> group_advantages(torch.tensor([1.0, 0.0, torch.nan]), scale=False)
    tensor([ 0.5000, -0.5000,  0.0000])
    """
    mean, std = group_mean_std(rewards)
    advantages = (rewards - mean) / (std + delta) if scale else rewards - mean
    return torch.where(~rewards.isnan() & (std > 0), advantages, 0.0)


def signal(rewards: Tensor) -> float:
    """Return the share of groups whose rewards differ, ``(..., G)``: only these have advantages."""
    return float((group_mean_std(rewards)[1] > 0).double().mean())


class NestedAdvantages(NamedTuple):
    """Advantages of a nested group.

    Attributes:
        helper: Of each branch, on the tokens of its interpretation; shape ``(..., G, M)``.
        reasoner: Of each path, on all its tokens; shape ``(..., G)``.
    """

    helper: Tensor
    reasoner: Tensor


def nested_advantages(
    rewards: Tensor, rule: NestedRule = "subgroup_mean", *, scale: bool = True, delta: float = 1e-4
) -> NestedAdvantages:
    """Return the advantages of G paths that each end in M branches (MSARL Eq. 2-4).

    The helper's are normalised within the subgroup of one path: A_ij = (r_ij - mean_j r_i) / (std_j r_i + delta).
    The reasoner's, one for each path, follow a rule:

    - ``"subgroup_mean"``: the group advantage of the subgroups' means.
    - ``"pooled"``: rewards are normalised over all G·M outputs of the question, then averaged over each subgroup.
    - ``"paper"``: the helper's advantages, averaged over each subgroup. That is Eq. 4 literally, and
      always 0, since each subgroup was centred; it is here for comparison.

    Rewards have shape ``(..., G, M)``, NaN where there is none; a path without branches has its one reward M times.
    Advantages are finite: 0 where there is no reward, and where rewards agree. `scale` and `delta` are those of
    `group_advantages`.

    >>> helper, reasoner = nested_advantages(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), scale=False)
    >>> helper
    tensor([[ 0.0000,  0.0000],
            [-0.5000,  0.5000]])
    >>> reasoner
    tensor([ 0.2500, -0.2500])
    """
    helper = group_advantages(rewards, scale=scale, delta=delta)  # (..., G, M)
    valid = ~rewards.isnan()
    if rule == "subgroup_mean":
        means = torch.where(valid.any(-1), group_mean_std(rewards)[0].squeeze(-1), torch.nan)  # (..., G)
        return NestedAdvantages(helper, group_advantages(means, scale=scale, delta=delta))
    if rule == "pooled":
        outputs = group_advantages(rewards.flatten(-2), scale=scale, delta=delta).reshape(rewards.shape)
    elif rule == "paper":
        outputs = helper
    else:
        raise UnknownNameError("rule for the reasoner's advantage", rule, NESTED_RULES)
    return NestedAdvantages(helper, group_mean_std(outputs, valid)[0].squeeze(-1))


def homogeneity_filter(rewards: Tensor, *, threshold: float = HOMOGENEITY) -> Tensor:
    """Return, in the shape of the rewards, whether a rollout's group has a reward deviation of at least `threshold`."""
    _, std = group_mean_std(rewards)
    return ((std >= threshold) & (std > 0)).expand(rewards.shape)


def rollout_filters(
    rewards: Tensor,
    well_formed: Tensor | None = None,
    answered: Tensor | None = None,
    *,
    calls_valid: Tensor | None = None,
    threshold: float = HOMOGENEITY,
) -> Tensor:
    """Return which rollouts the paper's three filters leave for the backward pass, as booleans of shape ``(..., G)``.

    The filters act on the backward pass only: `group_advantages` takes mean and deviation over all rollouts that have a
    reward, so a malformed rollout lowers its group's baseline, but has no gradient itself.

    Args:
        rewards: Shape ``(..., G)``, NaN for rollouts without a reward.
        well_formed: Whether all calls of a rollout are in format, ``(..., G)``; None turns that filter off.
        answered: Whether a rollout ends in an answer, ``(..., G)``; None turns that filter off.
        calls_valid: Whether all of its calls named a tool and fitted its parameters too, ``(..., G)``; None, as in the
            paper, turns that filter off.
        threshold: Of `homogeneity_filter`; 0 drops only groups in which all agree.
    """
    kept = homogeneity_filter(rewards, threshold=threshold) & ~rewards.isnan()
    for mask in (well_formed, answered, calls_valid):
        if mask is not None:
            kept = kept & mask
    return kept
