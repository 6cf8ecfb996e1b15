"""Preference pairs: a user's preference in words and as the vector P (ToolOrchestra §3.4, App. F).

A pair belongs to a tool set. `propose` makes pairs of sentences whose part of the vector is known; `check_pair` checks
the vector and the length of the words. Not covered: whether words that others wrote mean their vector, which only a
judge can tell, and the reward itself (`toolorchestra.envs.rewards`).
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
from typing import Literal

import msgspec

from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.jsonl import read_jsonl
from toolorchestra.toolscale.common.yaml_reader import parse_yaml
from toolorchestra.toolscale.tools.tool import Tool, ToolOrigin

COMPONENTS = ("outcome", "compute", "latency")
"""The entries of P after the tools: being right, spending little, being quick."""
MAX_CHARACTERS = 2_000
"""Characters of an instruction."""
EVAL_SHARE = 5
"""One set of rewarded entries in this many is kept for evaluation."""


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
        seed: Seed of the pairs made from templates.
        proposals: Pairs to choose from; by default those that `propose` makes.
        judge: A further validator (an LLM, for example), which sees only pairs without faults.

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


def check_pair(pair: PreferencePair, tools: Sequence[ToolFacts]) -> list[str]:
    """Return what is wrong with a pair for a tool set; nothing if it can be used.

    >>> facts = [ToolFacts("web_search", price=0.01), ToolFacts("notes")]
    >>> check_pair(PreferencePair("Be quick.", ("web_search", "notes"), (0, 0, 0, 0, 1)), facts)
    []
    >>> check_pair(PreferencePair("Be quick.", ("web_search", "notes"), (0, 0, 0, 0, 2)), facts)
    ['expected weights in [0, 1], got 2']
    """
    names = tuple(tool.name for tool in tools)
    if pair.tools != names:
        return [f"expected the tools {', '.join(names)} in this order, got {', '.join(pair.tools) or 'none'}"]
    if len(pair.vector) != (size := len(names) + len(COMPONENTS)):
        entries = f"one for each tool, then {', '.join(COMPONENTS)}"
        return [f"expected {size} weights ({entries}), got {len(pair.vector)}"]
    faults = [f"expected weights in [0, 1], got {weight}" for weight in pair.vector if not 0 <= weight <= 1][:1]
    if not faults and not pair.rewarded:
        faults.append("the vector rewards nothing")
    if not pair.instruction.strip():
        faults.append("the instruction is empty")
    if len(pair.instruction) > MAX_CHARACTERS:
        size = len(pair.instruction)
        faults.append(f"expected an instruction of at most {MAX_CHARACTERS:,} characters, got {size:,}")
    return faults


# ------------------------------------------------------------------------------------------- what tools have in common


class _Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words for the tools of which some facts hold, and for what they are preferred over."""

    phrase: str
    where: dict[str, str | bool]
    opposite: str = ""


_Meant = dict[str, list[str]]  # words for tools, and the names of the tools that are meant


def _facts(tool: ToolFacts) -> dict[str, str | bool]:
    """Return what groups may ask for of a tool."""
    origin = tool.origin
    return {
        "kind": origin.kind,
        "vendor": origin.vendor,
        "provider": origin.provider,
        "open": origin.self_hosted,
        "local": origin.provider == "local",
        "free": tool.price == 0,
        "writes": tool.writes,
    }


def _some(groups: Iterable[_Group], tools: Sequence[ToolFacts]) -> _Meant:
    """Return the words for the groups to which some of the tools belong, but not all."""
    members = {
        group.phrase: [tool.name for tool in tools if group.where.items() <= _facts(tool).items()] for group in groups
    }
    return {phrase: names for phrase, names in members.items() if 0 < len(names) < len(tools)}


