from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import msgspec
import pytest

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.reference import NoisyOraclePolicy, OraclePolicy, RandomPolicy
from toolorchestra.envs.toolorchestra.tool_view import viewed
from toolorchestra.envs.tools.experts import ExpertTool
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Task

Make = Callable[..., Any]
RESTAURANT = "ToolOrchestra-Restaurant-v0"


def needed(task: Task) -> set[str]:
    return {call.name for path in (task.whole_path, *task.alternatives) for call in path} | {"submit"}


def names(info: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in info["tools"]]


@pytest.mark.parametrize("split", ["train", "test", "test_intents"])
def test_the_oracle_solves_tasks_with_what_they_need_among_others(split: str) -> None:
    env = gym.make(RESTAURANT, tool_view=8)
    tasks = env.unwrapped.source.tasks(split)  # type: ignore[attr-defined]
    for number, task in enumerate(tasks[:: len(tasks) // 40]):
        _, info = env.reset(seed=number, options={"task_id": task.id})
        assert needed(task) <= set(names(info))
        assert len(names(info)) == len(set(names(info))) == max(8, len(needed(task)))
        assert play_episode(env, OraclePolicy(), seed=number, options={"task_id": task.id})["outcome"] == "solved"
    env.close()


def test_the_oracle_solves_every_task_of_a_domain_with_nothing_but_what_it_needs(make_env: Make, mini: Domain) -> None:
    env = make_env(tool_view=1)
    for task in mini.tasks():
        info = play_episode(env, OraclePolicy(), seed=0, options={"task_id": task.id})
        assert info["outcome"] == "solved"
        assert set(names(info)) == needed(task)


def test_the_view_follows_from_its_seed_and_the_task_whatever_the_seed_of_the_episode(make_env: Make) -> None:
    task = make_env().unwrapped.source.tasks("train")[0]

    def shown(view: int, seed: int = 0) -> tuple[str, ...]:
        env = make_env(tool_view=6, tool_config_seed=view)
        return tuple(names(env.reset(seed=seed, options={"task_id": task.id})[1]))

    assert shown(3) == shown(3, seed=1)  # the rollouts of a task have one prompt
    assert len({shown(seed) for seed in range(10)}) > 5


def test_the_place_of_a_tool_does_not_say_whether_it_is_needed() -> None:
    env = gym.make(RESTAURANT, tool_view=8)
    places: Counter[int] = Counter()
    tasks = [task for task in env.unwrapped.source.tasks("train") if task.difficulty == 1]  # type: ignore[attr-defined]
    for task in tasks:
        _, info = env.reset(seed=0, options={"task_id": task.id})
        places.update(place for place, name in enumerate(names(info)) if name in needed(task) - {"submit"})
    mean = places.total() / 8
    assert all(0.6 * mean < places[place] < 1.4 * mean for place in range(8))
    env.close()


def test_the_record_the_metrics_and_what_can_be_called_are_of_the_view(make_env: Make, mini: Domain) -> None:
    env = make_env(tool_view=5)
    _, info = env.reset(seed=4)
    shown = names(info)
    assert env.unwrapped.episode.tools == tuple(shown) == tuple(env.unwrapped.play.tools)
    assert info["tool_names"] == tuple(name for name in shown if name != "submit")
    other = next(name for name in mini.tools if name not in shown)
    *_, after = env.step([{"name": other, "arguments": {}}])
    assert (after["calls"][0].status, after["tools"] is info["tools"]) == ("PARSE_ERR", True)
    assert len(play_episode(env, OraclePolicy(), seed=4)["M"]) == len(shown) - 1 + 3


@pytest.mark.parametrize("policy", [NoisyOraclePolicy, RandomPolicy])
def test_scripted_policies_call_what_is_there(policy: Any, make_env: Make) -> None:
    env = make_env(tool_view=5, tools="full")
    for seed in range(10):
        info = play_episode(env, policy(seed), seed=seed)
        assert {call.name for call in env.unwrapped.episode.calls} <= set(names(info))


def test_an_episode_goes_on_from_a_snapshot_and_a_copy_with_its_view(make_env: Make) -> None:
    env = make_env(tool_view=5)
    _, info = env.reset(seed=1)
    snapshot, copied = env.unwrapped.snapshot(), pickle.loads(pickle.dumps(env.unwrapped))
    env.reset(seed=2)
    env.unwrapped.restore(snapshot)
    for one in (env, copied):
        *_, after = one.step("Hm.")
        assert after["tools"] == info["tools"]
        assert one.unwrapped.episode.tools == tuple(names(info))
    copied.close()


def test_a_recorded_episode_can_be_replayed(make_env: Make) -> None:
    env = make_env(tool_view=5)
    play_episode(env, OraclePolicy(), seed=7)
    record = env.unwrapped.episode
    again = make_env(tool_view=5)
    again.reset(seed=7)
    for turn in record.turns:
        again.step(turn.message)
    assert again.unwrapped.episode.to_json() == record.to_json()


def test_experts_are_counted_as_other_tools_are(make_env: Make) -> None:
    env = make_env(tool_view=9, tools="full")
    shown: set[str] = set()
    for seed in range(20):
        _, info = env.reset(seed=seed, options={"preference": {"outcome": 1.0, "ask_qwen3_32b": 0.5}})
        assert len(names(info)) == 9
        assert len(info["preference"]) == 8 + 3
        asked = any(isinstance(tool, ExpertTool) for tool in env.unwrapped.play.tools.values())
        assert ("Some tools are models" in env.unwrapped.episode.prompt) is asked
        shown |= set(names(info))
    assert {"python", "ask_qwen3_32b"} <= shown


def test_a_view_is_chosen_for_one_episode_as_well(make_env: Make, mini: Domain) -> None:
    env = make_env(tool_view=5)
    assert len(names(env.reset(seed=0)[1])) == 5
    assert names(env.reset(seed=0, options={"tool_view": None})[1]) == [*mini.tools, "submit"]
    assert len(names(env.reset(seed=0, options={"tool_view": 6})[1])) == 6


@pytest.mark.parametrize("count", [0, -1, 2.0, True, "8", [8]])
def test_a_view_is_a_number_of_tools(count: Any, make_env: Make) -> None:
    with pytest.raises(OptionError, match="`tool_view` must be an integer of at least 1"):
        make_env(tool_view=count)
    with pytest.raises(OptionError, match="`tool_view` must be an integer of at least 1"):
        make_env().reset(options={"tool_view": count})


def test_a_question_with_a_reference_trajectory_has_a_view() -> None:
    env = gym.make("ToolOrchestra-Math-v0", tools="full", tool_view=4)
    for seed in range(5):
        info = play_episode(env, OraclePolicy(), seed=seed)
        assert info["outcome"] == "solved"
        assert {"calculator", "submit"} <= set(names(info))
        assert len(names(info)) == 4
    env.close()


def test_a_task_without_a_reference_trajectory_has_none(mini: Domain) -> None:
    task = msgspec.structs.replace(mini.tasks()[0], reference_calls=(), lookups=(), alternatives=())
    with pytest.raises(OptionError, match=r"has no such calls\. Leave out `tool_view`"):
        viewed(mini.tools, task, 4, 0)
