r"""Composed problems: several links, of which each takes the integer that the one before it results in.

A link is a question about one integer with an integer as its answer. A chain of three to five of them ends in an answer
from 0 to 999, as those of the AIME do. No formula for one kind of problem gives it, since what a link is about is known
only when the links before it are solved. ``composed.yaml`` has the wordings, none of which both splits have; every
chain of ``test`` has a link that ``train`` does not have.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from toolorchestra.envs.sources.math.factorisation import factors, product
from toolorchestra.envs.sources.math.sketch import Family, Sketch
from toolorchestra.toolscale.common.yaml_reader import read_yaml

SPLITS = ("train", "test")
"""The splits that have composed problems."""
LEVELS = {4: (3,), 5: (4, 5)}
"""For each level the numbers of links."""
MAX_ANSWER = 999
_MODULI = (337, 401, 503, 613, 701, 797, 809, 877, 907, 953, 967, 983, 991, 997)
_SUMMED = 0.5  # share of the hardest problems whose last link takes the sum of two results
_ATTEMPTS = 1_000


class _Frame(msgspec.Struct, frozen=True):
    letters: tuple[tuple[str, ...], ...]
    define: tuple[str, ...]
    ask: tuple[str, ...]


class _Words(msgspec.Struct, frozen=True):
    frames: dict[str, _Frame]
    links: dict[str, dict[str, tuple[str, ...]]]


WORDS = msgspec.convert(read_yaml(Path(__file__).with_name("composed.yaml")), _Words)
"""The wordings."""

COMPOSED = Family("composed", lambda *_: None, "number theory", tuple(LEVELS), "{text}")
"""The family of all composed problems."""
Solve = Callable[[Sketch, int, Mapping[str, int]], int]
Numbers = Callable[[random.Random], dict[str, int]]


class Link(NamedTuple):
    """A question about an integer.

    Attributes:
        name: As in ``composed.yaml``.
        solve: Adds its steps to a sketch, given the input and its own numbers, and returns its result. Its first step
            needs the step before it.
        least: The smallest input that it takes.
        most: The largest.
        numbers: Draws its own numbers.
        last: Whether a chain may end with it: its results are many and at most 999.
    """

    name: str
    solve: Solve
    least: int
    most: int
    numbers: Numbers
    last: bool = False


LINKS: dict[str, Link] = {}
"""All links by name."""


def _link(least: int, most: int, numbers: Numbers = lambda draw: {}, *, last: bool = False) -> Callable[[Solve], Solve]:
    def register(solve: Solve) -> Solve:
        name = solve.__name__.removeprefix("_")
        LINKS[name] = Link(name, solve, least, most, numbers, last)
        return solve

    return register


def _power_numbers(draw: random.Random) -> dict[str, int]:
    return {"g": draw.randint(2, 19), "m": draw.choice(_MODULI)}


def _factors(sketch: Sketch, x: int) -> tuple[dict[int, int], int]:
    found = factors(x)
    return found, sketch.step(f"What is the prime factorisation of {x}?", product(found))


@_link(24, 60_000)
def _divisors(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    found, _ = _factors(sketch, x)
    count, by = math.prod(power + 1 for power in found.values()), " * ".join(f"({n} + 1)" for n in found.values())
    sketch.step(f"How many positive divisors does {product(found)} have?", count, by=by)
    return count


@_link(20, 3_000)
def _totient(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    found, _ = _factors(sketch, x)
    count: int = math.prod(prime ** (power - 1) * (prime - 1) for prime, power in found.items())
    by = f"{x} * " + " * ".join(f"(1 - 1/{prime})" for prime in found)
    sketch.step(f"What is {x} times (1 - 1/p) for each of its primes p?", count, by=by, wrong=(x - count,))
    return count


@_link(12, 3_000)
def _divisor_total(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    found, _ = _factors(sketch, x)
    total: int = math.prod(sum(prime**i for i in range(power + 1)) for prime, power in found.items())
    by = " * ".join(f"(({prime}^{power + 1} - 1)/({prime} - 1))" for prime, power in found.items())
    sketch.step(f"What do the positive divisors of {product(found)} add up to?", total, by=by, wrong=(total - x,))
    return total


@_link(5, 100_000, _power_numbers, last=True)
def _power(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    base, m = g["g"], g["m"]
    sketch.calculate(f"mod({x}, {m - 1})", x % (m - 1))
    rest = pow(base, x, m)
    sketch.step(f"What is {base}^{x % (m - 1)} modulo {m}?", rest, by=f"powmod({base}, {x % (m - 1)}, {m})")
    return rest


@_link(3, 5_000, lambda draw: {"k": draw.randint(23, 997)})
def _digit_squares(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    number = g["k"] * x
    sketch.calculate(f"{g['k']} * {x}", number)
    total = sum(int(digit) ** 2 for digit in str(number))
    by = " + ".join(f"{digit}^2" for digit in str(number))
    sketch.step(f"What is the sum of the squares of the digits of {number}?", total, by=by)
    return total


def _two_divisors(draw: random.Random) -> dict[str, int]:
    p, q = sorted(draw.sample((3, 4, 5, 6, 7, 8, 9, 10, 11), 2))
    return {"k": draw.randint(2, 9), "p": p, "q": q}


@_link(12, 2_000, _two_divisors)
def _either_multiple(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    top, p, q = g["k"] * x, g["p"], g["q"]
    sketch.calculate(f"{g['k']} * {x}", top)
    both = math.lcm(p, q)
    count = top // p + top // q - 2 * (top // both)
    by = f"floor({top}/{p}) + floor({top}/{q}) - 2*floor({top}/{both})"
    question = f"How many of 1 to {top} are divisible by exactly one of {p} and {q}?"
    sketch.step(question, count, by=by, wrong=(count + top // both,))
    return count


@_link(4, 600, lambda draw: {"k": draw.randint(3, 30), "r": draw.randint(3, 5), "m": draw.choice(_MODULI)}, last=True)
def _subsets(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    n, r, m = x + g["k"], g["r"], g["m"]
    sketch.calculate(f"{x} + {g['k']}", n)
    whole = math.comb(n, r)
    sketch.step(f"How many {r}-element subsets does a set with {n} elements have?", whole, by=f"binomial({n}, {r})")
    sketch.step(f"What is {whole} modulo {m}?", whole % m, by=f"mod({whole}, {m})")
    return whole % m


@_link(20, 3_000, lambda draw: {"k": draw.randint(3, 90), "p": draw.choice((2, 3, 5, 7))})
def _factorial_exponent(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    n, p = x + g["k"], g["p"]
    sketch.calculate(f"{x} + {g['k']}", n)
    powers = [p**i for i in range(1, 20) if p**i <= n]
    exponent: int = sum(n // power for power in powers)
    by = " + ".join(f"floor({n}/{power})" for power in powers)
    sketch.step(f"What is the exponent of {p} in {n}!?", exponent, by=by, wrong=(n // p,))
    return exponent


@_link(8, 50_000, lambda draw: {"k": draw.randint(2, 60), "m": draw.choice(_MODULI)}, last=True)
def _quadratic(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    k, m = g["k"], g["m"]
    value = x * x + k * x
    sketch.calculate(f"{x}^2 + {k}*{x}", value)
    sketch.step(f"What is {value} modulo {m}?", value % m, by=f"mod({value}, {m})")
    return value % m


@_link(3, 50_000, lambda draw: {"g": draw.randint(11, 300), "m": draw.choice(_MODULI)}, last=True)
def _inverse(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    a, m = g["g"], g["m"]
    inverse = pow(a, -1, m)
    least = x * inverse % m or m
    position = sketch.step(f"What is {x} modulo {m}?", x % m, by=f"mod({x}, {m})")
    other = sketch.first(f"What is the inverse of {a} modulo {m}?", inverse, by=f"powmod({a}, {m - 2}, {m})")
    question = f"Which z from 1 to {m} is {x % m} * {inverse} modulo {m}?"
    sketch.step(question, least, position, other, by=f"mod({x % m} * {inverse} - 1, {m}) + 1")
    return least


def _remainders(draw: random.Random) -> dict[str, int]:
    m, n = draw.sample((5, 7, 8, 9, 11, 13, 17), 2)
    return {"m": m, "r": draw.randrange(m), "n": n, "s": draw.randrange(n)}


@_link(5, 800, _remainders, last=True)
def _two_remainders(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    m, n = g["m"], g["n"]
    first = next(y for y in range(x + 1, x + m + 1) if y % m == g["r"])
    question = f"What is the smallest integer above {x} with the remainder {g['r']} modulo {m}?"
    sketch.step(question, first, by=f"{x} + 1 + mod({g['r']} - {x} - 1, {m})")
    inverse = pow(m, -1, n)
    times = (g["s"] - first) * inverse % n
    question = f"Which t from 0 to {n - 1} makes {first} + {m}t leave remainder {g['s']} modulo {n}?"
    sketch.step(question, times, by=f"mod(({g['s']} - {first}) * {inverse}, {n})")
    last = len(sketch.expressions) - 1
    sketch.calculate(f"{first} + {m} * {times}", first + m * times, last - 1, last)
    return first + m * times


@_link(8, 100_000, lambda draw: {"m": draw.choice(_MODULI)}, last=True)
def _ones(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    m = g["m"]
    power = pow(10, x, 9 * m)
    sketch.step(f"What is 10^{x} modulo {9 * m}?", power, by=f"powmod(10, {x}, {9 * m})")
    rest = (power - 1) // 9 % m
    sketch.step(
        f"What is (10^{x} - 1)/9 modulo {m}, where 10^{x} is {power} modulo {9 * m}?", rest, by=f"({power} - 1)/9"
    )
    return rest


@_link(8, 5_000, lambda draw: {"k": draw.randint(23, 997), "b": draw.choice((3, 5, 7, 11, 13))})
def _other_base(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    number, b = g["k"] * x, g["b"]
    sketch.calculate(f"{g['k']} * {x}", number)
    digits, left = list[int](), number
    while left:
        left, digit = divmod(left, b)
        digits.insert(0, digit)
    question = f"What is the sum of the digits of {number} in base {b}?"
    sketch.step(question, sum(digits), by=" + ".join(map(str, digits)))
    return sum(digits)


@_link(6, 20_000, lambda draw: {"m": draw.choice(_MODULI)}, last=True)
def _diamond(sketch: Sketch, x: int, g: Mapping[str, int]) -> int:
    whole, m = 2 * x * x + 2 * x + 1, g["m"]
    question = f"How many integer points (y, z) have |y| + |z| at most {x}?"
    sketch.step(question, whole, by=f"2*{x}^2 + 2*{x} + 1", wrong=(whole - 1,))
    sketch.step(f"What is {whole} modulo {m}?", whole % m, by=f"mod({whole}, {m})")
    return whole % m


def links_of(split: str) -> list[Link]:
    """Return the links that a split has wordings for."""
    return [LINKS[name] for name, words in WORDS.links.items() if split in words]


def compose(split: str, level: int, draw: random.Random) -> Sketch:
    """Return a composed problem of a split (of `SPLITS`) and a level (of `LEVELS`).

    Its ``given`` has the first input (``start``), the links in their order (``links``: each its name and its numbers)
    and whether the last link takes the sum of the first result and the one before it (``summed``).
    """
    known = links_of(split)
    new = [link for link in known if "train" not in WORDS.links[link.name]]
    for _ in range(_ATTEMPTS):
        links = draw.sample(known, draw.choice(LEVELS[level]))
        if not links[-1].last or (new and not set(links) & set(new)):
            continue
        summed = level == max(LEVELS) and draw.random() < _SUMMED
        start = draw.randint(max(100, links[0].least), min(3_000, links[0].most))
        chain = [(link, link.numbers(draw)) for link in links]
        sketch = Sketch(COMPOSED, draw)
        if (answer := _solve(sketch, start, chain, summed)) is None or answer > MAX_ANSWER:
            continue
        given = [[link.name, numbers] for link, numbers in chain]
        sketch.ask({"text": _text(split, start, chain, summed, draw)}, start=start, links=given, summed=summed)
        return sketch
    raise AssertionError(f"no chain of level {level} in {_ATTEMPTS} attempts")


def _solve(sketch: Sketch, start: int, chain: Sequence[tuple[Link, dict[str, int]]], summed: bool) -> int | None:
    """Add the steps of a chain and return its answer, or None where a result is no input of the next link."""
    x, first, first_at = start, 0, 0
    for number, (link, numbers) in enumerate(chain):
        if summed and number == len(chain) - 1:
            before = len(sketch.expressions) - 1
            sketch.calculate(f"{first} + {x}", first + x, first_at, before)
            x += first
        if not link.least <= x <= link.most:
            return None
        x = link.solve(sketch, x, numbers)
        if number == 0:
            first, first_at = x, len(sketch.expressions) - 1
    return x


def _text(
    split: str, start: int, chain: Sequence[tuple[Link, dict[str, int]]], summed: bool, draw: random.Random
) -> str:
    """Word a chain: each result but the last gets a letter, and the last one is asked for."""
    frame = WORDS.frames[split]
    letters = draw.choice(frame.letters)
    sentences: list[str] = []
    x = str(start)
    for number, (link, numbers) in enumerate(chain):
        last = number == len(chain) - 1
        if last and summed:
            x = f"({letters[0]} + {x})"
        what = draw.choice(WORDS.links[link.name][split]).format(x=x, **numbers)
        sentences.append(draw.choice(frame.ask if last else frame.define).format(name=letters[number], what=what))
        x = letters[number]
    return " ".join(sentences)


def sprinkle(tasks: Sequence[Any], make: Callable[[Sketch, int, int], Any], split: str, seed: int) -> list[Any]:
    """Return tasks with every other one of each level of `LEVELS` replaced by a composed problem.

    The composed problems have a random stream of their own, so that the other tasks stay as they are.

    Args:
        tasks: Tasks of a split.
        make: Makes a task of a sketch, its level and its position.
        split: The split.
        seed: Its seed.
    """
    draw = random.Random(f"composed:{seed}:{split}")
    found, seen, turns = list(tasks), set[str](), dict.fromkeys(LEVELS, 0)
    for position, task in enumerate(tasks):
        level = task.difficulty
        if level not in LEVELS:
            continue
        turns[level] += 1
        if turns[level] % 2:
            continue
        sketch = compose(split, level, draw)
        while sketch.statement in seen:
            sketch = compose(split, level, draw)
        seen.add(sketch.statement)
        found[position] = make(sketch, level, position)
    return found
