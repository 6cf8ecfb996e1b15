from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from answering import right, wrong
from gymnasium.utils.env_checker import check_env

from toolorchestra.agents.messages.tool_lines import tool_lines
from toolorchestra.envs.task_source import DomainSource, MixtureSource
from toolorchestra.envs.toolorchestra.env import ToolOrchestraEnv
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.domain import Domain

Make = Callable[..., Any]


def text(name: str, /, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def play_reference(env: Any, **options: Any) -> tuple[Any, ...]:
    """Play the reference trajectory; return what the last step returned."""
    env.reset(options=options)
    task = env.unwrapped.task
    for call in task.reference_calls:
        _, reward, terminated, truncated, _ = env.step(text(call.name, **call.arguments))
        assert (reward, terminated, truncated) == (0.0, False, False)
    result: tuple[Any, ...] = env.step(right(env))
    return result


@pytest.mark.filterwarnings("ignore:.*render_mode.*|.*render mode.*:UserWarning")
def test_gymnasiums_checker_is_content(make_env: Make) -> None:
    check_env(make_env(render_mode="ansi").unwrapped)


def test_the_reference_trajectory_of_every_task_is_rewarded(make_env: Make, mini: Domain) -> None:
    env = make_env()
    for task in mini.tasks():
        _, reward, terminated, truncated, info = play_reference(env, task_id=task.id)
        assert (reward, terminated, truncated, info["outcome"]) == (1.0, True, False, "solved")
        assert info["M"][-3] == 1.0


def test_the_first_observation_is_rules_and_request(make_env: Make, mini: Domain) -> None:
    env = make_env()
    observation, info = env.reset(seed=1)
    task = env.unwrapped.task
    assert "<tool_call>" in observation
    assert mini.rules in observation
    assert observation.endswith(f"{task.instruction}\n\nThe slots of the answer: {env.unwrapped.play.typed}")
    system, user = info["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert user["content"].startswith(task.instruction)
    assert f"{system['content']}\n\n{tool_lines(info['tools'])}\n\n{user['content']}" == observation
    assert [schema["function"]["name"] for schema in info["tools"]] == [*mini.tools, "submit"]
    assert info["tool_names"] == tuple(mini.tools)
    assert (info["task_id"], info["split"], info["difficulty"]) == (task.id, "train", task.difficulty)
    assert (info["turn"], info["cost"], info["clock"], info["preference"]) == (0, 0.0, 0.0, None)


def test_no_observation_contains_the_reference_trajectory(make_env: Make) -> None:
    env = make_env()
    observation, info = env.reset(seed=1)
    task = env.unwrapped.task
    shown = observation + repr(info)
    assert task.answer not in shown
    assert "reference_calls" not in shown


def test_a_step_shows_each_result_and_its_record(make_env: Make) -> None:
    env = make_env()
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(text("count_orders") + text("get_ordr"))
    first, second = (json.loads(part) for part in observation.split("\n") if part.startswith("{"))
    assert first == {"id": "call_1", "name": "count_orders", "status": "OK", "result": 40}
    assert (second["id"], second["status"]) == ("call_2", "PARSE_ERR")
    assert "Did you mean 'get_order'?" in second["error"]
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert [record.id for record in info["calls"]] == ["call_1", "call_2"]
    assert (info["turn"], info["clock"]) == (1, env.unwrapped.episode.turns[0].seconds + 0.1)
    assert "M" not in info
    assert "outcome" not in info


@pytest.mark.parametrize("form", ["text", "list", "openai"])
def test_every_form_of_action_plays_the_same(make_env: Make, form: str) -> None:
    env = make_env()
    env.reset(seed=3, options={"difficulty": 3})
    for number, call in enumerate(env.unwrapped.task.reference_calls, 1):
        one = {"name": call.name, "arguments": call.arguments}
        if form == "text":
            env.step(text(call.name, **call.arguments))
        elif form == "list":
            env.step([one])
        else:
            function = {"name": call.name, "arguments": json.dumps(call.arguments)}
            env.step({"role": "assistant", "tool_calls": [{"id": f"call_{number}", "function": function}]})
    assert env.step(right(env))[1] == 1.0
    assert env.unwrapped.episode.clock_parts["tools"] == pytest.approx(2.75)


def test_the_seed_draws_the_task(make_env: Make) -> None:
    one, other = make_env(), make_env()
    drawn = []
    for env in (one, other):
        env.reset(seed=5)
        tasks = [env.unwrapped.task.id]
        for _ in range(10):
            env.reset()
            tasks.append(env.unwrapped.task.id)
        drawn.append(tasks)
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 5


def test_options_choose_the_task(make_env: Make, mini: Domain) -> None:
    env = make_env(split="all", difficulty=[1, 3])
    seen = set()
    for seed in range(30):
        env.reset(seed=seed)
        seen.add(env.unwrapped.task.difficulty)
    assert seen == {1, 3}
    for options, check in [
        ({"split": "test", "difficulty": None}, lambda task: task.split == "test"),
        ({"split": "test_intents", "difficulty": None}, lambda task: task.intent == "leave_note"),
        ({"difficulty": 2}, lambda task: task.difficulty == 2),
        ({"task_id": "mini/ask_price/003"}, lambda task: task is mini.task("mini/ask_price/003")),
    ]:
        env.reset(options=options)
        assert check(env.unwrapped.task), options
    env.reset()
    assert env.unwrapped.task.difficulty in (1, 3)


def test_tools_may_be_a_subset(make_env: Make) -> None:
    env = make_env(tools=["calculator", "get_order"])
    _, info = env.reset(seed=0)
    assert info["tool_names"] == ("get_order", "calculator")
    assert len(info["tools"]) == 3
    (record,) = env.step(text("count_orders"))[4]["calls"]
    assert (
        record.error == "Unknown tool 'count_orders'. Did you mean 'get_order'? Known: calculator, get_order, submit."
    )
    assert env.reset(options={"tools": ["spin"]})[1]["tool_names"] == ("spin",)
    assert env.step(wrong(env))[4]["M"].shape == (4,)


def test_a_preference_is_in_the_prompt_and_in_the_record(make_env: Make) -> None:
    env = make_env(tools=["calculator", "get_order"])
    preference = {"weights": {"compute": 1, "get_order": 0.5}, "instruction": "Please keep it cheap."}
    observation, info = env.reset(seed=0, options={"preference": preference})
    assert observation.endswith("\n\nPlease keep it cheap.")
    np.testing.assert_array_equal(info["preference"], [0.5, 0, 0, 1, 0])
    assert env.unwrapped.episode.preference == (0.5, 0.0, 0.0, 1.0, 0.0)
    assert env.reset()[1]["preference"] is None


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"taks_id": "x"}, "Unknown reset option 'taks_id'. Did you mean 'task_id'?"),
        ({"task_id": "mini/ask_price/999"}, "Unknown task of the domain mini 'mini/ask_price/999'"),
        ({"split": "trian"}, "Unknown split 'trian'. Did you mean 'train'?"),
        ({"difficulty": 9}, "no task of split 'train' with difficulty [9]; there are difficulties [1, 2, 3]"),
        ({"tools": ["spn"]}, "Unknown tool 'spn'. Did you mean 'spin'?"),
        ({"preference": {"compte": 1}}, "Did you mean 'compute'?"),
        ({"preference": {"weights": {}, "instrction": ""}}, "Did you mean 'instruction'?"),
    ],
)
def test_wrong_options_are_explained(make_env: Make, options: dict[str, Any], error: str) -> None:
    with pytest.raises((OptionError, UnknownNameError)) as found:
        make_env().reset(options=options)
    assert error in str(found.value)


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({"domain": None}, "Give either a `source`"),
        ({"source": "Restaurant"}, "Give either a `source`"),
        ({"domain": None, "source": "Restarant"}, "Unknown task source 'Restarant'. Did you mean 'Restaurant'?"),
        ({"render_mode": "rgb_array"}, "Unknown render mode 'rgb_array'"),
        ({"max_turns": 0}, "`max_turns` must be positive"),
    ],
)
def test_wrong_settings_are_explained(mini_folder: Path, kwargs: dict[str, Any], error: str) -> None:
    with pytest.raises((OptionError, UnknownNameError)) as found:
        ToolOrchestraEnv(**({"domain": mini_folder} | kwargs))
    assert error in str(found.value)


