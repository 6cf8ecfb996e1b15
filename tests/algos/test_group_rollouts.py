from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from toolorchestra.algos.group_rollouts import Curriculum, GroupRollouts, RolloutGroup, group_rewards
from toolorchestra.algos.rollout.engine import Row
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.common.errors import OptionError

FILTERS = ("homogeneity", "format", "invalid")


def row(reward: float, **changes: Any) -> Row:
    settings: dict[str, Any] = {"outcome": "solved" if reward else "failed", "answered": True}
    return Row(0, "orchestrator", [1], [2], [1], [-0.1], reward, **(settings | changes))


def test_advantages_are_normalised_within_the_group() -> None:
    group = RolloutGroup.judge(1, [row(1.0), row(0.0), row(0.0), row(0.0)], FILTERS, 0.1)
    assert group.advantages == pytest.approx([0.75 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001])
    assert group.kept == [True] * 4


def test_a_homogeneous_group_is_dropped() -> None:
    assert RolloutGroup.judge(1, [row(1.0)] * 4, FILTERS, 0.1).kept == [False] * 4


def test_rollouts_out_of_format_or_without_answer_are_dropped_one_by_one() -> None:
    rows = [row(1.0), row(0.0, well_formed=False), row(0.0, answered=False), row(0.0)]
    assert RolloutGroup.judge(1, rows, FILTERS, 0.1).kept == [True, False, False, True]
    assert RolloutGroup.judge(1, rows, ("homogeneity",), 0.1).kept == [True] * 4


def test_a_wrong_argument_is_no_wrong_format_unless_the_broader_filter_is_asked_for() -> None:
    rows = [row(1.0), row(0.0, calls_valid=False), row(0.0, calls_valid=False, well_formed=False), row(0.0)]
    assert RolloutGroup.judge(1, rows, FILTERS, 0.1).kept == [True, True, False, True]
    assert RolloutGroup.judge(1, rows, ("calls", "invalid"), 0.1).kept == [True, False, False, True]


def test_unscaled_advantages_weigh_a_group_by_how_much_its_rewards_differ() -> None:
    for difference in (1.0, 0.01):
        rows = [row(1.0), row(1.0 - difference)]
        assert RolloutGroup.judge(1, rows, (), 0.1).advantages == pytest.approx([0.707, -0.707], rel=0.02)
        assert RolloutGroup.judge(1, rows, (), 0.1, scale=False).advantages == pytest.approx(
            [difference / 2, -difference / 2]
        )


def test_a_preference_pays_the_cheaper_of_two_solutions_more() -> None:
    preference = np.array([0.0, 1.0, 0.5, 0.0])  # one tool, outcome, compute, latency
    cheap = row(1.0, preference=preference, M=np.array([1.0, 1.0, -0.1, -1.0]))
    dear = row(1.0, preference=preference, M=np.array([1.0, 1.0, -0.3, -1.0]))
    failed = row(0.0, preference=preference, M=np.array([0.0, 0.0, -0.1, -1.0]))
    broken_off = row(0.0, preference=preference, M=None)
    assert group_rewards([cheap, dear, failed, broken_off]) == pytest.approx([1.5, 1.0, 0.0, 0.0])


def test_groups_that_an_outage_ends_fail_with_the_reasons() -> None:
    class Down:
        renderer = None

        def play(self, sampler: Any, requests: list[Any]) -> list[Row]:
            return [row(0.0, outcome="infra_error") for _ in requests]

    settings: Any = {"seed": 0, "temperature": 1.0, "rollouts_per_task": 2, "resample": 1, "memory": None}
    settings |= {"output": Path("unused"), "keep_rollouts": 0}
    config: Any = SimpleNamespace(**settings)
    trainer = SimpleNamespace(
        state=SimpleNamespace(global_step=0), model=None, accelerator=SimpleNamespace(unwrap_model=lambda one: one)
    )
    nobody: Any = SimpleNamespace(sampler=lambda *_, **__: None)
    rollouts = GroupRollouts(Down(), curriculum(), config, generation=nobody)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"Only 0 of 3 groups .*\(12 of 12 episodes were not .* 12 × infra_error\)"):
        rollouts(["p"] * 6, trainer)


# ------------------------------------------------------------------------------------------------- curriculum


def curriculum(**settings: Any) -> Curriculum:
    return Curriculum({1: [EpisodeStart(0), EpisodeStart(1)], 2: [EpisodeStart(2)], 3: [EpisodeStart(3)]}, **settings)


def test_only_the_easiest_level_is_open_at_first() -> None:
    assert {level for level, _ in curriculum().draw(50, random.Random(0))} == {1}


def test_success_on_a_level_opens_the_next() -> None:
    tasks = curriculum(open_at=0.7)
    tasks.record(1, 0.6)
    assert tasks.open == 1
    for _ in range(60):
        tasks.record(1, 1.0)
    assert tasks.open == 2
    assert {level for level, _ in tasks.draw(50, random.Random(0))} == {1, 2}


def test_threshold_zero_opens_all_levels() -> None:
    assert {level for level, _ in curriculum(open_at=0.0).draw(99, random.Random(0))} == {1, 2, 3}


def test_levels_at_even_odds_are_drawn_oftener_than_mastered_ones() -> None:
    tasks = curriculum(open_at=0.0)
    for level, success in ((1, 1.0), (2, 0.5), (3, 0.0)):
        tasks.record(level, success)
    drawn = [level for level, _ in tasks.draw(1000, random.Random(0))]
    assert drawn.count(2) > 5 * max(drawn.count(1), drawn.count(3))


def test_a_restored_curriculum_goes_on_the_same() -> None:
    tasks, again = curriculum(), curriculum()
    for success in (0.9, 1.0, 0.4):
        tasks.record(1, success)
    again.restore(tasks.state())
    assert again.state() == tasks.state()
    assert again.draw(20, random.Random(3)) == tasks.draw(20, random.Random(3))
