"""The decision tree of an episode: which atomic actions were taken, by whom, why, at what cost, and what came of them.

It is derived from the record alone, so that every episode that was written down has one. Below the question stand its
turns, and below each DECIDE what followed from it; a message that has not the form of its action is a leaf of its own.
Drawing is in `toolorchestra.envs.tmatr.figure`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from toolorchestra.envs.episode import Episode, Turn
from toolorchestra.envs.tmatr.actions import ASKED, Action, FormatFault, ParsedAction, read
from toolorchestra.envs.tmatr.play import shown
from toolorchestra.envs.token_counts import estimate_tokens
from toolorchestra.toolscale.errors import OptionError

ENVIRONMENT = "environment"
"""Who takes the action RETURN."""
MALFORMED = "malformed"
"""Status of a message that has not the form of the action that was asked for."""
_REQUEST = re.compile(rf"({'|'.join(ASKED)}), turn (\d+) of \d+: ")


class TreeNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """An atomic action that was taken.

    Attributes:
        id: Position in the order of the actions, from 1.
        action: Which one.
        turn: Number of the turn, from 1.
        agent: Who took it, or `ENVIRONMENT`.
        choice: What was chosen, written or returned: a branch, a tool, an input, an answer, a result.
        why: The rationale: goal, reason, plan, or thought.
        status: ``OK``, or `MALFORMED`; of a RETURN the status of the call, of an ANSWER the outcome of the episode.
        tokens: Tokens that were written, about; those of an ANSWER are in its INFER.
        cost: US dollars.
        start: Virtual seconds since the episode began.
        end: Likewise, when it was done.
    """

    id: int
    action: Action
    turn: int
    agent: str
    choice: str = ""
    why: str = ""
    status: str = "OK"
    tokens: int = 0
    cost: float = 0.0
    start: float = 0.0
    end: float = 0.0


class TreeEdge(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step from one action to the next.

    Attributes:
        start: Id of the action before; 0 is the question.
        end: Id of the action after.
        label: What led there: a turn, a branch, a tool, or nothing.
    """

    start: int
    end: int
    label: str = ""


class DecisionTree(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decision tree of an episode, in progress or over.

    Attributes:
        task_id: Task played.
        question: What was asked: the root.
        agents: Names of the agents.
        nodes: The actions, in order.
        edges: How they follow from each other: one to each action, in order.
        outcome: How the episode ended, if it has.
        reward: What the agents were paid, if they were.
    """

    task_id: str
    question: str
    agents: tuple[str, ...]
    nodes: tuple[TreeNode, ...]
    edges: tuple[TreeEdge, ...]
    outcome: str | None = None
    reward: float | None = None

    def children(self, node_id: int) -> list[TreeNode]:
        """Return the actions that follow an action, or the question (0), in order."""
        return [self.nodes[edge.end - 1] for edge in self.edges if edge.start == node_id]

    def to_json(self) -> bytes:
        """Return the tree as JSON."""
        return msgspec.json.encode(self)


def decision_tree(episode: Episode) -> DecisionTree:
    """Return the tree of an episode of TMATR.

    Raises:
        OptionError: It is an episode of another protocol.
    """
    grown = _Growth(episode)
    for move, atom, turn in _asked(episode):
        grown.add(move, atom, turn)
    return DecisionTree(
        task_id=episode.task_id,
        question=episode.instruction,
        agents=episode.agents,
        nodes=tuple(grown.nodes),
        edges=tuple(grown.edges),
        outcome=episode.outcome,
        reward=episode.reward,
    )


def _asked(episode: Episode) -> Iterator[tuple[Turn, Action, int]]:
    """Yield each move with the action that was asked for, and the number of the turn."""
    told = {agent: str(opening[-1]["content"]) for agent, opening in episode.openings.items()}
    for move in episode.turns:
        found = _REQUEST.match(told[move.agent].rsplit("\n", 1)[-1])
        if found is None:
            raise OptionError(f"Expected an episode of TMATR, which has a decision tree; found {episode.env_id}.")
        yield move, Action(found[1]), int(found[2])
        told |= move.observations


class _Growth:
    """A tree that grows move by move."""

    def __init__(self, episode: Episode) -> None:
        self.outcome = episode.outcome
        self.tools = dict.fromkeys(episode.tools)
        self.nodes: list[TreeNode] = []
        self.edges: list[TreeEdge] = []
        self.turn = 0
        self.tip = 0  # of the branch that grows
        self.label = ""  # of the edge that leaves it

    def add(self, move: Turn, atom: Action, turn: int) -> None:
        """Let the tip be followed by what `move` says, and by what came of it."""
        if turn > self.turn:
            self.turn, self.tip, self.label = turn, 0, f"turn {turn}"
        text = str(move.message["content"])
        said = read(atom, text, self.tools)
        tokens = estimate_tokens(text)
        if isinstance(said, FormatFault) or (atom is Action.EXECUTE and not move.calls):
            self._grow(atom, move.agent, text, status=MALFORMED, tokens=tokens)
            return
        choice, why = _content(atom, said)
        label = choice if atom in (Action.DECIDE, Action.SELECT) else ""
        self._follow(label, atom, move.agent, choice, why, tokens=tokens)
        for call in move.calls:
            times = {"cost": call.cost, "start": call.start, "end": call.end}
            self._follow("", Action.RETURN, ENVIRONMENT, shown(call), status=call.status, **times)
        if answer := said["ANSWER"]:
            self._follow("", Action.ANSWER, move.agent, answer, status=self.outcome or "OK")
        elif atom is Action.INFER:
            self._follow("", Action.RETURN, ENVIRONMENT, "no answer yet")

    def _grow(self, atom: Action, agent: str, choice: str, why: str = "", **more: Any) -> None:
        """Let the tip be followed by an action."""
        self.nodes.append(TreeNode(len(self.nodes) + 1, atom, self.turn, agent, choice, why, **more))
        self.edges.append(TreeEdge(self.tip, len(self.nodes), self.label))

    def _follow(self, label: str, *action: Any, **more: Any) -> None:
        """Let the tip be followed by an action, which is the new tip; `label` is that of the edges that leave it."""
        self._grow(*action, **more)
        self.tip, self.label = len(self.nodes), label


def _content(atom: Action, said: ParsedAction) -> tuple[str, str]:
    """Return what a message chooses, and why."""
    match atom:
        case Action.DECIDE:
            return said["ACTION"], said["GOAL"]
        case Action.SELECT:
            return said["SELECTED_TOOL"], said["REASON"]
        case Action.EXECUTE:
            return said["TOOL_INPUT"], ""
        case Action.PLAN:
            return "", said["REASONING_STEPS"]
        case _:
            return "", said["THINK"]
