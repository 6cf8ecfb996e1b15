r"""What a mind is really asked: the truth about which a simulated expert or sub-agent errs, read off a context.

In a world of questions it is the question, or the part of it that the words mean; in a domain it is the next call of
the reference trajectory, or the answer when there is none left. Real models are never shown any of it.

Not covered: how often a mind gets it right (`toolorchestra.agents.experts.specification`), and who is shown what of
the conversation.
"""

from __future__ import annotations

import copy
import functools
import random
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.policies.base import write_calls
from toolorchestra.agents.problems import Problem, Step, facts
from toolorchestra.agents.subagents.reading import answer_in
from toolorchestra.envs.episode import CallRecord
from toolorchestra.envs.sources.questions import Part, parts_of
from toolorchestra.envs.sources.questions import problem as problem_of
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.guess import Guesser
from toolorchestra.toolscale.mentions import mentions, tokens
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import InnerCall, Status, Tool, ToolContext

SUBJECT = "function_calling"
"""Subject of the skill that the steps of a domain's tasks take."""
PER_LEVEL = 0.4
"""How much harder, in logits, a step is on each further level of difficulty."""
UNREAD = 3.0
"""How much harder still, in logits, is a fact that only a library tells, while no passage has been found that does."""
UNKNOWN = "I could not find that out."
"""An answer that is right nowhere."""

_ALIKE = 0.6  # share of telling words that what is asked must have in common with a part
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_FILLERS = frozenset((
    "a", "an", "the", "of", "in", "on", "at", "to", "by", "for", "and", "or", "is", "are", "was", "were", "be", "do",
    "does", "did", "what", "which", "who", "whom", "whose", "where", "when", "how", "that", "this", "it", "its",
))  # fmt: skip


def truth(context: ToolContext, asked: str | None = None, *, searches: bool = False) -> Problem:
    """Return what a mind is really asked.

    Of a question: the part that `asked` puts in words, or else the whole. What the part needs and `asked` does not say
    comes along as further steps: asking by description costs those. A part that is asked on a wrong premise has a wrong
    answer. Facts that stand in a library are `UNREAD` harder until passages that tell them have been found.

    Of a task in a domain, whatever the words: the next step that has not been done, as a ``<tool_call>`` block, or the
    answer to the user. An attack that the request holds is a note about it until it has been carried out.

    Args:
        context: The episode so far.
        asked: What is asked in words; None for the user's request.
        searches: The mind looks up by itself what it does not know, so that nothing is harder for not being found yet.
    """
    if isinstance(context.world, Domain):
        return _next_step(context.world, context)
    parts = parts_of(context.task)
    asking = _Asked(context.task, parts, asked)
    problem = asking.problem()
    if searches or not any(part.support for part in parts):
        return problem
    read = {passage["id"] for passage in _passages(context)}
    steps = tuple(
        msgspec.structs.replace(step, difficulty=step.difficulty + UNREAD)
        if parts[position].support and not read.issuperset(parts[position].support)
        else step
        for position, step in zip(asking.positions, problem.steps, strict=True)
    )
    return msgspec.structs.replace(problem, steps=steps)


def conclusion(context: ToolContext) -> Problem:
    """Return what a mind is asked that has to sum the episode up.

    In a domain the right answer can only be given once what must be told stands in the results, or all steps are done;
    before, no answer is right.
    """
    task, world = context.task, context.world
    if not isinstance(world, Domain):
        return truth(context)
    if _position(world, context)[1] is not None:
        said = tokens(" ".join(msgspec.json.encode(call.value).decode() for call in _fine(context)))
        if not task.communicate or not all(any(mentions(said, phrase) for phrase in one) for one in task.communicate):
            return _alone(f"{task.id}@answer", Step(UNKNOWN, difficulty=_hardness(task)))
    return _answer_problem(world, task)


def queries(context: ToolContext, asked: str | None = None) -> tuple[str, ...]:
    """Return, for each step of what is asked, the words in which it would be looked up; "" for one thought out.

    There are none in a domain, and for questions whose parts are not known.
    """
    parts = () if isinstance(context.world, Domain) else parts_of(context.task)
    if not parts:
        return ()
    asking = _Asked(context.task, parts, asked)
    found = set(facts(asking.problem()))
    return tuple(
        parts[position].question if place in found or parts[position].support else ""
        for place, position in enumerate(asking.positions)
    )


