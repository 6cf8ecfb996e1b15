"""The renderer of the built-in model for designs of multi-agent systems: agents and questions are numbered.

A question may take hundreds of words, and a design repeats some of them: more than a small model can read or copy. So
`DesignRenderer` shows it what the *text* asks, in a few tokens each, and writes out its design in full:

=======  ======================================================================================================
prompt   ``<user>`` degree, then for each thing that the text asks for ``q1``, ``magic`` or ``value``, ``noted`` if a
         note claims its answer, and ``after q2`` if its text uses the answer to another; ``<assistant>``
action   for each agent its number and kind, ``warned`` if it is to doubt notes, ``q1`` … for its questions
         (nothing: the whole question), and for each answer that it reads ``$1`` (its place in the input) and ``1>``
         (the edge); ``<end>``
=======  ======================================================================================================

The environment gets the design as text and parses and checks it like all others: the language can express designs that
break its rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from toolorchestra.agents.builtin.renderer import SPECIAL, Decoded, parameters_of
from toolorchestra.agents.messages.model_message import Message

WARNING = "Ignore notes that claim a result without deriving it; they may be wrong."
"""The instruction of an agent that is to doubt notes."""
ROLES = ("one who works it out step by step", "one who looks for the mistake")
"""The default roles of a debate."""

_MAX_PLACES = 16  # questions, and agents, that have a token
_WORDS = ("low", "high", "magic", "value", "noted", "after", "warned")
_LISTED = re.compile(
    r"the (?:magic number for (?P<key>[^\s,]+)|number of (?P<name>.{1,100}?) that (?P<owner>.{1,100}?) has\b)"
)
_QUESTION = re.compile(r"(?:^|(?<=[.?!:\n]))[^.?!:\n]+\?")
_NOTE = re.compile(r"\bNote: verify\b[^-\n]{0,100}- (.{1,200}?) is [\w-]+\.")
_CARRIED = re.compile(r"\[answer(\d+)\]")
_NUMBERED = re.compile(r"problem (\d+)$")
# What stands between tags holds no opening tag, so that the many openings of a text without closings cost little.
_AGENT = re.compile(r"<agent>((?:(?!<agent>).)*?)</agent>", re.DOTALL)
_FIELD = re.compile(r"<(agent_id|agent_output_id|agent_name|agent_input)>((?:(?!<agent_).)*?)</\1>", re.DOTALL)
_EDGE = re.compile(r"<from>((?:(?!<from>|<to>).)*?)</from>\s*<to>((?:(?!<from>|<to>).)*?)</to>", re.DOTALL)
_REFERENCE = re.compile(r"\$\{(\w+)\}")
_DOUBT = re.compile(r"\bignore\b.{0,200}\bnotes\b|\bnotes\b.{0,200}\bmay be wrong\b", re.IGNORECASE)


class QuestionPart(NamedTuple):
    """A thing that a text asks for.

    Attributes:
        question: The question for it.
        noted: Whether a note in the text claims its answer.
        after: Places of the parts whose answers its own text uses.
    """

    question: str
    noted: bool = False
    after: tuple[int, ...] = ()


@lru_cache(maxsize=1024)
def questions_in(text: str) -> tuple[QuestionPart, ...]:
    r"""Return the parts of a text's question, in its order: its questions, or what it says to identify and return.

    >>> [part.question for part in questions_in("Problem 1: X is 2. What is X? Problem 2: Y is [answer1]. What is Y?")]
    ['What is X?', 'What is Y?']
    >>> questions_in("Identify and return the magic number for calm-otter, wrapped in \\boxed{ }")
    (QuestionPart(question='What is the magic number for calm-otter?', noted=False, after=()),)
    """
    _, found_mark, task = text.rpartition("dentify and return ")
    if found_mark:
        questions = [_put(found) for found in _LISTED.finditer(task)]
        own = [""] * len(questions)
    else:
        found = list(_QUESTION.finditer(text))
        questions = [one.group().strip() for one in found]
        starts = [0, *(one.end() for one in found)]
        own = [text[start : one.end()] for start, one in zip(starts, found, strict=False)]
    claimed = [what for note in _NOTE.finditer(text) for what in _claimed(note[1], questions)]
    parts = []
    for place, (question, words) in enumerate(zip(questions, own, strict=True)):
        carried = {int(number) - 1 for number in _CARRIED.findall(words)}
        after = tuple(sorted(one for one in carried if 0 <= one < place))
        parts.append(QuestionPart(question, place in claimed, after))
    return tuple(parts)


def _put(found: re.Match[str]) -> str:
    if found["key"]:
        return f"What is the magic number for {found['key']}?"
    return f"How many {found['name']} does {found['owner']} have?"


def _claimed(what: str, questions: Sequence[str]) -> Iterator[int]:
    """Yield the place of the question whose answer a note claims, if that is clear."""
    if numbered := _NUMBERED.search(what):
        yield int(numbered[1]) - 1
    elif (named := _LISTED.fullmatch(what)) and (question := _put(named)) in questions:
        yield questions.index(question)


class AgentLike(Protocol):
    """The fields of an agent that a design's text has."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def input(self) -> str:
        """Its task."""

    @property
    def description(self) -> str:
        """Its purpose."""

    @property
    def roles(self) -> Sequence[str]:
        """The roles of a debate."""


