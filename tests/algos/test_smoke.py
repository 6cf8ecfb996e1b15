"""Every recipe runs from its start to its end at toy size, offline, and its record runs again."""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra `train`", exc_type=ImportError)

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos.options.config_files import (
    LEARNERS,
    RECORD,
    ConfigFile,
    options_of,
    parse_options,
    recipe_names,
)
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.options.several_agents import TrainMSARL
from toolorchestra.algos.options.smoke import FIXED, MAXIMA, make_tiny_model, shrink
from toolorchestra.cli.main import main
from toolorchestra.cli.train import TrainCommand

KEPT = {
    "learning_rate", "beta", "epsilon", "epsilon_high", "ratio", "aggregation", "temperature", "scale", "max_ids",
    "gradient_checkpointing", "schedule", "sft_weight", "reasoner_advantage", "max_calls", "open_at", "min_std",
}  # fmt: skip
UNBOUNDED = {
    "seed": "no size",
    "micro_batch": "rows of one pass, of a batch that is bounded",
    "save_total_limit": "how many of the checkpoints stay",
    "keep_rollouts": "how often rollouts are written",
    "lora_rank": "of an adapter over a tiny model",
    "warmup_steps": "steps of those that there are",
    "max_ids": "turns and their tokens are bounded, and what came before decides how long a prompt is",
    "eval_every": "the more, the fewer evaluations; of two batches",
    "max_staleness": "what is generated at a time is bounded",
}
"""The whole numbers among the options that a run keeps, and why it is short all the same."""
AT_ONCE = ("paramanager-4b-rl",)
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


def test_the_command_line_trains_every_learner() -> None:
    """Tests that go over `LEARNERS` leave out none of `toolorchestra train`."""
    assert set(typing.get_args(typing.get_type_hints(TrainCommand)["algorithm"])) == {*LEARNERS, "recipes"}


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_whole_number_among_the_options_is_bounded_or_adds_no_work(learner: str, tmp_path: Path) -> None:
    kind = options_of(learner)
    types = typing.get_type_hints(kind)
    whole = {field.name for field in dataclasses.fields(kind) if types[field.name] in (int, int | None)}
    assert whole <= {*MAXIMA, *FIXED, *UNBOUNDED}, "bound it in MAXIMA, or say why not in UNBOUNDED"

    bounded = {field.name for field in dataclasses.fields(kind)} & set(MAXIMA)
    config = example(learner, tmp_path)
    for name in bounded:
        setattr(config, name, 10**6)
    small = shrink(config)
    assert {name: getattr(small, name) for name in bounded} == {name: MAXIMA[name] for name in bounded}
    for name in bounded:
        if types[name] == int | None:
            setattr(config, name, None)  # a default that a large model would decide
    small = shrink(config)
    assert {name: getattr(small, name) for name in bounded} == {name: MAXIMA[name] for name in bounded}


def test_no_option_is_named_that_no_learner_has() -> None:
    fields = {field.name for learner in LEARNERS for field in dataclasses.fields(options_of(learner))}
    assert {*MAXIMA, *FIXED, *UNBOUNDED} <= fields
    assert not set(MAXIMA) & set(UNBOUNDED)


def example(learner: str, folder: Path) -> Any:
    """Return a learner's options as the command line makes them without any."""
    return parse_options(options_of(learner), ["--output", str(folder / "run")])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_runs_from_its_start_to_its_end_at_toy_size(
    learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", learner, "--smoke", "--output", "run"]) == 0
    records = list(map(json.loads, Path("run-smoke", "metrics.jsonl").read_text(encoding="utf-8").splitlines()))
    stages = len(getattr(example(learner, tmp_path), "schedule", (1,) * MAXIMA["steps"]))
    last = {record["phase"]: record["step"] for record in records if record["kind"] == "train"}
    assert last.pop("sft", 0) <= MAXIMA["sft_steps"]
    assert all(step <= stages for step in last.values())
    assert list(Path("run-smoke", "final").rglob("model.safetensors"))


def test_the_tiny_model_is_the_same_for_the_same_seed_and_reads_what_it_writes(tmp_path: Path) -> None:
    first, second = (TokenPolicy.load(make_tiny_model(tmp_path / name)) for name in ("a", "b"))
    text = 'Zürich, 23 July: {"name": "get_dish"}\n'
    ids = first.tokenizer(text)["input_ids"]
    assert first.tokenizer.decode(ids) == text
    assert ids == second.tokenizer(text)["input_ids"]
    assert all((a == b).all() for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True))


def test_the_options_of_a_run_are_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolorchestra.algos import trainer
    from toolorchestra.algos.options.one_agent import TrainSFT

    config = TrainSFT(output=tmp_path / "run", steps=3, seed=5)
    with trainer.open_run(config, "sft"):
        assert parse_options(TrainSFT, ["--config", str(config.output / RECORD)]) == config
    changed = parse_options(TrainSFT, ["--config", str(config.output / RECORD), "--resume", "--steps", "9"])
    with trainer.open_run(changed, "sft"):  # the record is that of the run, not of its continuation
        assert parse_options(TrainSFT, ["--config", str(config.output / RECORD)]) == config


def test_a_warm_start_is_short_and_none_stays_none() -> None:
    assert shrink(TrainGRPO(env="ToolOrchestra-Restaurant-v0")).sft_steps == MAXIMA["sft_steps"]
    assert shrink(TrainGRPO(env="ToolOrchestra-Restaurant-v0", sft_steps=0)).sft_steps == 0


def test_what_a_server_generates_for_is_generated_for_by_the_model(tmp_path: Path) -> None:
    given = {"sampler": "vllm-server", "servers": {"reasoner": "http://one:8000", "helper": "http://two:8000"}}
    config = shrink(TrainMSARL(output=tmp_path / "run", **given))  # type: ignore[arg-type]
    assert (config.sampler, config.servers) == ("hf", {})
    assert config.importance_limit == 2.0  # the loss is that of the run
