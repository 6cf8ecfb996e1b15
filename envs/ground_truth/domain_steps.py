"""What a question asks of the work in a domain: the step that it is about, and the problem that this poses.

The words of the question decide (`toolorchestra.envs.ground_truth.tool_words`):

- it asks what comes next, or for the whole request: the next call that is due, a look-up first while one is needed;
- it names a step that is due by its purpose and its values: that call, `NAMED` logits easier, since nothing has to be
  found out first; without the values, no easier. While its values cannot be known yet, what is due first;
- it asks for another call: that one, with the values that it names;
- it asks for a sum: its value;
- it asks for the final answer: the answer, which is right only once the facts are known;
- it lies beside the subject: an answer beside the subject.

A look-up of the task (`Task.lookups`) is due while a call of the reference trajectory that is due takes an id that
neither the request nor a result has shown, and the look-up would show it; once the id is known, in whatever way, it is
not. It is as hard as a task of level 1, since levels count the reference calls alone; so is a call that repeats the one
before it for another entry. A step that is asked for by its words is harder for an expert whose trade it does not suit.
"""

from __future__ import annotations

import copy
import functools
import random
import zlib
from collections.abc import Iterator, Sequence

import msgspec

from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.experts.trades import MISPLACED, MISTAKES, WorkKind, is_misplaced
from toolorchestra.agents.policies.base import write_calls
from toolorchestra.agents.problems import Problem, Step
from toolorchestra.envs.episode import CallRecord
from toolorchestra.envs.ground_truth.parts import level_difficulty
from toolorchestra.envs.ground_truth.tool_words import ToolWords, argument_specs, tool_words
from toolorchestra.envs.ground_truth.wording import (
    MAX_CHARACTERS,
    UNCLEAR,
    UNKNOWN,
    Balance,
    asks_for_all,
    asks_for_sum,
    asks_next,
    asks_to_conclude,
    beside,
    content,
    repeats,
    sum_problem,
)
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.guess import Guesser
from toolorchestra.toolscale.lookups import finds, ids_known, ids_taken, raw_ids
from toolorchestra.toolscale.mentions import mentions, tokens
from toolorchestra.toolscale.task import Call, Task, after_lookups
from toolorchestra.toolscale.tool import Status, Tool, ToolContext
from toolorchestra.toolscale.typed_answers import SUBMIT, AnswerSlot

SUBJECT = "function_calling"
"""Subject of the skill that the steps of a domain's tasks take."""
NAMED = 1.0
"""How much easier, in logits, a step is that is asked for by its purpose and values than one that must be found."""

_NEAR = 0.85  # share of the best tool's score with which another may be meant as well
_NEAR_NAMED = 0.8  # the same for a step all of whose values are named
_VALUES = 0.2  # what naming all values of a step counts, beside that share
_PATIENCE = 2  # foreign words for each other one, in a question that names values


def step_asked(world: Domain, context: ToolContext, text: str | None, role: Role | None = None) -> Problem:
    """Return the problem of what a text asks an expert in a role; of what comes next if it is None."""
    steps = _Steps(world, context)
    if text is None or repeats(text, context.task.instruction):
        return steps.next()
    return _Asked(steps, text, role).problem()


def conclusion(world: Domain, context: ToolContext) -> Problem:
    """Return the problem of the final answer.

    None is right until the results hold what must be communicated, or all steps are done.
    """
    return _Steps(world, context).conclusion()


