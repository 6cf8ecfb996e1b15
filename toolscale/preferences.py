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
from typing import Literal

import msgspec

from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.jsonl import read_jsonl
from toolorchestra.toolscale.preference_groups import GROUPS, ORIGIN_GROUPS, ToolFacts, owner_phrases
from toolorchestra.toolscale.preference_words import COMPONENTS, meaning
from toolorchestra.toolscale.yaml_reader import parse_yaml

MAX_CHARACTERS = 2_000
"""Characters of an instruction."""
EVAL_SHARE = 5
"""One set of rewarded entries in this many is kept for evaluation."""


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


_MIDDLE = 0.5


def check_pair(pair: PreferencePair, tools: Sequence[ToolFacts]) -> list[str]:
    """Return what is wrong with a pair for a tool set; nothing if it is consistent.

    >>> facts = [ToolFacts("web_search", price=0.01), ToolFacts("notes")]
    >>> check_pair(PreferencePair("Be quick.", ("web_search", "notes"), (0, 0, 0, 0, 1)), facts)
    []
    >>> check_pair(PreferencePair("Be quick.", ("web_search", "notes"), (0, 0, 0, 1, 1)), facts)
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
    if len(pair.instruction) > MAX_CHARACTERS:
        return [f"expected an instruction of at most {MAX_CHARACTERS:,} characters, got {len(pair.instruction):,}"]
    (requested, aside, unknown), rewarded = meaning(pair.instruction, tools), pair.rewarded
    unnamed = [name for name in rewarded if name not in requested]
    unrewarded = [name for name in requested if name not in rewarded]
    faults = [f"the instruction speaks of what there is not. {sentence}" for sentence in unknown]
    says = {True: "sets aside", False: "does not name"}
    faults += [f"the vector rewards {name!r}, which the instruction {says[name in aside]}" for name in unnamed]
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
    phrases = [(phrase, group.members(phrase, tools)) for group in GROUPS if (phrase := group.phrase(tools))]
    origins = _origin_phrases(tools)
    phrases += origins
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
            what, shunned = rng.choice([found for found in origins if " rather than " not in found[0]])
            if not {name for entries, _, _ in wishes for name in entries} & {*shunned}:
                wishes.append(([], "plain", rng.choice(sentences.aside["tools"]).format(what=what)))
        rng.shuffle(wishes)
        weights: dict[str, float] = {}
        for entries, grade, _ in wishes:
            weights |= dict.fromkeys(entries, rng.choice(_WEIGHTS[grade]))
        vector = tuple(weights.get(name, 0.0) for name in (*names, *COMPONENTS))
        yield PreferencePair(" ".join(sentence for _, _, sentence in wishes), names, vector)


def _origin_phrases(tools: Sequence[ToolFacts]) -> list[tuple[str, list[str]]]:
    """Return words for what tools are and who made or runs them, and the tools that are meant, some but not all."""
    groups = [(phrase, group.opposite) for group in ORIGIN_GROUPS if (phrase := group.phrase(tools))]
    contrasts = [f"{phrase} rather than {other}" for phrase, other in groups if other]
    found = []
    for what in [*(phrase for phrase, _ in groups), *owner_phrases(tools), *contrasts]:
        requested, _, unknown = meaning(f"Prefer {what}.", tools)
        if not unknown and 0 < len(requested) < len(tools):
            found.append((what, list(requested)))
    return found


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
