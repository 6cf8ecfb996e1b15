"""The problem that a tool call poses to a simulated expert or sub-agent, found from the context of the call.

In a world of questions it is the question, or the part of it that the call asks for. In a domain it is the next call of
the reference trajectory, or the answer when none is left. Real models never see any of it.

Not covered: how often a model is right (`toolorchestra.agents.experts.specification`), and which parts of the
conversation it is shown.
"""

from __future__ import annotations

import copy
import functools
import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.policies.base import write_calls
from toolorchestra.agents.problems import Problem, Step, facts
from toolorchestra.agents.subagents.parsing import answer_in
from toolorchestra.envs.episode import CallRecord
from toolorchestra.envs.ground_truth.parts import (
    Part,
    level_difficulty,
    most_similar,
    needed,
    parts_of,
    problem_of,
    subject_of,
    words_of,
)
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.guess import Guesser
from toolorchestra.toolscale.mentions import mentions, tokens
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import InnerCall, Status, Tool, ToolContext

SUBJECT = "function_calling"
"""Subject of the skill that the steps of a domain's tasks take."""
UNREAD = 3.0
"""How much harder still, in logits, is a fact from the passages of a search, while none that states it is found."""
UNKNOWN = "I could not find that out."
"""An answer that is right nowhere."""

_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_FUNCTION_WORDS = frozenset((
    "a", "an", "the", "of", "in", "on", "at", "to", "by", "for", "and", "or", "is", "are", "was", "were", "be", "do",
    "does", "did", "what", "which", "who", "whom", "whose", "where", "when", "how", "that", "this", "it", "its",
))  # fmt: skip


def problem_for(context: ToolContext, text: str | None = None, *, searches: bool = False) -> Problem:
    """Return the problem that a model is asked to solve by `text`, or by the user's request if it is None.

    For a question, that is the part that `text` asks for, or else the whole. What the part needs and `text` does not
    say is added as further steps, so that asking by description costs more. A part that is asked with a wrong premise
    has a wrong answer. Facts that are found in passages are `UNREAD` logits harder until the passages have been read,
    unless the model `searches` by itself.

    For a task in a domain, whatever the text, it is the next step that has not been done, as a ``<tool_call>`` block,
    or the answer to the user. An attack in the request is a note about that step until it has been carried out.
    """
    if isinstance(context.world, Domain):
        return _next_step(context.world, context)
    parts = parts_of(context.task)
    request = _Request(context.task, parts, text)
    problem = request.problem()
    if searches or not any(part.support for part in parts):
        return problem
    read = {passage["id"] for passage in _passages(context)}
    steps = tuple(
        msgspec.structs.replace(step, difficulty=step.difficulty + UNREAD)
        if parts[position].support and not read.issuperset(parts[position].support)
        else step
        for position, step in zip(request.positions, problem.steps, strict=True)
    )
    return msgspec.structs.replace(problem, steps=steps)


def final_problem(context: ToolContext) -> Problem:
    """Return the problem of a model that is asked for the final answer of the episode.

    In a domain, no answer is right until the results hold what must be communicated, or all steps are done.
    """
    task, world = context.task, context.world
    if not isinstance(world, Domain):
        return problem_for(context)
    if _position(world, context)[1] is not None:
        seen = tokens(" ".join(msgspec.json.encode(call.value).decode() for call in _successful(context)))
        if not task.communicate or not all(any(mentions(seen, phrase) for phrase in one) for one in task.communicate):
            return _single(f"{task.id}@answer", Step(UNKNOWN, difficulty=level_difficulty(task)))
    return _answer_problem(world, task)


def queries_for(context: ToolContext, text: str | None = None) -> tuple[str, ...]:
    """Return, for each step of the problem, the query that finds its fact; "" for a step that needs no search.

    There are none in a domain, and for questions whose parts are not known.
    """
    parts = _parts(context)
    if not parts:
        return ()
    request = _Request(context.task, parts, text)
    factual = set(facts(request.problem()))
    return tuple(
        parts[position].question if place in factual or parts[position].support else ""
        for place, position in enumerate(request.positions)
    )


def evidence_in(context: ToolContext) -> str:
    """Return the passages in the conversation that hold what the question needs."""
    wanted = {support for part in _parts(context) for support in part.support}
    read = {passage["id"]: passage for passage in _passages(context) if not wanted or passage["id"] in wanted}
    return "\n".join(f"{passage['title']}: {passage['text']}" for passage in read.values())


