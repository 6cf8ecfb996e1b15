from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from toolorchestra.agents.policies.baselines import Direct, MajorityVote
from toolorchestra.envs.bridges.routing import RoutingEnv
from toolorchestra.envs.registration import routing_ids
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

ENV = "Routing-Math-v0"
EVERY: list[tuple[str, dict[str, Any]]] = [
    (ENV, {}),
    ("Routing-Restaurant-v0", {}),
    ("Routing-MultiHopQA-v0", {"tool_config": "random", "preference": "random"}),
    ("Routing-Custom-v0", {"env": "ParaManager-Math-v0"}),
    ("Routing-Custom-v0", {"env": "ParaManager-Restaurant-v0", "word_counts": 0}),
]


@pytest.fixture(scope="module")
def routing() -> RoutingEnv:
    made = gym.make(ENV).unwrapped
    assert isinstance(made, RoutingEnv)
    return made


def play(env: Any, actions: list[int], **reset: Any) -> tuple[float, dict[str, Any]]:
    """Play actions, and return the sum of rewards and the last info."""
    env.reset(**reset)
    total, over, info = 0.0, False, {}
    for action in actions:
        assert not over
        observation, reward, terminated, truncated, info = env.step(action)
        assert observation in env.observation_space
        total, over = total + float(reward), terminated or truncated
    return total, info


