from __future__ import annotations

import gymnasium as gym
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.exploration import ExplorerPolicy
from toolorchestra.envs.paramanager.env import ParaManagerEnv
from toolorchestra.toolscale.common.errors import OptionError


@pytest.fixture(scope="module")
def env() -> ParaManagerEnv:
    env = gym.make("ParaManager-Math-v0", disable_env_checker=True).unwrapped
    assert isinstance(env, ParaManagerEnv)
    return env


def test_an_explorer_keeps_to_its_turns_and_calls_and_then_ends(env: ParaManagerEnv) -> None:
    rounds = set()
    for seed in range(30):
        play_episode(env, ExplorerPolicy(turns=2, calls=3), seed=seed)
        *expert_turns, last = env.episode.turns
        rounds.add(len(expert_turns))
        assert all(1 <= len(turn.calls) <= 3 for turn in expert_turns)
        assert [call.name for call in last.calls] == ["final_answer"]
        assert all(call.status != "PARSE_ERR" for call in env.episode.calls)
    assert rounds == {1, 2}


def test_it_asks_every_role_and_every_model_sooner_or_later(env: ParaManagerEnv) -> None:
    names, models = set(), set()
    for seed in range(60):
        play_episode(env, ExplorerPolicy(turns=3, calls=3), seed=seed)
        for call in env.episode.calls:
            names.add(call.name)
            models.add((call.arguments or {}).get("model_id"))
    assert names >= {"standard_reasoner", "critical_reviewer", "code_reasoner", "ensemble_solver", "final_answer"}
    assert models - {None} == {"gpt-oss-20b", "qwen3-30b-2507", "qwen3-coder-30b"}


def test_the_same_seed_explores_the_same_way(env: ParaManagerEnv) -> None:
    records = []
    for _ in range(2):
        play_episode(env, ExplorerPolicy(seed=3), seed=5)
        records.append(env.episode.to_json())
    assert records[0] == records[1]


def test_tools_without_an_expert_are_refused() -> None:
    domain = gym.make("ToolOrchestra-Math-v0", disable_env_checker=True)
    with pytest.raises(OptionError, match="no expert to ask"):
        play_episode(domain, ExplorerPolicy(), seed=0)


@pytest.mark.parametrize("wrong", [{"turns": 0}, {"calls": 0}])
def test_impossible_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="at least one turn"):
        ExplorerPolicy(**wrong)