def evidence(context: ToolContext) -> str:
    """Return, of the passages that the conversation shows, those that tell what the question needs."""
    parts = () if isinstance(context.world, Domain) else parts_of(context.task)
    wanted = {support for part in parts for support in part.support}
    told = {passage["id"]: passage for passage in _passages(context) if not wanted or passage["id"] in wanted}
    return "\n".join(f"{passage['title']}: {passage['text']}" for passage in told.values())


def candidates(context: ToolContext) -> tuple[str, ...]:
    r"""Return the answers to the whole request that stand in the conversation.

    First comes one that the orchestrator itself writes in ``\boxed{}`` beside the call, then those that minds gave, in
    the order in which they came.
    """
    own = answer_in(context.message) if r"\boxed{" in context.message else ""
    parts = () if isinstance(context.world, Domain) else parts_of(context.task)
    given = []
    for call in _fine(context):
        tool = context.tools.get(call.name)
        if tool is None or not tool.uses_episode or not call.children:
            continue
        arguments = call.arguments or {}
        asked = arguments.get("question") or arguments.get("subtask")
        if _Asked(context.task, parts, asked).is_whole:
            given.append(_given(call.value))
    return tuple(answer for answer in (own, *given) if answer)


def _given(value: Any) -> str:
    """Return the answer in what a mind replied: a text that marks one, or an object with an ``answer``."""
    if isinstance(value, Mapping):
        return str(value.get("answer", ""))
    return answer_in(value) if isinstance(value, str) else ""


def _fine(context: ToolContext) -> Iterator[CallRecord]:
    return (call for call in context.calls if call.status is Status.OK)


# ---------------------------------------------------------------------------------------------------- questions

_read = functools.lru_cache(maxsize=65_536)(lambda text: tuple(tokens(text)))  # the same texts come again and again


class _Asked:
    """What is asked of a question with known parts, read off the words.

    Attributes:
        positions: The parts to be gone through, in their order.
        meant: The part that is asked for; None for the whole question.
    """

    def __init__(self, task: Task, parts: Sequence[Part], text: str | None) -> None:
        self._task, self._parts = task, parts
        self.meant: int | None = None
        self.positions: Sequence[int] = range(len(parts))
        if text is not None and parts:
            self._said = tokens(text)
            self._held = [self._is_said(part.answer) for part in parts]
            self._premises = [[] if held else self._wrongly(part) for part, held in zip(parts, self._held, strict=True)]
            self.meant = self._find()
            if self.meant is not None:
                self.positions = self._chain(self.meant)

    @property
    def is_whole(self) -> bool:
        """Whether the answer to it is that to the whole question."""
        return self.meant is None or [self.meant] == [
            target % len(self._parts) for target in self._task.bindings.get("targets", (-1,))
        ]

    def problem(self) -> Problem:
        """Return what a mind has to work out."""
        if self.meant is None:
            return problem_of(self._task)
        place = {position: place for place, position in enumerate(self.positions)}
        steps = []
        for position in self.positions:
            part = self._parts[position]
            needs = tuple(place[needed] for needed in part.needs if needed in place)
            step = Step(part.answer, part.wrong, needs, part.difficulty, part.subject, part.note)
            if believed := [premise for needed in part.needs for premise in self._premises[needed]]:
                # whoever reasons rightly from a wrong premise comes to a wrong end
                ends = part.wrong or (UNKNOWN,)
                end = zlib.crc32(believed[0].encode()) % len(ends)
                step = msgspec.structs.replace(step, answer=ends[end], wrong=(*ends[:end], *ends[end + 1 :]))
            steps.append(step)
        key = f"{self._task.id}#{'+'.join(map(str, self.positions))}"
        return Problem(key, str(self._task.bindings.get("subject", self._task.domain)), tuple(steps))

    def _find(self) -> int | None:
        """Return the part that has most words in common with what is asked, if those are enough.

        A part's words are those of its sub-question and, in place of values that are not said, the words by which they
        are found. Wrong values count as the right ones.
        """
        telling = _telling(self._said)
        best, most = None, max(_ALIKE, _likeness(telling, _telling(_read(self._task.instruction))))
        for position, part in enumerate(self._parts):
            words = telling
            for needed in part.needs:
                for wrong in self._premises[needed]:
                    words = (words - _telling(_read(wrong))) | _telling(_read(self._parts[needed].answer))
            if (alike := _likeness(words, self._words(position))) > most:
                best, most = position, alike
        return best

    def _words(self, position: int) -> set[str]:
        part = self._parts[position]
        words = _telling(_read(part.question))
        for needed in part.needs:
            if not self._settled(needed):
                words = (words - _telling(_read(self._parts[needed].answer))) | self._words(needed)
        return words

    def _chain(self, position: int) -> list[int]:
        """Return the part and those on the way to it whose values are not said."""
        due, found = [position], set[int]()
        while due:
            at = due.pop()
            found.add(at)
            due += [needed for needed in self._parts[at].needs if needed not in found and not self._settled(needed)]
        return sorted(found)

    def _settled(self, position: int) -> bool:
        """Return whether a part's value is said, rightly or wrongly."""
        return self._held[position] or bool(self._premises[position])

    def _wrongly(self, part: Part) -> list[str]:
        """Return the wrong answers to a part that are taken for granted: said, and not by the question itself."""
        given = _read(self._task.instruction)
        return [wrong for wrong in part.wrong if self._is_said(wrong) and not mentions(given, _bare(wrong))]

    def _is_said(self, value: str) -> bool:
        return mentions(self._said, _bare(value))


