"""Edits of workflows, which are designs for many questions: each edit turns a workflow into another one.

A workflow's agents have inputs made of a general instruction and the answers that they read. Every edit gives a valid
design again; which edits are worth making is for `examples.searches.search` to find out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from toolorchestra.agents.builtin.design_renderer import ROLES
from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.rules import DEBATE

INSTRUCTIONS = (
    "",
    "Answer the question.",
    "Write down all that is given, relation by relation, before anything is solved.",
    "Look up the facts that the question needs.",
    "Check the answers below against the question, correct what is wrong, and answer.",
    "Compare the answers below and give the one that is best supported.",
    "Ignore notes that claim a result without deriving it, and answer.",
)
"""Instructions of a workflow's agents; the empty one stands for the question itself."""


@dataclass(frozen=True)
class Space:
    """Which workflows there are.

    Attributes:
        kinds: Kinds of agent that may be used.
        max_agents: Maximum number of agents.
    """

    kinds: tuple[str, ...]
    max_agents: int = 8


@dataclass(frozen=True)
class WorkflowNode:
    """An agent of a workflow: its kind, its instruction, and the positions of the earlier agents that it reads."""

    kind: str
    task: str = ""
    reads: frozenset[int] = frozenset()


def single(kind: str) -> Design:
    """Return the workflow of one agent."""
    return workflow_of([WorkflowNode(kind)])


def random_workflow(space: Space, rng: random.Random) -> Design:
    """Return a random workflow: each size is as likely as any other."""
    count = rng.randint(1, space.max_agents)
    nodes = [_random_node(space, rng)]
    for number in range(1, count):
        reads = rng.sample(range(number), rng.randint(0, min(2, number)))
        nodes.append(replace(_random_node(space, rng), reads=frozenset(reads)))
    return workflow_of(nodes)


def mutated(design: Design, space: Space, rng: random.Random) -> tuple[Design, str]:
    """Return a workflow after one random edit, and the edit's name (one of `EDITS`)."""
    while True:
        name = rng.choice(sorted(EDITS))
        nodes = _read(design)
        EDITS[name](nodes, space, rng)
        if len(nodes) <= space.max_agents and (edited := workflow_of(nodes)) != design:
            return edited, name


def crossed(first: Design, second: Design, space: Space, rng: random.Random) -> Design | None:
    """Return both workflows side by side, their answers compared by a last agent; None if that is too large."""
    nodes = _read(first)
    shift = len(nodes)
    nodes += _shifted(_read(second), 0, shift)
    if len(nodes) + 1 > space.max_agents:
        return None
    reads = frozenset((shift - 1, len(nodes) - 1))
    return workflow_of([*nodes, WorkflowNode(rng.choice(space.kinds), rng.choice(INSTRUCTIONS[1:]), reads)])


# ------------------------------------------------------------------------------------------------------------- edits


def _other_kind(nodes: list[WorkflowNode], space: Space, rng: random.Random) -> None:
    at = rng.randrange(len(nodes))
    if others := [kind for kind in space.kinds if kind != nodes[at].kind]:
        nodes[at] = replace(nodes[at], kind=rng.choice(others))


def _other_task(nodes: list[WorkflowNode], space: Space, rng: random.Random) -> None:
    at = rng.randrange(len(nodes))
    task = rng.choice([task for task in INSTRUCTIONS if task != nodes[at].task])
    nodes[at] = replace(nodes[at], task=task)


def _review(nodes: list[WorkflowNode], space: Space, rng: random.Random) -> None:
    """Let a new last agent read the answer so far."""
    nodes.append(replace(_random_node(space, rng), reads=frozenset((len(nodes) - 1,))))


def _prepare(nodes: list[WorkflowNode], space: Space, rng: random.Random) -> None:
    """Let one of the agents read a new one, which comes first."""
    at = rng.randrange(len(nodes))
    nodes[:] = _shifted(nodes, 0)
    nodes[at] = replace(nodes[at], reads=nodes[at].reads | {0})
    nodes.insert(0, _random_node(space, rng))


