"""What holds for every baseline: equal episodes from equal seeds, and every expert's price counted."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import gymnasium as gym
import msgspec
import pytest

from toolorchestra.agents.policies.base import LearnedPolicy, Policy, play_episode
from toolorchestra.agents.policies.registry import BASELINES, make_policy, policy_class

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "ToolOrchestra-Restaurant-v0": {"tools": "full"},
    "ToolOrchestra-MultiHopQA-v0": {"tools": "full"},
    "ParaManager-Math-v0": {"final": "orchestrator"},
}
SMALL: dict[str, dict[str, Any]] = {
    "puppeteer": {"episodes": 16, "batch": 8},
    "router-r1": {"steps": 2, "tasks": 2, "group": 4},
    "trinity": {"questions": 3, "generations": 1, "size": 8},
}
"""What is little to learn from, by name: a few questions by default."""


@cache
def environment(name: str) -> Any:
    return gym.make(name, **ENVIRONMENTS[name]).unwrapped


@cache
def learnt(policy: str, env: str) -> dict[str, Any]:
    kind = policy_class(policy)
    return (
        kind.fit(environment(env), **SMALL.get(policy, {"questions": 4})).learnt()
        if issubclass(kind, LearnedPolicy)
        else {}
    )


def fresh(policy: str, env: str) -> Policy:
    return make_policy(policy, seed=3, **learnt(policy, env))


def played(policy: Policy, env: Any, seed: int) -> Any:
    play_episode(env, policy, seed=seed, options={"split": "test", "difficulty": (1, 2, 3)})
    return env.episode


@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("name", sorted(BASELINES))
def test_equal_seeds_give_equal_episodes_and_every_price_is_counted(name: str, env: str):
    first, second = fresh(name, env), pickle.loads(pickle.dumps(fresh(name, env)))
    assert not first.privileged
    for seed in (1, 2):
        episode = played(first, environment(env), seed)
        record = msgspec.json.encode(episode)
        assert msgspec.json.encode(played(second, environment(env), seed)) == record
        assert episode.outcome in ("solved", "failed")
        assert episode.cost > 0
        assert sum(episode.cost_parts.values()) == pytest.approx(episode.cost)
        assert sum(episode.clock_parts.values()) == pytest.approx(episode.clock)
        asked = [call for call in episode.calls if call.children]
        assert asked
        assert all(call.cost == pytest.approx(sum(child.cost for child in call.children)) for call in asked)


@pytest.mark.parametrize("name", sorted(name for name in BASELINES if issubclass(policy_class(name), LearnedPolicy)))
def test_learning_twice_from_the_same_seed_gives_the_same_policy(name: str):
    env = "ParaManager-Math-v0"
    kind = policy_class(name)
    assert issubclass(kind, LearnedPolicy)
    again = make_policy(name, seed=3, **kind.fit(environment(env), **SMALL.get(name, {"questions": 4})).learnt())
    for seed in (5, 6):
        record = msgspec.json.encode(played(fresh(name, env), environment(env), seed))
        assert msgspec.json.encode(played(again, environment(env), seed)) == record
