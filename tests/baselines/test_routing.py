"""Routing by what experts did on other questions: the bank of evaluations, and the router by nearest neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from examples.baselines.routing import EvaluationBank, KNNRouter, RoutingEvaluation
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.baselines import Direct
from toolorchestra.envs.records.episode import write_episodes
from toolorchestra.toolscale.common.errors import OptionError

EVALUATIONS = [
    RoutingEvaluation("Add the apples and the pears", "ada", True, 3.0),
    RoutingEvaluation("Add the apples and the pears", "bob_2_5", True, 1.0),
    RoutingEvaluation("Translate the poem", "ada", True, 3.0),
    RoutingEvaluation("Translate the poem", "bob_2_5", False, 1.0),
    RoutingEvaluation("Translate the letter", "ada", True, 3.0),
    RoutingEvaluation("Translate the letter", "bob_2_5", True, 1.0),
]


def test_the_nearest_questions_share_rare_words():
    bank = EvaluationBank(EVALUATIONS)
    assert bank.nearest("Translate a poem", 2) == ["Translate the poem", "Translate the letter"]
    assert bank.nearest("", 1) == ["Add the apples and the pears"]  # nothing in common with any: the first


def test_the_best_expert_is_asked_and_of_equals_the_cheapest():
    bank = EvaluationBank(EVALUATIONS)
    assert bank.best("Add pears", ["ada", "bob_2_5"], 1) == "bob_2_5"
    assert bank.best("Translate a poem", ["ada", "bob_2_5"], 2) == "ada"
    assert bank.best("Translate a poem", ["zoe"], 2) is None


@pytest.fixture(scope="module")
def math() -> gym.Env[Any, Any]:
    return gym.make("ParaManager-Math-v0")


def test_the_router_asks_the_expert_that_the_bank_recommends(math: gym.Env[Any, Any]):
    for expert, asked in (("qwen3_coder_30b", "qwen3-coder-30b"), ("zoe", "gpt-oss-20b")):
        right, wrong = (RoutingEvaluation("How many?", name, name == expert, 1.0) for name in (expert, "gpt_oss_20b"))
        bank = EvaluationBank([right] if expert == "zoe" else [right, wrong])
        play_episode(math, KNNRouter(bank=bank), seed=0)
        (call, *_) = math.unwrapped.episode.calls  # type: ignore[attr-defined]
        assert call.arguments["model_id"] == asked


def test_a_router_needs_a_bank():
    with pytest.raises(OptionError, match="learns from experience"):
        KNNRouter(bank=None)


def test_a_bank_is_saved_and_loaded(tmp_path: Path):
    EvaluationBank(EVALUATIONS).save(tmp_path / "bank.json")
    assert EvaluationBank.load(tmp_path / "bank.json").evaluations == tuple(EVALUATIONS)
    with pytest.raises(OptionError, match="cannot be read"):
        EvaluationBank.load(tmp_path / "none.json")
    (tmp_path / "odd.json").write_text("{}")
    with pytest.raises(OptionError, match="expected the JSON list of evaluations"):
        EvaluationBank.load(tmp_path / "odd.json")
    (tmp_path / "odd.jsonl").write_text("")
    with pytest.raises(OptionError, match="at least one evaluation"):
        EvaluationBank.load(tmp_path / "odd.jsonl")


def test_a_router_learns_by_playing_or_from_the_same_episodes_recorded(math: gym.Env[Any, Any], tmp_path: Path):
    router = KNNRouter.fit(math, questions=4, seed=7)
    assert len(router.bank.evaluations) == 12  # three models
    for evaluation in range(4):
        for model in ("gpt-oss-20b", "qwen3-30b-2507", "qwen3-coder-30b"):
            play_episode(math, Direct(expert=model), seed=7 + evaluation, options={"split": "train"})
            write_episodes(tmp_path / "played.jsonl", [math.unwrapped.episode])  # type: ignore[attr-defined]
    assert EvaluationBank.load(tmp_path / "played.jsonl").evaluations == router.bank.evaluations
    info = play_episode(math, router, seed=0, options={"split": "test"})
    assert info["outcome"] in ("solved", "failed")
