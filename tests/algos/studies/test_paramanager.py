"""The orderings of ParaManager hold with simulated experts, each with a 95 % interval that excludes zero."""

from __future__ import annotations

import pytest

from toolorchestra.algos.stats import mean_interval
from toolorchestra.algos.studies import paramanager
from toolorchestra.algos.studies.paramanager import (
    CONDITIONS,
    FAMILIES,
    Condition,
    ConditionResult,
    ParaManagerStudy,
    alone,
    markdown,
    play,
)

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


def test_parallel_is_above_serial_in_accuracy_and_below_in_latency(parallel: ConditionResult) -> None:
    serial = play(condition(f"serial, {POOL}"), samples=1)
    assert parallel.over(serial).low > 0
    assert serial.over(parallel, "seconds").low > 0


def test_a_pool_is_above_its_models_one_by_one(parallel: ConditionResult) -> None:
    monos = [play(condition(f"mono {model}"), samples=1) for model in MODELS]
    shares = [sum(rights) / len(rights) for rights in zip(*(mono.right for mono in monos), strict=True)]
    gains = [ours - theirs for ours, theirs in zip(parallel.right, shares, strict=True)]
    assert mean_interval(gains).low > 0


def test_more_budget_helps_with_diminishing_returns(budgets: dict[int, ConditionResult]) -> None:
    assert budgets[8].over(budgets[4]).low > 0
    assert budgets[16].over(budgets[4]).low > 0
    first = budgets[8].over(budgets[4]).estimate / 4
    later = budgets[16].over(budgets[8]).estimate / 8
    assert first > 2 * later
    assert budgets[16].over(budgets[8], "tokens").low > 0


def test_a_stronger_expert_of_the_same_makers_costs_more() -> None:
    experts = {one.name: one for one in alone([name for family in FAMILIES for name in family])}
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
    assert "| parallel over serial (paramanager), accuracy | +0.0 | [+0.0, +0.0] |" in text
