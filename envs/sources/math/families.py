r"""Families of mathematical problems, which are data, and sketches of the problems that are drawn from them.

``families.yaml`` has for each family what is drawn, the wordings, and the steps that solve a problem; its head says how
they are written. What is drawn determines the answer, so that a problem can be solved again, in another way.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from toolorchestra.envs.ground_truth.parts import SubProblem
from toolorchestra.envs.sources.math.formulas import Formula, formula
from toolorchestra.toolscale.common.yaml_reader import read_yaml

Draw = Callable[[random.Random, Mapping[str, Any]], Any]
_NAME = re.compile(r"\{(\w+)")
_MISTAKES = 4  # of a step, at most


class Solved(NamedTuple):
    """A step of a problem: its question, answer, the steps it needs, its input for a calculator, likely mistakes."""

    question: str
    answer: Any
    needs: tuple[int, ...]
    by: str
    wrong: tuple[Any, ...]


class WrittenStep:
    """A step as it is written: see ``families.yaml``."""

    def __init__(self, name: str, *, ask: str = "", by: str = "", value: str = "", terms: str = "", wrong: Any = ()):
        self.name, self.by, self.ask = name, by, ask or f"What is {by}?"
        self._terms = formula(terms) if terms else None
        self._value = formula(value or by) if value or by else None
        self._wrong = [formula(text) for text in wrong]
        self._uses = dict.fromkeys(_NAME.findall(" ".join((self.ask, by, value, terms))))

    def solve(self, names: dict[str, Any], at: dict[str, int], found: list[Solved]) -> None:
        """Append the step to those found, and add its answer to the names and its position to those of steps."""
        by = self._terms(names) if self._terms else self.by.format_map(names)
        answer = self._value(names) if self._value else formula(by)(names)
        needs = tuple(sorted({at[name] for name in self._uses if name in at}))
        names[self.name] = answer
        wrong = tuple(mistake(names) for mistake in self._wrong)
        found.append(Solved(self.ask.format_map(names), answer, needs, by, wrong))
        at[self.name] = len(found) - 1


class Sketch:
    """A problem in the making.

    Attributes:
        statement: What is asked.
        given: The numbers in it.
    """

    def __init__(self, statement: str, given: Mapping[str, Any], solve: Callable[[], list[Solved]]) -> None:
        self.statement, self.given, self._solve = statement, dict(given), solve

    @functools.cached_property
    def steps(self) -> list[Solved]:
        """The steps that solve it; the last one's answer is the problem's."""
        return self._solve()

    @property
    def expressions(self) -> list[str]:
        """For each step its expression for a calculator, or nothing."""
        return [step.by for step in self.steps]

    def parts(self, difficulty: float = 0.0) -> list[SubProblem]:
        """Return the steps, each of a difficulty."""
        found = []
        for step in self.steps:
            shown = _shown(step.answer)
            mistakes = dict.fromkeys(map(_shown, (*step.wrong, *_near(step.answer))))
            wrong = tuple(mistake for mistake in mistakes if mistake != shown)[:_MISTAKES]
            found.append(SubProblem(step.question, shown, wrong, step.needs, difficulty))
        return found


class WrittenProblem:
    """What is drawn, and the steps that follow from it, at one level."""

    def __init__(self, draw: Mapping[str, Any], steps: Mapping[str, Any], where: Iterable[str] = ()) -> None:
        conditions = {text: formula(text) for text in where}
        self._draws: list[tuple[str, Draw, list[Formula]]] = []
        known = set[str]()
        for name, written in draw.items():
            known.add(name)
            ready = [text for text in conditions if known.issuperset(_NAME.findall(text))]
            self._draws.append((name, _draw(written), [conditions.pop(text) for text in ready]))
        assert not conditions, f"{[*conditions]} have names that are not drawn"
        self.steps = [WrittenStep(name, **written) for name, written in steps.items() if written]

    def draw(self, rng: random.Random) -> dict[str, Any]:
        """Return what is given, drawn until all conditions hold."""
        while True:
            names: dict[str, Any] = {}
            for name, draw, conditions in self._draws:
                names[name] = draw(rng, names)
                if not all(holds(names) for holds in conditions):
                    break
            else:
                return names


class Family:
    """A kind of problem.

    Attributes:
        name: Its name.
        topic: Number theory, counting, probability, algebra, sequences or geometry.
        levels: Levels that it can be drawn at.
        held_out: Whether it is never trained on.
    """

    def __init__(self, name: str, topic: str, levels: Sequence[int], held_out: bool = False, **data: Any) -> None:
        self.name, self.topic, self.levels, self.held_out = name, topic, tuple(levels), held_out
        self._wordings, self._problems = {}, {}
        for level in self.levels:
            problem = _at(level, data)
            wordings = problem.pop("statement")
            self._wordings[level] = [wordings] if isinstance(wordings, str) else wordings
            self._problems[level] = WrittenProblem(**problem)

    def draw(self, rng: random.Random, level: int) -> Sketch:
        """Return a problem of a level."""
        problem, wordings = self._problems[level], self._wordings[level]
        names = problem.draw(rng)
        wording = wordings[0] if len(wordings) == 1 else rng.choice(wordings)

        def solve() -> list[Solved]:
            found: list[Solved] = []
            known, at = dict(names), dict[str, int]()
            for step in problem.steps:
                step.solve(known, at, found)
            return found

        given = {name: value if type(value) in (int, str) else str(value) for name, value in names.items()}
        return Sketch(wording.format_map(names), given, solve)

    def steps(self, level: int) -> list[WrittenStep]:
        """Return its steps at a level, as they are written."""
        return self._problems[level].steps

    @property
    def wordings(self) -> set[str]:
        """All wordings, with names in braces."""
        return {wording for wordings in self._wordings.values() for wording in wordings}


def read_families(file: Path) -> dict[str, Family]:
    """Return the families that a file lists, by name."""
    return {name: Family(name, **data) for name, data in read_yaml(file).items()}


def _at(level: int, data: Any) -> Any:
    """Return data at a level: for what differs by level, that of the highest level up to it, or else nothing.

    The name ``level`` is filled in.
    """
    if isinstance(data, str):
        return data.replace("{level}", str(level))
    if not isinstance(data, dict):
        return [_at(level, entry) for entry in data] if isinstance(data, list) else data
    if all(isinstance(key, int) for key in data):
        return next((_at(level, data[key]) for key in sorted(data, reverse=True) if key <= level), None)
    return {name: _at(level, value) for name, value in data.items()}


def _draw(written: Any) -> Draw:
    if isinstance(written, list):
        return lambda rng, names: rng.choice(written)
    low, _, high = str(written).partition("..")
    least, most = formula(low), formula(high or low)
    if not high:
        return lambda rng, names: least(names)
    if "{" in written:
        return lambda rng, names: rng.randint(least(names), most(names))
    bounds = least({}), most({})
    return lambda rng, names: rng.randint(*bounds)


def _shown(answer: Any) -> str:
    if type(answer) is Fraction:  # as a `Value` is shown, and faster
        return rf"{'-' * (answer < 0)}\frac{{{abs(answer.numerator)}}}{{{answer.denominator}}}"
    return str(answer)


def _near(answer: Any) -> list[Any]:
    """Return what an answer may be mistaken for."""
    if type(answer) is int:
        return [answer + 1, answer - 1, 2 * answer]
    if type(answer) is str:
        return []
    if type(answer) is Fraction:
        return [answer + Fraction(1, answer.denominator), 1 - answer, answer * 2, answer / 2]
    return [answer * 2, answer + 1, answer * Fraction(1, 2)]


FAMILIES = read_families(Path(__file__).with_name("families.yaml"))
"""All families by name."""
