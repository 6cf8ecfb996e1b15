"""The lenient parser of MAS-Orchestra's authors (App. I): it reads what theirs reads, as theirs means it.

Elements are found by their tags, in any case, wherever they stand, and the first of a name counts. What the strict
parser (`toolorchestra.envs.masorchestra.parser`) refuses for its form is read here: no thinking, agents inside it, no
description, an argument outside of its block, roles as a Python list or on other agents, an end that is cut off. What
is wrong with the graph is refused by both. Nothing that is read is ever executed, and no text makes it raise.
"""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.parser import MAX_DESIGN_CHARACTERS
from toolorchestra.envs.masorchestra.rules import (
    AGENTS,
    DEBATE,
    EMPTY,
    MAX_AGENTS,
    MAX_ID_CHARACTERS,
    TAG,
    DesignError,
    DesignFault,
    DoM,
    Edge,
    Rule,
    first_fault,
)
from toolorchestra.toolscale.answers.thoughts import split_thoughts

_ANY_TAG = re.compile(TAG.pattern, re.IGNORECASE)
_AGENT = re.compile(r"<(/?)agent\s*>", re.IGNORECASE)
_FROM, _TO = (re.compile(rf"<{name}\s*>([^<]*)", re.IGNORECASE) for name in ("from", "to"))
_ROLE = re.compile(r"\"((?:[^\"\\]|\\.?)*+)\"?|'((?:[^'\\]|\\.?)*+)'?|([^,\[\]'\"]+)", re.DOTALL)
_THINKING = re.compile(r"<thinking\s*>.*?(?:</thinking\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(rf"[A-Za-z0-9_]{{1,{MAX_ID_CHARACTERS}}}")
_DESCRIPTION = "agent_description"


def parse_paper_design(text: str, dom: DoM = "high", kinds: Sequence[str] = AGENTS) -> Design | DesignFault:
    """Return the design that `text` describes to the authors' parser, or the first rule that it breaks; never raises.

    Arguments are those of `toolorchestra.envs.masorchestra.parser.parse_design`. The design is `Design.lenient`.

    >>> parse_paper_design("The answer is 4.").answer
    'The answer is 4.'
    >>> parse_paper_design("<AGENT><agent_id>a-1</agent_id><agent_name>cotagent</agent_name>").agents[0].kind
    'CoTAgent'
    """
    if len(text) > MAX_DESIGN_CHARACTERS:
        message = f"the text has {len(text):,} characters; at most {MAX_DESIGN_CHARACTERS:,} are read. Write less."
        return DesignFault(Rule.LENGTH, "text", message)
    text = _final(text if text.isascii() else text.encode("utf-8", "replace").decode())
    try:
        return _design(text, dom, kinds)
    except DesignError as error:
        return error.fault


def _final(text: str) -> str:
    """Return what follows a reasoning model's own thoughts, by the marks of the authors' models."""
    text = text.rpartition("assistantfinal")[2] or text
    return split_thoughts(text, only=("think",))[1] or text


def _design(text: str, dom: DoM, kinds: Sequence[str]) -> Design:
    thinking, edges = _first(text, "thinking") or "", list[Edge]()
    agents = [agent for block in _blocks(text) if (agent := _agent(block, dom, kinds))]
    if dom == "low":
        agents = agents[:1]  # the authors' parser sees no other
    if not agents:
        return Design(dom=dom, thinking=thinking, answer=_direct(text), lenient=True)
    agents = list({agent.id: agent for agent in reversed(agents)}.values())[::-1]  # of one id the first counts
    if len(agents) > MAX_AGENTS:
        fault = first_fault(dom, thinking, agents, (), None, kinds, lenient=True)
        assert fault is not None, "there are too many"
        raise DesignError(fault)
    names = _safe_names([agent.id for agent in agents])
    if dom == "high":
        edges = _edges(text, names)
    agents = [_renamed(agent, names, dom) for agent in agents]
    if fault := first_fault(dom, thinking, agents, edges, None, kinds, lenient=True):
        raise DesignError(fault)
    if dom == "high":
        edges += _implied(agents, edges)
    answer = agents[0].id if dom == "low" else None
    return Design(dom=dom, thinking=thinking, agents=tuple(agents), edges=tuple(edges), answer=answer, lenient=True)


def _direct(text: str) -> str | None:
    """Return the direct answer of a text without agents: its `<answer>`, or all of it if it is plain."""
    answer = _first(text, "answer")
    if answer is None and not _AGENT.search(text):
        answer = _THINKING.sub("", text).strip()
    return answer or None


# ---------------------------------------------------------------------------------------------------------- elements


@functools.cache
def _tag(name: str, closing: str = "") -> re.Pattern[str]:
    return re.compile(rf"<{closing}{name}\s*>", re.IGNORECASE)


def _first(text: str, name: str) -> str | None:
    """Return the content of the first element of a name; one that is not closed ends at the next tag."""
    opened = _tag(name).search(text)
    if opened is None:
        return None
    end = _tag(name, "/").search(text, opened.end()) or _ANY_TAG.search(text, opened.end())
    return text[opened.end() : end.start() if end else len(text)].strip()


def _blocks(text: str) -> Iterator[str]:
    """Yield what is inside each agent's tags; a block that is not closed ends at the next one, or with the text."""
    tags = [*_AGENT.finditer(text)]
    for number, tag in enumerate(tags, 1):
        if not tag[1]:
            yield text[tag.end() : tags[number].start() if number < len(tags) else len(text)]


def _agent(block: str, dom: DoM, kinds: Sequence[str]) -> Agent | None:
    """Return the agent that a block describes; None if it lacks what the authors' parser must have."""
    name = _first(block, "agent_name") or ""
    agent_id = _first(block, "agent_id") or ""
    if dom == "low":
        agent_id = _first(block, "agent_output_id") or agent_id or "agent_output"
    if not name or not agent_id:
        return None
    known = {kind.casefold(): kind for kind in (*AGENTS, *kinds)}
    kind = known.get(name.casefold(), name)
    arguments = _first(block, "required_arguments") or ""
    task = _first(arguments, "agent_input")
    task = (_first(block, "agent_input") if task is None else task) or ""
    roles = _roles(_first(block, "debate_roles") or "") if kind == DEBATE else ()
    return Agent(agent_id, kind, "" if task in EMPTY else task, _first(block, _DESCRIPTION) or "", roles)


def _roles(text: str) -> tuple[str, ...]:
    """Return the roles of a list in JSON or Python, or of names between commas."""
    try:
        return tuple(msgspec.json.decode(text, type=list[str]))
    except (msgspec.DecodeError, RecursionError):
        found = ("".join(groups).strip() for groups in _ROLE.findall(text))
        return tuple(role for role in found if len(role) > 1)


def _edges(text: str, names: dict[str, str]) -> list[Edge]:
    """Return the pairs of the first block of edges: its n-th `<from>` with its n-th `<to>`."""
    opened = _tag("edge").search(text)
    if opened is None:
        return []
    closed = _tag("edge", "/").search(text, opened.end())
    block = text[opened.end() : closed.start() if closed else len(text)]
    ends = ([names.get(one, one) for one in map(str.strip, tag.findall(block)) if one] for tag in (_FROM, _TO))
    return list(dict.fromkeys(zip(*ends, strict=False)))


def _safe_names(ids: Sequence[str]) -> dict[str, str]:
    """Return names of letters, digits and underscores for ids, each another one; an id that is such a name keeps it."""
    names = {one: one for one in ids if _NAME.fullmatch(one)}
    for one in (one for one in ids if one not in names):
        stem = name = re.sub(r"[^A-Za-z0-9_]", "_", one)[: MAX_ID_CHARACTERS - 3]
        number = 1
        while name in names.values():
            number += 1
            name = f"{stem}_{number}"
        names[one] = name
    return names


def _renamed(agent: Agent, names: dict[str, str], dom: DoM) -> Agent:
    """Return an agent under its safe name, which reads others by theirs."""
    task = agent.input
    if dom == "high":
        for old, new in names.items():
            if old != new:
                task = task.replace(f"${{{old}}}", f"${{{new}}}")
    return msgspec.structs.replace(agent, id=names[agent.id], input=task)


def _implied(agents: Sequence[Agent], edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges that inputs imply and no block lists.

    The authors' parser runs agents one after another and puts into an input the replies of all that came before.
    """
    order = {agent_id: place for place, agent_id in enumerate(_order([agent.id for agent in agents], edges))}
    drawn = set(edges)
    pairs = ((one, agent.id) for agent in agents for one in agent.references if one in order)
    return [edge for edge in pairs if edge not in drawn and order[edge[0]] < order[edge[1]]]


def _order(ids: Sequence[str], edges: Sequence[Edge]) -> list[str]:
    """Return the order in which the authors' parser runs agents: Kahn's, first in, first out."""
    missing = dict.fromkeys(ids, 0)
    children: dict[str, list[str]] = {one: [] for one in ids}
    for start, end in edges:
        children[start].append(end)
        missing[end] += 1
    queue = deque(one for one in ids if not missing[one])
    order = []
    while queue:
        order.append(queue.popleft())
        for child in children[order[-1]]:
            missing[child] -= 1
            if not missing[child]:
                queue.append(child)
    return order
