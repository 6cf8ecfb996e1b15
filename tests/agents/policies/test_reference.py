from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.agents.policies.reference import NoisyOraclePolicy, OraclePolicy, RandomPolicy
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.toolscale.tool import Status

ALL = {"split": "all"}


def success(env: Any, policy: Policy, episodes: int = 60) -> float:
    return (
        sum(play_episode(env, policy, seed=i, options=ALL)["outcome"] == "solved" for i in range(episodes)) / episodes
    )


def records(env: Any, policy: Policy, episodes: int = 20) -> list[bytes]:
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
        [],
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


def test_the_random_policy_hardly_ever_solves(env: Any):
    assert success(env, RandomPolicy()) < 0.1


def test_a_noisy_oracle_that_never_errs_is_the_oracle(env: Any):
    assert records(env, NoisyOraclePolicy(error=0.0)) == records(env, OraclePolicy())


def test_the_more_a_noisy_oracle_errs_the_less_it_solves(env: Any):
    shares = [success(env, NoisyOraclePolicy(error=error)) for error in (0.0, 0.2, 0.5, 1.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0
    assert shares[-1] < 0.2


@pytest.mark.parametrize("kind", NoisyOraclePolicy.MISTAKES)
def test_each_kind_of_mistake_costs_success(env: Any, kind: str):
    assert success(env, NoisyOraclePolicy(error=1.0, mistakes=(kind,))) < 0.8


@pytest.mark.parametrize("name", ["random", "oracle", "noisy-oracle", "null"])
def test_equal_seeds_give_equal_episodes_whatever_was_played_before(env: Any, name: str):
    used = make_policy(name, seed=3)
    play_episode(env, used, seed=99, options=ALL)
    assert records(env, used) == records(env, make_policy(name, seed=3))


def test_other_seeds_give_other_episodes(env: Any):
    assert records(env, RandomPolicy(0)) != records(env, RandomPolicy(1))
