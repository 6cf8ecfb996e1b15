from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def oracle(run: Run, folder: str, tmp_path: Path) -> Path:
    """The episodes of `recorded`, all solved."""
    file = tmp_path / "oracle.jsonl"
    run("rollout", folder, "--policy", "oracle", "--split", "all", "--episodes", 20, "--out", file)
    return file


def test_recordings_are_compared_task_by_task(run: Run, recorded: Path, oracle: Path):
    found = run("compare", recorded, oracle, "--json").json
    assert found["success"]["b"] == 1.0
    assert found["success"]["difference"]["estimate"] == pytest.approx(1.0 - found["success"]["a"])
    assert found["success"]["difference"]["low"] > 0
    assert len(found["better"]) >= 2
    assert found["worse"] == []
    assert found["p"] == 2 / 2 ** len(found["better"])
    assert (found["only_a"], found["only_b"]) == (0, 0)
    text = run("compare", recorded, oracle).out
    assert f"B is better on {len(found['better'])} tasks, worse on 0" in text
    assert found["better"][0] in text


def test_the_other_way_round_the_signs_are_the_opposite(run: Run, recorded: Path, oracle: Path):
    one, other = (run("compare", *files, "--json").json for files in ((recorded, oracle), (oracle, recorded)))
    for name in ("success", "cost", "clock", "turns"):
        assert one[name]["difference"]["estimate"] == pytest.approx(-other[name]["difference"]["estimate"])
    assert (one["better"], one["p"]) == (other["worse"], other["p"])


def test_a_recording_equals_itself(run: Run, recorded: Path):
    found = run("compare", recorded, recorded, "--json").json
    assert found["p"] == 1.0
    assert found["success"]["difference"] == {"estimate": 0.0, "low": 0.0, "high": 0.0}


def test_tasks_of_one_recording_only_are_left_out_and_none_in_common_is_a_mistake(
    run: Run, folder: str, recorded: Path, tmp_path: Path
):
    part = tmp_path / "part.jsonl"
    part.write_bytes(b"".join(recorded.read_bytes().splitlines(keepends=True)[:1]))
    found = run("compare", part, recorded, "--json").json
    assert (found["tasks"], found["only_a"]) == (1, 0)
    assert found["only_b"] > 0
    other = tmp_path / "math.jsonl"
    run("rollout", "ToolOrchestra-Math-v0", "--policy", "null", "--episodes", 1, "--out", other)
    output = run("compare", recorded, other)
    assert output.code == 2
    assert "no judged task in common" in output.err


@pytest.mark.parametrize(
    ("outcomes", "judged", "of_all"),
    [
        ({}, 20, 1.0),
        ({0: "infra_error"}, 19, 0.95),
        ({0: "infra_error", 3: "judge_error"}, 18, 0.9),
        ({0: None, 1: None, 2: None, 3: None}, 16, 0.8),  # as learners recorded what they had cut off
        ({0: "failed", 1: "infra_error"}, 19, 0.9),
    ],
)
def test_success_is_given_over_the_judged_episodes_and_over_all(
    run: Run, recorded: Path, oracle: Path, tmp_path: Path, outcomes: dict[int, Any], judged: int, of_all: float
):
    lines = [json.loads(line) for line in oracle.read_bytes().splitlines()]
    for number, line in enumerate(lines):
        line["task_id"] = f"task {number}"
        line["outcome"] = outcomes.get(number, "solved")
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    for file in (one, other):
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        for line in lines:
            line["outcome"] = "solved"
    found = run("compare", one, other, "--json").json
    failed = sum(outcome == "failed" for outcome in outcomes.values())
    assert found["episodes"] == {"a": 20, "b": 20}
    assert found["judged"] == {"a": judged, "b": 20}
    assert found["success"]["a"] == pytest.approx((judged - failed) / judged)
    assert (found["success_of_all"]["a"], found["success_of_all"]["b"]) == (pytest.approx(of_all), 1.0)
    assert found["success_of_all"]["difference"]["estimate"] == pytest.approx(1 - of_all)
    text = run("compare", one, other).out
    assert f"{100 * of_all:.1f}" in text
    assert (f"not judged: {20 - judged} of 20 in A, 0 of 20 in B" in text) == (judged < 20)
