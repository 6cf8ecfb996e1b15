"""Answers that rules reject and cannot settle: wrong only because facts were not found in them.

The rules know words, numbers, dates and a great many spellings. An answer may state a fact in words that none of them
knows ("half a dozen"). Whether it does, a person or a model can say, if there is nothing else against it. Here is which
answers these are; `toolorchestra.envs.model_judge` asks.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from toolorchestra.toolscale.judging.expected import ExpectedAnswer, ExpectedFact, contains, kind_of_token
from toolorchestra.toolscale.judging.judge import NOT_STATED, judge_answer
from toolorchestra.toolscale.judging.statements import STOPWORDS, Statements, read_statements


def unsettled_facts(text: str, expected: ExpectedAnswer) -> list[int]:
    """Return the positions of the facts that a wrong answer may state in words that no rule knows.

    There are none if the answer is right, or wrong for a reason that rules settle. It is settled if the answer

    - denies or doubts, is data or a dump, contradicts the reference answer, or states a rival of a fact that it has;
    - states nothing: it asks, refuses where nothing is refused, promises, or repeats the request for the most part;
    - has the words of a missing fact, which do not count where they stand, such as in a question;
    - states something else in the place of a missing fact: one of its rivals, or a value of its kind;
    - shares no word with the request and the reference answer, or has no other.
    """
    wrong = judge_answer(text, expected)
    if not wrong or not all(message.startswith(NOT_STATED) for message in wrong):
        return []
    missing = [i for i, fact in enumerate(expected.facts) if f"{NOT_STATED} {fact.named}" in wrong]
    others = tuple(fact for i, fact in enumerate(expected.facts) if i not in missing)
    if judge_answer(text, msgspec.structs.replace(expected, facts=others)):
        return []  # something is wrong with it beside these facts
    answer = read_statements(text)
    if (
        not _is_about(answer, expected)
        or _repeats(answer, expected)
        or any(_is_settled(answer, expected.facts[i], expected) for i in missing)
    ):
        return []
    return missing


def _is_about(answer: Statements, expected: ExpectedAnswer) -> bool:
    """Return whether an answer shares a word that carries meaning with request or reference answer, and says more."""
    stated = {
        token
        for token, sentence in zip(answer.tokens, answer.sentences, strict=True)
        if sentence not in answer.open and token not in STOPWORDS and kind_of_token(token) is None
    }
    return len(stated) > 1 and not stated.isdisjoint(expected.words)


def _repeats(answer: Statements, expected: ExpectedAnswer) -> bool:
    """Return whether most of an answer repeats the request."""
    size, found = expected.run_length, answer.tokens
    starts = [i for i in range(len(found) - size + 1) if tuple(found[i : i + size]) in expected.runs]
    return len({place for start in starts for place in range(start, start + size)}) * 2 > len(found)


def _is_settled(answer: Statements, fact: ExpectedFact, expected: ExpectedAnswer) -> bool:
    """Return whether an answer in which a fact was not found certainly does not state it."""
    if any(contains(answer.tokens, phrase) for phrase in fact.phrases):
        return True
    if any(_is_stated(answer, place) for rival in fact.rivals for place in contains(answer.tokens, rival)):
        return True
    kinds = fact.rival_kinds
    values = ((place, token) for place, token in enumerate(answer.tokens) if kind_of_token(token) in kinds)
    taken = _values([other for other in expected.facts if other is not fact])
    return any(
        token not in taken and (token not in expected.allowed or token in fact.choices) and _is_stated(answer, place)
        for place, token in values
    )


def _values(facts: Sequence[ExpectedFact]) -> set[str]:
    return {token for fact in facts for phrase in fact.phrases for token in phrase}


def _is_stated(answer: Statements, place: int) -> bool:
    """Return whether what an answer has at a place is neither asked nor denied."""
    return answer.sentences[place] not in answer.open and not answer.negated[place]
