"""What an episode makes of the forms in which a model may write: calls, thoughts, and what is neither."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.messages import read_message

ARGUMENTS = {"kind": "opera"}
CALL = {"name": "find_productions", "arguments": ARGUMENTS}
WRITTEN = f"<tool_call>{json.dumps(CALL)}</tool_call>"


def played(*actions: Any, env_id: str = "ToolOrchestra-Entertainment-v0", **options: Any) -> Any:
    env = gym.make(env_id, **options)
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    return env.unwrapped.episode  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("action", "repaired"),
    [
        (WRITTEN, ""),
        ([CALL], ""),
        (CALL, ""),
        ({"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": CALL}]}, ""),
        ({"name": "find_productions", "parameters": ARGUMENTS}, "`parameters`"),
        ({"role": "assistant", "content": None, "function_call": CALL}, "`function_call`"),
        (json.dumps(CALL), "bare JSON"),
        (f"I look for operas:\n```json\n{json.dumps(CALL)}\n```", "bare JSON"),
        ("<tool_call><function=find_productions><parameter=kind>opera</parameter></function></tool_call>", "function"),
        ({"content": [{"type": "tool_use", "id": "t", "name": "find_productions", "input": ARGUMENTS}]}, "`tool_use`"),
    ],
)
def test_the_same_call_is_made_in_whichever_form_and_the_record_notes_it(action: Any, repaired: str) -> None:
    (turn,) = played(action).turns
    (wanted,) = played(WRITTEN).turns
    assert [(call.arguments, call.value) for call in turn.calls] == [
        (call.arguments, call.value) for call in wanted.calls
    ]
    assert turn.repaired.removesuffix(" calls") == repaired
    (strict,) = played(action, repair=False).turns
    assert [str(call.status) for call in strict.calls] == ["PARSE_ERR" if repaired else "OK"]
    assert not strict.repaired


def test_a_call_is_never_made_without_its_arguments() -> None:
    for action in ({"name": "find_productions", **ARGUMENTS}, json.dumps({"name": "find_productions", **ARGUMENTS})):
        (call,) = played(action).turns[0].calls
        assert str(call.status) == "PARSE_ERR"
        assert "but `kind` beside its name" in (call.error or "")


@pytest.mark.parametrize(
    "thought",
    ["<think>{}</think>", "<THINKING a='1'>{}</THINKING>", "{}</think>", "<reasoning>{}", "[THINK]{}[/THINK]"],
)
@pytest.mark.parametrize("protocol", ["ToolOrchestra", "ParaManager", "MSARLSingle"])
def test_a_thought_is_neither_an_answer_nor_a_call(protocol: str, thought: str) -> None:
    env = gym.make(f"{protocol}-Math-v0")
    env.reset(seed=0)
    task = getattr(env.unwrapped, "multi_agent_env", env.unwrapped).play.task
    for inner in (rf"\boxed{{{task.answer}}}", '<tool_call>{"name": "final_answer", "arguments": {}}</tool_call>'):
        _, reward, terminated, _, info = env.step(thought.replace("{}", inner))
        assert not terminated or reward == 0.0
        assert info.get("outcome") != "solved"
        assert not info.get("calls")
        env.reset(seed=0)


def test_nothing_but_a_thought_is_answered_by_a_note_and_ends_the_episode_when_it_comes_twice() -> None:
    for options in ({"answer": "text"}, {}):
        episode = played("<think>Hm", env_id="ToolOrchestra-Restaurant-v0", **options)
        assert (episode.outcome, episode.answer) == (None, None)
        assert "in this message" in episode.turns[0].observation
        episode = played("<think>Hm", "", env_id="ToolOrchestra-Restaurant-v0", **options)
        assert (episode.outcome, episode.answer) == ("failed", None)
        assert episode.why.startswith("two messages without a call")


def test_thoughts_in_a_field_stand_in_the_record_and_are_paid_for() -> None:
    message = {"role": "assistant", "content": WRITTEN, "reasoning_content": "Operas, then. " * 50}
    thoughtful, hasty = (played(action).turns[0] for action in (message, WRITTEN))
    assert thoughtful.message["reasoning_content"] == message["reasoning_content"]
    assert thoughtful.tokens[1] > hasty.tokens[1] + 150
    assert read_message(thoughtful.message).reasoning == message["reasoning_content"]
