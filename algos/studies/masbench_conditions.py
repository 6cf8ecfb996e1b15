"""What the study on MASBench varies beside axis, value, model and system: its conditions.

The base has the settings of the environments. Beside it there are harder and easier steps (Observation 2),
orchestrators that reason or follow instructions (Observation 4), sub-agents of more effort under a limit of tokens
(Observation 5), and searches side by side (Observation 8).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import msgspec

from toolorchestra.agents.experts.specification import ExpertSpec, Tokens, logit
from toolorchestra.algos.studies.masbench_systems import INSTRUCT, MODELS, PLAYED, REASONING, STRUCTURES, WARNED
from toolorchestra.envs.sources.masbench.sets import COUNTS

REPLY_TOKENS = 512
"""The paper's usual limit of a sub-agent's reply (Observation 5)."""
TOKENS = {"low": 24.0, "medium": 72.0, "high": 216.0}
"""Tokens that a sub-agent writes for each step at an effort: estimates; the paper gives none."""
GAIN = {"low": 0.0, "medium": 0.5, "high": 1.0}
"""Logits by which an effort makes steps easier: estimates."""
WIDTHS = (1, 2, 3, 4)
"""Searches side by side; the paper's orchestrator comes to 3 or 4 (Observation 8)."""
SEARCHES = "searches"
"""The axis of those, whose questions are of several hops."""
QUESTIONS_OF_HOPS = 300
"""Of these there are no more in the test split."""


class StudyCondition(msgspec.Struct, frozen=True):
    """A condition; the one without a name is the base.

    Attributes:
        name: Its name.
        difficulty: Logits that are added to every step.
        effort: How much a simulated strong sub-agent thinks, a key of `TOKENS`; as the catalogue says if None.
        reply_tokens: Maximum tokens of a sub-agent's reply.
    """

    name: str = ""
    difficulty: float = 0.0
    effort: str | None = None
    reply_tokens: int | None = None

    def changed(self, spec: ExpertSpec) -> ExpertSpec:
        """Return the specification of a sub-agent under the condition."""
        if self.effort is None:
            return spec
        skills = {subject: _more(skill, GAIN[self.effort]) for subject, skill in spec.skills.items()}
        return msgspec.structs.replace(spec, skills=skills, tokens=Tokens(per_step=TOKENS[self.effort]))


BASE = StudyCondition()
DIFFICULTIES = tuple(StudyCondition(f"difficulty {number:+g}", difficulty=number) for number in (-1.0, -0.5, 1.0, 2.0))
"""Easier and harder steps than the environments have."""
EFFORTS = (
    *(StudyCondition(f"{effort} effort, {REPLY_TOKENS} tokens", 0.0, effort, REPLY_TOKENS) for effort in TOKENS),
    StudyCondition("high effort, no limit", 0.0, "high"),
)
"""Efforts under the paper's limit, and the highest without one (Fig. 6 and 7)."""


class Played(msgspec.Struct, frozen=True):
    """What is played as one: the problems of a value of an axis, by a system over a model, under a condition."""

    axis: str
    value: int
    model: str
    system: str
    condition: StudyCondition = BASE

    def problems(self, questions: int) -> int:
        """Return how many problems are played: with notes, whose effects are large, and beside the base, a quarter."""
        if self.axis == SEARCHES:
            return min(questions, QUESTIONS_OF_HOPS)
        return questions if not self.condition.name and self.axis != "robustness" else -(-questions // 4)


def everything(*, simulated: bool = True) -> Iterator[Played]:
    """Yield all that the study plays; what only a simulated model can be made to do is left out for real ones."""
    for axis, systems in PLAYED.items():
        for value, model, system in product(COUNTS[axis]["test"], MODELS, systems):
            yield Played(axis, value, model, system)
    for axis in STRUCTURES:
        yield from _strong(axis, (INSTRUCT, REASONING))
    for width in WIDTHS:
        yield Played(SEARCHES, width, "strong", SEARCHES)
    if not simulated:
        return
    for condition, axis in product(DIFFICULTIES, STRUCTURES):
        for value, model, system in product(COUNTS[axis]["test"], MODELS, ("single", "mirror")):
            yield Played(axis, value, model, system, condition)
    for condition, axis in product(EFFORTS, PLAYED):
        systems = ("single", WARNED) if axis == "robustness" else ("single", "mirror", INSTRUCT)
        yield from _strong(axis, systems, condition)


def _strong(axis: str, systems: Sequence[str], condition: StudyCondition = BASE) -> Iterator[Played]:
    for value, system in product(COUNTS[axis]["test"], systems):
        yield Played(axis, value, "strong", system, condition)


def _more(skill: float, logits: float) -> float:
    """Return a share that is so many logits higher."""
    return 1 / (1 + math.exp(-(logit(skill) + logits)))