class _Steps:
    """The steps of a task, and which of them are due.

    Attributes:
        path: The task's look-ups and the reference trajectory that the episode follows furthest.
        due: The positions of its calls that have not been made: look-ups that are needed, and the calls of the
            reference trajectory, those of which another made the result needless apart.
    """

    def __init__(self, world: Domain, context: ToolContext) -> None:
        self.world, self.context, self.task = world, context, context.task
        self._made = {(call.name, msgspec.json.encode(call.arguments)) for call in successful(context)}
        calls = max(
            (self.task.reference_calls, *self.task.alternatives), key=lambda path: sum(map(self._is_done, path))
        )
        self.path = after_lookups(self.task.lookups, calls)
        self._done = [self._is_done(call) for call in self.path]
        first = len(self.task.lookups)
        stages = (call.stage for call, is_done in zip(self.path[first:], self._done[first:], strict=True) if is_done)
        furthest = max(stages, default=-1)
        due = [
            position
            for position, call in enumerate(self.path[first:], first)
            if not self._done[position]
            and (call.stage >= furthest or world.tools[call.name].effect == "write")
            and call.name in context.tools
        ]
        self.due = [*self._lookups_needed(calls, due), *due]

    def _is_done(self, call: Call) -> bool:
        return (call.name, _arguments(self.world.tools[call.name], call)) in self._made

    def _lookups_needed(self, calls: Sequence[Call], due: Sequence[int]) -> list[int]:
        """Return the positions of the look-ups that have not been made and find an id that a step that is due needs."""
        if not self.task.lookups:
            return []
        needed = {taken for position in due for taken in self._ids_lacking(self.path[position])}
        positions = []
        for position, found in reversed(list(enumerate(_finds(self.world, self.task, calls)))):
            call = self.path[position]
            if not self._done[position] and not found.isdisjoint(needed) and call.name in self.context.tools:
                positions.append(position)
                needed.update(self._ids_lacking(call))
        return positions[::-1]

    @functools.cached_property
    def _known(self) -> set[str]:
        """The ids that the request and results of the world's tools have shown; what experts propose is no result."""
        own = (call for call in self.context.calls if call.name in self.world.tools)
        return ids_known(self.world, self.task.instruction, ((call.value, call.error) for call in own))

    def _ids_lacking(self, call: Call) -> set[str]:
        """Return the ids that a call takes and nothing has shown."""
        return set(ids_taken(call, raw_ids(self.world))) - self._known

    def next(self) -> Problem:
        """Return the problem of finding and taking the next step; of the answer when none is due."""
        return self.answer() if not self.due else self.at(self.due[0])

    def at(self, position: int, easier: float = 0.0, role: Role | None = None) -> Problem:
        """Return the problem of one call of the path, so many logits easier; `role` has to take it by its means."""
        context, path, task = self.context, self.path, self.task
        guesser = copy.copy(_guesser(self.world))
        guesser.rng = random.Random(f"{task.id}/{position}")
        later = next((call for call in path[position + 1 : position + 2] if not self._ids_lacking(call)), None)
        calls = (path[position], *_other_calls(context, guesser, path[position], later))
        right, *wrong = (write_calls([call]) for call in calls)
        mistakes = tuple(text for text in dict.fromkeys(wrong) if text != right)
        note = None
        if task.attack is not None and not any(c.name == task.attack.calls[0].name for c in successful(context)):
            note = write_calls(task.attack.calls[:1])
        step = Step(right, (*mistakes, UNKNOWN), (), self._difficulty(position) - easier, None, note)
        return _single(f"{task.id}@{position}", _by_trade(step, role, kind_of_work(context.tools[path[position].name])))

    def _difficulty(self, position: int) -> float:
        """Return how hard a step is, in logits; a look-up, or the same call for the next entry, is easy."""
        before, call = self.path[position - 1], self.path[position]
        again = position > 0 and self._done[position - 1] and (before.name, before.stage) == (call.name, call.stage)
        return 0.0 if again or position < len(self.task.lookups) else level_difficulty(self.task)

    def other(self, call: Call, role: Role | None) -> Problem:
        """Return the problem of a call that is not due, but asked for."""
        text = write_calls([call])
        step = Step(text, (UNCLEAR, UNKNOWN), (), level_difficulty(self.task) - NAMED)
        key = f"{self.task.id}@{zlib.crc32(text.encode())}"
        return _single(key, _by_trade(step, role, kind_of_work(self.context.tools[call.name])))

    def unclear(self) -> Problem:
        """Return the problem of a question that cannot be answered by a call."""
        return _single(f"{self.task.id}@unclear", Step(UNCLEAR, (UNKNOWN,), (), level_difficulty(self.task)))

    def answer(self) -> Problem:
        """Return the problem of wording the answer."""
        task, typed = self.task, self.context.typed
        if typed is None:
            right, others = (
                task.answer,
                [answer for answer in _answers(self.world, task.intent) if answer != task.answer],
            )
        else:
            right = typed.written()
            others = [text for slots, text in _typed_answers(self.world, task.intent) if slots == typed.slots]
            others = [text for text in others if text != right]
        wrong = random.Random(task.id).sample(others, min(3, len(others)))
        if typed is not None and SUBMIT in self.context.tools:
            right, *wrong = (write_calls([Call(SUBMIT, msgspec.json.decode(text))]) for text in (right, *wrong))
        return _single(f"{task.id}@answer", Step(right, (*wrong, UNKNOWN), (), level_difficulty(task)))

    def conclusion(self) -> Problem:
        """Return the problem of the answer, which is right only once its facts are known."""
        task = self.task
        if self.due:
            seen = self.seen()
            if not task.communicate or not all(any(mentions(seen, text) for text in one) for one in task.communicate):
                return _single(f"{task.id}@answer", Step(UNKNOWN, difficulty=level_difficulty(task)))
        return self.answer()

    def seen(self) -> list[str]:
        """Return the tokens of all results."""
        return tokens(" ".join(msgspec.json.encode(call.value).decode() for call in successful(self.context)))

    def done(self, name: str) -> Call | None:
        """Return the last call of a tool on the path that was made."""
        made = [call for call, is_done in zip(self.path, self._done, strict=True) if is_done and call.name == name]
        return made[-1] if made else None


