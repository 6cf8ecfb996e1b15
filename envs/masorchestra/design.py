"""Designs: a whole multi-agent system as one immutable graph (MAS-Orchestra App. H).

A `Design` is valid by construction: making one that breaks a rule of `toolorchestra.envs.masorchestra.rules` raises the
`DesignError` that names the rule and the element at fault. `to_text` writes a design in the language that orchestrators
write, and `toolorchestra.envs.masorchestra.parser.parse_design` reads it back. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import msgspec

from toolorchestra.agents.builtin.design_renderer import write_design
from toolorchestra.envs.masorchestra.rules import (
    REFERENCE,
    DesignError,
    DoM,
    Edge,
    first_fault,
    levels_of,
    references_in,
)


class Agent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sub-agent of a design.

    Attributes:
        id: Unique within the design; with a low degree the id of its output.
        kind: One of `AGENTS`.
        input: What it is to do, with ``${ID}`` where another agent's reply goes; empty: the question itself.
        description: What it is for.
        roles: Who debates, for a DebateAgent.
    """

    id: str
    kind: str
    input: str = ""
    description: str = ""
    roles: tuple[str, ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """Ids that its input refers to, each once, in their order."""
        return references_in(self.input)

    def filled(self, replies: Mapping[str, str]) -> str:
        """Return the input with replies, by the ids of their agents, in place of the references to them."""
        return REFERENCE.sub(lambda found: replies.get(found[1], found[0]), self.input)


class Shape(msgspec.Struct, frozen=True):
    """The size of a design: its agents, those on the longest path, and the largest number on one level."""

    agents: int
    length: int
    width: int


class Design(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A multi-agent system, or a direct answer.

    Attributes:
        dom: Degree of MAS that it was written for.
        thinking: Why it is built so.
        agents: The agents, in the order written.
        edges: Who reads whose output, in the order written.
        answer: The direct answer when there are no agents; with a low degree and an agent, the agent's id.
        lenient: Whether it keeps only to the rules of the paper's authors, as what their parser reads: thinking may be
            empty, and an edge may order two agents without a reference.

    Raises:
        DesignError: It breaks a rule.

    >>> design = Design(dom="high", thinking="Check it.", edges=(("A", "B"),), agents=(
    ...     Agent("A", "CoTAgent"), Agent("B", "ReflexionAgent", "Check this answer: ${A}")))
    >>> design.sink, design.order, design.shape
    ('B', ('A', 'B'), Shape(agents=2, length=2, width=1))
    """

    dom: DoM
    thinking: str
    agents: tuple[Agent, ...] = ()
    edges: tuple[Edge, ...] = ()
    answer: str | None = None
    lenient: bool = False

    def __post_init__(self) -> None:
        parts = self.dom, self.thinking, self.agents, self.edges, self.answer
        if fault := first_fault(*parts, lenient=self.lenient):
            raise DesignError(fault)

    def agent(self, agent_id: str) -> Agent:
        """Return the agent with an id."""
        return next(agent for agent in self.agents if agent.id == agent_id)

    def parents(self, agent_id: str) -> tuple[str, ...]:
        """Return the ids of the agents whose answers an agent reads."""
        return tuple(start for start, end in self.edges if end == agent_id)

    def children(self, agent_id: str) -> tuple[str, ...]:
        """Return the ids of the agents that read an agent's answer."""
        return tuple(end for start, end in self.edges if start == agent_id)

    @property
    def sink(self) -> str | None:
        """The id of the agent that answers; None for a direct answer."""
        leading = {start for start, _ in self.edges}
        return next((agent.id for agent in self.agents if agent.id not in leading), None)

    @property
    def order(self) -> tuple[str, ...]:
        """Ids in an order in which every agent comes after those that it reads."""
        return tuple(chain.from_iterable(self._levels()))

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Ids by their distance from the start: agents of one level can run at the same time."""
        place = {agent.id: number for number, agent in enumerate(self.agents)}
        return tuple(tuple(sorted(level, key=place.__getitem__)) for level in self._levels())

    @property
    def shape(self) -> Shape:
        """Its size: number of agents, sequential length, parallel width."""
        levels = self._levels()
        return Shape(len(self.agents), len(levels), max(map(len, levels), default=0))

    def _levels(self) -> list[tuple[str, ...]]:
        return levels_of([agent.id for agent in self.agents], self.edges)


def to_text(design: Design) -> str:
    """Return a design as an orchestrator writes it; parsing that gives the design again.

    >>> print(to_text(Design(dom="low", thinking="Easy.", answer="42")))
    <thinking>
    Easy.
    </thinking>
    <answer>42</answer>
    """
    return write_design(design.dom, design.thinking, design.agents, design.edges, design.answer)
