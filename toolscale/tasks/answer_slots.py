"""Which slots the typed answer of a task has, and what is right in them.

The slots of a task are those of its intent, whatever its own answer is, so that they say what is asked and nothing of
the answer; what does not apply is null. Where an intent ends in several ways, or changes anything, a slot `outcome`
says which way it ended: that it is done (with which changes, where there are several ways), that there was nothing to
do, or that it cannot be done. Not covered: how values are compared (`toolorchestra.toolscale.answers.typed_answers`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.answers.slot_facts import label_of, make_slot, nothing, right_readings, type_of, value_of
from toolorchestra.toolscale.answers.typed_answers import AnswerSlot, SlotType, TypedAnswer, Value, plain_text
from toolorchestra.toolscale.database.format import IntentSpec
from toolorchestra.toolscale.tasks.observed import named_values
from toolorchestra.toolscale.tasks.task import Task

OUTCOME = "outcome"
DONE = "done"
NOTHING_TO_DO = "nothing to do"
CANNOT_BE_DONE = "cannot be done"
ANSWERED = "answered"
"""The outcome of a request that asks and changes nothing."""
_OUTCOMES = (ANSWERED, CANNOT_BE_DONE, DONE, NOTHING_TO_DO)
IMPORTED = "imported"
"""The intent of tasks that come from elsewhere; each asks for something else."""
_MAX_ANSWERS = 16_384  # that are kept, of tasks that are played again
_SAMPLE = 12  # tasks of an intent whose results name the slots
_UNNAMED: Mapping[SlotType, str] = {
    "money": "amount", "number": "number", "date": "date", "time": "time", "id": "id", "name": "name", "text": "value",
    "true or false": "answer",
}  # fmt: skip
_UNTOLD = frozenset(("told", "also", "value", "one", "two", "three", ""))  # names that say nothing
_FACT = re.compile(r"\{(?:[a-z]\w*\.(?:\w+\.)*)?([a-z]\w*)(?::\w+)?\}")
_BINDING = re.compile(r"\{(\w+)\}")
_EACH = "[]"


def fact_names(intent: IntentSpec) -> Mapping[str, Sequence[str]]:
    """Return what an intent calls its facts by outcome, and under ``""`` for all others.

    It is what its `slots` say, or the last name of ``{bill.total:money}`` in `communicate`, or nothing.
    """
    if intent.slots:
        return intent.slots if isinstance(intent.slots, dict) else {"": intent.slots}
    texts = (item if isinstance(item, str) else item[0] for item in intent.communicate)
    names = ("" if (found := _FACT.fullmatch(text)) is None else found[1] for text in texts)
    return {"": ["" if name in _UNTOLD or name == "other" or name.startswith("or_") else name for name in names]}


class SlotTable:
    """The slots of the tasks of a domain.

    Args:
        tasks: Tasks of the domain: those of an intent have the same slots.
        results: Returns the values of the results of a task's reference trajectory; asked for a few tasks of an intent.
        writes: Returns what is done in it that changes something, in words.
        names: What intents call their facts, by outcome (`fact_names`).
        currency: Of which currency slots are that hold amounts, by their names.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        results: Callable[[Task], Sequence[Any]],
        writes: Callable[[Task], Iterable[str]],
        names: Mapping[str, Mapping[str, Sequence[str]]] = MappingProxyType({}),
        currency: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.results, self.writes, self.names, self.currency = results, writes, names, currency
        self._named_after = {
            intent: tuple(dict.fromkeys(_BINDING.findall(" ".join(chain(*called.values())))))
            for intent, called in names.items()
        }
        self._tasks: dict[tuple[str, ...], dict[str, Task]] = defaultdict(dict)
        self._intents: dict[tuple[str, ...], _Intent] = {}
        self._answers: dict[str, tuple[Task, TypedAnswer]] = {}
        self._by_id: dict[str, Task] = {}
        for task in tasks:
            self._tasks[self._kind_of_request(task)][task.id] = self._by_id[task.id] = task

    def with_tasks(self, tasks: Iterable[Task]) -> SlotTable:
        """Return the slots of these tasks and of those that this table is made from; itself if there are no others."""
        others = [task for task in tasks if self._by_id.get(task.id) != task]
        if not others:
            return self
        return SlotTable((*self._by_id.values(), *others), self.results, self.writes, self.names, self.currency)

    def _kind_of_request(self, task: Task) -> tuple[str, ...]:
        """Return the intent of a task, or of what it was made of where both ask for the same, and what names its slots.

        So the slots of what cannot be done are those of what can, and do not tell it.
        """
        intent, _, operator = task.intent.rpartition("+")
        intent = intent if operator in _SAME_REQUEST else task.intent
        return intent, *(str(task.bindings.get(name)) for name in self._named_after.get(intent, ()))

    def of(self, task: Task) -> TypedAnswer:
        """Return the slots of a task and what is right in them; it may be another task than the table is made from."""
        known = self._answers.get(task.id)
        if known is not None and (known[0] is task or known[0] == task):
            return known[1]
        found = self._imported(task) if task.intent == IMPORTED else self._of_parts(task) or self._of_intent(task)
        if _made_impossible(task):  # what is asked beside what cannot be done
            facts = [fact for fact in task.communicate if type_of(fact) != "none"]
            found = _joined([_Part("", found), *(_Part("other", self._shown(task, fact)) for fact in facts)])
        if len(self._answers) >= _MAX_ANSWERS:
            self._answers.clear()
        self._answers[task.id] = task, found
        return found

    def _of_intent(self, task: Task) -> TypedAnswer:
        kind = self._kind_of_request(task)
        intent = self._intents.get(kind)
        if intent is None:
            intent = self._intents[kind] = _Intent(
                self, [*self._tasks.get(kind, {}).values()] or [task], self._all_of(kind[0])
            )
        if not intent.knows(task):  # it is not kept: what slots a task has must not depend on which came before it
            intent = _Intent(self, [*self._tasks.get(kind, {}).values(), task], [*self._all_of(kind[0]), task])
        return intent.of(task)

    def _imported(self, task: Task) -> TypedAnswer:
        """Return the slots of a task of no intent: one for each of its facts, and whether something was done."""
        parts = [self._shown(task, fact) for fact in task.communicate]
        names = _numbered([OUTCOME, *(part.slots[0].name for part in parts)], frozenset())[1:]
        slots = (
            msgspec.structs.replace(part.slots[0], name=name or "") for part, name in zip(parts, names, strict=True)
        )
        outcomes = (
            (DONE,) if any(self.writes(task)) else (NOTHING_TO_DO, CANNOT_BE_DONE, ANSWERED)
        )  # nothing tells which of them
        return TypedAnswer(
            (AnswerSlot(OUTCOME, options=_OUTCOMES, is_outcome=True), *slots),
            ((frozenset(f"={plain_text(outcome)}" for outcome in outcomes),), *(part.right[0] for part in parts)),
            (CANNOT_BE_DONE if task.refuses else outcomes[-1], *(part.values[0] for part in parts)),
        )

    def _all_of(self, intent: str) -> list[Task]:
        """Return all tasks of an intent, whatever its slots are named after."""
        return [task for kind, tasks in self._tasks.items() if kind[0] == intent for task in tasks.values()]

    def _of_parts(self, task: Task) -> TypedAnswer | None:
        """Return the slots of a task that is made of others, if these are known: those of each, and of the condition.

        What is asked for only under a condition is null where that does not hold.
        """
        evolved = task.bindings.get("evolved")
        if task.operator not in _MADE_OF_OTHERS or not isinstance(evolved, Mapping):
            return None
        ids = [task.parent, *([evolved["with"]] if "with" in evolved else [])]
        parts = [self.of(self._by_id[one]) for one in ids if one in self._by_id]
        if len(parts) < len(ids):
            return None
        names = ("first", "second") if len(parts) > 1 else ("",)
        if "holds" not in evolved:
            return _joined([_Part(name, part) for name, part in zip(names, parts, strict=True)])
        asked = [_Part("condition", self._shown(task, task.communicate[-1], results=1))]
        for name, part, wanted in zip(names, parts, (True, False), strict=False):
            asked.append(_Part(name, part, nullable=True, applies=evolved["holds"] is wanted))
        return _joined(asked)

    def _shown(self, task: Task, fact: Sequence[str], results: int | None = None) -> TypedAnswer:
        """Return the slot of a fact of a task that has nothing to do with its intent, named as a result shows it."""
        kind, shown = type_of(fact), self.results(task)[:results]
        said = task.answer.casefold()  # of several results that show it the one that is named
        keys = sorted(_keys(fact, _lists(shown)) - _UNTOLD, key=lambda key: (key.replace("_", " ") not in said, key))
        name = keys[0] if keys else _UNNAMED["text" if kind == "none" else kind]
        slot = msgspec.structs.replace(make_slot(name, [fact], self.currency), options=())
        return TypedAnswer((slot,), ((right_readings(fact, slot),),), (value_of(fact),))


