"""Composed problems: answers computed again by brute force, wordings apart by split, and no formula for one link."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import sympy
from sympy.functions.combinatorial.numbers import divisor_sigma

from toolorchestra.envs.sources.math.composed import LEVELS, LINKS, SPLITS, compose, links_of
from toolorchestra.envs.sources.math.families import FAMILIES, Sketch
from toolorchestra.envs.sources.math.source import make_problems
from toolorchestra.toolscale.answers.symbolic_reader import read


def _other_base(x: int, k: int, b: int) -> int:
    return sum(k * x // b**i % b for i in range(40))


SOLVERS: dict[str, Callable[..., int]] = {
    "divisors": lambda x: int(sympy.divisor_count(x)),
    "totient": lambda x: sum(math.gcd(x, y) == 1 for y in range(1, x + 1)),
    "divisor_total": lambda x: int(divisor_sigma(x)),
    "power": lambda x, g, m: g**x % m if x < 5_000 else pow(g, x, m),
    "digit_squares": lambda x, k: sum(int(digit) ** 2 for digit in str(k * x)),
    "either_multiple": lambda x, k, p, q: sum((y % p == 0) != (y % q == 0) for y in range(1, k * x + 1)),
    "subsets": lambda x, k, r, m: math.prod(range(x + k - r + 1, x + k + 1)) // math.factorial(r) % m,
    "factorial_exponent": lambda x, k, p: int(sympy.multiplicity(p, math.factorial(x + k))),
    "quadratic": lambda x, k, m: x * (x + k) % m,
    "inverse": lambda x, g, m: next(z for z in range(1, m + 1) if (g * z - x) % m == 0),
    "two_remainders": lambda x, m, r, n, s: next(y for y in range(x + 1, x + m * n + 1) if (y % m, y % n) == (r, s)),
    "ones": lambda x, m: sum(pow(10, i, m) for i in range(x)) % m,
    "other_base": _other_base,
    "diamond": lambda x, m: sum(2 * (x - abs(y)) + 1 for y in range(-x, x + 1)) % m,
}


def _solve(given: dict[str, Any]) -> int:
    x, first = given["start"], 0
    for number, (name, numbers) in enumerate(given["links"]):
        if given["summed"] and number == len(given["links"]) - 1:
            x += first
        x = SOLVERS[name](x, **numbers)
        first = first if number else x
    return x


def _draw(split: str, count: int) -> list[Sketch]:
    draw = random.Random(f"tests:{split}")
    return [compose(split, 4 + number % 2, draw) for number in range(count)]


@pytest.fixture(scope="module")
def sketches() -> dict[str, list[Sketch]]:
    """Two thousand composed problems of each split."""
    return {split: _draw(split, 2_000) for split in SPLITS}


def _templates(text: str) -> set[str]:
    """Return the sentences of a problem without its numbers and letters."""
    plain = re.sub(r"\b[A-Za-z]\b|\d+", "#", text)
    return set(re.split(r"(?<=[.?]) ", plain))


def test_the_answers_come_out_again_by_brute_force_and_are_integers_from_0_to_999(sketches: dict[str, list[Sketch]]):
    assert set(SOLVERS) == set(LINKS)
    for split in SPLITS:
        for sketch in sketches[split][:400]:
            answer = int(sketch.parts()[-1].answer)
            assert answer == _solve(sketch.given), sketch.statement
        assert all(0 <= int(sketch.parts()[-1].answer) <= 999 for sketch in sketches[split])
        commonest = Counter(sketch.parts()[-1].answer for sketch in sketches[split]).most_common(1)
        assert commonest[0][1] < 0.02 * len(sketches[split])  # no answer is worth a guess


def test_every_step_is_computed_and_needs_earlier_ones(sketches: dict[str, list[Sketch]]):
    for sketch in sketches["train"][:150] + sketches["test"][:150]:
        parts = sketch.parts()
        for position, (part, by) in enumerate(zip(parts, sketch.expressions, strict=True)):
            assert all(0 <= needed < position for needed in part.needs)
            assert part.answer not in part.wrong
            assert not by or read(by) == read(part.answer), (part.question, by)
        used = {needed for part in parts for needed in part.needs}
        assert used == set(range(len(parts) - 1)), sketch.statement  # every result is the input of another


def test_no_wording_of_test_occurs_in_train(sketches: dict[str, list[Sketch]]):
    found = {split: set().union(*(_templates(s.statement) for s in sketches[split])) for split in SPLITS}
    assert min(map(len, found.values())) > 60
    assert not found["train"] & found["test"]
    phrases = {
        split: {re.sub(r"\{\w+\}", "#", text) for link in LINKS.values() for text in getattr(link, split)}
        for split in SPLITS
    }
    assert not phrases["train"] & phrases["test"]
    assert not found["test"] & set().union(*(_templates(w) for f in FAMILIES.values() for w in f.wordings))


def test_every_chain_of_test_has_a_link_that_is_never_trained_on(sketches: dict[str, list[Sketch]]):
    trained = set(links_of("train"))
    assert {name for sketch in sketches["train"] for name, _ in sketch.given["links"]} == trained
    assert all({name for name, _ in sketch.given["links"]} - trained for sketch in sketches["test"])
    assert len(LINKS) - len(trained) >= 4


def test_a_formula_for_one_link_does_not_give_the_answer(sketches: dict[str, list[Sketch]]):
    """What reads one link of the text and applies its formula to the numbers given is right by chance alone."""
    right, skipped = Counter[str](), 0
    chosen = sketches["train"][:300] + sketches["test"][:300]
    for sketch in chosen:
        answer, start = int(sketch.parts()[-1].answer), sketch.given["start"]
        links = sketch.given["links"]
        right["first"] += SOLVERS[links[0][0]](start, **links[0][1]) == answer
        right["last"] += SOLVERS[links[-1][0]](start, **links[-1][1]) == answer
        skipped += _solve({**sketch.given, "links": links[1:]}) == answer
    assert max(right.values()) <= 0.02 * len(chosen), right
    assert skipped <= 0.08 * len(chosen)  # all links but the first: small remainders meet now and then


@pytest.mark.parametrize("split", SPLITS)
def test_half_of_the_hard_problems_are_composed(split: str):
    tasks = make_problems(split, 200)
    made = Counter(task.difficulty for task in tasks if task.intent == "composed")
    levels = Counter(task.difficulty for task in tasks)
    assert {level: levels[level] // 2 for level in LEVELS} == made
    assert len({task.instruction for task in tasks}) == len(tasks)
