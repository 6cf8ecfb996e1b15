"""The rules of MAS-Orchestra's design language (App. H): their texts, and the first one that a design breaks.

`Rule` lists them all. Those about reading a text are checked by `toolorchestra.envs.masorchestra.parser`, the others
here, on the parts of a design.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from itertools import chain, starmap
from typing import Literal, Self

import msgspec

from toolorchestra.agents.builtin.design_renderer import AgentLike
from toolorchestra.toolscale.common.errors import OptionError, unknown_name

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
EMPTY = ('""', "''")
"""Inputs that stand for the question, beside one without text (App. H.2)."""
TAG = re.compile(rf"<(/?)(think|{'|'.join((*BLOCKS, *FIELDS, *ARGUMENTS, *ENDS))})\s*>")
"""Tags of the language; every other text between angle brackets is text."""
REFERENCE = re.compile(r"\$\{([A-Za-z0-9_]+)\}")
"""Where an input takes the answer of another agent."""
_ID = re.compile(rf"[A-Za-z0-9_]{{1,{MAX_ID_CHARACTERS}}}")


class Rule(StrEnum):
    """The rules, in the order in which they are checked; an error names the first that a design breaks.

    Those up to ``pairs`` are about reading, which goes from left to right and stops at the first fault. An agent that
    cannot start, or does not lead to the answer, always breaks one of the last three.

    Attributes:
        text: What the rule says, as in the orchestrator's prompt.
    """

    text: str

    def __new__(cls, name: str, text: str) -> Self:
        """Make a rule of its name and its text."""
        rule = str.__new__(cls, name)
        rule._value_ = name
        rule.text = text
        return rule

    @classmethod
    def lenient(cls) -> tuple[Rule, ...]:
        """Return the rules that the parser of the paper's authors has too (App. I)."""
        return (
            *(cls.LENGTH, cls.DOM, cls.KIND, cls.ROLES, cls.ANSWER),
            *(cls.DECLARED, cls.LOOP, cls.EDGES, cls.CYCLE, cls.CONNECTED, cls.SINK),
        )

    LENGTH = "length", "The whole text has a bounded length."
    COMPLETE = "complete", "Every block that is opened is closed before the text ends."
    TAGS = "tags", "Tags come in pairs and stand only where they belong; no other element may stand inside a text."
    APART = "apart", "Agents, edges and the answer stand after `</thinking>`, never inside `<thinking>`."
    PAIRS = "pairs", "Inside `<edge>`, each `<from>…</from>` is followed by its `<to>…</to>`."
    THINKING = (
        "thinking",
        "There is exactly one `<thinking>` block. It comes first and says why the system is built so.",
    )
    ONE_EDGE = "one_edge", "There is at most one `<edge>` block, which lists all edges."
    ONE_ANSWER = "one_answer", "There is at most one `<answer>` block."
    FIELDS = "fields", "Every agent has each of its fields and arguments once, and no others."
    DOM = "dom", "A low degree allows at most one agent and no edges; a high one a bounded number of agents."
    KIND = "kind", "The name of every agent is one of those on offer."
    ID = "id", "Ids are made of letters, digits and underscores."
    UNIQUE = "unique", "No two agents have the same id."
    ROLES = "roles", "A DebateAgent has two or more roles, as a JSON list of texts; other agents have none."
    ANSWER = (
        "answer",
        "Without agents the answer stands in `<answer>`. With a low degree and an agent, `<answer>` names the "
        "agent's output; with a high degree and agents there is no `<answer>`.",
    )
    DECLARED = "declared", "Edges name agents that are declared."
    LOOP = "loop", "No agent reads its own output."
    REFERENCE = "reference", "Every `${ID}` in an input names an agent that is declared."
    EDGES = "edges", "Two or more agents need edges."
    DATA_EDGE = "data_edge", "Where the input of Y holds `${X}`, there is an edge from X to Y."
    EDGE_DATA = "edge_data", "Where there is an edge from X to Y, the input of Y holds `${X}`."
    CYCLE = "cycle", "The edges form no cycle, so that some agent can start."
    CONNECTED = "connected", "No agent, and no group of agents, is cut off from the others."
    SINK = "sink", "Exactly one agent has no outgoing edge: it gives the answer, and every other agent leads to it."


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


