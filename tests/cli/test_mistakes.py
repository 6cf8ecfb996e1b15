"""Mistakes and help are answered at once: before torch, which takes seconds to import, is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from toolorchestra.agents.hub import check_model
from toolorchestra.algos.options.config_files import LEARNERS
from toolorchestra.cli.main import Command
from toolorchestra.cli.options import command_names

HEAVY = {"torch", "transformers", "trl", "datasets", "peft", "accelerate"}
SCRIPT = """
import contextlib, io, json, sys
from toolorchestra.cli.main import main

for line in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(line)
    print(json.dumps([code, out.getvalue(), err.getvalue(), [*sys.modules]]))
"""
RESTAURANT = "ToolOrchestra-Restaurant-v0"
MISTAKES = {
    "train grpo --model /no/model": "got '/no/model', which is neither. Folders in /: ",
    "train grpo --model qwen3-8b": "got 'qwen3-8b', which is neither. Folders in .: empty, runs.",
    "train grpo --model made/of/parts": "got 'made/of/parts', which is neither.",
    "train grpo --model notes.jsonl": "got 'notes.jsonl', which is neither.",
    "train grpo --model ./runs/finl": "Did you mean 'runs/final'? Models in runs: final.",
    "train grpo --model empty": "got 'empty', a folder without config.json. Folders in empty: none.",
    "train grpo --model runs": "got 'runs', a folder without config.json. Models in runs: final.",
    "train sft --model /no/model": "got '/no/model', which is neither.",
    "train msarl --reasoner /no/model": "got '/no/model', which is neither.",
    "train msarl --reasoner A/b --helper empty": "got 'empty', a folder without config.json.",
    "train tmatr --models planner A/b inferencer empty": "got 'empty', a folder without config.json.",
    "train multi-grpo --model empty": "got 'empty', a folder without config.json.",
    "train grpo --start nowhere": "--start 'nowhere' is no folder",
    "train grpo --start empty": "--start 'empty' holds no policy: expected a config.json in empty.",
    "train msarl --start runs": "--start 'runs' holds no policy 'reasoner': expected a config.json in runs/reasoner.",
    "train grpo --env Resturant": "Unknown environment 'Resturant'. Did you mean ",
    "train grpo --env ToolOrchestra-Resturant-v0": f"Did you mean '{RESTAURANT}'?",
    "train msarl --env MSARL-Mth-v0": "Unknown task source 'Mth'. Did you mean 'Math'?",
    "train grpo --env-options tool full": "Did you mean 'tools'?",
    "train grpo --config nope.yaml": "Unknown recipe or file 'nope.yaml'. Known: mas-orchestra-7b, ",
    "train --config nope.yaml": "Unknown recipe or file 'nope.yaml'. Known: mas-orchestra-7b, ",
    "train sft --episodes nope.jsonl": "--episodes 'nope.jsonl' is no file",
    "train sft --episodes notes.jsonl": "notes.jsonl:1: expected an episode",
    "train sft --model A/b --general nope.jsonl": "--general 'nope.jsonl' is no file",
    "train grop": "Unknown algorithm 'grop'. Did you mean 'grpo'?",
    f"rollout {RESTAURANT} --policy llm --model /no/model": "got '/no/model', which is neither.",
    f"rollout {RESTAURANT} --policy llm --model empty": "got 'empty', a folder without config.json.",
    f"rollout {RESTAURANT} --policy orakel": "Unknown policy 'orakel'. Did you mean 'oracle'?",
    "eval Restaurant": "Unknown command 'eval'.",
    "view nope": "nope cannot be read: No such file or directory.",
    "view empty": "empty has neither episodes nor metrics.",
    "show nope.jsonl": "nope.jsonl cannot be read: No such file or directory.",
    "compare nope.jsonl nope.jsonl": "nope.jsonl cannot be read: No such file or directory.",
    "build nope": "Expected a folder with a domain.yaml; there is none.",
    "synth ./nope": "Expected a folder with a domain.yaml; there is none.",
    "experts show gpt": "Unknown expert 'gpt'. Did you mean 'gpt-5'?",
    **{
        f"{command} Resturant": "Unknown environment 'Resturant'."
        for command in ("envs", "play", "rollout", "validate")
    },
}
"""What is said of each mistake, in a folder with ``empty/``, ``runs/final/config.json`` and ``notes.jsonl``."""


class Answer(NamedTuple):
    code: int
    out: str
    err: str
    modules: list[str]

    @property
    def heavy(self) -> set[str]:
        return HEAVY & set(self.modules)


def answers(folder: Path, lines: list[list[str]]) -> list[Answer]:
    """What the command says to each line, all in one new process."""
    given = json.dumps(lines)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=given, cwd=folder, capture_output=True, check=True, text=True
    )
    return [Answer(*json.loads(line)) for line in done.stdout.splitlines()]


def words(union: Any = Command, path: tuple[str, ...] = ()) -> Iterator[list[str]]:
    """Yield the words of every command and learner."""
    for name, inner in command_names(union).items():
        yield [*path, name]
        yield from words(inner, (*path, name))
    if not path:
        yield from (["train", learner] for learner in LEARNERS)


def test_a_mistaken_path_or_name_is_answered_before_torch_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "runs" / "final").mkdir(parents=True)
    (tmp_path / "runs" / "final" / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "notes.jsonl").write_text("no episode\n", encoding="utf-8")
    found = answers(tmp_path, [line.split() for line in MISTAKES])
    for line, answer in zip(MISTAKES, found, strict=True):
        assert (answer.code, answer.out, answer.heavy) == (2, "", set()), line
        assert MISTAKES[line] in answer.err, line
        assert answer.err.count("\n") == 1, line
    assert sorted(one.name for one in tmp_path.iterdir()) == ["empty", "notes.jsonl", "runs"]


def test_help_and_wrong_options_of_all_commands_load_no_torch(tmp_path: Path) -> None:
    helps = [["--version"], ["--help"], *([*line, "--help"] for line in words())]
    helps += [["train", learner, "--help-all"] for learner in LEARNERS]
    wrong = [[*line, "--no-such-option"] for line in words()]
    found = answers(tmp_path, [*helps, *wrong])
    for line, answer in zip([*helps, *wrong], found, strict=True):
        assert (answer.code, answer.heavy) == (2 if line in wrong else 0, set()), line


@pytest.mark.parametrize("name", ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B@b968826"])
def test_what_may_be_a_name_on_the_hub_is_let_through(name: str) -> None:
    check_model(name)


def test_the_package_runs_as_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "toolorchestra", "rollout", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, text=True)
    assert done.stdout.startswith("usage: toolorchestra rollout ")
