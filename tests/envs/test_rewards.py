from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

from toolorchestra.envs.rewards import (
    EvaluationUnits,
    Preference,
    compute_reward,
    evaluation_normalise,
    evaluation_reward,
    latency_reward,
    measure,
    normalise,
    outcome_reward,
    preference_rewards,
)
from toolorchestra.toolscale.common.errors import OptionError

TOOLS = ("local_search", "python")
# search, python, outcome, -usd, -seconds
BATCH = [[2, 0, 1, -0.50, -30], [0, 1, 1, -0.10, -10], [1, 1, 0, -0.30, -20]]


def test_the_three_rewards_have_the_signs_of_the_paper():
    assert outcome_reward(True) == 1.0
    assert outcome_reward(False) == 0.0
    assert compute_reward(0.25) == -0.25
    assert latency_reward(8.0) == -8.0


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_money_and_time_must_be_finite_and_not_negative(bad):
    with pytest.raises(OptionError, match="at least 0"):
        compute_reward(bad)
    with pytest.raises(OptionError, match="at least 0"):
        latency_reward(bad)


def test_m_lists_counts_in_tool_order_then_the_rewards():
    m = measure({"python": 3, "no_such_tool": 9}, TOOLS, solved=True, usd=0.5, seconds=2)
    assert m.tolist() == [0, 3, 1, -0.5, -2]


def test_normalising_over_the_batch_by_hand():
    assert_allclose(normalise(BATCH), [[1, 0, 1, 0, 0], [0, 1, 1, 1, 1], [0.5, 1, 0, 0.5, 0.5]])


def test_an_entry_in_which_all_rollouts_agree_is_zero():
    assert normalise([[3, 1, -2, -1], [3, 1, -2, -1]]).tolist() == [[0] * 4] * 2


def test_preference_rewards_by_hand():
    preference = Preference.of([0.2, 0.0, 1.0, 0.5, 0.3], TOOLS)
    # rollout 1: 0.2·1 + 1·1 = 1.2; rollout 2: 1 + 0.5 + 0.3 = 1.8; rollout 3 is not solved
    assert_allclose(preference_rewards(BATCH, preference), [1.2, 1.8, 0.0])
    assert_allclose(preference_rewards(BATCH, preference.vector), [1.2, 1.8, 0.0])


def test_a_rollout_left_out_shapes_no_reward_and_has_none():
    preference = Preference.of({"outcome": 1.0, "compute": 0.5}, TOOLS)
    batch = [*BATCH, [9, 9, 0, -100, -900]]
    rewards = preference_rewards(batch, preference, keep=[True, True, True, False])
    assert_allclose(rewards[:3], preference_rewards(BATCH, preference))
    assert math.isnan(rewards[3])


def test_a_group_of_which_nothing_is_left_has_no_rewards():
    preference = Preference.of({"outcome": 1.0}, TOOLS)
    assert np.isnan(preference_rewards(BATCH, preference, keep=[False] * 3)).all()


def test_evaluation_reward_by_hand():
    m = [3, 0, 1, -0.005, -120]  # half a cent and two minutes
    baseline = [2, 4, 0, -0.02, -300]
    # 3/2, 0/4, 1/max(1, 0), 2/max(1, 0.5), 5/2
    assert_allclose(evaluation_normalise(m, baseline), [1.5, 0, 1, 2, 2.5])
    preference = Preference.of([1, 1, 1, 0.5, 0.2], TOOLS)
    assert evaluation_reward(m, baseline, preference) == pytest.approx(1.5 + 0 + 1 + 1 + 0.5)
    # in cents and seconds: 2/max(1, 0.5), 300/120; in dollars and minutes: 0.02/1, 5/2
    assert_allclose(evaluation_normalise(m, baseline, EvaluationUnits(0.01, 1.0))[-2:], [2, 2.5])
    assert_allclose(evaluation_normalise([*m[:3], -2, -120], baseline, EvaluationUnits(1.0, 60.0))[-2:], [0.01, 2.5])


@given(st.floats(1, 1e4), st.floats(1.001, 100), st.floats(0.1, 1e4))
def test_cheaper_and_quicker_score_better_at_evaluation(least: float, times: float, baseline: float) -> None:
    before = [1, -0.01 * baseline, -60.0 * baseline]
    cheap, dear = ([1, -0.01 * spent, -60.0 * spent] for spent in (least, least * times))
    better, worse = evaluation_normalise(cheap, before), evaluation_normalise(dear, before)
    assert (better[-2:] > worse[-2:]).all()


def test_what_costs_less_than_a_unit_needs_smaller_units() -> None:
    cheap, dear, before = [1, -0.001, -0.2], [1, -0.002, -0.4], [1, -0.004, -0.8]
    with pytest.warns(UserWarning, match=r"below the unit of .*EvaluationUnits\.fitting"):
        assert evaluation_normalise(cheap, before)[-2] == pytest.approx(0.4)
    units = EvaluationUnits.fitting([cheap, dear], before)
    assert units == EvaluationUnits(usd=0.001, seconds=0.1)
    assert_allclose(evaluation_normalise(cheap, before, units)[-2:], [4, 4])
    assert_allclose(evaluation_normalise(dear, before, units)[-2:], [2, 2])
    preference = Preference.of([0, 1, 1], [])
    assert evaluation_reward(cheap, before, preference, units) == pytest.approx(8)


def test_units_are_the_papers_where_they_are_small_enough_and_nothing_spent_is_left_out() -> None:
    assert EvaluationUnits.fitting([[1, -0.5, -600], [1, 0, 0]]) == EvaluationUnits() == EvaluationUnits(0.01, 60.0)
    assert EvaluationUnits.fitting([[1, 0, 0]]) == EvaluationUnits()


