r"""Composed problems: several links, of which each takes the integer that the one before it results in.

A link is a question about one integer with an integer as its answer. A chain of three to five of them ends in an answer
from 0 to 999, as those of the AIME do. No formula for one kind of problem gives it, since what a link is about is known
only when the links before it are solved. ``composed.yaml`` has the links and their wordings, none of which both splits
have; every chain of ``test`` has a link that ``train`` does not have.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.envs.sources.math.families import Sketch, Solved, WrittenProblem, WrittenStep
from toolorchestra.toolscale.common.yaml_reader import read_yaml

SPLITS = ("train", "test")
"""The splits that have composed problems."""
LEVELS = {4: (3,), 5: (4, 5)}
"""For each level the numbers of links."""
MAX_ANSWER = 999
_SUMMED = 0.5  # share of the hardest problems whose last link takes the sum of two results
_ATTEMPTS = 1_000
_SUM = WrittenStep("x", by="{first} + {x}")


class _Frame(msgspec.Struct, frozen=True):
    letters: tuple[tuple[str, ...], ...]
    define: tuple[str, ...]
    ask: tuple[str, ...]


class _Link(msgspec.Struct, frozen=True):
    input: tuple[int, int]
    steps: dict[str, Any]
    draw: dict[str, Any] = {}
    last: bool = False
    train: tuple[str, ...] = ()
    test: tuple[str, ...] = ()


class _Data(msgspec.Struct, frozen=True):
    frames: dict[str, _Frame]
    links: dict[str, _Link]


_DATA = msgspec.convert(read_yaml(Path(__file__).with_name("composed.yaml")), _Data)
LINKS = _DATA.links
"""All links by name."""
_PROBLEMS = {name: WrittenProblem(link.draw, link.steps) for name, link in LINKS.items()}
_Chain = Sequence[tuple[str, Mapping[str, Any]]]
"""Links and the numbers of each."""


def links_of(split: str) -> list[str]:
    """Return the links that a split has wordings for."""
    return [name for name, link in LINKS.items() if getattr(link, split)]


def compose(split: str, level: int, draw: random.Random) -> Sketch:
    """Return a composed problem of a split (of `SPLITS`) and a level (of `LEVELS`).

    Its ``given`` has the first input (``start``), the links in their order (``links``: each its name and its numbers)
    and whether the last link takes the sum of the first result and the one before it (``summed``).
    """
    known = links_of(split)
    new = set(known) - set(links_of("train"))
    for _ in range(_ATTEMPTS):
        names = draw.sample(known, draw.choice(LEVELS[level]))
        if not LINKS[names[-1]].last or (new and not new & set(names)):
            continue
        summed = level == max(LEVELS) and draw.random() < _SUMMED
        least, most = LINKS[names[0]].input
        start = draw.randint(max(100, least), min(3_000, most))
        chain = [(name, _PROBLEMS[name].draw(draw)) for name in names]
        found = _solve(start, chain, summed)
        if found and found[-1].answer <= MAX_ANSWER:
            given = {"start": start, "links": [[name, numbers] for name, numbers in chain], "summed": summed}
            return Sketch(_text(split, start, chain, summed, draw), given, found.copy)
    raise AssertionError(f"no chain of level {level} in {_ATTEMPTS} attempts")


def _solve(start: int, chain: _Chain, summed: bool) -> list[Solved]:
    """Return the steps of a chain, or none where a result is no input of the next link."""
    found: list[Solved] = []
    x: int = start
    first: int = 0
    at = dict[str, int]()
    for number, (name, numbers) in enumerate(chain):
        link, names = LINKS[name], {**numbers, "x": x, "first": first}
        if summed and number == len(chain) - 1:
            _SUM.solve(names, at, found)
        if not link.input[0] <= names["x"] <= link.input[1]:
            return []
        for step in _PROBLEMS[name].steps:
            step.solve(names, at, found)
        x = found[-1].answer
        first, first_at = (first, at["first"]) if number else (x, len(found) - 1)
        at = {"x": len(found) - 1, "first": first_at}
    return found


def _text(split: str, start: int, chain: _Chain, summed: bool, draw: random.Random) -> str:
    """Word a chain: each result but the last gets a letter, and the last one is asked for."""
    frame = _DATA.frames[split]
    letters = draw.choice(frame.letters)
    sentences: list[str] = []
    x = str(start)
    for number, (link, numbers) in enumerate(chain):
        last = number == len(chain) - 1
        if last and summed:
            x = f"({letters[0]} + {x})"
        what = draw.choice(getattr(LINKS[link], split)).format(x=x, **numbers)
        sentences.append(draw.choice(frame.ask if last else frame.define).format(name=letters[number], what=what))
        x = letters[number]
    return " ".join(sentences)