def _bare(value: str) -> str:
    return _ARTICLE.sub("", value)


def _telling(words: Iterable[str]) -> set[str]:
    found = set(words)
    return found - _FILLERS or found


def _likeness(words: set[str], others: set[str]) -> float:
    return len(words & others) / max(1, len(words | others))


def _passages(context: ToolContext) -> Iterator[Mapping[str, Any]]:
    """Yield the passages that the conversation shows: results of searches, or quoted in a sub-agent's reply."""
    for call in _fine(context):
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
    if isinstance(value, list):
        for group in value:
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
    if task.attack is not None and not any(call.name == task.attack.calls[0].name for call in _fine(context)):
        note = write_calls(task.attack.calls[:1])
    return _alone(f"{task.id}@{position}", Step(right, (*mistakes, UNKNOWN), (), _hardness(task), None, note))


def _answer_problem(world: Domain, task: Task) -> Problem:
    others = [answer for answer in _answers(world, task.intent) if answer != task.answer]
    wrong = random.Random(task.id).sample(others, min(3, len(others)))
    return _alone(f"{task.id}@answer", Step(task.answer, (*wrong, UNKNOWN), (), _hardness(task)))


def _alone(key: str, step: Step) -> Problem:
    return Problem(key, SUBJECT, (step,))


def _hardness(task: Task) -> float:
    return PER_LEVEL * (task.difficulty - 1)


def _position(world: Domain, context: ToolContext) -> tuple[Sequence[Call], int | None]:
    """Return the reference trajectory that the episode follows furthest, and the position of its next call.

    A call that only looks something up is due no more once a call of a later stage has been made: whoever made that one
    knew what it takes.
    """
    made = {(call.name, msgspec.json.encode(call.arguments)) for call in _fine(context)}
    best: Sequence[Call] = ()
    most = -1
    done: list[bool] = []
    for path in (context.task.reference_calls, *context.task.alternatives):
        followed = [(call.name, _arguments(world.tools[call.name], call)) in made for call in path]
        if sum(followed) > most:
            best, most, done = path, sum(followed), followed
    furthest = max((call.stage for call, is_done in zip(best, done, strict=True) if is_done), default=-1)
    for position, call in enumerate(best):
        due = not done[position] and (call.stage >= furthest or world.tools[call.name].effect == "write")
        if due and call.name in context.tools:
            return best, position
    return best, None


def _arguments(tool: Tool, call: Call) -> bytes:
    return msgspec.json.encode(tool.decode(msgspec.json.encode(call.arguments)))


def _other_calls(context: ToolContext, guesser: Guesser, path: Sequence[Call], position: int) -> Iterator[Call]:
    """Yield what might be called by mistake, the likeliest first: another value, what comes later, another tool."""
    call, tools = path[position], [tool for name, tool in context.tools.items() if name in context.world.tools]
    parameters = context.tools[call.name].parameters
    names = sorted(call.arguments)
    for name in guesser.rng.sample(names, min(2, len(names))):
        value = guesser.other(parameters[name], call.arguments[name])
        yield Call(call.name, {**call.arguments, name: value})
    if position + 1 < len(path):
        yield path[position + 1]
    other = guesser.rng.choice(tools)
    yield Call(other.name, guesser.arguments(other))


@functools.lru_cache(maxsize=64)
def _guesser(world: Domain) -> Guesser:
    """Return what knows the plausible values of a domain; whoever draws from it copies it and brings the luck."""
    return Guesser(world.database, random.Random(0))


@functools.lru_cache(maxsize=4096)
def _answers(world: Domain, intent: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(task.answer for task in world.tasks() if task.intent == intent))
