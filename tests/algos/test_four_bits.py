"""Adapters over weights of 4 bits learn, on a CPU too (bitsandbytes)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.options.precision import load_policy, save_policy, start_policy
from toolorchestra.algos.options.smoke import make_tiny_model
from toolorchestra.algos.rollout.sampling import ModelSampler
from toolorchestra.algos.rollout.trajectory import TrainRow, row_logps

bitsandbytes = pytest.importorskip("bitsandbytes", reason="it is installed by hand")


def gradients(model: Any) -> dict[str, torch.Tensor]:
    rows = [TrainRow([5, 6, 7], [8, 9, 10, 11], [1] * 4, [0.0] * 4)]
    logps, _, mask = row_logps(model.train(), rows, 0)
    (logps * mask).sum().backward()
    return {name: one.grad for name, one in model.named_parameters() if one.grad is not None}


def dequantized(model: Any) -> Any:
    """Return a copy with frozen weights of 32 bits, which are those that the 4 bits stand for."""
    found = copy.deepcopy(model)
    for module in found.modules():
        for name, layer in list(module.named_children()):
            if isinstance(layer, bitsandbytes.nn.Linear4bit):
                plain = torch.nn.Linear(layer.in_features, layer.out_features, bias=False)
                plain.weight.data = bitsandbytes.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
                setattr(module, name, plain.requires_grad_(False))
    return found


def test_the_gradient_is_that_of_the_weights_that_4_bits_stand_for_after_sampling_too(tmp_path: Path) -> None:
    model = make_tiny_model(tmp_path / "model", hidden_size=128, intermediate_size=128, head_dim=64)
    config = TrainGRPO(model=str(model), output=tmp_path, lora_rank=2, quantize="4bit")
    policy = start_policy(config, str(model))
    host: Any = policy.model.host  # type: ignore[attr-defined]
    layers = [one for one in host.modules() if isinstance(one, bitsandbytes.nn.Linear4bit)]
    assert len(layers) == 14  # 7 in each layer
    config.set_up(policy.model)
    for name, one in host.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(one)  # else the gradient of the other half is 0
    plain = dequantized(host)
    (mine,), (theirs,) = (ModelSampler(m, policy.renderer, seed=1)([[5, 6, 7]], [6], [0]) for m in (host, plain))
    assert mine.ids == theirs.ids
    found, expected = gradients(host), gradients(plain)
    assert set(found) == set(expected)
    assert len(found) == 28
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-5)
    save_policy(policy, tmp_path / "saved")
    again = load_policy(config, tmp_path / "saved")
    config.set_up(again.model)
    assert ModelSampler(again.model, again.renderer, seed=1)([[5, 6, 7]], [6], [0])[0].ids == mine.ids
