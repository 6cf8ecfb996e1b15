"""What evolved tasks say: the templates of each operator, and how sentences are put together.

The placeholders of a template are named after what stands in them: ``request`` and ``do`` are the parent's
instruction (``do`` as it stands after a colon), ``thing`` is what a look-up tells ("the price of dish D07"), ``be``
and ``it`` agree with it, and ``predicate`` is a condition on it ("at least 30").
"""

from __future__ import annotations

import re
from typing import Any

from toolorchestra.toolscale.entities import EntityFact, is_code, is_date, shown_value, spellings

CONSTRAINTS = (
    "{request} But only if {thing} {be} {predicate}; otherwise change nothing. Tell me {thing} in either case.",
    "Look up {thing} first and tell me what {it} {be}. Only if {it} {be} {predicate}, do this: {do} Otherwise leave "
    "everything as it is.",
    "On condition that {thing} {be} {predicate}: {do} If that is not so, change nothing. Either way I want to "
    "know {thing}.",
    "{request} There is one condition: {thing} must be {predicate}. Check that before you do anything, do nothing if "
    "the condition is not met, and let me know {thing} whatever happens.",
    "Please check {thing}. If {it} {be} {predicate}, I have a request: {do} If not, leave it at that. In any case, "
    "report {thing}.",
)
CHAINS = (
    "First: {first} After that: {second}",
    "I have two requests. The first: {first} The second: {second}",
    "{first} When that is done, there is something else: {second}",
    "{first} And one more thing. {second}",
    "Two things, please, one after the other. {first} Then: {second}",
)
BRANCHES = (
    "Look up {thing} and tell me what {it} {be}. If {it} {be} {predicate}, do this: {do} If not, do this instead: "
    "{otherwise}",
    "It depends on {thing}, which I would like to know as well. If {it} {be} {predicate}: {do} Otherwise: {otherwise}",
    "What I need depends on whether {thing} {be} {predicate}. If so: {do} If not: {otherwise} Do only one of the two, "
    "and tell me {thing} too.",
    "Please check {thing} and report {it_object}. Should {it_object_be} {predicate}, then {here}: {do} In the other "
    "case: {otherwise}",
)
ASIDES = (
    "{request} By the way, {aside}, but that has nothing to do with it.",
    "I have just seen that {aside}; never mind that. {request}",
    "{Aside}, as I happen to know. That is not why I am writing. {request}",
    "{request} (I also noticed that {aside}. You need not do anything about that.)",
)
RETRACTIONS = (
    "{request} I was also going to ask for this: {wish} But leave that, it is no longer needed.",
    "At first I wanted something else: {wish} Forget about that. What I do need is this: {request}",
    "My first idea was this: {wish} I have changed my mind, so please do not do it. Instead: {request}",
    "{request} Earlier today I had another wish: {wish} That is settled, so do nothing about it.",
)
CHANGE_NOTHING = (
    "If that cannot be done, change nothing and tell me why.",
    "Should that turn out to be impossible, leave everything as it is and say what is missing.",
    "If there is nothing there to work with, just tell me so and change nothing.",
)
NOTHING_THERE = (
    "If there is nothing to be found, just say so.",
    "Let me know if there is no such thing.",
    "If nothing of the kind exists, tell me that.",
)
REFUSALS = (
    "{request} If our rules do not allow it, change nothing, say so, and tell me {thing}.",
    "{request} If that is not possible, leave everything as it is, tell me that it is not, and give me {thing}.",
    "See whether this can be done: {request} If it cannot, do nothing else about it, but tell me so, and what {thing} "
    "{be}.",
)


NOT_FOUND = (
    "no such", "not found", "not find", "not exist", "doesn't exist", "don't exist", "nothing", "none", "there is no",
    "there are no", "does not have", "doesn't have", "do not have", "don't have", "has no", "have no", "is no",
    "are no", "with no", "without", "not any", "no record", "no records", "no entry", "no entries", "isn't any",
    "couldn't find", "can't find", "cannot", "can't", "could not", "couldn't", "not possible", "impossible", "unable",
    "not there", "not registered", "not listed", "not available", "empty", "zero", "no result", "no results",
)  # fmt: skip
REFUSED = (
    "cannot", "can't", "can not", "could not", "couldn't", "not possible", "impossible", "unable", "not allowed",
    "isn't possible", "isn't allowed", "not permitted", "not eligible", "not available", "unavailable", "refused",
    "rejected", "declined", "denied", "failed", "not done", "not carried out", "not been", "not be", "no longer",
    "won't", "wasn't", "was not", "were not", "isn't", "is not", "are not", "aren't", "did not", "didn't", "have not",
    "haven't", "has not", "hasn't", "does not", "doesn't", "already", "too late", "nothing was", "nothing has been",
    "nothing is", "nothing changed", "not changed", "unchanged", "left as",
)  # fmt: skip
_BEFORE = frozenset({
    "of", "for", "to", "on", "at", "with", "in", "from", "by", "off", "into", "about", "against", "than", "under",
    "and", "or", "but", "if", "when", "whether", "that", "is", "are", "was", "has", "have", "can", "could", "does",
    "did", "do", "will", "would", "should", "please", "then", "also", "not", "add", "book", "cancel", "change",
    "check", "close", "give", "move", "open", "order", "pay", "put", "record", "remove", "renew", "see", "settle",
    "show", "swap", "take", "use", "want", "wants", "look", "up",
})  # fmt: skip
_GENDERED = re.compile(r"\b(?:he|she|him|his|her|hers|himself|herself|mr|mrs|ms)\b", re.IGNORECASE)
_WEEKDAY = re.compile(r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow|yesterday)\b", re.IGNORECASE)


def words_of(fact: EntityFact, predicate: str) -> dict[str, str]:
    """Return the words that templates take of a fact and a condition on it."""
    shown = {"it_object": "them" if fact.plural else "it", "it_object_be": "they be" if fact.plural else "it be"}
    return shown | {"thing": fact.thing, "it": fact.it, "be": fact.be, "predicate": predicate, "here": "do this"}


def sentence(text: str) -> str:
    """Return a text with an end mark."""
    text = text.strip()
    return text if text[-1:] in ".?!" or text.endswith((".)", "?)", "!)")) else f"{text}."


def capital(text: str) -> str:
    """Return a text that begins with a capital."""
    return text[:1].upper() + text[1:]


def bare(text: str) -> str:
    """Return a request without the "please" at its start, as it stands after a colon."""
    return sentence(capital(re.sub(r"^(?:Please|please),?\s+", "", text.strip())))


def said(fact: EntityFact) -> str:
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
        alone = " " not in match[0] and last is not None and last[1].lower() not in _BEFORE
        listed = re.search(rf"\b{re.escape(noun)}e?s(?:\W+\w+,?)*\W*$", before[-40:], re.I)
        if alone or listed or before.endswith("(") or re.match(r"['’(]", after):
            return None
        words = description if number == 0 else f"that {noun}"
        parts += [text[end : match.start()], capital(words) if not before or before[-1] in ".?!" else words]
        end = match.end()
    return "".join([*parts, text[end:]]) if parts else None


def changed(text: str, value: Any, other: Any) -> str | None:
    """Return `text` with another value in place of one, or None where it does not stand or other words hang on it."""
    if (isinstance(value, str) and not is_code(value) and _GENDERED.search(text)) or (
        is_date(value) and _WEEKDAY.search(text)
    ):
        return None
    changed = text
    for old, new in zip(spellings(value), spellings(other), strict=False):
        changed = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-]|[.,:]\d)", str(new).replace("\\", r"\\"), changed)
    return None if changed == text else sentence(changed)