@pytest.mark.parametrize(
    ("kwargs", "steps"), [({"max_turns": 2}, 2), ({"max_seconds": 0.25}, 3), ({"max_cost": 1e-9}, None)]
)
def test_limits_truncate(make_env: Make, kwargs: dict[str, Any], steps: int | None) -> None:
    env = make_env(orchestrator=None, **kwargs)
    env.reset(seed=0)
    taken = 0
    truncated = False
    while not truncated and taken < 10:
        _, reward, terminated, truncated, info = env.step(text("count_orders"))
        taken += 1
        assert not terminated
    assert taken == (steps or 10)
    if steps:
        assert (reward, info["outcome"], env.unwrapped.episode.reward) == (0.0, "failed", 0.0)


def test_stepping_before_a_reset_is_an_error(make_env: Make) -> None:
    for use in (lambda env: env.step("x"), lambda env: env.unwrapped.snapshot(), lambda env: env.unwrapped.task):
        with pytest.raises(gym.error.ResetNeeded):
            use(make_env())


def test_infrastructure_errors_truncate_without_an_exception(make_env: Make, mini: Domain, monkeypatch: Any) -> None:
    env = make_env()

    def fail(*args: Any) -> Any:
        raise RuntimeError("an infrastructure error")

    env.reset(seed=0)
    mini.database.known_reads.clear()
    with monkeypatch.context() as patch:
        patch.setattr(mini.tools["count_orders"], "run", fail)
        observation, reward, terminated, truncated, info = env.step(text("count_orders"))
    assert (observation, reward, terminated, truncated) == ("", 0.0, False, True)
    assert (info["outcome"], info["verdict"]) == ("infra_error", "RuntimeError: an infrastructure error")
    assert env.unwrapped.episode.reward is None
    env.reset(seed=0)
    with monkeypatch.context() as patch:
        patch.setattr(Domain, "verify", fail)
        _, reward, terminated, truncated, info = env.step(wrong(env))
    assert (reward, terminated, truncated, info["outcome"]) == (0.0, False, True, "judge_error")
    assert env.unwrapped.episode.reward is None
    assert "M" not in info
    assert play_reference(env)[1] == 1.0