class _Asked:
    """A text, compared with the steps that are due and with the tools of the place."""

    def __init__(self, steps: _Steps, text: str, role: Role | None) -> None:
        self._steps, self._text, self._role = steps, text, role
        self._words: ToolWords = tool_words(steps.world)
        self._written = tokens(text[:MAX_CHARACTERS])
        self._tools = steps.context.tools

    def problem(self) -> Problem:
        """Return the problem that the text poses."""
        steps, text = self._steps, self._text
        request = steps.task.instruction
        scores = {name: score for name, score in self._words.scores(text).items() if name in self._tools}
        balance = Balance(text, self._words.subject_words([request]))
        if balance.foreign:
            balance = Balance(text, self._words.subject_words([request]) | self._value_words())
        named = self._named_step(scores, balance)
        if named is not None:
            return named
        if asks_to_conclude(text) and not asks_next(text):
            return steps.conclusion()
        if (expression := asks_for_sum(text)) is not None:
            return sum_problem(steps.task.id, expression, self._role)
        if asks_for_all(text, request, self._words.subject_words([request])):
            return steps.next()
        if scores and not balance.is_beside:
            return self._another(scores, balance)
        return beside(steps.task.id, text) if balance.is_beside else steps.unclear()

    def _named_step(self, scores: dict[str, float], balance: Balance) -> Problem | None:
        """Return the problem of the step that is due and that the text names, if there is one."""
        most = max(scores.values(), default=0.0)
        best: tuple[float, int, bool, int] | None = None
        for position in self._steps.due:
            call = self._steps.path[position]
            if call.name not in scores:
                continue
            specs = list(argument_specs(self._tools[call.name], call.arguments))
            if any(self._words.contradicts(self._written, spec, value) for spec, value in specs):
                continue
            values = sum(self._words.names_value(self._written, spec, value) for spec, value in specs)
            least = _NEAR_NAMED if specs and values == len(specs) else _NEAR
            if scores[call.name] < least * most or not self._is_about(balance, values, len(specs)):
                continue
            if specs and not values and not self._words.says_verb(self._text, call.name):
                continue
            fit = scores[call.name] / most + _VALUES * values / max(1, len(specs))
            rank = (fit, -position, values == len(specs), values)
            best = rank if best is None else max(best, rank)
        if best is None:
            return None
        _, place, all_named, values = best
        position = -place
        if not self._can_be_known(position):
            return self._steps.next()
        if asks_next(self._text) and not values and self._steps.path[position].arguments:
            return None
        return self._steps.at(position, NAMED if all_named else 0.0, self._role)

    def _is_about(self, balance: Balance, values: int, parameters: int) -> bool:
        """Return whether few enough words of the text are of something else to take it as meant."""
        near, foreign = len(balance.known) + len(balance.work), len(balance.foreign)
        if values or not parameters:
            return foreign <= _PATIENCE * near
        return near > 1 and 3 * foreign <= near

    def _can_be_known(self, position: int) -> bool:
        """Return whether the values of a step, not only their names, stand in the request, the results or the text."""
        call = self._steps.path[position]
        if position == self._steps.due[0] or call.stage <= self._steps.path[self._steps.due[0]].stage:
            return True
        known = [*tokens(self._steps.task.instruction), *self._steps.seen(), *self._written]
        values = (item for value in call.arguments.values() for item in (value if isinstance(value, list) else [value]))
        return all(mentions(known, str(value)) for value in values if value is not None)

    def _another(self, scores: dict[str, float], balance: Balance) -> Problem:
        """Return the problem of the call that the text asks for, which is not due."""
        request = "" if balance.foreign else self._steps.task.instruction
        least = _NEAR * max(scores.values())
        for name in sorted((name for name in scores if scores[name] >= least), key=scores.__getitem__, reverse=True):
            call = self._words.call_in(self._tools[name], self._text, request) or self._steps.done(name)
            if call is not None:
                return self._steps.other(call, self._role)
        return self._steps.unclear()

    def _value_words(self) -> frozenset[str]:
        """Return the words of the values that the text names."""
        columns = {spec.column for tool in self._steps.world.tools.values() for spec in tool.parameters.values()}
        found: set[str] = set()
        for column in columns - {None}:
            for value in self._words.values_named(str(column), self._written):
                for spelling in self._words.named(str(column), value):
                    found.update(content(spelling))
        return frozenset(found)


