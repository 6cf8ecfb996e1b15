"""Forms: typed slots that are filled instead of prose, and compared exactly.

A form asks for the facts of a task, a slot each. What it shows (names, kinds, options) is made from all tasks of the
intent, and is the same for each of them, so that it says what is asked and nothing of the answer: where some tasks end
in an amount and others in a refusal, all their forms take both. A form holds one value a slot, so that there is nothing
to deny, to hedge or to list. Not covered: prose (`toolorchestra.toolscale.judging.judge`).
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, get_args

import msgspec

from toolorchestra.toolscale.answers import boxed
from toolorchestra.toolscale.judging.expected import TYPED, ExpectedAnswer, Kind, kind_of_token
from toolorchestra.toolscale.judging.statements import NEGATORS
from toolorchestra.toolscale.mentions import tokens
from toolorchestra.toolscale.task import Task

MAX_CHARACTERS = 20_000
"""A longer message is wrong, unread."""
MAX_OPTIONS = 12
"""Options that a slot lists; where there are more, it takes a few words."""
MAX_NUMBER = 10**30
_SAMPLE = 12  # tasks of an intent whose results name the slots
_MATCHED = 5  # slots that may be filled in any order
_UNNAMED = "answer"
_GENERIC = ("name", "value")
_CURRENCY = re.compile(r"[$€£]|\b(?:dollars?|euros?|usd|eur|pounds?|gbp)\b", re.IGNORECASE)
_FENCED = re.compile(r"```[ \t]*+(?:json[ \t]*+)?\n(.*?)```", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"(\d{1,2}):(\d{2})")
_NOTHING = frozenset(("none", "nothing", "null"))
_SWITCH = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
_KINDS: dict[Kind, tuple[str, dict[str, str]]] = {
    "money": ("an amount of money as a plain number", {"type": "number"}),
    "number": ("a plain number", {"type": "number"}),
    "date": ("a date as YYYY-MM-DD", {"type": "string", "format": "date"}),
    "time": ("a time as HH:MM", {"type": "string", "format": "time"}),
    "identifier": ("an identifier", {"type": "string"}),
    "name": ("a name", {"type": "string"}),
    "option": ("a few words", {"type": "string"}),
    "yes/no": ("true or false", {"type": "boolean"}),
}

Value = None | bool | int | float | str
"""What stands in a slot."""


class _Filled(msgspec.Struct, forbid_unknown_fields=True):
    """A form as it is written."""

    answer: dict[str, Value]


class FormSlot(msgspec.Struct, frozen=True):
    """What a form asks for in one place.

    Attributes:
        name: The key under which the results of all tasks of the intent show it, where there are several slots to be
            told apart; else ``answer_1`` and so on. It is numbered where several slots would have the same name.
        kinds: What the value may be.
        options: The options, if they are few.
        nullable: Whether null says that there is none, or that it cannot be done; otherwise options say which.
    """

    name: str
    kinds: tuple[Kind, ...]
    options: tuple[str, ...] = ()
    nullable: bool = True

    @property
    def description(self) -> str:
        """What may stand in it, in words."""
        words = [_KINDS[kind][0] for kind in self.kinds if kind != "option" or not self.options]
        if self.options:
            words.append("one of " + ", ".join(f'"{option}"' for option in self.options))
        return " or ".join(words) + ("; null if there is none, or it cannot be done" if self.nullable else "")

    @property
    def schema(self) -> dict[str, Any]:
        """What may stand in it, as JSON schema."""
        kinds = [_KINDS[kind][1] for kind in self.kinds if kind != "option" or not self.options]
        choices: list[dict[str, Any]] = [{"enum": list(self.options)}] if self.options else []
        types = [kind for number, kind in enumerate(kinds) if kind not in kinds[:number]]
        nothing: list[dict[str, Any]] = [{"type": "null"}] if self.nullable else []
        return {"description": self.description, "anyOf": [*types, *choices, *nothing]}


class AnswerForm(msgspec.Struct, frozen=True):
    """The form of a task, and what is right in it.

    Attributes:
        slots: What it asks for: all that may be shown.
        right: For each slot the readings of values that are right.
        values: For each slot a value that is right.
        alike: Numbers of slots that are asked for in the same way: their values may stand in any order.
    """

    slots: tuple[FormSlot, ...]
    right: tuple[frozenset[str], ...]
    values: tuple[Value, ...]
    alike: tuple[tuple[int, ...], ...]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of what is to be written."""
        names = [slot.name for slot in self.slots]
        slots = {slot.name: slot.schema for slot in self.slots}
        answer = {"type": "object", "properties": slots, "required": names, "additionalProperties": False}
        return {
            "type": "object",
            "properties": {"answer": answer},
            "required": ["answer"],
            "additionalProperties": False,
        }

    @property
    def outline(self) -> str:
        """The JSON object that is to be written, its values left open."""
        return '{"answer": {' + ", ".join(f'"{slot.name}": …' for slot in self.slots) + "}}"

    def text(self, place: str) -> str:
        """Return what an orchestrator is told of the form; `place` is the sentence that says where it is written."""
        lines = [place, "", self.outline, ""]
        lines += [f"- {slot.name}: {slot.description}" for slot in self.slots]
        for numbers in self.alike:
            lines.append(f"- {' and '.join(self.slots[number].name for number in numbers)}: in any order")
        schema = msgspec.json.encode(self.schema).decode()
        return "\n".join([*lines, "", f"JSON schema: {schema}"])

    def filled(self, values: Sequence[Value] | None = None) -> str:
        """Return the form with values in its slots: by default right ones.

        >>> AnswerForm((FormSlot("total", ("money",)),), (frozenset(("#12.5",)),), (12.5,), ()).filled()
        '{"answer":{"total":12.5}}'
        """
        names = (slot.name for slot in self.slots)
        pairs = zip(names, self.values if values is None else values, strict=True)
        return msgspec.json.encode({"answer": dict(pairs)}).decode()