@given(st.lists(st.tuples(st.floats(1e-9, 1e3), st.floats(1e-6, 1e6)), min_size=1, max_size=5))
def test_nothing_is_below_units_that_fit(spent: list[tuple[float, float]]) -> None:
    units = EvaluationUnits.fitting([[1, -usd, -seconds] for usd, seconds in spent])
    assert units.usd <= min(usd for usd, _ in spent)
    assert units.seconds <= min(seconds for _, seconds in spent)


@pytest.mark.parametrize("units", [(0.0, 60.0), (0.01, -1.0), (math.nan, 60.0), (0.01, math.inf)])
def test_units_must_be_positive(units: tuple[float, float]) -> None:
    with pytest.raises(OptionError, match=r"finite numbers above 0.*By default"):
        evaluation_normalise([1, -1, -1], [1, -1, -1], EvaluationUnits(*units))


def test_an_unsolved_task_earns_nothing_at_evaluation():
    preference = Preference.of([1, 1, 1, 1, 1], TOOLS)
    assert evaluation_reward([3, 0, 0, -1, -1], [1, 1, 1, -1, -1], preference) == 0.0


def test_entries_a_mapping_does_not_name_weigh_nothing():
    preference = Preference.of({"python": 1, "latency": 0.25}, TOOLS, "Be quick.")
    assert preference.weights == (0, 1, 0, 0, 0.25)
    assert preference.vector.tolist() == [0, 1, 0, 0, 0.25]
    assert preference.instruction == "Be quick."


def test_a_preference_follows_the_tools_of_an_episode():
    written = Preference.of({"local_search": 0.5, "python": 1, "outcome": 1}, TOOLS, "Prefer code.")
    met = Preference.of(written, ["calculator", "python"])
    assert met.weights == (0, 1, 1, 0, 0)
    assert met.instruction == "Prefer code."


@pytest.mark.parametrize("bad", [-0.1, 1.5, math.nan, math.inf])
def test_weights_outside_the_unit_interval_are_refused(bad):
    with pytest.raises(OptionError, match=r"'compute' must be a finite number in \[0, 1\].*Divide"):
        Preference.of({"compute": bad}, TOOLS)


def test_errors_of_a_preference_say_what_was_expected():
    with pytest.raises(OptionError, match=r"over 2 tools needs 5 weights.* got 2"):
        Preference.of([1, 0], TOOLS)
    with pytest.raises(OptionError, match="Did you mean 'python'"):
        Preference.of({"pythn": 1}, TOOLS)
    with pytest.raises(OptionError, match="'outcome' must be a number"):
        Preference.of({"outcome": "high"}, TOOLS)  # type: ignore[dict-item]


def test_batches_that_do_not_fit_are_refused():
    preference = Preference.of({"outcome": 1}, TOOLS)
    with pytest.raises(OptionError, match="M has 4 entries but the preference has 5"):
        preference_rewards([[0, 1, 0, 0]], preference)
    with pytest.raises(OptionError, match=r"'tool 2' must be a finite number in \[0, 1\]"):
        preference_rewards(BATCH, [0, 2, 1, 0, 0])
    with pytest.raises(OptionError, match="M must be finite"):
        preference_rewards([[0, 0, 1, math.nan, 0]], preference)
    with pytest.raises(OptionError, match="one flag for each of the 3 rollouts"):
        preference_rewards(BATCH, preference, keep=[True])
    with pytest.raises(OptionError, match="shape"):
        normalise([1, 2, 3])
    with pytest.raises(OptionError, match="its baseline has 4"):
        evaluation_normalise([0, 0, 1, -1, -1], [0, 1, -1, -1])


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, Preference]:
    n = draw(st.integers(0, 4))
    size = draw(st.integers(1, 6))
    money = st.floats(-1e6, 0, allow_subnormal=False)
    row = st.tuples(*[st.integers(0, 50)] * n, st.integers(0, 1), money, money)
    rows = draw(st.lists(row, min_size=size, max_size=size))
    weights = draw(st.lists(st.floats(0, 1), min_size=n + 3, max_size=n + 3))
    return np.array(rows, dtype=float), Preference.of(weights, [f"t{i}" for i in range(n)])


@given(batches())
def test_rewards_stay_between_zero_and_the_sum_of_the_weights(case):
    batch, preference = case
    rewards = preference_rewards(batch, preference)
    assert (rewards >= 0).all()
    assert (rewards <= sum(preference.weights) + 1e-12).all()
    assert (rewards[batch[:, -3] == 0] == 0).all()


@given(batches(), st.randoms(use_true_random=False))
def test_rewards_do_not_depend_on_the_order_of_tools_or_rollouts(case, random):
    batch, preference = case
    n = len(preference.tools)
    tools, rows = list(range(n)), list(range(len(batch)))
    random.shuffle(tools)
    random.shuffle(rows)
    columns = [*tools, n, n + 1, n + 2]
    shuffled = Preference.of(preference, [preference.tools[i] for i in tools])
    assert_allclose(
        preference_rewards(batch[np.ix_(rows, columns)], shuffled),
        preference_rewards(batch, preference)[rows],
        atol=1e-12,
    )


@given(batches(), st.sampled_from([0.25, 2.0, 1024.0]))
def test_rewards_do_not_depend_on_the_units_of_money_and_time(case, unit):
    batch, preference = case
    scaled = batch.copy()
    scaled[:, -2:] *= unit
    assert_allclose(preference_rewards(scaled, preference), preference_rewards(batch, preference), atol=1e-9)
