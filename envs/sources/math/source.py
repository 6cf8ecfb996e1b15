r"""The source `Math`: competition-style problems with exact answers at graded difficulty.

Problems are drawn from families (`toolorchestra.envs.sources.math.sketch`); each carries the steps that solve it. The
splits share no instance of a family, and ``test_intents`` has families of its own. Half of the problems of levels 4 and
5 in ``train`` and ``test`` are composed (`toolorchestra.envs.sources.math.composed`). A final answer is right in
whatever form it is equal (`toolorchestra.toolscale.answers.answers`).
"""

from __future__ import annotations

import random
import zlib

from toolorchestra.envs.ground_truth.parts import stages_of
from toolorchestra.envs.sources.math import algebra, composed, counting, geometry, numbers
from toolorchestra.envs.sources.math.sketch import FAMILIES, Family, Sketch
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, check_sizes, make_question
from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.toolscale.tasks.task import Call, Task

NAME = "math"
RULES = """\
Competition problems in mathematics. Each has one exact answer: an integer, a fraction, a radical or an expression. \
Give your final answer as \\boxed{…}; do not round."""
_MODULES = (algebra, counting, geometry, numbers)  # importing them registers their families
_ATTEMPTS = 40
_LOGITS_PER_LEVEL = 0.6  # difficulty of a step, in logits, for each level of its problem above the first


class MathSource(QuestionSource):
    """Problems of all families and levels.

    Args:
        seed: All follows from it and the sizes.
        train: Number of training problems.
        test: Number of test problems, of the same families.
        test_intents: Number of test problems of the families that are held out.
    """

    def __init__(self, seed: int = 0, train: int = 3000, test: int = 500, test_intents: int = 250) -> None:
        sizes = {"train": train, "test": test, "test_intents": test_intents}
        check_sizes("problems", sizes)
        problems = [task for split, count in sizes.items() for task in make_problems(split, count, seed)]
        super().__init__("Math", QuestionWorld(NAME, RULES, (Calculator(),)), problems)


def make_problems(split: str, count: int, seed: int = 0) -> list[Task]:
    """Return problems of a split: as many of each level as of any other, and of the families in turn."""
    rng = random.Random(f"math:{seed}:{split}")
    held_out = split == "test_intents"
    families = [family for family in FAMILIES.values() if family.held_out is held_out]
    by_level = [[family for family in families if level in family.levels] for level in range(1, 6)]
    tasks: list[Task] = []
    seen: set[str] = set()
    for number in range(count):
        turn, level = divmod(number, 5)
        for attempt in range(_ATTEMPTS):
            family = by_level[level][(turn + attempt) % len(by_level[level])]
            sketch = family.draw(rng, level + 1)
            instance = f"{family.name}:{sorted(sketch.given.items())}"
            if instance in seen or (not held_out and _split(instance) != split):
                continue
            seen.add(instance)
            tasks.append(_task(sketch, family, level + 1, split, len(tasks)))
            break
    if held_out:
        return tasks
    return composed.sprinkle(
        tasks, lambda *made: _task(made[0], composed.COMPOSED, made[1], split, made[2]), split, seed
    )


def _split(instance: str) -> str:
    return "test" if zlib.crc32(instance.encode()) % 5 == 0 else "train"


def _task(sketch: Sketch, family: Family, level: int, split: str, number: int) -> Task:
    parts = sketch.parts(_LOGITS_PER_LEVEL * (level - 1))
    steps = sorted(zip(stages_of(parts), sketch.expressions, strict=True), key=lambda step: step[0])
    return make_question(
        id=f"{NAME}/{family.name}/{split}-{number:05d}",
        domain=NAME,
        intent=family.name,
        split=split,
        difficulty=level,
        question=sketch.statement,
        answers=[parts[-1].answer],
        parts=parts,
        reference_calls=[Call("calculator", {"expression": by}, stage) for stage, by in steps if by],
        subject="math",
        topic=family.topic,
        given=sketch.given,
    )