def candidates_in(context: ToolContext) -> tuple[str, ...]:
    r"""Return the answers to the whole request in the conversation.

    The first is the one that the orchestrator itself writes in ``\boxed{}`` beside the call; then come those of models,
    in the order in which they were given.
    """
    given = [answer_in(context.message)] if r"\boxed{" in context.message else []
    parts = _parts(context)
    for call in _successful(context):
        tool, arguments = context.tools.get(call.name), call.arguments or {}
        if tool is not None and tool.uses_episode and call.children:
            text = arguments.get("question") or arguments.get("subtask")
            if _Request(context.task, parts, text).is_whole:
                given.append(_answer(call.value))
    return tuple(answer for answer in given if answer)


def _parts(context: ToolContext) -> tuple[Part, ...]:
    return () if isinstance(context.world, Domain) else parts_of(context.task)


def _answer(value: Any) -> str:
    """Return the answer in a model's reply: a text that marks one, or an object with an ``answer``."""
    if isinstance(value, Mapping):
        return str(value.get("answer", ""))
    return answer_in(value) if isinstance(value, str) else ""


def _successful(context: ToolContext) -> Iterator[CallRecord]:
    return (call for call in context.calls if call.status is Status.OK)


# ---------------------------------------------------------------------------------------------------- questions


class _Request:
    """What a text asks of a question whose parts are known.

    Attributes:
        positions: The parts that must be solved, in their order: where one is asked for, it and those on the way to it
            whose values the text does not state, rightly or wrongly.
        part: The part that is asked for; None for the whole question.
    """

    def __init__(self, task: Task, parts: Sequence[Part], text: str | None) -> None:
        self._task, self._parts = task, parts
        self.part: int | None = None
        self.positions: Sequence[int] = range(len(parts))
        if text is None or not parts:
            return
        stated, given = tokens(text), tokens(task.instruction)
        known = [mentions(stated, _bare(part.answer)) for part in parts]
        self._premises = [  # the wrong answers to each part that the text states and the question itself does not
            [w for w in part.wrong if not right and mentions(stated, _bare(w)) and not mentions(given, _bare(w))]
            for part, right in zip(parts, known, strict=True)
        ]
        self._stated = {at for at in range(len(parts)) if known[at] or self._premises[at]}
        self.part = self._find(_content_words(text))
        if self.part is not None:
            self._stated.discard(self.part)
            self.positions = [at for at in needed(parts, [self.part], self._stated) if at not in self._stated]

    @property
    def is_whole(self) -> bool:
        """Whether its answer is the answer to the whole question."""
        targets = self._task.bindings.get("targets", (-1,))
        return self.part is None or [self.part] == [target % len(self._parts) for target in targets]

    def problem(self) -> Problem:
        """Return the problem that a model has to solve."""
        if self.part is None:
            return problem_of(self._task)
        place = {position: place for place, position in enumerate(self.positions)}
        key = f"{self._task.id}#{'+'.join(map(str, self.positions))}"
        return Problem(key, subject_of(self._task), tuple(self._step(position, place) for position in self.positions))

    def _step(self, position: int, place: Mapping[int, int]) -> Step:
        part = self._parts[position]
        step = part.step(tuple(place[need] for need in part.needs if need in place))
        premises = [premise for need in part.needs for premise in self._premises[need]]
        if not premises:
            return step
        wrong = part.wrong or (UNKNOWN,)  # right reasoning from a wrong premise gives a wrong answer
        chosen = zlib.crc32(premises[0].encode()) % len(wrong)
        return msgspec.structs.replace(step, answer=wrong[chosen], wrong=(*wrong[:chosen], *wrong[chosen + 1 :]))

    def _find(self, content: frozenset[str]) -> int | None:
        """Return the part that has most words in common with the text, if those are enough.

        A part's words are those of its sub-question and, in place of values that the text does not state, the words by
        which they are found. Wrong values count as the right ones.
        """
        pairs = []
        for position, part in enumerate(self._parts):
            words = content
            for need in part.needs:
                for wrong in self._premises[need]:
                    words = (words - _content_words(wrong)) | _content_words(self._parts[need].answer)
            pairs.append((words, self._words(position)))
        return most_similar((content, _content_words(self._task.instruction)), pairs)

    def _words(self, position: int) -> frozenset[str]:
        part = self._parts[position]
        words = _content_words(part.question)
        for need in part.needs:
            if need not in self._stated:
                words = (words - _content_words(self._parts[need].answer)) | self._words(need)
        return words


