"""A few questions, and models that say what they are told to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.envs.ground_truth.parts import SubProblem
from toolorchestra.envs.paramanager.env import ParaManagerEnv
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, make_question
from toolorchestra.toolscale.tasks.task import Task

Make = Callable[..., ParaManagerEnv]


def question(number: int, split: str = "train") -> Task:
    parts = [
        SubProblem(f"What is {number} plus 3?", str(number + 3), (str(number + 4), str(number + 2))),
        SubProblem(
            f"What is {number + 3} times 2?", str(2 * number + 6), (str(2 * number + 3), str(2 * number + 8)), (0,)
        ),
    ]
    return make_question(
        id=f"sums/{number}",
        domain="sums",
        intent="sum",
        split=split,
        difficulty=1,
        question=f"Add 3 to {number} and double the sum. What do you get?",
        answers=[str(2 * number + 6)],
        parts=parts,
        subject="math",
    )


@pytest.fixture(scope="session")
def sums() -> QuestionSource:
    """Ten questions: twice the sum of a number and 3."""
    return QuestionSource("Sums", QuestionWorld("sums", "Whole numbers."), [question(n) for n in range(10)])


@pytest.fixture
def make_env(sums: QuestionSource) -> Iterator[Make]:
    """Make an environment of these questions, with any options; it is closed at the end."""
    made: list[ParaManagerEnv] = []

    def make(**options: Any) -> ParaManagerEnv:
        made.append(ParaManagerEnv(options.pop("source", sums), **options))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture
def scripted() -> Callable[..., ScriptedChat]:
    """Make a model that answers every request with the same text, or as a function says."""

    def make(name: str, answer: str | Callable[[ChatRequest], Any] = r"<answer>\boxed{6}</answer>") -> ScriptedChat:
        return ScriptedChat(answer if callable(answer) else lambda _: answer, name=name)

    return make


@pytest.fixture(scope="session")
def say() -> Callable[..., str]:
    """Write a message: ``say(("python", {"code": "1"}), "final_answer", thought="So.")``."""

    def write(*calls: str | tuple[str, dict[str, Any]], thought: str = "So.") -> str:
        blocks = []
        for call in calls:
            name, arguments = (call, {}) if isinstance(call, str) else call
            blocks.append(f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>")
        return f"<reasoning>{thought}</reasoning>\n" + "\n".join(blocks)

    return write
