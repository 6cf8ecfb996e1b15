from __future__ import annotations

import dataclasses
import importlib
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolorchestra import cli
from toolorchestra.algos.options.config_files import (
    LEARNERS,
    config_text,
    options_of,
    parse_options,
    recipe_file,
    recipe_names,
)
from toolorchestra.algos.options.help_groups import GROUPS

Run = Callable[..., Any]
MULTI_AGENT = "MSARL-Math-v0"


def test_train_hands_its_options_to_the_algorithm(run: Run, monkeypatch: pytest.MonkeyPatch):
    grpo = pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    given = []
    monkeypatch.setattr(grpo, "train", given.append)
    assert run("train", "grpo", "--env", "ToolOrchestra-All-v0", "--seed", 5).code == 0
    assert (given[0].env, given[0].seed) == ("ToolOrchestra-All-v0", 5)
    assert "toolorchestra train grpo" in run("train", "grpo", "--help").out


def test_every_learner_of_the_command_line_is_there(run: Run):
    pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    for name in LEARNERS:
        output = run("train", name, "--help")
        assert output.code == 0
        assert f"toolorchestra train {name}" in output.out


@pytest.mark.parametrize("learner", LEARNERS)
def test_help_shows_at_most_40_options_and_help_all_every_one(run: Run, learner: str) -> None:
    shown, everything = (
        set(re.findall(r"^\W+(?:-h, )?--([a-z-]+)", run("train", learner, flag).out, re.MULTILINE))
        for flag in ("--help", "--help-all")
    )
    options = {field.name.replace("_", "-") for field in dataclasses.fields(options_of(learner))}
    assert everything == options | {"help", "help-all", "config", "smoke"}
    assert shown < everything
    assert {"help-all", "config", "env", "steps" if learner != "tmatr" else "stage-steps"} <= shown
    assert len(shown) <= 40


def test_help_shows_options_in_groups_the_model_first(run: Run) -> None:
    groups = [f"{group} options" for group in GROUPS]
    for flag in ("--help", "--help-all"):
        text = run("train", "grpo", flag).out
        assert re.findall(r"^\W+ ([a-z ]*options) ", text, re.MULTILINE) == ["options", *groups]
        assert text.index(" --model ") < text.index(" --start ") < text.index(" --env ") < text.index(" --steps ")


def test_groups_name_options_that_some_learner_has_each_once() -> None:
    of_learners = {field.name for learner in LEARNERS for field in dataclasses.fields(options_of(learner))}
    listed = " ".join(GROUPS.values()).split()
    assert len(listed) == len(set(listed))
    assert set(listed) <= of_learners | {"config", "smoke", "help_all"}


def test_an_option_that_help_does_not_show_is_read_all_the_same(run: Run) -> None:
    assert "--threads" not in run("train", "sft", "--help").out
    assert parse_options(options_of("sft"), ["--threads", "3"]).threads == 3


def test_train_says_how_to_install_what_it_needs(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("toolorchestra.algos")]:
        monkeypatch.delitem(sys.modules, name)
    output = run("train", "grpo")
    assert output.code == 2
    root = Path(cli.__file__).parents[1]
    assert f"pip install -e '{root}[train]'" in output.err  # the line that works from a checkout


def test_an_unknown_algorithm_is_a_mistake(run: Run):
    assert run("train", "grp").code == 2


def test_the_learner_of_one_agent_names_those_of_several(run: Run) -> None:
    pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    output = run("train", "grpo", "--env", MULTI_AGENT)
    assert output.code == 2
    message = " ".join(output.err.replace("│", " ").split())
    assert f"algos/msarl.py --env {MULTI_AGENT}" in message
    assert "algos/multi_grpo.py" in message


@pytest.mark.parametrize(
    ("learner", "options", "message"),
    [
        ("grpo", ("--env", "ToolOrchestra-Restarant-v0"), "Did you mean 'ToolOrchestra-Restaurant-v0'?"),
        ("grpo", ("--env", "no_such_module:Env-v0"), "No module named 'no_such_module'"),
        ("grpo", ("--env", "CartPole-v1", "--env-options", "wheels", "4"), "'CartPole-v1' cannot be made"),
        ("grpo", ("--env-options", "tool", "full"), "Did you mean 'tools'?"),
        ("sft", ("--env-options", "tools", "ful"), "Did you mean 'full'?"),
        ("sft", ("--env-options", "split", "val"), "Unknown split 'val'"),
        ("sft", ("--env-options", "domain", "mini", "--env", "ToolOrchestra-Custom-v0"), "Unknown domain 'mini'"),
        ("multi-grpo", ("--env", "MSARL-Mth-v0"), "Did you mean 'Math'?"),
        ("multi-grpo", ("--env", "no_such_module:env"), "There is no module 'no_such_module'"),
    ],
)
def test_a_wrong_environment_or_option_is_a_message_and_leaves_no_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learner: str, options: tuple[str, ...], message: str
) -> None:
    pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    output = run("train", learner, *options, "--output", "run")
    assert output.code == 2
    assert message in " ".join(output.err.replace("│", " ").split())
    assert "Traceback" not in output.err
    assert not (tmp_path / "run").exists()


