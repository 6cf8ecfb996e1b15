from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.agents.policies.reference import NoisyOraclePolicy, OraclePolicy, RandomPolicy
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.toolscale.requests.lookups import ids_known, ids_taken, raw_ids
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.tool import Status

ALL = {"split": "all"}


def success(env: Any, policy: Policy, episodes: int = 60) -> float:
    return (
        sum(play_episode(env, policy, seed=i, options=ALL)["outcome"] == "solved" for i in range(episodes)) / episodes
    )


def records(env: Any, policy: Policy, episodes: int = 8) -> list[bytes]:
    found = []
    for i in range(episodes):
        play_episode(env, policy, seed=i, options=ALL)
        found.append(env.episode.to_json())
    return found


def test_the_oracle_solves_every_task(env: Any):
    for task in env.source.tasks("all"):
        info = play_episode(env, OraclePolicy(), options={"task_id": task.id})
        assert info["outcome"] == "solved", info["verdict"]


def test_the_oracle_makes_the_calls_of_one_stage_in_one_turn(env: Any):
    task = next(task for task in env.source.tasks("all") if task.intent == "order_twice")
    play_episode(env, OraclePolicy(), options={"task_id": task.id})
    assert [[call.name for call in turn.calls] for turn in env.episode.turns] == [
        ["get_customer"],
        ["make_order", "make_order"],
        ["get_order"],
        ["submit"],
    ]


def test_the_null_policy_solves_nothing(env: Any):
    assert success(env, make_policy("null")) == 0.0


def test_the_random_policy_makes_valid_calls_that_mostly_succeed(env: Any):
    statuses: Counter[Status] = Counter()
    names = [name for name in env.source.domain.tools if not name.startswith("spin")]
    for i in range(60):
        play_episode(env, RandomPolicy(), seed=i, options={**ALL, "tools": names})
        statuses.update(call.status for call in env.episode.calls)
    assert statuses[Status.PARSE_ERR] == 0
    assert statuses[Status.OK] > 0.6 * statuses.total() > 60


def test_the_random_policy_hardly_ever_solves(make_env: Callable[..., Any], quick_folder: Path):
    env = make_env(domain=quick_folder, disable_env_checker=True).unwrapped
    assert success(env, RandomPolicy(), episodes=30) < 0.1


def test_a_noisy_oracle_that_never_errs_is_the_oracle(env: Any):
    assert records(env, NoisyOraclePolicy(error=0.0)) == records(env, OraclePolicy())


def test_the_more_a_noisy_oracle_errs_the_less_it_solves(env: Any):
    shares = [success(env, NoisyOraclePolicy(error=error)) for error in (0.0, 0.2, 0.5, 1.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0
    assert shares[-1] < 0.2


@pytest.mark.parametrize("kind", NoisyOraclePolicy.MISTAKES)
def test_each_kind_of_mistake_costs_success(make_env: Callable[..., Any], quick_folder: Path, kind: str):
    env = make_env(domain=quick_folder, disable_env_checker=True).unwrapped
    assert success(env, NoisyOraclePolicy(error=1.0, mistakes=(kind,)), episodes=30) < 0.9


@pytest.mark.parametrize("name", ["random", "oracle", "noisy-oracle", "null"])
def test_equal_seeds_give_equal_episodes_whatever_was_played_before(env: Any, name: str):
    used = make_policy(name, seed=3)
    play_episode(env, used, seed=99, options=ALL)
    assert records(env, used) == records(env, make_policy(name, seed=3))


def test_other_seeds_give_other_episodes(env: Any):
    assert records(env, RandomPolicy(0)) != records(env, RandomPolicy(1))


@pytest.fixture
def asked(make_env: Callable[..., Any], named_folder: Path) -> Any:
    return make_env(domain=named_folder, disable_env_checker=True).unwrapped


def invented(env: Any) -> list[str]:
    """Return the ids that calls of the episode took though neither the request nor an earlier turn showed them."""
    domain, ids = env.play.world, raw_ids(env.play.world)
    found = []
    known = ids_known(domain, env.task.instruction)
    for turn in env.episode.turns:
        found += [taken for call in turn.calls for taken in ids_taken(Call(call.name, call.arguments), ids - known)]
        known |= ids_known(domain, "", (call.value for call in turn.calls))
    return found


def test_the_oracle_looks_up_what_is_named_before_it_calls_by_id(asked: Any):
    named = [task for task in asked.source.tasks("all") if task.lookups]
    for task in named:
        assert play_episode(asked, OraclePolicy(), options={"task_id": task.id})["outcome"] == "solved"
        assert [[call.name for call in turn.calls] for turn in asked.episode.turns] == [
            ["get_customer"],
            ["list_orders"],
            ["get_order"],
            ["submit"],
        ]
        assert not invented(asked)


def test_too_few_turns_put_the_reference_calls_together_first(make_env: Callable[..., Any], named_folder: Path):
    for turns, expected in ((4, [1, 1, 1, 1]), (3, [3, 1]), (2, [3, 1])):
        env = make_env(domain=named_folder, disable_env_checker=True, max_turns=turns).unwrapped
        task = next(task for task in env.source.tasks("all") if task.lookups)
        play_episode(env, OraclePolicy(), options={"task_id": task.id})
        assert [len(turn.calls) for turn in env.episode.turns] == expected


@pytest.mark.parametrize("kind", ["skip", "tool", "argument"])
def test_a_noisy_oracle_does_not_know_an_id_whose_look_up_went_wrong(asked: Any, kind: str):
    named = [task for task in asked.source.tasks("all") if task.lookups]
    erred = 0
    for seed, task in enumerate(named):
        play_episode(asked, NoisyOraclePolicy(seed, 0.5, (kind,)), options={"task_id": task.id})
        right = {json.dumps([call.name, call.arguments]) for call in task.whole_path}
        calls = [json.dumps([call.name, call.arguments]) for call in asked.episode.calls]
        erred += calls != [json.dumps([call.name, call.arguments]) for call in task.whole_path]
        made = [call for call in calls if call in right]
        firsts = [json.dumps([call.name, call.arguments]) for call in task.whole_path]
        assert [call for call in firsts if call in made] == list(dict.fromkeys(made))
        for call in asked.episode.calls:
            if call.name == "get_order" and call.arguments == task.reference_calls[0].arguments:
                before = [other.name for other in asked.episode.calls if other.end <= call.start]
                assert "list_orders" in before
    assert erred
