"""The parser: it turns an orchestrator's text into a design, or reports the first rule that it breaks.

A text is cut into tags and what is between them, and read from left to right by a descent through blocks, fields and
arguments. Text outside of blocks is passed over, and so are a reasoning model's own thoughts (``<think>``) before
them. Nothing that is read is ever executed, and no text makes `parse_design` raise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import msgspec

from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.rules import (
    AGENTS,
    ARGUMENTS,
    BLOCKS,
    EMPTY,
    ENDS,
    FIELDS,
    TAG,
    DesignError,
    DesignFault,
    DoM,
    Edge,
    Rule,
    first_fault,
)
from toolorchestra.toolscale.answers.thoughts import split_thoughts

MAX_DESIGN_CHARACTERS = 100_000
"""Characters of one design."""

_ROLES = msgspec.json.Decoder(list[str])


def parse_design(text: str, dom: DoM = "high", kinds: Sequence[str] = AGENTS) -> Design | DesignFault:
    """Return the design that `text` describes, or the first rule that it breaks; never raises.

    `dom` is the degree of MAS that was asked for, `kinds` are the kinds of agent that may be used.

    >>> parse_design("<thinking>Add them.</thinking><answer>4</answer>", "low").answer
    '4'
    >>> print(parse_design("<thinking>Add them.</thinking><agent>", "low"))
    Rule `complete`: the text ends before </agent> (the 1st <agent>). Close every block.
    """
    try:
        return _Reader(text, dom, kinds).design()
    except DesignError as error:
        return error.fault


class _Tag(NamedTuple):
    name: str
    closing: bool
    start: int
    end: int

    def __str__(self) -> str:
        return f"<{'/' if self.closing else ''}{self.name}>"


class _Reader:
    """Reads one text. Methods named after an element read it, its opening tag having been taken."""

    def __init__(self, text: str, dom: DoM, kinds: Sequence[str]) -> None:
        if len(text) > MAX_DESIGN_CHARACTERS:
            message = f"the text has {len(text):,} characters; at most {MAX_DESIGN_CHARACTERS:,} are read. Write less."
            raise _broken(Rule.LENGTH, "text", message)
        if not text.isascii():  # lone surrogates cannot be stored
            text = text.encode("utf-8", "replace").decode()
        self._text = _after_thoughts(text)
        self._tags = (_Tag(tag[2], bool(tag[1]), tag.start(), tag.end()) for tag in TAG.finditer(self._text))
        self._dom: DoM = dom
        self._kinds = kinds
        self._thoughts: list[str] = []
        self._agents: list[dict[str, list[str]]] = []
        self._edges: list[list[Edge]] = []
        self._answers: list[str] = []

    def design(self) -> Design:
        """Read everything and return the design."""
        first = ""
        for tag in self._tags:
            if tag.closing or tag.name not in BLOCKS:
                raise _broken(Rule.TAGS, str(tag), f"{tag} stands outside of the blocks, where only a block may begin.")
            first = first or tag.name
            match tag.name:
                case "thinking":
                    self._thoughts.append(self._thinking(tag))
                case "agent":
                    self._agents.append(self._agent())
                case "edge":
                    self._edges.append(self._edge())
                case _:
                    self._answers.append(self._leaf(tag, "<answer>"))
        if first != "thinking" or len(self._thoughts) > 1:
            found = f"{len(self._thoughts)} of them, and <{first}> first" if first else "no block at all"
            message = f"expected one <thinking> before all other blocks, found {found}."
            raise _broken(Rule.THINKING, "<thinking>", message)
        if len(self._edges) > 1:
            message = f"found {len(self._edges)} <edge> blocks. List all edges in one."
            raise _broken(Rule.ONE_EDGE, "<edge>", message)
        if len(self._answers) > 1:
            raise _broken(Rule.ONE_ANSWER, "<answer>", f"found {len(self._answers)} <answer> blocks. Keep one.")
        agents = tuple(self._made(number, fields) for number, fields in enumerate(self._agents, 1))
        edges = tuple(dict.fromkeys(edge for block in self._edges for edge in block))
        (thinking,), answer = self._thoughts, self._answers[0] if self._answers else None
        wrong = not all(agent.kind in self._kinds for agent in agents)
        if wrong and (fault := first_fault(self._dom, thinking, agents, edges, answer, self._kinds)):
            raise DesignError(fault)
        return Design(dom=self._dom, thinking=thinking, agents=agents, edges=edges, answer=answer)  # checks the rest

    def _made(self, number: int, fields: dict[str, list[str]]) -> Agent:
        """Return the agent that the fields of the `number`-th block describe."""
        id_tag, other = ("agent_output_id", "agent_id") if self._dom == "low" else ("agent_id", "agent_output_id")
        agent_id = fields.get(id_tag, [""])[0]
        element = f"agent {agent_id[:80]!r}" if agent_id else f"the {_ordinal(number)} <agent>"
        for name in (id_tag, "agent_name", "agent_description", "required_arguments", "agent_input"):
            if name not in fields:
                raise _broken(Rule.FIELDS, agent_id or element, f"{element} lacks <{name}>. Add it.")
        for name, values in fields.items():
            if len(values) > 1:
                message = f"{element} has <{name}> {len(values)} times. Keep one."
                raise _broken(Rule.FIELDS, agent_id or element, message)
        if other in fields:
            message = f"{element} has <{other}>, which a {self._dom} degree does not know. Use <{id_tag}>."
            raise _broken(Rule.FIELDS, agent_id or element, message)
        roles = _roles(fields.get("debate_roles", [""])[0])
        given = fields["agent_input"][0]
        task = "" if given in EMPTY else given
        return Agent(agent_id, fields["agent_name"][0], task, fields["agent_description"][0], roles)

    # ------------------------------------------------------------------------------------------------------- elements

    def _thinking(self, opened: _Tag) -> str:
        while (tag := self._next("thinking", "<thinking>")).name not in (*BLOCKS, "think"):
            pass  # tags of fields are words here
        if tag.name != "thinking" or not tag.closing:
            message = f"{tag} stands inside <thinking>. Close it with </thinking> first, and do not write tags in it."
            raise _broken(Rule.APART, str(tag), message)
        return self._text[opened.end : tag.start].strip()

    def _agent(self) -> dict[str, list[str]]:
        where = f"the {_ordinal(len(self._agents) + 1)} <agent>"
        fields = defaultdict(list)
        while not (tag := self._child("agent", where, FIELDS)).closing:
            if tag.name != "required_arguments":
                fields[tag.name].append(self._leaf(tag, where))
                continue
            fields[tag.name].append("")
            while not (argument := self._child(tag.name, where, ARGUMENTS)).closing:
                fields[argument.name].append(self._leaf(argument, where))
        return fields

    def _edge(self) -> list[Edge]:
        edges: list[Edge] = []
        start: str | None = None
        while not (tag := self._child("edge", "<edge>", ENDS)).closing:
            value = self._leaf(tag, "<edge>")
            if (tag.name == "to") is (start is None):
                lacks = f"<to>{value[:80]}</to> has no <from>" if start is None else _without_end(start)
                raise _broken(Rule.PAIRS, "<edge>", f"{lacks} before the next one. Write them in pairs.")
            if start is not None:
                edges.append((start, value))
            start = value if tag.name == "from" else None
        if start is not None:
            raise _broken(Rule.PAIRS, "<edge>", f"{_without_end(start)}. Write them in pairs.")
        return edges

    def _leaf(self, opened: _Tag, where: str) -> str:
        """Return the text of an element that holds nothing else."""
        tag = self._next(opened.name, where)
        if tag.name != opened.name or not tag.closing:
            self._unexpected(tag, f"</{opened.name}>", where)
        return self._text[opened.end : tag.start].strip()

    def _child(self, parent: str, where: str, names: Sequence[str]) -> _Tag:
        """Return the opening tag of the next child, or the closing tag of the parent."""
        tag = self._next(parent, where)
        if (tag.name != parent) if tag.closing else (tag.name not in names):
            self._unexpected(tag, " or ".join([f"</{parent}>", *(f"<{name}>" for name in names)]), where)
        return tag

    def _next(self, opened: str, where: str) -> _Tag:
        """Return the next tag; there must be one, since `opened` is not closed yet."""
        tag = next(self._tags, None)
        if tag is None:
            inside = f" ({where})" if where != f"<{opened}>" else ""
            message = f"the text ends before </{opened}>{inside}. Close every block."
            raise _broken(Rule.COMPLETE, f"<{opened}>", message)
        return tag

    def _unexpected(self, tag: _Tag, expected: str, where: str) -> NoReturn:
        raise _broken(Rule.TAGS, str(tag), f"{where}: found {tag} where only {expected} may follow. Tags must pair up.")


def _broken(rule: Rule, element: str, message: str) -> DesignError:
    return DesignError(DesignFault(rule, element, message))


def _without_end(start: str) -> str:
    return f"<from>{start[:80]}</from> has no <to>"


def _after_thoughts(text: str) -> str:
    """Return what follows a reasoning model's own thoughts."""
    thoughts, said = split_thoughts(text, only=("think",))
    if thoughts and not said.strip():
        raise _broken(Rule.COMPLETE, "<think>", "the text ends before </think>. Write the design after your thoughts.")
    return said


def _roles(text: str) -> tuple[str, ...]:
    """Return the roles that a JSON list names; a text that is none stands for a single role, which is too few."""
    try:
        return tuple(_ROLES.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return (text,) if text else ()


def _ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number}{suffix}"