def test_options_that_cannot_be_used_are_one_line_that_names_no_class(run: Run, tmp_path: Path) -> None:
    output = run("train", "grpo", "--micro-batch", 0, "--output", tmp_path / "run")
    assert (output.code, output.err) == (2, "error: --micro-batch must be at least 1, got 0.\n")


def test_a_file_that_holds_no_episodes_is_a_message(run: Run, folder: str, tmp_path: Path) -> None:
    pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    (tmp_path / "notes.jsonl").write_text("no episode\n", encoding="utf-8")
    options = ("--episodes", tmp_path / "notes.jsonl", "--output", tmp_path / "run")
    output = run("train", "sft", "--env", folder, *options)
    assert output.code == 2
    assert "notes.jsonl:1: expected an episode" in output.err


@pytest.mark.parametrize("name", ["folder", pytest.param("tasks", marks=pytest.mark.long)])
def test_train_takes_a_domain_and_a_file_of_tasks(run: Run, folder: str, tmp_path: Path, name: str) -> None:
    pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    env = [folder]
    if name == "tasks":
        file = tmp_path / "tasks.jsonl"
        file.write_text("\n".join(map(json.dumps, run("envs", folder, "--json").json)), encoding="utf-8")
        env = [str(file), "--env-options", "domain", folder]
    small = ("--sft-steps", 1, "--steps", 1, "--groups", 2, "--group-size", 2, "--in-flight", 4, "--eval-samples", 1)
    output = run("train", "grpo", "--env", *env, *small, "--output", tmp_path / "run", "--save-every", 0)
    assert output.code == 0, output.err
    assert (tmp_path / "run" / "final" / "model.safetensors").exists()


def test_a_file_names_the_learner_and_a_script_of_another_refuses_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sft = pytest.importorskip("toolorchestra.algos.sft", reason="needs the extra `train`", exc_type=ImportError)
    given: list[Any] = []
    monkeypatch.setattr(sft, "train", given.append)
    file = tmp_path / "mine.yaml"
    file.write_text("learner: sft\nsteps: 4\nseed: 2\n", encoding="utf-8")
    assert run("train", "--config", file, "--seed", 3).code == 0
    assert run("train", "sft", "--config", file).code == 0
    assert [(config.steps, config.seed) for config in given] == [(4, 3), (4, 2)]
    refused = run("train", "grpo", "--config", file)
    assert refused.code == 2
    assert "options of the learner 'sft', not of 'grpo'" in refused.err
    assert run("train", "--config", tmp_path / "nothing.yaml").code == 2
    file.write_text("steps: 4\n", encoding="utf-8")
    assert "does not name its `learner`" in run("train", "--config", file).err


def test_recipes_are_listed_and_printed(run: Run) -> None:
    listed = run("train", "recipes")
    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines()] == recipe_names()
    assert run("train", "recipes", "msarl-1.5b").out == recipe_file("msarl-1.5b").read_text(encoding="utf-8")
    assert "Did you mean 'msarl-1.5b'?" in run("train", "recipes", "msarl-1.5").err


def test_every_command_of_the_page_on_sizes_is_read(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    given: list[Any] = []
    for module, _ in LEARNERS.values():
        monkeypatch.setattr(importlib.import_module(f"toolorchestra.algos.{module}"), "train", given.append)
    page = (Path(cli.__file__).parents[1] / "docs" / "scaling.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    one_process = [line for line in lines if "toolorchestra train" in line]  # of several: test_launch_configs.py
    commands = [line[line.index("toolorchestra train") :] for line in one_process]
    assert len(commands) >= 8
    monkeypatch.chdir(tmp_path)
    for command in commands:
        words = shlex.split(command)[1:]
        if "runs/msarl/config.yaml" in words:  # of the run before it
            (tmp_path / "runs" / "msarl").mkdir(parents=True)
            (tmp_path / "runs" / "msarl" / "config.yaml").write_text(config_text(given[-1]), encoding="utf-8")
        assert run(*words).code == 0, command
    assert len(given) == len(commands)
