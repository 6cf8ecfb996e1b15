"""Router-R1: rounds of thinking and asking, and GRPO as our learners have it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from examples.baselines.next_agent import (
    ANSWER,
    AgentHead,
    Choice,
    RouterR1,
    group_advantages,
    log_chances,
    surrogate_gradient,
)
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.algos.reporting.stats import mean_interval
from toolorchestra.toolscale.common.errors import OptionError

TEST = {"split": "test"}
FEATURES = 18  # of a state, without the counts of models


@pytest.fixture(scope="module")
def env() -> Any:
    return gym.make("ToolOrchestra-Math-v0", tools="full").unwrapped


def head(scores: dict[str, float]) -> AgentHead:
    """Return a head that scores actions by constants: the first feature is one."""
    weights = np.zeros((len(scores), FEATURES + len(scores) - 1))
    weights[:, 0] = list(scores.values())
    return AgentHead.of(list(scores), weights)


def test_a_router_thinks_and_asks_model_after_model_before_it_answers(env: Any):
    chosen = head({ANSWER: 0.0, "gpt_5": 1.0, "gpt_5_mini": 1.5})
    weights = np.array(chosen.weights)
    weights[2, FEATURES + 1] = -4.0  # it was asked: another one
    weights[0, 2] = 3.0  # the share of the rounds taken
    play_episode(env, RouterR1(head=AgentHead.of(chosen.actions, weights)), seed=2, options=TEST)
    turns = env.episode.turns
    assert [[call.name for call in turn.calls] for turn in turns[:-1]] == [["ask_gpt_5_mini"], ["ask_gpt_5"]]
    for turn, model in zip(turns, ("gpt_5_mini", "gpt_5"), strict=False):
        text = turn.message["content"]
        assert text.startswith("<think>")
        assert f"<search>{model}: {env.task.instruction}</search>" in text
    assert "1 of 1 answers agree" in turns[1].message["content"]
    assert env.episode.answer in {call.value["answer"] for turn in turns for call in turn.calls}


def test_there_are_at_most_so_many_rounds_and_no_answer_without_information(env: Any):
    always, never = head({ANSWER: 0.0, "gpt_5": 9.0}), head({ANSWER: 9.0, "gpt_5": 0.0})
    for given, rounds, asked in ((always, 3, 3), (never, 4, 1), (head({ANSWER: 0.0, "zoe": 1.0}), 4, 1)):
        play_episode(env, RouterR1(head=given, rounds=rounds), seed=1, options=TEST)
        assert len([*env.episode.calls]) == asked


def test_grpo_learns_which_models_are_worth_their_price(env: Any):
    """Beyond chance, and a greater weight of the cost reward gives a cheaper router (the paper's trade-off)."""
    solved: dict[str, list[float]] = {"before": [], "after": [], "thrifty": []}
    cost = dict.fromkeys(solved, 0.0)
    for seed in range(4):
        policy = RouterR1.fit(env, seed=seed)
        thrifty = RouterR1.fit(env, seed=seed, cost_weight=0.9)
        untrained = RouterR1(head=AgentHead.of(policy.head.actions, 0 * np.array(policy.head.weights)), sample=True)
        for name, one in (("before", untrained), ("after", policy), ("thrifty", thrifty)):
            infos = [play_episode(env, one, seed=number, options=TEST) for number in range(60)]
            solved[name] += [float(info["outcome"] == "solved") for info in infos]
            cost[name] += sum(info["cost"] for info in infos)
    assert mean_interval(np.subtract(solved["after"], solved["before"])).low > 0
    assert cost["thrifty"] < cost["after"], "summed over seeds: one run may go the other way"


@pytest.mark.parametrize("scale", [True, False])
def test_advantages_and_gradient_are_those_of_our_grpo(scale: bool):
    torch = pytest.importorskip("torch")
    from toolorchestra.algos.loss.advantages import group_advantages as ours
    from toolorchestra.algos.loss.losses import clipped_policy_loss

    rng = np.random.default_rng(0)
    weights, before = rng.normal(size=(2, 3, 4))
    rewards = [1.0, 0.0, 0.3, 1.0]
    advantages = group_advantages(rewards, scale=scale)
    assert advantages == pytest.approx(ours(torch.tensor([rewards]), scale=scale)[0].tolist(), abs=1e-5)
    rows = []
    for advantage, length in zip(advantages, (1, 3, 2, 2), strict=True):
        choices = []
        for _ in range(length):
            features, possible, action = (
                rng.normal(size=4),
                (True, True, bool(rng.random() < 0.5)),
                int(rng.integers(2)),
            )
            choices.append(Choice(features, possible, action, float(log_chances(before, features, possible)[action])))
        rows.append((choices, advantage))
    w = torch.tensor(weights, requires_grad=True)
    logps, old, mask = (torch.zeros(4, 3, dtype=torch.float64) for _ in range(3))
    now = logps.clone()
    for row, (choices, _) in enumerate(rows):
        for place, one in enumerate(choices):
            scores = (w @ torch.tensor(one.features)).masked_fill(~torch.tensor(one.possible), -torch.inf)
            now[row, place], old[row, place], mask[row, place] = scores.log_softmax(0)[one.action], one.logp, 1
    clipped_policy_loss(now, old, torch.tensor(advantages, dtype=torch.float64), mask, eps_low=0.2).loss.backward()
    assert surrogate_gradient(weights, rows, 0.2) == pytest.approx(-w.grad.numpy(), abs=1e-9)
    far = surrogate_gradient(weights, rows, 1e9)
    assert np.abs(far + w.grad.numpy()).max() > 1e-3  # some choices are clipped


@pytest.mark.parametrize(
    "make",
    [
        RouterR1,
        lambda: RouterR1(head=head({ANSWER: 1.0}), rounds=0),
        lambda: RouterR1.fit(gym.make("ToolOrchestra-Math-v0"), group=1),
        lambda: RouterR1.fit(gym.make("ToolOrchestra-Math-v0"), cost_weight=2.0),
    ],
)
def test_impossible_options_are_refused(make: Any):
    with pytest.raises(OptionError):
        make()
