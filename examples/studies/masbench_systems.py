"""What the study on MASBench compares: its systems, which are scripted orchestrators, and its conditions.

The base condition has the settings of the environments. Beside it there are harder and easier steps (Observation 2),
orchestrators that reason or follow instructions (Observation 4), sub-agents of more effort under a limit of tokens
(Observation 5), and searches side by side (Observation 8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import ClassVar

import msgspec

from toolorchestra.agents.builtin.design_renderer import WARNING
from toolorchestra.agents.experts.specification import ExpertSpec, Tokens, logit
from toolorchestra.envs.ground_truth.parts import SubProblem, parts_of
from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.orchestrators import ChainPolicy, Orchestrator, SinglePolicy
from toolorchestra.envs.sources.masbench.sets import COUNTS

MODELS = {"weak": "qwen2.5-7b", "strong": "gpt-oss-120b"}
"""The paper's sub-agents (§4.4), by their names in the catalogue."""
STRUCTURES = ("depth", "horizon", "breadth", "parallel")
"""The axes of Figure 2."""
WARNED = "mirror, warned"
INSTRUCT = "instruct"
"""The orchestrator that follows instructions, as §4.5 describes it: parse, solve, verify, by three agents."""
REASONING = "reasoning"
"""The one that reasons: it solves the problem for itself first, and leaves it to a single agent (Table D.1)."""


class MirrorPolicy(Orchestrator):
    """An agent for every sub-task, which reads the results that it needs: the design mirrors the problem.

    It reads the task's graph instead of its text. With `warned`, all agents are warned of notes.
    """

    privileged: ClassVar[bool] = True

    def __init__(self, seed: int = 0, *, warned: bool = False) -> None:
        super().__init__(seed)
        self._warning = f"\n{WARNING}" if warned else ""

    def design(self) -> Design:
        """Return the agents, and one that reports if the problem has several targets."""
        assert self._task is not None, "reset() comes first"
        parts = parts_of(self._task)
        targets = [target % len(parts) for target in self._task.bindings.get("targets", (-1,))]
        ends = self._ends(parts, targets)
        agents = [_agent("SOLVE", self._warning.strip())]
        if len(ends) > 1:
            inputs = {end: parts[end].question + _results(parts, _read(parts, end, ends)) for end in ends}
            agents = [_agent(f"STEP_{end}", text + self._warning) for end, text in inputs.items()]
            if len(targets) > 1:
                agents.append(_agent("REPORT", f"Report these results in this order:{_results(parts, targets)}"))
        edges = tuple((start, agent.id) for agent in agents for start in agent.references)
        return Design(dom="high", thinking="The problem's graph.", agents=tuple(agents), edges=edges)

    def _ends(self, parts: Sequence[SubProblem], targets: Sequence[int]) -> list[int]:
        """Return the sub-tasks whose results an agent hands on."""
        return list(range(len(parts)))


class BranchesPolicy(MirrorPolicy):
    """An agent for every branch of the work, a chain of sub-tasks.

    A branch ends where its result is a target, or meets others in a sub-task of several operands. A problem without
    branches is solved by one agent.
    """

    def _ends(self, parts: Sequence[SubProblem], targets: Sequence[int]) -> list[int]:
        meeting = (need for part in parts if len(part.needs) > 1 for need in part.needs)
        return sorted({*targets, *meeting})


class SearchesPolicy(Orchestrator):
    """So many search agents side by side on the whole question, and one that answers from what they found.

    This is the design that MAS-Orchestra learns for questions of several hops (Observation 8).
    """

    def __init__(self, seed: int = 0, *, width: int = 1) -> None:
        super().__init__(seed)
        self._width = width

    def design(self) -> Design:
        """Return the search agents, and one that collects if there are several."""
        ids = [f"SEARCH_{number}" for number in range(1, self._width + 1)]
        agents = [Agent(one, "SearchAgent", "", "Searches.") for one in ids]
        if len(ids) > 1:
            found = "\n".join(["These were found:", *(f"${{{one}}}" for one in ids)])
            agents.append(Agent("ANSWER", "SearchAgent", found, "Weighs what was found, and answers."))
        edges = tuple((start, agent.id) for agent in agents for start in agent.references)
        return Design(dom="high", thinking="Several look; one decides.", agents=tuple(agents), edges=edges)


class WarnedPolicy(Orchestrator):
    """One agent that is warned of notes."""

    def design(self) -> Design:
        """Return the agent."""
        return Design(dom="high", thinking="Mind the notes.", agents=(_agent("SOLVE", WARNING),))


def _agent(agent_id: str, text: str) -> Agent:
    return Agent(agent_id, "CoTAgent", text, "Works it out.")


def _read(parts: Sequence[SubProblem], end: int, ends: Sequence[int]) -> list[int]:
    """Return the ends of other branches that a branch continues."""
    found: set[int] = set()
    waiting = list(parts[end].needs)
    while waiting:
        need = waiting.pop()
        if need in ends:
            found.add(need)
        else:
            waiting += parts[need].needs
    return sorted(found)


def _results(parts: Sequence[SubProblem], known: Sequence[int]) -> str:
    return "".join(f"\n{parts[number].question} ${{STEP_{number}}}" for number in known)


SYSTEMS: Mapping[str, Callable[[], Orchestrator]] = {
    "single": SinglePolicy,
    "mirror": MirrorPolicy,
    "branches": BranchesPolicy,
    INSTRUCT: ChainPolicy,
    REASONING: SinglePolicy,
    "single, warned": WarnedPolicy,
    WARNED: lambda: MirrorPolicy(warned=True),
}
"""The systems compared: the single agent, the multi-agent system, and others that the page describes."""
HALF = "mirror, half deceived"
"""The unwarned system over a model that notes deceive half as often: a warning that mostly fails."""
PLAYED: Mapping[str, Sequence[str]] = dict.fromkeys(STRUCTURES, ("single", "mirror", "branches")) | {
    "robustness": ("single", "mirror", "single, warned", WARNED, HALF)
}
"""The systems that are played on each axis."""

# ------------------------------------------------------------------------------------------------------ conditions

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
