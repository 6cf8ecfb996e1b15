from __future__ import annotations

import gymnasium as gym
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.consensus import ConsensusPolicy
from toolorchestra.envs.paramanager.env import ParaManagerEnv
from toolorchestra.toolscale.common.errors import OptionError


def says(answer: str) -> ScriptedChat:
    return ScriptedChat(lambda request: rf"<reasoning>So.</reasoning><answer>\boxed{{{answer}}}</answer>", name=answer)


def paramanager(**options: object) -> ParaManagerEnv:
    env = gym.make("ParaManager-Math-v0", disable_env_checker=True, **options).unwrapped
    assert isinstance(env, ParaManagerEnv)
    return env


def waves(env: ParaManagerEnv, **options: int) -> list[list[str]]:
    play_episode(env, ConsensusPolicy(solvers=("standard_reasoner",), **options), seed=0)
    return [[call.name for call in turn.calls] for turn in env.episode.turns]


def test_it_stops_when_enough_agree() -> None:
    agreed = waves(paramanager(experts={"ada": says("7"), "bob": says("7")}), width=2, lead=2)
    assert agreed == [["standard_reasoner"] * 2, ["final_answer"]]


def test_it_goes_on_while_they_disagree_but_never_beyond_its_budget() -> None:
    split = waves(paramanager(experts={"ada": says("7"), "bob": says("8")}), width=2, lead=3, budget=6)
    assert [len(wave) for wave in split] == [2, 2, 1, 1]
    assert split[-1] == ["final_answer"]


def test_one_call_a_round_can_be_counted_by_waves() -> None:
    serial = waves(paramanager(experts={"ada": says("7"), "bob": says("7")}), width=1, wave=4)
    assert serial == [["standard_reasoner"]] * 4 + [["final_answer"]]
    env = paramanager()
    play_episode(env, ConsensusPolicy(budget=12, lead=99, solvers=("standard_reasoner",), reviews=False), seed=0)
    assert {call.name for call in env.episode.calls} == {"standard_reasoner", "final_answer"}


def test_reviewers_come_after_the_first_calls_and_all_models_have_their_turn() -> None:
    env = paramanager()
    play_episode(env, ConsensusPolicy(budget=12, lead=99), seed=0)
    calls = [call for call in env.episode.calls if call.name != "final_answer"]
    assert len(calls) == 11
    assert "critical_reviewer" not in [call.name for call in calls[:4]]
    assert "critical_reviewer" in [call.name for call in calls[4:]]
    assert len({(call.arguments or {})["model_id"] for call in calls[:3]}) == 3


def test_its_rounds_are_well_formed() -> None:
    env = paramanager()
    info = play_episode(env, ConsensusPolicy(), seed=0)
    assert info["reward_parts"]["format"] == 1.0


def test_tools_without_the_roles_are_refused() -> None:
    env = gym.make("ToolOrchestra-Math-v0", disable_env_checker=True)
    with pytest.raises(OptionError, match="Play a ParaManager environment"):
        play_episode(env, ConsensusPolicy(), seed=0)


@pytest.mark.parametrize("wrong", [{"width": 0}, {"lead": 0}, {"budget": 1}])
def test_impossible_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="Expected a width"):
        ConsensusPolicy(**wrong)