def judge_form(text: str, form: AnswerForm) -> list[str]:
    """Return what is wrong with a message that should be a form; nothing if it is right. It never raises."""
    found = _read(text, form)
    if isinstance(found, str):
        return [found]
    slots, wrong = form.slots, []
    values = [found[slot.name] for slot in slots]
    fits = [[not form.right[j].isdisjoint(_readings(value)) for j in range(len(slots))] for value in values]
    together = {number: numbers for numbers in form.alike for number in numbers}
    for i, slot in enumerate(slots):
        numbers = together.get(i, (i,))
        if not any(all(fits[a][b] for a, b in zip(numbers, order, strict=True)) for order in _orders(numbers)):
            expected = " or ".join(dict.fromkeys(_shown(form.values[number]) for number in numbers))
            wrong.append(f"the form has {_shown(values[i])} in {slot.name!r}, expected {expected} ({slot.description})")
    return wrong


def _orders(numbers: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    return itertools.permutations(numbers) if len(numbers) <= _MATCHED else (numbers,)


def _read(text: str, form: AnswerForm) -> dict[str, Value] | str:
    """Return what a message has in the slots of a form, or what is wrong with it."""
    expected = f"expected one JSON object {form.outline}"
    if len(text) > MAX_CHARACTERS:
        return f"{expected}, found {len(text):,} characters; at most {MAX_CHARACTERS:,} are read"
    text = text.strip()
    if not text.startswith("{"):
        blocks = _FENCED.findall(text) or [box for box in (boxed(text),) if box is not None]
        if len(blocks) != 1:
            return f"{expected}, found {f'{len(blocks)} of them' if blocks else 'text'}"
        text = blocks[0].strip()
    try:
        found = msgspec.json.decode(text, type=_Filled).answer
    except (msgspec.DecodeError, RecursionError, ValueError, OverflowError) as error:
        return f"{expected}, found another one: {str(error)[:200]}"
    names = [slot.name for slot in form.slots]
    if missing := [name for name in names if name not in found]:
        return f"{expected}: the slot {missing[0]!r} is missing"
    if unknown := [name for name in found if name not in names]:
        return f"{expected}: there is no slot {unknown[0][:80]!r}"
    return found


def _shown(value: Value) -> str:
    if isinstance(value, int) and abs(value) > MAX_NUMBER:  # its digits could be more than Python writes
        return "a number beyond all bounds"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else text[:79] + "…"


def _readings(value: Value) -> frozenset[str]:
    """Return what a value can be read as: each kind of value in its one spelling."""
    if value is None:
        return frozenset(("none",))
    if isinstance(value, bool):
        return frozenset(("yes" if value else "no",))
    if not isinstance(value, str):
        return frozenset((_number(value),)) if abs(value) < MAX_NUMBER else frozenset()  # nor is it infinite
    text = _plain(value)
    found = {f"={text}"}
    if text in _NOTHING:
        found.add("none")
    if text in _SWITCH:
        found.add(_SWITCH[text])
    if _NUMBER.fullmatch(text):
        found.add(_number(text))
    if _DATE.fullmatch(text):
        found |= {f"@{text}", f"@????{text[4:]}"}
    if time := _TIME.fullmatch(text):
        found.add(f"~{int(time[1]):02d}:{time[2]}")
    return frozenset(found)


def _number(value: float | str) -> str:
    """Return a number in its one spelling, that of `toolorchestra.toolscale.mentions.tokens`."""
    text = f"{Decimal(str(value)):f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    whole, _, fraction = text.removeprefix("-").partition(".")
    digits = (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")
    return f"#-{digits}" if text.startswith("-") and digits != "0" else f"#{digits}"


def _plain(text: str) -> str:
    """Return a text without differences that do not count: case, accents, spaces, quotes and a full stop at the end."""
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(char for char in decomposed if not unicodedata.combining(char)).replace("’", "'")
    return " ".join(bare.casefold().split()).strip("\"'").rstrip(".")


class FormTable:
    """The forms of the tasks of a domain.

    Args:
        tasks: Tasks of the domain: those of an intent have the same slots.
        expected: Returns what the answers to a task are judged by, which tells under which keys results show its facts.
    """

    def __init__(self, tasks: Iterable[Task], expected: Callable[[Task], ExpectedAnswer]) -> None:
        self._expected = expected
        self._tasks: dict[tuple[str, int], dict[str, Task]] = defaultdict(dict)
        self._known: dict[tuple[str, int], list[_Place]] = {}
        for task in tasks:
            self._tasks[task.intent, len(task.communicate)][task.id] = task

    def of(self, task: Task) -> AnswerForm:
        """Return the form of a task."""
        key = task.intent, len(task.communicate)
        if key not in self._known:
            tasks = list((self._tasks.get(key) or {task.id: task}).values())
            self._known[key] = self._places(tasks)
        places = self._known[key]
        right, values = [], []
        for place, options in zip(places, task.communicate, strict=True):
            readings = place.right(options)
            right.append(readings)
            values.append(_value(options, readings))
        alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for number, place in enumerate(places):
            alike[place.base, place.slot.kinds, place.slot.options].append(number)
        slots = tuple(place.slot for place in places)
        together = tuple(tuple(numbers) for numbers in alike.values() if len(numbers) > 1)
        return AnswerForm(slots, tuple(right), tuple(values), together)

    def _places(self, tasks: Sequence[Task]) -> list[_Place]:
        """Return the places of the facts of an intent."""
        count = len(tasks[0].communicate)
        bases = [_UNNAMED] * count
        if count > 1:  # a single slot needs no name
            sample = tasks[:: max(1, len(tasks) // _SAMPLE)][:_SAMPLE]
            facts = zip(*(self._expected(task).facts for task in sample), strict=True)
            bases = [_common_key([fact.keys for fact in place]) for place in facts]
        found = [
            [task.communicate[i] for task in tasks for i in range(count) if i == number or base == bases[i] != _UNNAMED]
            for number, base in enumerate(bases)
        ]  # what stands under the same key is asked for in the same way
        return [_Place.of(*place) for place in zip(bases, _names(bases), found, strict=True)]


class _Place(msgspec.Struct, frozen=True):
    """The place of a fact in the tasks of an intent: the name of its slot before it was numbered, and the slot."""

    base: str
    slot: FormSlot
    refused: bool

    @classmethod
    def of(cls, base: str, name: str, facts: Sequence[Sequence[str]]) -> _Place:
        """Return the place of facts, given by their accepted phrases."""
        kinds, words, refusals = set[Kind](), set[str](), set[str]()
        for options in facts:
            kind = _kind(options)
            if kind == "none":
                refusals.add(_label(options))
            else:
                kinds.add(kind)
                if kind == "option":
                    words.add(_label(options))
        if "yes/no" not in kinds and (words or len(refusals) > 1):
            words |= refusals
        if refusals and not kinds:
            kinds.add("option")
        if words:
            kinds.add("option")
        if len(words) == 1 and len(kinds) == 1:  # the only one that is ever right is not given away
            words |= {f"not {word}" for word in words}
        shown = tuple(sorted(words)) if len(words) <= MAX_OPTIONS else ()
        ordered: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind in kinds)
        return cls(base, FormSlot(name, ordered or ("option",), shown, len(refusals) < 2), bool(refusals))

    def right(self, options: Sequence[str]) -> frozenset[str]:
        """Return the readings of values that state a fact."""
        kind, found = _kind(options), set[str]()
        for option in options:
            found |= _readings_of(option, kind)
        if kind == "none":
            if "yes/no" in self.slot.kinds:
                found.add("no")
            elif self.slot.nullable:
                found.add("none")
        elif "#0" in found and not self.refused:  # nothing is to be paid, and so on
            found.add("none")
        if kind == "yes/no":
            found.add("yes")
        return frozenset(found)


def _common_key(keys: Sequence[frozenset[str]]) -> str:
    """Return the key under which the results of all tasks show a fact, or "answer" if they have none in common."""
    common = frozenset.intersection(*keys) - {""}
    return min(common, key=lambda key: (key in _GENERIC, key), default=_UNNAMED)


def _names(bases: Sequence[str]) -> list[str]:
    """Return names of slots, each another one."""
    often, seen = Counter(bases), Counter[str]()
    names = []
    for base in bases:
        seen[base] += 1
        names.append(base if often[base] == 1 and base != _UNNAMED else f"{base}_{seen[base]}")
    return names if len(set(names)) == len(names) else [f"{_UNNAMED}_{n}" for n in range(1, len(names) + 1)]


def _label(options: Sequence[str]) -> str:
    return next((option for option in options if tokens(option)), "")


def _kind(options: Sequence[str]) -> Kind:
    """Return the kind of value that states a fact, given its accepted phrases."""
    label, found = _label(options), tokens(_label(options))
    every = [tokens(option) for option in options]
    if ["yes"] in every:
        return "yes/no"
    if ["#0"] in every:
        return "money" if any(map(_CURRENCY.search, options)) else "number"
    if not any(map(str.isdigit, label)):
        if found and found[0] in NEGATORS:
            return "none"
        return "name" if label[:1].isupper() else "option"
    if len(found) == 1:
        kind = kind_of_token(found[0]) or "identifier"
        return "money" if kind == "number" and any(map(_CURRENCY.search, options)) else kind
    typed = _one_value(label, found)
    return TYPED[typed[0]] if typed else "identifier"


def _one_value(text: str, found: Sequence[str]) -> str:
    """Return the only number, date or time in words about it ("seat 12", "50 minutes"), or nothing."""
    typed = [token for token in found if token[0] in TYPED]
    plain = " " in text and text == text.lower() and NEGATORS.isdisjoint(found)
    return typed[0] if len(typed) == 1 and plain else ""


def _readings_of(option: str, kind: Kind) -> set[str]:
    """Return the readings of values that state an accepted phrase."""
    found, readings = tokens(option), set[str]()
    if not found:
        return readings
    typed = found[0] if len(found) == 1 and found[0][0] in TYPED else ""
    if typed:
        readings.add(typed)
    elif kind not in ("none", "option", "name") and (value := _one_value(option, found)):
        readings.add(value)
    if not typed or not any(map(str.isdigit, option)):
        readings.add(f"={_plain(option)}")
        words = option.split()
        if kind == "name" and 2 <= len(words) <= 3:
            readings.add("=" + _plain(", ".join((words[-1], " ".join(words[:-1])))))
    return readings


def _value(options: Sequence[str], readings: frozenset[str]) -> Value:
    """Return a value that states a fact."""
    kind, label = _kind(options), _label(options)
    if kind == "yes/no" or (kind == "none" and "no" in readings):
        return kind == "yes/no"
    if kind == "none" and "none" in readings:
        return None
    sign = {"money": "#", "number": "#", "date": "@", "time": "~"}.get(kind, "")
    own = _one_value(label, tokens(label)) or (tokens(label) or [""])[0]
    typed = [own] if sign and own[:1] == sign else sorted(one for one in readings if sign and one[0] == sign)
    if not typed:
        return label
    value = typed[0][1:]
    if sign == "#":
        return float(value) if "." in value else int(value)
    return value if "?" not in value else value.replace("????", "2000")
