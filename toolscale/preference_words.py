"""What the words of a preference instruction mean: which entries of P they ask for, and which they set aside.

A tool is meant by its name or its model's, or by a group that it belongs to. What follows "avoid" or "rather than" is
set aside up to the end of its clause, and so is what does not matter. Not covered: what only a model can judge, such as
irony, and what is between the lines ("this is confidential").
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from toolorchestra.toolscale.preference_groups import ToolFacts, words_pattern
from toolorchestra.toolscale.preference_mentions import PART_MARK, TOOL_MARK, Mention, MentionReader

COMPONENTS = ("outcome", "compute", "latency")
"""The entries of P after the tools: being right, spending little, being quick."""


class Meaning(NamedTuple):
    """What an instruction means.

    Attributes:
        requested: The entries of P that it asks for, each ``strong``, ``plain`` or ``weak``.
        aside: The entries that it sets aside ("cost does not matter", "avoid web search").
        unknown: Sentences about words that mean no tool of the set.
    """

    requested: dict[str, str]
    aside: set[str]
    unknown: list[str]


_VERB = (
    r"(?: (?:want|wish|like|need|trust|allow|let|permit)(?: you| me| us| it)?)?(?: (?:to|ever|just|also|any))*"
    r"(?: (?:us(?:e|ing)|call(?:ing)?|ask(?:ing)?|rely(?:ing)? on|work(?:ing)? with|tak(?:e|ing)|touch(?:ing)?|"
    r"go(?:ing)? (?:to|with|for)|see(?:ing)?|hav(?:e|ing)|send(?:ing)? \w+ to)\b)?"
)
_NEXT = rf"(?= (?:the |any |all |a |an |those |what )*[{TOOL_MARK}{PART_MARK}])"
_INDIFFERENT = words_pattern(
    r"\b(?:regardless of|never mind|(?:do|does)(?: not|n['’]t) (?:care|mind|worry)|no matter (?:what|how)|whatever it|"
    r"(?:(?:do|does|is|are)(?: not|n['’]t)|(?:is|are) no) (?:\w+ )?(?:matter|count|important|object|concern|issue)|"
    r"no object)\b"
)
_CONTRAST = words_pattern(rf"\b(?:rather than|instead of|in place of|not|over|than){_VERB}{_NEXT}|\binstead of{_VERB}")
_AVOID = words_pattern(
    r"\b(?:avoid\w*|without|(?:stay|keep)\w* (?:away|clear)(?: from| of)?|steer clear of|refrain\w* from|"
    r"leav(?:e|ing) out|skip|(?:do|does|should|shall|must|can|could|would|will|may) (?:not|never|rather not)|"
    r"(?:do|does|should|must|would|wo|ca)n['’]t|cannot|never|neither|nor|other than|except(?: for)?|anything but|"
    rf"apart from|rather not|rather than|not (?=us|call|ask)){_VERB}|\bno{_NEXT}"
)
_REQUEST = words_pattern(
    r"\b(?:us(?:e|ing)|prefer\w*|work(?:ing)? with|wants?|(?:i|we)(?: would|['’]d)? like|rely(?:ing)? on|reach for|"
    r"lean\w*|choose|go with|take|stick to|keep to|ask|nothing but|(?:do not|don['’]t|never) avoid)\b"
)
_JOIN = r"\s*(?:,|/|&)?\s*(?:and|or|nor|as well as)?\s*(?:the |any |all |also )*"
_BOUNDARY = words_pattern(
    r"[,;:()—–]|\s-\s|\b(?:but|so|because|since|while|whereas|though|although|unless|if|when)\b|"
    rf"\band\b(?!\s(?:the |any |all |also )*[{TOOL_MARK}{PART_MARK}])"
)
_OF_THE_LAST = words_pattern(
    r"\s*(?:(?:it|them|those|these)\b|(?:please|(?:if|where|when)(?:ever)? possible|[\s.,!?;])*$)"
)
_GOOD = words_pattern(r"(?:right|correct|accura|quality|reliab|cheap|quick|fast|prompt|soon)\w*")
_STRONG = words_pattern(
    r"\b(?:above all|most of all|matters? most|as much as possible|first of all|whenever you can)\b"
)
_WEAK = words_pattern(r"\b(?:a little|slightly|somewhat|if nothing speaks against it|would be nice)\b")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")


def _cues(rest: str) -> list[tuple[int, int, str]]:
    """Return where a marked sentence turns to what is set aside or requested, and where clauses end."""
    found: list[tuple[int, int, str]] = []
    for pattern, kind in (
        (_INDIFFERENT, "indifferent"),
        (_CONTRAST, "contrast"),
        (words_pattern(r"\b(?:do not|don['’]t|never) avoid\b"), "request"),
        (_AVOID, "avoid"),
        (_REQUEST, "request"),
        (_BOUNDARY, "end"),
    ):
        for match in pattern.finditer(rest):
            if all(match.end() <= start or match.start() >= end for start, end, _ in found):
                found.append((match.start(), match.end(), kind))
    return sorted(found)


def _runs(mentions: Sequence[Mention], rest: str) -> list[list[Mention]]:
    """Return the mentions in runs: those that "and", "or" or a comma joins share what is said of them."""
    runs: list[list[Mention]] = []
    for mention in mentions:
        if runs and re.fullmatch(_JOIN, rest[runs[-1][-1].end : mention.start]):
            runs[-1].append(mention)
        else:
            runs.append([mention])
    return runs


def _judged(mentions: Sequence[Mention], rest: str) -> Iterator[tuple[Mention, str]]:
    """Yield each mention of a marked sentence with what is said of it: ``request``, or the kind of a cue.

    A cue holds for what follows, up to a request or the end of its clause. "It does not matter" also holds for what
    precedes it in its clause, and "avoid it" for what was mentioned last.
    """
    runs = _runs(mentions, rest)
    said = ["request"] * len(runs)
    state, used, last = "request", False, -1
    clause: list[int] = []
    lists = [(run[0].start, run[-1].end) for run in runs]
    cues = [cue for cue in _cues(rest) if not any(start <= cue[0] < end for start, end in lists)]
    for _, end, what in sorted([*cues, *((start, end, str(place)) for place, (start, end) in enumerate(lists))]):
        if what.isdecimal():
            last, used = int(what), True
            said[last] = state
            if state == "request":
                clause.append(last)
        elif what == "end":
            state, clause = ("request" if used else state), []
        elif what == "request":
            state = "request"
        elif what == "indifferent" and clause:
            said = [what if place in clause else before for place, before in enumerate(said)]
        elif last >= 0 and (_OF_THE_LAST.match(rest, end) or (what == "indifferent" and end == len(rest))):
            said[last] = what
        else:
            state, used = what, False
    for run, kind in zip(runs, said, strict=True):
        yield from ((mention, kind) for mention in run)


def meaning(instruction: str, tools: Sequence[ToolFacts]) -> Meaning:
    """Return the entries of P that an instruction asks for, those that it sets aside, and what means nothing.

    >>> facts = [ToolFacts("web_search", price=0.01), ToolFacts("notes")]
    >>> found = meaning("Above all be quick. Use tools that cost nothing rather than web_search.", facts)
    >>> found.requested, found.aside
    ({'latency': 'strong', 'notes': 'plain'}, {'web_search'})
    >>> meaning("Use the models made by Foocorp.", facts).unknown
    ["Unknown maker or host of models 'Foocorp'. Known: none."]
    """
    reader = _reader(tuple(tools))
    requested: dict[str, str] = {}
    aside: set[str] = set()
    unknown: list[str] = []
    for sentence in _SENTENCE.split(instruction):
        mentions, rest = reader.read(sentence)
        unknown += reader.unknown(rest)
        strong, weak = bool(_STRONG.search(rest)), bool(_WEAK.search(rest))
        grade = "plain" if strong == weak else "strong" if strong else "weak"  # which is which, words do not tell
        for mention, kind in _judged(mentions, rest):
            if kind == "request" or (mention.kind == "part" and _is_wish(mention, kind)):
                requested |= dict.fromkeys(mention.entries, grade)
                if not mention.entries:
                    unknown.append(f"The words {mention.words!r} mean no tool of the set.")
            else:
                aside |= mention.entries
    for name in aside:
        requested.pop(name, None)
    return Meaning(requested, aside, unknown)


def _is_wish(mention: Mention, kind: str) -> bool:
    """Return whether words for a component are a wish under a cue: "avoid mistakes" is, "rather than quick" is not."""
    return kind == "avoid" or (kind == "contrast" and not _GOOD.fullmatch(mention.words))


@functools.lru_cache(maxsize=64)
def _reader(tools: tuple[ToolFacts, ...]) -> MentionReader:
    return MentionReader(tools)
