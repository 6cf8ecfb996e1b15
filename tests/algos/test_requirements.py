"""A dry run says what a configuration needs, and refuses what cannot fit, without loading a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3Config

from toolorchestra.agents.builtin.adapters import make_adapters
from toolorchestra.agents.builtin.model import TokenPolicy, build_model
from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.algos import memory
from toolorchestra.algos.dry_run import require_memory
from toolorchestra.algos.options_one_agent import TrainGRPO, TrainSFT
from toolorchestra.algos.options_several_agents import TrainMultiGRPO, TrainTMATR
from toolorchestra.algos.requirements import ModelSizes, requirements
from toolorchestra.cli.train import TrainCommand
from toolorchestra.toolscale.errors import OptionError

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


def needs(large: str, there: int = 2**40, kind: Any = TrainGRPO, **options: Any) -> Any:
    return requirements(kind(**({"model": large, "max_ids": 24_000} | options)), CPU, there)


def test_weights_gradients_and_the_optimisers_moments_take_16_bytes_a_weight(large: str) -> None:
    found = needs(large)
    assert found.weights == 4 * 8_190_735_360  # as many as Qwen3-8B has
    assert found.gradients == found.weights
    assert found.optimizer == 2 * found.weights
    assert found.reference == 0
    assert needs(large, beta=0.1).reference == found.weights
    assert needs(large, beta=0.1, track_kl=True).reference == needs(large, track_kl=True).reference == found.weights
    assert needs(large, optimizer="sgd").optimizer == 0


def test_frozen_weights_take_what_they_are_loaded_in(large: str) -> None:
    full, half = needs(large, lora_rank=16), needs(large, lora_rank=16, precision="bf16", beta=0.1)
    quarter = needs(large, lora_rank=16, precision="bf16", quantize="4bit")
    assert full.weights == pytest.approx(33e9, rel=0.02)
    assert half.weights == pytest.approx(16.5e9, rel=0.02)
    assert 5e9 < quarter.weights < 7e9  # the embeddings and the head stay in 16 bits
    assert half.reference == 0
    assert half.optimizer == 2 * half.gradients < 1e9
    assert needs(large, precision="bf16").casts == needs(large).weights / 2


def test_rows_are_as_many_as_memory_has_room_for(large: str) -> None:
    one, more = needs(large, memory=1.0), needs(large, memory=40.0)
    assert (one.sampled_rows, one.trained_rows) == (1, 1)  # at least one
    assert more.sampled_rows > 1
    assert more.cache == more.sampled_rows * 24_000 * 2 * 36 * 1024 * 4
    assert needs(large, memory=1.0, gradient_checkpointing=True).activations < one.activations / 10
    assert one.logits < 5 * GIB  # of a chunk, not of 24,000 positions


def test_what_a_server_samples_takes_no_memory_here(large: str) -> None:
    here, there = (needs(large, memory=40.0, sampler=sampler) for sampler in ("hf", "vllm-server"))
    assert here.cache > 0
    assert (there.sampled_rows, there.cache, there.kept, there.reading) == (0, 0, 0, 0)
    assert there.peak == here.peak - max(
        0, here.cache + here.kept + here.reading - here.gradients - here.activations - here.logits
    )


def test_rollouts_that_go_on_meanwhile_take_a_copy_and_their_memory_at_the_same_time(large: str) -> None:
    turns, together = needs(large), needs(large, max_staleness=1)
    assert together.reference == turns.reference + turns.weights
    assert together.peak > turns.peak + turns.weights + min(turns.cache + turns.reading, turns.activations) / 2
    assert needs(large, max_staleness=1, sampler="vllm-server").reference == 0


def test_the_weights_of_an_adapter_are_counted_as_peft_makes_them(tmp_path: Path) -> None:
    policy = builtin_text_policy([[{"role": "user", "content": "one two"}, {"role": "assistant", "content": "three"}]])
    policy.save(tmp_path / "model")
    adapted = make_adapters(["one"], tmp_path / "model", rank=4)["one"]
    sizes = ModelSizes.of(TokenPolicy.load(tmp_path / "model").model, 4, ())
    assert sizes.adapter == sum(parameter.numel() for parameter in adapted.model.parameters())
    with torch.device("meta"):
        meta = build_model(500)
    assert ModelSizes.of(meta, 4, ("nothing",)).adapter == 0


def test_every_learner_can_be_asked(large: str, tmp_path: Path) -> None:
    sft = requirements(TrainSFT(model=large, output=tmp_path), CPU, 2**40)
    assert sft.sampled_rows == 0 < sft.activations
    apart = {"env": "TMATR-Math-v0", "episodes": (Path("e.jsonl"),), "models": {"planner": large, "inferencer": large}}
    assert requirements(TrainSFT(**apart, output=tmp_path), CPU, 2**40) == sft  # one after another
    team = requirements(TrainMultiGRPO(env="Dialogue-Restaurant-v0", model=large, output=tmp_path), CPU, 2**40)
    assert team.weights == 2 * sft.weights
    adapters = TrainMultiGRPO(env="Dialogue-Restaurant-v0", model=large, output=tmp_path, lora_rank=8)
    assert requirements(adapters, CPU, 2**40).weights < 1.1 * sft.weights
    assert requirements(TrainTMATR(output=tmp_path), CPU, 2**40).reference > 0
    assert requirements(TrainGRPO(output=tmp_path), CPU, 2**40).peak < 4 * GIB  # the built-in model


def test_what_cannot_fit_is_refused_with_the_flags_with_which_it_would(
    large: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = TrainGRPO(model=large, max_ids=4096)
    monkeypatch.setattr(memory, "free", lambda device: 64 * GIB)
    with pytest.raises(OptionError, match=r"needs .* GiB, and this machine has 64\.00.*--lora-rank 16"):
        require_memory(config, CPU)
    shown = capsys.readouterr().out
    for name in ("weights", "gradients", "optimiser", "reference", "KV cache", "activations", "logits", "there is"):
        assert name in shown
    monkeypatch.setattr(memory, "free", lambda device: 28 * GIB)
    with pytest.raises(OptionError, match="fit with --gradient-checkpointing --precision bf16 --lora-rank 16"):
        require_memory(config, CPU)
    monkeypatch.setattr(memory, "free", lambda device: GIB)
    with pytest.raises(OptionError, match="smaller model"):
        require_memory(config, CPU)


def test_the_command_asks_and_trains_nothing(large: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free", lambda device: 2**40)
    arguments = ("--env", ENV, "--model", large, "--output", str(tmp_path / "run"), "--dry-run")
    assert TrainCommand("grpo", arguments).run() == 0
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(memory, "free", lambda device: GIB)
    with pytest.raises(OptionError):
        TrainCommand("grpo", arguments).run()


def test_what_is_divided_counts_by_its_part_and_what_is_gathered_counts_whole(
    large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, weights = needs(large, shard=True), 8_190_735_360
    assert (alone.processes, alone.whole, alone.gathered) == (1, 0, 0)
    monkeypatch.setenv("WORLD_SIZE", "8")
    copies, parts, half = needs(large), needs(large, shard=True), needs(large, shard=True, precision="bf16")
    assert copies.weights == 4 * weights
    assert copies.trained_rows <= 16  # of 128 rows
    for one in (parts, half):
        assert one.weights == one.gradients == one.optimizer / 2 == 4 * weights / 8
    assert parts.whole == 2 * half.whole == 4 * weights
    assert 0 < parts.gathered < parts.whole
    assert half.casts == 0
    assert parts.peak < copies.peak - 6 * weights
    assert needs(large, shard=True, beta=0.1).reference == 4 * weights / 8


def test_what_is_kept_over_turns_is_a_term_of_its_own(large: str) -> None:
    found = needs(large, memory=40.0)
    assert found.kept == 20 * GIB
    assert needs(large, memory=40.0, max_ids=64, in_flight=2).kept == 2 * 64 * 2 * 36 * 1024 * 4
    assert needs(large, memory=40.0, sampler="vllm-server").kept == 0
    built_in = requirements(TrainGRPO(), CPU, 2**40)
    assert built_in.kept == 0 < built_in.cache  # its layers are not attention alone
