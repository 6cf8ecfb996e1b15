"""Judging an answer: it must state every fact, and nothing that contradicts one.

An answer is right if it asserts every fact and no rival of one, does not deny or doubt what it says, does not merely
repeat the request, and is not a dump: what it states beyond the facts, the request and the reference answer is bounded.
"""

from __future__ import annotations

from collections import Counter

from toolorchestra.toolscale.judging.expected import ExpectedAnswer, ExpectedFact, Phrase, contains, kind_of_token, stem
from toolorchestra.toolscale.judging.statements import (
    CONTRASTS,
    COPULAS,
    NEGATIVES,
    NEGATORS,
    Statements,
    denials,
    holds_data,
    read_statements,
    state_of,
)
from toolorchestra.toolscale.mentions import tokens

MAX_CHARACTERS = 20_000
"""A longer answer is wrong, unread."""
_MAX_EXTRAS = 3
_AROUND = 2
_VERBAL = frozenset(("not", "t", "never", "cannot"))


def judge_answer(text: str, expected: ExpectedAnswer) -> list[str]:
    """Return what is wrong with an answer; nothing if it is right."""
    if not expected.facts or _is_plainly_right(text, expected):
        return []
    if len(text) > MAX_CHARACTERS:
        return [f"the answer has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read"]
    if doubts := [cue for cue in denials(text) if cue not in expected.cues]:
        return [f"the answer denies or doubts what it says: {doubts[0]!r}"]
    if holds_data(text):
        return ["the answer is data, not a statement to the user"]
    answer = read_statements(text)
    repeated = _repeated(answer, expected)
    wrong = [message for fact in expected.facts if (message := _missing(answer, fact, expected, repeated))]
    return wrong or _contradiction(answer, expected) or _surplus(answer, expected)


def _is_plainly_right(text: str, expected: ExpectedAnswer) -> bool:
    """Return whether an answer states the facts in no other words than the reference answer, and denies nothing.

    It is a short cut: such an answer is right by the rules below as well.
    """
    if not expected.plain or len(text) > MAX_CHARACTERS or "?" in text or "{" in text or "[" in text:
        return False
    found = tokens(text)
    if len(found) >= expected.run_length or not expected.plain.issuperset(found):
        return False
    places = [next((p for p in fact.phrases if contains(found, p)), None) for fact in expected.facts]
    return None not in places and any(token in expected.words for token in found if (token,) not in places)


def _repeated(answer: Statements, expected: ExpectedAnswer) -> frozenset[int]:
    """Return the positions at which an answer repeats the request."""
    size, found = expected.run_length, answer.tokens
    starts = [i for i in range(len(found) - size + 1) if tuple(found[i : i + size]) in expected.runs]
    return frozenset(place for start in starts for place in range(start, start + size))


def _missing(answer: Statements, fact: ExpectedFact, expected: ExpectedAnswer, repeated: frozenset[int]) -> str:
    """Return why an answer does not state a fact, or nothing."""
    named = " or ".join(repr(" ".join(phrase)) for phrase in fact.phrases[:3])
    asserted = False
    for phrase in fact.phrases:
        for place in _places(answer, phrase):
            if place in repeated or answer.sentences[place] in answer.open or _is_alternative(answer, place):
                continue
            state = _state(answer, place, len(phrase), fact)
            if state == "denied":
                return f"the answer denies {named}"
            asserted = asserted or state == "asserted"
    if not asserted and fact.kind == "none":
        asserted = _reports_none(answer, fact, repeated)
    if not asserted:
        return f"the user was not told {named}"
    if not _is_about(answer, fact, expected):
        return f"the answer says {named}, and not of what"
    for rival in fact.rivals:
        if any(
            _asserts_rival(answer, place, rival, expected, fact.negative) for place in contains(answer.tokens, rival)
        ):
            return f"the answer says {' '.join(rival)!r} as well, where {named} is right"
    return ""


def _is_alternative(answer: Statements, place: int) -> bool:
    return place > 0 and answer.tokens[place - 1] == "or" and answer.sentences[place - 1] == answer.sentences[place]


def _places(answer: Statements, phrase: Phrase) -> list[int]:
    """Return where an answer has a phrase; dates agree with and without their year."""
    if phrase[0][0] != "@":
        return contains(answer.tokens, phrase)
    return [
        i
        for i, token in enumerate(answer.tokens)
        if token[:1] == "@" and (token == phrase[0] or ("?" in token + phrase[0] and token[5:] == phrase[0][5:]))
    ]


def _state(answer: Statements, place: int, size: int, fact: ExpectedFact) -> str:
    """Return how an answer has a fact at a place: asserted, denied, or neither."""
    if fact.kind == "none":
        return "neither" if answer.negated[place] and answer.tokens[place] in NEGATORS else "asserted"
    state = state_of(answer, place, size)
    if not fact.negative:
        return state
    return "asserted" if state != "asserted" or NEGATIVES & answer.sentence(place) else "neither"


