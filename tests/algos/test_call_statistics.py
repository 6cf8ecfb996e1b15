"""Shares of tools and models and different tools over training (ParaManager Figures 5 and 6b)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.algos.reporting import call_statistics
from toolorchestra.algos.rollout.engine import Row
from toolorchestra.envs.records.calls_made import MadeCall, calls_made


def row(*calls: tuple[str, str] | str) -> Row:
    made = [MadeCall(call) if isinstance(call, str) else MadeCall(call[0], (call[1],)) for call in calls]
    return Row(0, "orchestrator", [1], calls=tuple(made))


def test_calls_go_to_tools_and_to_the_models_that_sub_agents_ask() -> None:
    env: Any = gym.make("ParaManager-Math-v0", disable_env_checker=True).unwrapped
    env.reset(seed=0)
    calls = [
        {"name": "code_reasoner", "arguments": {"model_id": "qwen3-30b-2507"}},
        {"name": "ensemble_solver", "arguments": {}},
        {"name": "critical_reviewer", "arguments": {"model_id": "nobody"}},
        {"name": "python", "arguments": {"code": "print(1)"}},
    ]
    env.step(calls)
    env.step([{"name": "final_answer", "arguments": {}}])
    assert calls_made(env.episode) == (
        MadeCall("code_reasoner", ("qwen3-30b-2507",)),
        MadeCall("ensemble_solver", ("gpt-oss-20b",)),
        MadeCall("python"),
    )
    env.close()


def test_shares_are_of_all_calls_and_of_all_calls_of_models() -> None:
    found = call_statistics.statistics([row(("ask", "a"), ("ask", "b"), "python"), row(("code", "a"))])
    assert found == pytest.approx(
        {
            "unique_tools": 1.5,
            "tool_ask": 0.5,
            "tool_code": 0.25,
            "tool_python": 0.25,
            "model_a": 2 / 3,
            "model_b": 1 / 3,
        }
    )
    assert call_statistics.statistics([row("get_dish"), row()]) == {}


def test_the_shares_over_training_and_on_held_out_tasks_are_drawn_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    again = tmp_path / "again.svg"
    records = [{"kind": "train", "step": step, "unique_tools": 2.0, "tool_ask": 1.0, "model_a": 1.0} for step in (1, 2)]
    call_statistics.draw(records, {"start": records[0], "GRPO": records[1]}, again)
    first = again.read_bytes()
    for words in (
        b"shares of tools over training",
        b"shares of models on held-out tasks",
        b"different tools of an episode",
    ):
        assert words in first
    call_statistics.draw(records, {"start": records[0], "GRPO": records[1]}, again)
    assert again.read_bytes() == first
    call_statistics.draw([], {}, tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()
