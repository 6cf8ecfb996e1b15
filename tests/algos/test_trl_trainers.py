"""Rows of like length are computed together, with the same values and gradients."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import nn
from transformers import LlamaConfig

from toolorchestra.algos.trl_trainers import MicroBatchGRPOTrainer, MicroBatchSFTTrainer


class _Widths(nn.Module):
    """Gives each id a value that depends on all before it, and records the shapes of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.linspace(-1, 1, 50))
        self.widths: list[tuple[int, int]] = []
        self.config = LlamaConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor, fused_lm_head: bool) -> SimpleNamespace:
        assert fused_lm_head
        self.widths.append((input_ids.shape[0], input_ids.shape[1]))
        values = self.values[input_ids].cumsum(1)[:, 1:] * (labels[:, 1:] != -100)
        return SimpleNamespace(log_probs=values, entropy=values**2)


@pytest.mark.parametrize("rows_at_once", [None, 1, 5])
def test_values_and_gradients_are_those_of_the_whole_batch(rows_at_once: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(1, 9, (40,), generator=generator)
    completions = torch.randint(1, 60, (40,), generator=generator)
    before, after = int(prompts.max()), int(completions.max())
    places = torch.arange(before + after)
    mask = ((places >= before - prompts[:, None]) & (places < before + completions[:, None])).long()
    ids = torch.randint(1, 50, mask.shape, generator=generator) * mask
    trainer = object.__new__(MicroBatchGRPOTrainer)
    trainer.accelerator, trainer.micro_batch = Accelerator(cpu=True), rows_at_once

    bundled, plain = _Widths(), _Widths()
    trainer.model = bundled
    logps, entropies, _ = trainer._get_per_token_logps_and_entropies(bundled, ids, mask, after, compute_entropy=True)
    whole = (plain.values[ids] * mask).cumsum(1)[:, before:]
    written = mask[:, before:]
    torch.testing.assert_close(logps, whole * written)
    torch.testing.assert_close(entropies, whole**2 * written)
    (logps * written).sum().backward()
    (whole * written).sum().backward()
    torch.testing.assert_close(bundled.values.grad, plain.values.grad)

    assert len(bundled.widths) > 1
    assert max(rows for rows, _ in bundled.widths) <= (rows_at_once or 40)
    computed = sum(rows * width for rows, width in bundled.widths)
    assert computed < 0.8 * mask.numel()


@pytest.mark.parametrize("trainer", [MicroBatchSFTTrainer, MicroBatchGRPOTrainer])
def test_the_card_beside_checkpoints_is_ours(tmp_path: Path, trainer: Any) -> None:
    made = trainer.__new__(trainer)
    made.args, made.model_card = SimpleNamespace(output_dir=str(tmp_path)), "# GRPO on a restaurant"
    made.create_model_card(model_name="checkpoints")
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "# GRPO on a restaurant"
