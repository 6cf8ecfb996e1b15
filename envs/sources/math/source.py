r"""The source `Math`: competition-style problems with exact answers at graded difficulty.

Problems are drawn from families (`toolorchestra.envs.sources.math.numbers` and its neighbours); each carries the steps
that solve it. The splits share no instance of a family, and ``test_intents`` has families of its own. A final answer
is right in whatever form it is equal (`toolorchestra.toolscale.answers`).
"""

from __future__ import annotations

import random
import zlib

from toolorchestra.envs.sources.math import (
    algebra,
    counting as math_counting,
    geometry as math_geometry,
    numbers as math_numbers,
)
from toolorchestra.envs.sources.math.sketch import FAMILIES, Family, Sketch
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, make_question
from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Call, Task

NAME = "math"
RULES = """\
Competition problems in mathematics. Each has one exact answer: an integer, a fraction, a radical or an expression. \
Give your final answer as \\boxed{…}; do not round."""
HELD_OUT = (
    "base_sum",
    "circumradius",
    "divisible_pair",
    "fixed_points",
    "handshakes",
    "hexagon_rest",
    "lattice_detour",
    "reciprocal_powers",
    "repeated_ones",
    "telescoping_sum",
)
"""Families never trained on, of all topics."""
_MODULES = (math_numbers, math_counting, algebra, math_geometry)  # importing them registers their families
_ATTEMPTS = 40


def _difficulty(level: int) -> float:
    """Return the difficulty of a step, in logits, of a problem of a level."""
    return 0.6 * (level - 1)


class MathSource(QuestionSource):
    """Problems of all families and levels.

    Args:
        seed: All follows from it and the sizes.
        train: Number of training problems.
        test: Number of test problems, of the same families.
        test_intents: Number of test problems of the families in `HELD_OUT`.
    """

    def __init__(self, seed: int = 0, train: int = 3000, test: int = 500, test_intents: int = 250) -> None:
        sizes = {"train": train, "test": test, "test_intents": test_intents}
        if min(sizes.values()) < 0:
            raise OptionError(f"Expected numbers of problems of at least 0, got {sizes}.")
        problems: list[Task] = []
        for split, count in sizes.items():
            problems += make_problems(split, count, seed)
        super().__init__("Math", QuestionWorld(NAME, RULES, (Calculator(),)), problems)


def make_problems(split: str, count: int, seed: int = 0) -> list[Task]:
    """Return problems of a split: as many of each level as of any other, and of the families in turn."""
    rng = random.Random(f"math:{seed}:{split}")
    held_out = split == "test_intents"
    kinds = {
        level: [known for known in FAMILIES.values() if level in known.levels and (known.name in HELD_OUT) is held_out]
        for level in range(1, 6)
    }
    tasks: list[Task] = []
    seen: set[str] = set()
    for number in range(count):
        level = number % 5 + 1
        turn = number // 5
        for attempt in range(_ATTEMPTS):
            kind = kinds[level][(turn + attempt) % len(kinds[level])]
            sketch = kind.draw(rng, level)
            instance = f"{kind.name}:{sorted(sketch.given.items())}"
            if instance in seen or (not held_out and _split(instance) != split):
                continue
            seen.add(instance)
            tasks.append(_task(sketch, kind, level, split, len(tasks)))
            break
    return tasks


def _split(instance: str) -> str:
    return "test" if zlib.crc32(instance.encode()) % 5 == 0 else "train"


def _task(sketch: Sketch, kind: Family, level: int, split: str, number: int) -> Task:
    parts = sketch.parts(_difficulty(level))
    sums, stages = sketch.sums, list[int]()
    for part in parts:
        stages.append(1 + max((stages[needed] for needed in part.needs), default=-1))
    order = sorted(range(len(parts)), key=lambda position: stages[position])
    reference_calls = [
        Call("calculator", {"expression": sums[position]}, stages[position]) for position in order if sums[position]
    ]
    return make_question(
        id=f"{NAME}/{kind.name}/{split}-{number:05d}",
        domain=NAME,
        intent=kind.name,
        split=split,
        difficulty=level,
        question=sketch.statement,
        answers=[parts[-1].answer],
        parts=parts,
        reference_calls=reference_calls,
        subject="math",
        topic=kind.topic,
        given=sketch.given,
    )
