"""Groups of tools that a preference may name: by price, speed and effect, and by what tools are and who runs them.

A group is words for the tools that meet a condition: local or hosted tools, models with open or closed weights, web
search or local search, models by who made them or who runs them (ToolOrchestra App. F). What a whole instruction means
is in `toolorchestra.toolscale.preference_words`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from toolorchestra.toolscale.tool import Tool, ToolOrigin
from toolorchestra.toolscale.typed_answers import SUBMIT


class ToolFacts(msgspec.Struct, frozen=True):
    """What a preference may refer to about a tool: US dollars and seconds of a typical call, what it does and is."""

    name: str
    price: float = 0.0
    latency: float = 0.0
    writes: bool = False
    description: str = ""
    origin: ToolOrigin = ToolOrigin()


def tool_facts(tools: Iterable[Tool]) -> list[ToolFacts]:
    """Return what preferences may refer to of `tools`."""
    return [
        ToolFacts(tool.name, tool.mean_price, tool.mean_latency, tool.effect == "write", tool.description, tool.origin)
        for tool in tools
        if tool.name != SUBMIT
    ]


# ---------------------------------------------------------------------------------------------------- groups of tools


class ToolGroup(NamedTuple):
    """Words for the tools that meet a condition.

    Attributes:
        pattern: The words.
        meets: Whether a tool is meant by words that were found.
        phrase: Gives words for a tool set; None where they say nothing, as when all tools or none are meant.
        opposite: Words for what is preferred over the group, or less; "" if there are none.
    """

    pattern: re.Pattern[str]
    meets: Callable[[ToolFacts, re.Match[str]], bool]
    phrase: Callable[[Sequence[ToolFacts]], str | None]
    opposite: str = ""

    def members(self, text: str, tools: Sequence[ToolFacts]) -> list[str]:
        """Return the names of the tools that a text means by such words."""
        return [tool.name for tool in tools if any(self.meets(tool, found) for found in self.pattern.finditer(text))]


def words_pattern(pattern: str) -> re.Pattern[str]:
    """Return a pattern that ignores case."""
    return re.compile(pattern, re.IGNORECASE)


def _cheapest(tools: Sequence[ToolFacts]) -> str | None:
    prices = sorted({tool.price for tool in tools})
    bound = math.ceil(prices[0] * 1e4) / 1e4  # as it is written: not below the price
    return f"tools that cost at most ${bound:.4f} a call" if len(prices) > 1 and prices[0] > 0 else None


def _quickest(tools: Sequence[ToolFacts]) -> str | None:
    latencies = sorted({tool.latency for tool in tools})
    return f"tools that answer within {latencies[0]:g} seconds" if len(latencies) > 1 else None


def _parting(pattern: str, phrase: str, meets: Callable[[ToolFacts], bool], opposite: str = "") -> ToolGroup:
    """Return a group whose phrase is used for tool sets of which some tools belong to it and some do not."""
    return ToolGroup(
        words_pattern(pattern),
        lambda tool, _: meets(tool),
        lambda tools: phrase if len(set(map(meets, tools))) == 2 else None,
        opposite,
    )


def _kind(kind: str, self_hosted: bool | None = None) -> Callable[[ToolFacts], bool]:
    return lambda tool: tool.origin.kind == kind and (self_hosted is None or tool.origin.self_hosted == self_hosted)


GROUPS = (
    _parting(
        r"tools? (?:that (?:is|are) free|that costs? nothing)|free tools?",
        "tools that cost nothing",
        lambda tool: tool.price == 0,
    ),
    ToolGroup(
        words_pattern(r"tools? that costs? at most \$(\d+(?:\.\d+)?) (?:a|per) call"),
        lambda tool, found: tool.price <= float(found[1]),
        _cheapest,
    ),
    ToolGroup(
        words_pattern(r"tools? that answers? within (\d+(?:\.\d+)?) seconds?"),
        lambda tool, found: tool.latency <= float(found[1]),
        _quickest,
    ),
    _parting(
        r"tools? that only reads?|read-only tools?|look-ups?", "tools that only read", lambda tool: not tool.writes
    ),
    _parting(r"tools? that changes? records?", "tools that change records", lambda tool: tool.writes),
)
"""Groups by price, speed and effect."""

MODELS = r"(?:(?:language )?models?|experts?|llms?)"
"""A pattern of words for models."""
_OWN = r"(?:my|our|your|its|their|one's)(?: own)? (?:machines?|servers?|computers?|hardware|gpus?|premises)"
ORIGIN_GROUPS = (
    _parting(
        rf"\b(?:open[- ]?(?:weights?|sourced?)|open|self-?hosted) {MODELS}|{MODELS} with open weights|"
        rf"{MODELS} (?:that |which )?(?:i|we) can (?:self-?)?(?:host|run)(?: (?:myself|ourselves|on {_OWN}))?",
        "open-weight models",
        _kind("model", self_hosted=True),
        "closed models",
    ),
    _parting(
        rf"\b(?:closed(?:-(?:weights?|source))?|proprietary) {MODELS}|{MODELS} with closed weights",
        "closed models",
        _kind("model", self_hosted=False),
        "open-weight models",
    ),
    _parting(
        r"\b(?:web|internet|online)(?:[- ]based)? (?:search(?:es|ing)?|search (?:engines?|tools?))\b|"
        r"\bsearch(?:es|ing)? (?:on |in |of )?the (?:web|internet)\b|\bthe (?:web|internet)\b",
        "web search",
        _kind("search", self_hosted=False),
        "local search",
    ),
    _parting(
        r"\blocal (?:search(?:es|ing)?|search (?:engines?|tools?)|retrieval|retrievers?|corpus|library|index)\b|"
        r"\bretrievers?\b|\bsearch(?:es|ing)? (?:the |in the |our )?local (?:library|corpus|passages|documents)\b",
        "local search",
        _kind("search", self_hosted=True),
        "web search",
    ),
    _parting(
        rf"\b(?:local|on-premises|in-house) {MODELS}|{MODELS} (?:that run |which run |running )?(?:locally|on {_OWN})|"
        rf"{MODELS} (?:that are |which are )?(?:hosted|run) by (?:us|me|ourselves|myself)\b",
        "local models",
        lambda tool: tool.origin.kind == "model" and tool.origin.provider == "local",
    ),
    _parting(
        rf"\b(?:local|on-premises|in-house) tools?|\beverything local\b|"
        rf"tools? (?:that run |which run |running )?(?:locally|on {_OWN})",
        "local tools",
        lambda tool: tool.origin.provider == "local",
        "hosted tools",
    ),
    _parting(
        r"\bhosted (?:tools?|services?)|tools? that (?:others|somebody else|someone else) (?:runs?|hosts?)",
        "hosted tools",
        lambda tool: tool.origin.provider != "local",
        "local tools",
    ),
    _parting(
        r"\b(?:external |third[- ]party |paid )?apis?(?: (?:calls?|calling|requests?|access))?\b|"
        r"\bcalls? (?:to|of) (?:external |third[- ]party )?apis?\b|\bthird[- ]party (?:tools?|services?)",
        "APIs",
        lambda tool: not tool.origin.self_hosted,
    ),
    _parting(
        rf"\bhosted {MODELS}",
        "hosted models",
        lambda tool: tool.origin.kind == "model" and tool.origin.provider != "local",
    ),
    _parting(r"\b(?:code|python) interpreters?\b", "the Python interpreter", _kind("interpreter")),
    _parting(rf"\b(?:all|any|other|the) {MODELS}|\blanguage models?|\bllms?\b", "language models", _kind("model")),
    _parting(r"\bsearch (?:tools?|engines?)\b|\bsearches\b", "search tools", _kind("search")),
)
"""Groups by what tools are, who made them and who runs them (ToolOrchestra App. F), the longer words first."""


def owner_phrases(tools: Sequence[ToolFacts]) -> list[str]:
    """Return "models made by …" and "models hosted by …" for each vendor and provider of some of the models."""
    models = [tool.origin for tool in tools if tool.origin.kind == "model"]
    spelled = {model.vendor.casefold(): model.vendor for model in models}
    hosts = [spelled.get(model.provider, model.provider.capitalize()) for model in models if model.provider != "local"]
    found = [("made", model.vendor) for model in models if model.vendor] + [("hosted", host) for host in hosts]
    return [f"models {how} by {name}" for how, name in dict.fromkeys(found)]
