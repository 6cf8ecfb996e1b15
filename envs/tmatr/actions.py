r"""What the agents of TMATR say: the atomic actions, the form of each, the reading of messages (TMATR §3.1, App. F).

A message is a row of sections, ``<GOAL>…</GOAL>`` and the like. What stands around them, and what a model thinks in
``<think>``, is not looked at; a section inside another one is a part of its text. Reading never raises: a message that
has not the form of its action is read as a `FormatFault` that says what was expected, what was found, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from toolorchestra.envs.parsing import Message
from toolorchestra.toolscale.answers import boxed
from toolorchestra.toolscale.errors import unknown_name


class Action(StrEnum):
    """The atomic actions (Eq. 8); RETURN is the environment's."""

    DECIDE = "DECIDE"
    """Choose the branch of a turn, and state its goal."""
    SELECT = "SELECT"
    """Choose a tool for the goal."""
    PLAN = "PLAN"
    """Lay out the steps that lead to the goal in words."""
    EXECUTE = "EXECUTE"
    """Write the input of the chosen tool."""
    INFER = "INFER"
    """Carry out the steps; a final ANSWER may stand in the same message."""
    ANSWER = "ANSWER"
    """Give the final answer: the last section of an INFER."""
    RETURN = "RETURN"
    """What came of a call, or of an INFER."""


ASKED = (Action.DECIDE, Action.SELECT, Action.PLAN, Action.EXECUTE, Action.INFER)
"""What agents are asked for, from the top of the hierarchy to its bottom."""
CALL, REASON = BRANCHES = ("call_tool", "text_reasoning")
"""What DECIDE chooses between."""
FORMS: dict[Action, str] = {
    Action.DECIDE: "<ACTION>call_tool or text_reasoning</ACTION><GOAL>…</GOAL>",
    Action.SELECT: "<REASON>…</REASON><SELECTED_TOOL>…</SELECTED_TOOL>",
    Action.PLAN: "<REASONING_STEPS>…</REASONING_STEPS>",
    Action.EXECUTE: "<TOOL_INPUT>…</TOOL_INPUT>",
    Action.INFER: r"<THINK>…</THINK> and, if it is final, <ANSWER>\boxed{…}</ANSWER>",
}
"""The form of each action, as an agent is told it."""
_SECTIONS: dict[Action, tuple[str, ...]] = {
    atom: tuple(re.findall(r"<(\w+)>", form)) for atom, form in FORMS.items() if atom is not Action.INFER
}
_THINK, _ANSWER = "THINK", "ANSWER"
_TAGS = (*(tag for tags in _SECTIONS.values() for tag in tags), _THINK, _ANSWER)
_TAG = re.compile(rf"<(/?)({'|'.join(_TAGS)})>")


class ParsedAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message as read.

    Attributes:
        sections: Text of each section, without space around it, by tag.
    """

    sections: dict[str, str]

    def __getitem__(self, tag: str) -> str:
        return self.sections.get(tag, "")


class FormatFault(msgspec.Struct, frozen=True):
    """Why a message is not the action that was asked for: what was expected and found, and what to do."""

    reason: str


def read(atom: Action, said: str, tools: Mapping[str, Any]) -> ParsedAction | FormatFault:
    r"""Return a message that was asked for as `atom`, or what is wrong with it.

    Args:
        atom: One of `ASKED`.
        said: The message.
        tools: What SELECT may choose, by name.

    >>> read(Action.DECIDE, "<ACTION>call_tool</ACTION> <GOAL>Compute 2^10.</GOAL>", {})
    ParsedAction(sections={'ACTION': 'call_tool', 'GOAL': 'Compute 2^10.'})
    >>> wrong = "<REASON>Exact.</REASON><SELECTED_TOOL>pyhton</SELECTED_TOOL>"
    >>> print(read(Action.SELECT, wrong, {"python": ...}).reason)
    Unknown tool 'pyhton'. Did you mean 'python'? Known: python. Write a name of the list into <SELECTED_TOOL>.
    """
    found = _sections(said)
    if isinstance(found, FormatFault):
        return found
    tags = [tag for tag, _ in found]
    if tags not in ([[_THINK], [_THINK, _ANSWER]] if atom is Action.INFER else [list(_SECTIONS[atom])]):
        shown = "".join(f"<{tag}>…</{tag}>" for tag in tags[:8]) or "no such section"
        return FormatFault(
            f"Expected {FORMS[atom]}, found {shown}. Write the sections expected, in this order, each once."
        )
    sections = {tag: text.strip() for tag, text in found}
    if empty := next((tag for tag, text in sections.items() if not text), None):
        return FormatFault(f"Expected a text in <{empty}>, found none. Write {FORMS[atom]}.")
    match atom:
        case Action.DECIDE if sections["ACTION"] not in BRANCHES:
            reason = unknown_name("branch", _short(sections["ACTION"]), BRANCHES)
            return FormatFault(f"{reason} Write call_tool or text_reasoning into <ACTION>.")
        case Action.SELECT if sections["SELECTED_TOOL"] not in tools:
            name = sections["SELECTED_TOOL"]
            if (lower := name.lower()) not in tools:
                return FormatFault(
                    f"{unknown_name('tool', _short(name), tools)} Write a name of the list into <SELECTED_TOOL>."
                )
            sections["SELECTED_TOOL"] = lower
        case Action.INFER if _ANSWER in sections and not (boxed(sections[_ANSWER]) or "").strip():
            return FormatFault(
                rf"Expected \boxed{{…}} in <ANSWER>, found {_short(sections[_ANSWER])!r}. Put the final answer into a "
                "box, or leave <ANSWER> out if you have none yet."
            )
    return ParsedAction(sections)


def _sections(said: str) -> list[tuple[str, str]] | FormatFault:
    """Return the sections of a message in order: tag and text."""
    text = Message(said).spoken
    found: list[tuple[str, str]] = []
    place = 0
    while opening := _TAG.search(text, place):
        closes, tag = opening.groups()
        if closes:
            return FormatFault(f"Expected <{tag}> before </{tag}>, found none. Open each section before you close it.")
        end = text.find(f"</{tag}>", opening.end())
        if end < 0:
            return FormatFault(
                f"Expected </{tag}> after <{tag}>, found none. Close each section, and write less if need be."
            )
        found.append((tag, text[opening.end() : end]))
        place = end + len(tag) + 3
    return found


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}…"
