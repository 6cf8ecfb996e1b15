"""Facts as values of typed answers: their type, the slot that takes them, and what is right in it.

A fact is given by the phrases that state it, as in `Task.communicate`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.answers.typed_answers import CURRENCIES, NO_YEAR, AnswerSlot, SlotType, Value, plain_text

MAX_OPTIONS = 12
"""Options that a slot lists; where there are more, it takes a text."""
_CONTRARY = "not "
_UNITS = {"$": "USD", "€": "EUR", "£": "GBP"}
_MONEY = re.compile(r"[$€£]|\b(?:dollars?|euros?|usd|eur|pounds?|gbp)\b", re.IGNORECASE)
_NEGATORS = frozenset(("no", "not", "none", "nothing", "never", "cannot", "without"))
_TYPED: Mapping[str, SlotType] = {"#": "number", "@": "date", "~": "time"}


def make_slot(
    name: str,
    facts: Sequence[Sequence[str]],
    currency: Mapping[str, str],
    *,
    nullable: bool = False,
    several: bool = False,
) -> AnswerSlot:
    """Return the slot of facts; `currency` says by names of slots which hold amounts, and of which currency."""
    types, words, units = set[SlotType](), set[str](), set[str]()
    for options in facts:
        kind = type_of(options)
        if kind == "none":
            nullable = True
        else:
            types.add(kind)
            if kind == "text":
                words.add(label_of(options))
            if kind == "money":
                units |= {unit for sign, unit in _UNITS.items() if any(sign in option for option in options)}
    code = currency.get(name) or currency.get(re.sub(r"_\d+$", "", name))
    if code and "number" in types:
        types, units = types - {"number"} | {"money"}, {code}
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


def right_readings(options: Sequence[str], slot: AnswerSlot) -> frozenset[str]:
    """Return the readings of values that state a fact."""
    kind, found = type_of(options), set[str]()
    for option in options:
        found |= _readings_of(option, kind)
    if kind == "none":
        found |= nothing(slot)
    elif kind == "true or false":
        found.add("yes" if value_of(options) else "no")
    elif kind == "date":
        found |= {f"{NO_YEAR}{one[5:]}" for one in found if one[0] == "@" and "?" not in one}
    codes = (slot.unit,) if slot.unit else CURRENCIES  # a currency that is not known may be any
    return frozenset(
        found.union(f"{one} {code}" for one in found if one[0] == "#" and " " not in one for code in codes)
    )


def nothing(slot: AnswerSlot) -> frozenset[str]:
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


def label_of(options: Sequence[str]) -> str:
    """Return the phrase by which a fact is shown."""
    return next((option for option in options if tokens(option)), "")


def type_of(options: Sequence[str]) -> SlotType | Literal["none"]:
    """Return the type of value that states a fact, given its accepted phrases; ``none`` if there is none."""
    label, found = label_of(options), tokens(label_of(options))
    every = [tokens(option) for option in options]
    if ["yes"] in every or every == [["no"]]:
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


def value_of(options: Sequence[str]) -> Value:
    """Return a value that states a fact."""
    kind, label = type_of(options), label_of(options)
    if kind == "none":
        return None
    if kind == "true or false":
        return tokens(label) != ["no"]
    sign = {"money": "#", "number": "#", "date": "@", "time": "~"}.get(kind, "")
    own = _one_value(label, tokens(label)) or (tokens(label) or [""])[0]
    others = set[str]().union(*(_readings_of(option, kind) for option in options))
    typed = [own] if sign and own[:1] == sign else sorted(one for one in others if sign and one[0] == sign)
    if not typed:
        return label
    value = typed[0][1:]
    if sign == "#":
        return float(value) if "." in value else int(value)
    return value if "?" not in value else value.replace("????", "2000")
