"""Recordings: files that grow, are resumed as they were begun, and are added up."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolorchestra.envs.records.episode import CallRecord, Episode, Turn, read_episodes
from toolorchestra.envs.records.recording import Recording, Tally
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tools.tool import Status

Make = Callable[..., Any]


def episode(seed: int, outcome: str | None = "solved", difficulty: int = 1, calls: int = 0) -> Episode:
    records = tuple(
        CallRecord(f"c{i}", "spin", {}, Status.OK, cost=0.25, start=i, end=i + 1.0, value=None, error=None)
        for i in range(calls)
    )
    return Episode(
        env_id="e", task_id="t", split="train", difficulty=difficulty, prompt="", instruction="", tools=(), seed=seed,
        outcome=outcome, reward={"solved": 1.0, "failed": 0.0}.get(str(outcome)),
        turns=[Turn({}, records, cost=0.125, seconds=0.5)], cost=0.25 * calls, clock=float(calls),
    )  # fmt: skip


def test_a_recording_grows_by_an_episode_at_a_time_and_says_how_it_was_made(tmp_path: Path) -> None:
    file = tmp_path / "new" / "run.jsonl"
    with Recording(file, {"policy": "oracle", "sizes": (1, 2)}) as recording:
        assert (recording.done, recording.episodes) == (set(), [])
        for seed in (3, 4):
            recording.write(episode(seed))
            assert [one.seed for one in read_episodes(file)] == [*range(3, seed + 1)]  # on disk before the end
    assert msgspec.json.decode((tmp_path / "new" / "run.json").read_bytes()) == {"policy": "oracle", "sizes": [1, 2]}


def test_a_resumed_recording_knows_its_episodes_and_drops_the_beginning_of_a_line(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    with Recording(file, {"seed": 0}) as recording:
        recording.write(episode(3))
    file.write_bytes(file.read_bytes() + b'{"env_id": "e", "ta')
    with Recording(file, {"seed": 0}, resume=True) as recording:
        assert (recording.done, recording.episodes) == ({3}, [episode(3)])
        recording.write(episode(4))
    assert list(read_episodes(file)) == [episode(3), episode(4)]


def test_a_recording_is_not_mixed_with_another(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    with Recording(file, {"policy": "oracle", "seed": 0, "old": True}) as recording:
        recording.write(episode(3))
    with pytest.raises(OptionError, match=r"run\.jsonl is there already: give --resume to go on with it, or another"):
        Recording(file, {"policy": "oracle", "seed": 0, "old": True})
    told = r"was recorded with other options \(policy 'oracle', now 'null', seed 0, now 1\): give the same options"
    with pytest.raises(OptionError, match=told):
        Recording(file, {"policy": "null", "seed": 1, "old": True}, resume=True)
    with pytest.raises(OptionError, match=r"was recorded with other options \(old True, now None\)"):
        Recording(file, {"policy": "oracle", "seed": 0}, resume=True)
    assert list(read_episodes(file)) == [episode(3)]


def test_an_empty_file_is_no_recording_yet(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.touch()
    with Recording(file, {"seed": 0}) as recording:
        recording.write(episode(1))
    assert [one.seed for one in read_episodes(file)] == [1]


def test_episodes_are_added_up() -> None:
    tally = Tally([episode(0, calls=4), episode(1, "failed"), episode(2, difficulty=3, calls=2)])
    tally.add(episode(3, "infra_error", calls=2))
    assert (tally.judged, tally.share) == (3, pytest.approx(2 / 3))
    summary = tally.summary()
    assert summary.pop("interval") == pytest.approx((0.208, 0.939), abs=1e-3)
    assert summary == {
        "episodes": 4,
        "outcomes": {"solved": 2, "failed": 1, "infra_error": 1},
        "judged": 3,
        "success": pytest.approx(2 / 3),
        "success_of_all": 0.5,
        "unjudged": "1 of 4 episodes were not judged, and at most 1% may be left out: 1 × infra_error: ",
        "by_difficulty": {1: {"episodes": 2, "solved": 1}, 3: {"episodes": 1, "solved": 1}},
        "turns": 1.0,
        "calls": 2.0,
        "cost": 0.5,
        "clock": 2.0,
        "own_cost": 0.125,
        "own_clock": 0.5,
        "failures": {"reasons": {"no reason given": 1, "infra_error": 1}, "calls": []},
        "rewards": {},
    }


def test_no_episodes_add_up_to_nothing() -> None:
    summary = Tally([]).summary()
    assert (summary["episodes"], summary["interval"], summary["unjudged"]) == (0, (0.0, 1.0), "")
    assert math.isnan(summary["success"])
    assert math.isnan(summary["success_of_all"])
