"""A dry run says what a configuration needs, and refuses what cannot fit, without loading a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3Config

from toolorchestra.agents.builtin.adapters import make_adapters
from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.algos.hardware import memory
from toolorchestra.algos.options.dry_run import estimate, require_memory
from toolorchestra.algos.options.one_agent import TrainGRPO, TrainSFT
from toolorchestra.algos.options.several_agents import TrainMultiGRPO, TrainTMATR
from toolorchestra.cli.train import TrainCommand
from toolorchestra.toolscale.common.errors import OptionError

CPU = torch.device("cpu")
GIB = memory.GIB
ENV = "ToolOrchestra-Restaurant-v0"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the configuration of a model of 8 billion weights, without weights."""
    folder = tmp_path_factory.mktemp("large")
    Qwen3Config(
        vocab_size=151_936,
        hidden_size=4096,
        intermediate_size=12_288,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=False,
    ).save_pretrained(folder)
    return str(folder)


def needs(large: str, kind: Any = TrainGRPO, **options: Any) -> Any:
    return estimate(kind(**({"model": large, "max_ids": 24_000} | options)))


def test_weights_gradients_and_the_optimisers_moments_take_16_bytes_a_weight(large: str) -> None:
    found = needs(large)
    assert found.weights == 4 * 8_190_735_360  # as many as Qwen3-8B has
    assert found.gradients == found.weights
    assert found.optimizer == 2 * found.weights
    assert found.copies == 0
    assert needs(large, beta=0.1).copies == needs(large, track_kl=True).copies == found.weights
    assert needs(large, beta=0.1, track_kl=True).copies == found.weights
    assert needs(large, precision="bf16").copies == found.weights / 2
    assert needs(large, optimizer="sgd").optimizer == 0


def test_frozen_weights_take_what_they_are_loaded_in(large: str) -> None:
    full, half = needs(large, lora_rank=16), needs(large, lora_rank=16, precision="bf16", beta=0.1)
    quarter = needs(large, lora_rank=16, precision="bf16", quantize="4bit")
    assert full.weights == pytest.approx(33e9, rel=0.02)
    assert half.weights == pytest.approx(16.5e9, rel=0.02)
    assert 5e9 < quarter.weights < 7e9  # the embeddings and the head stay in 16 bits
    assert half.copies == 0
    assert half.optimizer == 2 * half.gradients < 1e9


def test_a_row_is_counted_for_sampling_and_for_training(large: str) -> None:
    found, short = needs(large), needs(large, max_ids=12_000)
    cache = 24_000 * 2 * 36 * 1024 * 4
    assert cache < found.sampling < 3 * cache
    assert found.sampling == pytest.approx(2 * short.sampling, rel=0.01)
    assert found.training > 5 * needs(large, gradient_checkpointing=True).training
    logits = 16 * memory.CHUNK + 4 * 151_936 * 4096  # of a chunk, not of all positions
    assert found.training - logits == 2 * (short.training - logits)


def test_what_a_server_samples_takes_no_memory_here(large: str) -> None:
    assert needs(large, sampler="vllm-server").sampling == 0 < needs(large).sampling


def test_rollouts_that_go_on_meanwhile_take_a_copy_and_their_memory_at_the_same_time(large: str) -> None:
    turns, together = needs(large), needs(large, max_staleness=1)
    assert together.copies == turns.weights
    assert together.peak == turns.peak + turns.weights + turns.sampling
    assert needs(large, max_staleness=1, sampler="vllm-server").copies == 0


def test_the_weights_of_an_adapter_are_counted_as_peft_makes_them(tmp_path: Path) -> None:
    policy = builtin_text_policy([[{"role": "user", "content": "one two"}, {"role": "assistant", "content": "three"}]])
    policy.save(tmp_path / "model")
    adapted = make_adapters(["one"], tmp_path / "model", rank=4)["one"]
    found = needs(str(tmp_path / "model"), lora_rank=4, max_ids=64)
    assert found.gradients == 4 * sum(parameter.numel() for parameter in adapted.model.parameters())
    assert needs(str(tmp_path / "model"), lora_rank=4, lora_targets=("nothing",), max_ids=64).gradients == 0


def test_every_learner_can_be_asked(large: str, tmp_path: Path) -> None:
    sft = estimate(TrainSFT(model=large, output=tmp_path))
    assert sft.sampling == 0 < sft.training
    apart = {"env": "TMATR-Math-v0", "episodes": (Path("e.jsonl"),), "models": {"planner": large, "inferencer": large}}
    assert estimate(TrainSFT(**apart, output=tmp_path)) == sft  # one after another
    team = estimate(TrainMultiGRPO(env="Dialogue-Restaurant-v0", model=large, output=tmp_path))
    assert team.weights == 2 * sft.weights
    adapters = TrainMultiGRPO(env="Dialogue-Restaurant-v0", model=large, output=tmp_path, lora_rank=8)
    assert estimate(adapters).weights < 1.1 * sft.weights
    assert estimate(TrainTMATR(output=tmp_path)).copies > 0
    assert estimate(TrainGRPO(output=tmp_path)).peak < GIB  # the built-in model


def test_what_cannot_fit_is_refused_with_what_needs_less(
    large: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = TrainGRPO(model=large, max_ids=4096)
    monkeypatch.setattr(memory, "free", lambda device: 64 * GIB)
    with pytest.raises(OptionError, match=r"needs .* GiB, and this machine has 64\.00.*`lora_rank`"):
        require_memory(config, CPU)
    shown = capsys.readouterr().out
    for name in ("weights", "gradients", "optimiser", "copies", "sampling", "training", "peak", "free"):
        assert name in shown
    less = TrainGRPO(model=large, max_ids=4096, gradient_checkpointing=True, precision="bf16", lora_rank=16)
    assert require_memory(less, CPU).peak < 28 * GIB


def test_the_command_asks_and_trains_nothing(large: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free", lambda device: 2**40)
    arguments = ("--env", ENV, "--model", large, "--output", str(tmp_path / "run"), "--dry-run")
    assert TrainCommand("grpo", arguments).run() == 0
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(memory, "free", lambda device: GIB)
    with pytest.raises(OptionError):
        TrainCommand("grpo", arguments).run()


def test_what_is_divided_counts_by_its_part_and_is_whole_while_sampling(
    large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, weights = needs(large, shard=True), 8_190_735_360
    monkeypatch.setenv("WORLD_SIZE", "8")
    copies, parts, half = needs(large), needs(large, shard=True), needs(large, shard=True, precision="bf16")
    assert copies == alone
    for one in (parts, half):
        assert one.weights == one.gradients == one.optimizer / 2 == 4 * weights / 8
    assert parts.sampling - copies.sampling == 4 * weights
    assert 0 < parts.training - copies.training < 4 * weights  # a few layers
    assert half.copies == 0
    assert parts.peak < copies.peak - 6 * weights
    assert needs(large, shard=True, beta=0.1).copies == 4 * weights / 8