def groups_by_use(tools: Sequence[ToolFacts]) -> _Meant:
    """Return words for tools that have a price, a duration or an effect in common.

    >>> groups_by_use([ToolFacts("web_search", price=0.01), ToolFacts("notes")])
    {'tools that cost nothing': ['notes']}
    """
    prices, latencies = sorted({tool.price for tool in tools}), sorted({tool.latency for tool in tools})
    free, *effects = _sentences().uses
    found = _some([free], tools)
    if len(prices) > 1 and prices[0] > 0:
        bound = math.ceil(prices[0] * 1e4) / 1e4  # as it is written: not below the price
        phrase = f"tools that cost at most ${bound:.4f} a call"
        found[phrase] = [tool.name for tool in tools if tool.price <= bound]
    if len(latencies) > 1:
        phrase = f"tools that answer within {latencies[0]:g} seconds"
        found[phrase] = [tool.name for tool in tools if tool.latency == latencies[0]]
    return found | _some(effects, tools)


def groups_by_origin(tools: Sequence[ToolFacts]) -> tuple[_Meant, _Meant]:
    """Return words for tools by what they are and who made or runs them; then contrasts, "… rather than …"."""
    models = [tool.origin for tool in tools if tool.origin.kind == "model"]
    spelled = {model.vendor.casefold(): model.vendor for model in models}
    makers = dict.fromkeys(model.vendor for model in models if model.vendor)
    hosts = dict.fromkeys(model.provider for model in models if model.provider != "local")
    owned = [_Group(f"models made by {name}", {"kind": "model", "vendor": name}) for name in makers]
    for name in hosts:
        words = f"models hosted by {spelled.get(name, name.capitalize())}"
        owned.append(_Group(words, {"kind": "model", "provider": name}))
    alone = _some((*_sentences().origins, *owned), tools)
    opposites = {one.phrase: one.opposite for one in _sentences().origins if one.opposite and one.phrase in alone}
    return alone, {f"{phrase} rather than {other}": alone[phrase] for phrase, other in opposites.items()}


# --------------------------------------------------------------------------------------------- pairs from templates

_WEIGHTS = {"strong": (1.0, 0.9, 0.8), "plain": (0.7, 0.6, 0.5), "weak": (0.3, 0.2, 0.1)}


class _Sentences(msgspec.Struct, frozen=True):
    """The content of ``preferences.yaml``."""

    components: dict[str, dict[str, list[str]]]
    tools: dict[str, list[str]]
    aside: dict[str, list[str]]
    uses: list[_Group]
    origins: list[_Group]


@functools.cache
def _sentences() -> _Sentences:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return msgspec.convert(parse_yaml(text), _Sentences)


def propose(tools: Sequence[ToolFacts], seed: int = 0, draws: int = 10_000) -> Iterator[PreferencePair]:
    """Yield pairs of templates: one to four wishes, in varied words and strength. Some may repeat earlier ones."""
    rng = random.Random(f"preferences:{seed}")
    sentences, grades = _sentences(), list(_WEIGHTS)
    names = tuple(tool.name for tool in tools)
    origins, contrasts = groups_by_origin(tools)
    phrases = [*groups_by_use(tools).items(), *origins.items(), *contrasts.items()]
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
                what, meant = rng.choice(phrases)
            else:
                meant = rng.sample(names, min(len(names), rng.choice((1, 1, 2, 3))))
                what = " and ".join([", ".join(meant[:-1]), meant[-1]] if len(meant) > 1 else meant)
            wishes.append((meant, grade, rng.choice(sentences.tools[grade]).format(what=what)))
        idle = [name for name in COMPONENTS if name not in components]
        if idle and rng.random() < 0.3:
            wishes.append(([], "plain", rng.choice(sentences.aside[rng.choice(idle)])))
        if origins and rng.random() < 0.3:
            what, shunned = rng.choice([*origins.items()])
            if not {name for entries, _, _ in wishes for name in entries} & {*shunned}:
                wishes.append(([], "plain", rng.choice(sentences.aside["tools"]).format(what=what)))
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