def first_fault(
    dom: DoM,
    thinking: str,
    agents: Sequence[AgentLike],
    edges: Sequence[Edge],
    answer: str | None,
    kinds: Sequence[str] = AGENTS,
    *,
    lenient: bool = False,
) -> DesignFault | None:
    """Return the first rule (from ``thinking`` on) that the parts of a design break, or None.

    The parts are those of a `toolorchestra.envs.masorchestra.design.Design`, which may name `kinds` of agent. If
    `lenient`, only those of `Rule.lenient` count, and inputs may refer to whatever they like.
    """
    if not lenient and not thinking.strip():
        message = "<thinking> is missing or empty. Begin with why you design it so."
        return DesignFault(Rule.THINKING, "<thinking>", message)
    faults = chain(
        _agent_faults(dom, agents, edges, kinds),
        () if lenient and agents else _answer_faults(dom, agents, answer),
        _edge_faults(dom, agents, edges, lenient=lenient),
        _graph_faults([agent.id for agent in agents], edges),
        () if lenient else _text_faults(thinking, agents, edges, answer),
    )
    return next(starmap(DesignFault, faults), None)


def references_in(text: str) -> tuple[str, ...]:
    """Return the ids that an input refers to, each once, in their order."""
    return tuple(dict.fromkeys(REFERENCE.findall(text)))


def levels_of(ids: Iterable[str], edges: Iterable[Edge]) -> list[tuple[str, ...]]:
    """Return ids in levels: each reads from those of earlier levels only. Ids that wait for a cycle are left out."""
    sorter = TopologicalSorter(dict.fromkeys(ids, ()))
    for start, end in edges:
        sorter.add(end, start)
    with suppress(CycleError):
        sorter.prepare()
    levels = []
    while level := sorter.get_ready():
        levels.append(level)
        sorter.done(*level)
    return levels


# ------------------------------------------------------------------------------------------------------------ checks

_Faults = Iterator[tuple[Rule, str, str]]  # fields of a `DesignFault`; only the first that a check yields is used


def _agent_faults(dom: DoM, agents: Sequence[AgentLike], edges: Sequence[Edge], kinds: Sequence[str]) -> _Faults:
    ids = [agent.id for agent in agents]
    if dom == "low" and len(agents) > 1:
        yield Rule.DOM, ids[1], f"a low degree allows at most one <agent>, found {len(agents)}. Keep one."
    if dom == "low" and edges:
        yield Rule.DOM, "<edge>", "a low degree has no edges. Leave <edge> out."
    if len(agents) > MAX_AGENTS:
        yield Rule.DOM, ids[MAX_AGENTS], f"found {len(agents)} agents, more than {MAX_AGENTS}. Merge some of them."
    for agent in agents:
        if agent.kind not in kinds:
            unknown = unknown_name("agent_name", agent.kind, kinds)
            yield Rule.KIND, agent.id or "<agent>", f"agent {agent.id!r}: {unknown}"
    for one in ids:
        if not _ID.fullmatch(one):
            message = f"the id {one[:80]!r} must be 1 to {MAX_ID_CHARACTERS} letters, digits and underscores."
            yield Rule.ID, one or "<agent>", message
    for number, one in enumerate(ids):
        if one in ids[:number]:
            yield Rule.UNIQUE, one, f"two agents have the id {one!r}. Give each an id of its own."
    for agent in agents:
        if agent.kind == DEBATE and (len(agent.roles) < 2 or not all(map(str.strip, agent.roles))):
            message = f'agent {agent.id!r} needs two or more <debate_roles>, e.g. ["Chemist", "Sceptic"].'
            yield Rule.ROLES, agent.id, message
        if agent.kind != DEBATE and agent.roles:
            message = f"agent {agent.id!r} is a {agent.kind}, which has no <debate_roles>. Leave them out."
            yield Rule.ROLES, agent.id, message


def _answer_faults(dom: DoM, agents: Sequence[AgentLike], answer: str | None) -> _Faults:
    message = ""
    if not agents:
        if answer is None or not answer.strip():
            message = "there is no agent and no <answer>. Write one or the other."
    elif dom == "high":
        if answer is not None:
            message = "<answer> stands beside agents; the agent without outgoing edge answers. Leave <answer> out."
    elif answer != agents[0].id:
        found = "is missing" if answer is None else f"is {answer[:80]!r}"
        message = f"<answer> {found}, expected the agent's output id {agents[0].id!r}."
    if message:
        yield Rule.ANSWER, "<answer>", message


