from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from toolorchestra.envs.records.episode import CallRecord, Episode, Turn
from toolorchestra.envs.records.failures import FailureCounts, pass_shares, reasons
from toolorchestra.toolscale.tools.tool import Status


def episode(outcome: str, why: str, *calls: CallRecord) -> Episode:
    fixed: dict[str, Any] = {"env_id": "e", "task_id": "t", "split": "test", "difficulty": 1, "prompt": ""}
    return Episode(**fixed, instruction="", tools=(), outcome=outcome, why=why, turns=[Turn({}, calls)])  # type: ignore[arg-type]  # any text


@pytest.mark.parametrize(
    ("outcome", "why", "found"),
    [
        ("solved", "solved", []),
        ("failed", "fidelity: not told 'a'; execution: x is y; fidelity: not told 'b'", ["fidelity", "execution"]),
        ("failed", "answer: the final answer should be '3'", ["answer"]),
        ("failed", "no answer after 50 turns", ["no answer after N turns"]),
        ("failed", "", ["no reason given"]),
        ("infra_error", "SandboxError: Docker is gone", ["infra_error: SandboxError"]),
    ],
)
def test_reasons_are_the_criteria_that_do_not_hold_or_what_ended_the_episode(
    outcome: str, why: str, found: list[str]
) -> None:
    assert reasons(episode(outcome, why)) == found


def test_calls_that_went_wrong_are_counted_by_tool_and_status_in_episodes_that_failed() -> None:
    wrong = CallRecord("1", "pay", {}, Status.EXEC_ERR), CallRecord("2", "pay", None, Status.PARSE_ERR)
    right = CallRecord("3", "pay", {}, Status.OK)
    counts = FailureCounts()
    counts.add(episode("failed", "fidelity: a", *wrong, right, wrong[0]))
    counts.add(episode("solved", "solved", *wrong))
    assert counts.summary() == {
        "reasons": {"fidelity": 1},
        "calls": [
            {"tool": "pay", "status": Status.EXEC_ERR, "calls": 2},
            {"tool": "pay", "status": Status.PARSE_ERR, "calls": 1},
        ],
    }


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_pass_at_k_and_pass_all_k_are_the_shares_among_all_draws(k: int) -> None:
    samples = {"a": [True, False, False, True], "b": [False] * 4, "c": [True] * 4}
    draws = [list(itertools.combinations(one, k)) for one in samples.values()]
    at = sum(sum(map(any, draw)) / len(draw) for draw in draws) / 3
    every = sum(sum(map(all, draw)) / len(draw) for draw in draws) / 3
    assert pass_shares(samples, k) == pytest.approx((at, every))


def test_tasks_with_too_few_samples_are_left_out() -> None:
    assert pass_shares({"a": [True], "b": [True, True]}, 2) == (1.0, 1.0)
    assert all(map(math.isnan, pass_shares({"a": [True]}, 2)))
