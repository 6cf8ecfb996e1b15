"""What a question asks of the work in a domain, and the problem that this poses to who is asked.

What can be worked out follows from what is given (`toolorchestra.envs.ground_truth.given`). A step needs

- its purpose: the user's request, or a question that is about its tool, which similarity to the tools tells
  (`toolorchestra.envs.ground_truth.tool_similarity`). A question that is similar to no tool may be in any language, and
  is taken as meant if it names the values;
- its values, which must stand in what is given: ids always, others if the conversation shows them, since what it does
  not show, such as the day that "next Monday" is, is understood from the request.

Of the steps that are due and have all of it, the one that the question names is the problem, else the first one. It is
`NAMED` logits easier if the question names its purpose and all its values, as nothing has to be found out first. If
only the purpose is lacking, it is `GUESSED` logits harder. If values are lacking, what is right is to say so. The
answer is a step like the others; it is due when no call is.

A look-up of the task (`Task.lookups`) is due while a call of the reference trajectory that is due takes an id that
neither the request nor a result has shown, and the look-up would show it; once the id is known, in whatever way, it is
not. It is as hard as a task of level 1, since levels count the reference calls alone; so is a call that repeats the one
before it for another entry. A step is harder for an expert whose trade it does not suit.
"""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.experts.specialties import HARDER_OUTSIDE, MISTAKES, WorkKind, outside_specialty
from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.policies.base import write_calls
from toolorchestra.agents.problems import Problem, Step
from toolorchestra.envs.ground_truth.given import MAX_CHARACTERS, UNCLEAR, UNKNOWN, UNTOLD, Given, repeats, unclear
from toolorchestra.envs.ground_truth.parts import level_difficulty
from toolorchestra.envs.ground_truth.sums import asked_sum, sum_problem
from toolorchestra.envs.ground_truth.tool_similarity import tool_similarity
from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.toolscale.answers.mentions import fact_tokens, mentions, tokens
from toolorchestra.toolscale.answers.typed_answers import SUBMIT, AnswerSlot
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.lookups import finds, ids_in, ids_known, ids_taken, is_id, raw_ids
from toolorchestra.toolscale.tasks.task import Call, Task, after_lookups
from toolorchestra.toolscale.tools.guess import Guesser
from toolorchestra.toolscale.tools.tool import Status, Tool, ToolContext

SUBJECT = "function_calling"
"""Subject of the skill that the steps of a domain's tasks take."""
NAMED = 1.0
"""How much easier, in logits, a step is that is asked for by its purpose and values than one that must be found."""
GUESSED = 3.0
"""How much harder, in logits, a step is whose values are given and whose purpose is not."""

_SIMILAR = 0.25  # least similarity of a question that is about a tool
_NEAR = 0.7  # share of the similarity to the most similar tool with which another may be meant as well
_FEWEST_WORDS = 2  # of a question that is similar to no tool
_MOST_OTHERS = 6  # values that may stand beside those of the step that is meant


