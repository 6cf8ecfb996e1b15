"""What the answer to a task must state, what it may state beside it, and what would be wrong.

Facts have kinds. Of a number, amount, date, time or identifier everything else of the kind is a rival, unless the
request, the reference answer or the results show it in its own right. Of names and options the rivals are listed:
those that other tasks of the intent have in this place, and the other values that the results show under the same key.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from toolorchestra.toolscale.database import Database
from toolorchestra.toolscale.judging.statements import (
    COPULAS,
    JOINERS,
    MARKED,
    NEGATORS,
    NEUTRAL,
    STOPWORDS,
    Statements,
    around,
    denials,
    read_statements,
    spelled_out,
    state_of,
)
from toolorchestra.toolscale.mentions import ORDINALS, tokens
from toolorchestra.toolscale.task import Task

Kind = Literal["money", "number", "date", "time", "identifier", "name", "option", "yes/no", "none"]
"""Kinds of facts: amounts, numbers, dates, times, identifiers, names, one of several options, yes or no, and none
(nothing was found, or it cannot be done)."""

TYPED: Mapping[str, Kind] = {"#": "number", "@": "date", "~": "time"}
_IDENTIFIER = re.compile(r"(?=.*[a-z])(?=.*\d)[a-z\d]+")
_QUANTITY = re.compile(r"\d+(?:st|nd|rd|th|am|pm|h|min|mins|s|km|kg|g|m|c|f|x|usd|eur|gbp)")
_CURRENCY = re.compile(r"[$€£]|\b(?:dollars?|euros?|usd|eur|pounds?|gbp)\b", re.IGNORECASE)
_NEGATIVE_STATES = frozenset(("unavailable", "impossible", "sold", "out"))
_ORDINALS = {str(number): word for number, word in enumerate(ORDINALS) if number}
_ENDINGS = {"#1": "st", "#2": "nd", "#3": "rd"}
_EMPTY = STOPWORDS | NEGATORS
_NEGATED = 5
_CAPITALIZED = re.compile(r"(?<=[\w,;:] )[A-Z][\w'’-]*")
_YES = frozenset(("yes", "no"))
_PARROTED = 8
_NEIGHBOURS = 3
_MAX_PHRASE = 6
_MAX_NAMED = 6
_MAX_NAME = 4
_MAX_NUMBERED = 6

Phrase = tuple[str, ...]


class Names(msgspec.Struct, frozen=True):
    """The names of things in a database: those in words by their first two tokens, those with a number by the first."""

    plain: Mapping[str, tuple[Phrase, ...]]
    numbered: Mapping[str, tuple[Phrase, ...]]


NO_NAMES = Names(MappingProxyType({}), MappingProxyType({}))
"""The names of an empty database."""


class ExpectedFact(msgspec.Struct, frozen=True):
    """One piece of information that an answer must state.

    Attributes:
        phrases: The tokens of each accepted phrase.
        named: It as error messages name it.
        kind: What kind of fact it is.
        rivals: Phrases that state another fact in its place.
        keys: Keys under which the results show it.
        rival_kinds: Kinds of values that would state another fact in its place.
        given: Whether the request holds it, so that repeating the request would mention it.
        choices: Values that the request enumerates together with it.
        negative: Whether the reference answer has it in a negated statement.
        shapes: How identifiers that would state another fact in its place begin.
        apart: Whether the reference answer has it outside of names with numbers in them.
        slots: The words before and after a value in the reference answer, or the one before it.
    """

    phrases: tuple[Phrase, ...]
    named: str
    kind: Kind
    rivals: tuple[Phrase, ...] = ()
    keys: frozenset[str] = frozenset()
    rival_kinds: frozenset[str] = frozenset()
    given: bool = False
    choices: frozenset[str] = frozenset()
    negative: bool = False
    shapes: frozenset[str] = frozenset()
    apart: bool = False
    slots: frozenset[Phrase] = frozenset()


class ExpectedAnswer(msgspec.Struct, frozen=True):
    """What the answers to a task are judged by.

    Attributes:
        facts: What must be stated.
        allowed: Values that may be stated wherever: those of the facts, of the reference answer and of the request.
        keys: The values that the results show, each with the keys under which they stand.
        labels: The values of request and results, each with the beginnings of the words by which they are named.
        key_words: The beginnings of the words in the keys of the results.
        texts: The texts that the results show, by first token.
        names: The names of things in the database, by the first two tokens.
        numbered: Those of them that hold a number.
        known: All tokens of request, reference answer and results.
        runs: Runs of tokens of the request; an answer that holds one repeats the request.
        run_length: The length of such a run.
        words: Words of the request and of the reference answer that carry meaning.
        about: Those of `known` that are not stop words, and what is allowed.
        plain: Words of the reference answer, if it negates, doubts and compares nothing.
        asked: Values in the request.
        positive: How often the reference answer has words that it has in positive statements only.
        denied: Predicates that it has soon after a negator, and in no positive statement.
        barred: What follows "cannot" in it.
        absent: Nouns that it has after "no", and in no positive statement.
        bare: Whether the reference answer is nothing but the facts.
        negates: Whether the reference answer negates anything.
        idle: Whether nothing is to be changed.
        cues: The reference answer in lower case: its denials and doubts are none of the answer.
    """

    facts: tuple[ExpectedFact, ...]
    allowed: frozenset[str]
    keys: Mapping[str, frozenset[str]]
    labels: Mapping[str, frozenset[str]]
    key_words: frozenset[str]
    texts: Mapping[str, tuple[Phrase, ...]]
    names: Mapping[str, tuple[Phrase, ...]]
    numbered: Mapping[str, tuple[Phrase, ...]]
    known: frozenset[str]
    runs: frozenset[Phrase]
    run_length: int
    words: frozenset[str]
    about: frozenset[str]
    plain: frozenset[str]
    asked: frozenset[str]
    positive: Mapping[str, int]
    denied: frozenset[str]
    absent: frozenset[str]
    barred: frozenset[Phrase]
    bare: bool
    negates: bool
    idle: bool
    cues: str


@functools.lru_cache(maxsize=65536)
def kind_of_token(token: str) -> Kind | None:
    """Return the kind of value that a token is, or None for a word.

    >>> [kind_of_token(token) for token in ("#12.5", "@2025-07-30", "~19:00", "d15", "2nd", "dish")]
    ['number', 'date', 'time', 'identifier', None, None]
    """
    kind = TYPED.get(token[0])
    if kind is None and token[-1].isdecimal() | token[0].isdecimal() and _IDENTIFIER.fullmatch(token):
        return None if _QUANTITY.fullmatch(token) else "identifier"
    return kind


def expected_answer(
    task: Task, shown: Iterable[tuple[str, Any]], names: Names = NO_NAMES, *, idle: bool = False
) -> ExpectedAnswer:
    """Return what the answers to a task are judged by.

    Args:
        task: The task.
        shown: What its reference calls and their results show: names (keys) and values.
        names: The names of things in the database; see `names_in`.
        idle: Whether its reference trajectories change nothing.
    """
    request, reference = tokens(task.instruction), read_statements(task.answer)
    by_key: dict[str, set[Phrase]] = defaultdict(set)
    labels: dict[str, set[str]] = defaultdict(set)
    keys: dict[str, set[str]] = defaultdict(set)
    for name, text in dict.fromkeys((name, str(value)) for name, value in shown):
        found = _phrase(text)
        if len(found) <= _MAX_PHRASE:
            by_key[name].add(found)
        for token in found:
            if kind_of_token(token):
                keys[token].add(name)
                labels[token].update(_stems(name))
    apart = _without_names(reference.tokens, names)
    facts = tuple(_fact(task, place, request, reference, apart, by_key) for place in range(len(task.communicate)))
    kinds = frozenset().union(*(fact.rival_kinds for fact in facts))
    chosen = frozenset().union(*(fact.rival_kinds for fact in facts if fact.given))
    for place, token in enumerate(request):
        if kind_of_token(token) not in {None, *chosen}:
            near = request[max(0, place - _NEIGHBOURS) : place + _NEIGHBOURS + 1]
            labels[token].update(stem(word) for word in near if word not in STOPWORDS and not kind_of_token(word))
    own = {token for fact in facts for phrase in fact.phrases for token in phrase}
    keyed = {token for key in by_key for token in tokens(key)}
    allowed = own | keyed | apart | {token for token in request if kind_of_token(token) not in kinds}
    spoken = {phrase for found in by_key.values() for phrase in found if phrase and not set(phrase) <= allowed}
    texts: dict[str, list[Phrase]] = defaultdict(list)
    for phrase in spoken:
        if not any(kind_of_token(token) for token in phrase):
            texts[phrase[0]].append(phrase)
    known = {*request, *reference.tokens, *(t for found in by_key.values() for p in found for t in p)}
    valued = frozenset(token for token in allowed if kind_of_token(token))
    length = max(_PARROTED, len(request) // 2)
    named = _capitalized(task.answer)
    predicates, nouns = _near_negators(reference)
    positive, negated = _content(reference, negated=False), _content(reference, negated=True)
    return ExpectedAnswer(
        facts=facts,
        allowed=valued,
        keys={token: frozenset(names) for token, names in keys.items()},
        labels={token: frozenset(words) for token, words in labels.items()},
        key_words=frozenset(chain.from_iterable(map(_stems, by_key))),
        texts={first: tuple(phrases) for first, phrases in texts.items()},
        names=names.plain,
        numbered=names.numbered,
        known=frozenset(known),
        runs=frozenset(tuple(request[i : i + length]) for i in range(len(request) - length + 1)),
        run_length=length,
        words=frozenset(token for token in (*request, *reference.tokens) if token not in STOPWORDS),
        about=(valued | known) - STOPWORDS,
        plain=_plain_words(reference, task.answer),
        asked=frozenset(token for token in request if kind_of_token(token)),
        positive={word: count for word, count in positive.items() if word not in negated},
        denied=frozenset(predicates - set(positive) - named),
        absent=frozenset(nouns - set(positive) - named),
        barred=frozenset(_after_cannot(reference.tokens)),
        bare=own >= set(reference.tokens) - STOPWORDS,
        negates=not NEGATORS.isdisjoint(reference.tokens),
        idle=idle,
        cues=spelled_out(task.answer),
    )


def names_in(database: Database) -> Names:
    """Return the names of things in a database: text that begins with a capital letter."""
    names: tuple[dict[str, set[Phrase]], ...] = (defaultdict(set), defaultdict(set))
    for table, spec in database.tables.items():
        for column in spec.columns:
            for value in database.values(f"{table}.{column}"):
                phrase = tuple(tokens(value)) if isinstance(value, str) and value[:1].isupper() else ()
                kinds = {kind_of_token(token) for token in phrase}
                if kinds == {None} and len(phrase) <= _MAX_NAME:
                    names[0][" ".join(phrase[:2])].add(phrase)
                elif None in kinds and "number" in kinds and " " in value and len(phrase) <= _MAX_NUMBERED:
                    names[1][phrase[0]].add(phrase)
    plain, numbered = ({first: tuple(sorted(found)) for first, found in some.items()} for some in names)
    return Names(plain, numbered)


def places_in_names(found: Sequence[str], numbered: Mapping[str, tuple[Phrase, ...]]) -> set[int]:
    """Return the positions in a text that belong to names with a number in them, as in "Three Lakes Orchards"."""
    return {
        place + step
        for place, token in enumerate(found)
        for phrase in numbered.get(token, ())
        if tuple(found[place : place + len(phrase)]) == phrase
        for step in range(len(phrase))
    }


def _without_names(found: Sequence[str], names: Names) -> frozenset[str]:
    """Return the tokens of a text that stand outside of names with a number in them."""
    inside = places_in_names(found, names.numbered)
    return frozenset(token for place, token in enumerate(found) if place not in inside)


def stem(word: str) -> str:
    """Return the beginning of a word, by which forms of it agree."""
    return word[:4]


@functools.lru_cache(maxsize=1024)
def _stems(key: str) -> frozenset[str]:
    """Return the beginnings of the words in a key."""
    return frozenset(stem(word) for word in re.split(r"[\W_]+", key.lower()) if word)


@functools.lru_cache(maxsize=16384)
def _phrase(text: str) -> Phrase:
    """Return the tokens of a value, which many tasks are shown."""
    return tuple(tokens(text))


def contains(text: Sequence[str], phrase: Phrase) -> list[int]:
    """Return where a text has the tokens of a phrase in a row."""
    size, first = len(phrase), phrase[0]
    if first not in text:
        return []
    return [i for i, token in enumerate(text) if token == first and (size == 1 or tuple(text[i : i + size]) == phrase)]


def _plain_words(reference: Statements, answer: str) -> frozenset[str]:
    """Return the words by which alone an answer can be right; none if the reference negates or doubts."""
    if not MARKED.isdisjoint(reference.tokens) or reference.open or denials(answer):
        return frozenset()
    return frozenset(reference.tokens) - NEUTRAL


def _content(reference: Statements, *, negated: bool) -> Counter[str]:
    """Return how often words that carry meaning stand in the negated, or the other, statements of a text."""
    pairs = zip(reference.tokens, reference.negated, strict=True)
    return Counter(token for token, denied in pairs if denied is negated and is_content(token))


def is_content(token: str) -> bool:
    """Return whether a token is a word that carries meaning."""
    return token not in _EMPTY and len(token) > 1 and kind_of_token(token) is None


def _near_negators(reference: Statements) -> tuple[set[str], set[str]]:
    """Return what is negated: predicates ("not returned", "no slot was booked") and nouns ("no slot")."""
    predicates: set[str] = set()
    nouns: set[str] = set()
    left, found = 0, predicates
    for token, negated in zip(reference.tokens, reference.negated, strict=True):
        left -= 1
        if token in NEGATORS:
            left, found = _NEGATED, nouns if token == "no" else predicates
        elif found is nouns and token in COPULAS and negated:
            left, found = _NEGATED, predicates
        elif negated and left > 0 and (token == "done" or is_content(token)):
            found.add(token)
            left = left if found is nouns else 0
    return predicates, nouns


def _after_cannot(found: Sequence[str]) -> Iterator[Phrase]:
    """Yield what follows "cannot": a verb, or a helping verb and another one."""
    for place, token in enumerate(found):
        if token == "cannot" or found[place : place + 2] in (["can", "not"], ["can", "t"]):
            verb = found[place + 1 + (token != "cannot") :][:2]
            if len(verb) == 2:
                yield tuple(verb) if verb[0] in STOPWORDS | COPULAS else (verb[0],)


def _capitalized(text: str) -> set[str]:
    """Return the tokens of the words of a text that begin with a capital letter within a sentence."""
    return {token for word in _CAPITALIZED.findall(text) for token in tokens(word)}


def last_word(before: Sequence[str]) -> str:
    """Return the word before a place, stop words left out; nothing if a value stands between."""
    word = next((token for token in reversed(before) if token not in STOPWORDS), "")
    return "" if not word or kind_of_token(word) else word


def shape_of(token: str) -> str:
    """Return how an identifier begins, by which those of one kind of thing agree: its letter, or how many it has.

    >>> shape_of("s131"), shape_of("math330"), shape_of("csci201")
    ('s', '4', '4')
    """
    letters = token.rstrip("0123456789")
    return letters if len(letters) < 2 else str(len(letters))


def _fact(
    task: Task,
    position: int,
    request: Sequence[str],
    reference: Statements,
    apart: frozenset[str],
    by_key: Mapping[str, set[Phrase]],
) -> ExpectedFact:
    options = [option for option in dict.fromkeys(task.communicate[position]) if tokens(option)]
    phrases = tuple(dict.fromkeys(tuple(tokens(option)) for option in options))
    kind = kind_of_fact(options, by_key)
    phrases = _spellings(phrases, kind, request, reference.tokens)
    listed = task.rivals[position] if position < len(task.rivals) else ()
    others = {phrase for option in listed if (phrase := tuple(tokens(option)))}
    values = {phrase for phrase in others if any(map(kind_of_token, phrase))}
    others -= values
    kinds = {found for phrase in (*values, *phrases) for token in phrase if (found := kind_of_token(token))}
    for same in by_key.values():
        if any(phrase in same and not any(map(kind_of_token, phrase)) for phrase in phrases):
            others |= {phrase for phrase in same if not any(map(kind_of_token, phrase))}
    keys = {key for key, found in by_key.items() if any(phrase in found for phrase in phrases)}
    if keys:  # what the results show under other keys is a detail
        others -= {phrase for key, found in by_key.items() if key not in keys for phrase in found}
    taken = {token for phrase in phrases for token in phrase}
    stated = {phrase for phrase in others if phrase and contains(reference.tokens, phrase)}
    rivals = tuple(sorted(o for o in others - set(phrases) - stated if not set(o) <= taken | STOPWORDS))
    given = any(set(phrase) <= set(request) for phrase in phrases)
    shapes = {shape_of(t) for p in (*phrases, *values) for t in p if kind_of_token(t) == "identifier"}
    choices = {
        token
        for phrase in phrases
        for token in _enumerated(request, phrase)
        if kind_of_token(token) != "identifier" or shape_of(token) in shapes
    }
    states = [state_of(reference, i, len(phrase)) for phrase in phrases for i in contains(reference.tokens, phrase)]
    negative = kind != "none" and bool(states) and "asserted" not in states
    named = " or ".join(map(repr, options[:_MAX_NAMED]))
    return ExpectedFact(
        phrases,
        named,
        kind,
        rivals,
        frozenset(keys),
        frozenset(kinds),
        given,
        frozenset(choices),
        negative,
        frozenset(shapes),
        any(len(phrase) == 1 and phrase[0] in apart for phrase in phrases),
        frozenset(_slots(reference, phrases)),
    )


def _slots(reference: Statements, phrases: Iterable[Phrase]) -> Iterator[Phrase]:
    """Yield the words before and after a value in the reference answer."""
    for phrase in phrases:
        if kind_of_token(phrase[0]):
            for place in contains(reference.tokens, phrase):
                before, after = around(reference, place, len(phrase))
                if word := last_word(before):
                    yield word, *after[:1]


def _enumerated(text: Sequence[str], phrase: Phrase) -> set[str]:
    """Return the values that a text enumerates together with a phrase: with nothing but joining words between them."""
    found: set[str] = set()
    for place in contains(text, phrase):
        for step, start in ((1, place + len(phrase)), (-1, place - 1)):
            position = start
            while 0 <= position < len(text) and (text[position] in JOINERS or kind_of_token(text[position])):
                found |= {text[position]} - JOINERS
                position += step
    return found - set(phrase)


def kind_of_fact(options: Sequence[str], by_key: Mapping[str, set[Phrase]]) -> Kind:
    """Return the kind of a fact, given its accepted phrases and what the results show."""
    found = [tuple(tokens(option)) for option in options]
    kinds = [kind_of_token(phrase[0]) if len(phrase) == 1 else None for phrase in found]
    if kinds and kinds[0] == "number" and any(_CURRENCY.search(option) for option in options):
        return "money"
    for kind in kinds:
        if kind is not None:
            return kind
    if any(kind_of_token(token) for phrase in found[:1] for token in phrase):
        return "identifier"
    if any(phrase[0] in NEGATORS or set(phrase) & NEGATORS for phrase in found if phrase):
        return "yes/no" if _YES & {token for phrase in found for token in phrase} and len(found[0]) == 1 else "none"
    if any(phrase == ("yes",) for phrase in found):
        return "yes/no"
    if found and set(found[0]) <= _NEGATIVE_STATES:
        return "none"
    return "name" if any(option[:1].isupper() for option in options) else "option"


def _spellings(
    phrases: tuple[Phrase, ...], kind: Kind, request: Sequence[str], reference: Sequence[str]
) -> tuple[Phrase, ...]:
    """Return further ways to write the phrases of a fact.

    An ordinal that request or reference have for something else ("the first order") is none, and neither is "nothing"
    if the reference has it beside the fact.
    """
    more: list[Phrase] = []
    for phrase in phrases:
        if kind == "name" and 2 <= len(phrase) <= 3:  # "Rao, Anita"
            more.append((phrase[-1], *phrase[:-1]))
        apart = phrase[0] in reference
        if kind == "number" and len(phrase) == 1 and phrase[0][1:] in _ORDINALS:  # "fifth", "5th"
            words = (_ORDINALS[phrase[0][1:]], f"{phrase[0][1:]}{_ENDINGS.get(phrase[0], 'th')}")
            more += [(word,) for word in words if not apart or (word not in request and word not in reference)]
        if kind in ("number", "money") and phrase == ("#0",):
            more += [(word,) for word in ("nothing", "none") if not apart or word not in reference]
            if kind == "money":
                more += [("free",), ("no", "fee"), ("no", "charge")]
        if phrase == ("#2",) and "both" not in (*request, *reference):
            more.append(("both",))
        if phrase[0] == "not":  # "isn't enough"
            more.append(("t", *phrase[1:]))
    return tuple(dict.fromkeys((*phrases, *more)))