class _Part(NamedTuple):
    """One of several requests: how slots of a name that others have too begin, its answer, and whether it applies."""

    name: str
    answer: TypedAnswer
    nullable: bool = False
    applies: bool = True


def _joined(parts: Sequence[_Part]) -> TypedAnswer:
    """Return the slots of several requests, and what is right in them."""
    often = Counter(slot.name for part in parts for slot in part.answer.slots)
    slots, right, values = list[AnswerSlot](), list[tuple[frozenset[str], ...]](), list[Value]()
    for part in parts:
        answer = part.answer
        for slot, good, value in zip(answer.slots, answer.right, answer.values, strict=True):
            name = f"{part.name}_{slot.name}" if often[slot.name] > 1 and part.name else slot.name
            slots.append(msgspec.structs.replace(slot, name=name, nullable=slot.nullable or part.nullable))
            right.append(good if part.applies else () if slot.several else (frozenset(("none",)),))
            values.append(value if part.applies else None)
    return TypedAnswer(tuple(slots), tuple(right), tuple(values), ", ".join(map(str, slots)))


_MADE_OF_OTHERS = frozenset(("chain", "branch", "constraint"))
_SAME_REQUEST = frozenset(("impossible", "indirect", "distract"))


def _facts(task: Task) -> Sequence[tuple[str, ...]]:
    """Return the facts of a task that belong to its intent: none of one made impossible, as its outcome says that."""
    return () if _made_impossible(task) else task.communicate


