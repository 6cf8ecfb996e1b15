"""Preference pairs: a user's preference in words and as the vector P (ToolOrchestra §3.4, App. F).

A pair belongs to a tool set. `propose` makes pairs by rule; `check_pair` checks the vector's length and range, that the
words name all that the vector rewards and nothing else, and that "above all" and "a little" agree with the weights.
Not covered: the reward itself (`toolorchestra.envs.rewards`), and words that only a model can judge.
"""

from __future__ import annotations

import functools
import hashlib
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.jsonl import read_jsonl
from toolorchestra.toolscale.tool import Tool
from toolorchestra.toolscale.yaml_reader import parse_yaml

COMPONENTS = ("outcome", "compute", "latency")
"""The entries of P after the tools: being right, spending little, being quick."""

EVAL_SHARE = 5
"""One set of rewarded entries in this many is kept for evaluation."""


class ToolFacts(msgspec.Struct, frozen=True):
    """What a preference may refer to about a tool: US dollars and seconds of a typical call, and what it does."""

    name: str
    price: float = 0.0
    latency: float = 0.0
    writes: bool = False
    description: str = ""


def tool_facts(tools: Iterable[Tool]) -> list[ToolFacts]:
    """Return what preferences may refer to of `tools`."""
    return [
        ToolFacts(tool.name, tool.mean_price, tool.mean_latency, tool.effect == "write", tool.description)
        for tool in tools
    ]


class PreferencePair(msgspec.Struct, frozen=True):
    """A preference instruction PI, appended to a task's, and its vector P of weights in [0, 1].

    P has a weight for each of `tools`, in their order, then for outcome, compute and latency. No set of rewarded
    entries is in both splits.
    """

    instruction: str
    tools: tuple[str, ...]
    vector: tuple[float, ...]
    split: Literal["train", "eval"] = "train"

    @property
    def rewarded(self) -> dict[str, float]:
        """The weights that are not 0, by the names of their entries."""
        return {name: weight for name, weight in zip((*self.tools, *COMPONENTS), self.vector, strict=True) if weight}


class PairReport(msgspec.Struct):
    """How many pairs were kept by split and dropped by reason, and why a validator did not run."""

    kept: Counter[str] = msgspec.field(default_factory=Counter)
    dropped: Counter[str] = msgspec.field(default_factory=Counter)
    not_run: dict[str, str] = {}


Judge = Callable[[PreferencePair], str | None]
"""A further validator: what is inconsistent about a pair, or None."""


def make_pairs(
    tools: Sequence[ToolFacts],
    count: int,
    *,
    seed: int = 0,
    proposals: Iterable[PreferencePair] | None = None,
    judge: Judge | None = None,
) -> tuple[list[PreferencePair], PairReport]:
    """Return up to `count` different, consistent pairs for a tool set, divided into train and eval.

    Args:
        tools: The tool set.
        count: Largest number of pairs.
        seed: Seed of the pairs made by rule.
        proposals: Pairs to choose from; by default those that `propose` makes.
        judge: A further validator (an LLM, for example), which sees only pairs that keep the rules.

    Raises:
        OptionError: There is no tool, or a count below 1.
    """
    if count < 1 or not tools:
        raise OptionError(f"Expected at least one tool and one pair to make, got {len(tools)} and {count}.")
    report = PairReport()
    if judge is None:
        report.not_run["llm"] = "no model was given (--llm)"
    kept: dict[tuple[float, ...], PreferencePair] = {}
    instructions: set[str] = set()
    for pair in propose(tools, seed, draws=40 * count) if proposals is None else proposals:
        if len(kept) == count:
            break
        faults = check_pair(pair, tools)
        if not faults and (pair.vector in kept or pair.instruction in instructions):
            faults = ["the vector or the instruction stands in an earlier pair"]
        if not faults and judge is not None and (objection := judge(pair)) is not None:
            faults = [f"judged inconsistent: {objection}"]
        if faults:
            report.dropped[re.sub(r"'[^']*'|\d[\d.]*", "…", faults[0])] += 1
            continue
        kept[pair.vector] = msgspec.structs.replace(pair, split=_split(pair))
        instructions.add(pair.instruction)
    report.kept.update(pair.split for pair in kept.values())
    return list(kept.values()), report


def _split(pair: PreferencePair) -> Literal["train", "eval"]:
    digest = hashlib.blake2b("\0".join(sorted(pair.rewarded)).encode(), digest_size=4).digest()
    return "eval" if digest[0] % EVAL_SHARE == 0 else "train"


# ------------------------------------------------------------------------------------------------ what words mean


class _Group(NamedTuple):
    """Words for the tools that meet a condition; `phrase` gives them for a tool set, or None where they say nothing."""

    pattern: re.Pattern[str]
    meets: Callable[[ToolFacts, re.Match[str]], bool]
    phrase: Callable[[Sequence[ToolFacts]], str | None]

    def members(self, text: str, tools: Sequence[ToolFacts]) -> list[str]:
        """Return the names of the tools that a text means by such words."""
        return [tool.name for tool in tools if any(self.meets(tool, found) for found in self.pattern.finditer(text))]


