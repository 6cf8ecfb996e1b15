from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch.testing import assert_close
from trl.trainer.utils import nanstd

from toolorchestra.algos.loss.advantages import (
    group_advantages,
    group_mean_std,
    homogeneity_filter,
    nested_advantages,
    rollout_filters,
)
from toolorchestra.toolscale.common.errors import UnknownNameError

NAN = math.nan


def test_advantages_by_hand():
    # mean 0.25; deviations 0.75, -0.25 ×3; sample variance (0.5625 + 3·0.0625)/3 = 0.25, deviation 0.5
    got = group_advantages(torch.tensor([1.0, 0.0, 0.0, 0.0]), delta=0.0)
    assert_close(got, torch.tensor([1.5, -0.5, -0.5, -0.5]))


def test_delta_adds_to_the_deviation_and_scaling_can_be_off():
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0])
    assert_close(group_advantages(rewards, delta=0.5), torch.tensor([0.75, -0.25, -0.25, -0.25]))
    assert_close(group_advantages(rewards, scale=False), torch.tensor([0.75, -0.25, -0.25, -0.25]))


def test_a_group_that_agrees_has_no_advantage_even_with_delta_zero():
    # the mean of eight 0.1 is not exactly 0.1 in floating point
    assert group_advantages(torch.full((8,), 0.1), delta=0.0).tolist() == [0.0] * 8


def test_rollouts_without_a_reward_leave_the_baseline_alone():
    with_nan = group_advantages(torch.tensor([1.0, NAN, 0.0, 0.0, 0.0]))
    without = group_advantages(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    assert with_nan[1] == 0.0
    assert_close(with_nan[[0, 2, 3, 4]], without)


@pytest.mark.parametrize("rewards", [[NAN, NAN], [1.0, NAN], [3.0]])
def test_fewer_than_two_rewards_give_no_advantage(rewards):
    assert group_advantages(torch.tensor(rewards)).tolist() == [0.0] * len(rewards)


def test_groups_along_leading_dimensions_are_independent():
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [5.0, 6.0, NAN, 7.0]])
    assert_close(group_advantages(rewards), torch.stack([group_advantages(row) for row in rewards]))
    nested = rewards.reshape(1, 2, 4)
    assert_close(group_advantages(nested), group_advantages(rewards).reshape(1, 2, 4))


def test_the_deviation_is_that_of_trl():
    rewards = torch.tensor([[1.0, 0.2, NAN, 0.4], [0.0, 0.0, 1.0, 1.0]])
    mean, std = group_mean_std(rewards)
    assert_close(std, nanstd(rewards, dim=1, keepdim=True))
    assert_close(mean, rewards.nanmean(dim=1, keepdim=True))


@given(st.lists(st.integers(0, 8).map(lambda k: k / 8), min_size=1, max_size=12))
def test_advantages_are_those_of_the_equation(rewards):
    got = group_advantages(torch.tensor(rewards, dtype=torch.float64))
    r = np.array(rewards)
    expected = (r - r.mean()) / (r.std(ddof=1) + 1e-4) if len(set(rewards)) > 1 else np.zeros(len(r))
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)
    assert abs(got.sum().item()) < 1e-9


def test_homogeneous_groups_are_dropped_whole():
    rewards = torch.tensor([[0.5, 0.6, 0.5, 0.6], [0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    # deviations: 0.0577, 0.5, 0
    assert homogeneity_filter(rewards).tolist() == [[False] * 4, [True] * 4, [False] * 4]
    assert homogeneity_filter(rewards, threshold=0.0).tolist() == [[True] * 4, [True] * 4, [False] * 4]


def test_filters_silence_a_rollout_but_leave_the_baseline():
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0])
    kept = rollout_filters(
        rewards, well_formed=torch.tensor([True, True, False, True]), answered=torch.tensor([True, True, True, False])
    )
    assert kept.tolist() == [True, True, False, False]
    assert_close(group_advantages(rewards, delta=0.0) * kept, torch.tensor([1.5, -0.5, 0.0, 0.0]))


def test_filters_that_are_off_keep_everything_that_has_a_reward():
    kept = rollout_filters(torch.tensor([[1.0, 0.0, NAN], [1.0, 1.0, 1.0]]))
    assert kept.tolist() == [[True, True, False], [False, False, False]]


# ---------------------------------------------------------------------------------------- nested groups (MSARL)

NESTED = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])  # G = 3 paths, M = 3 branches


def test_the_helpers_advantages_are_those_within_each_subgroup_by_hand():
    # first subgroup: mean 2/3, deviations 1/3, 1/3, -2/3; variance (1/9 + 1/9 + 4/9)/2 = 1/3; the others agree
    got, _ = nested_advantages(NESTED, delta=0.0)
    root = 3**0.5
    assert_close(got, torch.tensor([[root / 3, root / 3, -2 * root / 3], [0.0] * 3, [0.0] * 3]))