def _bare(value: str) -> str:
    return _ARTICLE.sub("", value)


def _content_words(text: str) -> frozenset[str]:
    """Return the words of a text without function words; all of them if there are no others."""
    return words_of(text) - _FUNCTION_WORDS or words_of(text)


def _passages(context: ToolContext) -> Iterator[Mapping[str, Any]]:
    """Yield the passages that the conversation shows: results of searches, or quoted in a sub-agent's reply."""
    for call in _successful(context):
        yield from _hits(call.value)
        if isinstance(call.value, str):
            for inner in _inner(call.children):
                yield from (passage for passage in _hits(inner.value) if passage["text"] in call.value)


def _inner(children: Sequence[InnerCall]) -> Iterator[InnerCall]:
    for child in children:
        yield child
        yield from _inner(child.children)


def _hits(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the passages of a search's result (`toolorchestra.envs.tools.search.found`)."""
    for group in value if isinstance(value, list) else ():
        if isinstance(group, Mapping) and "query" in group:
            yield from group.get("passages", ())


# ------------------------------------------------------------------------------------------------------ domains


def _next_step(world: Domain, context: ToolContext) -> Problem:
    task = context.task
    path, position = _position(world, context)
    if position is None:
        return _answer_problem(world, task)
    guesser = copy.copy(_guesser(world))
    guesser.rng = random.Random(f"{task.id}/{position}")
    right, *wrong = (write_calls([call]) for call in (path[position], *_other_calls(context, guesser, path, position)))
    mistakes = tuple(text for text in dict.fromkeys(wrong) if text != right)
    note = None
    if task.attack is not None and not any(call.name == task.attack.calls[0].name for call in _successful(context)):
        note = write_calls(task.attack.calls[:1])
    return _single(f"{task.id}@{position}", Step(right, (*mistakes, UNKNOWN), (), level_difficulty(task), None, note))


def _answer_problem(world: Domain, task: Task) -> Problem:
    others = [answer for answer in _answers(world, task.intent) if answer != task.answer]
    wrong = random.Random(task.id).sample(others, min(3, len(others)))
    return _single(f"{task.id}@answer", Step(task.answer, (*wrong, UNKNOWN), (), level_difficulty(task)))


def _single(key: str, step: Step) -> Problem:
    return Problem(key, SUBJECT, (step,))


def _position(world: Domain, context: ToolContext) -> tuple[Sequence[Call], int | None]:
    """Return the reference trajectory that the episode follows furthest, and the position of its next call.

    A call of a read tool is no longer due once a call of a later stage has been made, which must have known enough.
    """
    made = {(call.name, msgspec.json.encode(call.arguments)) for call in _successful(context)}
    paths = (context.task.reference_calls, *context.task.alternatives)
    followed = [[(call.name, _arguments(world.tools[call.name], call)) in made for call in path] for path in paths]
    path, done = max(zip(paths, followed, strict=True), key=lambda pair: sum(pair[1]))
    furthest = max((call.stage for call, is_done in zip(path, done, strict=True) if is_done), default=-1)
    for position, call in enumerate(path):
        due = not done[position] and (call.stage >= furthest or world.tools[call.name].effect == "write")
        if due and call.name in context.tools:
            return path, position
    return path, None


def _arguments(tool: Tool, call: Call) -> bytes:
    return msgspec.json.encode(tool.decode(msgspec.json.encode(call.arguments)))


def _other_calls(context: ToolContext, guesser: Guesser, path: Sequence[Call], position: int) -> Iterator[Call]:
    """Yield what might be called by mistake, the likeliest first: another value, what comes later, another tool."""
    call, tools = path[position], [tool for name, tool in context.tools.items() if name in context.world.tools]
    parameters = context.tools[call.name].parameters
    names = sorted(call.arguments)
    for name in guesser.rng.sample(names, min(2, len(names))):
        yield Call(call.name, {**call.arguments, name: guesser.other(parameters[name], call.arguments[name])})
    if position + 1 < len(path):
        yield path[position + 1]
    other = guesser.rng.choice(tools)
    yield Call(other.name, guesser.arguments(other))


@functools.lru_cache(maxsize=64)
def _guesser(world: Domain) -> Guesser:
    """Return what knows the plausible values of a domain; copy it and set `rng` to draw from it."""
    return Guesser(world.database, random.Random(0))


@functools.lru_cache(maxsize=4096)
def _answers(world: Domain, intent: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(task.answer for task in world.tasks() if task.intent == intent))
