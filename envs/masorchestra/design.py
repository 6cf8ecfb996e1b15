"""Designs: a whole multi-agent system as one immutable graph, and the rules that make it one (MAS-Orchestra App. H).

A `Design` is valid by construction: making one that breaks a rule raises the `DesignError` that names the rule and the
element at fault. `to_text` writes a design in the language that orchestrators write, and
`toolorchestra.envs.masorchestra.parser.parse_design` reads it back. Nothing here runs anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Literal

import msgspec

from toolorchestra.agents.builtin.design_renderer import write_design
from toolorchestra.toolscale.errors import OptionError, unknown_name

DoM = Literal["low", "high"]
"""Degree of MAS: at most one agent, or a graph of them."""
Edge = tuple[str, str]
"""Ids of an agent and of one that reads its output."""

AGENTS = ("CoTAgent", "SCAgent", "DebateAgent", "ReflexionAgent", "SearchAgent", "WebSearchAgent")
"""Kinds of agent that a design may name."""
DEBATE = "DebateAgent"
"""The kind that has roles."""
MAX_AGENTS = 64
"""Agents of one design."""
MAX_ID_CHARACTERS = 64
"""Characters of an id."""

BLOCKS = ("thinking", "agent", "edge", "answer")
FIELDS = ("agent_id", "agent_name", "agent_description", "required_arguments", "agent_output_id")
ARGUMENTS = ("agent_input", "debate_roles")
ENDS = ("from", "to")
TAG = re.compile(rf"<(/?)(think|{'|'.join((*BLOCKS, *FIELDS, *ARGUMENTS, *ENDS))})\s*>")
"""Tags of the language; every other text between angle brackets is text."""
REFERENCE = re.compile(r"\$\{([A-Za-z0-9_]+)\}")
"""Where an input takes the answer of another agent."""
_ID = re.compile(rf"[A-Za-z0-9_]{{1,{MAX_ID_CHARACTERS}}}")


class Rule(StrEnum):
    """The rules, in the order in which they are checked; an error names the first that a design breaks.

    Those up to ``pairs`` are about reading, which goes from left to right and stops at the first fault.
    """

    LENGTH = "length"
    COMPLETE = "complete"
    TAGS = "tags"
    APART = "apart"
    PAIRS = "pairs"
    THINKING = "thinking"
    ONE_EDGE = "one_edge"
    ONE_ANSWER = "one_answer"
    FIELDS = "fields"
    DOM = "dom"
    KIND = "kind"
    ID = "id"
    UNIQUE = "unique"
    ROLES = "roles"
    ANSWER = "answer"
    DECLARED = "declared"
    LOOP = "loop"
    REFERENCE = "reference"
    EDGES = "edges"
    DATA_EDGE = "data_edge"
    EDGE_DATA = "edge_data"
    CYCLE = "cycle"
    CONNECTED = "connected"
    SINK = "sink"


RULES: Mapping[Rule, str] = {
    Rule.LENGTH: "The whole text has a bounded length.",
    Rule.COMPLETE: "Every block that is opened is closed before the text ends.",
    Rule.TAGS: "Tags come in pairs and stand only where they belong; no other element may stand inside a text.",
    Rule.APART: "Agents, edges and the answer stand after `</thinking>`, never inside `<thinking>`.",
    Rule.PAIRS: "Inside `<edge>`, each `<from>…</from>` is followed by its `<to>…</to>`.",
    Rule.THINKING: "There is exactly one `<thinking>` block. It comes first and says why the system is built so.",
    Rule.ONE_EDGE: "There is at most one `<edge>` block, which lists all edges.",
    Rule.ONE_ANSWER: "There is at most one `<answer>` block.",
    Rule.FIELDS: "Every agent has each of its fields and arguments once, and no others.",
    Rule.DOM: "A low degree allows at most one agent and no edges; a high one a bounded number of agents.",
    Rule.KIND: "The name of every agent is one of those on offer.",
    Rule.ID: "Ids are made of letters, digits and underscores.",
    Rule.UNIQUE: "No two agents have the same id.",
    Rule.ROLES: "A DebateAgent has two or more roles, as a JSON list of texts; other agents have none.",
    Rule.ANSWER: "Without agents the answer stands in `<answer>`. With a low degree and an agent, `<answer>` names the "
    "agent's output; with a high degree and agents there is no `<answer>`.",
    Rule.DECLARED: "Edges name agents that are declared.",
    Rule.LOOP: "No agent reads its own output.",
    Rule.REFERENCE: "Every `${ID}` in an input names an agent that is declared.",
    Rule.EDGES: "Two or more agents need edges.",
    Rule.DATA_EDGE: "Where the input of Y holds `${X}`, there is an edge from X to Y.",
    Rule.EDGE_DATA: "Where there is an edge from X to Y, the input of Y holds `${X}`.",
    Rule.CYCLE: "The edges form no cycle, so that some agent can start.",
    Rule.CONNECTED: "No agent, and no group of agents, is cut off from the others.",
    Rule.SINK: "Exactly one agent has no outgoing edge: it gives the answer, and every other agent leads to it.",
}
"""What each rule says. An agent that cannot start, or does not lead to the answer, always breaks one of the last
three."""


class DesignFault(msgspec.Struct, frozen=True):
    """The first rule that a design breaks.

    Attributes:
        rule: The rule.
        element: What breaks it: an agent's id, an edge, a tag.
        message: What was found and what would fix it.
    """

    rule: Rule
    element: str
    message: str

    def __str__(self) -> str:
        return f"Rule `{self.rule}`: {self.message}"


class DesignError(OptionError):
    """A design breaks a rule; `fault` says which and where."""

    def __init__(self, fault: DesignFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def broken(rule: Rule, element: str, message: str) -> DesignError:
    """Return the error for a broken rule."""
    return DesignError(DesignFault(rule, element, message))


class Agent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sub-agent of a design.

    Attributes:
        id: Unique within the design; with a low degree the id of its output.
        kind: One of `AGENTS`.
        input: What it is to do, with ``${ID}`` where another agent's answer goes; empty: the question itself.
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
        return tuple(dict.fromkeys(REFERENCE.findall(self.input)))

    def filled(self, answers: Mapping[str, str]) -> str:
        """Return the input with answers, by the ids of their agents, in place of the references to them."""
        return REFERENCE.sub(lambda found: answers.get(found[1], found[0]), self.input)


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

    def __post_init__(self) -> None:
        if fault := first_fault(self.dom, self.thinking, self.agents, self.edges, self.answer):
            raise DesignError(fault)
        _check_texts(self)

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
        return topological([agent.id for agent in self.agents], self.edges)

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Ids by their distance from the start: agents of one level can run at the same time."""
        level: dict[str, int] = {}
        for agent_id in self.order:
            level[agent_id] = 1 + max((level[parent] for parent in self.parents(agent_id)), default=-1)
        rows: list[list[str]] = [[] for _ in range(1 + max(level.values(), default=-1))]
        for agent in self.agents:
            rows[level[agent.id]].append(agent.id)
        return tuple(map(tuple, rows))

    @property
    def shape(self) -> Shape:
        """Its size: number of agents, sequential length, parallel width."""
        levels = self.levels
        return Shape(len(self.agents), len(levels), max(map(len, levels), default=0))


