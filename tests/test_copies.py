"""Environments, plays and tools can be pickled and deep-copied, before a reset, after one, and within an episode."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
from answering import right

from toolorchestra.envs import make_multiagent, multiagent_ids
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.registration import environment_ids, view_ids

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
    "deepcopy": copy.deepcopy,
}
EVERY = [*environment_ids(), *view_ids(), *multiagent_ids()]


def made(env_id: str) -> Any:
    options = {} if "Dialogue" in env_id else {"python": "simulated"}
    if env_id in multiagent_ids():
        return make_multiagent(env_id, **options)
    return gymnasium.make(env_id, **(options if "Single" in env_id else {})).unwrapped


def seen(env: Any) -> tuple[Any, ...]:
    """Return what the next agent to act sees, and the record so far."""
    if isinstance(env, MultiAgentEnv):
        return env.agent_selection, str(env.observe(env.agent_selection)), env.infos, env.episode.to_json()
    return (env.episode.to_json(),)


def reset_and_act(env: Any, seed: int) -> tuple[Any, ...]:
    env.reset(seed=seed)
    env.step("I do not know.")
    return seen(env)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("env_id", EVERY)
def test_a_copy_of_an_environment_plays_on_like_the_original(env_id: str, how: str) -> None:
    env = made(env_id)
    early = COPIES[how](env)
    expected = reset_and_act(env, 7)
    assert reset_and_act(early, 7) == expected
    env.reset(seed=8)
    late = COPIES[how](env)
    assert seen(late) == seen(env)
    for one in (env, late):
        one.step("I do not know.")
    assert seen(late) == seen(env)
    for one in (env, early, late):
        one.close()


def test_a_pickled_environment_of_a_shipped_domain_leaves_the_tasks_with_the_domain() -> None:
    env = made("ToolOrchestra-Restaurant-v0")
    env.reset(seed=1)
    tasks = env.source.tasks("train")
    assert len(pickle.dumps(env)) < len(pickle.dumps(tasks)) / 4
    env.close()


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_in_the_middle_of_an_episode_has_a_database_of_its_own(how: str) -> None:
    env = made("ToolOrchestra-Restaurant-v0")
    env.reset(options={"task_id": "restaurant/settle_bill_if_open/003"})
    pay = {"name": "pay_bill", "arguments": {"order": "O1170", "amount": 105, "method": "card"}}
    env.step([{"name": "get_bill", "arguments": {"order": "O1170"}}])
    twin = COPIES[how](env)
    assert twin.step([pay])[0] == env.step([pay])[0]
    third = COPIES[how](twin)
    assert third.play.session.touched() == twin.play.session.touched() != {}
    for one in (env, twin, third):
        assert one.step(right(one))[1] == 1.0
        one.close()


@pytest.mark.parametrize("how", COPIES)
def test_snapshots_can_be_copied(how: str) -> None:
    env = made("ParaManager-Math-v0")
    env.reset(seed=1)
    env.step([{"name": "standard_reasoner", "arguments": {}}])
    snapshot = COPIES[how](env.snapshot())
    last = [{"name": "final_answer", "arguments": {}}]
    first = env.step(last)[:2]
    env.restore(snapshot)
    assert env.step(last)[:2] == first
