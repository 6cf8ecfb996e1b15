"""Environments in the worlds of τ²-bench: one agent, dialogues, the checks, and what is said where they are missing."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.checks.several_agents import check_multiagent
from toolorchestra.envs.dialogue import ScriptedUser, single_env
from toolorchestra.envs.dialogue.teacher import DONE, teach
from toolorchestra.envs.dialogue.told_scenario import told_request
from toolorchestra.envs.registration import environment_ids, make_multiagent, multiagent_ids, view_ids
from toolorchestra.toolscale.common.errors import OptionError, install_line
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks.task import Task, write_tasks

SOURCES = ("Tau2Retail", "Tau2Airline")
needs_packages = pytest.mark.skipif(
    any(importlib.util.find_spec(f"tau2_{world}_mcp") is None for world in ("retail", "airline")),
    reason=f"the worlds of τ²-bench are not installed: {install_line('tau2')}",
)


def needs_nothing(env: Any, task: Task) -> bool:
    """Return whether a task is solved by leaving the database as it is and saying nothing in particular."""
    world = env.source.world(task)
    return not task.communicate and not world.verifier.effects(task)[0].changes


def played(env: Any, act: Callable[[], Any]) -> set[str]:
    """Return the tasks that are solved by the same action at every turn."""
    solved = set()
    for task in env.source.tasks("all"):
        env.reset(options={"task_id": task.id})
        *_, info = env.step(act())
        if info["outcome"] == "solved":
            solved.add(task.id)
    return solved


@needs_packages
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("answer", ["text", "typed"])
def test_the_reference_actions_earn_the_whole_reward(source: str, answer: Any) -> None:
    env: Any = gym.make(f"ToolOrchestra-{source}-v0", answer=answer).unwrapped
    policy = make_policy("oracle")
    outcomes = Counter(
        play_episode(env, policy, options={"task_id": task.id})["outcome"] for task in env.source.tasks("all")
    )
    assert outcomes == {"solved": len(env.source.tasks("all"))}


@needs_packages
@pytest.mark.parametrize("source", SOURCES)
def test_who_does_nothing_or_anything_solves_no_task_that_needs_something(source: str) -> None:
    env: Any = gym.make(f"ToolOrchestra-{source}-v0").unwrapped
    nothing = {task.id for task in env.source.tasks("all") if needs_nothing(env, task)}
    assert len(nothing) == {"Tau2Retail": 7, "Tau2Airline": 23}[source]
    assert played(env, lambda: "I cannot help you.") == nothing
    policy = make_policy("random", seed=0)
    for task in env.source.tasks("all"):
        info = play_episode(env, policy, seed=0, options={"task_id": task.id})
        assert info["outcome"] == "failed" or task.id in nothing, task.id


@needs_packages
def test_the_answer_is_prose_in_these_worlds_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    write_tasks(tasks, load_domain("tau2_retail").tasks("train"))
    for made in (
        gym.make("ToolOrchestra-Tau2Retail-v0"),
        gym.make("ToolOrchestra-Custom-v0", domain="tau2_retail"),
        gym.make("ToolOrchestra-Custom-v0", tasks=tasks),
        gym.make("DialogueSingle-Tau2Retail-v0"),
    ):
        assert "submit" not in {tool["function"]["name"] for tool in made.reset(seed=0)[1]["tools"]}
    env: Any = gym.make("ToolOrchestra-Tau2Retail-v0", answer="typed")
    _, info = env.reset(options={"task_id": "tau2_retail/36"})
    assert info["tools"][-1]["function"]["name"] == "submit"
    assert len(info["slots"]) == 3
    policy_of_place = env.unwrapped.source.domain.rules
    assert policy_of_place in info["messages"][0]["content"]


@needs_packages
@pytest.mark.parametrize("source", SOURCES)
def test_the_checks_pass_but_for_what_the_tasks_allow(source: str) -> None:
    checks = ["gymnasium", "determinism", "oracle", "null", "snapshot", "hostile", "verifier", "attacks"]
    report = check_environment(f"ToolOrchestra-{source}-v0", checks=checks, hostile=600)
    assert report.passed, str(report)


@needs_packages
@pytest.mark.parametrize("source", SOURCES)
def test_who_asks_and_plays_the_reference_actions_solves_every_dialogue(source: str) -> None:
    env = make_multiagent(f"Dialogue-{source}-v0", persona="mixed")
    user = ScriptedUser()
    for number, task in enumerate(env.source.tasks("all")):
        env.reset(seed=number, options={"task_id": task.id})
        while not env.play.over:
            is_user = env.agent_selection == "user"
            env.step(user(env.observe("user"), env.infos["user"]) if is_user else teach(env.play))
        assert env.episode.outcome == "solved", (task.id, env.episode.why)


@needs_packages
@pytest.mark.parametrize("source", SOURCES)
def test_who_only_says_that_all_is_done_solves_no_dialogue_that_needs_something(source: str) -> None:
    env = single_env(source)
    nothing = {task.id for task in env.source.tasks("all") if needs_nothing(env, task)}
    assert played(env, lambda: DONE) == nothing


@needs_packages
def test_the_dialogue_keeps_the_contract_of_several_agents() -> None:
    report = check_multiagent("Dialogue-Tau2Airline-v0")
    assert report.passed, str(report)


@needs_packages
def test_the_user_reads_out_its_reason_and_gives_the_rest_when_it_is_asked() -> None:
    env = single_env("Tau2Retail")
    observation, _ = env.reset(seed=0, options={"task_id": "tau2_retail/0"})
    assert observation.endswith("you'd go for no backlight.\" [note about me] [note about my wishes]")
    assert "Yusuf" not in observation
    assert "Yusuf Rossi in zip code 19122. You do not remember your email" in env.step("What is your name?")[0]
    assert "detail-oriented" in env.step("Do you prefer anything else?")[0]
    assert env.step("I will exchange both. Do you confirm (yes/no)?")[0] == "The confirmation is yes."
    assert "Is everything done" in env.step("It is exchanged.")[0]
    whole = single_env("Tau2Retail", reveal="all").reset(seed=0, options={"task_id": "tau2_retail/0"})[0]
    assert "Yusuf Rossi in zip code 19122" in whole
    assert "[" not in whole.partition("I read out")[2]


def test_a_user_who_was_told_nothing_more_has_nothing_more_to_give() -> None:
    facts, request = told_request({"reason_for_call": " You want a refund.\n"}, "asked")
    assert request == 'I read out what I was told: "You want a refund."'
    assert [fact.label for fact in facts] == ["confirmation"]


def test_an_environment_whose_package_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolorchestra.toolscale.tau2 import world

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(world, "load_tau2", world.Tau2Domain)
    for make in (
        lambda: gym.make("ToolOrchestra-Tau2Retail-v0"),
        lambda: gym.make("DialogueSingle-Tau2Retail-v0"),
        lambda: make_multiagent("Dialogue-Tau2Retail-v0"),
    ):
        with pytest.raises(OptionError, match=r"not installed: pip install .*\[tau2\]'"):
            make()


def test_what_need_not_be_installed_is_not_listed() -> None:
    assert not [env_id for env_id in (*environment_ids(), *multiagent_ids(), *view_ids()) if "Tau2" in env_id]
    assert "Dialogue-Tau2Retail-v0" in gym.registry