def to_text(design: Design) -> str:
    """Return a design as an orchestrator writes it; parsing that gives the design again.

    >>> print(to_text(Design(dom="low", thinking="Easy.", answer="42")))
    <thinking>
    Easy.
    </thinking>
    <answer>42</answer>
    """
    return write_design(design.dom, design.thinking, design.agents, design.edges, design.answer)


def topological(ids: Sequence[str], edges: Iterable[Edge]) -> tuple[str, ...]:
    """Return `ids` so that every edge leads forward, as near to their order as can be; those on cycles are missing."""
    children: dict[str, list[str]] = {one: [] for one in ids}
    waiting = dict.fromkeys(ids, 0)
    for start, end in edges:
        children[start].append(end)
        waiting[end] += 1
    order = [one for one in ids if not waiting[one]]
    for one in order:  # grows while it is read
        for child in children[one]:
            waiting[child] -= 1
            if not waiting[child]:
                order.append(child)
    return tuple(order)


# ------------------------------------------------------------------------------------------------------------- rules


def first_fault(
    dom: DoM,
    thinking: str,
    agents: Sequence[Agent],
    edges: Sequence[Edge],
    answer: str | None,
    kinds: Sequence[str] = AGENTS,
) -> DesignFault | None:
    """Return the first rule (from ``thinking`` on) that the parts of a design break, or None.

    Args:
        dom: Degree of MAS.
        thinking: Why it is built so.
        agents: Its agents.
        edges: Its edges.
        answer: What stands in ``<answer>``, if there is one.
        kinds: Kinds of agent that may be named.
    """
    try:
        if not thinking.strip():
            raise broken(
                Rule.THINKING, "<thinking>", "<thinking> is missing or empty. Begin with why you design it so."
            )
        _check_agents(dom, agents, edges, kinds)
        _check_answer(dom, agents, answer)
        _check_data(dom, agents, edges)
        _check_graph([agent.id for agent in agents], edges)
    except DesignError as error:
        return error.fault
    return None


