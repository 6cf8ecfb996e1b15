r"""Sketches of mathematical problems: a statement, what is given in it, and the steps that solve it.

A family is a function that draws a problem of a level. It is registered by `family` under its own name. What it
gives in `Sketch.given` determines the answer, so that the problem can be solved again, in another way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from toolorchestra.envs.ground_truth.parts import Part
from toolorchestra.toolscale.symbolic import Value

Number = int | Fraction | Value
Draw = Callable[[random.Random, int], "Sketch"]


class Family(msgspec.Struct, frozen=True):
    """A kind of problem.

    Attributes:
        name: Its name.
        topic: Number theory, counting, probability, algebra, sequences or geometry.
        levels: Levels that it can be drawn at.
        draw: Draws one.
    """

    name: str
    topic: str
    levels: tuple[int, ...]
    draw: Draw


FAMILIES: dict[str, Family] = {}
"""All families by name."""


def family(topic: str, *levels: int) -> Callable[[Draw], Draw]:
    """Register a function that draws problems of some levels."""

    def register(draw: Draw) -> Draw:
        FAMILIES[draw.__name__] = Family(draw.__name__, topic, levels, draw)
        return draw

    return register


class _Step(msgspec.Struct, frozen=True):
    question: str
    answer: Number | str
    needs: tuple[int, ...]
    by: str
    wrong: tuple[Number, ...]


class Sketch:
    """A problem in the making.

    Args:
        statement: What is asked.
        given: The numbers in it.
    """

    def __init__(self, statement: str, **given: Any) -> None:
        self.statement = statement
        self.given = given
        self._steps: list[_Step] = []

    def step(self, question: str, answer: Number | str, *needs: int, by: str = "", wrong: Sequence[Number] = ()) -> int:
        """Add a step and return its position.

        Args:
            question: What it asks.
            answer: Its answer.
            needs: Positions of the steps whose answers it uses; the one before, if none is given.
            by: An expression for a calculator that gives the answer.
            wrong: Mistakes that are likely; some near misses come after them.
        """
        position = len(self._steps)
        used = tuple(sorted(needs)) or ((position - 1,) if position else ())
        self._steps.append(_Step(question, answer, used, by, tuple(wrong)))
        return position

    def first(self, question: str, answer: Number | str, *, by: str = "", wrong: Sequence[Number] = ()) -> int:
        """Add a step that uses none before it, and return its position."""
        self._steps.append(_Step(question, answer, (), by, tuple(wrong)))
        return len(self._steps) - 1

    @property
    def sums(self) -> list[str]:
        """For each step what a calculator gives for it, or nothing."""
        return [step.by for step in self._steps]

    def parts(self, difficulty: float = 0.0) -> list[Part]:
        """Return the steps, each of a difficulty; the last one's answer is the problem's."""
        found = []
        for step in self._steps:
            shown = _shown(step.answer)
            mistakes = dict.fromkeys(_shown(number) for number in (*step.wrong, *_near(step.answer)))
            wrong = tuple(mistake for mistake in mistakes if mistake != shown)[:4]
            found.append(Part(step.question, shown, wrong, step.needs, difficulty))
        return found


def _shown(answer: Number | str) -> str:
    return str(answer) if isinstance(answer, str | int) else str(Value.of(answer))


def _near(answer: Number | str) -> list[Number]:
    """Return what an answer may be mistaken for by a slip."""
    if isinstance(answer, str):
        return []
    if isinstance(answer, int):
        return [answer + 1, answer - 1, 2 * answer]
    if isinstance(answer, Fraction):
        return [answer + Fraction(1, answer.denominator), 1 - answer, answer * 2, answer / 2]
    return [answer * 2, answer + 1, answer * Fraction(1, 2)]