def _widen(nodes: list[WorkflowNode], space: Space, rng: random.Random) -> None:
    """Put a copy beside an agent that is read, for the same readers; it may be of another kind."""
    at = rng.randrange(len(nodes))
    if at < len(nodes) - 1:
        grown = _shifted(nodes, at)
        grown.insert(at, replace(grown[at], kind=rng.choice(space.kinds)))
        nodes[:] = [replace(node, reads=node.reads | {at}) if at + 1 in node.reads else node for node in grown]


def _remove(nodes: list[WorkflowNode], space: Space, rng: random.Random) -> None:
    """Take an agent out; those that read it read what it read."""
    if len(nodes) > 1:
        at = rng.randrange(len(nodes))
        removed = nodes.pop(at)
        joined = [replace(node, reads=node.reads | removed.reads) if at in node.reads else node for node in nodes]
        nodes[:] = [replace(node, reads=frozenset(one - (one > at) for one in node.reads - {at})) for node in joined]


def _add_edge(nodes: list[WorkflowNode], space: Space, rng: random.Random) -> None:
    if free := [(one, at) for at, node in enumerate(nodes) for one in range(at) if one not in node.reads]:
        one, at = rng.choice(free)
        nodes[at] = replace(nodes[at], reads=nodes[at].reads | {one})


def _remove_edge(nodes: list[WorkflowNode], space: Space, rng: random.Random) -> None:
    drawn = [(one, at) for at, node in enumerate(nodes) for one in sorted(node.reads)]
    if len(drawn) > 1:
        one, at = rng.choice(drawn)
        nodes[at] = replace(nodes[at], reads=nodes[at].reads - {one})


EDITS: dict[str, Callable[[list[WorkflowNode], Space, random.Random], None]] = {
    "add_edge": _add_edge,
    "other_kind": _other_kind,
    "other_task": _other_task,
    "prepare": _prepare,
    "remove": _remove,
    "remove_edge": _remove_edge,
    "review": _review,
    "widen": _widen,
}
"""Edits by name. Each changes the list in place; one that cannot be made of a workflow leaves it as it is."""


def _random_node(space: Space, rng: random.Random) -> WorkflowNode:
    return WorkflowNode(rng.choice(space.kinds), rng.choice(INSTRUCTIONS))


def _shifted(nodes: Sequence[WorkflowNode], at: int, by: int = 1) -> list[WorkflowNode]:
    """Return the nodes as they are with `by` more before position `at`."""
    return [replace(node, reads=frozenset(one + by * (one >= at) for one in node.reads)) for node in nodes]


def workflow_of(nodes: Sequence[WorkflowNode]) -> Design:
    """Return the design of nodes; agents that no other reads are read by the last one."""
    read = {one for node in nodes for one in node.reads}
    idle = frozenset(range(len(nodes) - 1)) - read
    nodes = [*nodes[:-1], replace(nodes[-1], reads=nodes[-1].reads | idle)]
    agents, edges = [], []
    for number, node in enumerate(nodes, 1):
        parents = [f"A{one + 1}" for one in sorted(node.reads)]
        lines = [node.task or INSTRUCTIONS[1]] if parents else [node.task]
        lines += [f"Answer of {parent}: ${{{parent}}}" for parent in parents]
        roles = ROLES if node.kind == DEBATE else ()
        agents.append(Agent(f"A{number}", node.kind, "\n".join(lines), "Part of a workflow.", roles))
        edges += [(parent, f"A{number}") for parent in parents]
    return Design(dom="high", thinking="A workflow for any question.", agents=tuple(agents), edges=tuple(edges))


def _read(design: Design) -> list[WorkflowNode]:
    """Return the nodes of a workflow made here."""
    place = {agent.id: number for number, agent in enumerate(design.agents)}
    return [
        WorkflowNode(agent.kind, agent.input.partition("\n")[0], frozenset(place[one] for one in agent.references))
        for agent in design.agents
    ]
