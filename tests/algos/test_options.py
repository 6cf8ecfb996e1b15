"""Defaults that depend on which models are trained."""

from __future__ import annotations

import dataclasses

import pytest
import tyro

from toolorchestra.algos.options.config_files import LEARNERS, options_of
from toolorchestra.algos.options.one_agent import TrainGRPO, TrainSFT
from toolorchestra.algos.options.options import AT_LEAST_0, AT_LEAST_1, SHARES
from toolorchestra.algos.options.several_agents import TrainMSARL, TrainTMATR
from toolorchestra.envs.starts import EpisodeStart


def test_other_models_are_trained_with_the_papers_bounds_on_all_levels() -> None:
    """ToolOrchestra §4.4: 24,000 tokens read and 8,000 written, every task."""
    given = TrainGRPO(model="Qwen/Qwen3-8B")
    assert (given.turn_ids, given.longest, given.levels) == (8_000, 32_000, ())
    built_in = TrainGRPO()
    assert (built_in.turn_ids, built_in.longest, built_in.levels) == (64, 1024, (1, 2))
    assert TrainGRPO(model="m", max_turn_ids=500, difficulty=(3,)).levels == (3,)
    assert TrainGRPO(model="m", max_turn_ids=500).turn_ids == 500
    assert (TrainSFT().levels, TrainSFT(model="m").levels) == ((1, 2), ())
    assert TrainMSARL(reasoner="a", helper="b").levels == (1,)


@pytest.mark.parametrize(("words", "levels"), [([], (1, 2)), (["--difficulty", "3", "4"], (3, 4))])
def test_levels_are_read_from_the_command_line(words: list[str], levels: tuple[int, ...]) -> None:
    assert tyro.cli(TrainGRPO, args=words).levels == levels


def test_held_out_tasks_are_spread_over_the_split() -> None:
    starts = [EpisodeStart(n) for n in range(10)]
    assert [start.seed for start in TrainTMATR(eval_tasks=5).evaluated(starts)] == [0, 2, 4, 6, 8]
    assert TrainTMATR().evaluated(starts) == starts
    untaught = TrainTMATR(models={"planner": "m", "inferencer": "m"})
    assert len(untaught.evaluated([EpisodeStart(n) for n in range(99)])) == 8


def test_bounds_are_of_options_that_there_are() -> None:
    fields = {field.name for learner in LEARNERS for field in dataclasses.fields(options_of(learner))}
    assert {*AT_LEAST_0, *AT_LEAST_1, *SHARES} <= fields
