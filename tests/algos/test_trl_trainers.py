"""Rows of like length are computed together, with the same values and gradients."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from transformers import LlamaConfig, LlamaForCausalLM

from toolorchestra.algos.trl_trainers import MicroBatchGRPOTrainer, MicroBatchSFTTrainer


def tiny_model() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=50, **sizes)).double()


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
    trainer.temperature = 0.7

    bundled, plain = tiny_model(), tiny_model()
    shapes: list[torch.Size] = []
    bundled.model.register_forward_pre_hook(
        lambda module, args, options: shapes.append(options["input_ids"].shape), with_kwargs=True
    )
    trainer.model = bundled
    logps, entropies, _ = trainer._get_per_token_logps_and_entropies(bundled, ids, mask, after, compute_entropy=True)
    output = plain(input_ids=ids, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0))
    drawn = torch.distributions.Categorical(logits=output.logits[:, before - 1 : -1] / 0.7)
    written = mask[:, before:]
    whole = drawn.log_prob(ids[:, before:]) * written
    torch.testing.assert_close(logps.double(), whole, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropies.double(), drawn.entropy() * written, rtol=1e-5, atol=1e-5)
    logps.sum().backward()
    whole.sum().backward()
    for found, expected in zip(bundled.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-5)

    assert len(shapes) > 1
    assert max(rows for rows, _ in shapes) <= (rows_at_once or 40)
    assert sum(rows * width for rows, width in shapes) < 0.8 * mask.numel()


@pytest.mark.parametrize("trainer", [MicroBatchSFTTrainer, MicroBatchGRPOTrainer])
def test_the_card_beside_checkpoints_is_ours(tmp_path: Path, trainer: Any) -> None:
    made = trainer.__new__(trainer)
    made.args, made.model_card = SimpleNamespace(output_dir=str(tmp_path)), "# GRPO on a restaurant"
    made.create_model_card(model_name="checkpoints")
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "# GRPO on a restaurant"
