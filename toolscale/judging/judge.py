"""Judging an answer: it must state every fact, and nothing that contradicts one.

An answer is right if it asserts every fact and no rival of one, does not deny or doubt what it says, does not merely
repeat the request, and is not a dump: what it states beyond the facts, the request and the reference answer is bounded.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence, Set

from toolorchestra.toolscale.judging.expected import (
    ExpectedAnswer,
    ExpectedFact,
    Phrase,
    contains,
    is_content,
    kind_of_token,
    last_word,
    places_in_names,
    shape_of,
    stem,
)
from toolorchestra.toolscale.judging.polarity import claims, contradiction, undone
from toolorchestra.toolscale.judging.statements import (
    BREAKERS,
    CONTRASTS,
    COPULAS,
    JOINERS,
    NEGATIVES,
    NEGATORS,
    NEUTRAL,
    STOPWORDS,
    Statements,
    around,
    denials,
    holds_data,
    read_statements,
    state_of,
)
from toolorchestra.toolscale.mentions import tokens

NOT_STATED = "the user was not told"
"""How the message begins that says that a fact was not found in an answer."""
MAX_CHARACTERS = 20_000
"""A longer answer is wrong, unread."""
_MAX_EXTRAS = 7
_MAX_LABELLED = 3
_MAX_ASIDES = 2  # whole sentences that state what was not asked, and no fact
_ASIDE = 3  # words that such a sentence has
_SOLD_OUT = {"out", "stock"}
_RESULT = {stem("result")}
_FOREIGN = 3  # words, none of which the request, its results and its reference answer have
_ALIKE = 1 / 2  # of the words of the shorter of two sentences that say the same of two things
_UNSHOWN = 5
"""A value that neither request nor results show counts as so many that they show."""
_UNITS = frozenset(("dollars", "dollar", "euros", "euro", "usd", "eur"))
_TYPED = ("money", "number", "date", "time", "identifier")
_ZERO = (("nothing",), ("none",))
_AFTER_ONE = frozenset(("in", "of", "at", "for", "from", "on", "with", "to", "by"))
_MEASURES = frozenset(("more", "less", "fewer", "left", "missing", "short", "further", "lacking"))


def judge_answer(text: str, expected: ExpectedAnswer) -> list[str]:
    """Return what is wrong with an answer; nothing if it is right."""
    if _is_plainly_right(text, expected):
        return []
    if len(text) > MAX_CHARACTERS:
        return [f"the answer has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read"]
    if doubts := [cue for cue in denials(text) if cue not in expected.cues]:
        return [f"the answer denies or doubts what it says: {doubts[0]!r}"]
    if holds_data(text):
        return ["the answer is data, not a statement to the user"]
    answer = read_statements(text)
    if answer.doubled:
        return ["the answer negates twice"]
    if claimed := claims(text, answer, expected):
        return claimed
    repeated = _repeated(answer, expected)
    if not expected.facts:
        return undone(text, answer, repeated, expected) or _surplus(answer, expected)
    inside = places_in_names(answer.tokens, expected.numbered)
    wrong = [message for fact in expected.facts if (message := _missing(answer, fact, expected, repeated, inside))]
    return wrong or contradiction(answer, expected) or _surplus(answer, expected, inside)


def _is_plainly_right(text: str, expected: ExpectedAnswer) -> bool:
    """Return whether an answer states the facts in no other words than the reference answer, and denies nothing.

    It is a short cut: such an answer is right by the rules below as well.
    """
    if (
        not expected.facts
        or not expected.plain
        or len(text) > MAX_CHARACTERS
        or "?" in text
        or "{" in text
        or "[" in text
    ):
        return False
    found = tokens(text)
    if len(found) >= expected.run_length or not expected.plain.issuperset(set(found) - NEUTRAL):
        return False
    for fact in expected.facts:
        if not any(contains(found, phrase) for phrase in fact.phrases) or not _is_about(found, fact, expected):
            return False
    return True


def _repeated(answer: Statements, expected: ExpectedAnswer) -> frozenset[int]:
    """Return the positions at which an answer repeats the request."""
    size, found = expected.run_length, answer.tokens
    starts = [i for i in range(len(found) - size + 1) if tuple(found[i : i + size]) in expected.runs]
    return frozenset(place for start in starts for place in range(start, start + size))


def _missing(
    answer: Statements, fact: ExpectedFact, expected: ExpectedAnswer, repeated: frozenset[int], inside: Set[int]
) -> str:
    """Return why an answer does not state a fact, or nothing; the places `inside` of names with a number do not."""
    named, asserted = fact.named, False
    for phrase in fact.phrases:
        for place in _places(answer, phrase):
            if place in repeated or answer.sentences[place] in answer.open or _is_alternative(answer, place):
                continue
            if len(phrase) == 1 and place in inside and fact.apart:
                continue
            if phrase in _ZERO and kind_of_token(fact.phrases[0][0]) and not _speaks_of(answer, place, expected):
                continue
            state = _state(answer, place, len(phrase), fact)
            if state == "denied":
                return f"the answer denies {named}"
            asserted = asserted or state == "asserted"
    if not asserted and (fact.kind == "none" or ("#0",) in fact.phrases):
        asserted = _reports_none(answer, fact, repeated, expected)
    if not asserted:
        return f"{NOT_STATED} {named}"
    if not _is_about(answer.tokens, fact, expected):
        return f"the answer says {named}, and not of what"
    for rival in fact.rivals:
        for place in contains(answer.tokens, rival) if rival[0] in answer.vocabulary else ():
            if _rivals(answer, place, rival, fact, expected):
                return f"the answer says {' '.join(rival)!r} as well, where {named} is right"
    return ""


def _speaks_of(answer: Statements, place: int, expected: ExpectedAnswer) -> bool:
    """Return whether the sentence at a place shares a word with request or reference answer, or has hardly any."""
    words = {stem(token) for token in answer.sentence(place) if is_content(token)}
    return len(words) < 2 or any(stem(word) in words for word in expected.words)


def _is_alternative(answer: Statements, place: int) -> bool:
    return place > 0 and answer.tokens[place - 1] == "or" and answer.sentences[place - 1] == answer.sentences[place]


def _places(answer: Statements, phrase: Phrase) -> list[int]:
    """Return where an answer has a phrase; dates agree with and without their year."""
    if phrase[0][0] != "@":
        return contains(answer.tokens, phrase) if phrase[0] in answer.vocabulary else []
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
    if fact.kind not in _TYPED and _is_subject_of_cannot(answer, place + size):
        state = "denied"
    if not fact.negative:
        return state
    sentence = answer.sentence(place)
    return "asserted" if state != "asserted" or NEGATIVES & sentence or sentence >= _SOLD_OUT else "neither"


def _is_subject_of_cannot(answer: Statements, end: int) -> bool:
    """Return whether a word and then "cannot" follow, as in "the yellow alert cannot be issued"."""
    found, last = answer.tokens, len(answer.tokens) - 1
    return (
        end < last
        and answer.clauses[end - 1] == answer.clauses[end + 1]
        and found[end] not in STOPWORDS | COPULAS
        and (found[end + 1] == "cannot" or (end + 1 < last and found[end + 1 : end + 3] == ["can", "not"]))
    )


def _reports_none(answer: Statements, fact: ExpectedFact, repeated: frozenset[int], expected: ExpectedAnswer) -> bool:
    """Return whether an answer says in other words that there is none, or that it cannot be done."""
    content = {stem(token) for phrase in fact.phrases for token in phrase if token not in NEGATORS and len(token) > 2}
    if ("#0",) in fact.phrases:
        stems = set(map(stem, expected.words))
        noun = any(
            before == "no"
            and stem(token) in stems
            and place not in repeated
            and answer.sentences[place] not in answer.open
            for place, (before, token) in enumerate(itertools.pairwise(answer.tokens))
        )
        if noun:
            return True
        return any(
            token == "anything" and answer.negated[place] and place not in repeated
            for place, token in enumerate(answer.tokens)
        )
    skipped = answer.open | {answer.sentences[place] for place in repeated}
    negators = Counter(
        number for token, number in zip(answer.tokens, answer.sentences, strict=True) if token in NEGATORS
    )
    once = [answer.words[number] for number, count in negators.items() if count == 1 and number not in skipped]
    return any(not content or content & set(map(stem, words)) for words in once)


def _is_about(answer: Sequence[str], fact: ExpectedFact, expected: ExpectedAnswer) -> bool:
    """Return whether an answer says of what it speaks: it shares a word with the request beside the fact."""
    if expected.bare:
        return True
    own = {token for phrase in fact.phrases for token in phrase}
    about = expected.about
    if about <= own or any(token in about and token not in own for token in answer):
        return True
    if fact.kind in ("none", "option", "yes/no") or len(answer) <= len(fact.phrases[0]) + 1:
        return False
    return sum(is_content(token) and len(token) > 3 for token in answer if token not in own) < _FOREIGN


def _rivals(answer: Statements, place: int, rival: Phrase, fact: ExpectedFact, expected: ExpectedAnswer) -> bool:
    """Return whether an answer states a rival of a fact at a place, rather than denying it or adding a detail."""
    if not _is_stated(answer, place, len(rival), fact.negative):
        return False
    if fact.negative and not _is_negative_at(answer, place, len(rival)):
        return False
    if fact.kind not in (*_TYPED, "name") or not NEGATIVES.isdisjoint(rival):
        return True
    return _shares_slot(answer, place, len(rival), fact, any_kind=True)


def _is_stated(answer: Statements, place: int, size: int, negative: bool) -> bool:
    """Return whether what an answer has at a place is stated, and neither denied nor compared with."""
    if answer.sentences[place] in answer.open or (answer.negated[place] and not negative):
        return False
    before, after = around(answer, place, size)
    if not negative and _is_contrasted(before):
        return False
    if "from" in before and (after[:1] == ["to"] or (after[1:2] == ["to"] and kind_of_token(after[0]) is None)):
        return False
    clause = answer.clauses[place]
    return negative or not (
        len(after) > 1 and after[0] in COPULAS and after[1] in NEGATORS and answer.clauses[place + size + 1] == clause
    )


def _is_negative_at(answer: Statements, place: int, size: int) -> bool:
    """Return whether what stands at a place is in a clause that negates, or in one with no words of its own."""
    if answer.negated[place]:
        return True
    clause, sentence = answer.clause(place), answer.sentence(place)
    if not NEGATIVES.isdisjoint(clause):
        return True
    if len([t for t in clause - JOINERS - BREAKERS if is_content(t)]) > size:
        return False
    return clause == sentence or not NEGATIVES.isdisjoint(sentence)


def _is_contrasted(before: Sequence[str]) -> bool:
    """Return whether the tokens before a value compare with it: "than", and no "is" after that."""
    place = next((i for i in range(len(before) - 1, -1, -1) if before[i] in CONTRASTS), -1)
    return place >= 0 and (before[place] in NEGATORS or COPULAS.isdisjoint(before[place + 1 :]))


def _shares_slot(answer: Statements, place: int, size: int, fact: ExpectedFact, *, any_kind: bool = False) -> bool:
    """Return whether a value is given for what a fact is given for.

    It is where it stands beside the fact in an enumeration ("21, 22", "21 or 22"), in words like those round the fact
    ("It costs 21. It costs 22."), or in a sentence with no words of its own ("Also 22.").
    """
    if not answer.words[answer.sentences[place]] - STOPWORDS - JOINERS - set(answer.tokens[place : place + size]):
        return True
    before, after = around(answer, place, size)
    if answer.tokens[place] == "#1" and after and after[0] in _AFTER_ONE:  # "one in Montreal and one in Quebec City"
        return False
    own = {kind_of_token(token) for phrase in fact.phrases for token in phrase}
    if (any_kind or kind_of_token(answer.tokens[place]) in own) and (last_word(before), *after[:1]) in fact.slots:
        return True
    for phrase in fact.phrases:
        start = place - len(phrase) + 1
        if len(phrase) > 1 and start >= 0 and tuple(answer.tokens[start:place]) == phrase[:-1]:  # "level 2", "level 3"
            return True
        for other in _places(answer, phrase):
            first, second = sorted(((place, size), (other, len(phrase))))
            same = any_kind or kind_of_token(answer.tokens[place]) in own
            if same and (_are_listed(answer, first, second, any_kind) or _are_alike(answer, place, other)):
                return True
            own_before, own_after = around(answer, other, len(phrase))
            if (own_after[:1] != after[:1]) and not _MEASURES.isdisjoint((*own_after[:1], *after[:1])):
                continue  # "the espresso takes 60, so it takes 13 more"
            if last_word(before) and last_word(before) == last_word(own_before):
                return True
            if after[:1] == own_after[:1] != [] and (before == own_before or after == own_after):
                return True
    return False


def _are_listed(answer: Statements, first: tuple[int, int], second: tuple[int, int], in_brackets: bool) -> bool:
    """Return whether nothing but joining words stands between two places, and no bracket unless that counts too."""
    return (in_brackets or second[0] not in answer.bracketed) and JOINERS.issuperset(
        answer.tokens[sum(first) : second[0]]
    )


def _are_alike(answer: Statements, place: int, other: int) -> bool:
    """Return whether two places stand in different sentences with the same words, but for names and values."""
    if answer.sentences[place] == answer.sentences[other]:
        return False
    words, others = ({*filter(is_content, answer.sentence(position))} for position in (place, other))
    shared = len(words & others)
    return shared > 1 and shared >= _ALIKE * min(len(words), len(others))


def _surplus(answer: Statements, expected: ExpectedAnswer, inside: Set[int] = frozenset()) -> list[str]:
    """Return what an answer states that it may not, or that is too much."""
    extras: dict[str, int] = {}
    asides: set[int] = set()
    for place, written in enumerate(answer.tokens):
        kind = kind_of_token(written)
        if kind is None or written in expected.allowed or (place in inside and written in expected.known):
            continue
        token = _in_full(written, expected)
        if token in expected.allowed:
            continue
        shown = token in expected.labels or token in expected.asked
        claimed = kind == "identifier" or (kind == "date" and not expected.facts)
        if claimed and not shown and _is_stated(answer, place, 1, negative=False):
            return [f"the answer says {token}, which neither the request nor the results show"]
        for fact in expected.facts:
            if kind in fact.rival_kinds and _is_value_rival(answer, place, token, fact, expected):
                return [f"the answer says {token.lstrip('#@~')} as well, where {fact.named} is right"]
        extras[token] = 1 if shown or _is_count(token) else _UNSHOWN
        asides.add(answer.sentences[place])
    for place, token in enumerate(answer.tokens):
        for phrase in expected.texts.get(token, ()):
            if tuple(answer.tokens[place : place + len(phrase)]) == phrase:
                extras[" ".join(phrase)] = 1
        following = answer.tokens[place + 1] if place + 1 < len(answer.tokens) else ""
        for phrase in (*expected.names.get(token, ()), *expected.names.get(f"{token} {following}", ())):
            if not expected.known.issuperset(phrase) and tuple(answer.tokens[place : place + len(phrase)]) == phrase:
                if len(phrase) > 1 and _is_stated(answer, place, len(phrase), negative=False):
                    return [f"the answer says {' '.join(phrase)!r}, which neither the request nor the results show"]
                extras[" ".join(phrase)] = _UNSHOWN
                asides.add(answer.sentences[place])
    total = sum(extras.values())
    if total < _MAX_LABELLED:
        return []
    labelled, listed = _labelled(answer, extras, expected)
    most = _MAX_EXTRAS + len(expected.facts) if labelled <= _MAX_LABELLED else _MAX_LABELLED
    if listed >= total:
        most = _MAX_LABELLED - 1
    if total > most:
        return [f"the answer states {len(extras)} things that were not asked; at most {most} are taken for an answer"]
    if len(asides) > _MAX_ASIDES and (count := _count_asides(answer, asides, expected)) > _MAX_ASIDES:
        return [
            f"{count} sentences of the answer state what was not asked; at most {_MAX_ASIDES} are taken for details"
        ]
    return []


def _count_asides(answer: Statements, sentences: Set[int], expected: ExpectedAnswer) -> int:
    """Return how many sentences have words of their own and state none of the facts."""
    own = {
        answer.sentences[place]
        for fact in expected.facts
        for phrase in fact.phrases
        for place in _places(answer, phrase)
    }
    return sum(sum(map(is_content, answer.words[number])) >= _ASIDE for number in sentences - own)


def _labelled(answer: Statements, extras: Mapping[str, int], expected: ExpectedAnswer) -> tuple[int, int]:
    """Return how many of the extras stand after the key under which the results show them, and with "is" between.

    So do those of a dump of results.
    """
    labelled = listed = 0
    for place, token in enumerate(answer.tokens):
        if token in extras or any(token == extra.split()[0] for extra in extras):
            before, _ = around(answer, place, 1)
            labelled += bool({stem(word) for word in before} & expected.key_words)
            listed += len(before) > 1 and before[-1] in COPULAS and stem(before[-2]) in expected.key_words | _RESULT
    return labelled, listed


def _is_value_rival(answer: Statements, place: int, token: str, fact: ExpectedFact, expected: ExpectedAnswer) -> bool:
    """Return whether a value is stated in the place of a fact."""
    if not _is_stated(answer, place, 1, fact.negative) or (fact.negative and not _is_negative_at(answer, place, 0)):
        return False
    if fact.kind not in _TYPED and kind_of_token(token) == "identifier":
        return token not in expected.asked and shape_of(token) in fact.shapes
    if token in fact.choices:
        return True
    return not _counts(answer, place, fact) and _shares_slot(answer, place, 1, fact)


def _counts(answer: Statements, place: int, fact: ExpectedFact) -> bool:
    """Return whether a value counts things ("two fines"), where the fact is no such number."""
    _, after = around(answer, place, 1)
    is_noun = bool(after) and after[0] not in STOPWORDS | _UNITS and kind_of_token(after[0]) is None
    return _is_count(answer.tokens[place]) and is_noun and (fact.kind == "money" or not _is_count(fact.phrases[0][0]))


def _is_count(token: str) -> bool:
    """Return whether a token is a small whole number, such as one that counts things."""
    return token[0] == "#" and token[1:].isdecimal() and len(token) < 4


def _in_full(token: str, expected: ExpectedAnswer) -> str:
    """Return a date without its year as the date that request, results or reference answer have; others as they are."""
    if not token.startswith("@????"):
        return token
    known = (date for dates in (expected.allowed, expected.labels) for date in dates if date[0] == "@")
    return next((date for date in known if date[5:] == token[5:]), token)
