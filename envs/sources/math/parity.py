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
from pathlib import Path
from typing import Any

from toolorchestra.envs.sources.math.families import Family, Sketch, Solved, read_families
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


FAMILIES = tuple(read_families(Path(__file__).with_name("parity.yaml")).values())
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
    (step,), word = family.steps(1), WORDS[value % 2]
    expression = step.by.replace("{", "").replace("}", "")  # in the names of the numbers
    sketch.steps.append(Solved(f"Is {value} even or odd?", word, (0,), "", ()))
    return make_question(
        id=f"{NAME}/{family.name}/{split}-{number:05d}",
        domain=NAME,
        intent=family.name,
        split=split,
        difficulty=1,
        question=sketch.statement,
        answers=[word],
        parts=sketch.parts(),
        reference_calls=[Call("evaluate", {"expression": expression})],
        subject="math",
        topic=family.topic,
        given=sketch.given,
    )
