"""How an orchestrator is shown its tools: each way once, and in no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.messages.tool_lines import tool_lines
from toolorchestra.agents.policies.base import FunctionPolicy, play_episode
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.agents.policies.reference import OraclePolicy
from toolorchestra.envs.bridges.served import Served
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

Make = Callable[..., Any]
FORMS = ["full", "short"]


@pytest.mark.parametrize("schemas", FORMS)
@pytest.mark.parametrize("env_id", ["ToolOrchestra-Restaurant-v0", "ParaManager-Math-v0"])
def test_an_observation_lists_the_tools_once(env_id: str, schemas: str) -> None:
    env = gym.make(env_id, schemas=schemas)
    observation, info = env.reset(seed=0)
    lines, system = tool_lines(info["tools"]), info["messages"][0]["content"]
    assert observation.count(lines) == 1
    assert system.count(lines) == (schemas == "short")
    assert info["schemas"] == schemas
    rest = [message["content"] for message in info["messages"][1:]]
    assert observation == "\n\n".join([system, *([] if schemas == "short" else [lines]), *rest])
    env.close()


def test_tools_stand_in_every_info_as_one_object(make_env: Make) -> None:
    env = make_env()
    _, first = env.reset(seed=0)
    for _ in range(2):
        *_, info = env.step("Hm.")
        assert info["tools"] is first["tools"]
        assert info["schemas"] == "full"


def test_short_schemas_change_the_words_and_not_the_rules(make_env: Make) -> None:
    found = {}
    for schemas in FORMS:
        env = make_env(schemas=schemas)
        _, info = env.reset(seed=2)
        *_, after = env.step([{"name": info["tools"][0]["function"]["name"], "arguments": {"colour": "blue"}}])
        assert after["calls"][0].status == "PARSE_ERR"
        assert play_episode(env, OraclePolicy(), seed=2)["outcome"] == "solved"
        calls = [(call.name, call.arguments, call.value) for call in env.unwrapped.episode.calls]
        found[schemas] = (info["tools"], calls, env.unwrapped.episode.answer)
    assert found["full"] == found["short"]


def test_the_prompt_is_what_an_orchestrator_pays_for(make_env: Make) -> None:
    costs = {}
    for schemas in FORMS:
        env = make_env(schemas=schemas)
        env.reset(seed=0)
        env.step("Hm.")
        costs[schemas] = env.unwrapped.episode.cost
    assert 0.0 < costs["short"] < costs["full"]


@pytest.mark.parametrize("schemas", FORMS)
def test_a_server_is_given_the_tools_once(schemas: str, make_env: Make) -> None:
    env = make_env(schemas=schemas)
    model = ScriptedChat(["Hm.", "Hm."])
    info = play_episode(env, ChatPolicy(model), seed=0)
    for request in model.requests:
        listed = "Tools (" in str(request.messages[0]["content"])
        assert (list(request.tools), listed) == (([], True) if schemas == "short" else (info["tools"], False))


def test_a_function_is_given_the_tools_in_every_turn(make_env: Make) -> None:
    seen = []

    class Seeing(FunctionPolicy):
        def function(observation: str, info: Any) -> str:  # type: ignore[misc,override]  # noqa: N805 - a function
            seen.append(info["tools"])
            return "Hm."

    info = play_episode(make_env(), Seeing(), seed=0)
    assert [tools is info["tools"] for tools in seen] == [True, True]


@pytest.mark.parametrize("schemas", FORMS)
def test_a_bridge_gives_a_player_the_tools_once(schemas: str) -> None:
    game = Served("ToolOrchestra-Restaurant-v0", {"schemas": schemas})
    told = game.reset(seed=0)
    assert bool(told.tools) is (schemas == "full")
    assert ("Tools (" in told.messages[0]["content"]) is (schemas == "short")
    assert told.text.count("Tools (") == 1
    game.close()


def test_a_form_that_is_not_there_is_refused(make_env: Make) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'short'"):
        make_env(schemas="shor")
    with pytest.raises(OptionError, match="`schemas` must be full, got short: the prompt of MASOrchestra"):
        gym.make("MASOrchestra-Low-Math-v0", schemas="short")


def test_a_snapshot_keeps_the_tools(make_env: Make) -> None:
    env = make_env()
    env.reset(seed=0, options={"tools": ["spin"]})
    snapshot = env.unwrapped.snapshot()
    env.reset(seed=0)
    env.unwrapped.restore(snapshot)
    *_, info = env.step("Hm.")
    assert json.loads(json.dumps(info["tools"]))[0]["function"]["name"] == "spin"
