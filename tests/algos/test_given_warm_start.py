"""The warm start of given models: the adapter that is trained is the one that was taught, and the start is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from toolorchestra.algos import grpo, msarl, multi_grpo, tmatr
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.options.options import TrainOptions
from toolorchestra.algos.options.several_agents import TrainMSARL, TrainMultiGRPO, TrainTMATR
from toolorchestra.algos.options.smoke import make_tiny_model, shrink


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(make_tiny_model(tmp_path / "model"))


def taught(folder: Path) -> dict[str, torch.Tensor]:
    """Return what an adapter adds, which is nothing before it has learnt."""
    return {name: part for name, part in load_file(folder / "adapter_model.safetensors").items() if "lora_B" in name}


def records(folder: Path, phase: str) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["phase"] == phase and record["kind"] == "train"]


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        (TrainGRPO(), 1200),
        (TrainMSARL(), 600),
        (TrainGRPO(sft_steps=3), 3),
        (TrainGRPO(model="m"), 0),
        (TrainGRPO(model="m", sft_steps=3), 3),
        (TrainMSARL(reasoner="m"), 0),
        (shrink(TrainTMATR()), 20),
    ],
)
def test_built_in_models_are_taught_by_default_and_others_where_it_is_asked_for(
    config: TrainOptions, steps: int
) -> None:
    assert config.warm_steps == steps


@pytest.mark.slow
def test_grpo_goes_on_with_the_adapter_that_was_taught(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = TrainGRPO(
        env="ParaManager-Custom-v0", source="MathParity", model=model, output=tmp_path / "run", lora_rank=2,
        sft_steps=2, sft_batch=2, steps=1, groups=2, group_size=2, filters=(), resample=0, beta=0.1, max_turns=2,
        max_turn_ids=8, eval_samples=1, eval_tasks=1, save_every=1, threads=1,
    )  # fmt: skip
    run = tmp_path / "run"
    grpo.train(config)
    rates = [record["learning_rate"] for record in records(run, "sft")]
    assert len(rates) == 2
    assert 0 < max(rates) <= 1e-4  # SFT's, tenfold for adapters
    start = taught(run / "start")
    assert any(part.count_nonzero() for part in start.values())
    assert taught(run / "final").keys() == start.keys()
    assert json.loads((run / "start" / "adapter_config.json").read_text())["base_model_name_or_path"] == model
    shown = " ".join(capsys.readouterr().out.split())
    assert "SFT" in json.loads((run / "heldout.json").read_text())["means"]
    assert "No difference can be shown: try more batches (--steps)" in shown
    grpo.train(replace(config, steps=2, resume=True))
    assert [record["step"] for record in records(run, "grpo")] == [1, 2]
    assert len(records(run, "sft")) == 2
    assert all(torch.equal(part, start[name]) for name, part in taught(run / "start").items())


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["multi_grpo", "tmatr"])
def test_each_agent_of_a_team_is_taught_its_own_side(learner: str, model: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"output": tmp_path / "run", "lora_rank": 2, "sft_steps": 1, "eval_samples": 0}
    options["env_options"] = {"python": "simulated"}
    if learner == "multi_grpo":
        multi_grpo.train(small := shrink(TrainMultiGRPO(model=model, **options)))
        names = ("reasoner", "helper")
    else:
        tmatr.train(small := shrink(TrainTMATR(models={"planner": model, "inferencer": model}, **options)))
        names = ("planner", "inferencer")
    assert [record["step"] for record in records(small.output, "sft")] == [1, 2]
    one, other = (taught(small.output / "start" / name) for name in names)
    assert all(any(part.count_nonzero() for part in parts.values()) for parts in (one, other))
    assert not all(torch.equal(part, other[name]) for name, part in one.items())


@pytest.mark.slow
def test_whole_weights_of_a_team_are_taught(model: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"sft_steps": 1, "eval_samples": 1, "env_options": {"python": "simulated"}}
    small = shrink(TrainMSARL(reasoner=model, output=tmp_path / "run", **options))
    msarl.train(small)
    before = load_file(Path(str(small.reasoner)) / "model.safetensors")
    for name in ("reasoner", "helper"):
        after = load_file(small.output / "start" / name / "model.safetensors")
        assert not all(torch.equal(part, before[key]) for key, part in after.items())
