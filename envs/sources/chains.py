"""The source `Chains`: values that follow from each other, each to be computed by a program of its own.

A task of difficulty C asks for the last of C values. The first is a sum of two numbers; each later one needs the value
before it, and from the third on an earlier one too; the second is a difference. Programs share nothing, so
whoever computes one value a program must read the values in their outputs, and keep them. All values are from 10 to 99.

The arithmetic is trivial on purpose: what can go wrong is reading and remembering. A model that computes all values in
one program avoids both, which the rules forbid and nothing enforces.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from toolorchestra.envs.ground_truth.parts import SubProblem
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, check_sizes, make_question
from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.toolscale.answers.answers import answers
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tasks.verify import Failure, Verdict

NAME = "chains"
RULES = r"""Values are defined one after the other. Compute each by a program of its own, which prints its name and
value (`print('a', 40 + 2)`), and use it in the next ones. Give the last value as \boxed{…}."""
NAMES = ("a", "b", "c", "d")
"""Names of the values."""
LEVELS = tuple(range(1, len(NAMES) + 1))
_EXPRESSION = re.compile(r"\w\s*[-+]\s*\d")
_VALUES = range(10, 100)
_SIGNS = "+-++"


class Formula(NamedTuple):
    """How a value follows: its name, two operands (a number, or the name of an earlier value), and ``+`` or ``-``."""

    name: str
    left: str
    sign: str
    right: str

    def __str__(self) -> str:
        return f"{self.name} = {self.left} {self.sign} {self.right}"

    def program(self, values: Mapping[str, str]) -> str | None:
        """Return a program that prints the value, given the earlier ones; None if one that it needs is not there.

        >>> Formula("b", "a", "-", "7").program({"a": "42"})
        "print('b', 42 - 7)"
        """
        left, right = (values.get(part) if part in NAMES else part for part in (self.left, self.right))
        return None if left is None or right is None else f"print('{self.name}', {left} {self.sign} {right})"


class ChainWorld(QuestionWorld):
    """The world of chains: an answer is a value, and no expression of it, which could be copied from the question."""

    def verify(self, task: Task, session: object, answer: str) -> Verdict:
        """Judge an episode by its final answer alone."""
        if any(map(_EXPRESSION.search, answers(answer))):
            return Verdict((Failure("answer", "the final answer should be a value, not an expression"),))
        return super().verify(task, session, answer)


class ChainSource(QuestionSource):
    """Chains of one to four values.

    Args:
        seed: All follows from it and the sizes.
        train: Number of training tasks.
        test: Number of test tasks, none of which is a training task.
    """

    def __init__(self, seed: int = 0, train: int = 1600, test: int = 480) -> None:
        sizes = {"train": train, "test": test}
        check_sizes("tasks", sizes)
        seen: set[str] = set()
        tasks = [task for split, count in sizes.items() for task in _make(split, count, seed, seen)]
        super().__init__("Chains", ChainWorld(NAME, RULES, (Calculator(),)), tasks)


def formulas(task: Task) -> list[Formula]:
    """Return the formulas of a task, in their order."""
    return [Formula(*parts) for parts in task.bindings["formulas"]]


def _make(split: str, count: int, seed: int, seen: set[str]) -> list[Task]:
    """Return as many tasks of each level as of any other, none of which was `seen` before."""
    draw = random.Random(f"chains:{seed}:{split}")
    found: list[Task] = []
    while len(found) < count:
        level = LEVELS[len(found) % len(LEVELS)]
        chain, values = _draw(draw, level)
        question = f"{', '.join(map(str, chain))}. What is {chain[-1].name}?"
        if question in seen:
            continue
        seen.add(question)
        answer = str(values[-1])
        task = make_question(
            id=f"{NAME}/chain_{level}/{split}-{len(found)}",
            domain=NAME,
            intent=f"chain_{level}",
            split=split,
            difficulty=level,
            question=question,
            answers=[answer],
            parts=_parts(chain, values),
            formulas=[list(formula) for formula in chain],
        )
        found.append(task)
    return found


def _draw(draw: random.Random, level: int) -> tuple[list[Formula], list[int]]:
    """Return formulas and their values."""
    while True:
        chain: list[Formula] = []
        values: list[int] = []
        for n in range(level):
            left = NAMES[n - 1] if n else str(draw.choice(_VALUES))
            right = NAMES[draw.randrange(n - 1)] if n > 1 else str(draw.choice(_VALUES))
            known = dict(zip(NAMES, values, strict=False))
            one, other = (known[part] if part in known else int(part) for part in (left, right))
            sign = _SIGNS[n]
            value = one + other if sign == "+" else one - other
            if value not in _VALUES:
                break
            chain.append(Formula(NAMES[n], left, sign, right))
            values.append(value)
        if len(set(values)) == level:
            return chain, values


def _parts(chain: Sequence[Formula], values: Sequence[int]) -> list[SubProblem]:
    """Return the steps of a task, of which each needs those before it that its formula names."""
    known = dict(zip(NAMES, values, strict=False))
    found = []
    for formula, value in zip(chain, values, strict=True):
        left, right = (str(known.get(part, part)) for part in (formula.left, formula.right))
        needs = tuple(sorted({NAMES.index(part) for part in (formula.left, formula.right) if part in NAMES}))
        wrong = (str(value + 1), str(value - 1), str(value + 10))
        found.append(SubProblem(f"What is {left} {formula.sign} {right}?", str(value), wrong, needs, 0.0))
    return found
