"""Limits of whoever plays an episode end it as limits of the environment do."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import msgspec
import pytest
from gymnasium.spaces import Discrete, Text

from toolorchestra.agents.policies.base import Policy
from toolorchestra.envs import make_multiagent
from toolorchestra.envs.played import stop
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.records.unjudged import fitted, named_outcome
from toolorchestra.envs.run_episodes import run_all
from toolorchestra.envs.starts import EpisodeStart

MENU = '<tool_call>{"name": "list_menu", "arguments": {}}</tool_call>'
PYTHON = '<tool_call>{"name": "python", "arguments": {"code": "print(1)"}}</tool_call>'
ONE_AGENT = {
    "calls": ("ToolOrchestra-Restaurant-v0", MENU, "max_turns"),
    "calls that cannot be read": ("ToolOrchestra-Restaurant-v0", "<tool_call>{</tool_call>", "max_turns"),
    "questions": ("ToolOrchestra-MultiHopQA-v0", PYTHON, "max_turns"),
    "rounds of sub-agents": (
        "ParaManager-Math-v0",
        '<reasoning>x</reasoning><tool_call>{"name": "standard_reasoner", "arguments": {}}</tool_call>',
        "max_rounds",
    ),
    "rounds without a call": ("ParaManager-Math-v0", "Let me think.", "max_rounds"),
}
SEVERAL_AGENTS = {
    "MSARL": ("MSARL-Math-v0", "```python\nprint(1)\n```"),
    "TMATR": ("TMATR-Math-v0", "nothing of the right form"),
    "dialogue": ("Dialogue-Restaurant-v0", "Hello?"),
}


def test_the_same_is_paid_whoever_ends_an_episode_after_two_messages() -> None:
    for name, (env_id, action, limit) in ONE_AGENT.items():
        ours: Any = gym.make(env_id, **{limit: 2}, disable_env_checker=True).unwrapped
        theirs: Any = gym.make(env_id, **{limit: 9}, disable_env_checker=True).unwrapped  # of one digit, as 2 is
        for env in (ours, theirs):
            env.reset(seed=3)
            for _ in range(2):
                env.step(action)
        assert ours.episode.outcome == "failed", name
        assert stop(theirs, "no answer after 2 turns") is theirs.episode
        for field in ("outcome", "why", "reward", "reward_parts", "rewards", "metrics", "cost", "clock"):
            assert getattr(ours.episode, field) == getattr(theirs.episode, field), (name, field)
        assert theirs.play.truncated


@pytest.mark.parametrize("protocol", SEVERAL_AGENTS)
def test_the_same_is_paid_to_every_agent_whoever_ends_an_episode(protocol: str) -> None:
    env_id, message = SEVERAL_AGENTS[protocol]
    records = []
    for max_cycles in (2, 40):
        env = make_multiagent(env_id, max_cycles=max_cycles)
        env.reset(seed=3)
        for _ in range(2):
            env.step(message)
        env.play.stop("no answer after 2 turns")
        records.append(msgspec.to_builtins(env.episode))
    assert records[0] == records[1]
    assert records[0]["outcome"] == "failed"
    assert "no answer after 2 turns" in records[0]["why"]


@pytest.mark.parametrize("protocol", SEVERAL_AGENTS)
def test_an_episode_can_be_ended_before_its_first_message(protocol: str) -> None:
    env = make_multiagent(SEVERAL_AGENTS[protocol][0])
    env.reset(seed=0)
    env.play.stop("no answer within 10 ids")
    assert (env.episode.outcome, env.episode.turns) == ("failed", [])
    assert set(env.episode.rewards) == set(env.possible_agents)


def test_what_is_over_stays_as_it_is() -> None:
    env: Any = gym.make("ToolOrchestra-Restaurant-v0", max_turns=1).unwrapped
    assert stop(env, "before the first reset") is None
    env.reset(seed=0)
    env.step(MENU)
    before = msgspec.json.encode(env.episode)
    stop(env, "too late")
    stop(env, "too late", "infra_error")
    assert msgspec.json.encode(env.episode) == before


def test_what_breaks_down_outside_leaves_an_episode_without_a_reward() -> None:
    env: Any = gym.make("ToolOrchestra-Restaurant-v0").unwrapped
    env.reset(seed=0)
    env.step(MENU)
    stop(env, "the server hung up", "infra_error")
    episode = env.episode
    assert (episode.outcome, episode.why, episode.reward, episode.rewards) == (
        "infra_error",
        "the server hung up",
        None,
        {},
    )


def test_a_reminder_that_nobody_reads_is_not_in_the_record() -> None:
    env: Any = gym.make("ParaManager-Math-v0").unwrapped
    env.reset(seed=3)
    for _ in range(2):
        env.step(ONE_AGENT["rounds of sub-agents"][1])
    stop(env, "no answer after 2 turns")
    assert ["Budget left" in turn.observation for turn in env.episode.turns] == [True, False]
    assert "Budget left" not in env.play.messages[-1]["content"]


class Menu(Policy):
    """Never answers."""

    def act(self, observation: str, info: Any) -> Any:
        return MENU


def test_a_wrapper_that_ends_an_episode_ends_its_record_too() -> None:
    def make() -> gym.Env[Any, Any]:
        return gym.make("ToolOrchestra-Restaurant-v0", max_episode_steps=3, disable_env_checker=True)

    episodes: list[Episode] = run_all(make, Menu, [EpisodeStart(0, {}), EpisodeStart(1, {})])
    assert [(one.outcome, one.why, one.reward) for one in episodes] == [("failed", "no answer after 3 turns", 0.0)] * 2


@pytest.mark.parametrize(
    ("info", "reward", "terminated", "outcome"),
    [
        ({}, 1.0, True, "solved"),
        ({}, 0.0, True, "failed"),
        ({}, 1.0, False, "failed"),
        ({"outcome": "solved"}, 0.0, False, "solved"),
        ({"outcome": "failed"}, 1.0, True, "failed"),
        ({"outcome": "judge_error"}, 1.0, True, "judge_error"),
        ({"outcome": "won"}, 1.0, True, "solved"),
        ({"outcome": None}, -1.0, True, "failed"),
    ],
)
def test_an_outcome_is_what_the_environment_names_or_its_own_end_with_a_reward(
    info: dict[str, Any], reward: float, terminated: bool, outcome: str
) -> None:
    assert named_outcome(info, reward, terminated=terminated) == outcome


@pytest.mark.parametrize(
    ("space", "action", "right"),
    [
        (Text(3, charset="0123456789"), "7", True),
        (Text(3, charset="0123456789"), "seven", False),
        (Text(3, charset="0123456789"), "", False),
        (Text(3, charset="0123456789"), "1234", False),
        (Text(3, charset="0123456789"), None, False),
        (Text(20), "Go on, please.", True),  # no characters were named
        (Text(20, min_length=0), "", True),
        (Text(20), "", False),
        (Text(3), "left", False),
        (Discrete(4), "left", False),
        (None, "anything", True),
        (Text(3), [{"name": "f", "arguments": {}}], True),
    ],
)
def test_an_action_outside_of_a_space_is_told_with_what_was_expected(space: Any, action: Any, right: bool) -> None:
    wrong = "" if right else f"expected an action in {space}, got {action!r}"
    assert fitted(space, action) == (action, wrong)