def test_the_subgroup_mean_rule_by_hand():
    # subgroup means 2/3, 0, 1; mean 5/9; deviations 1/9, -5/9, 4/9; variance (1 + 25 + 16)/81/2 = 7/27
    _, got = nested_advantages(NESTED, "subgroup_mean", delta=0.0)
    assert_close(got, torch.tensor([1 / 9, -5 / 9, 4 / 9]) / (7 / 27) ** 0.5)


def test_the_pooled_rule_by_hand():
    # nine outputs, five right: mean 5/9, variance (5·(4/9)² + 4·(5/9)²)/8 = 180/81/8 = 5/18
    # path 1: (4/9 + 4/9 - 5/9)/3 = 1/9; path 2: -5/9; path 3: 4/9
    _, got = nested_advantages(NESTED, "pooled", delta=0.0)
    assert_close(got, torch.tensor([1 / 9, -5 / 9, 4 / 9]) / (5 / 18) ** 0.5)


def test_the_papers_rule_by_hand():
    # (√3/3 + √3/3 - 2√3/3)/3 = 0, and the other subgroups agree
    _, got = nested_advantages(NESTED, "paper", delta=0.0)
    assert_close(got, torch.zeros(3), atol=1e-7, rtol=0.0)


numbers = st.floats(-8, 8, width=16)
nested = (
    st.integers(2, 4)
    .flatmap(
        lambda g: st.integers(2, 4).flatmap(
            lambda m: st.lists(st.lists(numbers, min_size=m, max_size=m), min_size=g, max_size=g)
        )
    )
    .map(lambda rows: torch.tensor(rows, dtype=torch.float64))
)
RULES = ["subgroup_mean", "pooled", "paper"]


@given(nested)
def test_the_papers_rule_is_zero_for_whatever_rewards(rewards):
    for scale in (True, False):
        _, got = nested_advantages(rewards, "paper", scale=scale)
        assert_close(got, torch.zeros_like(got), atol=1e-9, rtol=0.0)


@given(nested, st.sampled_from(RULES), st.randoms(use_true_random=False))
def test_permuting_paths_and_branches_permutes_the_advantages(rewards, rule, shuffled):
    paths = list(range(len(rewards)))
    branches = list(range(rewards.shape[1]))
    shuffled.shuffle(paths)
    shuffled.shuffle(branches)
    before, after = nested_advantages(rewards, rule), nested_advantages(rewards[paths][:, branches], rule)
    assert_close(after.helper, before.helper[paths][:, branches], atol=1e-9, rtol=1e-7)
    assert_close(after.reasoner, before.reasoner[paths], atol=1e-9, rtol=1e-7)


@given(nested.map(torch.round), st.sampled_from(RULES), st.integers(-9, 9), st.sampled_from([0.25, 0.5, 2.0, 64.0]))
def test_neither_a_shift_nor_a_scale_of_the_rewards_matters(rewards, rule, shift, factor):
    before, after = (nested_advantages(r, rule, delta=0.0) for r in (rewards, factor * rewards + shift))
    # subgroup means that are equal on paper can differ by a rounding, which scaling by their deviation would magnify
    spread = rewards.mean(-1).std()
    if rule != "subgroup_mean" or spread == 0 or spread > 1e-6:
        assert_close(after.reasoner, before.reasoner, atol=1e-6, rtol=1e-6)
    assert_close(after.helper, before.helper, atol=1e-6, rtol=1e-6)


@given(nested, st.sampled_from(RULES))
def test_advantages_of_each_group_sum_to_nothing(rewards, rule):
    got = nested_advantages(rewards, rule)
    assert_close(got.helper.sum(-1), torch.zeros(len(rewards), dtype=torch.float64), atol=1e-7, rtol=0.0)
    assert abs(got.reasoner.sum()) < 1e-7


@pytest.mark.parametrize("rule", RULES)
def test_branches_without_a_reward_count_for_nothing(rule):
    rewards = torch.tensor([[1.0, 0.0, NAN], [0.0, 0.0, NAN], [NAN, NAN, NAN]])
    got = nested_advantages(rewards, rule)
    without = nested_advantages(rewards[:2, :2], rule)
    assert_close(got.helper[:2, :2], without.helper)
    assert_close(got.reasoner[:2], without.reasoner)
    assert got.helper[:, 2].tolist() == [0.0] * 3
    assert got.reasoner[2] == 0.0


@pytest.mark.parametrize("rule", RULES)
def test_questions_are_independent_of_one_another(rule):
    several = torch.stack([NESTED, 1 - NESTED])
    got = nested_advantages(several, rule)
    for n, one in enumerate(several):
        assert_close(got.reasoner[n], nested_advantages(one, rule).reasoner)
        assert_close(got.helper[n], nested_advantages(one, rule).helper)


def test_an_unknown_rule_is_met_with_those_that_there_are():
    with pytest.raises(UnknownNameError, match="Did you mean 'pooled'"):
        nested_advantages(NESTED, "poold")
