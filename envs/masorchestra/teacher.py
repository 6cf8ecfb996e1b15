"""The scripted teacher of MAS-Orchestra: demonstrations of designs, with injected errors.

It writes designs of several kinds, good and bad, regardless of the question, and injects errors such as a missing edge.
A model that is trained on them knows the design language, and has yet to learn which designs are good.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import msgspec

from toolorchestra.agents.builtin.design_renderer import ROLES, write_design
from toolorchestra.agents.policies.base import Info, Policy
from toolorchestra.envs.masorchestra.design import Agent
from toolorchestra.envs.masorchestra.orchestrators import Orchestrator, make_orchestrator
from toolorchestra.envs.masorchestra.rules import DEBATE, Edge
from toolorchestra.toolscale.common.errors import OptionError

MIXTURE: Mapping[str, float] = {"components": 0.35, "random": 0.3, "single": 0.2, "moderator": 0.15}
"""Probability of each scripted orchestrator."""
Parts = tuple[list[Agent], list[Edge]]
"""Agents and edges, which may be an invalid design."""


class DesignTeacher(Policy):
    """Designs of several scripted orchestrators, one drawn for each question, with random kinds and injected errors.

    Args:
        seed: See `Policy`.
        error: Probability of an injected error for each agent of a design.
        mixture: Probability of each scripted orchestrator.
        change: Probability that an agent gets a random kind.
    """

    privileged: ClassVar[bool] = True

    def __init__(
        self, seed: int = 0, error: float = 0.0, mixture: Mapping[str, float] = MIXTURE, change: float = 0.3
    ) -> None:
        super().__init__(seed)
        for name, chance in (("error", error), ("change", change)):
            if not 0.0 <= chance <= 1.0:
                raise OptionError(f"`{name}` must lie in [0, 1], got {chance!r}.")
        self.error, self.change = error, change
        self._weights = list(mixture.values())
        self._all = [make_orchestrator(name, seed=seed) for name in mixture]
        self._now: Orchestrator = self._all[0]
        self._kinds: tuple[str, ...] = ()

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Draw the scripted orchestrator of the episode."""
        super().reset(env, observation, info)
        (self._now,) = self.rng.choices(self._all, self._weights)
        self._now.reset(env, observation, info)
        self._kinds = tuple(info["tool_names"])

    def act(self, observation: str, info: Info) -> str:
        """Return a design, as text, with its injected errors."""
        design = self._now.design()
        parts = list(map(self._with_random_kind, design.agents)), list(design.edges)
        for _ in design.agents:
            if self.rng.random() < self.error:
                parts = inject_error(*parts, self.rng)
        return write_design(design.dom, design.thinking, *parts, design.answer)

    def _with_random_kind(self, agent: Agent) -> Agent:
        if self.rng.random() >= self.change:
            return agent
        kind = self.rng.choice(self._kinds)
        return msgspec.structs.replace(agent, kind=kind, roles=ROLES if kind == DEBATE else ())


INJECTED_ERRORS: Mapping[str, str] = {
    "lost_edge": "An answer is used, but no edge brings it.",
    "lost_part": "An agent is missing, and so are the references to it.",
    "lost_reader": "An answer is not read any more.",
    "lost_reference": "An edge brings an answer, but the input does not use it.",
    "stray": "There is one more agent, which no other reads.",
}
"""Injected errors by name, and what each does."""


def inject_error(agents: list[Agent], edges: list[Edge], rng: random.Random, name: str | None = None) -> Parts:
    """Return the parts of a design after an error of `INJECTED_ERRORS`, by default a random one.

    The design may be invalid then. Only ``stray`` needs no edges.
    """
    name = name or rng.choice(sorted(INJECTED_ERRORS) if edges else ["stray"])
    if name == "stray":
        like, number = rng.choice(agents), sum(agent.id.startswith("STRAY_") for agent in agents)
        return [*agents, Agent(f"STRAY_{number + 1}", like.kind, "", like.description, like.roles)], edges
    start, end = rng.choice(edges)
    if name == "lost_part":
        agents = [_without(agent, start) for agent in agents if agent.id != start]
        return agents, [edge for edge in edges if start not in edge]
    if name in ("lost_reference", "lost_reader"):
        agents = [_without(agent, start) if agent.id == end else agent for agent in agents]
    if name in ("lost_edge", "lost_reader"):
        edges = [edge for edge in edges if edge != (start, end)]
    return agents, edges


def _without(agent: Agent, lost: str) -> Agent:
    """Return an agent without references to another one; a line with no other reference is removed."""
    mark = f"${{{lost}}}"
    lines = [line.replace(mark, "") for line in agent.input.split("\n") if mark not in line or line.count("${") > 1]
    return msgspec.structs.replace(agent, input="\n".join(lines))
