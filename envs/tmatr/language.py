r"""What the agents of TMATR say: the atomic actions, the form of each, the reading of messages (TMATR §3.1, App. F).

A message is a row of sections, ``<GOAL>…</GOAL>`` and the like. What stands around them, and what a model thinks in
``<think>``, is not looked at; a section inside another one is a part of its text. Reading never raises: a message that
has not the form of its action is read as a `Fault` that says what was expected, what was found, and what to do.
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


class Atom(StrEnum):
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


ASKED = (Atom.DECIDE, Atom.SELECT, Atom.PLAN, Atom.EXECUTE, Atom.INFER)
"""What agents are asked for, from the top of the hierarchy to its bottom."""
CALL, REASON = BRANCHES = ("call_tool", "text_reasoning")
"""What DECIDE chooses between."""
FORMS: dict[Atom, str] = {
    Atom.DECIDE: "<ACTION>call_tool or text_reasoning</ACTION><GOAL>…</GOAL>",
    Atom.SELECT: "<REASON>…</REASON><SELECTED_TOOL>…</SELECTED_TOOL>",
    Atom.PLAN: "<REASONING_STEPS>…</REASONING_STEPS>",
    Atom.EXECUTE: "<TOOL_INPUT>…</TOOL_INPUT>",
    Atom.INFER: r"<THINK>…</THINK> and, if it is final, <ANSWER>\boxed{…}</ANSWER>",
}
"""The form of each action, as an agent is told it."""
_SECTIONS: dict[Atom, tuple[str, ...]] = {
    atom: tuple(re.findall(r"<(\w+)>", form)) for atom, form in FORMS.items() if atom is not Atom.INFER
}
_THINK, _ANSWER = "THINK", "ANSWER"
_TAGS = (*(tag for tags in _SECTIONS.values() for tag in tags), _THINK, _ANSWER)
_TAG = re.compile(rf"<(/?)({'|'.join(_TAGS)})>")


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message as read.

    Attributes:
        sections: Text of each section, without space around it, by tag.
    """

    sections: dict[str, str]

    def __getitem__(self, tag: str) -> str:
        return self.sections.get(tag, "")


class Fault(msgspec.Struct, frozen=True):
    """Why a message is not the action that was asked for: what was expected and found, and what to do."""

    reason: str


def read(atom: Atom, said: str, tools: Mapping[str, Any]) -> Said | Fault:
    r"""Return a message that was asked for as `atom`, or what is wrong with it.

    Args:
        atom: One of `ASKED`.
        said: The message.
        tools: What SELECT may choose, by name.

    >>> read(Atom.DECIDE, "<ACTION>call_tool</ACTION> <GOAL>Compute 2^10.</GOAL>", {})
    Said(sections={'ACTION': 'call_tool', 'GOAL': 'Compute 2^10.'})
    >>> print(read(Atom.SELECT, "<REASON>Exact.</REASON><SELECTED_TOOL>pyhton</SELECTED_TOOL>", {"python": ...}).reason)
    Unknown tool 'pyhton'. Did you mean 'python'? Known: python. Write a name of the list into <SELECTED_TOOL>.
    """
    found = _sections(said)
    if isinstance(found, Fault):
        return found
    tags = [tag for tag, _ in found]
    if tags not in ([[_THINK], [_THINK, _ANSWER]] if atom is Atom.INFER else [list(_SECTIONS[atom])]):
        shown = "".join(f"<{tag}>…</{tag}>" for tag in tags[:8]) or "no such section"
        return Fault(f"Expected {FORMS[atom]}, found {shown}. Write the sections expected, in this order, each once.")
    sections = {tag: text.strip() for tag, text in found}
    if empty := next((tag for tag, text in sections.items() if not text), None):
        return Fault(f"Expected a text in <{empty}>, found none. Write {FORMS[atom]}.")
    match atom:
        case Atom.DECIDE if sections["ACTION"] not in BRANCHES:
            reason = unknown_name("branch", _short(sections["ACTION"]), BRANCHES)
            return Fault(f"{reason} Write call_tool or text_reasoning into <ACTION>.")
        case Atom.SELECT if sections["SELECTED_TOOL"] not in tools:
            name = sections["SELECTED_TOOL"]
            if (lower := name.lower()) not in tools:
                return Fault(
                    f"{unknown_name('tool', _short(name), tools)} Write a name of the list into <SELECTED_TOOL>."
                )
            sections["SELECTED_TOOL"] = lower
        case Atom.INFER if _ANSWER in sections and not (boxed(sections[_ANSWER]) or "").strip():
            return Fault(
                rf"Expected \boxed{{…}} in <ANSWER>, found {_short(sections[_ANSWER])!r}. Put the final answer into a "
                "box, or leave <ANSWER> out if you have none yet."
            )
    return Said(sections)


def _sections(said: str) -> list[tuple[str, str]] | Fault:
    """Return the sections of a message in order: tag and text."""
    text = Message(said).spoken
    found: list[tuple[str, str]] = []
    place = 0
    while opening := _TAG.search(text, place):
        closes, tag = opening.groups()
        if closes:
            return Fault(f"Expected <{tag}> before </{tag}>, found none. Open each section before you close it.")
        end = text.find(f"</{tag}>", opening.end())
        if end < 0:
            return Fault(f"Expected </{tag}> after <{tag}>, found none. Close each section, and write less if need be.")
        found.append((tag, text[opening.end() : end]))
        place = end + len(tag) + 3
    return found


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}…"
