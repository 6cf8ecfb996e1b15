"""The decision tree of an episode: its atomic actions, with agents, reasons, costs and results.

It is derived from the record alone, so every recorded episode has one. The children of the question are its turns;
below each DECIDE is what followed from it; a malformed message is a leaf. `toolorchestra.envs.tmatr.figure` draws it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from toolorchestra.agents.messages.token_counts import estimate_tokens
from toolorchestra.envs.records.episode import Episode, Turn
from toolorchestra.envs.tmatr.actions import AGENT_ACTIONS, Action, FormatFault, read
from toolorchestra.envs.tmatr.paper_prompts import asked_for
from toolorchestra.envs.tmatr.play import result_text
from toolorchestra.toolscale.common.errors import OptionError

ENVIRONMENT = "environment"
"""The agent of RETURN."""
MALFORMED = "malformed"
"""Status of a malformed message."""
_CONTENT = {
    Action.DECIDE: ("ACTION", "GOAL"),
    Action.SELECT: ("SELECTED_TOOL", "REASON"),
    Action.PLAN: ("", "REASONING_STEPS"),
    Action.EXECUTE: ("TOOL_INPUT", ""),
    Action.INFER: ("", "THINK"),
}  # sections that hold the choice in a message, and its reason
_REQUEST = re.compile(rf"({'|'.join(AGENT_ACTIONS)}), turn (\d+) of \d+: ")


class TreeNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """An atomic action that was taken.

    Attributes:
        id: Position in the order of the actions, from 1.
        action: The kind of action.
        turn: Number of the turn, from 1.
        agent: The agent that took it, or `ENVIRONMENT`.
        choice: What was chosen, written or returned: a branch, a tool, an input, an answer, a result.
        why: The rationale: goal, reason, plan, or thought.
        status: ``OK``, or `MALFORMED`; of a RETURN the status of the call, of an ANSWER the outcome of the episode.
        tokens: Estimated tokens written; those of an ANSWER are in its INFER.
        cost: US dollars: of a RETURN those of the call, of an agent's action those of its message.
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
        reward: The reward, if there is one.
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
    for move, action, turn in _requested(episode):
        grown.add(move, action, turn)
    nodes, edges = tuple(grown.nodes), tuple(grown.edges)
    ending = episode.outcome, episode.reward
    return DecisionTree(episode.task_id, episode.instruction, episode.agents, nodes, edges, *ending)


def _requested(episode: Episode) -> Iterator[tuple[Turn, Action, int]]:
    """Yield each message with the action that was asked for, and the number of the turn.

    Where the prompts are the paper's, a turn begins when DECIDE is asked for; what asks for nothing is a refusal.
    """
    latest = {agent: str(opening[-1]["content"]) for agent, opening in episode.openings.items()}
    asked: Action | None = None
    turn = 0
    for move in episode.turns:
        text = latest[move.agent]
        if found := _REQUEST.match(text.rsplit("\n", 1)[-1]):
            asked, turn = Action(found[1]), int(found[2])
        elif action := asked_for(text):
            asked, turn = action, turn + (action is Action.DECIDE)
        if asked is None:
            raise OptionError(f"Expected an episode of TMATR, which has a decision tree; found {episode.env_id}.")
        yield move, asked, turn
        latest |= move.observations


class _Growth:
    """A tree that grows move by move."""

    def __init__(self, episode: Episode) -> None:
        self.outcome = episode.outcome
        self.tools = dict.fromkeys(episode.tools)
        self.nodes: list[TreeNode] = []
        self.edges: list[TreeEdge] = []
        self.turn = 0
        self.tip = 0  # id of the last action of the branch
        self.label = ""  # of the edge that leaves it

    def add(self, move: Turn, action: Action, turn: int) -> None:
        """Add a message and its results after the tip."""
        if turn > self.turn:
            self.turn, self.tip, self.label = turn, 0, f"turn {turn}"
        text = str(move.message["content"])
        parsed = read(action, text, self.tools)
        tokens = estimate_tokens(text)
        if isinstance(parsed, FormatFault) or (action is Action.EXECUTE and not move.calls):
            self._grow(action, move.agent, text, status=MALFORMED, tokens=tokens, cost=move.cost)
            return
        choice, why = (parsed.get(tag, "") for tag in _CONTENT[action])
        label = choice if action in (Action.DECIDE, Action.SELECT) else ""
        self._follow(label, action, move.agent, choice, why, tokens=tokens, cost=move.cost)
        for call in move.calls:
            times = {"cost": call.cost, "start": call.start, "end": call.end}
            self._follow("", Action.RETURN, ENVIRONMENT, result_text(call), status=call.status, **times)
        if answer := parsed.get("ANSWER"):
            self._follow("", Action.ANSWER, move.agent, answer, status=self.outcome or "OK")
        elif action is Action.INFER:
            self._follow("", Action.RETURN, ENVIRONMENT, "no answer yet")

    def _grow(self, action: Action, agent: str, choice: str, why: str = "", **more: Any) -> None:
        """Add an action after the tip."""
        self.nodes.append(TreeNode(len(self.nodes) + 1, action, self.turn, agent, choice, why, **more))
        self.edges.append(TreeEdge(self.tip, len(self.nodes), self.label))

    def _follow(self, label: str, *action: Any, **more: Any) -> None:
        """Add an action after the tip and make it the tip; `label` is that of the edges that leave it."""
        self._grow(*action, **more)
        self.tip, self.label = len(self.nodes), label