@pytest.mark.parametrize(("env_id", "options"), EVERY)
def test_it_passes_gymnasiums_checker(env_id: str, options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    env = gym.make(env_id, **options)
    check_env(env.unwrapped)
    assert isinstance(env.observation_space, gym.spaces.Box)
    assert env.observation_space.shape == (len(env.unwrapped.features),)  # type: ignore[attr-defined]
    assert isinstance(env.action_space, gym.spaces.Discrete)


def test_there_is_one_for_every_source() -> None:
    assert {ENV, "Routing-Restaurant-v0", "Routing-All-v0", "Routing-MASBenchDepth-v0"} <= set(routing_ids())
    env = gym.make("Routing-Custom-v0", domain="toolscale/domains/restaurant")
    assert env.reset(seed=0)[1]["task_id"].startswith("restaurant/")


@pytest.mark.parametrize("votes", [1, 3])
@pytest.mark.parametrize("source", ["Math", "Restaurant"])
def test_a_fixed_expert_earns_what_the_baseline_earns_in_text(source: str, votes: int) -> None:
    env = gym.make(f"Routing-{source}-v0")
    text = gym.make(f"ToolOrchestra-{source}-v0", tools="full", orchestrator=None)
    inner: Any = env.unwrapped
    expert = inner.actions.index("ask_gpt_5_mini")
    for seed in range(4):
        policy = Direct(expert="gpt_5_mini") if votes == 1 else MajorityVote(expert="gpt_5_mini", n=votes)
        observation, info = text.reset(seed=seed)
        policy.reset(text, observation, info)
        over = False
        while not over:
            observation, _, terminated, truncated, info = text.step(policy.act(observation, info))
            over = terminated or truncated
        expected = text.unwrapped.episode  # type: ignore[attr-defined]
        env.reset(seed=seed)
        ended = False
        while not ended:
            for action in [*[expert] * votes, 0]:
                *_, terminated, truncated, found = env.step(action)
                ended = terminated or truncated
        if votes == 1:  # votes are asked for at once there, and one after another here: other samples
            assert (found["outcome"], found["cost"]) == (expected.outcome, pytest.approx(expected.cost))
            assert inner.episode.answer == expected.answer
        assert inner.episode.task_id == expected.task_id


def test_rewards_sum_to_outcome_less_what_was_spent(routing: RoutingEnv) -> None:
    weights = {"outcome": 0.9, "compute": 0.5, "latency": 0.25}
    asked = routing.actions.index("ask_gpt_5")
    total, info = play(routing, [asked, asked, 0], seed=0, options={"preference": weights})
    solved = float(info["outcome"] == "solved")
    spent = 0.5 * info["cost"] / routing.budget + 0.25 * info["clock"] / routing.seconds
    assert total == pytest.approx(0.9 * solved - spent)
    assert info["cost"] == pytest.approx(routing.episode.cost)


def test_stopping_without_a_proposal_gives_up(routing: RoutingEnv) -> None:
    total, info = play(routing, [0], seed=0)
    assert (total, info["outcome"], info["cost"]) == (0.0, "failed", 0.0)
    with pytest.raises(OptionError, match="reset"):
        routing.step(0)


def test_a_spent_budget_terminates() -> None:
    env = gym.make(ENV, budget=0.01).unwrapped
    env.reset(seed=0)
    *_, terminated, truncated, info = env.step(env.actions.index("ask_gpt_5"))  # type: ignore[attr-defined]
    assert (terminated, truncated, info["outcome"]) == (True, False, "failed")


def test_an_infrastructure_error_truncates(routing: RoutingEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    routing.reset(seed=0)

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(routing.env.play, "_on_message", fail)
    _, reward, terminated, truncated, info = routing.step(1)
    assert (reward, terminated, truncated, info["outcome"]) == (0.0, False, True, "infra_error")


def test_features_say_what_was_asked_and_what_agrees(routing: RoutingEnv) -> None:
    observation, info = routing.reset(seed=0)
    shown = dict(zip(routing.features, observation, strict=True))
    assert shown["budget_left"] == shown["time_left"] == shown["outcome"] == 1.0
    assert shown["compute"] == 0.5
    assert shown["ask_gpt_5.price"] == pytest.approx(0.25)  # four of the dearest are the budget
    assert shown["ask_gpt_5.price"] > shown["ask_gpt_5_mini.price"] > 0
    assert list(info["action_mask"]) == [0, *[1] * len(routing.experts)]
    number = routing.actions.index("ask_gpt_5")
    observation, *_, info = routing.step(number)
    shown = dict(zip(routing.features, observation, strict=True))
    assert shown["proposals"] == 1 / 16
    assert shown["agreement"] == shown["proposes_answer"] == shown["ask_gpt_5.agrees"] == 1.0
    assert shown["ask_gpt_5.asked"] == 0.25
    assert shown["ask_gpt_5_mini.asked"] == 0.0
    assert shown["budget_left"] < 1.0
    assert info["action_mask"][0]


def test_nothing_of_the_ground_truth_is_a_feature(routing: RoutingEnv) -> None:
    # two tasks with the same request but other answers look the same
    env = gym.make(ENV).unwrapped
    assert isinstance(env, RoutingEnv)
    before, _ = env.reset(seed=3)
    task = env.env.task
    other = msgspec.structs.replace(task, answer="7", communicate=(("7",),), difficulty=1)
    tasks = env.env.source
    chosen = tasks.sample
    try:
        tasks.sample = lambda *_: other  # type: ignore[method-assign]
        after, _ = env.reset(seed=3)
    finally:
        tasks.sample = chosen  # type: ignore[method-assign]
    assert np.array_equal(before, after)


def test_experts_that_are_not_there_are_masked_and_cost_a_turn() -> None:
    env = gym.make(ENV, tool_config="random").unwrapped
    assert isinstance(env, RoutingEnv)
    prices = set()
    for seed in range(8):
        observation, info = env.reset(seed=seed)
        shown = dict(zip(env.features, observation, strict=True))
        there = [shown[f"{name}.available"] for name in env.experts]
        assert there == list(info["action_mask"][1:])
        assert 0 < sum(there) < len(there)
        prices.add(round(float(max(shown[f"{name}.price"] for name in env.experts)), 6))
        gone = 1 + there.index(0.0)
        _, reward, terminated, _, info = env.step(gone)
        assert (reward, terminated, len(env.episode.turns)) == (0.0, False, 1)
    assert len(prices) > 4


def test_a_preference_may_be_drawn() -> None:
    env = gym.make(ENV, preference="random")
    drawn = [env.reset(seed=seed)[0] for seed in (0, 1, 0)]
    place = env.unwrapped.features.index("compute")  # type: ignore[attr-defined]
    assert drawn[0][place] == drawn[2][place] != drawn[1][place]


def test_the_same_seed_and_actions_give_the_same_episode() -> None:
    one, other = gym.make(ENV).unwrapped, gym.make(ENV).unwrapped
    records = []
    for env in (one, pickle.loads(pickle.dumps(other)), one):
        play(env, [3, 10, 11, 0], seed=5)
        records.append(env.episode.to_json())
    assert len(set(records)) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, "`budget` must be"),
        ({"seconds": float("inf")}, "`seconds` must be"),
        ({"word_counts": -1}, "`word_counts` must be"),
        ({"preference": {"outcom": 1}}, "Unknown preference entry 'outcom'"),
        ({"preference": "cheap"}, "Expected weights of outcome"),
        ({"experts": []}, "`experts` is empty"),
        ({"tools": "basic"}, "has no experts"),
        ({"env": "MASOrchestra-Low-Math-v0"}, "nothing to route"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        gym.make(ENV, **options)


def test_an_unknown_expert_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'ask_gpt_5'"):
        gym.make(ENV, experts=["ask_gpt5"])
    env = gym.make(ENV, experts=["ask_gpt_5", "ask_gpt_5_mini"])
    assert env.unwrapped.actions == ("stop", "ask_gpt_5", "ask_gpt_5_mini")  # type: ignore[attr-defined]


def test_a_picture_shows_the_features() -> None:
    env = gym.make(ENV, render_mode="rgb_array")
    env.reset(seed=0)
    picture: Any = env.render()
    assert picture.shape == (96, 6 * env.observation_space.shape[0], 3)  # type: ignore[index]
    assert picture.dtype == np.uint8
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) == 2


# ----------------------------------------------------------------------------------------- learners of other libraries


@pytest.mark.slow
def test_stable_baselines_trains_on_it_unmodified() -> None:
    pytest.importorskip("stable_baselines3", reason="needs pip install 'toolorchestra[sb3]'")
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_checker import check_env as check
    from stable_baselines3.common.env_util import make_vec_env

    check(gym.make(ENV, disable_env_checker=True))
    vector = make_vec_env(ENV, n_envs=4, seed=0, env_kwargs={"experts": ["ask_gpt_5_mini", "math_qwen2_5_math_7b"]})
    model = PPO("MlpPolicy", vector, n_steps=128, gamma=1.0, learning_rate=3e-3, seed=0, device="cpu")
    model.learn(4_096)
    env = gym.make(ENV, split="test", experts=["ask_gpt_5_mini", "math_qwen2_5_math_7b"])
    solved = []
    for seed in range(40):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        solved.append(info["outcome"] == "solved")
    assert np.mean(solved) > 0.55  # the worse expert alone solves 0.41, and an untrained policy 0.2
