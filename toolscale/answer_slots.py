"""Which slots the typed answer of a task has, and what is right in them.

The slots of a task are those of its intent, whatever its own answer is, so that they say what is asked and nothing of
the answer; what does not apply is null. Where an intent ends in several ways, or changes anything, a slot `outcome`
says which way it ended: that it is done (with which changes, where there are several ways), that there was nothing to
do, or that it cannot be done. Not covered: how values are compared (`toolorchestra.toolscale.typed_answers`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from toolorchestra.toolscale.format import IntentSpec
from toolorchestra.toolscale.mentions import tokens
from toolorchestra.toolscale.observed import named_values
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.typed_answers import (
    CURRENCIES,
    NO_YEAR,
    AnswerSlot,
    SlotType,
    TypedAnswer,
    Value,
    plain_text,
)

OUTCOME = "outcome"
DONE = "done"
NOTHING_TO_DO = "nothing to do"
CANNOT_BE_DONE = "cannot be done"
ANSWERED = "answered"
"""The outcome of a request that asks and changes nothing."""
MAX_OPTIONS = 12
"""Options that a slot lists; where there are more, it takes a text."""
_MAX_ANSWERS = 16_384  # that are kept, of tasks that are played again
_SAMPLE = 12  # tasks of an intent whose results name the slots
_UNITS = {"$": "USD", "€": "EUR", "£": "GBP"}
_MONEY = re.compile(r"[$€£]|\b(?:dollars?|euros?|usd|eur|pounds?|gbp)\b", re.IGNORECASE)
_NEGATORS = frozenset(("no", "not", "none", "nothing", "never", "cannot", "without"))
_TYPED: Mapping[str, SlotType] = {"#": "number", "@": "date", "~": "time"}
_UNNAMED: Mapping[SlotType, str] = {
    "money": "amount", "number": "number", "date": "date", "time": "time", "id": "id", "name": "name", "text": "value",
    "true or false": "answer",
}  # fmt: skip
_UNTOLD = frozenset(("told", "also", "value", "one", "two", "three", ""))  # names that say nothing
_FACT = re.compile(r"\{(?:[a-z]\w*\.(?:\w+\.)*)?([a-z]\w*)(?::\w+)?\}")


def fact_names(intent: IntentSpec) -> list[str]:
    """Return what an intent calls its facts: the last name of ``{bill.total:money}``, or nothing."""
    texts = (item if isinstance(item, str) else item[0] for item in intent.communicate)
    names = ("" if (found := _FACT.fullmatch(text)) is None else found[1] for text in texts)
    return ["" if name in _UNTOLD or name == "other" or name.startswith("or_") else name for name in names]


class SlotTable:
    """The slots of the tasks of a domain.

    Args:
        tasks: Tasks of the domain: those of an intent have the same slots.
        results: Returns the values of the results of a task's reference trajectory; asked for a few tasks of an intent.
        writes: Returns the names of the tools in it that change something.
        names: What intents call their facts in `communicate`, where they do.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        results: Callable[[Task], Sequence[Any]],
        writes: Callable[[Task], Iterable[str]],
        names: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self.results, self.writes, self.names = results, writes, names
        self._tasks: dict[str, dict[str, Task]] = defaultdict(dict)
        self._intents: dict[str, _Intent] = {}
        self._answers: dict[str, tuple[Task, TypedAnswer]] = {}
        self._by_id: dict[str, Task] = {}
        for task in tasks:
            self._tasks[_kind_of_request(task)][task.id] = self._by_id[task.id] = task

    def with_tasks(self, tasks: Iterable[Task]) -> SlotTable:
        """Return the slots of these tasks and of those that this table is made from; itself if there are no others."""
        others = [task for task in tasks if self._by_id.get(task.id) != task]
        if not others:
            return self
        return SlotTable((*self._by_id.values(), *others), self.results, self.writes, self.names)

    def of(self, task: Task) -> TypedAnswer:
        """Return the slots of a task and what is right in them; it may be another task than the table is made from."""
        known = self._answers.get(task.id)
        if known is not None and (known[0] is task or known[0] == task):
            return known[1]
        found = self._of_parts(task) or self._of_intent(task)
        if task.operator == "impossible":  # what is asked beside what cannot be done
            facts = [fact for fact in task.communicate if _type(fact) != "none"]
            found = _joined([_Part("", found), *(_Part("other", self._shown(task, fact)) for fact in facts)])
        if len(self._answers) >= _MAX_ANSWERS:
            self._answers.clear()
        self._answers[task.id] = task, found
        return found

    def _of_intent(self, task: Task) -> TypedAnswer:
        kind = _kind_of_request(task)
        intent = self._intents.get(kind)
        if intent is None:
            intent = self._intents[kind] = _Intent(self, [*self._tasks[kind].values()] or [task])
        if not intent.knows(task):  # it is not kept: what slots a task has must not depend on which came before it
            intent = _Intent(self, [*self._tasks[kind].values(), task])
        return intent.of(task)

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
        kind, shown = _type(fact), self.results(task)[:results]
        name = min(_keys(fact, _lists(shown)) - _UNTOLD, default=_UNNAMED["text" if kind == "none" else kind])
        slot = AnswerSlot(name, ("text" if kind == "none" else kind,), nullable=kind == "none")
        return TypedAnswer((slot,), ((_right(fact, slot),),), (_value(fact, slot),))


