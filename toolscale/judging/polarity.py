"""Polarity: whether an answer claims actions that were not done, or negates what holds, or states what does not.

The words of the reference answer that stand in positive, or in negated, statements are compared with the answer's,
clause by clause. Values are compared in `toolorchestra.toolscale.judging.judge`.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

from toolorchestra.toolscale.judging.expected import ExpectedAnswer, kind_of_token
from toolorchestra.toolscale.judging.statements import (
    ACTION_CLAIM,
    COPULAS,
    NEGATIVES,
    NEGATORS,
    PROMISE,
    REFUSAL,
    REPORT,
    RESTRICTIONS,
    RESUMPTIONS,
    STOPWORDS,
    Statements,
    around,
    first_clause,
)
from toolorchestra.toolscale.mentions import tokens

_VERBAL = frozenset(("not", "t", "never", "cannot"))
_DID = frozenset(("did", "didn", "have", "haven"))
_NOTHING = frozenset(("nothing", "no"))
_DEEDS = frozenset(("booked", "sold", "taken", "stopped"))


def claims(text: str, answer: Statements, expected: ExpectedAnswer) -> list[str]:
    """Return where an answer claims to have done what was not done, or reports only that something cannot be done."""
    if expected.idle:
        for found in ACTION_CLAIM.finditer(text):
            words = first_clause(text, found.start())
            if words and NEGATORS.isdisjoint(words):
                return [f"the answer claims an action where nothing was to be done: {found[0]!r}"]
    elif not expected.negates and NEGATIVES.isdisjoint(expected.positive):
        refusal = REFUSAL.search(text)
        if refusal and not RESUMPTIONS.intersection(answer.tokens):
            return [f"the answer does not say that it was done: {refusal[0]!r}"]
    return []


def undone(text: str, answer: Statements, repeated: frozenset[int], expected: ExpectedAnswer) -> list[str]:
    """Return what shows that an answer does not report what was done, where there is no fact to state."""
    if not expected.negates and (found := REFUSAL.search(text) or _promised(text, expected)):
        return [f"the answer does not say that it was done: {found[0]!r}"]
    stated = [place for place in range(len(answer.tokens)) if answer.sentences[place] not in answer.open]
    if answer.tokens and (not stated or len(repeated) * 2 > len(answer.tokens)):
        return ["the answer asks or repeats the request, and reports nothing"]
    return []


def _promised(text: str, expected: ExpectedAnswer) -> re.Match[str] | None:
    """Return what an answer promises, if it reports nothing before that and the reference answer promises nothing."""
    if "will" in expected.positive:
        return None
    found = PROMISE.search(REPORT.sub("", text))
    if found is None:
        return None
    before = re.split(r"[.!?]\s", text)[0] if found.start() else ""
    reported = {word for word in tokens(before) if word.endswith(("ed", "en"))}
    return found if PROMISE.search(before) or reported.isdisjoint(expected.positive) else None


def contradiction(answer: Statements, expected: ExpectedAnswer) -> list[str]:
    """Return where an answer negates what the reference answer states, or states what that negates."""
    found = answer.tokens
    negated: Counter[str] = Counter()
    for place, token in enumerate(found):
        if token in expected.positive and _follows_not(answer, place, expected):
            negated[token] += 1
        elif not expected.negates and token in _NOTHING and _is_undoing(answer, place, expected):
            return ["the answer reports that something was not done, which was done"]
    plain = not expected.negates and NEGATIVES.isdisjoint(expected.positive)
    resumed = not RESUMPTIONS.isdisjoint(found)
    for token, count in negated.items():
        certain = plain and token.endswith("ed") and (not resumed or count > 1)
        if certain or found.count(token) - count < expected.positive[token]:
            return [f"the answer negates {token!r}, which holds"]
    for token in dict.fromkeys(found):  # in the answer's order, so that the reason is the same in every process
        if token in expected.denied and all(_is_plain(answer, place) for place in _at(found, token)):
            return [f"the answer states {token!r}, which does not hold"]
    for place, (before, token) in enumerate(itertools.pairwise(found), 1):
        if before == "can" and expected.barred:
            verb = next((one for one in sorted(expected.barred) if tuple(found[place : place + len(one)]) == one), None)
            if verb and _is_plain(answer, place):
                return [f"the answer states 'can {' '.join(verb)}', which does not hold"]
        held = before == "a" and token in expected.absent | expected.denied and "already" not in answer.clause(place)
        if held and not _is_near_negator(answer, place):
            return [f"the answer states {token!r}, which does not hold"]
    return []


def _is_undoing(answer: Statements, place: int, expected: ExpectedAnswer) -> bool:
    """Return whether "nothing was done" stands at a place, in whatever words, and is no way to state a fact."""
    if any(fact.kind == "none" or ("#0",) in fact.phrases for fact in expected.facts):
        return False
    found = answer.tokens
    after = found[place + 1 : place + 5] if found[place] == "nothing" else found[place + 2 : place + 6]
    if found[place] == "no" and (place + 1 >= len(found) or not _is_held(found[place + 1], expected)):
        return False
    if after[:1] == ["left"]:
        return found[place] == "no"
    verb = next((token for token in after if token not in COPULAS | STOPWORDS), "")
    if not after or after[0] not in COPULAS:
        return False
    return verb in expected.positive or verb in _DEEDS or (verb.endswith("ed") and verb not in NEGATIVES)


def _is_held(noun: str, expected: ExpectedAnswer) -> bool:
    """Return whether the reference answer has a noun in positive statements, in the singular or the plural."""
    return not expected.positive.keys().isdisjoint((noun, noun.removesuffix("s"), f"{noun}s"))


def _at(found: Sequence[str], token: str) -> list[int]:
    return [place for place, other in enumerate(found) if other == token]


def _follows_not(answer: Statements, place: int, expected: ExpectedAnswer) -> bool:
    """Return whether what stands at a place follows "not", a verb such as "be" between them or not."""
    found, clause = answer.tokens, answer.clauses[place]
    if expected.idle and not _DID.isdisjoint(found[max(0, place - 3) : place]):  # "so I did not flag it"
        return False
    for i in range(place - 1, max(-1, place - 5), -1):
        if answer.clauses[i] != clause:
            return False
        if found[i] in _VERBAL:
            return True
        if (
            found[i] not in COPULAS
            and found[i] not in STOPWORDS
            and not (kind_of_token(found[i]) and found[i] in expected.allowed)
        ):
            return False
    return False


def _is_near_negator(answer: Statements, place: int) -> bool:
    found, own = answer.tokens, answer.clauses[place]
    near = range(max(0, place - 5), min(place + 4, len(found)))
    return any(found[i] in NEGATORS and answer.clauses[i] == own for i in near)


def _is_plain(answer: Statements, place: int) -> bool:
    """Return whether what stands at a place is stated in a clause that negates and restricts nothing."""
    clause = answer.clause(place)
    if answer.negated[place] or answer.sentences[place] in answer.open or not NEGATORS.isdisjoint(clause):
        return False
    if not RESTRICTIONS.isdisjoint(clause) or ("can" in clause and "from" in clause):
        return False
    before, after = around(answer, place, 1)
    return NEGATIVES.isdisjoint((*before[-2:], *after[:2]))
