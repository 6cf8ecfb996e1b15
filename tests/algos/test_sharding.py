"""What cannot be divided over processes is refused, with the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from toolorchestra.agents.builtin.model import build_model
from toolorchestra.algos.hardware import distributed, sharding
from toolorchestra.algos.hardware.launch import launched_sharded
from toolorchestra.algos.options.one_agent import TrainGRPO, TrainSFT
from toolorchestra.algos.options.several_agents import TrainMSARL, TrainMultiGRPO, TrainTMATR
from toolorchestra.toolscale.common.errors import OptionError

LEARNERS: list[Any] = [TrainSFT, TrainGRPO, TrainMSARL, TrainMultiGRPO, TrainTMATR]


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("optimizer", ["adafactor", "adamw_8bit", "paged_adamw_8bit"])
def test_optimizers_whose_state_is_not_divided_are_refused(learner: Any, optimizer: str) -> None:
    with pytest.raises(OptionError, match=rf"`shard` divides the state of .*adamw.*, not that of {optimizer}\. Choose"):
        learner(shard=True, optimizer=optimizer)


@pytest.mark.parametrize("learner", [TrainSFT, TrainGRPO])
def test_adapters_are_refused(learner: Any) -> None:
    with pytest.raises(OptionError, match=r"leave out one\. `precision` bf16 .*, `quantize` 4bit"):
        learner(shard=True, model="m", lora_rank=8)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_launcher_of_fsdp_divides_models_unless_options_say_otherwise(
    learner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOOLORCHESTRA_SHARD", raising=False)
    assert not launched_sharded()
    assert not learner().shard
    for name in ("ACCELERATE_USE_FSDP", "TOOLORCHESTRA_SHARD"):
        monkeypatch.setenv(name, "true")
        assert learner().shard
        assert not learner(shard=False).shard
        monkeypatch.delenv(name)


def test_rollouts_while_training_are_refused_in_several_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(OptionError, match="one process, and 2 were started together"):
        TrainGRPO(shard=True, max_staleness=1, output=tmp_path)


def test_a_model_that_does_not_name_its_layers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    with pytest.raises(OptionError, match=r"^Linear does not name its layers .* Train it without `shard`\.$"):
        sharding.shard(torch.nn.Linear(2, 2))


def test_one_process_has_the_whole_model() -> None:
    model = build_model(20, hidden=32)
    sharding.shard(model)
    assert not sharding.sharded(model)
    assert sharding.whole_weights(model) is None
