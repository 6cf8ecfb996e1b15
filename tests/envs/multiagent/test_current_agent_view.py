from __future__ import annotations

import random

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.reference import NullPolicy
from toolorchestra.envs import make_multiagent
from toolorchestra.envs.msarl import random_message
from toolorchestra.envs.multiagent.views import CurrentAgentEnv, RandomMessages


def game() -> CurrentAgentEnv:
    return CurrentAgentEnv(make_multiagent("MSARL-Math-v0", python="simulated"))


def test_the_observation_is_that_of_the_current_agent_with_its_own_history() -> None:
    env = game()
    observation, info = env.reset(seed=3)
    assert info["agent"] == "reasoner"
    assert env.episode.instruction in observation
    observation, _, _, _, info = env.step("```python\nprint(6 * 7)\n```")
    assert info["agent"] == "helper"
    assert observation.endswith("42")
    assert env.episode.instruction not in str(info["messages"])
    assert info["tools"] == []


def test_it_plays_the_same_episode() -> None:
    env, rng = game(), random.Random(0)
    other = make_multiagent("MSARL-Math-v0", python="simulated")
    for seed in range(10):
        env.reset(seed=seed)
        other.reset(seed=seed)
        over, reward = False, 0.0
        while not over:
            message = random_message(other, rng)
            other.step(message)
            _, reward, terminated, truncated, _ = env.step(message)
            over = terminated or truncated
        assert env.episode.to_json() == other.episode.to_json()
        assert reward == other.episode.reward


def test_policies_that_speak_for_all_play_to_the_end() -> None:
    env = game()
    assert play_episode(env, RandomMessages(random_message), seed=0)["outcome"] in ("solved", "failed")
    assert play_episode(env, NullPolicy(), seed=0)["outcome"] == "failed"
    assert env.episode.why == "no answer after 8 turns"
