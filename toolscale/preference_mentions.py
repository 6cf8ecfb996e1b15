"""What a sentence of a preference mentions: tools, groups of tools, companies, and the parts of the reward.

What is said of them is in `toolorchestra.toolscale.preference_words`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from toolorchestra.toolscale.errors import unknown_name
from toolorchestra.toolscale.preference_groups import GROUPS, MODELS, ORIGIN_GROUPS, ToolFacts, ToolGroup, words_pattern
from toolorchestra.toolscale.tool import ToolOrigin

TOOL_MARK, PART_MARK = "\x01", "\x02"
"""What stands in a sentence in place of words that mean tools, and of words that mean a component of P."""

COMPONENT_WORDS = {
    "outcome": words_pattern(r"\b(?:right|correct\w*|accura\w+|quality|reliab\w+|mistakes?|errors?|solv\w+)\b"),
    "compute": words_pattern(
        r"\b(?:cheap\w*|cost\w*|money|dollars?|budget\w*|spend\w*|spent|expens\w+|prices?|bills?)\b|\$"
    ),
    "latency": words_pattern(
        r"\b(?:quick\w*|fast\w*|hurry|wait\w*|soon\w*|prompt\w*|seconds?|minutes?|time|slow\w*|latency|deadlines?|late)\b"
    ),
}
"""Everyday words for the components of P."""


class Mention(NamedTuple):
    """Words that mean entries of P: where they stand, which entries, and their kind (name, owner, group or part)."""

    start: int
    end: int
    entries: frozenset[str]
    words: str
    kind: str


class MentionReader:
    """Finds what sentences mention of a tool set."""

    def __init__(self, tools: Sequence[ToolFacts]) -> None:
        self._tools = tools
        self._names: dict[str, set[str]] = {}
        for tool in tools:
            for name in filter(None, (tool.name, tool.origin.model)):
                self._names.setdefault(name, set()).add(tool.name)
        self._named = [
            (words_pattern(_NAME.format(re.escape(name).replace("_", "[_ ]"))), frozenset(meant))
            for name, meant in sorted(self._names.items(), key=lambda item: -len(item[0]))
        ]
        # One look at a sentence that names no tool, instead of one for each name.
        self._any_name = words_pattern("|".join(pattern.pattern for pattern, _ in self._named) or r"(?!)")
        self._makers = _owned(tools, lambda origin: origin.vendor)
        self._hosts = _owned(tools, lambda origin: "" if origin.provider == "local" else origin.provider)
        self._owners = sorted({*self._makers, *self._hosts}, key=lambda name: (-len(name), name))
        self._owner_patterns = _owner_patterns("|".join(map(re.escape, self._owners)) or r"(?!)")

    def read(self, sentence: str) -> tuple[list[Mention], str]:
        """Return what a sentence mentions, in its order, and the sentence with marks in place of these words."""
        found: list[Mention] = []
        rest = sentence

        def take(pattern: re.Pattern[str], meant: Callable[[re.Match[str]], Iterable[str]], kind: str) -> None:
            nonlocal rest
            mark = PART_MARK if kind == "part" else TOOL_MARK
            matches = [match for match in pattern.finditer(rest) if match[0]]
            if not matches:
                return
            found.extend(Mention(*match.span(), frozenset(meant(match)), match[0], kind) for match in matches)
            rest = pattern.sub(lambda match: mark * len(match[0]), rest)

        for pattern, names in self._named if self._any_name.search(sentence) else ():
            take(pattern, functools.partial(_these, names), "name")
        for pattern in self._owner_patterns:
            take(pattern, self._owned_by, "owner")
        for group in (*GROUPS, *ORIGIN_GROUPS):
            take(group.pattern, functools.partial(_members, group, self._tools), "group")
        for name, pattern in COMPONENT_WORDS.items():
            take(pattern, functools.partial(_these, (name,)), "part")
        return _narrowed(sorted(found), sentence), rest

    def unknown(self, rest: str) -> list[str]:
        """Return sentences about words of a marked sentence that look like tools, models or companies and are none."""
        like_tools = (found[0] for pattern in (_LIKE_A_TOOL, _LIKE_A_MODEL) for found in pattern.finditer(rest))
        faults = [unknown_name("tool or model", name, self._names) for name in dict.fromkeys(like_tools)]
        like_companies = (next(filter(None, found.groups())) for found in _LIKE_A_COMPANY.finditer(rest))
        for name in dict.fromkeys(like_companies):
            if name.casefold() not in _NO_COMPANY:
                faults.append(unknown_name("maker or host of models", name, self._owners))
        return faults

    def _owned_by(self, found: re.Match[str]) -> Iterable[str]:
        """Return the tools of those who are named: their models, and what they run."""
        groups = found.groupdict()
        text = next(filter(None, (groups.get("names"), groups.get("before")))).casefold()
        hosted = (groups.get("how") or "").casefold() in ("hosted", "run", "served", "offered")
        for owner in self._owners:
            if re.search(rf"(?<!\w){re.escape(owner)}(?!\w)", text):
                made = frozenset[str]() if hosted else self._makers.get(owner, frozenset())
                yield from made or self._hosts.get(owner, frozenset())


_NAME = r"(?<![\w/-]){}(?![\w/]|[-.]\w)"
_LIKE_A_TOOL = words_pattern(r"\b[a-z]\w*_\w+\b")
_LIKE_A_MODEL = words_pattern(
    r"\b[a-z][a-z]+(?:-[a-z]+)*-\d(?:[\w.-]*\w)?|\b[a-z][a-z]+\d(?:\.\d)?(?:-\w+)+|\bo\d(?:-\w+)?\b"
)
_LIKE_A_COMPANY = re.compile(
    rf"(?:\b(?i:models?|experts?|llms?|tools?)|{TOOL_MARK}) (?i:that are |which are )?(?:"
    r"(?i:made|built|trained|developed|hosted|run|served|offered) (?i:by|from) (?i:the )?(\w[\w.&+-]*\w)|"
    r"(?:by|from) (?:the )?([A-Z][\w.&+-]*))|"
    r"\b([A-Z][\w.&+-]*)['’]s (?i:models?|experts?|llms?)\b|(?<=[a-z,] )([A-Z][\w.&+-]*) (?i:models?|llms?)\b"
)
_NO_COMPANY = frozenset((
    "a", "an", "the", "this", "that", "these", "those", "my", "our", "your", "their", "its", "any", "all", "some",
    "each", "every", "others", "somebody", "someone", "us", "me", "ourselves", "myself", "hand", "now", "then",
    "default",
))  # fmt: skip


def _owner_patterns(owner: str) -> tuple[re.Pattern[str], ...]:
    """Return patterns of words for what companies made or run: "models hosted by …", "…'s", and their bare names."""
    one = rf"(?:{owner})(?: ai)?"
    several = rf"{one}(?:(?:,| or| and|, or|, and) {one}){{0,8}}\b"
    what = rf"(?:all |any |the )?(?:{MODELS}|tools?|anything|everything|whatever)(?: (?:that|which) (?:is|are))?"
    how = r"(?P<how>made|built|trained|developed|hosted|run|served|offered)"
    return (
        words_pattern(rf"(?:\b{what} )?\b(?:{how} by|by|from|of|at) (?P<names>{several})(?!['’])"),
        words_pattern(rf"\b(?P<names>{several})['’]s?(?: (?:{MODELS}|tools?)\b)?|\b(?P<before>{several}) {MODELS}\b"),
        words_pattern(rf"(?<=[\w,] )(?=(?-i:[A-Z]))(?P<names>{several})(?![-'’]\w)"),
    )


def _owned(tools: Iterable[ToolFacts], owner: Callable[[ToolOrigin], str]) -> dict[str, frozenset[str]]:
    """Return the names of the tools of each owner, by its name in lower case."""
    found: dict[str, frozenset[str]] = {}
    for tool in tools:
        if name := owner(tool.origin).casefold():
            found[name] = found.get(name, frozenset()) | {tool.name}
    return found


def _these(entries: Iterable[str], found: re.Match[str]) -> Iterable[str]:
    return entries


def _members(group: ToolGroup, tools: Sequence[ToolFacts], found: re.Match[str]) -> Iterable[str]:
    return (tool.name for tool in tools if group.meets(tool, found))


def _narrowed(mentions: Sequence[Mention], sentence: str) -> list[Mention]:
    """Return the mentions, with a group and the company beside it as one: "open-weight models by Meta"."""
    narrowed: list[Mention] = []
    for mention in mentions:
        last = narrowed[-1] if narrowed else None
        beside = last is not None and not sentence[last.end : mention.start].strip()
        if last is not None and beside and {last.kind, mention.kind} == {"group", "owner"}:
            words = sentence[last.start : mention.end]
            narrowed[-1] = Mention(last.start, mention.end, last.entries & mention.entries, words, "group")
        else:
            narrowed.append(mention)
    return narrowed
