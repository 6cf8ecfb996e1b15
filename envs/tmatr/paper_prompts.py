"""The prompts of the paper, Figures 8 to 14 (TMATR-HRL App. F), from ``paper_prompts.yaml``: ``prompts="paper"``.

Each is a whole message, so the agent that carries a step out reads the question, the goal and the plan or tool in every
one, and a record says by the message itself which action it asked for (`asked_for`). What tools return stands before
Figure 10; the paper does not show its form. The rules of the world are added to the system messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from toolorchestra.envs.tmatr.actions import AGENT_ACTIONS, Action
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.tools.tool import Tool

_TEXTS: Mapping[str, str] = read_yaml(Path(__file__).with_suffix(".yaml"))
_FIRST_LINES = {action: _TEXTS[action].partition("\n")[0] for action in AGENT_ACTIONS}


def paper_system(*, decides: bool, rules: str) -> str:
    """Return the system message of an agent: Figure 8 for the one that decides; the paper gives the others none."""
    return f"{_TEXTS['system']}\n\n{rules}" if decides else rules


def paper_opening(question: str, tools: Mapping[str, Tool]) -> str:
    """Return the first message of the agent that decides: Figures 9 and 10."""
    listed = [{"tool_name": name, "tool_description": tool.description} for name, tool in tools.items()]
    shown = msgspec.json.format(msgspec.json.encode(listed), indent=2).decode()
    return f"{_TEXTS['question'].format(question=question, tools=shown)}\n\n{paper_request(Action.DECIDE)}"


def paper_request(action: Action, **fields: str) -> str:
    """Return the message that asks for an action: Figures 10 to 14, with these fields filled in."""
    return _TEXTS[action].format(**fields)


def asked_for(message: str) -> Action | None:
    """Return the action that a message asks for; None if it is no prompt of the paper.

    >>> asked_for(paper_request(Action.PLAN, goal="Add 2 and 3."))
    <Action.PLAN: 'PLAN'>
    """
    if message.endswith(_TEXTS[Action.DECIDE].format()):
        return Action.DECIDE
    others = (action for action in AGENT_ACTIONS if action is not Action.DECIDE)
    return next((action for action in others if message.startswith(_FIRST_LINES[action])), None)
