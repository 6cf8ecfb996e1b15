"""The ratio of whole sequences, unnormalised, in the learner's own loss (ToolOrchestra Eq. 4, ParaManager Eq. 20)."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from toolorchestra.algos.trl_trainers import MicroBatchGRPOTrainer

OLD = torch.zeros(3, 3)
RATIOS = torch.tensor([[1.1, 1.05, 7.0], [0.5, 1.0, 0.9], [1.25, 0.8, 1.1]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 1, 1]])  # the third token of the first row is the environment's
ADVANTAGES = torch.tensor([1.0, -2.0, 1.0])


def trainer(logps: torch.Tensor, *, beta: float = 0.0, loss_type: str = "grpo") -> Any:
    """A trainer whose model has these log-probabilities."""
    made = object.__new__(MicroBatchGRPOTrainer)
    made.product_ratio, made.loss_type, made.beta = True, loss_type, beta
    made.epsilon_low, made.epsilon_high = 0.2, 0.28
    made.use_vllm, made.model, made._metrics = False, SimpleNamespace(training=True), {"train": defaultdict(list)}
    made.args = SimpleNamespace(use_bias_correction_kl=True, steps_per_generation=1)
    made.accelerator, made.current_gradient_accumulation_steps = SimpleNamespace(num_processes=1), 1
    made._get_per_token_logps_and_entropies = lambda *_, **__: (logps, torch.ones_like(logps), None)
    return made


def inputs(**more: Any) -> dict[str, Any]:
    ids = torch.ones(3, 3, dtype=torch.long)
    found = {f"{part}_{kind}": ids for part in ("prompt", "completion") for kind in ("ids", "mask")}
    return {**found, "tool_mask": MASK, "advantages": ADVANTAGES, "num_items_in_batch": torch.tensor(8)} | more


def test_the_loss_and_its_gradient_by_hand() -> None:
    # products: 1.1 · 1.05 = 1.155; 0.5 · 1 · 0.9 = 0.45; 1.25 · 0.8 · 1.1 = 1.1
    # min(r A, clip(r) A): 1.155; min(-0.9, -1.6) = -1.6, clipped; 1.1        -> -(1.155 - 1.6 + 1.1) / 3
    logps = torch.log(RATIOS).requires_grad_()
    learner = trainer(logps)
    loss = learner._compute_loss(None, inputs(old_per_token_logps=OLD))
    assert_close(loss, torch.tensor(-(1.155 - 1.6 + 1.1) / 3))
    # d(-r A / 3) / d log π of each own token is -r A / 3; nothing where the clip is smaller, or off the mask
    (gradient,) = torch.autograd.grad(loss, logps)
    assert_close(gradient, -torch.tensor([[1.155, 1.155, 0.0], [0.0, 0.0, 0.0], [1.1, 1.1, 1.1]]) / 3)
    assert learner._metrics["train"]["clip_ratio/region_mean"] == [pytest.approx(3 / 8)]  # of eight own tokens


def test_without_earlier_updates_the_gradient_is_the_advantage_for_every_token_however_long_the_sequence() -> None:
    logps = torch.log(RATIOS).requires_grad_()
    loss = trainer(logps)._compute_loss(None, inputs())
    (gradient,) = torch.autograd.grad(loss, logps)
    assert_close(gradient, -ADVANTAGES[:, None] * MASK / 3)


def test_a_sequence_counts_by_its_tokens_with_dapo_and_the_divergence_by_the_ratio() -> None:
    logps = torch.log(RATIOS)
    by_tokens = trainer(logps, loss_type="dapo")._compute_loss(None, inputs(old_per_token_logps=OLD))
    assert_close(by_tokens, torch.tensor(-(2 * 1.155 - 3 * 1.6 + 3 * 1.1) / 8))
    reference = logps + torch.log(torch.tensor(2.0))  # k3 of each token: 2 - log 2 - 1
    learner = trainer(logps, beta=0.5)
    loss = learner._compute_loss(None, inputs(old_per_token_logps=OLD, ref_per_token_logps=reference))
    divergence = (1.155 + 0.45 + 1.1) / 3 * (1 - 0.6931472)
    assert_close(loss, torch.tensor(-(1.155 - 1.6 + 1.1) / 3 + 0.5 * divergence))
