"""What holds for every searcher and designer of workflows: equal results from equal seeds, and every price counted."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import msgspec
import pytest

from examples.searches.mas_gpt import MASGPT
from examples.searches.mas_zero import MASZero
from examples.searches.search import SearchBudget, Validation, search
from examples.searches.strategies import METHODS
from examples.searches.supernet import MaAS, ScoreFlow
from examples.searches.workflows import single
from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.envs.masorchestra.design import to_text
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv

SOURCES = {"Math": "qwen2.5-7b", "MultiHopQA": "gpt-oss-120b"}
FIT: dict[type[Any], dict[str, int]] = {
    MaAS: {"episodes": 8, "batch": 4},
    ScoreFlow: {"questions": 2, "draws": 2, "tries": 1, "iterations": 1, "steps": 3},
    MASGPT: {"questions": 4, "pool": 5, "groups": 2},
}


@cache
def environment(source: str) -> MASOrchestraEnv:
    return MASOrchestraEnv(source, model=SOURCES[source])


def designer() -> ScriptedChat:
    return ScriptedChat(
        [to_text(single(kind)) for kind in ("SCAgent", "CoTAgent", "ReflexionAgent", "DebateAgent")] * 9
    )


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("method", METHODS)
def test_equal_seeds_give_equal_searches_whose_costs_are_those_of_their_episodes(method: str, source: str) -> None:
    env = environment(source)
    found = []
    for _ in range(2):
        options = {"model": designer()} if method == "adas" else {}
        found.append(search(method, Validation.drawn(env, 2, seed=1), SearchBudget(4), seed=1, max_agents=4, **options))
    assert len(found[0]) == 4
    assert msgspec.json.encode(found[0]) == msgspec.json.encode(found[1])
    validation = Validation.drawn(env, 2, seed=1)
    for one in found[0]:
        costs = []
        for number, task in enumerate(validation.tasks):
            env.reset(seed=1 + number, options={"task_id": task})
            env.step(to_text(one.design))
            counted(env)
            costs.append(env.episode.cost)
        assert one.usd == pytest.approx(sum(costs) / len(costs))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", FIT)
def test_learning_twice_from_the_same_seed_gives_equal_episodes(kind: type[Any], source: str) -> None:
    env = environment(source)
    first, second = (kind(seed=3, **kind.fit(env, seed=2, **FIT[kind]).learnt()) for _ in range(2))
    assert_equal(env, first, pickle.loads(pickle.dumps(second)))


@pytest.mark.parametrize("source", SOURCES)
def test_mas_zero_gives_equal_episodes_and_pays_for_the_runs_that_it_takes_back(source: str) -> None:
    env = environment(source)
    assert_equal(env, MASZero(designer(), seed=3), MASZero(designer(), seed=3))


def assert_equal(env: MASOrchestraEnv, first: Policy, second: Policy) -> None:
    """Play two policies with equal seeds, and check that their records are equal and count every price."""
    records: list[list[bytes]] = []
    for policy in (first, second):
        records.append([])
        for seed in (1, 2):
            play_episode(env, policy, seed=seed, options={"split": "test"})
            records[-1].append(msgspec.json.encode(env.episode))
            counted(env)
    assert records[0] == records[1]


def counted(env: MASOrchestraEnv) -> None:
    """Check that an episode costs what its calls cost, those taken back included, and nothing twice."""
    episode = env.episode
    assert episode.outcome in ("solved", "failed")
    assert episode.cost > 0
    assert sum(episode.cost_parts.values()) == pytest.approx(episode.cost)
    assert sum(episode.clock_parts.values()) == pytest.approx(episode.clock)
    for call in episode.calls:
        assert call.cost == pytest.approx(sum(child.cost for child in call.children))
