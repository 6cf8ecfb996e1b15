r"""Sketches of mathematical problems: a statement, what is given in it, and the steps that solve it.

``families.yaml`` lists the families of problems with their topics, levels and wordings. A function of a family's name,
registered by `family`, fills in a sketch for a level. What is given determines the answer, so that the problem can be
solved again, in another way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from toolorchestra.envs.ground_truth.parts import Part
from toolorchestra.toolscale.answers.symbolic import Value
from toolorchestra.toolscale.common.yaml_reader import read_yaml

Number = int | Fraction | Value
Fill = Callable[["Sketch", random.Random, int], None]


class Family(msgspec.Struct, frozen=True):
    """A kind of problem.

    Attributes:
        name: Its name.
        fill: Fills in its sketches.
        topic: Number theory, counting, probability, algebra, sequences or geometry.
        levels: Levels that it can be drawn at.
        statement: Its wordings, one of which is drawn.
        variants: Wordings of its other kinds, by kind.
        held_out: Whether it is never trained on.
    """

    name: str
    fill: Fill
    topic: str
    levels: Sequence[int]
    statement: str | Sequence[str]
    variants: Mapping[str, str] = MappingProxyType({})
    held_out: bool = False

    def draw(self, rng: random.Random, level: int) -> Sketch:
        """Return a problem of a level."""
        sketch = Sketch(self, rng)
        self.fill(sketch, rng, level)
        return sketch


FAMILIES: dict[str, Family] = {}
"""All families by name."""
_LISTED = read_yaml(Path(__file__).with_name("families.yaml"))


def family(fill: Fill) -> Fill:
    """Register the function that fills in the sketches of the family of its name."""
    FAMILIES[fill.__name__] = Family(fill.__name__, fill, **_LISTED[fill.__name__])
    return fill


class _Step(msgspec.Struct, frozen=True):
    question: str
    answer: Number | str
    needs: tuple[int, ...]
    by: str
    wrong: tuple[Number, ...]


class Sketch:
    """A problem in the making.

    Attributes:
        statement: What is asked.
        given: The numbers in it.
    """

    def __init__(self, family: Family, rng: random.Random) -> None:
        self._family, self._rng = family, rng
        self.statement = ""
        self.given: dict[str, Any] = {}
        self._steps: list[_Step] = []

    def ask(self, words: Mapping[str, object] = MappingProxyType({}), *, variant: str = "", **given: Any) -> None:
        """Word the statement of the family, or of a variant, with what is given and further words."""
        wordings = self._family.variants[variant] if variant else self._family.statement
        wording = wordings if isinstance(wordings, str) else self._rng.choice(wordings)
        self.statement, self.given = wording.format(**given, **words), given

    def step(self, question: str, answer: Number | str, *needs: int, by: str = "", wrong: Sequence[Number] = ()) -> int:
        """Add a step and return its position.

        It uses the answers of the steps at the positions `needs`, or of the one before if none is given. The expression
        `by` gives the answer on a calculator; some near misses are added to the likely mistakes in `wrong`.
        """
        position = len(self._steps)
        used = tuple(sorted(needs)) or ((position - 1,) if position else ())
        self._steps.append(_Step(question, answer, used, by, tuple(wrong)))
        return position

    def first(self, question: str, answer: Number | str, *, by: str = "", wrong: Sequence[Number] = ()) -> int:
        """Add a step that uses none before it, and return its position."""
        self._steps.append(_Step(question, answer, (), by, tuple(wrong)))
        return len(self._steps) - 1

    def calculate(self, by: str, answer: Number, *needs: int, wrong: Sequence[Number] = ()) -> int:
        """Add the step that asks for the value of an expression, and return its position."""
        return self.step(f"What is {by}?", answer, *needs, by=by, wrong=wrong)

    @property
    def expressions(self) -> list[str]:
        """For each step its expression for a calculator, or nothing."""
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
    """Return what an answer may be mistaken for."""
    if isinstance(answer, str):
        return []
    if isinstance(answer, int):
        return [answer + 1, answer - 1, 2 * answer]
    if isinstance(answer, Fraction):
        return [answer + Fraction(1, answer.denominator), 1 - answer, answer * 2, answer / 2]
    return [answer * 2, answer + 1, answer * Fraction(1, 2)]
