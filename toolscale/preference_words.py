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
    r"lean\w*|choose|go with|take|stick to|keep to|ask|nothing but)\b"
)
_JOIN = words_pattern(r"\s*(?:,|/|&)?\s*(?:and|or|nor|as well as)?\s*(?:the |any |all |also )*")
_BOUNDARY = words_pattern(
    r"[,;:()—–]|\s-\s|\b(?:but|so|because|since|while|whereas|though|although|unless|if|when)\b|"
    rf"\band\b(?!\s(?:the |any |all |also )*[{TOOL_MARK}{PART_MARK}])"
)
_OF_THE_LAST = words_pattern(
    rf"\s*(?:(?:it|them|those|these)\b(?! (?:of )?[{TOOL_MARK}{PART_MARK}])|"
    r"(?:please|(?:if|where|when)(?:ever)? possible|[\s.,!?;])*$)"
)
_CUES = (
    (_INDIFFERENT, "indifferent"),
    (_CONTRAST, "contrast"),
    (words_pattern(r"\b(?:do not|don['’]t|never) avoid\b"), "request"),
    (_AVOID, "avoid"),
    (_REQUEST, "request"),
    (_BOUNDARY, "end"),
)
_GOOD = words_pattern(r"(?:right|correct|accura|quality|reliab|cheap|quick|fast|prompt|soon)\w*")
_STRONG = words_pattern(
    r"\b(?:above all|most of all|matters? most|as much as possible|first of all|whenever you can)\b"
)
_WEAK = words_pattern(r"\b(?:a little|slightly|somewhat|if nothing speaks against it|would be nice)\b")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_WORDED = re.compile(r"[\w$]")


def _cues(rest: str) -> list[tuple[int, int, str]]:
    """Return where a marked sentence turns to what is set aside or requested, and where clauses end."""
    found: list[tuple[int, int, str]] = []
    taken = bytearray(len(rest))
    for pattern, kind in _CUES:
        for match in pattern.finditer(rest):
            start, end = match.span()
            if not any(taken[start:end]):
                found.append((start, end, kind))
                taken[start:end] = b"\x01" * (end - start)
    return found


def _runs(mentions: Sequence[Mention], rest: str) -> list[list[Mention]]:
    """Return the mentions in runs: those that "and", "or" or a comma joins share what is said of them."""
    runs: list[list[Mention]] = []
    for mention in mentions:
        if runs and _JOIN.fullmatch(rest, runs[-1][-1].end, mention.start):
            runs[-1].append(mention)
        else:
            runs.append([mention])
    return runs


def _last_item(run: Sequence[Mention], rest: str) -> list[Mention]:
    """Return the end of a run behind its last comma: in "avoid mistakes, money is no object" a clause begins there."""
    start = max((at for at in range(1, len(run)) if "," in rest[run[at - 1].end : run[at].start]), default=0)
    return [*run[start:]]


def _judged(mentions: Sequence[Mention], rest: str, earlier: Sequence[Mention]) -> Iterator[tuple[Mention, str]]:
    """Yield each mention of a marked sentence with what is said of it: ``request``, or the kind of a cue.

    A cue holds for what follows, up to a request or the end of its clause. "It does not matter" also holds for what
    precedes it in its clause, and "avoid it" for the tools that were mentioned last, if need be the `earlier` ones.
    """
    runs = _runs(mentions, rest)
    kinds = dict.fromkeys(mentions, "request")
    inside = bytearray(len(rest) + 1)
    for run in runs:
        inside[run[0].start : run[-1].end] = b"\x01" * (run[-1].end - run[0].start)
    events: list[tuple[int, int, str, list[Mention]]] = [
        (start, end, kind, []) for start, end, kind in _cues(rest) if not inside[start]
    ]
    events += [(run[0].start, run[-1].end, "run", run) for run in runs]
    state, used, cued = "request", False, False
    topic, clause = [*earlier], list[Mention]()
    for _, end, kind, run in sorted(events):
        if kind == "run":
            kinds |= dict.fromkeys(run, state)
            clause = _last_item(run, rest) if cued else [*clause, *run]
            topic, used = [mention for mention in run if mention.kind != "part"] or topic, True
        elif kind == "end":
            state, clause, cued = ("request" if used else state), [], False
        elif kind == "indifferent" and clause:
            kinds |= dict.fromkeys(clause, kind)
        elif kind in ("avoid", "contrast") and topic and _OF_THE_LAST.match(rest, end):
            kinds |= dict.fromkeys(topic, kind)
        else:
            state, used, cued = kind, False, True
    yield from kinds.items()


def meaning(instruction: str, tools: Sequence[ToolFacts]) -> Meaning:
    """Return the entries of P that an instruction asks for, those that it sets aside, and what means nothing.

    >>> facts = [ToolFacts("web_search", price=0.01), ToolFacts("notes")]
    >>> found = meaning("Above all be quick. Use tools that cost nothing rather than web_search.", facts)
    >>> found.requested, found.aside
    ({'latency': 'strong', 'notes': 'plain'}, {'web_search'})
    >>> meaning("Use the models made by Foocorp.", facts).unknown
    ["Unknown maker or host of models 'Foocorp'. Known: none.", "The words 'the models' mean no tool of the set."]
    """
    reader = _reader(tuple(tools))
    requested: dict[str, str] = {}
    aside: set[str] = set()
    unknown: list[str] = []
    topic: list[Mention] = []  # the tools that were mentioned last
    for sentence in filter(_WORDED.search, _SENTENCE.split(instruction)):
        mentions, rest = reader.read(sentence)
        unknown += reader.unknown(rest)
        strong, weak = bool(_STRONG.search(rest)), bool(_WEAK.search(rest))
        grade = "plain" if strong == weak else "strong" if strong else "weak"  # which is which, words do not tell
        for mention, kind in _judged(mentions, rest, topic):
            if kind == "request" or (mention.kind == "part" and _is_wish(mention, kind)):
                requested |= dict.fromkeys(mention.entries, grade)
                if not mention.entries:
                    unknown.append(f"The words {mention.words!r} mean no tool of the set.")
            else:
                aside |= mention.entries
        topic = [mention for mention in mentions if mention.kind != "part"][-1:] or topic
    for name in aside:
        requested.pop(name, None)
    return Meaning(requested, aside, unknown)


def _is_wish(mention: Mention, kind: str) -> bool:
    """Return whether words for a component are a wish under a cue: "avoid mistakes" is, "rather than quick" is not."""
    return kind == "avoid" or (kind == "contrast" and not _GOOD.fullmatch(mention.words))


@functools.lru_cache(maxsize=64)
def _reader(tools: tuple[ToolFacts, ...]) -> MentionReader:
    return MentionReader(tools)
