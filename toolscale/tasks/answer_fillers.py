"""What an attacker without understanding may put into the slots of an answer, and whether it is right there.

The attacker sees the slots of a task, the words of its request, the results of the reference calls where they are made,
and which answers were right in `train`. No filler takes the value under a key that is called like the slot, and none
tells the outcome by which calls were made. Which fillers earn most: `toolorchestra.toolscale.validation.exploiter`.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.toolscale.answers.mentions import MONTHS, tokens
from toolorchestra.toolscale.answers.typed_answers import (
    AnswerSlot,
    SlotType,
    TypedAnswer,
    Value,
    readings,
    reads_right,
)
from toolorchestra.toolscale.tasks.observed import named_values
from toolorchestra.toolscale.tasks.task import Task

_BY_SIGN: Mapping[str, tuple[SlotType, ...]] = {"#": ("number", "money"), "@": ("date",), "~": ("time",)}
_ID = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w+(?:-\w+)*\b")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*")  # not at the beginning of a sentence
_ENDS = (("first", 0), ("last", -1))
_PICKS: Mapping[str, Callable[[Sequence[Value]], Value]] = {
    "first": lambda pool: pool[0],
    "last": lambda pool: pool[-1],
    "most frequent": lambda pool: max(pool, key=pool.count),
    "only": lambda pool: pool[0] if len(_distinct(pool)) == 1 else None,
    "smallest": lambda pool: min(pool, key=_size),
    "largest": lambda pool: max(pool, key=_size),
}


def kind_of(slot: AnswerSlot) -> str:
    """Return the kind of a slot, in words; the slots of a kind have the same filler.

    >>> kind_of(AnswerSlot("paid_on", ("date",), nullable=True))
    'date or null'
    """
    if slot.is_outcome:
        return "outcome"
    types = " or ".join(kind for kind in slot.types if kind != "text" or not slot.options)
    kind = " or ".join(filter(None, (types, "option" if slot.options else "")))
    return ("list of " if slot.several else "") + kind + (" or null" if slot.nullable else "")


class UsualValues:
    """The most frequent right values of tasks, by intent and slot, by the names of slots, and by their kinds."""

    def __init__(self, answers: Iterable[tuple[Task, TypedAnswer]]) -> None:
        self._seen: dict[tuple[str, ...], Counter[bytes]] = defaultdict(Counter)
        for task, typed in answers:
            for slot, value in zip(typed.slots, typed.values, strict=True):
                written = msgspec.json.encode(value)
                for key in ((task.intent, slot.name), ("", slot.name), ("", "", kind_of(slot))):
                    self._seen[key][written] += 1
                    if value is not None:
                        self._seen[*key, "not null"][written] += 1

    def of(self, task: Task, slot: AnswerSlot) -> Iterator[tuple[str, Value]]:
        """Yield the most frequent values for a slot, with what they are."""
        for key, of_what in (
            ((task.intent, slot.name), "the intent's slot"),
            (("", slot.name), "slots of that name"),
            (("", "", kind_of(slot)), "that kind of slot"),
        ):
            for kind, words in (((), "value"), (("not null",), "value beside null")):
                seen = self._seen.get((*key, *kind))
                value = msgspec.json.decode(seen.most_common(1)[0][0]) if seen else None
                yield f"the most frequent {words} of {of_what} in train", value


class SeenTask:
    """A task as the attacker sees it."""

    def __init__(self, task: Task, typed: TypedAnswer, results: Sequence[Any]) -> None:
        self.task, self.typed = task, typed
        self._places: dict[str, list[tuple[Value, frozenset[str], tuple[SlotType, ...]]]] = {
            "the last result": [*map(_seen, _values(results[-1:]))],
            "all results": [*map(_seen, _values(results))],
            "the request": [(v, readings(v), types) for v, types in _in_words(task.instruction)],
        }

    @property
    def asks(self) -> bool:
        """Whether the task asks for a fact beside the outcome."""
        return any(not slot.is_outcome for slot in self.typed.slots)

    def filled(self, strategy: Mapping[str, str], usual: UsualValues) -> list[Value]:
        """Return what the fillers for each kind of slot put into the slots: null where a kind has none."""
        return [self.fillers(slot, usual).get(strategy.get(kind_of(slot), "")) for slot in self.typed.slots]

    def fillers(self, slot: AnswerSlot, usual: UsualValues) -> dict[str, Value]:
        """Return what may be put into a slot, by what it is in words: the same words for all slots of a kind."""
        found: dict[str, Value] = dict(usual.of(self.task, slot))
        pools = {place: self._pool(place, slot) for place in self._places}
        if slot.several:
            found["the empty list"] = []
            found |= {f"all values of its type in {place}": _distinct(pool) for place, pool in pools.items()}
            return found | {f"the first value of its type in {place}": pool[:1] for place, pool in pools.items()}
        found |= {"null": None, "0": 0, "true": True, "false": False}
        found |= {f"the {which} option": slot.options[at] if slot.options else None for which, at in _ENDS}
        for (which, pick), (place, pool) in itertools.product(_PICKS.items(), pools.items()):
            found[f"the {which} value of its type in {place}"] = pick(pool) if pool else None
        return found

    def rights(self, place: int, usual: UsualValues) -> dict[str, bool]:
        """Return for each filler whether it is right in a slot."""
        known: dict[bytes, bool] = {}
        found = {}
        for words, value in self.fillers(self.typed.slots[place], usual).items():
            written = msgspec.json.encode(value)
            if written not in known:
                known[written] = self._is_right(place, value)
            found[words] = known[written]
        return found

    def chance(self) -> float:
        """Return how likely an answer is right whose values are picked at random.

        A value is picked among the options, or the values of the slot's type in the request and the results, and null
        where it may stand; a list is any selection of them.
        """
        product = 1.0
        for place, slot in enumerate(self.typed.slots):
            pool: list[Value] = [*slot.options, *([True, False] if "true or false" in slot.types else [])]
            if "text" not in slot.types or not slot.options:
                pool += (value for where in ("the request", "all results") for value in self._pool(where, slot))
            pool = _distinct(pool)
            if slot.several:
                right = [
                    value for value in pool if any(not readings(value).isdisjoint(r) for r in self.typed.right[place])
                ]
                product *= 0.5 ** len(pool) * self._is_right(place, right)
            else:
                pool += [None] * slot.nullable
                product *= sum(self._is_right(place, value) for value in pool) / max(1, len(pool))
        return product

    def _pool(self, place: str, slot: AnswerSlot) -> list[Value]:
        """Return the values at a place that a slot may hold: of its types, or of its options."""
        types = set(slot.types) - ({"text"} if slot.options else set())
        options = frozenset[str]().union(*map(readings, slot.options))
        seen = self._places[place]
        return [v for v, reads, kinds in seen if not types.isdisjoint(kinds) or not options.isdisjoint(reads)]

    def _is_right(self, place: int, value: Value) -> bool:
        return reads_right(value, self.typed.right[place], several=self.typed.slots[place].several)


def _values(results: Sequence[Any]) -> list[Value]:
    return [value for _, value in named_values(list(results))]


def _seen(value: Value) -> tuple[Value, frozenset[str], tuple[SlotType, ...]]:
    """Return a value of a result with its readings and the types that it has."""
    reads = readings(value)
    if isinstance(value, bool):
        return value, reads, ("true or false",)
    if not isinstance(value, str):
        return value, reads, _BY_SIGN["#"]
    sign = next((read[0] for read in sorted(reads) if read[0] in _BY_SIGN), "")
    if sign:
        return value, reads, _BY_SIGN[sign]
    if any(map(str.isdigit, value)):
        return value, reads, ("id",)
    return value, reads, ("name", "text") if value[:1].isupper() else ("text",)


def _in_words(text: str) -> Iterator[tuple[Value, tuple[SlotType, ...]]]:
    """Yield the numbers, dates, times, ids and names in a request, with their types."""
    for token in tokens(text):
        types, said = _BY_SIGN.get(token[0], ()), token[1:]
        if token[0] == "@" and "?" in said:
            said = f"{MONTHS[int(said[-5:-3]) - 1]} {int(said[-2:])}"
        if types:
            yield (float(said) if "." in said else int(said)) if token[0] == "#" else said, types
    yield from ((found, ("id",)) for found in _ID.findall(text))
    yield from ((found, ("name",)) for found in _NAME.findall(text))


def _distinct(values: Iterable[Value]) -> list[Value]:
    """Return values without those that read like an earlier one."""
    return list({readings(value): value for value in reversed(list(values))}.values())[::-1]


def _size(value: Value) -> tuple[bool, float, str]:
    """Return what numbers are ordered by, and dates, times and texts after them."""
    return (False, value, "") if isinstance(value, int | float) else (True, 0.0, str(value))
