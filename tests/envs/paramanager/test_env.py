"""The environment: options, pools, conclusions, domains, and who solves what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

import toolorchestra
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.checks.one_agent import CHECKS
from toolorchestra.envs.paramanager.env import ParaManagerEnv
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.domain import Domain

Make = Callable[..., Any]
Say = Callable[..., str]


def models(env: ParaManagerEnv) -> list[str]:
    _, info = env.reset(seed=0)
    schema = next(tool for tool in info["tools"] if tool["function"]["name"] == "standard_reasoner")
    return list(schema["function"]["parameters"]["properties"]["model_id"]["enum"])


def test_it_is_registered_with_every_source() -> None:
    ids = toolorchestra.environment_ids()
    sources = {env_id.split("-")[1] for env_id in ids if env_id.startswith("ToolOrchestra-")}
    assert {"Restaurant", "Weather", "All", "Math", "MultiHopQA"} <= sources
    assert sources == {env_id.split("-")[1] for env_id in ids if env_id.startswith("ParaManager-")}
    assert "ParaManager-Custom-v0" in gym.registry


@pytest.mark.filterwarnings("ignore:.*render_mode.*|.*render mode.*:UserWarning")
def test_gymnasiums_checker_is_content(make_env: Make) -> None:
    check_env(make_env(render_mode="ansi"))


def test_the_pools_are_the_paper_s(make_env: Make) -> None:
    assert models(make_env()) == ["gpt-oss-20b", "qwen3-30b-2507", "qwen3-coder-30b"]
    assert models(make_env(pool="paramanager-unseen")) == ["gpt-oss-120b", "gemini-2.5-flash", "qwen3-235b-2507"]
    assert models(make_env(pool=["qwen3-32b", "gpt-5"])) == ["qwen3-32b", "gpt-5"]


def test_the_prompt_describes_the_models(make_env: Make) -> None:
    observation, _ = make_env(pool=["qwen3-32b", "gpt-5"]).reset(seed=0)
    assert "qwen3-32b is asked if you name none" in observation
    assert "\n- gpt-5: It is strong at math" in observation


def test_one_model_may_be_all_there_is_while_the_summariser_stays(make_env: Make, say: Say) -> None:
    env = make_env(mono="qwen3-30b-2507")
    assert models(env) == ["qwen3-30b-2507"]
    env.step(say("ensemble_solver"))
    *_, info = env.step(say("final_answer"))
    assert [child.name for call in env.episode.calls for child in call.children] == ["qwen3-30b-2507"] * 4 + [
        "gpt-oss-20b"
    ]
    other = make_env(mono="qwen3-30b-2507", summariser="qwen3-30b-2507")
    other.reset(seed=0)
    *_, info = other.step(say("final_answer"))
    assert [child.name for child in info["calls"][0].children] == ["qwen3-30b-2507"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pool": "paramanger"}, UnknownNameError, "paramanager"),
        ({"pool": ["gpt-oss-20"]}, UnknownNameError, "gpt-oss-20b"),
        ({"pool": []}, OptionError, "pool"),
        ({"mono": "gpt-5"}, UnknownNameError, "gpt-oss-20b"),
        ({"experts": "reel"}, UnknownNameError, "real"),
        ({"experts": "real"}, OptionError, "endpoint"),
        ({"experts": {"ada": None}, "pool": ["bob"]}, UnknownNameError, "bob"),
        ({"max_calls": 0}, OptionError, "calls"),
        ({"max_rounds": 0}, OptionError, "`max_rounds` must be at least 1, got 0"),
        ({"cost_target": 0}, OptionError, "cost"),
        ({"theta_par": -1}, OptionError, "parallel"),
        ({"sandbox": "shed"}, UnknownNameError, "bubblewrap"),
    ],
)
def test_impossible_options_are_refused(
    make_env: Make, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_env(**options)


@pytest.mark.parametrize("text", ["12", r"\boxed{12}", "It is 13", "a } and {b", "{a", "</reasoning><tool_call>"])
def test_any_text_can_be_the_conclusion(make_env: Make, text: str) -> None:
    env = make_env()
    env.reset(seed=0, options={"task_id": "sums/3"})
    _, _, terminated, _, info = env.step(env.final(text))
    assert terminated
    assert info["reward_parts"]["task"] == float("12" in text)
    assert text.replace("{", "").replace("}", "").strip() in env.episode.answer.replace("{", "").replace("}", "")


def test_the_oracle_solves_all_and_the_null_policy_nothing(make_env: Make) -> None:
    env = make_env()
    outcomes = {}
    for name in ("oracle", "null", "random"):
        policy = make_policy(name)
        outcomes[name] = [
            play_episode(env, policy, seed=0, options={"task_id": task.id})["outcome"]
            for task in env.source.tasks("all")
        ]
    assert set(outcomes["oracle"]) == {"solved"}
    assert set(outcomes["null"]) == {"failed"}
    assert outcomes["random"].count("solved") <= 1


def test_splitting_and_checking_solves_more_than_the_summariser_alone(make_env: Make, say: Say) -> None:
    env = make_env(pool=["phi-4-mini"], summariser="phi-4-mini")
    solved = {"alone": 0, "checked": 0}
    for seed in range(20):
        for task in env.source.tasks("all"):
            for way in solved:
                env.reset(seed=seed, options={"task_id": task.id})
                if way == "checked":
                    env.step(say("code_reasoner", "standard_reasoner"))
                    env.step(say("critical_reviewer", "code_reasoner"))
                *_, info = env.step(say("final_answer"))
                solved[way] += info["outcome"] == "solved"
    assert solved["checked"] > solved["alone"] + 10


def test_a_restored_episode_goes_on_the_same(make_env: Make, say: Say) -> None:
    env, other = make_env(), make_env()
    env.reset(seed=4)
    env.step("Hm.")
    env.step(say("standard_reasoner", "local_search"))
    snapshot = env.snapshot()

    def going_on(env: ParaManagerEnv) -> list[Any]:
        seen = [env.step(say("critical_reviewer", "code_reasoner"))[0], env.step(say("final_answer"))[:4]]
        return [*seen, env.episode.to_json()]

    expected = going_on(env)
    for target in (env, other):
        target.restore(snapshot)
        assert going_on(target) == expected


def test_a_preference_is_in_the_prompt_and_in_info(make_env: Make) -> None:
    env = make_env(preference={"weights": {"outcome": 1, "compute": 1}, "instruction": "Keep it cheap."})
    observation, info = env.reset(seed=0)
    assert "Keep it cheap.\n\nBudget left" in observation
    assert info["preference"].tolist()[-3:] == [1, 1, 0]


# ---------------------------------------------------------------------------------------------------- domains


def test_a_domain_has_its_tools_beside_the_sub_agents(mini_folder: Path) -> None:
    env = ParaManagerEnv(domain=mini_folder)
    _, info = env.reset(seed=0)
    assert info["tool_names"][:4] == ("standard_reasoner", "critical_reviewer", "knowledge_searcher", "code_reasoner")
    assert set(env.play.world.tools) - {"calculator"} <= set(info["tool_names"])
    assert "calculator" not in info["tool_names"]
    env.close()


def test_reference_trajectories_solve_a_domain_s_tasks_whatever_the_calls_of_a_round(
    mini: Domain, mini_folder: Path
) -> None:
    for options in ({}, {"serial": True, "max_rounds": 40}, {"max_calls": 2}):
        env = ParaManagerEnv(domain=mini_folder, **options)
        policy = make_policy("oracle")
        for task in mini.tasks():
            assert play_episode(env, policy, options={"task_id": task.id})["outcome"] == "solved"
            assert all(len(turn.calls) <= env.max_calls_per_message for turn in env.episode.turns)
            assert env.episode.reward_parts["format"] == 1.0
        env.close()


def test_a_domain_s_answer_counts_only_with_its_effects(mini: Domain, mini_folder: Path) -> None:
    env = ParaManagerEnv(domain=mini_folder)
    task = next(
        task for task in mini.tasks() if any(mini.tools[call.name].effect == "write" for call in task.reference_calls)
    )
    env.reset(options={"task_id": task.id})
    *_, info = env.step(env.final(task.answer))
    assert (info["outcome"], info["reward_parts"]["task"]) == ("failed", 0.0)
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "source", [pytest.param(one, marks=pytest.mark.long) for one in ("Math", "MultiHopQA", "Restaurant", "Travel")]
)
def test_the_environment_is_sound(source: str) -> None:
    of_the_source = {"verifier", "attacks", "exploit", "wording"}  # the same in every protocol: CI tries ToolOrchestra
    checks = [name for name in CHECKS if name not in of_the_source]
    report = toolorchestra.check_environment(
        f"ParaManager-{source}-v0", checks=checks, random_episodes=100, hostile=100
    )
    assert report, str(report)


def test_the_prompt_has_the_strategies_of_the_paper_and_its_hint_on_escaping(make_env: Make) -> None:
    """App. F: consensus of models and of tools, prompt variation, ensemble reasoning, heterogeneous review."""
    env = make_env()
    env.reset(seed=0)
    prompt = env.play.messages[0]["content"]
    for words in (
        r"Escape quotes (\") and backslashes (\\)",
        "Consensus of models",
        "Consensus of tools",
        "Variation of the request",
        "Ensemble: ensemble_solver",
        "Review by others",
    ):
        assert words in prompt
    plain = make_env(strategies=False)
    plain.reset(seed=0)
    assert "Variation of the request" not in plain.play.messages[0]["content"]
    serial = make_env(serial=True)
    serial.reset(seed=0)
    assert "in one round" not in serial.play.messages[0]["content"]


@pytest.mark.parametrize("option", ["final", "counting"])
def test_unknown_choices_are_refused_with_those_there_are(make_env: Make, option: str) -> None:
    with pytest.raises(UnknownNameError, match=f"`{option}` 'papers'"):
        make_env(**{option: "papers"})
