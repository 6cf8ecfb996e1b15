"""Every recipe runs from its start to its end at toy size, offline, and its record runs again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra `train`", exc_type=ImportError)

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos.config_files import RECORD, ConfigFile, options_of, parse_options
from toolorchestra.algos.options_one_agent import TrainGRPO
from toolorchestra.algos.options_several_agents import TrainMSARL
from toolorchestra.algos.recipes.shipped import recipe_names
from toolorchestra.algos.smoke import MAXIMA, make_tiny_model, toy
from toolorchestra.cli.main import main

KEPT = {
    "learning_rate", "beta", "epsilon", "epsilon_high", "ratio", "aggregation", "temperature", "scale", "max_ids",
    "gradient_checkpointing", "schedule", "sft_weight", "reasoner_advantage", "max_calls", "open_at", "min_std",
}  # fmt: skip
AT_ONCE = ("paramanager-4b-rl", "tmatr-4b")
"""Trained in every run of the tests, one agent and two; the others are `long`."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in AT_ONCE else pytest.param(name, marks=pytest.mark.long) for name in recipe_names()]
)
def test_a_recipe_trains_at_toy_size_with_its_own_settings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--config", name, "--smoke"]) == 0
    run = tmp_path / "runs" / f"{name}-smoke"
    records = list(map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()))
    assert [record for record in records if record["kind"] == "train"]
    assert list((run / "final").rglob("model.safetensors"))

    recipe, kind = ConfigFile.read(name), options_of(ConfigFile.read(name).learner)
    whole = parse_options(kind, ["--config", name])
    made = parse_options(kind, ["--config", str(run / RECORD)])
    assert ConfigFile.read(run / RECORD).learner == recipe.learner
    for option in KEPT & set(vars(whole)):
        assert getattr(made, option) == getattr(whole, option), option
    assert made.env.split("-")[0] == whole.env.split("-")[0]


def test_the_tiny_model_is_the_same_for_the_same_seed_and_reads_what_it_writes(tmp_path: Path) -> None:
    first, second = (TokenPolicy.load(make_tiny_model(tmp_path / name)) for name in ("a", "b"))
    text = 'Zürich, 23 July: {"name": "get_dish"}\n'
    ids = first.tokenizer(text)["input_ids"]
    assert first.tokenizer.decode(ids) == text
    assert ids == second.tokenizer(text)["input_ids"]
    assert all((a == b).all() for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True))


def test_the_options_of_a_run_are_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolorchestra.algos import trainer
    from toolorchestra.algos.options_one_agent import TrainSFT

    config = TrainSFT(output=tmp_path / "run", steps=3, seed=5)
    with trainer.open_run(config, "sft"):
        assert parse_options(TrainSFT, ["--config", str(config.output / RECORD)]) == config
    changed = parse_options(TrainSFT, ["--config", str(config.output / RECORD), "--resume", "--steps", "9"])
    with trainer.open_run(changed, "sft"):  # the record is that of the run, not of its continuation
        assert parse_options(TrainSFT, ["--config", str(config.output / RECORD)]) == config


def test_a_warm_start_is_short_and_none_stays_none() -> None:
    assert toy(TrainGRPO(env="ToolOrchestra-Restaurant-v0")).sft_steps == MAXIMA["sft_steps"]
    assert toy(TrainGRPO(env="ToolOrchestra-Restaurant-v0", sft_steps=0)).sft_steps == 0


def test_what_a_server_generates_for_is_generated_for_by_the_model(tmp_path: Path) -> None:
    given = {"sampler": "vllm-server", "servers": {"reasoner": "http://one:8000", "helper": "http://two:8000"}}
    config = toy(TrainMSARL(output=tmp_path / "run", **given))  # type: ignore[arg-type]
    assert (config.sampler, config.servers) == ("hf", {})
    assert config.importance_limit == 2.0  # the loss is that of the run