def _kind_of_request(task: Task) -> str:
    """Return the intent of a task, or of what it was made of where both ask for the same.

    So the slots of what cannot be done are those of what can, and do not tell it.
    """
    intent, _, operator = task.intent.rpartition("+")
    return intent if operator in _SAME_REQUEST else task.intent


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


_CONTRARY = "not "
_MADE_OF_OTHERS = frozenset(("chain", "branch", "constraint"))
_SAME_REQUEST = frozenset(("impossible", "indirect", "distract"))


def _facts(task: Task) -> Sequence[Sequence[str]]:
    """Return the facts of a task that belong to its intent: none of one made impossible, as its outcome says that."""
    return () if task.operator == "impossible" else task.communicate


_Group = tuple[str, int]  # of tasks with the same outcome and number of facts


class _Intent:
    """The slots of an intent, made from all of its tasks."""

    def __init__(self, table: SlotTable, tasks: Sequence[Task]) -> None:
        self._table = table
        writes = [names for task in tasks if (names := frozenset(table.writes(task)))]
        self._changes = bool(writes)
        self._always = frozenset.intersection(*writes) if writes else frozenset()
        groups: dict[_Group, list[Task]] = defaultdict(list)
        for task in tasks:
            groups[self._group(task)].append(task)
        outcomes = {outcome for outcome, _ in groups}
        self._outcomes: tuple[str, ...] = ()
        if outcomes != {ANSWERED}:
            self._outcomes = tuple(sorted(outcomes if len(outcomes) > 1 else {DONE, NOTHING_TO_DO, CANNOT_BE_DONE}))
        places = {group: self._places(group, members) for group, members in groups.items()}
        several = {base for found in places.values() for base, alike in found if base and alike}
        self._names = {group: _numbered([base for base, _ in found], several) for group, found in places.items()}
        facts: dict[str, list[Sequence[str]]] = defaultdict(list)
        for group, members in groups.items():
            for task in members:
                for name, options in zip(self._names[group], _facts(task), strict=True):
                    if name is not None:
                        facts[name].append(options)
        always = set.intersection(*(set(filter(None, names)) for names in self._names.values()))
        self._slots = tuple(
            _slot(name, found, nullable=name not in always, several=name in several) for name, found in facts.items()
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
        names = self._names[self._group(task)]
        for slot in self._slots:
            own = [options for name, options in zip(names, _facts(task), strict=True) if name == slot.name]
            right.append(tuple(_right(options, slot) for options in own) if own or slot.several else (_nothing(slot),))
            shown = [_value(options, slot) for options in own]
            values.append(shown if slot.several else shown[0] if shown else None)
        if self._outcomes:
            outcome, _ = self._group(task)
            right.insert(0, (frozenset((f"={plain_text(outcome)}",)),))
            values.insert(0, outcome)
        return TypedAnswer(self._every, tuple(right), tuple(values), self._text)

    def _group(self, task: Task) -> _Group:
        """Return how a task ends, and how many facts it has."""
        if writes := set(self._table.writes(task)):
            own = ", ".join(sorted(writes - self._always)).replace("_", " ")
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
        declared = self._table.names.get(_kind_of_request(tasks[0]), ())
        found: list[tuple[str | None, bool]] = []
        for place in range(group[1]):
            facts = [_facts(task)[place] for task in tasks]
            types = {_type(options) for options in facts}
            shown = [_keys(task.communicate[place], kept) for task, kept in zip(sample, lists, strict=True)]
            common = frozenset.intersection(*shown) - _UNTOLD
            own = declared[place] if len(declared) == group[1] else ""
            if self._outcomes and types <= {"none", "text"} and not common and len({facts[0], *facts}) == 1:
                found.append((None, False))
                continue
            default = "answer"
            for kind, name in _UNNAMED.items():
                if types - {"none"} == {kind}:
                    default = name
            base = own or min(common, key=lambda key: (key == "name", key), default=default)
            found.append((base if base != OUTCOME else f"{OUTCOME}_", False))
        bases = Counter(base for base, _ in found)
        return [
            (base, base is not None and bases[base] > 1 and self._listed(base, found, sample, lists))
            for base, _ in found
        ]

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


def _slot(name: str, facts: Sequence[Sequence[str]], *, nullable: bool, several: bool) -> AnswerSlot:
    """Return the slot of facts, given by their accepted phrases."""
    types, words, units = set[SlotType](), set[str](), set[str]()
    for options in facts:
        kind = _type(options)
        if kind == "none":
            nullable = True
        else:
            types.add(kind)
            if kind == "text":
                words.add(_label(options))
            if kind == "money":
                units |= {unit for sign, unit in _UNITS.items() if any(sign in option for option in options)}
    if len(words) == 1 and types == {"text"}:  # the only one that is ever right is not given away
        words |= {f"{_CONTRARY}{word}" for word in words}
    ordered = tuple(kind for kind in get_args(SlotType) if kind in types)
    return AnswerSlot(
        name,
        ordered or ("text",),
        units.pop() if len(units) == 1 else "",
        tuple(sorted(words)) if len(words) <= MAX_OPTIONS else (),
        nullable,
        several,
    )


def _right(options: Sequence[str], slot: AnswerSlot) -> frozenset[str]:
    """Return the readings of values that state a fact."""
    kind, found = _type(options), set[str]()
    for option in options:
        found |= _readings_of(option, kind)
    if kind == "none":
        found |= _nothing(slot)
    elif kind == "true or false":
        found.add("yes")
    elif kind == "date":
        found |= {f"{NO_YEAR}{one[5:]}" for one in found if one[0] == "@" and "?" not in one}
    codes = (slot.unit,) if slot.unit else CURRENCIES  # a currency that is not known may be any
    return frozenset(
        found.union(f"{one} {code}" for one in found if one[0] == "#" and " " not in one for code in codes)
    )


def _nothing(slot: AnswerSlot) -> frozenset[str]:
    """Return the readings of values that say that there is none: of a number also 0, of an only text its contrary."""
    found = {"none"}
    if "true or false" in slot.types:
        found.add("no")
    if not {"money", "number"}.isdisjoint(slot.types):
        found.add("#0")
    if slot.types == ("text",) and len(slot.options) == 2:
        found |= {f"={plain_text(option)}" for option in slot.options if option == f"{_CONTRARY}{_other(slot, option)}"}
    return frozenset(found)


def _other(slot: AnswerSlot, option: str) -> str:
    return slot.options[1 - slot.options.index(option)]


def _label(options: Sequence[str]) -> str:
    return next((option for option in options if tokens(option)), "")


def _type(options: Sequence[str]) -> SlotType | Literal["none"]:
    """Return the type of value that states a fact, given its accepted phrases; ``none`` if there is none."""
    label, found = _label(options), tokens(_label(options))
    every = [tokens(option) for option in options]
    if ["yes"] in every:
        return "true or false"
    if ["#0"] in every:
        return "money" if any(map(_MONEY.search, options)) else "number"
    if not any(map(str.isdigit, label)):
        if found and found[0] in _NEGATORS:
            return "none"
        return "name" if label[:1].isupper() else "text"
    if len(found) == 1:
        kind = _TYPED.get(found[0][0], "id")
        return "money" if kind == "number" and any(map(_MONEY.search, options)) else kind
    typed = _one_value(label, found)
    return _TYPED[typed[0]] if typed else "id"


def _one_value(text: str, found: Sequence[str]) -> str:
    """Return the only number, date or time in words about it ("seat 12", "50 minutes"), or nothing."""
    typed = [token for token in found if token[0] in _TYPED]
    plain = " " in text and text == text.lower() and _NEGATORS.isdisjoint(found)
    return typed[0] if len(typed) == 1 and plain else ""


def _readings_of(option: str, kind: str) -> set[str]:
    """Return the readings of values that state an accepted phrase."""
    found, readings = tokens(option), set[str]()
    if not found:
        return readings
    typed = found[0] if len(found) == 1 and found[0][0] in _TYPED else ""
    if typed:
        readings.add(typed)
    elif kind not in ("none", "text", "name") and (value := _one_value(option, found)):
        readings.add(value)
    if not typed or not any(map(str.isdigit, option)):
        readings.add(f"={plain_text(option)}")
        words = option.split()
        if kind == "name" and 2 <= len(words) <= 3:
            readings.add("=" + plain_text(", ".join((words[-1], " ".join(words[:-1])))))
    return readings


def _value(options: Sequence[str], slot: AnswerSlot) -> Value:
    """Return a value that states a fact."""
    kind, label, readings = _type(options), _label(options), _right(options, slot)
    if kind == "none":
        return None
    if kind == "true or false":
        return True
    sign = {"money": "#", "number": "#", "date": "@", "time": "~"}.get(kind, "")
    own = _one_value(label, tokens(label)) or (tokens(label) or [""])[0]
    typed = [own] if sign and own[:1] == sign else sorted(one for one in readings if sign and one[0] == sign)
    if not typed:
        return label
    value = typed[0][1:]
    if sign == "#":
        return float(value) if "." in value else int(value)
    return value if "?" not in value else value.replace("????", "2000")
