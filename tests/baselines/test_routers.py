from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from examples.baselines.cascade import FrugalGPT
from examples.baselines.fitting import QuestionVectors, adam, logistic_weights, sigmoid
from examples.baselines.routers import Avengers, IRTRouter, RouteLLM, k_means
from examples.baselines.routing import EvaluationBank, Router, RoutingEvaluation
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.toolscale.common.errors import OptionError

HARD = ("prove", "theorem", "integral", "manifold", "lemma")
EASY = ("apples", "pears", "count", "basket", "shop")


def questions(words: tuple[str, ...], count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(words, k=3)) for _ in range(count)]


def bank() -> EvaluationBank:
    """Both solve what is easy; only the dear one solves what is hard."""
    rows = []
    for words in (EASY, HARD):
        for question in questions(words, 30):
            rows.append(RoutingEvaluation(question, "big", True, 1.0, ("42",)))
            rows.append(RoutingEvaluation(question, "small", words is EASY, 0.1, ("42" if words is EASY else "",)))
    return EvaluationBank(rows)


@pytest.mark.parametrize(
    "make", [RouteLLM, Avengers, IRTRouter], ids=["matrix factorisation", "clusters", "item response theory"]
)
def test_easy_questions_go_to_the_cheap_expert_and_hard_ones_to_the_dear_one(make: Callable[..., Router]):
    router = make(bank=bank())
    for words, expert in ((EASY, "small"), (HARD, "big")):
        chosen = [router.best(question, ["small", "big"]) for question in questions(words, 20, seed=1)]
        assert chosen.count(expert) >= 18
    assert router.best("count apples", ["zoe"]) is None


def test_the_threshold_of_route_llm_sends_the_share_asked_for_to_the_strong_expert():
    asked = [*questions(EASY, 30), *questions(HARD, 30)]
    shares = []
    for share in (0.0, 0.25, 0.5, 1.0):
        router = RouteLLM(bank=bank(), share=share)
        shares.append(sum(router.best(question, ["small", "big"]) == "big" for question in asked) / len(asked))
    assert shares == pytest.approx([0.0, 0.25, 0.5, 1.0], abs=0.06)
    router = RouteLLM(bank=bank())
    assert router.win_probability(asked[0], "big", "small") == pytest.approx(
        1 - router.win_probability(asked[0], "small", "big")
    )
    assert router.win_probability(asked[-1], "big", "small") > router.win_probability(asked[0], "big", "small") + 0.2


def test_clusters_separate_what_is_apart_and_each_has_its_best_expert():
    rows = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.1, 5.0]])
    centres, members = k_means(rows, 2)
    assert members[0] == members[1] != members[2] == members[3]
    assert sorted(centres[:, 0]) == pytest.approx([0.05, 5.05])
    assert len(k_means(np.zeros((4, 2)), 3)[0]) == 1  # no more clusters than different rows


def test_avengers_asks_the_chosen_expert_several_times_and_counts():
    env = gym.make("ToolOrchestra-Math-v0", tools="full")
    policy = Avengers.fit(env, questions=6, votes=5)
    play_episode(env, policy, seed=3, options={"split": "test"})
    asked = [call.name for call in env.unwrapped.episode.turns[0].calls]  # type: ignore[attr-defined]
    assert len(asked) == 5
    assert len(set(asked)) == 1


def test_item_responses_recover_who_is_able_and_what_is_hard():
    router = IRTRouter(bank=bank(), warm_up=0.0)
    easy, hard = router.chances(questions(EASY, 1)[0]), router.chances(questions(HARD, 1)[0])
    assert easy["small"] > 0.8 > 0.3 > hard["small"]
    assert min(easy["big"], hard["big"]) > 0.8
    thrifty = IRTRouter(bank=bank(), weight=0.0)
    assert thrifty.best(questions(HARD, 1)[0], ["small", "big"]) == "small"


def test_the_cascade_accepts_good_answers_of_the_cheap_expert_and_passes_doubtful_ones_on():
    policy = FrugalGPT(bank=bank())
    assert policy.cascade.experts == ("small", "big")
    assert policy.cascade.solved == 1.0
    assert policy.cascade.cost < 0.8  # half of the questions never reach the dear expert, which costs 1
    low, high = policy.score("prove lemma", "", "small"), policy.score("count apples", "42", "small")
    assert low < policy.cascade.thresholds[0]
    assert low < high - 0.3
    assert FrugalGPT(bank=bank(), budget=0.2).cascade.experts == ("small",)
    with pytest.raises(OptionError, match="No expert is within"):
        FrugalGPT(bank=bank(), budget=0.01)


def test_an_episode_of_the_cascade_pays_for_every_expert_that_it_asked():
    env = gym.make("ToolOrchestra-Math-v0", tools="full")
    policy = FrugalGPT(bank=EvaluationBank.played(env, questions=4), length=2)
    policy.cascade = policy.cascade._replace(experts=("llama_3_3_70b", "gpt_5"), thresholds=(1.1, 0.0))
    play_episode(env, policy, seed=1, options={"split": "test"})
    episode = env.unwrapped.episode  # type: ignore[attr-defined]
    assert [call.name for call in episode.calls] == ["ask_llama_3_3_70b", "ask_gpt_5"]
    policy.cascade = policy.cascade._replace(thresholds=(0.0, 0.0))
    play_episode(env, policy, seed=1, options={"split": "test"})
    assert [call.name for call in env.unwrapped.episode.calls] == ["ask_llama_3_3_70b"]  # type: ignore[attr-defined]


def test_a_logistic_regression_and_adam_find_the_minimum():
    x = np.random.default_rng(0).normal(size=(400, 3))
    true = np.array([2.0, -1.0, 0.0])
    assert logistic_weights(x, sigmoid(x @ true), l2=1e-6) == pytest.approx(true, abs=1e-3)
    (found,) = adam([np.zeros(2)], lambda now: [2 * (now[0] - np.array([1.0, -3.0]))], steps=800)
    assert found == pytest.approx([1.0, -3.0], abs=1e-3)


def test_questions_with_common_words_have_near_vectors():
    vectors = QuestionVectors(bank(), 8)
    assert vectors.size == 8
    hard, easy, other = (vectors.of(text) for text in ("prove the theorem", "count apples", "a lemma, a theorem"))
    assert hard @ other > hard @ easy + 0.2


WRONG: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (RouteLLM, {"share": 2.0}),
    (RouteLLM, {"strong": "zoe"}),
    (Avengers, {"clusters": 0}),
    (IRTRouter, {"weight": -1}),
    (FrugalGPT, {"length": 0}),
    (QuestionVectors, {"size": 0}),
]


@pytest.mark.parametrize(("make", "options"), WRONG)
def test_impossible_options_are_refused(make: Callable[..., Any], options: dict[str, Any]):
    with pytest.raises(OptionError):
        make(bank=bank(), **options)


def test_the_cascade_needs_experts_that_were_given_the_same_questions():
    apart = [RoutingEvaluation("one", "ada", True, 1.0), RoutingEvaluation("two", "bob", True, 1.0)]
    apart += [RoutingEvaluation("three", "ada", True, 1.0), RoutingEvaluation("four", "ada", True, 1.0)]
    with pytest.raises(OptionError, match="the same questions"):
        FrugalGPT(bank=EvaluationBank(apart))
