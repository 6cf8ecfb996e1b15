"""Formulas: what the mathematical problems that are data compute with, in the notation of the calculator.

A formula has its names in braces, as a wording has them: ``binomial({n}, {k}) / 2^{n}``. So one text is computed here
and, filled in, is what the calculator is asked. Python's parser reads it, once, and its tree is walked: nothing is
evaluated that is not listed here. Not covered: expressions that an agent writes
(`toolorchestra.toolscale.answers.symbolic_reader`, which takes fifty times as long, too long for the steps of all
problems).
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from toolorchestra.toolscale.answers.symbolic import Value, root, symbol

Formula = Callable[[Mapping[str, Any]], Any]
"""A formula that was read: it takes the values of its names."""


def formula(text: str) -> Formula:
    r"""Return a formula, ready to be computed.

    Its value is an int where it is whole, a `Fraction` where it is rational, else a `Value` (or a text, a truth value).

    >>> formula("{a} * sqrt(12) / 4")({"a": 2})
    Value(\sqrt{3})

    Raises:
        SyntaxError: It is no formula.
    """
    whole = _read(ast.parse(text.replace("^", "**"), mode="eval").body)
    if "{" not in text:
        constant = _plain(whole({}))
        return lambda names: constant
    return lambda names: value if type(value := whole(names)) is int else _plain(value)


def _plain(value: Any) -> Any:
    if type(value) is Value:
        value = value if (number := value.rational) is None else number
    return value.numerator if type(value) is Fraction and value.denominator == 1 else value


def _read(node: ast.expr) -> Formula:
    match node:
        case ast.Set([ast.Name(name)]):
            return operator.itemgetter(name)
        case ast.Constant(value):
            return lambda names: value
        case ast.Name(name):
            letter = symbol(name)
            return lambda names: letter
        case ast.UnaryOp(ast.USub(), operand):
            inner = _read(operand)
            return lambda names: -inner(names)
        case ast.BinOp(left, kind, right):
            return _of_two(_OPERATORS[type(kind)], left, right)
        case ast.Compare(left, [kind], [right]):
            return _of_two(_COMPARISONS[type(kind)], left, right)
        case ast.Call(ast.Name(name), arguments):
            function, inputs = FUNCTIONS[name], [_read(argument) for argument in arguments]
            return lambda names: function(*[_plain(read(names)) for read in inputs])
    raise SyntaxError(f"{ast.unparse(node)!r} is not part of a formula.")


def _of_two(function: Callable[[Any, Any], Any], left: ast.expr, right: ast.expr) -> Formula:
    one, other = _read(left), _read(right)
    return lambda names: function(one(names), other(names))


def _quotient(top: Any, bottom: Any) -> Any:
    return Fraction(top, bottom) if type(top) is int and type(bottom) is int else top / bottom


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Pow: operator.pow,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}

# ------------------------------------------------------------------ functions that the calculator does not have


@functools.lru_cache(maxsize=4_096)
def factors(number: int) -> Mapping[int, int]:
    """Return the prime factors of a number and their exponents."""
    found, divisor = Counter[int](), 2
    while number > 1:
        if number % divisor:
            divisor += 1 if divisor * divisor <= number else number - divisor
        else:
            found[divisor] += 1
            number //= divisor
    return found


def factorisation(number: int) -> str:
    r"""Return a number as a product of primes, in LaTeX.

    >>> factorisation(56)
    '2^{3} \\cdot 7'
    """
    return r" \cdot ".join(
        f"{prime}^{{{power}}}" if power > 1 else f"{prime}" for prime, power in factors(number).items()
    )


def _order(base: int, modulus: int) -> int:
    return next(k for k in range(1, modulus) if pow(base, k, modulus) == 1)


def _ones(modulus: int) -> int:
    """Return how many ones the shortest number made of ones has that a number divides."""
    return next(k for k in itertools.count(1) if (10**k - 1) // 9 % modulus == 0)


def _derangements(number: int) -> int:
    return number * _derangements(number - 1) + (-1) ** number if number else 1


def _powers(most: int, base: int) -> list[int]:
    return list(itertools.takewhile(lambda power: power <= most, (base**i for i in itertools.count(1))))


def _digits(number: int, base: int) -> list[int]:
    return [int(digit, base) for digit in np.base_repr(number, base)]


def _product(terms: Iterable[str]) -> str:
    return " * ".join(terms) or "1"


FUNCTIONS: dict[str, Callable[..., Any]] = {
    # as the calculator has them
    "sqrt": root,
    "abs": abs,
    "floor": math.floor,
    "factorial": math.factorial,
    "gcd": math.gcd,
    "lcm": math.lcm,
    "mod": operator.mod,
    "binomial": math.comb,
    "powmod": pow,
    # numbers
    "max": max,
    "isqrt": math.isqrt,
    "order": _order,
    "inverse": lambda number, modulus: pow(number, -1, modulus),
    "ones": _ones,
    "digit_total": lambda number: sum(map(int, str(number))),
    "derangements": _derangements,
    "divisors": lambda n: math.prod(power + 1 for power in factors(n).values()),
    "coprimes": lambda n: math.prod(prime ** (power - 1) * (prime - 1) for prime, power in factors(n).items()),
    "divisor_total": lambda n: math.prod((p ** (power + 1) - 1) // (p - 1) for p, power in factors(n).items()),
    "exponent": lambda n, p: sum(n // power for power in _powers(n, p)),
    # texts
    "factorisation": factorisation,
    "numeral": np.base_repr,
    "signed": lambda number: f"{'-' if number < 0 else '+'} {abs(number)}",
    # texts of what a calculator is asked
    "divisor_terms": lambda n: _product(f"({power} + 1)" for power in factors(n).values()),
    "coprime_terms": lambda n: f"{n} * " + _product(f"(1 - 1/{prime})" for prime in factors(n)),
    "divisor_total_terms": lambda n: _product(f"(({p}^{power + 1} - 1)/({p} - 1))" for p, power in factors(n).items()),
    "exponent_terms": lambda n, p: " + ".join(f"floor({n}/{power})" for power in _powers(n, p)),
    "digit_squares": lambda number: " + ".join(f"{digit}^2" for digit in str(number)),
    "digit_terms": lambda number, base: " + ".join(map(str, _digits(number, base))),
    "place_values": lambda x, base: " + ".join(f"{digit}*{base}^{i}" for i, digit in enumerate(reversed(x))),
    "letter_orders": lambda word: f"factorial({len(word)})",
    "repeats": lambda word: _product(f"factorial({times})" for times in Counter(word).values() if times > 1),
}
"""What a formula may call."""