def _reports_none(answer: Statements, fact: ExpectedFact, repeated: frozenset[int]) -> bool:
    """Return whether an answer says in other words that there is none, or that it cannot be done."""
    content = {stem(token) for phrase in fact.phrases for token in phrase if token not in NEGATORS and len(token) > 2}
    skipped = answer.open | {answer.sentences[place] for place in repeated}
    negators = Counter(
        number for token, number in zip(answer.tokens, answer.sentences, strict=True) if token in NEGATORS
    )
    once = [answer.words[number] for number, count in negators.items() if count == 1 and number not in skipped]
    return any(not content or content & set(map(stem, words)) for words in once)


def _is_about(answer: Statements, fact: ExpectedFact, expected: ExpectedAnswer) -> bool:
    """Return whether an answer says of what it speaks: it shares a word with the request beside the fact."""
    own = {token for phrase in fact.phrases for token in phrase}
    if fact.kind not in ("none", "option", "yes/no") and len(answer.tokens) > len(fact.phrases[0]) + 1:
        return True
    return any(token in expected.words and token not in own for token in answer.tokens)


def _asserts_rival(
    answer: Statements, place: int, rival: Phrase, expected: ExpectedAnswer, negative: bool = False
) -> bool:
    """Return whether an answer states a rival at a place, rather than denying it or comparing with it."""
    if (answer.negated[place] and not negative) or answer.sentences[place] in answer.open:
        return False
    found, end, own = answer.tokens, place + len(rival), answer.sentences[place]
    before = [found[i] for i in range(max(0, place - 3), place) if answer.sentences[i] == own]
    after = [found[i] for i in range(end, min(end + 3, len(found))) if answer.sentences[i] == own]
    if (not negative and CONTRASTS & set(before)) or ("from" in before and "to" in after):
        return False
    if len(after) > 1 and after[0] in COPULAS and after[1] in NEGATORS | {"t"}:
        return False
    pairs = {(before[-1], rival[0]) if before else None, (rival[-1], after[0]) if after else None}
    return len(rival) > 1 or not pairs & expected.contexts


def _contradiction(answer: Statements, expected: ExpectedAnswer) -> list[str]:
    """Return where an answer negates what the reference answer states, or states what that negates."""
    found = answer.tokens
    places: dict[str, list[int]] = {}
    for place, token in enumerate(found):
        if token in expected.positive or token in expected.denied:
            places.setdefault(token, []).append(place)
    for token, where in places.items():
        if token in expected.positive:
            if all(answer.negated[i] and _VERBAL & set(found[max(0, i - 2) : i]) for i in where):
                return [f"the answer negates {token!r}, which holds"]
        elif not any(answer.negated[i] or _is_negative(answer, i) for i in where):
            return [f"the answer states {token!r}, which does not hold"]
    return []


def _is_negative(answer: Statements, place: int) -> bool:
    """Return whether the words around a token report that something is not so."""
    found, own = answer.tokens, answer.sentences[place]
    near = range(max(0, place - _AROUND), min(place + _AROUND + 1, len(found)))
    around = {found[i]: i > place for i in near if i != place and answer.sentences[i] == own}
    return any(after if token in NEGATORS else token in NEGATIVES for token, after in around.items())


def _surplus(answer: Statements, expected: ExpectedAnswer) -> list[str]:
    """Return what an answer states that it may not, or that is too much."""
    kinds = frozenset().union(*(fact.rival_kinds for fact in expected.facts))
    keys = frozenset().union(*(fact.keys for fact in expected.facts))
    negative = any(fact.negative for fact in expected.facts)
    extras: set[str] = set()
    named: dict[int, set[str]] = {}
    for place, written in enumerate(answer.tokens):
        kind, token = kind_of_token(written), _in_full(written, expected)
        if kind is None or token in expected.allowed:
            continue
        labels = expected.labels.get(token, frozenset())
        same = kind in kinds and (not labels or keys & expected.keys.get(token, frozenset()))
        sentence = answer.sentences[place]
        if sentence not in named:
            named[sentence] = set(map(stem, answer.words[sentence]))
        known = kind not in kinds or labels & named[sentence]
        if not same and known and (labels or _is_count(token)):
            extras.add(token)
        elif _asserts_rival(answer, place, (written,), expected, negative):
            if kind in kinds:
                return [f"the answer says {token.lstrip('#@~')} as well, of the kind of what was asked"]
            return [f"the answer says {token.lstrip('#@~')}, which neither the request nor the results show"]
    for place, token in enumerate(answer.tokens):
        for phrase in expected.texts.get(token, ()):
            if tuple(answer.tokens[place : place + len(phrase)]) == phrase:
                extras.add(" ".join(phrase))
    most = max(_MAX_EXTRAS, len(expected.facts))
    if len(extras) > most:
        return [f"the answer states {len(extras)} things that were not asked; at most {most} are taken for an answer"]
    return []


def _is_count(token: str) -> bool:
    """Return whether a token is a small whole number, such as one that counts the things in a list."""
    return token[0] == "#" and token[1:].isdecimal() and len(token) < 4


def _in_full(token: str, expected: ExpectedAnswer) -> str:
    """Return a date without its year as the date that request, results or reference answer have; others as they are."""
    if not token.startswith("@????"):
        return token
    known = (date for dates in (expected.allowed, expected.labels) for date in dates if date[0] == "@")
    return next((date for date in known if date[5:] == token[5:]), token)
