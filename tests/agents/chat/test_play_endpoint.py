"""Episodes against the real server of transformers, whose fixtures are here."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.chat.base import Price
from toolorchestra.agents.chat.openai_chat import OpenAIChat
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.envs.bridges.any_agent import play_agent
from toolorchestra.envs.bridges.endpoint import play
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.run_episodes import run_all
from toolorchestra.envs.starts import EpisodeStart

ENV = "ToolOrchestra-Restaurant-v0"


@pytest.mark.slow
def test_an_episode_with_a_model_of_transformers_serve(served: str, caller_model: Any) -> None:
    task = {"env": ENV, "options": {"tools": ["get_dish"], "max_turns": 2}, "seed": 3}
    episode = play(task, served, str(caller_model), temperature=0.0, max_tokens=100)
    assert episode.seed == 3
    assert [[call.name for call in turn.calls] for turn in episode.turns] == [["get_dish"] * 2] * 2
    assert episode.outcome == "failed"
    assert episode.reward == 0.0
    env = gym.make(ENV, **task["options"])  # type: ignore[arg-type]
    env.reset(seed=3)
    for turn in episode.turns:
        env.step(turn.message)
    again = env.unwrapped.episode  # type: ignore[attr-defined]
    assert (again.task_id, again.reward, again.outcome) == (episode.task_id, episode.reward, episode.outcome)


@pytest.mark.slow
def test_an_agent_of_a_plain_client_plays_with_the_same_model(served: str, caller_model: Any) -> None:
    from examples.agents.openai_loop import agent

    task = {"env": ENV, "options": {"tools": ["get_dish"], "max_turns": 2}, "seed": 3}
    episode = asyncio.run(
        play_agent(task, agent, served, str(caller_model), extra={"temperature": 0, "max_tokens": 100})
    )
    assert [[call.name for call in turn.calls] for turn in episode.turns] == [["get_dish"] * 2] * 2
    assert [entry["turns"] for entry in episode.details["completions"]] == [[0], [1]]
    assert (episode.outcome, episode.reward) == ("failed", 0.0)


@pytest.mark.slow
@pytest.mark.long
def test_a_rollout_of_20_episodes_at_transformers_serve_records_20(served: str, caller_model: Any) -> None:
    resets = [EpisodeStart(seed, {}) for seed in range(20)]
    with OpenAIChat(served, str(caller_model), stream=True, price=Price(1, 1)) as chat:
        policy = partial(ChatPolicy, chat, max_tokens=40)
        played = run_all(lambda: gym.make(ENV, tools=["get_dish"], max_turns=2), policy, resets, in_flight=4)
        assert chat.meter.usage.cost > 0
    assert [one.outcome for one in played if isinstance(one, Episode)] == ["failed"] * 20