def step_asked(world: Domain, context: ToolContext, given: Given, role: Role | None = None) -> Problem:
    """Return the problem of what an expert in a role is asked, with what it is given."""
    return _Asked(_Steps(world, context), given, role).problem()


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

    def at(self, position: int, role: Role | None = None, harder: float = 0.0) -> Problem:
        """Return the problem of one call of the path, so many logits harder; `role` has to take it by its means."""
        context, path, task = self.context, self.path, self.task
        guesser = self._guesser(position)
        later = next((call for call in path[position + 1 : position + 2] if not self._ids_lacking(call)), None)
        calls = (path[position], *_other_calls(context, guesser, path[position], later))
        right, *wrong = (write_calls([call]) for call in calls)
        mistakes = tuple(text for text in dict.fromkeys(wrong) if text != right)
        note = None
        if task.attack is not None and not any(c.name == task.attack.calls[0].name for c in successful(context)):
            note = write_calls(task.attack.calls[:1])
        step = Step(right, (*mistakes, UNKNOWN), (), self._difficulty(position) + harder, None, note)
        return _single(f"{task.id}@{position}", _by_trade(step, role, kind_of_work(context.tools[path[position].name])))

    def _guesser(self, position: int) -> Guesser:
        guesser = copy.copy(_guesser(self.world))
        guesser.rng = random.Random(f"{self.task.id}/{position}")
        return guesser

    def _difficulty(self, position: int) -> float:
        """Return how hard a step is, in logits; a look-up, or the same call for the next entry, is easy."""
        before, call = self.path[position - 1], self.path[position]
        again = position > 0 and self._done[position - 1] and (before.name, before.stage) == (call.name, call.stage)
        return 0.0 if again or position < len(self.task.lookups) else level_difficulty(self.task)

    def answer(self, harder: float = 0.0) -> Problem:
        """Return the problem of giving the answer, so many logits harder."""
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
        return _single(f"{task.id}@answer", Step(right, (*wrong, UNKNOWN), (), level_difficulty(task) + harder))

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

    @functools.cached_property
    def _shown(self) -> list[str]:
        return [*tokens(self.task.instruction), *self.seen()]

    def is_shown(self, text: str) -> bool:
        """Return whether a text is an id, or stands in the request or a result."""
        return is_id(text) or mentions(self._shown, text)

    def arguments(self, position: int) -> dict[str, list[str]]:
        """Return the texts by which the values of a call are recognised, by parameter.

        Where a parameter lists its values, they are left out if there are others: people have words of their own for
        them.
        """
        call = self.path[position]
        specs = self.context.tools[call.name].parameters
        given = {name: value for name, value in call.arguments.items() if value is not None and name in specs}
        given = {name: value for name, value in given.items() if not specs[name].enum} or given
        free = {name: not (specs[name].column or specs[name].format) for name in given}
        return {name: _texts(value, free=free[name]) for name, value in given.items()}

    def facts(self) -> dict[str, list[str]]:
        """Return the same of the answer, by slot, or by the number of a fact that prose must tell."""
        typed = self.context.typed
        if typed is None:
            return {str(number): [texts[0]] for number, texts in enumerate(self.task.communicate, 1)}
        pairs = zip(typed.slots, typed.values, strict=True)
        return {slot.name: _texts(value) for slot, value in pairs if value is not None and not slot.options}

    def without(self, position: int, lacking: Sequence[str]) -> Problem:
        """Return the problem of a call some of whose values were not given: to say which; it is wrong to guess them."""
        call = self.path[position]
        guesser = self._guesser(position)
        parameters = self.context.tools[call.name].parameters
        guessed = {name: guesser.other(parameters[name], call.arguments[name]) for name in lacking}
        wrong = write_calls([Call(call.name, {**call.arguments, **guessed})])
        said = UNTOLD.format(", ".join(lacking))
        key = f"{self.task.id}@{position} without {' '.join(lacking)}"
        return _single(key, Step(said, (wrong, UNKNOWN), (), self._difficulty(position)))

    def unclear(self, said: str = UNCLEAR) -> Problem:
        """Return the problem of a question that does not say what it is about; what is right is said."""
        return unclear(self.task.id, SUBJECT, said, level_difficulty(self.task))


_Due = int | None  # a position on the path, or None: the answer