def _check_agents(dom: DoM, agents: Sequence[Agent], edges: Sequence[Edge], kinds: Sequence[str]) -> None:
    if dom == "low" and len(agents) > 1:
        raise broken(Rule.DOM, agents[1].id, f"a low degree allows at most one <agent>, found {len(agents)}. Keep one.")
    if dom == "low" and edges:
        raise broken(Rule.DOM, "<edge>", "a low degree has no edges. Leave <edge> out.")
    if len(agents) > MAX_AGENTS:
        found = f"found {len(agents)} agents, more than {MAX_AGENTS}. Merge some of them."
        raise broken(Rule.DOM, agents[MAX_AGENTS].id, found)
    for agent in agents:
        if agent.kind not in kinds:
            raise broken(
                Rule.KIND, agent.id or "<agent>", f"agent {agent.id!r}: {unknown_name('agent_name', agent.kind, kinds)}"
            )
    for agent in agents:
        if not _ID.fullmatch(agent.id):
            message = f"the id {agent.id[:80]!r} must be 1 to {MAX_ID_CHARACTERS} letters, digits and underscores."
            raise broken(Rule.ID, agent.id or "<agent>", message)
    seen: set[str] = set()
    for agent in agents:
        if agent.id in seen:
            raise broken(Rule.UNIQUE, agent.id, f"two agents have the id {agent.id!r}. Give each an id of its own.")
        seen.add(agent.id)
    for agent in agents:
        if agent.kind == DEBATE and (len(agent.roles) < 2 or not all(role.strip() for role in agent.roles)):
            message = f'agent {agent.id!r} needs two or more <debate_roles>, e.g. ["Chemist", "Sceptic"].'
            raise broken(Rule.ROLES, agent.id, message)
        if agent.kind != DEBATE and agent.roles:
            message = f"agent {agent.id!r} is a {agent.kind}, which has no <debate_roles>. Leave them out."
            raise broken(Rule.ROLES, agent.id, message)


def _check_answer(dom: DoM, agents: Sequence[Agent], answer: str | None) -> None:
    if not agents:
        if answer is None or not answer.strip():
            raise broken(Rule.ANSWER, "<answer>", "there is no agent and no <answer>. Write one or the other.")
    elif dom == "high":
        if answer is not None:
            message = "<answer> stands beside agents; the agent without outgoing edge answers. Leave <answer> out."
            raise broken(Rule.ANSWER, "<answer>", message)
    elif answer != agents[0].id:
        found = "is missing" if answer is None else f"is {answer[:80]!r}"
        message = f"<answer> {found}, expected the agent's output id {agents[0].id!r}."
        raise broken(Rule.ANSWER, "<answer>", message)


