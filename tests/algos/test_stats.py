from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from toolorchestra.algos.reporting.stats import (
    Interval,
    maj_at_k,
    mean_interval,
    paired_bootstrap,
    paired_difference,
    pass_at_k,
    success_share,
)
from toolorchestra.toolscale.common.errors import OptionError

Z = 1.959963984540054


def test_wilson_interval_by_hand():
    # 8 of 10: centre (0.8 + z²/20)/(1 + z²/10), half-width z·sqrt(0.016 + z²/400)/(1 + z²/10)
    share, low, high = success_share([1] * 8 + [0] * 2)
    assert share == 0.8
    centre, half = (0.8 + Z**2 / 20) / (1 + Z**2 / 10), Z * math.sqrt(0.016 + Z**2 / 400) / (1 + Z**2 / 10)
    assert low == pytest.approx(centre - half) == pytest.approx(0.4902, abs=1e-4)
    assert high == pytest.approx(centre + half) == pytest.approx(0.9433, abs=1e-4)


def test_wilson_interval_has_width_at_the_ends():
    assert success_share([0] * 20) == pytest.approx((0, 0, Z**2 / (20 + Z**2)))
    assert success_share([1] * 20) == pytest.approx((1, 20 / (20 + Z**2), 1))
    assert success_share([])[1:] == (0, 1)


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_wilson_interval_holds_the_share_and_stays_in_the_unit_interval(outcomes):
    share, low, high = success_share(outcomes)
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    wide = success_share(outcomes, confidence=0.99)
    assert wide.low <= low + 1e-12
    assert wide.high >= high - 1e-12


def test_wilson_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        _, low, high = success_share((rng.random(40) < 0.85).astype(int))
        hits += low <= 0.85 <= high
    assert 0.93 < hits / 2000 < 0.975


def test_paired_difference_by_hand():
    # differences 1, 0, 1, 0: mean 0.5, s = sqrt(1/3), s/√4 = 0.288675
    got = paired_difference([1, 1, 1, 0], [0, 1, 0, 0])
    assert got == pytest.approx((0.5, 0.5 - Z * math.sqrt(1 / 12), 0.5 + Z * math.sqrt(1 / 12)))


def test_pairing_narrows_the_interval():
    rng = np.random.default_rng(0)
    hard = rng.random(200) < 0.5
    theirs = hard.astype(float)
    ours = theirs.copy()
    ours[:20] = 1.0
    paired = paired_difference(ours, theirs)
    unpaired = math.hypot(*(np.diff(mean_interval(x)[1:])[0] for x in (ours, theirs)))
    assert paired.high - paired.low < unpaired / 2


def test_bootstrap_agrees_with_the_normal_interval_and_with_itself():
    rng = np.random.default_rng(1)
    theirs = (rng.random(300) < 0.6).astype(float)
    ours = np.maximum(theirs, rng.random(300) < 0.3)
    normal, bootstrap = paired_difference(ours, theirs), paired_bootstrap(ours, theirs, seed=3)
    assert bootstrap == pytest.approx(normal, abs=0.01)
    assert bootstrap == paired_bootstrap(ours, theirs, seed=3)
    assert bootstrap.estimate == normal.estimate


def test_equal_policies_have_no_difference():
    assert paired_difference([1, 0, 1], [1, 0, 1]) == (0, 0, 0)
    assert paired_bootstrap([1, 0, 1], [1, 0, 1]) == (0, 0, 0)


def test_too_few_tasks_bound_nothing():
    assert paired_difference([1], [0]) == Interval(1.0, -math.inf, math.inf)
    assert math.isnan(paired_bootstrap([], []).estimate)
    assert math.isnan(mean_interval([]).estimate)


@pytest.mark.parametrize(("n", "c", "k"), [(5, 2, 2), (6, 1, 3), (8, 8, 4), (8, 0, 8), (4, 2, 3), (3, 1, 1)])
def test_pass_at_k_counts_the_subsets_with_a_right_sample(n, c, k):
    subsets = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(any(s) for s in subsets) / len(subsets))


def test_majority_by_hand():
    assert maj_at_k(["a", "b", "a"], "a") == 1.0
    assert maj_at_k(["a", "b", "b"], "a") == 0.0
    assert maj_at_k(["a", "b", "b"], "a", k=1) == 1.0
    assert maj_at_k(["a", "b", "c", None], "a") == pytest.approx(1 / 3)


def test_numbers_that_make_no_sense_are_refused():
    with pytest.raises(OptionError, match="outcomes of 0 or 1"):
        success_share([0.5])
    with pytest.raises(OptionError, match="same tasks on both sides, got 2 and 1"):
        paired_difference([1, 0], [1])
    with pytest.raises(OptionError, match="finite"):
        mean_interval([1.0, math.nan])
    with pytest.raises(OptionError, match=r"Write 95 % as 0\.95"):
        mean_interval([1, 2], confidence=95)
    with pytest.raises(OptionError, match="at least k samples"):
        pass_at_k(4, 1, 8)
    with pytest.raises(OptionError, match="number of answers"):
        maj_at_k(["a"], "a", k=2)
