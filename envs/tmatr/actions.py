r"""The atomic actions of TMATR, the form of each, and the parsing of messages (TMATR §3.1, App. F).

A message is a sequence of sections such as ``<GOAL>…</GOAL>``. Text around them and thoughts in ``<think>`` are
ignored; a section inside another one is part of its text. Parsing never raises: a malformed message gives a
`FormatFault`, which names what was expected, what was found, and how to fix it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from toolorchestra.toolscale.answers.answers import boxed
from toolorchestra.toolscale.answers.thoughts import split_thoughts
from toolorchestra.toolscale.common.errors import unknown_name


class Action(StrEnum):
    """The atomic actions (Eq. 8); RETURN is the environment's."""

    DECIDE = "DECIDE"
    """Choose the branch of a turn, and state its goal."""
    SELECT = "SELECT"
    """Choose a tool for the goal."""
    PLAN = "PLAN"
    """Write the reasoning steps that lead to the goal."""
    EXECUTE = "EXECUTE"
    """Write the input of the chosen tool."""
    INFER = "INFER"
    """Carry out the steps; the same message may give the final ANSWER."""
    ANSWER = "ANSWER"
    """Give the final answer: the last section of an INFER."""
    RETURN = "RETURN"
    """The result of a call, or of an INFER."""


AGENT_ACTIONS = (Action.DECIDE, Action.SELECT, Action.PLAN, Action.EXECUTE, Action.INFER)
"""The actions that agents take, from the top of the hierarchy to its bottom."""
CALL, REASON = BRANCHES = ("call_tool", "text_reasoning")
"""The branches that DECIDE chooses between."""
FORMS: dict[Action, str] = {
    Action.DECIDE: "<ACTION>call_tool or text_reasoning</ACTION><GOAL>…</GOAL>",
    Action.SELECT: "<REASON>…</REASON><SELECTED_TOOL>…</SELECTED_TOOL>",
    Action.PLAN: "<REASONING_STEPS>…</REASONING_STEPS>",
    Action.EXECUTE: "<TOOL_INPUT>…</TOOL_INPUT>",
    Action.INFER: r"<THINK>…</THINK> and, if it is final, <ANSWER>\boxed{…}</ANSWER>",
}
"""The form of each action, as it stands in the request to the agent."""
_SECTIONS: dict[Action, tuple[str, ...]] = {
    action: tuple(re.findall(r"<(\w+)>", form)) for action, form in FORMS.items() if action is not Action.INFER
}
_THINK, _ANSWER = "THINK", "ANSWER"
_TAGS = (*(tag for tags in _SECTIONS.values() for tag in tags), _THINK, _ANSWER)
_TAG = re.compile(rf"<(/?)({'|'.join(_TAGS)})>")


ParsedAction = dict[str, str]
"""A parsed message: the stripped text of each section, by tag."""


class FormatFault(msgspec.Struct, frozen=True):
    """Why a message is malformed: what was expected, what was found, and how to fix it."""

    reason: str


def read(action: Action, message: str, tools: Mapping[str, Any]) -> ParsedAction | FormatFault:
    r"""Parse the text of a message as one of `AGENT_ACTIONS`, or return what is wrong with it.

    `tools` are those that SELECT may choose, by name.

    >>> read(Action.DECIDE, "<ACTION>call_tool</ACTION> <GOAL>Compute 2^10.</GOAL>", {})
    {'ACTION': 'call_tool', 'GOAL': 'Compute 2^10.'}
    >>> wrong = "<REASON>Exact.</REASON><SELECTED_TOOL>pyhton</SELECTED_TOOL>"
    >>> print(read(Action.SELECT, wrong, {"python": ...}).reason)
    Unknown tool 'pyhton'. Did you mean 'python'? Known: python. Write a name of the list into <SELECTED_TOOL>.
    """
    found = _sections(message)
    if isinstance(found, FormatFault):
        return found
    tags = [tag for tag, _ in found]
    if tags not in ([[_THINK], [_THINK, _ANSWER]] if action is Action.INFER else [list(_SECTIONS[action])]):
        form = "".join(f"<{tag}>…</{tag}>" for tag in tags[:8]) or "no such section"
        remedy = "Write the sections expected, in this order, each once."
        return FormatFault(f"Expected {FORMS[action]}, found {form}. {remedy}")
    sections = {tag: text.strip() for tag, text in found}
    if empty := next((tag for tag, text in sections.items() if not text), None):
        return FormatFault(f"Expected a text in <{empty}>, found none. Write {FORMS[action]}.")
    match action:
        case Action.DECIDE if sections["ACTION"] not in BRANCHES:
            reason = unknown_name("branch", _short(sections["ACTION"]), BRANCHES)
            return FormatFault(f"{reason} Write call_tool or text_reasoning into <ACTION>.")
        case Action.SELECT if sections["SELECTED_TOOL"] not in tools:
            name = sections["SELECTED_TOOL"]
            known = {_bare(tool): tool for tool in tools}
            if _bare(name) not in known:
                reason = unknown_name("tool", _short(name), tools)
                return FormatFault(f"{reason} Write a name of the list into <SELECTED_TOOL>.")
            sections["SELECTED_TOOL"] = known[_bare(name)]
        case Action.INFER if _ANSWER in sections and not (boxed(sections[_ANSWER]) or "").strip():
            remedy = "Put the final answer into a box, or leave <ANSWER> out if you have none yet."
            return FormatFault(rf"Expected \boxed{{…}} in <ANSWER>, found {_short(sections[_ANSWER])!r}. {remedy}")
    return sections


def _sections(message: str) -> list[tuple[str, str]] | FormatFault:
    """Return the sections of a message in order: tag and text."""
    text = split_thoughts(message, (_THINK,))[1].strip()
    found: list[tuple[str, str]] = []
    place = 0
    while opening := _TAG.search(text, place):
        closes, tag = opening.groups()
        if closes:
            return FormatFault(f"Expected <{tag}> before </{tag}>, found none. Open each section before you close it.")
        end = text.find(f"</{tag}>", opening.end())
        if end < 0:
            remedy = "Close each section, and write less if need be."
            return FormatFault(f"Expected </{tag}> after <{tag}>, found none. {remedy}")
        found.append((tag, text[opening.end() : end]))
        place = end + len(tag) + 3
    return found


def _bare(name: str) -> str:
    """Return a tool's name without case and underscores: the paper's WebSearch is web_search."""
    return name.lower().replace("_", "")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}…"
