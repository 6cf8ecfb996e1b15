"""The systems that the study on MASBench compares: scripted orchestrators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from toolorchestra.agents.builtin.design_renderer import WARNING
from toolorchestra.envs.ground_truth.parts import Part, parts_of
from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.orchestrators import ChainPolicy, Orchestrator, SinglePolicy

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

    def _ends(self, parts: Sequence[Part], targets: Sequence[int]) -> list[int]:
        """Return the sub-tasks whose results an agent hands on."""
        return list(range(len(parts)))


class BranchesPolicy(MirrorPolicy):
    """An agent for every branch of the work, a chain of sub-tasks.

    A branch ends where its result is a target, or meets others in a sub-task of several operands. A problem without
    branches is solved by one agent.
    """

    def _ends(self, parts: Sequence[Part], targets: Sequence[int]) -> list[int]:
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


def _read(parts: Sequence[Part], end: int, ends: Sequence[int]) -> list[int]:
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


def _results(parts: Sequence[Part], known: Sequence[int]) -> str:
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
