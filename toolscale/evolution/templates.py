"""The wording of evolved tasks: templates (``evolution_templates.yaml``), and how sentences are built from them."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.requests.entities import EntityFact, is_code, is_date, spellings
from toolorchestra.toolscale.tools.expressions import shown_value

_READ = read_yaml(Path(__file__).with_suffix(".yaml"))
WORDS = msgspec.convert(
    {key: texts for key, texts in _READ.items() if isinstance(texts, list)}, dict[str, tuple[str, ...]]
)
"""Words and phrases by the keys of ``evolution_templates.yaml``, which says what each is for."""
TEMPLATES = msgspec.convert(
    {key: texts for key, texts in _READ.items() if isinstance(texts, dict)}, dict[str, dict[str, tuple[str, ...]]]
)
"""Templates by their keys in ``evolution_templates.yaml``, for the split ``train`` and for those to ``test`` on."""

GENDERED = re.compile(r"\b(?:he|she|him|his|her|hers|himself|herself|mr|mrs|ms)\b", re.IGNORECASE)
"""Words that depend on who is spoken of."""
_WEEKDAY = re.compile(r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow|yesterday)\b", re.IGNORECASE)


def template(kind: str, split: str, rng: random.Random) -> str:
    """Return one of the templates of a kind for tasks of a split."""
    return rng.choice(TEMPLATES[kind]["train" if split == "train" else "test"])


def own(thing: str, person: str | None) -> str:
    """Return what a person says of a thing that may be their own.

    >>> own("the age of Ada", "Ada"), own("the total of Ada's order", "Ada"), own("the total of Ada's order", None)
    ('my age', 'the total of my order', "the total of Ada's order")
    """
    if person is None:
        return thing
    thing = re.sub(rf"\bthe ((?:(?!\bof\b).)+) of {re.escape(person)}$", r"my \1", thing)
    return re.sub(rf"\b{re.escape(person)}'s ", "my ", thing)


def words_of(fact: EntityFact, predicate: str, person: str | None = None) -> dict[str, str]:
    """Return the words that templates take of a fact and a condition on it, as a person says them."""
    pronoun = "they" if fact.plural else "it"
    words = {"thing": own(fact.thing, person), "it": pronoun, "be": fact.be, "predicate": predicate}
    return words | {"it_object": "them" if fact.plural else "it", "it_object_be": f"{pronoun} be"}


def statement(fact: EntityFact) -> str:
    """Return a fact as a sentence."""
    return f"{capital(fact.thing)} {fact.be} {value_text(fact)}."


def sentence(text: str) -> str:
    """Return a text with an end mark."""
    text = text.strip()
    return text if text[-1:] in ".?!" or text.endswith((".)", "?)", "!)")) else f"{text}."


def capital(text: str) -> str:
    """Return a text that begins with a capital."""
    return text[:1].upper() + text[1:]


def value_text(fact: EntityFact) -> str:
    """Return the value of a fact as an instruction says it."""
    return spellings(fact.value)[-1] if fact.kind == "date" else shown_value(fact.value)


def described(text: str, pattern: re.Pattern[str], description: str, noun: str, *, always: bool = False) -> str | None:
    """Return `text` with a description in place of a key or a name, or None where that would read wrong.

    It reads wrong in an enumeration ("the dishes D06 and D53"), before a possessive ("O1001's"), at brackets, before
    another description ("P09, the ground of the Rovers"), and
    after a word that may be another noun for the same thing ("the card payment T2524"), which is looked for where the
    noun is not said, or `always`.
    """
    parts, end = [], 0
    for number, match in enumerate(pattern.finditer(text)):
        before, after = text[: match.start()].rstrip(), text[match.end() :]
        last = re.search(r"(\w+)$", before)
        bare = (always or " " not in match[0]) and last is not None and last[1].lower() not in WORDS["before"]
        listed = re.search(rf"\b{re.escape(noun)}e?s(?:\W+\w+,?)*\W*$", before[-40:], re.I)
        if bare or listed or before.endswith("(") or re.match(r"\s*['’(]|,? (?:the|our|my|of|from)\b", after):
            return None
        words = description if number == 0 else f"that {noun}"
        parts += [text[end : match.start()], capital(words) if not before or before[-1] in ".?!" else words]
        end = match.end()
    return "".join([*parts, text[end:]]) if parts else None


def changed(text: str, value: Any, other: Any) -> str | None:
    """Return `text` with another value in place of one, or None where it does not occur or other words depend on it."""
    if (isinstance(value, str) and not is_code(value) and GENDERED.search(text)) or (
        is_date(value) and _WEEKDAY.search(text)
    ):
        return None
    result = text
    for old, new in zip(spellings(value), spellings(other), strict=False):
        result = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-]|[.,:]\d)", new.replace("\\", r"\\"), result)
    return None if result == text else sentence(result)