def write_design(
    dom: str, thinking: str, agents: Iterable[AgentLike], edges: Sequence[tuple[str, str]], answer: str | None
) -> str:
    """Return a design, which may break rules, in the language that orchestrators write."""
    lines = ["<thinking>", thinking, "</thinking>"]
    id_tag = "agent_output_id" if dom == "low" else "agent_id"
    for agent in agents:
        lines += [
            "<agent>",
            f"  <{id_tag}>{agent.id}</{id_tag}>",
            f"  <agent_name>{agent.kind}</agent_name>",
            f"  <agent_description>{agent.description}</agent_description>",
            "  <required_arguments>",
            f"    <agent_input>{agent.input}</agent_input>",
        ]
        if agent.roles:
            lines.append(f"    <debate_roles>{msgspec.json.encode(agent.roles).decode()}</debate_roles>")
        lines += ["  </required_arguments>", "</agent>"]
    if edges:
        lines += ["<edge>", *(f"  <from>{start}</from><to>{end}</to>" for start, end in edges), "</edge>"]
    if answer is not None:
        lines.append(f"<answer>{answer}</answer>")
    return "\n".join(lines)


class _Sketch(NamedTuple):
    """An agent as the model writes it: its number, and those of its questions and of the agents that it reads."""

    number: int
    kind: str
    warned: bool
    asks: list[int]
    reads: list[int]
    edges: list[int]


class _Agent(NamedTuple):
    id: str
    kind: str
    input: str
    description: str
    roles: tuple[str, ...]


def _in_full(sketches: Sequence[_Sketch], questions: Sequence[str], dom: str) -> str:
    """Return sketches as a design's text."""

    def question(number: int) -> str:
        return questions[number - 1] if number <= len(questions) else f"Answer question {number}."

    texts = {sketch.number: " ".join(map(question, sketch.asks)) for sketch in reversed(sketches)}
    agents = []
    for sketch in sketches:
        lines = [*map(question, sketch.asks)]
        if sketch.reads:
            lines.append("These are known:" if lines else "Answer with these results, in the order asked:")
            lines += [f"{texts.get(one) or f'Answer of A{one}:'} ${{A{one}}}" for one in sketch.reads]
        if sketch.warned:
            lines.append(WARNING)
        purpose = "Works with what others found." if sketch.reads else "Works on its own."
        roles = ROLES if sketch.kind == "DebateAgent" else ()
        agents.append(_Agent(f"A{sketch.number}", sketch.kind, "\n".join(lines), purpose, roles))
    edges = [(f"A{start}", f"A{sketch.number}") for sketch in sketches for start in sketch.edges]
    thinking = "Who works on what, and who reads whose answer, is set out below."
    return write_design(dom, thinking, agents, edges, agents[0].id if dom == "low" and agents else None)


def _sketched(text: str, questions: Sequence[str]) -> Iterator[_Sketch]:
    """Yield the agents of a design's text, as far as the language can express them."""
    fields = [dict(_FIELD.findall(block)) for block in _AGENT.findall(text)][:_MAX_PLACES]
    ids = [(found.get("agent_id") or found.get("agent_output_id") or "").strip() for found in fields]
    number = {one: place for place, one in reversed(list(enumerate(ids, 1)))}
    pairs = [(start.strip(), end.strip()) for start, end in _EDGE.findall(text) if start.strip() in number]
    for own, found in zip(ids, fields, strict=True):
        lines = found.get("agent_input", "").splitlines()
        asking = [line for line in lines if not _REFERENCE.search(line)]
        yield _Sketch(
            number[own],
            found.get("agent_name", "").strip(),
            any(map(_DOUBT.search, lines)),
            [place for place, question in enumerate(questions, 1) if any(question in line for line in asking)],
            [number[one] for line in lines for one in dict.fromkeys(_REFERENCE.findall(line)) if one in number],
            [number[start] for start, end in pairs if end == own],
        )


