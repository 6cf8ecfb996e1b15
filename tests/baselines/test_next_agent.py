"""Puppeteer and TRINITY: a policy that learns which agent is asked next."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from examples.baselines.fitting import SepCMAES, maximised
from examples.baselines.next_agent import STOP, AgentHead, Puppeteer, state_features
from examples.baselines.trinity import ROLES, StateEncoder, Trinity
from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.algos.reporting.stats import mean_interval
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Call

TEST = {"split": "test"}


@pytest.fixture(scope="module")
def env() -> Any:
    return gym.make("ToolOrchestra-Math-v0", tools="full").unwrapped


@pytest.fixture(scope="module")
def puppeteer(env: Any) -> Puppeteer:
    return Puppeteer.fit(env, episodes=512)


def measured(env: Any, policy: Policy, tasks: int = 80) -> tuple[list[float], float]:
    """Return whether each task was solved, and the mean cost of one."""
    infos = [play_episode(env, policy, seed=seed, options=TEST) for seed in range(tasks)]
    return [float(info["outcome"] == "solved") for info in infos], sum(info["cost"] for info in infos) / tasks


def head(actions: dict[str, float], features: int) -> AgentHead:
    """Return a head that scores actions by constants: the first feature is one."""
    weights = np.zeros((len(actions), features))
    weights[:, 0] = list(actions.values())
    return AgentHead.of(list(actions), weights)


def names(env: Any) -> list[str]:
    return [call.name for call in env.episode.calls]


# ------------------------------------------------------------------------------------------------------- Puppeteer


def test_reinforce_learns_to_solve_more_at_less_cost_than_random_choices(env: Any, puppeteer: Puppeteer):
    policy = puppeteer
    heads = AgentHead.of(policy.head.actions, 0 * np.array(policy.head.weights)), policy.head
    (before, cost), (after, later) = (measured(env, Puppeteer(head=one, sample=True), 200) for one in heads)
    assert mean_interval(np.subtract(after, before)).low > 0  # beyond chance, question by question
    assert later < cost
    assert STOP in policy.head.actions
    assert "code:gpt_5" in policy.head.actions


def test_a_greater_weight_of_cost_gives_a_cheaper_policy(env: Any, puppeteer: Puppeteer):
    thrifty = Puppeteer.fit(env, episodes=256, cost_weight=1.0)
    assert measured(env, thrifty, 20)[1] < measured(env, puppeteer, 20)[1] / 2


def test_the_policy_stops_only_once_something_was_proposed_and_after_its_last_step(env: Any):
    size = len(state_features("", (), 1))
    play_episode(env, Puppeteer(head=head({STOP: 9.0, "answer:gpt_5": 1.0}, size)), seed=1, options=TEST)
    assert names(env) == ["ask_gpt_5"]
    play_episode(env, Puppeteer(head=head({STOP: 0.0, "answer:gpt_5": 1.0}, size), rounds=3), seed=1, options=TEST)
    assert names(env) == ["ask_gpt_5"] * 3
    play_episode(env, Puppeteer(head=head({STOP: 0.0, "answer:zoe": 1.0}, size)), seed=1, options=TEST)
    assert names(env) == ["ask_gpt_5"]  # trained with others: the first


def test_features_say_how_far_proposals_agree():
    nothing, one, two, apart = (
        state_features("Add 2 and 3", found, 4)[2:6] for found in ([], ["5"], ["5", "5.0"], "56")
    )
    assert nothing.tolist() == [0, 0, 0, 0]
    assert one.tolist() == pytest.approx([1 / 4, 1, 1, 1 / 3])
    assert two.tolist() == pytest.approx([1 / 2, 1, 1, 2 / 3])
    assert apart.tolist() == pytest.approx([1 / 2, 1, 1 / 2, 1 / 3])
    assert state_features("", [Call("f", {})], 1)[4] == 1


# --------------------------------------------------------------------------------------------------------- TRINITY


def test_sep_cma_es_scales_each_coordinate_by_itself():
    scales = 10.0 ** np.arange(-3, 4)  # a separable function whose curvatures differ by a factor of 10^12

    def value(x: Any) -> float:
        return -float((scales**2 * (x - 1) ** 2).sum())

    found = maximised(value, SepCMAES(np.zeros(7), 0.5, seed=1), 600)
    assert found == pytest.approx(np.ones(7), abs=1e-3)
    first, second = (SepCMAES(np.zeros(3), seed=2).ask() for _ in range(2))
    assert np.array_equal(first, second)


def test_evolution_finds_a_coordinator_that_solves_more_of_its_tasks_than_random_heads(env: Any):
    policy = Trinity.fit(env, questions=8, generations=3, size=8)
    assert policy.head.actions[-3:] == ROLES

    def solved(of: Trinity) -> int:
        infos = [play_episode(env, of, seed=seed, options={"split": "train"}) for seed in range(8)]
        return sum(info["outcome"] == "solved" for info in infos)

    shape = np.array(policy.head.weights).shape
    draws = (np.random.default_rng(seed).normal(size=shape) for seed in range(6))
    heads = (AgentHead.of(policy.head.actions, one, policy.head.texts) for one in draws)
    assert solved(policy) > sum(solved(Trinity(head=one)) for one in heads) / 6 + 1


def coordinator(roles: list[str], models: list[str], turns: int = 5) -> Trinity:
    """Return a coordinator that chooses as it is told."""
    policy = Trinity(head=head(dict.fromkeys((*models, *ROLES), 0.0), 9), turns=turns)
    script = iter(zip(models, roles, strict=True))
    policy.choice = lambda *_, **__: next(script)  # type: ignore[method-assign]
    return policy


def test_a_verifier_that_agrees_ends_the_work_and_a_thinker_gives_no_answer(env: Any):
    policy = coordinator(["thinker", "worker", "verifier"], ["gpt_5_mini", "gpt_5", "gpt_5"])
    play_episode(env, policy, seed=3, options=TEST)
    turns = env.episode.turns
    assert [name for turn in turns for name in (call.name for call in turn.calls)] == [
        "ask_gpt_5_mini",
        "ask_gpt_5",
        "ask_gpt_5",
    ]
    assert turns[0].message["content"].startswith("Think")
    assert "Proposed answer: " in turns[2].calls[0].arguments["question"]
    assert env.episode.answer == turns[1].calls[0].value["answer"]


def test_the_head_reads_the_state_and_keeps_to_what_is_possible():
    policy = Trinity(head=head({"ada": 0.0, "bob": 0.0, "thinker": 0, "worker": 0, "verifier": 0}, 9))
    weights = np.array(policy.head.weights)
    weights[4] = policy._encoder.of("Add.")  # the verifier is the head's favourite
    weights[1] = policy._encoder.of("Add.")
    policy.head = AgentHead.of(policy.head.actions, weights)
    policy.request = "Add."
    assert policy.choice([], ["ada", "bob"], verifies=True) == ("bob", "verifier")
    assert policy.choice([], ["ada"], verifies=False)[1] != "verifier"
    assert policy.choice([], ["ada"], verifies=False, last=True) == ("ada", "worker")


def test_the_encoder_tells_texts_apart_and_survives_a_copy():
    encoder = StateEncoder(["Add the apples", "Book a table"], size=8)
    one, other = encoder.of("Add the apples"), encoder.of("Book a table")
    assert one.shape == (9,)
    assert np.abs(one - other).max() > 0.1
    assert np.array_equal(pickle.loads(pickle.dumps(encoder)).of("Add the apples"), one)


# ------------------------------------------------------------------------------------------------------------ heads


def test_a_head_is_saved_and_loaded(tmp_path: Path):
    saved = head({STOP: 1.0, "answer:ada": 2.0}, 4)
    saved.save(tmp_path / "head.json")
    assert Puppeteer(head=tmp_path / "head.json").head == saved
    with pytest.raises(OptionError, match="cannot be read"):
        AgentHead.load(tmp_path / "none.json")
    for text in ("{}", '{"actions": ["a"], "weights": []}', '{"actions": ["a", "b"], "weights": [[1], [1, 2]]}'):
        (tmp_path / "odd.json").write_text(text)
        with pytest.raises(OptionError, match="expected"):
            AgentHead.load(tmp_path / "odd.json")


@pytest.mark.parametrize(
    "make",
    [
        Puppeteer,
        Trinity,
        lambda: Puppeteer(head=head({STOP: 1.0}, 4), rounds=0),
        lambda: Trinity(head=head({STOP: 1.0}, 4), turns=0),
        lambda: SepCMAES(np.zeros(2), population=1),
    ],
)
def test_impossible_options_are_refused(make: Callable[[], object]):
    with pytest.raises(OptionError):
        make()
