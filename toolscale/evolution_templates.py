"""The wording of evolved tasks: templates (``evolution_templates.yaml``), and how sentences are built from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.toolscale.entities import EntityFact, is_code, is_date, spellings
from toolorchestra.toolscale.expressions import shown_value
from toolorchestra.toolscale.yaml_reader import read_yaml

TEMPLATES = msgspec.convert(read_yaml(Path(__file__).with_suffix(".yaml")), dict[str, tuple[str, ...]])
"""Templates and words by the keys of ``evolution_templates.yaml``, which says what each is for."""

_GENDERED = re.compile(r"\b(?:he|she|him|his|her|hers|himself|herself|mr|mrs|ms)\b", re.IGNORECASE)
_WEEKDAY = re.compile(r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow|yesterday)\b", re.IGNORECASE)


def words_of(fact: EntityFact, predicate: str) -> dict[str, str]:
    """Return the words that templates take of a fact and a condition on it."""
    pronoun = "they" if fact.plural else "it"
    words = {"thing": fact.thing, "it": pronoun, "be": fact.be, "predicate": predicate}
    return words | {"it_object": "them" if fact.plural else "it", "it_object_be": f"{pronoun} be"}


def statement(fact: EntityFact) -> str:
    """Return a fact as a sentence."""
    return f"{capital(fact.thing)} {fact.be} {shown_value(fact.value)}."


def sentence(text: str) -> str:
    """Return a text with an end mark."""
    text = text.strip()
    return text if text[-1:] in ".?!" or text.endswith((".)", "?)", "!)")) else f"{text}."


def capital(text: str) -> str:
    """Return a text that begins with a capital."""
    return text[:1].upper() + text[1:]


def bare(text: str) -> str:
    """Return a request without the "please" at its start, as used after a colon."""
    return sentence(capital(re.sub(r"^(?:Please|please),?\s+", "", text.strip())))


def value_text(fact: EntityFact) -> str:
    """Return the value of a fact as an instruction says it."""
    return spellings(fact.value)[-1] if fact.kind == "date" else shown_value(fact.value)


def described(text: str, pattern: re.Pattern[str], description: str, noun: str) -> str | None:
    """Return `text` with a description in place of a key, or None where that would read wrong.

    It reads wrong in an enumeration ("the dishes D06 and D53"), before a possessive ("O1001's"), in brackets, and
    after a word that may be another noun for the same thing ("the card payment T2524").
    """
    parts, end = [], 0
    for number, match in enumerate(pattern.finditer(text)):
        before, after = text[: match.start()].rstrip(), text[match.end() :]
        last = re.search(r"(\w+)$", before)
        alone = " " not in match[0] and last is not None and last[1].lower() not in TEMPLATES["before"]
        listed = re.search(rf"\b{re.escape(noun)}e?s(?:\W+\w+,?)*\W*$", before[-40:], re.I)
        if alone or listed or before.endswith("(") or re.match(r"['’(]", after):
            return None
        words = description if number == 0 else f"that {noun}"
        parts += [text[end : match.start()], capital(words) if not before or before[-1] in ".?!" else words]
        end = match.end()
    return "".join([*parts, text[end:]]) if parts else None


def changed(text: str, value: Any, other: Any) -> str | None:
    """Return `text` with another value in place of one, or None where it does not occur or other words depend on it."""
    if (isinstance(value, str) and not is_code(value) and _GENDERED.search(text)) or (
        is_date(value) and _WEEKDAY.search(text)
    ):
        return None
    result = text
    for old, new in zip(spellings(value), spellings(other), strict=False):
        result = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-]|[.,:]\d)", new.replace("\\", r"\\"), result)
    return None if result == text else sentence(result)