def test_episodes_do_not_leak_into_one_another(make_env: Make) -> None:
    env = make_env()
    for _ in range(2):
        env.reset(options={"task_id": "mini/order_twice/000"})
        records = [env.step(text("make_order", customer_id="C02", dishes=["x"], price=1))[4]["calls"][0] for _ in "ab"]
        assert [record.value["order_id"] for record in records] == ["O041", "O042"]


def test_a_snapshot_branches_an_episode(make_env: Make) -> None:
    env, other = make_env(), make_env()
    env.reset(seed=3, options={"difficulty": 3})
    task = env.unwrapped.task
    first, *rest = task.reference_calls
    env.step(text(first.name, **first.arguments))
    snapshot = env.unwrapped.snapshot()
    results = []
    for one in (env, env, other):
        one.unwrapped.restore(snapshot)
        for call in rest:
            one.step([{"name": call.name, "arguments": call.arguments}])
        results.append((one.step(right(one))[1], one.unwrapped.episode.to_json()))
        one.reset()
        results[-1] += (one.unwrapped.task.id,)
    assert results[0] == results[1] == results[2]
    assert results[0][0] == 1.0


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vector_environments_play_the_same_as_single_ones(make_env: Make, mini_folder: Path, mode: str) -> None:
    envs = gym.make_vec("ToolOrchestra-Custom-v0", num_envs=2, vectorization_mode=mode, domain=mini_folder)
    singles = [make_env(), make_env()]
    try:
        observations, infos = envs.reset(seed=[3, 4])
        expected = [env.reset(seed=seed) for env, seed in zip(singles, (3, 4), strict=True)]
        assert list(observations) == [observation for observation, _ in expected]
        assert list(infos["task_id"]) == [info["task_id"] for _, info in expected]
        for action in (
            text("count_orders"),
            text("get_order", order_id="O001") * 3,
            "naïve ☃",
            text("submit", answer={"☃": 1}),
        ):
            observations, rewards, terminated, truncated, infos = envs.step([action] * 2)
            results = [env.step(action) for env in singles]
            assert list(observations) == [result[0] for result in results]
            assert list(rewards) == [result[1] for result in results]
            assert list(terminated) == [result[2] for result in results]
            assert list(truncated) == [result[3] for result in results]
        assert list(infos["outcome"]) == ["failed", "failed"]
    finally:
        envs.close()


def test_the_same_actions_give_the_same_bytes(make_env: Make) -> None:
    def played() -> bytes:
        env = make_env()
        env.reset(seed=11)
        for call in env.unwrapped.task.reference_calls:
            env.step([{"name": call.name, "arguments": call.arguments}] * 2)
        env.step("Done.")
        return bytes(env.unwrapped.episode.to_json())

    assert played() == played()


def test_a_mixture_plays_tasks_of_all_its_sources(mini: Domain) -> None:
    source = MixtureSource([DomainSource(mini), DomainSource(mini)], "Twice")
    env = ToolOrchestraEnv(source)
    assert play_reference(env)[1] == 1.0
    assert env.episode.env_id == "ToolOrchestra-Twice-v0"
    env.close()
