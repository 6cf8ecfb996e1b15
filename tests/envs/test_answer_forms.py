from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.toolscale.errors import OptionError, UnknownNameError


@pytest.fixture
def make(mini_folder: Path) -> Callable[..., Any]:
    """Make an environment of the mini domain whose answers are forms."""

    def made(protocol: str = "ToolOrchestra", **options: Any) -> Any:
        return gym.make(f"{protocol}-Custom-v0", domain=mini_folder, answer="form", **options).unwrapped

    return made


def with_facts(env: Any) -> str:
    """Return the id of a task that communicates something."""
    return next(task.id for task in env.source.tasks("all") if task.communicate)


def test_the_first_observation_ends_with_the_form_and_info_has_its_schema(make: Callable[..., Any]) -> None:
    env = make()
    observation, info = env.reset(options={"task_id": with_facts(env)})
    assert env.task.instruction in observation
    _, schema = observation.rsplit("JSON schema: ", 1)
    assert json.loads(schema) == info["form"]
    assert info["form"]["properties"]["answer"]["required"]
    assert info["messages"][-1]["content"].endswith(schema)
    assert env.episode.instruction.endswith(schema)


def test_without_the_option_nothing_is_said_of_forms(mini_folder: Path) -> None:
    env: Any = gym.make("ToolOrchestra-Custom-v0", domain=mini_folder).unwrapped
    observation, info = env.reset(seed=0)
    assert observation.endswith(env.task.instruction)
    assert "form" not in info
    assert env.right_answer(env.task) == env.task.answer


@pytest.mark.parametrize("protocol", ["ToolOrchestra", "ParaManager"])
def test_the_oracle_fills_the_form_of_every_task(make: Callable[..., Any], protocol: str) -> None:
    env, oracle = make(protocol), make_policy("oracle")
    for task in env.source.tasks("all"):
        info = play_episode(env, oracle, options={"task_id": task.id})
        assert info["outcome"] == "solved", (task.id, info["verdict"])


def test_the_prose_of_the_reference_answer_is_no_form(make: Callable[..., Any]) -> None:
    env = make()
    env.reset(options={"task_id": with_facts(env)})
    for call in env.task.reference_calls:
        env.step([{"name": call.name, "arguments": call.arguments}])
    snapshot = env.snapshot()
    _, reward, terminated, truncated, info = env.step(env.task.answer)
    assert (reward, terminated, truncated, info["outcome"]) == (0.0, True, False, "failed")
    assert "fidelity: expected one JSON object" in info["verdict"]
    env.restore(snapshot)
    assert env.step(env.right_answer(env.task))[4]["outcome"] == "solved"


@pytest.mark.parametrize("text", ["", "\ud800", '{"answer": {"answer_1": ' + "[" * 9000, "x" * 100_000, "{" * 10_000])
def test_hostile_forms_are_wrong_answers_and_never_errors_of_the_judge(make: Callable[..., Any], text: str) -> None:
    env = make()
    env.reset(options={"task_id": with_facts(env)})
    assert env.step(text)[4]["outcome"] == "failed"


def test_copies_of_the_environment_have_the_same_forms(make: Callable[..., Any]) -> None:
    env = make()
    env.reset(options={"task_id": with_facts(env)})
    others = copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    assert [other.play.form for other in others] == [env.play.form] * 2
    assert [other.reset(seed=3)[0] for other in others] == [env.reset(seed=3)[0]] * 2


def test_the_checks_of_an_environment_pass_with_forms(quick_folder: Path) -> None:
    checks = ("oracle", "null", "determinism", "snapshot")
    report = check_environment("ToolOrchestra-Custom-v0", checks=checks, domain=quick_folder, answer="form")
    assert report, str(report)


def test_a_random_policy_writes_well_formed_forms(make: Callable[..., Any]) -> None:
    env, policy = make(), make_policy("random", seed=1)
    for number in range(20):
        play_episode(env, policy, seed=number, options={"task_id": with_facts(env)})
        assert "expected one JSON object" not in env.episode.why


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("ToolOrchestra-Math-v0", {}),
        ("ParaManager-MultiHopQA-v0", {}),
        ("DialogueSingle-Restaurant-v0", {}),
        ("MASOrchestra-High-Custom-v0", {"domain": "restaurant"}),
    ],
)
def test_forms_are_refused_where_there_are_none(env_id: str, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"leave answer='text'"):
        gym.make(env_id, answer="form", **options)


def test_another_value_of_the_option_is_refused(mini_folder: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'form'"):
        gym.make("ToolOrchestra-Custom-v0", domain=mini_folder, answer="forms")


def test_agents_of_several_are_told_the_form_and_may_answer_by_it() -> None:
    env = make_multiagent("TMATR-Custom-v0", domain="weather", python="simulated", answer="form", roles="single")
    task = next(
        task for task in env.source.tasks("all") if [call.name for call in task.reference_calls] == ["get_station"]
    )
    env.reset(seed=0, options={"task_id": task.id})
    assert '{"answer": {"' in env.observe("solver")
    assert "form" in env.infos["solver"]
    call = task.reference_calls[0]
    for message in (
        "<ACTION>call_tool</ACTION><GOAL>Look it up.</GOAL>",
        f"<REASON>It shows it.</REASON><SELECTED_TOOL>{call.name}</SELECTED_TOOL>",
        f"<TOOL_INPUT>{call.arguments['station']}</TOOL_INPUT>",
        "<ACTION>text_reasoning</ACTION><GOAL>Answer.</GOAL>",
        "<REASONING_STEPS>\nStep 1: Answer.\n</REASONING_STEPS>",
        rf"<THINK>Step 1: Done.</THINK><ANSWER>\boxed{{{env.right_answer(task)}}}</ANSWER>",
    ):
        env.step(message)
    assert env.episode.outcome == "solved", env.episode.why