def _made_impossible(task: Task) -> bool:
    return task.intent.endswith("+impossible")


def _telling(facts: Sequence[Sequence[str]]) -> int:
    """Return which phrase of facts tells something: another than the first ("moved") where that is the same for all."""
    if len(set(facts)) == 1 or len({*map(label_of, facts)}) > 1 or type_of(facts[0]) != "text":
        return 0
    return next((place for place, shown in enumerate(zip(*facts, strict=False)) if len(set(shown)) > 1), 0)


_Group = tuple[str, int]  # of tasks with the same outcome and number of facts


class _Intent:
    """The slots of an intent, made from all of its tasks: those that have the same slots, and others that end alike."""

    def __init__(self, table: SlotTable, tasks: Sequence[Task], others: Sequence[Task]) -> None:
        self._table = table
        every = {task.id: task for task in (*others, *tasks)}.values()
        writes = [names for task in every if (names := frozenset(table.writes(task)))]
        self._changes = bool(writes)
        self._always = frozenset.intersection(*writes) if writes else frozenset()
        groups: dict[_Group, list[Task]] = defaultdict(list)
        for task in tasks:
            groups[self._group(task)].append(task)
        outcomes = {self._group(task)[0] for task in every}
        self._outcomes: tuple[str, ...] = ()
        if outcomes != {ANSWERED}:
            self._outcomes = tuple(sorted(outcomes if len(outcomes) > 1 else {DONE, NOTHING_TO_DO, CANNOT_BE_DONE}))
        self._first = {
            group: [_telling(facts) for facts in zip(*map(_facts, tasks), strict=True)]
            for group, tasks in groups.items()
        }
        places = {group: self._places(group, members) for group, members in groups.items()}
        several = {base for found in places.values() for base, alike in found if base and alike}
        self._names = {group: _numbered([base for base, _ in found], several) for group, found in places.items()}
        facts: dict[str, list[Sequence[str]]] = defaultdict(list)
        for group, members in groups.items():
            for task in members:
                for name, options in zip(self._names[group], self._facts(task, group), strict=True):
                    if name is not None:
                        facts[name].append(options)
        always = set.intersection(*(set(filter(None, names)) for names in self._names.values()))
        if outcomes > {outcome for outcome, _ in groups}:
            always.clear()
        self._slots = tuple(
            make_slot(name, found, table.currency, nullable=name not in always, several=name in several)
            for name, found in facts.items()
        )
        outcome = (AnswerSlot(OUTCOME, options=self._outcomes, is_outcome=True),) if self._outcomes else ()
        self._every = outcome + self._slots
        self._text = ", ".join(map(str, self._every))

    def knows(self, task: Task) -> bool:
        """Return whether there was a task like this one among those that the slots are made from."""
        return self._group(task) in self._names

    def of(self, task: Task) -> TypedAnswer:
        """Return the slots of a task and what is right in them."""
        right, values = list[tuple[frozenset[str], ...]](), list[Value]()
        group = self._group(task)
        names, facts = self._names[group], self._facts(task, group)
        for slot in self._slots:
            own = [options for name, options in zip(names, facts, strict=True) if name == slot.name]
            readings = [right_readings(options, slot) for options in own]
            right.append(tuple(readings) if own or slot.several else (nothing(slot),))
            shown = [value_of(options) for options in own]
            values.append(shown if slot.several else shown[0] if shown else None)
        if self._outcomes:
            right.insert(0, (frozenset((f"={plain_text(group[0])}",)),))
            values.insert(0, group[0])
        return TypedAnswer(self._every, tuple(right), tuple(values), self._text)

    def _facts(self, task: Task, group: _Group) -> list[tuple[str, ...]]:
        """Return the facts of a task of a group, the phrase first that tells something."""
        first = self._first[group]
        return [(options[n], *options[:n], *options[n + 1 :]) for n, options in zip(first, _facts(task), strict=True)]

    def _group(self, task: Task) -> _Group:
        """Return how a task ends, and how many facts it has."""
        if writes := set(self._table.writes(task)):
            own = ", ".join(sorted(writes - self._always))
            outcome = f"{DONE}: {own}" if own else DONE
        elif task.refuses:
            outcome = CANNOT_BE_DONE
        else:
            outcome = NOTHING_TO_DO if self._changes else ANSWERED
        return outcome, len(_facts(task))

    def _places(self, group: _Group, tasks: Sequence[Task]) -> list[tuple[str | None, bool]]:
        """Return for each fact of the tasks of a group what it is, and whether it is one of a list.

        None: the outcome says it already, as where all that end so say that nothing is free.
        """
        sample = tasks[:: max(1, len(tasks) // _SAMPLE)][:_SAMPLE]
        lists = [[*_lists(self._table.results(task))] for task in sample]
        declared = self._declared(group, tasks[0])
        found: list[tuple[str | None, bool]] = []
        for place in range(group[1]):
            facts = [self._facts(task, group)[place] for task in tasks]
            types = {type_of(options) for options in facts}
            shown = [_keys(task.communicate[place], kept) for task, kept in zip(sample, lists, strict=True)]
            common = frozenset.intersection(*shown) - _UNTOLD
            own = declared[place] if len(declared) == group[1] else ""
            own, each = own.removesuffix(_EACH), own.endswith(_EACH)
            if self._outcomes and types <= {"none", "text"} and not common and len({facts[0], *facts}) == 1:
                found.append((None, False))
                continue
            default = "answer"
            for kind, name in _UNNAMED.items():
                if types - {"none"} == {kind}:
                    default = name
            base = own or min(common, key=lambda key: (key == "name", key), default=default)
            found.append((base if base != OUTCOME else f"{OUTCOME}_", each))
        bases = Counter(base for base, _ in found)
        return [
            (base, each or (base is not None and bases[base] > 1 and self._listed(base, found, sample, lists)))
            for base, each in found
        ]

    def _declared(self, group: _Group, task: Task) -> list[str]:
        """Return what the domain calls the facts of a group of tasks; the last name of a list stands for all in it."""
        names = self._table.names.get(task.intent.split("+")[0], {})
        outcome, count = group
        found = next((names[key] for key in (outcome, outcome.partition(":")[0], "") if key in names), ())
        called = [_BINDING.sub(lambda part: _as_name(str(task.bindings.get(part[1], ""))), name) for name in found]
        return called + called[-1:] * (count - len(called)) if called and called[-1].endswith(_EACH) else called

    def _listed(
        self,
        base: str,
        places: Sequence[tuple[str | None, bool]],
        tasks: Sequence[Task],
        lists: Sequence[list[list[tuple[str, Any]]]],
    ) -> bool:
        """Return whether facts of one name are items of one list, in all of some tasks."""
        numbers = [number for number, (other, _) in enumerate(places) if other == base]
        return all(
            any(all(_keys(task.communicate[number], [one]) for number in numbers) for one in kept if len(one) > 1)
            for task, kept in zip(tasks, lists, strict=True)
        )


def _lists(results: Sequence[Any]) -> Iterator[list[tuple[str, Any]]]:
    """Yield the plain values of results with their names: those of each list apart, then those of each result."""
    for result in results:
        stack = [("", result)]
        while stack:
            name, value = stack.pop()
            if isinstance(value, Mapping):
                stack += value.items()
            elif isinstance(value, list | tuple):
                yield [*named_values(value, name)]
        if not isinstance(result, list):
            yield from ([one] for one in named_values(result))


def _keys(options: Sequence[str], lists: Iterable[list[tuple[str, Any]]]) -> frozenset[str]:
    """Return the names under which values stand that state a fact."""
    wanted = [found for option in options if (found := tokens(option))]
    return frozenset(name for one in lists for name, value in one if tokens(str(value)) in wanted)


def _numbered(bases: Sequence[str | None], several: Set[str]) -> list[str | None]:
    """Return names of slots, each another one, but for the items of a list; None stays."""
    often, seen = Counter(bases), Counter[str | None]()
    names: list[str | None] = []
    for base in bases:
        seen[base] += 1
        names.append(base if base is None or base in several or often[base] == 1 else f"{base}_{seen[base]}")
    single = [name for name in names if name is not None and name not in several]
    if len(set(single)) < len(single):  # as "train", "train" and "train_1" would be
        names = [name if name is None or name in several else f"answer_{place}" for place, name in enumerate(names, 1)]
    return names


def _as_name(text: str) -> str:
    return re.sub(r"\W+", "_", text.casefold()).strip("_")
