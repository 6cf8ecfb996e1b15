"""Simulated experts refuse what nothing is known of, and say where they know the answer."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import pytest
from msgspec.structs import replace

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.envs.ground_truth.known_answers import KnownAnswersWarning
from toolorchestra.envs.ground_truth.parts import SubProblem
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, make_question
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Task

PROTOCOLS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("ToolOrchestra-Custom-v0", {"tools": "full"}, {}),
    ("ParaManager-Custom-v0", {"sandbox": "process"}, {"experts": {"ada": ScriptedChat(["4"])}}),
    ("MASOrchestra-High-Custom-v0", {}, {"model": ScriptedChat(["4"])}),
)


def question(parts: tuple[SubProblem, ...] = ()) -> Task:
    return make_question(
        id="rows/1",
        domain="rows",
        intent="sum",
        split="train",
        difficulty=2,
        question="What is 2 plus 2?",
        answers=["4"],
        parts=parts,
        subject="math",
    )


def begin(env_id: str, task: Task, **options: Any) -> None:
    env = gym.make(env_id, source=QuestionSource("Rows", QuestionWorld("rows", "Whole numbers."), [task]), **options)
    try:
        env.reset(seed=0)
    finally:
        env.close()


@pytest.mark.parametrize(("env_id", "options", "real"), PROTOCOLS)
def test_simulated_experts_say_that_they_know_the_answer(
    env_id: str, options: dict[str, Any], real: dict[str, Any]
) -> None:
    with pytest.warns(KnownAnswersWarning, match="known_answers=True"):
        begin(env_id, question(), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        begin(env_id, question(), known_answers=True, **options)
        begin(env_id, question((SubProblem("What is 2 plus 2?", "4"),)), **options)
        if real:
            begin(env_id, question(), **options, **real)


@pytest.mark.parametrize(("env_id", "options", "real"), PROTOCOLS)
def test_simulated_experts_refuse_what_nothing_is_known_of(
    env_id: str, options: dict[str, Any], real: dict[str, Any]
) -> None:
    unknown = replace(question(), answer="", communicate=())
    with pytest.raises(OptionError, match="nothing to err about"):
        begin(env_id, unknown, known_answers=True, **options)
    if real:
        begin(env_id, unknown, **options, **real)


def test_without_experts_nothing_is_to_be_said() -> None:
    begin("ToolOrchestra-Custom-v0", question())
    begin("ToolOrchestra-Custom-v0", question(), tools="basic", sandbox="process")
