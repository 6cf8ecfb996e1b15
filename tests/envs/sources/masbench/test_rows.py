"""Rows of the public MASBench, from files of its columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.envs.ground_truth.parts import problem_of
from toolorchestra.envs.sources.masbench.rows import load_masbench
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError


def row(axis: str = "depth", value: str = "4", truth: str = "10", **changes: Any) -> dict[str, Any]:
    content = {
        "prompt_json": json.dumps([{"role": "user", "content": f"How many? ({axis} {value} {truth})"}]),
        "reward_model_json": json.dumps({"style": "rule", "ground_truth": truth}),
        "extra_info_json": json.dumps({"index": 3, "split": "test"}),
        "axis": axis,
        "value": value,
    }
    return content | changes


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [row(), row("horizon", "2", "14<<horizon>>22"), row("depth", "12", "0"), row("robustness", "2,4,6", "1")]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


def test_rows_become_tasks(file: Path):
    tasks = load_masbench(files=file).tasks("test")
    assert [task.intent for task in tasks] == ["depth4", "horizon2", "depth12", "robustness2,4,6"]
    assert [task.difficulty for task in tasks] == [2, 1, 5, 3]
    assert tasks[0].instruction == "How many? (depth 4 10)"
    assert tasks[0].communicate == (("10",),)
    assert tasks[1].communicate == (("14",), ("22",))
    assert tasks[1].answer == "\\boxed{14}\n\n\\boxed{22}"
    assert tasks[0].bindings["extra"] == {"index": 3, "split": "test"}
    assert problem_of(tasks[0]).steps[-1].answer == "10"


def test_rows_of_one_axis_are_chosen_and_limited(file: Path):
    assert [task.intent for task in load_masbench("depth", {"train": file}).tasks("train")] == ["depth4", "depth12"]
    assert len(load_masbench("depth", file, limit=1).tasks("all")) == 1


def test_rows_are_played_and_wanted_answers_are_all_demanded(file: Path):
    env = gym.make("ToolOrchestra-Custom-v0", source=load_masbench("horizon", file), split="test")
    for text, reward in (
        ("\\boxed{14}\n\n\\boxed{22}", 1),
        ("Problem 1: \\boxed{14}\nProblem 2: \\boxed{21}", 0),
        ("\\boxed{22}", 0),
    ):
        env.reset(seed=0)
        assert env.step(text)[1] == reward
    env.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_json": "no json"}, "row 1: expected the columns"),
        ({"prompt_json": "[]"}, "a prompt or an answer is empty"),
        ({"reward_model_json": "{}"}, "'ground_truth' is missing"),
        ({"reward_model_json": '{"ground_truth": "3<<horizon>>"}'}, "is empty"),
        ({"prompt_json": '[{"role": "user"}]'}, "row 1"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path: Path, changes: dict[str, Any], message: str):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([row(**changes)]), encoding="utf-8")
    with pytest.raises(OptionError, match=message):
        load_masbench(files=path)


def test_unknown_names_and_empty_files_are_refused(file: Path):
    with pytest.raises(UnknownNameError, match="axis"):
        load_masbench("width", file)
    with pytest.raises(UnknownNameError, match="split"):
        load_masbench("depth", {"validation": file})
    with pytest.raises(OptionError, match="at least one question"):
        load_masbench("breadth", file)
