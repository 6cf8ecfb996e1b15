r"""What a text states as its answer, read without knowing the right one, so that naming many answers names none.

An answer is stated in ``\boxed{…}``, in ``<answer>…</answer>`` or after "the answer is". Words around it can take it
back: "it is not true that", "or maybe 7", "I do not know". The time it takes is linear in the length of the text.

Not covered: what a text means beyond such words.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MAX_TEXT = 32_768
"""Characters of a text, from its end, in which an answer is looked for."""
_MAX_STATED = 2_000  # characters of a statement
_MAX_BOXES = 40
_NEAR = 300  # characters around an answer that can take it back
_AFTER = 4_000

_BOX = re.compile(r"\\boxed\s?\{|[{}]")
_PLACEHOLDER = re.compile(
    r"[\W_]*(?:(?:your |the |my )?(?:final )?answer|x|\\l?dots|\\text\{answer\})?[\W_]*", re.IGNORECASE
)
_OPENING, _CLOSING = "<answer>", "</answer>"
_NAMED = re.compile(
    r"\b(final\s|correct\s|right\s)?(?:answer|result|solution)s?\b"
    r"(?:\s(?:to|of|for)\s(?:the|this|your|that)\s\w+(?:\s\w+)?)?"
    r"(?:\s(?:here|then|thus|therefore))?\**\s{0,3}(?:is|are|was|=|:|would\sbe|must\sbe|should\sbe)\**[\s:]{0,4}\**",
    re.IGNORECASE,
)
_THEREFORE = re.compile(r"(?:\A|[.!?\n]\s*|,\s)(?:and\s)?(?:so|hence|thus|therefore|consequently)\b,?\s", re.IGNORECASE)

_NOT = r"(?:not|n['’]t|never|cannot|neither|nor)"
_DENIED = re.compile(
    rf"(?:\b(?:false|untrue|wrong|incorrect|den(?:y|ies|ied)|doubt(?:s|ful)?|unlikely|a lie|refuse|mistaken)\b"
    rf"|{_NOT}\b\W+(?:\w+\W+){{0,3}}?(?:true|right|correct|the\scase|so|think|believe|claim|say|know|answer)\b)"
    r"(?:,?\sthat)?(?P<rest>[^,;.!?\n]*)\Z",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"\b(?:so|but|hence|therefore|thus|instead|actually|rather|then|we|because)\b", re.IGNORECASE)
_SHIED = re.compile(
    rf"(?:{_NOT}|\bno|\b(?:either|maybe|perhaps|possibly|probably not|instead\sof|rather\sthan|other\sthan|except"
    r"|unlike|anything\sbut|(?:might|may|could|can)(?:\salso)?\sbe|or))(?:\W+\w+){0,2}\W*\Z",
    re.IGNORECASE,
)
_TURNED = re.compile(r"(?<!anything )\b(?:but|so|hence|therefore|thus)\b", re.IGNORECASE)
_WITHDRAWN = re.compile(
    r"\b(?:I|we)(?:\s(?:really|honestly|just|simply))?\s?"
    r"(?:(?:do|can|am|are|could|would|have)(?:\s?not|n['’]t)|['’]m\snot|cannot)\s(?:really\s)?"
    r"(?:know|sure|certain|tell|say|think\sso|believe\s(?:it|that|this|so)|found?|an?\sidea)"
    r"|\b(?:is|are|was)(?:\snot|n['’]t)\s(?:true|right|correct|the\s(?:right\s|correct\s)?answer|so|certain|known)\b"
    r"|\b(?:un(?:sure|certain|known|clear)|no\sidea|not\s(?:sure|certain|true))\b"
    r"|\b(?:it|that|this|which|all|everything|above|both)(?:\sis|['’]s|\swas|\sare)\s"
    r"(?:wrong|false|incorrect|untrue|a\slie)\b"
    r"|\b(?:maybe|perhaps|possibly|alternatively|or\selse|just\skidding|I\stake\s(?:it|that)\sback)\b"
    r"|\b(?:might|may|could|can)\s(?:(?:just\s)?as\swell\s|also\s|equally\s)?be\b"
    r"|\b(?:is|are|was)\s(?:also|equally)\s(?:right|correct|possible|an?\sanswer|true|plausible)\b",
    re.IGNORECASE,
)
_OR = re.compile(r"\A\W{0,9}(?:\w+\W{1,9}){0,3}?or\b(?!\s(?:equivalently|in\sother\swords))", re.IGNORECASE)
_NEGATED = re.compile(
    r"\A\W{0,9}(?:(?:it|this|that)\s)?(?:is|are|was|were)(?:\snot|n['’]t|\s(?:wrong|false|incorrect|untrue))\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")
_MARKS = re.compile(r"\*\*|__|`+|^\s{0,3}(?:#{1,6}|>|[-*•])\s+", re.MULTILINE)


class Stated(NamedTuple):
    """Answers that a text states: how, the texts of the answers, and whether something takes them back."""

    how: str
    answers: tuple[str, ...]
    withdrawn: bool


def stated(text: str) -> Stated | None:
    r"""Return what a text states as its answers; None if it states none in a form of its own.

    >>> stated(r"Either \boxed{5} or \boxed{7}.").answers
    ('5', '7')
    >>> stated("I looked it up.\nThe answer is **Brenholm**.").answers
    ('Brenholm**.',)
    >>> stated(r"It is NOT true that: \boxed{5}. I do not know.").withdrawn
    True
    """
    text = spoken_end(text)
    if found := boxes(text):
        after = text[found[-1].end :][:_AFTER]
        answers = [box.content for box in found] + [one.content for one in _named(after)]
        places = zip([0, *(box.end for box in found)], found, strict=False)
        denied = any(withdrawn(text[max(end, box.start - _NEAR) : box.start], "") for end, box in places)
        return Stated("boxed", tuple(answers), denied or withdrawn("", after))
    if tagged := tag_contents(text):
        end = text.rfind(_CLOSING) + len(_CLOSING)
        return Stated("tagged", tagged, withdrawn(text[: text.find(_OPENING)], text[end:][:_AFTER]))
    if named := _named(text):
        chosen = [one for one in named if one.final] or named
        taken_back = withdrawn(text[: chosen[0].start], "") or withdrawn("", text[named[-1].end :][:_AFTER])
        return Stated("named", tuple(one.content for one in chosen), taken_back)
    return None


def spoken_end(text: str) -> str:
    """Return the end of a text, without what was only thought."""
    text = text[-MAX_TEXT:]
    _, _, spoken = text.rpartition("</think>")
    return spoken.strip()


class Box(NamedTuple):
    """What stands in a box, and where the box begins and ends."""

    content: str
    start: int
    end: int


def boxes(text: str, deep: int = 3) -> list[Box]:
    r"""Return the boxes whose braces match and that hold something, without those inside of others.

    A box of boxes counts as these, `deep` boxes deep. Of very many, the last are returned.

    >>> [box.content for box in boxes(r"As \boxed{…}: \boxed{1}, \boxed{\boxed{\frac{1}{2}}}, \boxed{ unfinished")]
    ['1', '\\frac{1}{2}']
    """
    opened: list[tuple[int, int]] = []  # where each begins, and its content if it is a box
    found: list[tuple[int, int, int]] = []
    for mark in _BOX.finditer(text, max(0, text.find(r"\boxed"))) if r"\boxed" in text else ():
        if mark[0] != "}":
            opened.append((mark.start(), mark.end() if len(mark[0]) > 1 else -1))
        elif opened:
            start, content = opened.pop()
            if content >= 0:
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, content, mark.start()))
    result = []
    for start, inside, end in found[-_MAX_BOXES:]:
        held = text[inside:end].strip()
        inner = boxes(held, deep - 1) if deep and held.startswith(r"\boxed") else []
        if inner and not re.search(r"\w", "".join(_between(held, inner))):  # a box of boxes
            result += [Box(box.content, start, end + 1) for box in inner]
        elif not _PLACEHOLDER.fullmatch(held[:60]):
            result.append(Box(held, start, end + 1))
    return result


def _between(text: str, found: Sequence[Box]) -> Iterator[str]:
    """Yield what stands before, between and after boxes."""
    ends = [0, *(box.end for box in found)]
    starts = [*(box.start for box in found), len(text)]
    yield from (text[end:start] for end, start in zip(ends, starts, strict=True))


def tag_contents(text: str) -> tuple[str, ...]:
    """Return what stands between ``<answer>`` and ``</answer>``, each time.

    >>> tag_contents("<answer>12</answer> <ANSWER> 13 </ANSWER> <answer>")
    ('12', '13')
    """
    lower, found, place = text.lower(), [], 0
    if len(lower) != len(text):  # of letters whose lower case is longer
        lower = text
    while (start := lower.find(_OPENING, place)) >= 0 and (end := lower.find(_CLOSING, start)) >= 0:
        found.append(text[start + len(_OPENING) : end].strip())
        place = end + len(_CLOSING)
    return tuple(found)


class _Named(NamedTuple):
    """What is named as the answer, where that begins and ends, and whether it is said to be the final one."""

    content: str
    start: int
    end: int
    final: bool


def _named(text: str) -> list[_Named]:
    """Return what a text names as the answer, each time."""
    matches = list(itertools.islice(_NAMED.finditer(text), _MAX_BOXES))
    named = []
    for place, found in enumerate(matches):
        end = text.find("\n", found.end())
        end = min(len(text) if end < 0 else end, found.end() + _MAX_STATED)
        if place + 1 < len(matches):
            end = min(end, _last_end(text, found.end(), matches[place + 1].start()))
        if content := text[found.end() : end].strip():
            named.append(_Named(content, found.start(), end, found[1] is not None))
    return named


def _last_end(text: str, start: int, end: int) -> int:
    """Return where the last sentence within a range begins, or the end of the range if there is one only."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text, start, min(end, start + _MAX_STATED))]
    return ends[-1] if ends else end


