"""Published benchmark accuracies, from which skills are estimated."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from toolorchestra.agents.experts.specification import logit


class Benchmark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A published table of accuracies, from which skills are estimated.

    A benchmark is taken for problems of so many steps of one difficulty, all of which must go right: a rule, not a
    measurement. Its figures only have to bring models into their order and about the right distance.

    Attributes:
        title: What was measured.
        subject: Subject of the skill that it tells of.
        steps: Steps that one of its problems is taken to have.
        difficulty: Their difficulty in logits.
        source: Where the figures are from.
        accuracy: Percent right, by expert.
    """

    title: str
    subject: str
    steps: Annotated[int, Meta(ge=1)]
    difficulty: float
    source: str
    accuracy: dict[str, Annotated[float, Meta(gt=0, lt=100)]]

    def skill(self, expert: str, load: float) -> float:
        """Return the skill with which an expert of this load gets the benchmark's accuracy.

        >>> benchmark = Benchmark(title="", subject="math", steps=2, difficulty=0, source="", accuracy={"ada": 81})
        >>> round(benchmark.skill("ada", load=0.0), 3)
        0.9
        """
        of_step = (self.accuracy[expert] / 100) ** (1 / self.steps)
        return 1 / (1 + math.exp(-(logit(of_step) + self.difficulty + load * math.log2(self.steps))))
