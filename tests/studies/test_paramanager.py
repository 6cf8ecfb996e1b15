"""The orderings of ParaManager hold with simulated experts, each with a 95 % interval that excludes zero."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

from examples.studies import paramanager
from examples.studies.paramanager import (
    CONDITIONS,
    FAMILIES,
    Condition,
    ConditionResult,
    ParaManagerStudy,
    alone,
    markdown,
    play,
)
from toolorchestra.algos.reporting.stats import mean_interval

POOL = "paramanager-unseen"
MODELS = paramanager.POOLS[POOL]


def condition(name: str) -> Condition:
    (found,) = (condition for condition in CONDITIONS if condition.name == name)
    return found


@pytest.fixture(scope="module")
def parallel() -> ConditionResult:
    return play(condition(f"parallel, {POOL}"), samples=1)


@pytest.fixture(scope="module")
def budgets() -> dict[int, ConditionResult]:
    return {units: play(condition(f"C_tar {units}"), samples=1) for units in (4, 8, 16)}


@pytest.mark.long
def test_parallel_is_above_serial_that_stops_early_in_accuracy_and_below_in_latency() -> None:
    names = (f"parallel, {POOL}", f"serial that stops early, {POOL}")
    parallel, serial = (play(condition(name), samples=2) for name in names)  # a point: one sample shows it hardly
    assert parallel.over(serial).low > 0
    assert serial.over(parallel, "seconds").low > 0


def test_serial_makes_as_many_calls_one_after_the_other(parallel: ConditionResult) -> None:
    serial = play(condition(f"serial, {POOL}"), questions=60, samples=1)
    first = ConditionResult(
        "", *(getattr(parallel, name)[:60] for name in ("right", "tokens", "seconds", "usd", "calls"))
    )
    assert abs(serial.over(first, "calls").estimate) < 0.1
    assert serial.over(first, "seconds").low > 0


def test_several_tools_are_above_one(parallel: ConditionResult) -> None:
    """The path to which a policy collapses without the reward for diversity (App. B) solves less."""
    assert parallel.over(play(condition(f"one tool, {POOL}"), samples=1)).low > 0


def test_mono_has_one_model_and_the_same_summariser() -> None:
    """§4.5: the pool is restricted to Qwen3-30B-A3B-Instruct-2507."""
    mono = condition("mono qwen3-30b-2507")
    assert mono.options["mono"] == paramanager.MONO
    env: Any = gymnasium.make(paramanager.ENVIRONMENT, disable_env_checker=True, **mono.options).unwrapped
    env.reset(seed=0)
    env.step([{"name": "standard_reasoner", "arguments": {}}, {"name": "final_answer", "arguments": {}}])
    asked = [[child.name for child in call.children] for call in env.episode.calls]
    assert asked == [["qwen3-30b-2507"], ["gpt-oss-20b"]]
    env.close()


def test_a_vote_of_eight_has_eight_samples_of_one_model_and_follows_their_plurality() -> None:
    vote = condition("vote of 8 gpt-oss-20b")
    found = play(vote, questions=3, samples=1)
    assert found.calls == [9.0] * 3  # eight answers, and the final call


@pytest.mark.long
def test_a_pool_is_above_its_models_one_by_one(parallel: ConditionResult) -> None:
    monos = [play(condition(f"mono {model}"), samples=1) for model in MODELS]
    shares = [sum(rights) / len(rights) for rights in zip(*(mono.right for mono in monos), strict=True)]
    gains = [ours - theirs for ours, theirs in zip(parallel.right, shares, strict=True)]
    assert mean_interval(gains).low > 0


@pytest.mark.long
def test_more_budget_helps_with_diminishing_returns(budgets: dict[int, ConditionResult]) -> None:
    assert budgets[8].over(budgets[4]).low > 0
    assert budgets[16].over(budgets[4]).low > 0
    first = budgets[8].over(budgets[4]).estimate / 4
    later = budgets[16].over(budgets[8]).estimate / 8
    assert first > 2 * later
    assert budgets[16].over(budgets[8], "tokens").low > 0


def test_a_stronger_expert_of_the_same_makers_costs_more() -> None:
    names = [name for family in FAMILIES for name in family]
    experts = {one.name: one for one in alone(names, questions=1_500, split="train")}  # test has too few to be sure
    for small, large in FAMILIES:
        assert experts[large].over(experts[small], "usd").low > 0
        assert experts[large].over(experts[small]).estimate > 0
    assert experts["gpt-5"].over(experts["gpt-5-mini"]).low > 0
    assert experts["qwen2.5-math-72b"].over(experts["qwen2.5-math-7b"]).low > 0


def test_the_tables_show_what_was_found_beside_the_paper() -> None:
    names = [name for family in FAMILIES for name in family]
    found = {
        one.name: ConditionResult(one.name, [1.0, 0.0], [10.0] * 2, [2.0] * 2, [0.1] * 2, [3.0] * 2)
        for one in CONDITIONS
    }
    experts = {name: ConditionResult(name, [1.0, 1.0], [10.0] * 2, [2.0] * 2, [0.001] * 2, [1.0] * 2) for name in names}
    text = markdown(ParaManagerStudy(2, 1, found, experts))
    assert "| serial, paramanager | 50.0 ± 98.0 | 10 | 2.0 | 0.1000 | 3.0 | 76.51 | 46,801 | 660.32 |" in text
    assert "| gpt-5 | 100.0 ± 0.0 | 1.00 | 2.0 |" in text
    assert "| parallel over serial at equal calls (paramanager), accuracy | +0.0 | [+0.0, +0.0] |" in text
