"""Sentences that say an answer: whether a text without a box asserts the right answer and nothing else.

A short text may give the answer with courtesy around it, an explanation after it, or in a sentence. Such a sentence
must hold one number or name that neither the question has nor the steps to its answer, and that must be the right one;
of what the question offers to choose from, the first that it names counts. What hedges, denies, lists, asks, repeats
the question or is long says nothing.

Not covered: what follows from the meaning of other words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from toolorchestra.toolscale.answer_reader import conclusion, withdrawn, without_marks
from toolorchestra.toolscale.numerals import TENS, UNITS, number_of_words, plain_digits
from toolorchestra.toolscale.symbolic import Value
from toolorchestra.toolscale.symbolic_reader import read_or_none
from toolorchestra.toolscale.yaml_reader import read_yaml

Same = Callable[[str], bool]
"""Whether a text by itself is the right answer."""

_MAX_CHARACTERS = 3_000  # characters
_MAX_WORDS = 90
_MAX_CUTS = 4
_REPEATED = 9  # words in a row
_COURTESY = re.compile(
    r"\A\W*(?:sure(?: thing)?|certainly|of course|absolutely|hello|hi|hey|dear \w+"
    r"|good (?:day|morning|afternoon|evening)|thanks?(?: you)?(?: (?:so|very) much)?(?: for [^.!?\n]*)?"
    r"|(?:that(?:'s| is) a )?(?:great|good|nice|interesting) question"
    r"|(?:i(?:'m| am|'d be| would be) )?(?:very )?(?:happy|glad|pleased) to help[^.!?\n]*"
    r"|no problem|okay|ok|alright|well|my pleasure|let me (?:help|see|answer)[^.!?\n]*"
    r"|here (?:is|'s|you go|are)(?: (?:the|my|your) (?:answer|result|solution))?)"
    r"(?:\s*[.!,:—–]+|\s-)\s*",
    re.IGNORECASE,
)
_HEADING = re.compile(r"\A\W*(?:(?:the|my|final)\s)*(?:answer|result|solution)\s*[:\n]\s*", re.IGNORECASE)
_CLOSING = re.compile(
    r"\W*\b(?:let me know|i hope|hope (?:this|that)|(?:best|kind|warm) (?:regards|wishes)|regards|have a|feel free"
    r"|is there |if there |if you |do you |can i |please |thanks?|thank you|cheers|you(?:'re| are) welcome"
    r"|happy to|glad to|anything else|all the best|yours|sincerely)[^.!?\n]*[.!?\s]*\Z",
    re.IGNORECASE,
)
_FOLLOWS = re.compile(
    r",?\s(?:because|since|as|for|which|who|where|given|according|based|so|thanks\sto|after|from|by)\b|\s[-–—]+\s|\s?\(|[;!]\s"
    r"|\.(?=\s)|\n|:\s|,\s(?=(?:the|it|he|she|this|that|both|they|all|we|i)\b)"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[^\W_](?:[\w'’-]*[^\W_])?")
_NUMBER = re.compile(
    r"(?<![\w.,/])(?:minus\s)?[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:\s?/\s?\d+)?(?![\w/]|[.,]\d)(?:\s(?:thousand|million|billion|hundred|dozen)\b)?"
)
_OPERATION = re.compile(r"[\\^_=+*{}<>$√π²³]|\d\s?[-−·×÷]\s?[\dA-Za-z(]|\w\(")
_HEDGE = re.compile(
    r"\b(?:or|either|neither|nor|not|never|maybe|perhaps|possibly|might|could|cannot|unsure|uncertain|unknown|false|untrue"
    r"|wrong|incorrect|den(?:y|ies|ied)|doubts?|unlikely|except|if|whether|supposed?|assum(?:e|ing)|would|among|options?"
    r"|candidates?|possibilities|ranges?|between|unless|instead|rather)\b|n['’]t\b",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"\\[A-Za-z]+")
_COPULA = re.compile(
    r"(?:\b(?:is|are|was|were|be|as|became|becomes?|equals?|to|gives?|gets?|obtains?|yields?|has|have|makes?|finds?|found|exactly)"
    r"|[:=])\s+(?!(?:is|are|was|equal|exactly|simply|just)\b)",
    re.IGNORECASE,
)
_FIRST = re.compile(r"\A(.{1,200}?),?\s(?:is|are|was|were)\s(?:the|what|how|where|who)\b", re.DOTALL)
_ADVERB = re.compile(r"\A(?:exactly|simply|just|precisely|equal to|thus|then|therefore|also)\s+", re.IGNORECASE)
_LISTED = re.compile(r"\W*(?:and|or|&|as well as)?\W*(?:the\s)?")
_NUMBER_WORDS = re.compile(
    rf"\b(?:(?:minus |negative )?(?:{'|'.join((*UNITS, *TENS))}|hundred|thousand|million)"
    r"(?:[\s-]+(?:and\s)?(?=\w)|\b))+",
    re.IGNORECASE,
)
_FIRST_NUMBER = re.compile(rf"\A\W*(?:(?:exactly|only|just)\s)?({_NUMBER_WORDS.pattern})", re.IGNORECASE)
_NOUGHT = re.compile(r"\A\W*(?:(?:there|it) (?:is|are|was|were) |i found )?(?:none|no|zero|nothing)\b", re.IGNORECASE)


class AnswerWords(msgspec.Struct, frozen=True):
    """Words of answers, which the YAML file lists and explains."""

    nought: tuple[str, ...]
    units: tuple[str, ...]
    no_units: tuple[str, ...]
    early: tuple[str, ...]
    late: tuple[str, ...]
    common: tuple[str, ...]


WORDS = msgspec.convert(read_yaml(Path(__file__).with_name("answer_words.yaml")), AnswerWords)
"""The words of the file beside this module."""
_EARLY, _LATE, _COMMON = frozenset(WORDS.early), frozenset(WORDS.late), frozenset(WORDS.common)


def asserts(text: str, same: Same, accepted: Sequence[str], question: str = "", known: Iterable[str] = ()) -> bool:
    """Return whether a text says the right answer and no other.

    Args:
        text: The text.
        same: Whether a text by itself is the right answer.
        accepted: The right answer, as it may be written.
        question: What was asked.
        known: Answers of the steps before the last, which may be named as well.
    """
    if len(text) > _MAX_CHARACTERS:
        return False
    text = _without_courtesy(without_marks(text))
    if same(text.strip(' \n"“”')):
        return True
    if not text or text[0] in "[{<" or not accepted:
        return False
    if _begins_with_it(text, same):
        return True
    ending = conclusion(text)
    if ending is not None and ending != text and not withdrawn(text[: -len(ending)], ""):
        return asserts(ending, same, accepted, question, known)
    sentences = [_without_repeats(one, question) for one in _SENTENCE.split(text) if not _asks(one, question)]
    sentences = [one for one in sentences if one.strip()]
    body = " ".join(sentences)
    if not body or len(body.split()) > _MAX_WORDS or withdrawn("", body) or _hedges(body, question):
        return False
    value = read_or_none(accepted[0])
    if isinstance(value, Value) and value.rational is not None and not _OPERATION.search(body):
        return _says_number(body, same, question, zero=not value.top)
    if value is not None or re.search(r"[\\^=]", accepted[0]):
        return _all_say(sentences, same, lambda found: read_or_none(found) is not None)
    if any(word[0].isupper() for word in _WORD.findall(accepted[0])):
        if not _offers(question) and _holds(question, accepted[0]):
            return _all_say(sentences, same, lambda found: len(found.split()) <= 8)
        return _says_name(sentences, accepted, question, known)
    return _all_say(sentences, same, lambda found: len(found.split()) <= 4)


def _without_courtesy(text: str) -> str:
    text = _HEADING.sub("", text.strip())
    for _ in range(3):
        text, count = _COURTESY.subn("", text, count=1)
        if not count:
            break
    lines = _SENTENCE.split(text)
    while len(lines) > 1 and len(lines) < 60 and _CLOSING.fullmatch(lines[-1]):
        text = text[: text.rfind(lines.pop())].rstrip()
    return text


def _begins_with_it(text: str, same: Same) -> bool:
    """Return whether a text gives the answer first, and then what may be an explanation."""
    for place, found in enumerate(_FOLLOWS.finditer(text)):
        if place == _MAX_CUTS:
            return False
        if same(text[: found.start()]):
            return _explains(text[found.start() :], same)
    return False


def _explains(rest: str, same: Same) -> bool:
    """Return whether words after an answer explain it: they are sentences, and none of them is another answer."""
    if withdrawn("", rest) or re.match(r"\W*(?:and|or|also)\b", rest, re.IGNORECASE):
        return False
    for one in _SENTENCE.split(rest.lstrip(" .,;:!?-–—(")):
        words = _WORD.findall(_COMMAND.sub(" ", one))
        if not words or same(one.strip(" .()")):
            continue
        plain = [word for word in words if word.isalpha() and word.islower() and len(word) > 1]
        if len(plain) < 2 or (len(words) <= 5 and re.search(r"\d|\s[A-Z]", one) and _restates(one)):
            return False
    return True


def _restates(sentence: str) -> bool:
    """Return whether a short sentence gives another answer, as in "It was 1924"."""
    return bool(re.match(r"\W*(?:or|and|also|it|that|the \w+|he|she)\b", sentence, re.IGNORECASE))


def _asks(sentence: str, question: str) -> bool:
    """Return whether a sentence is a question, or a piece of the one that was asked."""
    if sentence.rstrip(" \"'”)").endswith("?"):
        return True
    words, asked = (f" {' '.join(_WORD.findall(text))} ".casefold() for text in (sentence, question))
    return words.count(" ") > 4 and words in asked


def _without_repeats(sentence: str, question: str) -> str:
    """Return a sentence without the long pieces of the question that it repeats: those it does not say itself."""
    words = list(_WORD.finditer(sentence))
    if len(words) < _REPEATED:
        return sentence
    asked = f" {' '.join(_WORD.findall(question))} ".casefold()
    plain = [word[0].casefold() for word in words]
    kept, place = [], 0
    for number in range(len(words) - _REPEATED + 1):
        if f" {' '.join(plain[number : number + _REPEATED])} " in asked:
            kept.append(sentence[place : max(place, words[number].start())])
            place = words[number + _REPEATED - 1].end()
    return " ".join([*kept, sentence[place:]])


def _hedges(body: str, question: str) -> bool:
    """Return whether a text has a word that hedges or denies, and that it does not repeat from the question."""
    asked = {word.casefold() for word in _WORD.findall(question)}
    if _offers(question):
        asked -= {"or", "not"}
    return any(found[0].casefold() not in asked for found in _HEDGE.finditer(body))


# --------------------------------------------------------------------------------------------------- kinds of answers


def _says_number(body: str, same: Same, question: str, *, zero: bool) -> bool:
    body = plain_digits(body)
    asked = {_plain(number) for number in _NUMBER.findall(plain_digits(question))}
    found = list(_NUMBER.finditer(body))
    if not found:
        if zero and _NOUGHT.match(body):
            return True
        words = {found[0].strip(" -\n") for found in _NUMBER_WORDS.finditer(body)}
        numbers = {number_of_words(word) for word in words if word.casefold() != "one"} or {
            number_of_words(w) for w in words
        }
        return len(numbers) == 1 and same(str(numbers.pop()))
    new = {_plain(number[0]): number for number in found if _plain(number[0]) not in asked}
    if not new and zero and _NOUGHT.match(body):
        return True
    if not new and (first := _FIRST_NUMBER.match(body)):
        return same(str(number_of_words(first[1].strip(" -\n"))))
    if not new:
        ends = [text for sentence in _SENTENCE.split(body) for text in _stated_in(sentence)]
        return len(found) == 1 and any(map(same, ends))
    if len(new) > 1 or not all(map(same, new)) or any(withdrawn(body[: one.start()], "") for one in new.values()):
        return False
    return all(_plain(number[0]) in new or _repeats(number, body, question) for number in found)


def _repeats(number: re.Match[str], body: str, question: str) -> bool:
    """Return whether a number stands beside the same word as in the question."""
    before, after = _WORD.findall(body[: number.start()])[-1:], _WORD.findall(body[number.end() :])[:1]
    asked = f" {' '.join(_WORD.findall(question))} ".casefold()
    shown = " ".join(_WORD.findall(number[0]))
    beside = [f" {word} {shown} " for word in before if word.casefold() not in ("is", "are", "was")]
    return any(pair.casefold() in asked for pair in [*beside, *(f" {shown} {word} " for word in after)])


def _plain(number: str) -> str:
    return number.replace(",", "").replace(" ", "").replace("−", "-")


def _stated_in(sentence: str) -> Iterator[str]:
    """Yield what a sentence says that something is: its end, or its beginning."""
    sentence = sentence.strip().rstrip(".! ")
    ends = [found.end() for found in _COPULA.finditer(sentence)]
    if ends and not withdrawn(sentence[: ends[-1]], ""):
        yield _ADVERB.sub("", sentence[ends[-1] :])
    if first := _FIRST.match(sentence):
        yield first[1]


def _all_say(sentences: Iterable[str], same: Same, could_be: Callable[[str], bool]) -> bool:
    """Return whether all that sentences say something to be is the right answer, and something is."""
    found = [text for sentence in sentences for text in _stated_in(sentence) if same(text) or could_be(text)]
    return bool(found) and len(found) < 8 and all(map(same, found))


def _offers(question: str) -> frozenset[str]:
    """Return the words for the end that a question asks for where it offers things to choose from; else none."""
    words = [word.casefold() for word in _WORD.findall(question)]
    if "or" not in words:
        return frozenset()
    return next((side for word in words for side in (_EARLY, _LATE) if word in side), frozenset())


def _holds(question: str, answer: str) -> bool:
    """Return whether a question has all words of an answer."""
    return {word.casefold() for word in _WORD.findall(answer)} <= {word.casefold() for word in _WORD.findall(question)}


def _says_name(sentences: Sequence[str], accepted: Sequence[str], question: str, known: Iterable[str]) -> bool:
    body = " ".join(sentences)
    spelled = sorted((_WORD.findall(one) for one in accepted), key=len, reverse=True)
    pattern = "|".join(r"\W+".join(map(re.escape, words)) for words in spelled if words)
    names = list(re.finditer(rf"\b(?:{pattern})(?:['’]s)?(?![\w'’-])", body, re.IGNORECASE))
    if not names:
        return False
    asked = {word.casefold() for word in _WORD.findall(question)}
    passed = asked | {word.casefold() for one in known for word in _WORD.findall(one)}
    others = []
    for word in _WORD.finditer(body):
        if not word[0][0].isupper() or any(name.start() <= word.start() < name.end() for name in names):
            continue
        plain = word[0].casefold().removesuffix("'s").removesuffix("’s")
        if plain in _COMMON or (_starts(body, word.start()) and plain.endswith(("ly", "ing", "ed"))):
            continue
        if plain not in passed:
            return False
        others.append(word.start())
    side = _offers(question)
    if not others:
        return not side or _same_side(body, side, missing=True)
    if any(_lists(body, end, others) for end in (names[0].end(), names[-1].end())) or not all(map(_tells, sentences)):
        return False
    return not side or (names[0].start() < others[0] and _same_side(body, side))


def _tells(sentence: str) -> bool:
    """Return whether a sentence has enough words to say more than a name."""
    return len([word for word in _WORD.findall(sentence) if word.isalpha() and word.islower()]) > 2


def _starts(body: str, place: int) -> bool:
    return not body[:place].rstrip(' "“(') or body[:place].rstrip(' "“(')[-1] in ".!?:\n"


def _lists(body: str, end: int, others: Sequence[int]) -> bool:
    """Return whether another name follows in the same enumeration."""
    following = next((place for place in others if place >= end), None)
    return following is not None and _LISTED.fullmatch(body, end, following) is not None


def _same_side(body: str, side: frozenset[str], *, missing: bool = False) -> bool:
    """Return whether the first word for one end or the other is for the end that was asked for."""
    for word in _WORD.findall(body):
        if word.casefold() in _EARLY | _LATE:
            return word.casefold() in side
    return missing
