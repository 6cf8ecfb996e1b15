"""The source `MathParity`: problems that a guess solves half of the time, and a tool as often as it is used rightly.

Each asks whether a number is even or odd that takes a computation to know: the remainder of a power, the tens digit of
a product. Of every family and split half are even and half are odd, so whoever answers in words alone solves half of
them. The tool `evaluate` knows the numbers of the problem by their names, so the skill of its user is to write the
right expression. TMATR's study of schedules (`examples/studies/tmatr.py`) needs tools that are worth their
while in skilled hands only. All problems are of level 1. Not covered: problems whose answer can be reasoned out
(`toolorchestra.envs.sources.math.source`).
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable
from typing import Any

from toolorchestra.envs.sources.math.sketch import Family, Sketch
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, check_sizes, make_question
from toolorchestra.toolscale.answers.symbolic import MAX_DIGITS, UnreadableError
from toolorchestra.toolscale.answers.symbolic_reader import read
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolResult

NAME = "math_parity"
RULES = r"""Problems in mathematics whose answer is a word, even or odd. Give your final answer as \boxed{…}."""
WORDS = ("even", "odd")
"""The answers, by the remainder modulo 2."""
_MODULI = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
"""Odd, so the parity of a remainder says nothing about that of the number."""
_NAME = re.compile(r"(?<![A-Za-z])[a-z](?![A-Za-z])")


class Evaluate(Tool):
    """Says whether the value of an expression in the numbers of the problem is even or odd."""

    uses_episode = True
    effect = "pure"

    def __init__(self, *, price: float = 0.0, latency: float = 0.05) -> None:
        description = (
            "Evaluate an expression in the numbers of the problem, by their names, and tell whether it is even or odd: "
            "+ - * / ^, parentheses, ceil, floor, mod, powmod."
        )
        example = "What to evaluate, e.g. 'mod(a * b, m)'."
        parameters = {"expression": ParameterSpec(type="string", max_length=500, description=example)}
        super().__init__("evaluate", description, parameters, price=price, latency=latency)

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Return ``even`` or ``odd``; it fails on what is no whole number."""
        expression = arguments["expression"]
        given = {} if context.task is None else context.task.bindings["given"]
        try:
            value = read(_NAME.sub(lambda name: str(given.get(name[0], name[0])), expression))
        except UnreadableError as error:
            return ToolResult.failed(f"{expression[:100]!r} cannot be evaluated: {error}")
        whole = None if value.digits > MAX_DIGITS else value.rational
        if whole is None or whole.denominator != 1:
            return ToolResult.failed(f"{expression[:100]!r} is no whole number of at most {MAX_DIGITS:,} digits.")
        return ToolResult.ok(WORDS[whole.numerator % 2])


def _power_parity(sketch: Sketch, draw: random.Random, level: int) -> None:
    a, n, m = draw.randint(3, 99), draw.randint(12, 99), draw.choice(_MODULI)
    sketch.ask(a=a, n=n, m=m)
    sketch.step(f"What is {a}^{n} modulo {m}?", pow(a, n, m), by="powmod(a, n, m)")


def _tens_parity(sketch: Sketch, draw: random.Random, level: int) -> None:
    a, b = draw.randint(12, 99), draw.randint(12, 99)
    sketch.ask(a=a, b=b)
    sketch.step(f"What is {a} * {b} without its last digit?", a * b // 10, by="floor(a * b / 10)")


def _square_parity(sketch: Sketch, draw: random.Random, level: int) -> None:
    a, b, m = draw.randint(12, 99), draw.randint(12, 99), draw.choice(_MODULI)
    sketch.ask(a=a, b=b, m=m)
    sketch.step(f"What is {a}^2 + {b}^2 modulo {m}?", (a * a + b * b) % m, by="mod(a^2 + b^2, m)")


def _quotient_parity(sketch: Sketch, draw: random.Random, level: int) -> None:
    a, b, m = draw.randint(12, 99), draw.randint(12, 99), draw.choice(_MODULI)
    sketch.ask(a=a, b=b, m=m)
    sketch.step(f"What is {a} * {b} / {m}, rounded down?", a * b // m, by="floor(a * b / m)")


def _family(fill: Callable[[Sketch, random.Random, int], None], statement: str) -> Family:
    return Family(fill.__name__.lstrip("_"), fill, "number theory", (1,), f"{statement} even or odd?")


FAMILIES = (
    _family(_power_parity, "With a = {a}, n = {n} and m = {m}, is the remainder of $a^n$ divided by m"),
    _family(_tens_parity, "With a = {a} and b = {b}, is the tens digit of $ab$"),
    _family(_square_parity, "With a = {a}, b = {b} and m = {m}, is the remainder of $a^2 + b^2$ divided by m"),
    _family(_quotient_parity, "With a = {a}, b = {b} and m = {m}, is the quotient $ab/m$, rounded down,"),
)
"""The families, which problems are drawn from in turn; they are not among those of `Math`."""


class ParitySource(QuestionSource):
    """Problems of all families, for training and test, no instance in both.

    Args:
        seed: All follows from it and the sizes.
        train: Number of training problems.
        test: Number of test problems.

    >>> ParitySource(train=8, test=8).tasks("train")[1].instruction
    'With a = 67 and b = 53, is the tens digit of $ab$ even or odd?'
    """

    def __init__(self, seed: int = 0, train: int = 800, test: int = 200) -> None:
        sizes = {"train": train, "test": test}
        check_sizes("problems", sizes)
        problems = [task for split, count in sizes.items() for task in make_problems(split, count, seed)]
        super().__init__("MathParity", QuestionWorld(NAME, RULES, (Evaluate(),)), problems)


def make_problems(split: str, count: int, seed: int = 0) -> list[Task]:
    """Return problems of a split: as many of each family, and of each half as many with either answer."""
    rng = random.Random(f"{NAME}:{seed}:{split}")
    tasks: list[Task] = []
    seen: set[str] = set()
    while len(tasks) < count:
        turn, which = divmod(len(tasks), len(FAMILIES))
        sketch = FAMILIES[which].draw(rng, 1)
        held_out = zlib.crc32(sketch.statement.encode()) % 5 == 0
        value = int(sketch.parts()[0].answer)
        if sketch.statement in seen or held_out is not (split == "test") or value % 2 != (turn + which) % 2:
            continue
        seen.add(sketch.statement)
        tasks.append(_task(sketch, FAMILIES[which], value, split, len(tasks)))
    return tasks


def _task(sketch: Sketch, family: Family, value: int, split: str, number: int) -> Task:
    (expression,) = sketch.expressions
    sketch.step(f"Is {value} even or odd?", WORDS[value % 2])
    return make_question(
        id=f"{NAME}/{family.name}/{split}-{number:05d}",
        domain=NAME,
        intent=family.name,
        split=split,
        difficulty=1,
        question=sketch.statement,
        answers=[WORDS[value % 2]],
        parts=sketch.parts(),
        reference_calls=[Call("evaluate", {"expression": expression})],
        subject="math",
        topic=family.topic,
        given=sketch.given,
    )