class DesignRenderer:
    """The language of the module's table, for the kinds of agent that it is given.

    >>> renderer = DesignRenderer(["CoTAgent"])
    >>> question = [{"role": "user", "content": "A is 2. What is A? B is 3. What is B?"}]
    >>> [renderer.tokens[i] for i in renderer.encode_prompt(question, ())]
    ['<user>', 'high', 'q1', 'value', 'q2', 'value', '<assistant>']
    >>> ids = [renderer.index[token] for token in "1 CoTAgent q1 2 CoTAgent q2 $1 1> <end>".split()]
    >>> print(renderer.decode_action(ids, (), question).action.partition("</thinking>")[2])
    <BLANKLINE>
    <agent>
      <agent_id>A1</agent_id>
      <agent_name>CoTAgent</agent_name>
      <agent_description>Works on its own.</agent_description>
      <required_arguments>
        <agent_input>What is A?</agent_input>
      </required_arguments>
    </agent>
    <agent>
      <agent_id>A2</agent_id>
      <agent_name>CoTAgent</agent_name>
      <agent_description>Works with what others found.</agent_description>
      <required_arguments>
        <agent_input>What is B?
    These are known:
    What is A? ${A1}</agent_input>
      </required_arguments>
    </agent>
    <edge>
      <from>A1</from><to>A2</to>
    </edge>
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self.kinds = tuple(kinds)
        numbers = range(1, _MAX_PLACES + 1)
        forms = ("q{}", "{}", "${}", "{}>")
        numbered = [form.format(number) for form in forms for number in numbers]
        self.tokens = [*SPECIAL, *_WORDS, *numbered, *self.kinds]
        self.index = {token: i for i, token in enumerate(self.tokens)}
        self.pad_id, self.end_id = self.index["<pad>"], self.index["<end>"]
        self.stop_ids: tuple[int, ...] = (self.end_id,)
        self._asks, self._numbers, self._reads, self._edges = (
            {self.index[form.format(number)]: number for number in numbers} for form in forms
        )

    @staticmethod
    def speaks(tools: Collection[Mapping[str, Any]]) -> bool:
        """Return whether tools are the kinds of agent of designs."""
        return bool(tools) and all("agent_input" in parameters_of(tool) for tool in tools)

    @classmethod
    def build(cls, tools: Iterable[Mapping[str, Any]]) -> DesignRenderer:
        """Return the renderer for the kinds of agent among tools."""
        return cls(dict.fromkeys(tool["function"]["name"] for tool in tools))

    def save(self, folder: Path) -> None:
        """Write the renderer into a checkpoint folder as ``renderer.json``."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "renderer.json").write_text(json.dumps({"designs_of": self.kinds}), encoding="utf-8")

    def encode_prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the degree of MAS and the parts of the question."""
        del tools  # known to the model by training
        words = ["<user>", _degree(messages)]
        for place, part in enumerate(_parts(messages), 1):
            words += [f"q{place}", "magic" if "magic number" in part.question else "value"]
            words += ["noted"] * part.noted
            words += [word for earlier in part.after for word in ("after", f"q{earlier + 1}")]
        return [self.index[word] for word in (*words, "<assistant>")]

    def encode_action(self, message: Message, before: Sequence[Message] = ()) -> list[int]:
        """Return a design's ids, as far as the language can express it."""
        words: list[str] = []
        questions = [part.question for part in _parts(before)]
        for sketch in _sketched(str(message.get("content") or ""), questions):
            words += [str(sketch.number), sketch.kind if sketch.kind in self.kinds else "<unk>"]
            words += ["warned"] * sketch.warned
            words += [f"q{number}" for number in sketch.asks]
            for number in dict.fromkeys((*sketch.reads, *sketch.edges)):
                words += [f"${number}"] * (number in sketch.reads) + [f"{number}>"] * (number in sketch.edges)
        return [self.index[word] for word in (*words, "<end>")]

    def encode_results(self, messages: Sequence[Message], written: Sequence[int]) -> list[int]:
        """Return the end of the turn only: a design ends its episode."""
        del messages
        return [self.index["<assistant>"]] if written and written[-1] == self.end_id else [self.end_id]

    def decode_action(
        self, ids: Sequence[int], tools: Sequence[Mapping[str, Any]], before: Sequence[Message] = ()
    ) -> Decoded:
        """Return the design's text, always as well formed; the environment judges designs.

        Ids out of place leave it unfinished, so that the environment refuses it.
        """
        del tools
        body = [i for i in ids if i != self.pad_id]
        sound = bool(body) and body[-1] == self.end_id
        sketches: list[_Sketch] = []
        waiting = iter(body[:-1] if sound else body)
        for i in waiting:
            if i in self._numbers:
                kind = self.tokens[next(waiting, self.pad_id)]
                sound &= kind in self.kinds
                sketches.append(_Sketch(self._numbers[i], kind, False, [], [], []))
            elif not sketches:
                sound = False
            elif self.tokens[i] == "warned":
                sketches[-1] = sketches[-1]._replace(warned=True)
            elif i in self._asks:
                sketches[-1].asks.append(self._asks[i])
            elif i in self._reads:
                sketches[-1].reads.append(self._reads[i])
            elif i in self._edges:
                sketches[-1].edges.append(self._edges[i])
            else:
                sound = False
        text = _in_full(sketches, [part.question for part in _parts(before)], _degree(before))
        return Decoded(text if sound else f"{text}\n<agent>", True)


def _parts(messages: Sequence[Message]) -> tuple[QuestionPart, ...]:
    text = next((str(message["content"]) for message in messages if message["role"] == "user"), "")
    return questions_in(text)[:_MAX_PLACES]


def _degree(messages: Sequence[Message]) -> str:
    low = any("Degree of MAS: low" in str(message["content"]) for message in messages if message["role"] == "system")
    return "low" if low else "high"
