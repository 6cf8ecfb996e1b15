"""What holds for every baseline: equal episodes from equal seeds, and every expert's price counted."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import pytest

from examples.baselines import BASELINES, AgentHead, EvaluationBank
from examples.baselines.fitting import LearnedPolicy
from examples.baselines.routing import Router, RoutingEvaluation
from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.cli.main import main
from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.toolscale.common.errors import OptionError

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
    kind = BASELINES[policy]
    return (
        kind.fit(environment(env), **SMALL.get(policy, {"questions": 4})).learnt()
        if issubclass(kind, LearnedPolicy)
        else {}
    )


def fresh(policy: str, env: str) -> Policy:
    return BASELINES[policy](seed=3, **learnt(policy, env))


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


@pytest.mark.parametrize("name", [name for name, kind in BASELINES.items() if issubclass(kind, LearnedPolicy)])
def test_learning_twice_from_the_same_seed_gives_the_same_policy(name: str):
    env = "ParaManager-Math-v0"
    kind = BASELINES[name]
    assert issubclass(kind, LearnedPolicy)
    again = kind(seed=3, **kind.fit(environment(env), **SMALL.get(name, {"questions": 4})).learnt())
    for seed in (5, 6):
        record = msgspec.json.encode(played(fresh(name, env), environment(env), seed))
        assert msgspec.json.encode(played(again, environment(env), seed)) == record


@pytest.mark.parametrize("name", BASELINES)
def test_a_missing_tool_is_named(name: str):
    kind, options = BASELINES[name], dict[str, Any]()
    if issubclass(kind, Router):
        options = {"bank": EvaluationBank([RoutingEvaluation("How many?", "ada", True, 1.0)])}
    elif name in ("puppeteer", "router-r1", "trinity"):
        options = {"head": AgentHead(("stop",), ((1.0,),))}
    with pytest.raises(OptionError, match="make this one with tools='full'"):
        play_episode(gym.make("ToolOrchestra-Restaurant-v0"), kind(**options), seed=0)


def test_one_plays_from_the_command_line(tmp_path: Path):
    rollout = ["rollout", "ToolOrchestra-Restaurant-v0", "--env-options", "tools", "full", "--episodes", "2"]
    rollout += ["--out", str(tmp_path / "x.jsonl"), "--policy"]
    for policy in ("RestGPT", "DepthFirstSearch"):
        assert main([*rollout, f"examples.baselines:{policy}", "--workers", "1"]) == 0
        assert all(episode.cost > 0 for episode in read_episodes(tmp_path / "x.jsonl"))
        (tmp_path / "x.jsonl").unlink()
    bank = EvaluationBank.played(environment("ToolOrchestra-Restaurant-v0"), questions=4)
    bank.save(tmp_path / "bank.json")
    learnt = ["--policy-options", "bank", str(tmp_path / "bank.json")]
    assert main([*rollout, "examples.baselines:RouteLLM", *learnt, "--workers", "2"]) == 0