def _cheapest(tools: Sequence[ToolFacts]) -> str | None:
    prices = sorted({tool.price for tool in tools})
    bound = math.ceil(prices[0] * 1e4) / 1e4  # as it is written: not below the price
    return f"tools that cost at most ${bound:.4f} a call" if len(prices) > 1 and prices[0] > 0 else None


def _quickest(tools: Sequence[ToolFacts]) -> str | None:
    latencies = sorted({tool.latency for tool in tools})
    return f"tools that answer within {latencies[0]:g} seconds" if len(latencies) > 1 else None


def _parting(pattern: str, phrase: str, meets: Callable[[ToolFacts], bool]) -> _Group:
    """Return a group whose phrase is used for tool sets of which some tools belong to it and some do not."""
    return _Group(
        re.compile(pattern),
        lambda tool, _: meets(tool),
        lambda tools: phrase if len(set(map(meets, tools))) == 2 else None,
    )


_GROUPS = (
    _parting(
        r"tools? (?:that (?:is|are) free|that costs? nothing)|free tools?",
        "tools that cost nothing",
        lambda tool: tool.price == 0,
    ),
    _Group(
        re.compile(r"tools? that costs? at most \$(\d+(?:\.\d+)?) (?:a|per) call"),
        lambda tool, found: tool.price <= float(found[1]),
        _cheapest,
    ),
    _Group(
        re.compile(r"tools? that answers? within (\d+(?:\.\d+)?) seconds?"),
        lambda tool, found: tool.latency <= float(found[1]),
        _quickest,
    ),
    _parting(
        r"tools? that only reads?|read-only tools?|look-ups?", "tools that only read", lambda tool: not tool.writes
    ),
    _parting(r"tools? that changes? records?", "tools that change records", lambda tool: tool.writes),
)

_WORDS = {
    "outcome": re.compile(r"\b(?:right|correct\w*|accura\w+|quality|reliab\w+|mistakes?|errors?|solv\w+)\b"),
    "compute": re.compile(
        r"\b(?:cheap\w*|cost\w*|money|dollars?|budget\w*|spend\w*|spent|expens\w+|prices?|bills?)\b|\$"
    ),
    "latency": re.compile(
        r"\b(?:quick\w*|fast\w*|hurry|wait\w*|soon\w*|prompt\w*|seconds?|minutes?|time|slow\w*|latency|deadlines?|late)\b"
    ),
}

_SET_ASIDE = re.compile(
    r"\b(?:avoid\w*|without|rather than|instead of|stay away|leave out|not use|never use|other than|"
    r"(?:do|does|is|are) (?:not|no) (?:\w+ )?(?:matter|count|important|object|concern|issue)|no object|never mind|"
    r"regardless of|do not care|whatever it)\b"
)
_STRONG = re.compile(r"\b(?:above all|most of all|matters? most|as much as possible|first of all|whenever you can)\b")
_WEAK = re.compile(r"\b(?:a little|slightly|somewhat|if nothing speaks against it|would be nice)\b")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_MIDDLE = 0.5


def meaning(instruction: str, tools: Sequence[ToolFacts]) -> tuple[dict[str, str], set[str]]:
    """Return the entries of P that an instruction asks for, and those that it sets aside ("cost does not matter").

    The former are ``strong``, ``plain`` or ``weak``.

    >>> facts = [ToolFacts("search", price=0.01), ToolFacts("notes")]
    >>> requested, aside = meaning("Above all be quick. Use tools that cost nothing; avoid search.", facts)
    >>> requested, aside
    ({'latency': 'strong', 'notes': 'plain'}, {'search'})
    """
    requested: dict[str, str] = {}
    aside: set[str] = set()
    names = {tool.name: re.compile(rf"\b{re.escape(tool.name).replace('_', '[_ ]')}\b") for tool in tools}
    longest_first = sorted(names.items(), key=lambda item: -len(item[0]))
    for sentence in _SENTENCE.split(instruction.casefold()):
        entries: set[str] = set()
        rest = sentence
        for name, pattern in longest_first:
            rest, count = pattern.subn(" ", rest)
            entries |= {name} if count else set()
        for group in _GROUPS:
            entries.update(group.members(rest, tools))
            rest = group.pattern.sub(" ", rest)
        entries |= {name for name, pattern in _WORDS.items() if pattern.search(rest)}
        if _SET_ASIDE.search(rest):
            aside |= entries
            continue
        strong, weak = bool(_STRONG.search(rest)), bool(_WEAK.search(rest))
        grade = "plain" if strong == weak else "strong" if strong else "weak"  # which is which, words do not tell
        requested |= dict.fromkeys(entries, grade)
    for name in aside:
        requested.pop(name, None)
    return requested, aside