def _check_data(dom: DoM, agents: Sequence[Agent], edges: Sequence[Edge]) -> None:
    """Check that edges and references name agents and agree with each other."""
    known = {agent.id: agent for agent in agents}
    for edge in edges:
        for end in edge:
            if end not in known:
                raise broken(Rule.DECLARED, _shown(edge), f"edge {_shown(edge)}: {unknown_name('agent', end, known)}")
    if dom == "low":  # nothing to refer to: ${x} is text, as in LaTeX
        return
    for start, end in edges:
        if start == end:
            raise broken(Rule.LOOP, start, f"agent {start!r} has an edge to itself. Remove it.")
    for agent in agents:
        if agent.id in agent.references:
            raise broken(Rule.LOOP, agent.id, f"the input of {agent.id!r} refers to its own output ${{{agent.id}}}.")
    for agent in agents:
        for name in agent.references:
            if name not in known:
                message = f"the input of {agent.id!r} refers to ${{{name}}}: {unknown_name('agent', name, known)}"
                raise broken(Rule.REFERENCE, agent.id, message)
    if len(agents) > 1 and not edges:
        raise broken(Rule.EDGES, "<edge>", f"{len(agents)} agents need an <edge> block that connects them.")
    drawn = set(edges)
    for agent in agents:
        for name in agent.references:
            if (name, agent.id) not in drawn:
                missing = _shown((name, agent.id))
                message = f"the input of {agent.id!r} refers to ${{{name}}}, but there is no edge {missing}. Add it."
                raise broken(Rule.DATA_EDGE, missing, message)
    for start, end in edges:
        if start not in known[end].references:
            idle = _shown((start, end))
            message = f"edge {idle}, but the input of {end!r} does not hold ${{{start}}}. Use it, or remove the edge."
            raise broken(Rule.EDGE_DATA, idle, message)


def _check_graph(ids: Sequence[str], edges: Sequence[Edge]) -> None:
    ordered = set(topological(ids, edges))
    if len(ordered) < len(ids):
        cycle = _cycle([one for one in ids if one not in ordered], edges)
        raise broken(Rule.CYCLE, cycle[0], f"the edges form a cycle: {' → '.join(cycle)}. Remove one of them.")
    joined = _joined(ids, edges)
    if apart := [one for one in ids if one not in joined]:
        names = ", ".join(map(repr, apart[:5]))
        raise broken(Rule.CONNECTED, apart[0], f"{names} not connected with {ids[0]!r}. Let their output be used.")
    leading = {start for start, _ in edges}
    sinks = [one for one in ids if one not in leading]
    if len(sinks) > 1:
        names = ", ".join(map(repr, sinks[:5]))
        raise broken(
            Rule.SINK, sinks[0], f"{names} have no outgoing edge; exactly one may. Add an agent that reads all."
        )


def _cycle(ids: Sequence[str], edges: Sequence[Edge]) -> list[str]:
    """Return a cycle among `ids`, which are those that no topological order reaches."""
    waiting = set(ids)
    before = {end: start for start, end in edges if start in waiting}
    path = [ids[0]]
    while (one := before[path[-1]]) not in path:  # each of them waits for another of them
        path.append(one)
    return [one, *reversed(path[path.index(one) :])]


def _joined(ids: Sequence[str], edges: Sequence[Edge]) -> set[str]:
    """Return what is connected with the first of `ids`, in whatever direction."""
    beside: dict[str, list[str]] = {one: [] for one in ids}
    for start, end in edges:
        beside[start].append(end)
        beside[end].append(start)
    reached = set(ids[:1])
    waiting = list(reached)
    while waiting:
        for one in beside[waiting.pop()]:
            if one not in reached:
                reached.add(one)
                waiting.append(one)
    return reached


def _check_texts(design: Design) -> None:
    """Check that what parsing cannot have produced is not there: tags and outer space in texts, edges twice."""
    texts = [("<thinking>", design.thinking), ("<answer>", design.answer or "")]
    for agent in design.agents:
        texts += [(agent.id, text) for text in (agent.description, agent.input)]
    for element, text in texts:
        if text != text.strip():
            raise broken(
                Rule.TAGS, element, f"{element}: texts have no space around them, found {text[:40]!r}. Strip it."
            )
    texts += [(agent.id, role) for agent in design.agents for role in agent.roles]
    for element, text in texts:
        for tag in TAG.finditer(text):
            if element != "<thinking>" or tag[2] in (*BLOCKS, "think"):  # fields may be spoken of there
                raise broken(Rule.TAGS, element, f"{element}: the text holds the tag {tag[0]}. Leave it out.")
    if len(set(design.edges)) < len(design.edges):
        raise broken(Rule.ONE_EDGE, "<edge>", "an edge is listed twice. List each once.")


def _shown(edge: Edge) -> str:
    return f"{edge[0][:80]} → {edge[1][:80]}"
