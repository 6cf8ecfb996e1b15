"""Scripted orchestrators: designs by rule, as baselines and as lower and upper bounds.

Those that are `privileged` read the task's hidden graph. For a learned one see
`toolorchestra.agents.policies.chat_policy.ChatPolicy`, for searched ones ``examples/searches``.
"""

from __future__ import annotations

import random
import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import msgspec

from toolorchestra.agents.builtin.design_renderer import ROLES, WARNING
from toolorchestra.agents.policies.base import Info, Policy
from toolorchestra.envs.ground_truth.parts import SubProblem, parts_of
from toolorchestra.envs.masorchestra.design import Agent, Design, to_text
from toolorchestra.envs.masorchestra.rules import DEBATE, DoM, Edge
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tasks.task import Task


class Orchestrator(Policy):
    """Writes a design by rule. Override `design`."""

    _task: Task | None = None
    _dom: DoM = "high"
    _kinds: tuple[str, ...] = ()

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: read the kinds of agent."""
        super().reset(env, observation, info)
        self._kinds = tuple(info["tool_names"])
        self._dom = env.unwrapped.dom  # type: ignore[attr-defined]
        self._task = env.unwrapped.task if self.privileged else None  # type: ignore[attr-defined]

    def act(self, observation: str, info: Info) -> str:
        """Return the design, as text."""
        return to_text(self.design())

    @abstractmethod
    def design(self) -> Design:
        """Return the design for the current question."""

    def _alone(self, thinking: str, kind: str = "CoTAgent", description: str = "Answers.") -> Design:
        """Return the design of one agent, which is given the question itself."""
        return _designed(self._dom, thinking, [_agent("SOLVE", kind, "", description)])

    def _parts(self) -> tuple[tuple[SubProblem, ...], tuple[int, ...]]:
        """Return the parts of the task, and the positions of those that are asked for."""
        assert self._task is not None, "reset() comes first"
        parts = parts_of(self._task)
        targets = self._task.bindings.get("targets", (-1,)) if parts else ()
        return parts, tuple(target % len(parts) for target in targets)


class SinglePolicy(Orchestrator):
    """One agent, of any `kind`, answers the question: the single-agent system."""

    def __init__(self, seed: int = 0, kind: str = "CoTAgent") -> None:
        super().__init__(seed)
        self.kind = kind

    def design(self) -> Design:
        """Return one agent, which is given the question itself."""
        if self.kind not in self._kinds:
            raise UnknownNameError("agent", self.kind, self._kinds)
        return self._alone("One agent is enough.", self.kind, "Answers the question.")


class ChainPolicy(Orchestrator):
    """Parse, solve, verify: one after the other (what MAS-Orchestra learns for depth and breadth, App. E.1)."""

    def design(self) -> Design:
        """Return the chain."""
        why = "The question is read first, then solved, then the result is checked. Each step needs the one before."
        given = "Write down what is given, relation by relation, and what follows."
        agents = [
            _agent("PARSE", "CoTAgent", given, "Reads."),
            _agent("SOLVE", "CoTAgent", "Solve the question from this reading of it: ${PARSE}", "Solves."),
            _agent("VERIFY", "ReflexionAgent", "Check these results and answer: ${PARSE}; ${SOLVE}", "Verifies."),
        ]
        return _designed(self._dom, why, agents)


class RandomDesignPolicy(Orchestrator):
    """A random valid graph of 1 to `max_agents` agents, all of which are asked the whole question."""

    def __init__(self, seed: int = 0, max_agents: int = 6) -> None:
        super().__init__(seed)
        if max_agents < 1:
            raise OptionError(f"Expected at least one agent, got max_agents={max_agents}.")
        self.max_agents = max_agents

    def design(self) -> Design:
        """Return a graph in which every agent leads to the last one."""
        return random_design(self.rng, self._kinds, 1 if self._dom == "low" else self.max_agents, self._dom)


class ComponentsPolicy(Orchestrator):
    """One agent for each thing that is asked for, side by side, and one that collects their answers."""

    privileged: ClassVar[bool] = True
    warning: ClassVar[str] = ""

    def design(self) -> Design:
        """Return the agents, which need nothing of each other."""
        parts, targets = self._parts()
        if not targets or (len(targets) == 1 and not self.warning):
            return self._alone("There is one thing to find.")
        solvers = [
            _agent(f"PART_{number}", "CoTAgent", f"{parts[target].question}{self.warning}", f"Finds answer {number}.")
            for number, target in enumerate(targets, 1)
        ]
        task = "Report the results in the order asked" if len(targets) > 1 else "Compare and report the result"
        results = [(parts[target], solver.id) for target, solver in zip(targets, solvers, strict=True)]
        agents = [*solvers, _collector(f"{task}.{self.warning}", results)]
        return _designed(self._dom, "The parts are independent: one agent each, and one collects.", agents)


class ModeratorPolicy(ComponentsPolicy):
    """As `ComponentsPolicy`, but all are warned of notes, and a moderator collects (MAS-Orchestra App. C)."""

    warning = f" {WARNING}"


class OracleDesignPolicy(Orchestrator):
    """One agent for every step of the task's own graph; who needs results reads them, and all are warned of notes."""

    privileged: ClassVar[bool] = True

    def design(self) -> Design:
        """Return the task's graph as a design."""
        parts, targets = self._parts()
        if not parts or self._dom == "low":
            return self._alone("Its steps are not known.", self._best())
        ids = [f"STEP_{number}" for number in range(1, len(parts) + 1)]
        agents = []
        for number, part in enumerate(parts):
            warning = f"\n{WARNING}" if part.note else ""
            kind = "SearchAgent" if part.support and "SearchAgent" in self._kinds else self._best()
            question = _with_references(part, parts, ids) + warning
            agents.append(_agent(ids[number], kind, question, f"Takes step {number + 1}."))
        if len(targets) > 1:
            results = [(parts[target], ids[target]) for target in targets]
            agents.append(_collector("Report these results in this order:", results))
        return _designed(self._dom, "Each step of the question is an agent; edges are what a step needs.", agents)

    def _best(self) -> str:
        return "SCAgent" if "SCAgent" in self._kinds else self._kinds[0]