class _Asked:
    """What is asked and given, compared with the steps that are due."""

    def __init__(self, steps: _Steps, given: Given, role: Role | None) -> None:
        self._steps, self._given, self._role = steps, given, role
        request = steps.task.instruction
        self._has_request = given.has_request(request)
        self._written = [*tokens(given.text), *fact_tokens(steps.world.rules)]  # these are always shown
        question = "" if repeats(given.question, request) else given.question[:MAX_CHARACTERS]
        self._question = tokens(question)
        self._similar = tool_similarity(steps.world).of(question)
        self._most_similar = max(self._similar.values())

    def problem(self) -> Problem:
        """Return the problem that is posed."""
        due: list[_Due] = [*self._steps.due] or [None]
        ready = [step for step in due if not self._lacking(step)]
        meant = [step for step in ready if self._is_meant(step)]
        named = [step for step in meant if self._is_named(step) and self._is_told(step)]
        if not named and (expression := asked_sum(self._given.question)) is not None:
            return sum_problem(self._steps.task.id, expression, self._role)
        if named or meant:
            return self._posed(self._nearest(named or meant), -NAMED if named else 0.0)
        if ready and self._has_request:
            return self._posed(ready[0])
        if guessed := [step for step in ready if self._hears_of(step)]:
            return self._posed(guessed[0], GUESSED)
        known = [step for step in due if self._has_request or self._is_meant(step)]
        return self._unready(known[0]) if known else self._steps.unclear()

    def _posed(self, step: _Due, harder: float = 0.0) -> Problem:
        return self._steps.answer(harder) if step is None else self._steps.at(step, self._role, harder)

    def _unready(self, step: _Due) -> Problem:
        """Return the problem of a step some of whose values are not given: it is right to say so."""
        if step is None:
            return self._steps.unclear(UNTOLD.format("the results"))
        return self._steps.without(step, self._lacking(step))

    def _nearest(self, steps: Sequence[_Due]) -> _Due:
        """Return the step that the question is most similar to; the first one if it is similar to none."""
        return max(steps, key=self._similarity) if self._most_similar >= _SIMILAR else steps[0]

    def _similarity(self, step: _Due) -> float:
        return self._similar[SUBMIT if step is None else self._steps.path[step].name]

    def _is_meant(self, step: _Due) -> bool:
        """Return whether the question is about a step: about its tool, or about its values in words of no tool."""
        if not self._has_request and not self._is_told(step):
            return False
        if self._most_similar >= _SIMILAR:
            return self._similarity(step) >= _NEAR * self._most_similar
        values = self._all_values(step)
        of_values = {token for texts in values.values() for text in texts for token in tokens(text)}
        words = {token for token in self._question if token.isalpha()} - of_values
        return bool(values) and len(words) >= _FEWEST_WORDS and self._is_named(step)

    def _is_named(self, step: _Due) -> bool:
        """Return whether the question names all values of a step."""
        return all(mentions(self._question, text) for texts in self._all_values(step).values() for text in texts)

    def _is_told(self, step: _Due, text: str | None = None) -> bool:
        """Return whether a text, by default the question, names few other values than those of a step.

        Whoever lists all that there is has not said which is meant.
        """
        own = {token for texts in self._all_values(step).values() for text in texts for token in tokens(text)}
        if text is not None:
            ids = ids_in(text, raw_ids(self._steps.world))
            return len([one for one in ids if not own.issuperset(tokens(one))]) <= _MOST_OTHERS
        return len({one for one in self._question if any(map(str.isdigit, one))} - own) <= _MOST_OTHERS

    def _hears_of(self, step: _Due) -> bool:
        """Return whether values of a step are given, beyond the rules, and few others: enough to guess it by."""
        texts = (text for texts in self._values(step).values() for text in texts)
        rules = fact_tokens(self._steps.world.rules)
        return any(not mentions(rules, text) for text in texts) and self._is_told(step, self._given.text)

    def _lacking(self, step: _Due) -> list[str]:
        """Return the names of the values of a step that are not given."""
        values, given = self._values(step), self._written
        lacking = [name for name, texts in values.items() if not all(mentions(given, text) for text in texts)]
        if step is None and self._has_request and not self._given.results and any(successful(self._steps.context)):
            lacking.append("results")
        return lacking

    def _values(self, step: _Due) -> dict[str, list[str]]:
        """Return what must be given of the values of a step, by the name of the parameter or slot."""
        every = self._all_values(step)
        if not self._has_request:
            return every
        shown = {name: [text for text in texts if self._steps.is_shown(text)] for name, texts in every.items()}
        return {name: texts for name, texts in shown.items() if texts}

    def _all_values(self, step: _Due) -> dict[str, list[str]]:
        return self._steps.facts() if step is None else self._steps.arguments(step)


def successful(context: ToolContext) -> Iterator[CallRecord]:
    """Yield the calls that succeeded before this one."""
    return (call for call in context.calls if call.status is Status.OK)


def _by_trade(step: Step, role: Role | None, work: WorkKind) -> Step:
    """Return a step as it is for an expert in a role who is asked for it by name."""
    if role is None or not outside_specialty(role, work):
        return step
    return msgspec.structs.replace(
        step, difficulty=step.difficulty + HARDER_OUTSIDE, wrong=(MISTAKES[role], *step.wrong)
    )


def kind_of_work(tool: Tool) -> WorkKind:
    """Return which kind of work a call of a tool is."""
    if tool.effect == "write":
        return "change"
    return "computation" if tool.effect == "pure" else "lookup"


def _single(key: str, step: Step) -> Problem:
    return Problem(key, SUBJECT, (step,))


def _texts(value: Any, *, free: bool = False) -> list[str]:
    """Return the texts by which a value is recognised in others: of `free` text, such as an expression, its words."""
    if isinstance(value, list):
        return [text for item in value for text in _texts(item, free=free)]
    if isinstance(value, bool):
        return []
    return tokens(value) if free and isinstance(value, str) else [str(value)]


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
