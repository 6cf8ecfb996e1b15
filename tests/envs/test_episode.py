from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolorchestra.envs.records.episode import Episode, read_episodes, write_episodes


@pytest.fixture
def episodes(make_env: Callable[..., Any]) -> list[Episode]:
    env = make_env(answer="text").unwrapped
    found = []
    for seed in range(5):
        env.reset(
            seed=seed, options={"split": "all", "difficulty": 3, "preference": {"compute": 1.0} if seed == 4 else None}
        )
        for call in env.task.reference_calls[: None if seed % 2 else 1]:
            env.step([{"name": call.name, "arguments": call.arguments}])
        env.step('<tool_call>{"name": "brök☃n</tool_call>')
        if seed:
            env.step(env.task.answer if seed % 2 else "naïve ☃")
        found.append(env.episode)
    return found


def test_episodes_survive_a_file(episodes: list[Episode], tmp_path: Path) -> None:
    file = tmp_path / "episodes.jsonl"
    assert write_episodes(file, episodes[:2]) == 2
    assert write_episodes(file, iter(episodes[2:])) == 3
    assert list(read_episodes(file)) == episodes
    assert file.read_bytes().count(b"\n") == 5


def test_a_record_is_complete(episodes: list[Episode]) -> None:
    unfinished, solved, failed, *_ = episodes
    assert (unfinished.outcome, unfinished.reward, unfinished.answer) == (None, None, None)
    assert (solved.outcome, solved.reward) == ("solved", 1.0)
    assert (failed.outcome, failed.reward, failed.answer) == ("failed", 0.0, "naïve ☃")
    called = {"get_customer": 1, "get_order": 1, "make_order": 2}
    read, written = zip(*(turn.tokens for turn in solved.turns), strict=True)
    assert read == (1155, 1209, 1268, 1325, 1397, 1465)  # a quarter of the bytes of the conversation so far
    assert written == (21, 29, 28, 20, 12, 4)  # and of the message, and one
    cost, clock = 0.01 + 0.2e-6 * (7819 + 114), 2.75 + 0.0014 * 114  # of calls, and as qwen3-8b reads and writes
    assert solved.metrics == (*(called.get(name, 0) for name in solved.tools), 1.0, -solved.cost, -solved.clock)
    assert [(call.name, call.status) for call in solved.calls] == [
        ("get_customer", "OK"), ("make_order", "OK"), ("make_order", "OK"), ("get_order", "OK"), ("", "PARSE_ERR"),
    ]  # fmt: skip
    assert (solved.cost, solved.clock) == (pytest.approx(cost), pytest.approx(clock))
    assert sum(call.cost for call in solved.calls) == 0.01
    assert sum(call.end - call.start for call in solved.calls) == pytest.approx(2.75)
    assert failed.why.startswith("execution: a new row of items is missing: (dish='cake', portions=1); ")
    assert episodes[4].preference == (*[0.0] * len(solved.tools), 0.0, 1.0, 0.0)


def test_a_record_is_one_line_of_json(episodes: list[Episode]) -> None:
    for episode in episodes:
        line = episode.to_json()
        assert b"\n" not in line
        assert msgspec.json.decode(line, type=Episode) == episode
        assert msgspec.json.decode(line)["env_id"] == "ToolOrchestra-Custom-v0"


def test_blank_lines_are_skipped_and_wrong_ones_are_named(episodes: list[Episode], tmp_path: Path) -> None:
    file = tmp_path / "episodes.jsonl"
    file.write_bytes(episodes[0].to_json() + b"\n\n" + b'{"env_id": 3}\n')
    found = read_episodes(file)
    assert next(found) == episodes[0]
    with pytest.raises(ValueError, match=r"episodes\.jsonl:3: expected an episode: Expected `str`, got `int`"):
        next(found)
