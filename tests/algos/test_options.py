"""Defaults that depend on which models are trained."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import tyro

from toolorchestra.algos.options.config_files import LEARNERS, options_of
from toolorchestra.algos.options.one_agent import TrainGRPO, TrainSFT
from toolorchestra.algos.options.options import AT_LEAST_0, AT_LEAST_1, SHARES
from toolorchestra.algos.options.several_agents import TrainMSARL, TrainTMATR
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.common.errors import OptionError


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


@pytest.mark.usefixtures("gpu")
def test_other_models_are_trained_with_the_papers_bounds_on_all_levels() -> None:
    """ToolOrchestra §4.4: 24,000 tokens read and 8,000 written, every task."""
    given = TrainGRPO(model="Qwen/Qwen3-8B")
    assert (given.turn_ids, given.longest, given.levels) == (1024, 16_000, ())
    built_in = TrainGRPO()
    assert (built_in.turn_ids, built_in.longest, built_in.levels) == (64, 1024, (1, 2))
    assert TrainGRPO(model="m", max_turn_ids=500, difficulty=(3,)).levels == (3,)
    assert TrainGRPO(model="m", max_turn_ids=500).turn_ids == 500
    assert (TrainSFT().levels, TrainSFT(model="m").levels) == ((1, 2), ())
    assert TrainMSARL(reasoner="a", helper="b").levels == (1,)


def test_less_is_played_with_a_given_model_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = [EpisodeStart(n) for n in range(99)]
    found = []
    for there in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        for given in (TrainGRPO(), TrainGRPO(model="m"), TrainGRPO(model="m", groups=3, group_size=5)):
            sizes = given.tasks_per_batch, given.rollouts_per_task, given.turn_ids, len(given.evaluated(starts))
            found.append(sizes)
    built_in = (16, 8, 64, 99)
    assert found == [built_in, (16, 8, 1024, 8), (3, 5, 1024, 8), built_in, (2, 4, 512, 4), (3, 5, 512, 4)]
    with pytest.raises(OptionError, match="2 groups of 4 rollouts cannot be shared among 16 updates"):
        TrainGRPO(model="m", updates=16)


def test_the_built_in_model_learns_from_the_rollouts_that_the_papers_filters_drop() -> None:
    small, large = TrainGRPO(), TrainGRPO(model="some/model")
    assert (small.used_filters, small.loss_aggregation) == (("homogeneity",), "dapo")
    assert (large.used_filters, large.loss_aggregation) == (("homogeneity", "format", "invalid"), "grpo")
    none = TrainGRPO(filters=(), aggregation="grpo")
    assert (none.used_filters, none.loss_aggregation) == ((), "grpo")


def test_a_built_in_model_is_evaluated_each_quarter() -> None:
    assert TrainGRPO(steps=40).milestones == {0, 10, 20, 30, 40}
    assert TrainGRPO(steps=2).milestones == {0, 2}
    assert TrainGRPO(steps=40, eval_every=0).milestones == {0, 40}
    assert TrainGRPO(steps=40, eval_samples=0).milestones == set()
    assert TrainGRPO(steps=40, model="some/model").milestones == {0, 40}


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"difficulty": (1,)}, "ToolOrchestra-Restaurant-v0, level 1"),
        ({}, "ToolOrchestra-Restaurant-v0, levels 1 and 2"),
        ({"difficulty": (1, 3, 5)}, "ToolOrchestra-Restaurant-v0, levels 1, 3 and 5"),
        ({"model": "some/model"}, "ToolOrchestra-Restaurant-v0"),
    ],
)
def test_a_title_names_the_levels(options: dict[str, Any], setting: str) -> None:
    assert TrainGRPO(**options).setting == setting


@pytest.mark.parametrize(("words", "levels"), [([], (1, 2)), (["--difficulty", "3", "4"], (3, 4))])
def test_levels_are_read_from_the_command_line(words: list[str], levels: tuple[int, ...]) -> None:
    assert tyro.cli(TrainGRPO, args=words).levels == levels


@pytest.mark.usefixtures("gpu")
def test_held_out_tasks_are_spread_over_the_split() -> None:
    starts = [EpisodeStart(n) for n in range(10)]
    assert [start.seed for start in TrainTMATR(eval_tasks=5).evaluated(starts)] == [0, 2, 4, 6, 8]
    assert TrainTMATR().evaluated(starts) == starts
    untaught = TrainTMATR(models={"planner": "m", "inferencer": "m"})
    assert len(untaught.evaluated([EpisodeStart(n) for n in range(99)])) == 8


@pytest.mark.usefixtures("gpu")
def test_a_given_model_is_evaluated_on_few_episodes_unless_more_are_asked_for() -> None:
    assert [options.samples for options in (TrainGRPO(), TrainTMATR(), TrainGRPO(eval_samples=3))] == [4, 8, 3]
    given = TrainGRPO(model="some/model")
    assert given.samples == 1
    assert given.announcement(8, 9_000).startswith(
        "Held-out episodes: 16, greedily and 1 sampled for each of 8 tasks; at most 9,000 tokens each and 1,024 a turn"
    )


def test_bounds_are_of_options_that_there_are() -> None:
    fields = {field.name for learner in LEARNERS for field in dataclasses.fields(options_of(learner))}
    assert {*AT_LEAST_0, *AT_LEAST_1, *SHARES} <= fields