def successful(context: ToolContext) -> Iterator[CallRecord]:
    """Yield the calls that succeeded before this one."""
    return (call for call in context.calls if call.status is Status.OK)


def _by_trade(step: Step, role: Role | None, work: WorkKind) -> Step:
    """Return a step as it is for an expert in a role who is asked for it by name."""
    if role is None or not is_misplaced(role, work):
        return step
    return msgspec.structs.replace(step, difficulty=step.difficulty + MISPLACED, wrong=(MISTAKES[role], *step.wrong))


def kind_of_work(tool: Tool) -> WorkKind:
    """Return which kind of work a call of a tool is."""
    if tool.effect == "write":
        return "change"
    return "computation" if tool.effect == "pure" else "lookup"


def _single(key: str, step: Step) -> Problem:
    return Problem(key, SUBJECT, (step,))


def _arguments(tool: Tool, call: Call) -> bytes:
    return msgspec.json.encode(tool.decode(msgspec.json.encode(call.arguments)))


def _other_calls(context: ToolContext, guesser: Guesser, call: Call, later: Call | None) -> Iterator[Call]:
    """Yield what might be called by mistake, the likeliest first: another value, what comes later, another tool."""
    tools = [tool for name, tool in context.tools.items() if name in context.world.tools]
    parameters = context.tools[call.name].parameters
    names = sorted(call.arguments)
    for name in guesser.rng.sample(names, min(2, len(names))):
        yield Call(call.name, {**call.arguments, name: guesser.other(parameters[name], call.arguments[name])})
    if later is not None:
        yield later
    other = guesser.rng.choice(tools)
    yield Call(other.name, guesser.arguments(other))


@functools.lru_cache(maxsize=64)
def _guesser(world: Domain) -> Guesser:
    """Return what knows the plausible values of a domain; copy it and set `rng` to draw from it."""
    return Guesser(world.database, random.Random(0))


@functools.lru_cache(maxsize=4096)
def _answers(world: Domain, intent: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(task.answer for task in world.tasks() if task.intent == intent))


@functools.lru_cache(maxsize=4096)
def _typed_answers(world: Domain, intent: str) -> tuple[tuple[tuple[AnswerSlot, ...], str], ...]:
    """Return the typed answers to the tasks of an intent, each once, with their slots."""
    answers = (world.slots.of(task) for task in world.tasks() if task.intent == intent)
    return tuple(dict.fromkeys((typed.slots, typed.written()) for typed in answers))


def _finds(world: Domain, task: Task, calls: Sequence[Call]) -> tuple[frozenset[str], ...]:
    """Return for each look-up of a task the ids that it is needed for; see `finds`."""
    return _finds_encoded(world, task.instruction, msgspec.json.encode((task.lookups, calls)))


@functools.lru_cache(maxsize=4096)
def _finds_encoded(world: Domain, instruction: str, encoded: bytes) -> tuple[frozenset[str], ...]:
    lookups, calls = msgspec.json.decode(encoded, type=tuple[tuple[Call, ...], tuple[Call, ...]])
    session = world.session()
    try:
        return finds(world, instruction, lookups, calls, session)
    finally:
        session.close()
