from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.toolscale.domain import Domain

Run = Callable[..., Any]


def typing(monkeypatch: pytest.MonkeyPatch, *lines: str) -> list[str]:
    """Let a person type `lines`, then close the input; returns the questions asked."""
    script, prompts = iter(lines), []

    def answer(question: str = "") -> str:
        prompts.append(question)
        try:
            return next(script)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", answer)
    return prompts


def test_a_person_plays_and_sees_the_reference_trajectory(
    run: Run, folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    file = tmp_path / "mine.jsonl"
    prompts = typing(
        monkeypatch, "get_order O001", "list_orders C00", "get_order O999", "answer No idea.", "0", "y", "n"
    )
    output = run("play", folder, "--difficulty", 1, "--seed", 0, "--record", file)
    assert output.code == 0
    for part in (
        "where you are",
        "get_order",
        "EXEC_ERR",
        "failed · reward 0",
        "0 of 1 solved",
        "reference trajectory",
    ):
        assert part in output.out
    assert prompts[-1].startswith("Another one?")
    assert len(list(read_episodes(file))) == 1


def test_a_person_may_leave_at_any_time(run: Run, folder: str, monkeypatch: pytest.MonkeyPatch):
    for line in ([], ["quit"]):
        typing(monkeypatch, *line)
        output = run("play", folder)
        assert output.code == 0
        assert "Goodbye." in output.out


def test_a_given_task_is_played_once(run: Run, folder: str, monkeypatch: pytest.MonkeyPatch, mini: Domain):
    task = mini.task("mini/ask_price/000")
    prompts = typing(monkeypatch, f"get_order {task.bindings['order_id']}", f"answer {task.answer}", "11")
    output = run("play", folder, "--task", task.id)
    assert "1 of 1 solved" in output.out
    assert prompts == ["> ", "> ", "price (number): "]