def _edge_faults(dom: DoM, agents: Sequence[AgentLike], edges: Sequence[Edge], *, lenient: bool) -> _Faults:
    """Yield where edges and, unless `lenient`, references name no agent, or do not agree with each other."""
    read = {agent.id: references_in(agent.input) for agent in agents}
    references = [] if lenient else [(name, one) for one, names in read.items() for name in names]
    drawn = set(edges)
    for edge in edges:
        for end in edge:
            if end not in read:
                yield Rule.DECLARED, _shown(edge), f"edge {_shown(edge)}: {unknown_name('agent', end, read)}"
    if dom == "low":  # nothing to refer to: ${x} is text, as in LaTeX
        return
    for start, end in edges:
        if start == end:
            yield Rule.LOOP, start, f"agent {start!r} has an edge to itself. Remove it."
    for name, one in references:
        if name == one:
            yield Rule.LOOP, one, f"the input of {one!r} refers to its own output ${{{one}}}."
    for name, one in references:
        if name not in read:
            unknown = unknown_name("agent", name, read)
            yield Rule.REFERENCE, one, f"the input of {one!r} refers to ${{{name}}}: {unknown}"
    if len(agents) > 1 and not edges:
        yield Rule.EDGES, "<edge>", f"{len(agents)} agents need an <edge> block that connects them."
    for edge in references:
        if edge not in drawn:
            name, one = edge
            message = f"the input of {one!r} refers to ${{{name}}}, but there is no edge {_shown(edge)}. Add it."
            yield Rule.DATA_EDGE, _shown(edge), message
    for edge in edges:
        start, end = edge
        if not lenient and start not in read[end]:
            message = f"the input of {end!r} does not hold ${{{start}}}. Use it, or remove the edge."
            yield Rule.EDGE_DATA, _shown(edge), f"edge {_shown(edge)}, but {message}"


def _graph_faults(ids: Sequence[str], edges: Sequence[Edge]) -> _Faults:
    ordered = set(chain.from_iterable(levels_of(ids, edges)))
    if len(ordered) < len(ids):
        cycle = _cycle([one for one in ids if one not in ordered], edges)
        yield Rule.CYCLE, cycle[0], f"the edges form a cycle: {' → '.join(cycle)}. Remove one of them."
    joined = set(ids[:1])  # what is connected with the first, in whatever direction
    while further := {one for edge in edges if not joined.isdisjoint(edge) for one in edge} - joined:
        joined |= further
    if apart := [one for one in ids if one not in joined]:
        names = ", ".join(map(repr, apart[:5]))
        yield Rule.CONNECTED, apart[0], f"{names} not connected with {ids[0]!r}. Let their output be used."
    leading = {start for start, _ in edges}
    sinks = [one for one in ids if one not in leading]
    if len(sinks) > 1:
        names = ", ".join(map(repr, sinks[:5]))
        message = f"{names} have no outgoing edge; exactly one may. Add an agent that reads all."
        yield Rule.SINK, sinks[0], message


def _text_faults(thinking: str, agents: Sequence[AgentLike], edges: Sequence[Edge], answer: str | None) -> _Faults:
    """Yield what no parsed design has: tags or outer space in texts, and an edge that is listed twice."""
    texts = [("<thinking>", thinking), ("<answer>", answer or "")]
    texts += [(agent.id, text) for agent in agents for text in (agent.description, agent.input)]
    for element, text in texts:
        if text != text.strip():
            yield Rule.TAGS, element, f"{element}: texts have no space around them, found {text[:40]!r}. Strip it."
    texts += [(agent.id, role) for agent in agents for role in agent.roles]
    for element, text in texts:
        for tag in TAG.finditer(text):
            if element != "<thinking>" or tag[2] in (*BLOCKS, "think"):  # fields may be spoken of there
                yield Rule.TAGS, element, f"{element}: the text holds the tag {tag[0]}. Leave it out."
    if len(set(edges)) < len(edges):
        yield Rule.ONE_EDGE, "<edge>", "an edge is listed twice. List each once."


def _cycle(ids: Sequence[str], edges: Sequence[Edge]) -> list[str]:
    """Return a cycle among `ids`, which are those that no topological order reaches."""
    waiting = set(ids)
    before = {end: start for start, end in edges if start in waiting}
    path = [ids[0]]
    while (one := before[path[-1]]) not in path:  # each of them waits for another of them
        path.append(one)
    return [one, *reversed(path[path.index(one) :])]


def _shown(edge: Edge) -> str:
    return f"{edge[0][:80]} → {edge[1][:80]}"
