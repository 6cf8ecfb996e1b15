r"""The source `Math`: competition-style problems with exact answers at graded difficulty.

Problems are drawn from families (`toolorchestra.envs.sources.math.families`); each carries the steps that solve it. The
splits share no instance of a family, and ``test_intents`` has families of its own. Half of the problems of levels 4 and
5 in ``train`` and ``test`` are composed (`toolorchestra.envs.sources.math.composed`). A final answer is right in
whatever form it is equal (`toolorchestra.toolscale.answers.answers`).
"""

from __future__ import annotations

import itertools
import random
import zlib

from toolorchestra.envs.ground_truth.parts import stages_of
from toolorchestra.envs.sources.math import composed
from toolorchestra.envs.sources.math.families import FAMILIES, Sketch
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, check_sizes, make_question
from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.toolscale.tasks.task import Call, Task

NAME = "math"
RULES = """\
Competition problems in mathematics. Each has one exact answer: an integer, a fraction, a radical or an expression. \
Give your final answer as \\boxed{…}; do not round."""
_ATTEMPTS = 1_000
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
    """Return problems of a split: as many of each level as of any other, and of the families in turn.

    Every other one of the levels that have composed problems is one of these.
    """
    rng = random.Random(f"math:{seed}:{split}")
    held_out = split not in composed.SPLITS
    families = [family for family in FAMILIES.values() if family.held_out is held_out]
    in_turn = {level: itertools.cycle([f for f in families if level in f.levels]) for level in range(1, 6)}
    tasks: list[Task] = []
    seen: set[str] = set()
    for number in range(count):
        turn, level = number // 5, number % 5 + 1
        mixed = level in composed.LEVELS and turn % 2 == 1 and not held_out
        for _ in range(_ATTEMPTS):
            family = None if mixed else next(in_turn[level])
            sketch = family.draw(rng, level) if family else composed.compose(split, level, rng)
            name, topic = (family.name, family.topic) if family else ("composed", "number theory")
            instance = f"{name}:{sketch.given}"
            if instance in seen or (family and not held_out and _split(instance) != split):
                continue
            seen.add(instance)
            tasks.append(_task(sketch, name, topic, level, split, len(tasks)))
            break
    return tasks


def _split(instance: str) -> str:
    return "test" if zlib.crc32(instance.encode()) % 5 == 0 else "train"


def _task(sketch: Sketch, name: str, topic: str, level: int, split: str, number: int) -> Task:
    parts = sketch.parts(_LOGITS_PER_LEVEL * (level - 1))
    steps = sorted(zip(stages_of(parts), sketch.expressions, strict=True), key=lambda step: step[0])
    return make_question(
        id=f"{NAME}/{name}/{split}-{number:05d}",
        domain=NAME,
        intent=name,
        split=split,
        difficulty=level,
        question=sketch.statement,
        answers=[parts[-1].answer],
        parts=parts,
        reference_calls=[Call("calculator", {"expression": by}, stage) for stage, by in steps if by],
        subject="math",
        topic=topic,
        given=sketch.given,
    )