def check_pair(pair: PreferencePair, tools: Sequence[ToolFacts]) -> list[str]:
    """Return what is wrong with a pair for a tool set; nothing if it is consistent.

    >>> facts = [ToolFacts("search", price=0.01), ToolFacts("notes")]
    >>> check_pair(PreferencePair("Be quick.", ("search", "notes"), (0, 0, 0, 0, 1)), facts)
    []
    >>> check_pair(PreferencePair("Be quick.", ("search", "notes"), (0, 0, 0, 1, 1)), facts)
    ["the vector rewards 'compute', which the instruction does not name"]
    """
    names = tuple(tool.name for tool in tools)
    if pair.tools != names:
        return [f"expected the tools {', '.join(names)} in this order, got {', '.join(pair.tools) or 'none'}"]
    if len(pair.vector) != (size := len(names) + len(COMPONENTS)):
        entries = f"one for each tool, then {', '.join(COMPONENTS)}"
        return [f"expected {size} weights ({entries}), got {len(pair.vector)}"]
    if outside := [weight for weight in pair.vector if not (math.isfinite(weight) and 0 <= weight <= 1)]:
        return [f"expected weights in [0, 1], got {outside[0]}"]
    if not pair.rewarded:
        return ["the vector rewards nothing"]
    if not pair.instruction.strip():
        return ["the instruction is empty"]
    requested, rewarded = meaning(pair.instruction, tools)[0], pair.rewarded
    unnamed = [name for name in rewarded if name not in requested]
    unrewarded = [name for name in requested if name not in rewarded]
    faults = [f"the vector rewards {name!r}, which the instruction does not name" for name in unnamed]
    faults += [f"the instruction asks for {name!r}, which the vector does not reward" for name in unrewarded]
    for name, grade in requested.items():
        weight = rewarded.get(name)
        if weight is not None and ((grade == "strong" and weight < _MIDDLE) or (grade == "weak" and weight > _MIDDLE)):
            faults.append(f"the instruction's word for {name!r} is {grade}, its weight is {weight:g}")
    return faults


# -------------------------------------------------------------------------------------------------- pairs by rule

_WEIGHTS = {"strong": (1.0, 0.9, 0.8), "plain": (0.7, 0.6, 0.5), "weak": (0.3, 0.2, 0.1)}


class _Sentences(msgspec.Struct, frozen=True):
    """The content of ``preferences.yaml``."""

    components: dict[str, dict[str, list[str]]]
    tools: dict[str, list[str]]
    aside: dict[str, list[str]]


@functools.cache
def _sentences() -> _Sentences:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return msgspec.convert(parse_yaml(text), _Sentences)


def propose(tools: Sequence[ToolFacts], seed: int = 0, draws: int = 10_000) -> Iterator[PreferencePair]:
    """Yield pairs made by rule: one to four wishes, in varied words and strength. Some may repeat earlier ones."""
    rng = random.Random(f"preferences:{seed}")
    sentences, grades = _sentences(), list(_WEIGHTS)
    names = tuple(tool.name for tool in tools)
    phrases = [(group, phrase) for group in _GROUPS if (phrase := group.phrase(tools))]
    for _ in range(draws):
        wishes: list[tuple[Sequence[str], str, str]] = []  # entries, how much, in words
        components = rng.sample(COMPONENTS, rng.choice((0, 1, 1, 2, 2, 3)))
        for name in components:
            grade = rng.choice(grades)
            wishes.append(([name], grade, rng.choice(sentences.components[name][grade])))
        kind = rng.choice(("none", "named", "named", "group") if components else ("named", "group"))
        grade = rng.choice(grades)
        if kind != "none":
            if kind == "group" and phrases:
                group, what = rng.choice(phrases)
                meant = group.members(what, tools)
            else:
                meant = rng.sample(names, min(len(names), rng.choice((1, 1, 2, 3))))
                what = " and ".join([", ".join(meant[:-1]), meant[-1]] if len(meant) > 1 else meant)
            wishes.append((meant, grade, rng.choice(sentences.tools[grade]).format(what=what)))
        idle = [name for name in COMPONENTS if name not in components]
        if idle and rng.random() < 0.3:
            wishes.append(([], "plain", rng.choice(sentences.aside[rng.choice(idle)])))
        rng.shuffle(wishes)
        weights: dict[str, float] = {}
        for entries, grade, _ in wishes:
            weights |= dict.fromkeys(entries, rng.choice(_WEIGHTS[grade]))
        vector = tuple(weights.get(name, 0.0) for name in (*names, *COMPONENTS))
        yield PreferencePair(" ".join(sentence for _, _, sentence in wishes), names, vector)


# ---------------------------------------------------------------------------------------------------------- files


def read_pairs(file: Path) -> list[PreferencePair]:
    """Return the pairs of a JSONL file.

    Raises:
        OptionError: The file cannot be read, a line is not a pair, or there is none.
    """
    pairs = [pair for _, pair in read_jsonl(file, PreferencePair, "a preference pair")]
    if not pairs:
        raise OptionError(f"{file} holds no preference pair.")
    return pairs
