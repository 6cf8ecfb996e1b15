from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from trl.trainer.utils import nanstd

from toolorchestra.algos.advantages import (
    filtered_advantages,
    format_filter,
    group_advantages,
    group_mean_std,
    homogeneity_filter,
    output_filter,
)
from toolorchestra.envs import rewards as equations

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


def test_dropped_rollouts_leave_the_baseline_alone():
    keep = torch.tensor([True, False, True, True, True])
    got = group_advantages(torch.tensor([1.0, 50.0, 0.0, 0.0, 0.0]), keep)
    assert_close(got, group_advantages(torch.tensor([1.0, NAN, 0.0, 0.0, 0.0])))


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
def test_tensors_and_the_equation_agree(rewards):
    got = group_advantages(torch.tensor(rewards, dtype=torch.float64))
    np.testing.assert_allclose(got.numpy(), equations.group_advantages(rewards), atol=1e-12)
    assert abs(got.sum().item()) < 1e-9


def test_homogeneous_groups_are_dropped_whole():
    rewards = torch.tensor([[0.5, 0.6, 0.5, 0.6], [0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    # deviations: 0.0577, 0.5, 0
    assert homogeneity_filter(rewards).tolist() == [[False] * 4, [True] * 4, [False] * 4]
    assert homogeneity_filter(rewards, threshold=0.0).tolist() == [[True] * 4, [True] * 4, [False] * 4]


def test_homogeneity_can_be_judged_by_the_rollouts_kept():
    rewards = torch.tensor([1.0, 1.0, 1.0, 0.0])
    assert not homogeneity_filter(rewards, torch.tensor([True, True, True, False])).any()


def test_format_and_output_filters_keep_what_is_in_order():
    assert format_filter([["OK"], ["PARSE_ERR", "OK"], ["EXEC_ERR", "TIMEOUT"]]).tolist() == [True, False, True]
    assert output_filter(["done", "", None]).tolist() == [True, False, False]


def test_filters_silence_a_rollout_but_leave_the_baseline():
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0])
    advantages, kept = filtered_advantages(
        rewards,
        well_formed=torch.tensor([True, True, False, True]),
        answered=torch.tensor([True, True, True, False]),
        delta=0.0,
    )
    assert kept.tolist() == [True, True, False, False]
    assert_close(advantages, torch.tensor([1.5, -0.5, 0.0, 0.0]))


def test_filters_that_are_off_keep_everything_that_has_a_reward():
    advantages, kept = filtered_advantages(torch.tensor([[1.0, 0.0, NAN], [1.0, 1.0, 1.0]]))
    assert kept.tolist() == [[True, True, False], [False, False, False]]
    assert advantages.isfinite().all()