def random_design(rng: random.Random, kinds: Sequence[str], max_agents: int, dom: DoM = "high") -> Design:
    """Return a random valid design of 1 to `max_agents` agents of some kinds; the last one answers."""
    count = rng.randint(1, max_agents)
    ids = [f"A{number}" for number in range(1, count + 1)]
    parents: dict[str, list[str]] = {one: [] for one in ids}
    for number, one in enumerate(ids[:-1]):
        readers = ids[number + 1 :]
        for reader in rng.sample(readers, min(len(readers), rng.choice((1, 1, 1, 2)))):
            parents[reader].append(one)
    agents = []
    for one in ids:
        text = "Consider these answers, then answer: " + "; ".join(f"${{{parent}}}" for parent in parents[one])
        agents.append(_agent(one, rng.choice(kinds), text if parents[one] else "", "Thinks about the question."))
    return _designed(dom, "A graph drawn at random.", agents)


def _agent(agent_id: str, kind: str, text: str, description: str) -> Agent:
    return Agent(agent_id, kind, text.strip(), description, ROLES if kind == DEBATE else ())


def _designed(dom: DoM, thinking: str, agents: Sequence[Agent]) -> Design:
    """Return the design of agents, with the edges that their inputs imply; with a low degree the last agent alone."""
    if dom == "low":
        alone = msgspec.structs.replace(agents[-1], input="")
        return Design(dom=dom, thinking=thinking, agents=(alone,), answer=alone.id)
    edges: list[Edge] = [(parent, agent.id) for agent in agents for parent in agent.references]
    return Design(dom=dom, thinking=thinking, agents=tuple(agents), edges=tuple(edges))


def _collector(task: str, results: Sequence[tuple[SubProblem, str]]) -> Agent:
    """Return the agent that reports the answers to parts, each given by the agent of an id."""
    lines = [f"{part.question} ${{{agent_id}}}" for part, agent_id in results]
    return _agent("COLLECT", "CoTAgent", "\n".join([task, *lines]), "Collects and answers.")


def _with_references(part: SubProblem, parts: Sequence[SubProblem], ids: Sequence[str]) -> str:
    """Return the sub-question of a part, with references to the results that it needs in place or after it."""
    text, known = part.question, []
    for need in part.needs:
        value = re.compile(rf"(?<![\w.\\-]){re.escape(parts[need].answer)}(?![\w.])")
        text, count = value.subn(lambda _, need=need: f"${{{ids[need]}}}", text, count=1)  # type: ignore[misc]
        if not count:
            known.append(f"\nKnown: {parts[need].question} ${{{ids[need]}}}")
    return text + "".join(known)


ORCHESTRATORS: dict[str, type[Orchestrator]] = {
    "chain": ChainPolicy,
    "components": ComponentsPolicy,
    "moderator": ModeratorPolicy,
    "oracle": OracleDesignPolicy,
    "random": RandomDesignPolicy,
    "single": SinglePolicy,
}
"""Scripted orchestrators by name."""


def make_orchestrator(name: str, **options: Any) -> Orchestrator:
    """Return a scripted orchestrator by name (one of `ORCHESTRATORS`), made with `options`.

    Raises:
        UnknownNameError: There is no such orchestrator.
        OptionError: It does not take these options.
    """
    if name not in ORCHESTRATORS:
        raise UnknownNameError("orchestrator", name, ORCHESTRATORS)
    try:
        return ORCHESTRATORS[name](**options)
    except TypeError as error:
        raise OptionError(f"The orchestrator {name!r} cannot be made so: {error}.") from None