def conclusion(text: str) -> str | None:
    """Return what follows the last "so" or "therefore" of the last sentence, or None.

    >>> conclusion("The sum is 12, and 2 goes away. Therefore, 10 are left.")
    '10 are left.'
    """
    found = next(iter(deque(_THEREFORE.finditer(text, max(0, len(text) - _NEAR)), maxlen=1)), None)
    if found is None or _SENTENCE_END.search(text[found.end() :].rstrip(" .!\n")):
        return None
    return text[found.end() :]


def withdrawn(before: str, after: str) -> bool:
    """Return whether the words before an answer deny or hedge it, or those after it do or name another one.

    >>> withdrawn("It is not true that ", ""), withdrawn("Since 4 is not prime, it is ", ". That is all.")
    (True, False)
    """
    before = before[-_NEAR:]
    ends = [found.end() for found in _SENTENCE_END.finditer(before)]
    before = before[ends[-1] :] if ends else before
    for pattern, way_out in ((_DENIED, _GOES_ON), (_SHIED, _TURNED)):
        if (found := pattern.search(before)) and not way_out.search(found[0]):
            return True
    return any(pattern.search(after) for pattern in (_WITHDRAWN, _OR, _NEGATED))


def without_marks(text: str) -> str:
    """Return a text without the marks of Markdown.

    >>> without_marks("## **Brenholm** in `Estavia`")
    'Brenholm in Estavia'
    """
    return _MARKS.sub("", text)
