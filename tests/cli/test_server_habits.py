"""Rollouts of models behind servers with habits: no episode is lost to one, and what was said is in the record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from habits import ANSWER, CALL, HABITS, USAGE, refused, says

from toolorchestra.agents.chat.openai_chat import NoAnswerWarning
from toolorchestra.envs.records.episode import read_episodes

Run = Callable[..., Any]


def rollout(run: Run, server: Any, env: str, file: Path, *options: Any, episodes: int = 20) -> Any:
    chosen = ("--policy", "llm", "--model", "m", "--base-url", server.url, "--split", "all", "--price", 1, 2)
    return run("rollout", env, *chosen, "--episodes", episodes, "--out", file, "--json", *options)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolorchestra.agents.http_client._FIRST_PAUSE", 0.001)


@pytest.mark.parametrize("habit", HABITS)
def test_a_rollout_of_20_episodes_records_20(
    run: Run, fake_server: Any, folder: str, tmp_path: Path, habit: str
) -> None:
    fake_server.respond = HABITS[habit]()
    file = tmp_path / "episodes.jsonl"
    output = rollout(run, fake_server, folder, file)
    assert output.code == 0, output.err
    episodes = list(read_episodes(file))
    assert [episode.outcome for episode in episodes] == ["failed"] * 20
    assert output.json["model"]["cost"] > 0
    assert output.json["model"]["prompt_tokens"] > 0


@pytest.mark.parametrize("habit", [habit for habit in HABITS if "wanted back" in habit or habit.startswith("a stream")])
def test_thoughts_of_a_server_stand_in_the_record(
    run: Run, fake_server: Any, folder: str, tmp_path: Path, habit: str
) -> None:
    fake_server.respond = HABITS[habit]()
    rollout(run, fake_server, folder, tmp_path / "episodes.jsonl", episodes=2)
    for episode in read_episodes(tmp_path / "episodes.jsonl"):
        first = episode.turns[0]
        assert first.message["reasoning_content"] == "I look it up."
        assert [call.name for call in first.calls][:1] == ["list_orders"]
        assert {*first.message} == {"role", "content", "tool_calls", "reasoning_content"}


@pytest.mark.parametrize("protocol", ["MSARL-Math", "MASOrchestra-Low-Math", "ParaManager-Math", "Dialogue-Restaurant"])
def test_thoughts_beside_an_answer_are_kept_and_charged_in_every_protocol(
    run: Run, fake_server: Any, tmp_path: Path, protocol: str
) -> None:
    found = []
    for thought in ("", "Let me think about that for a while."):
        fake_server.respond = says({"content": ANSWER, "reasoning_content": thought})
        file = tmp_path / f"{len(found)}.jsonl"
        options = ("--env-options", "python", "simulated") if protocol.startswith("MSARL") else ()
        assert rollout(run, fake_server, f"{protocol}-v0", file, *options, episodes=1).code == 0
        found += read_episodes(file)
    quiet, thinking = found
    assert [turn.message["content"] for turn in thinking.turns] == [turn.message["content"] for turn in quiet.turns]
    assert {turn.message.get("reasoning_content") for turn in quiet.turns} == {None}
    assert {turn.message["reasoning_content"] for turn in thinking.turns} == {thought}
    if protocol != "MSARL-Math":  # whose agents cost nothing
        assert thinking.cost > quiet.cost


def test_the_raw_text_of_a_broken_call_stays_in_the_record(
    run: Run, fake_server: Any, folder: str, tmp_path: Path
) -> None:
    fake_server.respond = HABITS["arguments cut off"]()
    rollout(run, fake_server, folder, tmp_path / "episodes.jsonl", episodes=1)
    (episode,) = read_episodes(tmp_path / "episodes.jsonl")
    (call,) = episode.turns[0].message["tool_calls"]
    assert call["function"]["arguments"] == '{"customer_id": "C0'
    assert [str(one.status) for one in episode.turns[0].calls] == ["PARSE_ERR"]
    sent = next(message for message in fake_server.bodies[-1]["messages"] if message["role"] == "assistant")
    assert json.loads(sent["tool_calls"][0]["function"]["arguments"]) == {"unreadable": '{"customer_id": "C0'}


def test_an_answer_that_thoughts_leave_no_room_for_is_an_episode_and_warned_of_once(
    run: Run, fake_server: Any, folder: str, tmp_path: Path
) -> None:
    fake_server.respond = says({"content": None, "reasoning_content": "Long thought"}, finish_reason="length")
    with pytest.warns(NoAnswerWarning, match=r"within 8,000 tokens.*Raise --max-tokens; have it think less") as warned:
        assert rollout(run, fake_server, folder, tmp_path / "episodes.jsonl").code == 0
    assert len(warned) == 1
    assert len(list(read_episodes(tmp_path / "episodes.jsonl"))) == 20


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((404, {"error": "no m"}), "Correct --model or --base-url."),
        ((200, b"<html>"), "Check that --base-url is the server's OpenAI-compatible root"),
        ((200, {"choices": []}), "Check that --base-url is"),
        ((429, b"busy"), "Lower --in-flight."),
        ((401, b"who?"), "Set --api-key-env."),
        ((400, b"no"), "Correct the request: its messages, tools or sampling settings."),
    ],
)
def test_errors_of_a_server_name_flags(
    run: Run, fake_server: Any, folder: str, tmp_path: Path, answer: Any, told: str
) -> None:
    fake_server.respond = lambda body: answer
    output = rollout(run, fake_server, folder, tmp_path / "episodes.jsonl", episodes=1)
    assert output.code == 2
    assert told in output.err
    assert not re.search(r"\w=(\W|$)", output.err)


def test_what_the_strict_server_refuses_would_be_seen() -> None:
    asked = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [CALL]}]
    assert "have no result" in str(says({})({"messages": asked}))
    assert says({"content": ANSWER})({"messages": asked[:1]})[1]["usage"] == USAGE
    assert refused("no")[0] == 400
