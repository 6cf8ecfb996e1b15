r"""Hostile answers and expressions: what would keep a careless grader or calculator busy, or make it raise.

`hostile_expressions` draws them without end, of all `EXPRESSION_KINDS`; all follows from the random generator.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

_PRIMES = (2, 3, 5, 7, 11, 13, 97, 7919, 99991, 9999999967, 99999999977, 2**61 - 1)
_LETTERS = ("x", "y", "a", "n", r"\pi", "π", "i", "e", "∞", r"\infty")
_CHARACTERS = "0123456789xyabi π∞\\{}[]()+-*/^!,.=|$%~&#_:;<>'\"½²³⁴٣५０−–·×÷√°€\n\t\x00\u202e\u0301é中"
_PIECES = (
    r"\boxed{", "}", "{", r"\frac", r"\sqrt", r"\sqrt[3]", r"\binom", r"\log_", r"\text{", "<answer>", "</answer>",
    "</think>", "The answer is ", "5", "7", " or ", " not ", "maybe ", "I do not know. ", "because ", "1e999", "!", "^",
    "(", ")", ", ", ". ", "\n", "**", "- ", "twenty-", "one ", "hundred ", "and ", "87 years ", "B. ", "Brenholm ", "=",
    "9" * 40, "1,234,", "$", r"\(", "|", "~", "²", "٣", "x", "so, ", "{,}", r"\{", r"\cup", r"\pm",
)  # fmt: skip
_LONG = 1_000_000
_GRAMMARS = 11  # expressions of the grammar for each text of every other kind


def hostile_expressions(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield a kind and a text, again and again.

    >>> kind, text = next(hostile_expressions(random.Random(0)))
    >>> kind in EXPRESSION_KINDS and isinstance(text, str)
    True
    """
    while True:
        for kind, draw in EXPRESSION_KINDS.items():
            for _ in range(_GRAMMARS if kind == "grammar" else 1):
                yield kind, draw(rng)


def long_answers(rng: random.Random) -> Iterator[str]:
    """Yield answers of a million characters: one piece or two, again and again, and an end of some more."""
    while True:
        piece = "".join(rng.choices(_PIECES, k=rng.randint(1, 2)))
        yield (piece * (_LONG // len(piece)))[: _LONG - 100] + _pieces(rng)[:100]


def _number(rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.5:
        return str(rng.randint(0, 30))
    if roll < 0.6:
        return str(rng.choice(_PRIMES))
    if roll < 0.7:
        return f"{rng.randint(0, 999)}.{rng.randint(0, 10**6)}"
    if roll < 0.8:
        return str(10 ** rng.randint(3, 18) + rng.randint(-3, 3))
    if roll < 0.97:
        return str(rng.randint(900, 2_000))
    return "".join(rng.choices("0123456789", k=rng.choice((20, 60, 200, 500))))


def _grammar(rng: random.Random, depth: int = 0) -> str:
    """Return an expression of the grammar that is read, with all that nests in all else."""
    if depth > rng.randint(0, 5):
        return _number(rng) if rng.random() < 0.75 else rng.choice(_LETTERS)

    def part() -> str:
        return _grammar(rng, depth + 1)

    return rng.choice(_FORMS)(part)


_FORMS: Sequence[Callable[[Callable[[], str]], str]] = (
    lambda part: f"{part()}+{part()}",
    lambda part: f"{part()}-{part()}",
    lambda part: f"({part()})*({part()})",
    lambda part: f"({part()})/({part()})",
    lambda part: rf"\frac{{{part()}}}{{{part()}}}",
    lambda part: f"({part()})^{{{part()}}}",
    lambda part: f"{part()}^{part()}",
    lambda part: f"({part()})!",
    lambda part: f"factorial({part()})",
    lambda part: rf"\sqrt{{{part()}}}",
    lambda part: f"sqrt({part()})",
    lambda part: rf"\sqrt[{part()}]{{{part()}}}",
    lambda part: rf"\frac{{1}}{{{part()}+\sqrt{{{part()}}}}}",
    lambda part: rf"\binom{{{part()}}}{{{part()}}}",
    lambda part: f"lcm({part()},{part()})",
    lambda part: f"gcd({part()},{part()})",
    lambda part: f"mod({part()},{part()})",
    lambda part: f"powmod({part()},{part()},{part()})",
    lambda part: rf"\log_{{{part()}}}({part()})",
    lambda part: f"|{part()}|",
    lambda part: rf"\{{{part()}, {part()}, {part()}\}}",
    lambda part: rf"{part()}\pm {part()}",
    lambda part: f"-({part()})",
)


def _tower(rng: random.Random) -> str:
    """Return powers, factorials, fractions or roots in one another, or a long chain of them."""
    base, levels = _number(rng), rng.randint(2, 120)
    match rng.randrange(6):
        case 0:
            return f"{base}^" * levels + base
        case 1:
            return f"{base}^{{" * levels + base + "}" * levels
        case 2:
            return f"({base}" * levels + ")!" * levels
        case 3:
            return r"\sqrt{" * levels + base + "}" * levels
        case 4:
            return rf"\frac{{1}}{{{base}+" * levels + base + "}" * levels
        case _:
            return f"{base}{'!' * levels}"


def _chain(rng: random.Random) -> str:
    """Return a long sum, product or quotient of one kind of factor."""
    factors: Sequence[Callable[[], str]] = (
        lambda: f"sqrt({rng.choice(_PRIMES)})",
        lambda: f"(1+sqrt({rng.choice(_PRIMES)}))",
        lambda: f"(1+sqrt({rng.randint(2, 60)})+sqrt({rng.randint(2, 60)})+sqrt({rng.randint(2, 60)}))",
        lambda: f"({'+'.join(rng.sample('abcdfghjklm', 6))})",
        lambda: f"1/{rng.randint(2, 99)}^{rng.randint(100, 9999)}",
        lambda: f"{rng.randint(900, 1000)}!",
        lambda: f"(x+{rng.randint(1, 99)}/{rng.randint(1, 99)})^{rng.randint(1, 40)}",
        lambda: _number(rng),
    )
    factor, sign = rng.choice(factors), rng.choice("+-*/,")
    return sign.join(factor() for _ in range(rng.randint(2, 60)))


def _garbage(rng: random.Random) -> str:
    return "".join(rng.choices(_CHARACTERS, k=rng.choice((3, 20, 100, 600))))


def _pieces(rng: random.Random) -> str:
    """Return pieces of answers, out of order."""
    return "".join(rng.choices(_PIECES, k=rng.choice((2, 5, 12, 60))))


def _repeated(rng: random.Random) -> str:
    """Return one piece or two, again and again, some thousand characters long."""
    return "".join(rng.choices(_PIECES, k=rng.randint(1, 2))) * rng.choice((10, 100, 500)) + _pieces(rng)


EXPRESSION_KINDS: dict[str, Callable[[random.Random], str]] = {
    "grammar": _grammar,
    "tower": _tower,
    "chain": _chain,
    "garbage": _garbage,
    "pieces": _pieces,
    "repeated": _repeated,
}
"""Kinds of texts, and how one is drawn."""
