r"""Symbolic values: numbers and expressions, computed and shown without rounding.

A `Value` is a sum of rational multiples of square roots, π and symbols: integers, fractions, radicals, polynomials. The
calculator computes with them and the problems of `Math` have them as answers, so that ``3/6`` is shown as
``\frac{1}{2}`` and ``sqrt(12)`` as ``2\sqrt{3}``. Values that would grow too large are refused, so that each operation
takes milliseconds at most, and what is too large to be written is never written.

Not covered: division by sums with symbols or of more than two roots, transcendental functions, roots of roots.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

MAX_BITS = 20_000
"""Binary digits of a number, and the largest exponent of one."""
MAX_DIGITS = 4_000
"""Decimal digits that are written (Python refuses more than 4,300)."""
_MAX_BITS_IN_SUM = 600
_MAX_TERMS = 50
_MAX_EXPONENT = 30  # of a sum
_MAX_RADICAND = 10**10
_BITS_PER_DIGIT = 3.32
_SMALL_PRIMES = tuple(p for p in range(2, 2_160) if all(p % q for q in range(2, math.isqrt(p) + 1)))

Monomial: TypeAlias = tuple[int, tuple[tuple[str, int], ...]]
"""A square root (of a squarefree number) times powers of symbols."""
Sum: TypeAlias = dict[Monomial, Fraction]

_ONE: Monomial = (1, ())


class UnreadableError(ValueError):
    """A text is not a value of this module, or one that is too large."""


def checked(number: int | Fraction, bits: int = MAX_BITS) -> int | Fraction:
    """Return a number that has at most so many binary digits, or raise an `UnreadableError`."""
    if number.numerator.bit_length() > bits or number.denominator.bit_length() > bits:
        raise UnreadableError("It is too large.")
    return number


class Value:
    r"""A symbolic value; arithmetic works with integers and fractions too.

    >>> print(1 / (root(3) - 1))
    \frac{1}{2}+\frac{1}{2}\sqrt{3}
    >>> x = symbol("x")
    >>> (x + 1) ** 2 == x * x + 2 * x + 1
    True
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Sum) -> None:
        self.terms = terms

    @classmethod
    def of(cls, number: int | Fraction | Value) -> Value:
        """Return a number as a value."""
        if isinstance(number, Value):
            return number
        return cls({_ONE: Fraction(checked(number))} if number else {})

    @property
    def rational(self) -> Fraction | None:
        """The value as a fraction, or None if it is none."""
        if not self.terms:
            return Fraction(0)
        return self.terms[_ONE] if self.terms.keys() == {_ONE} else None

    def number(self) -> float:
        """Return the value as a float.

        Raises:
            UnreadableError: It has symbols, is not real, or is too large for one.
        """
        try:
            number = _number(self.terms)
        except OverflowError:
            number = math.nan
        if not math.isfinite(number):
            raise UnreadableError("It is beyond the range of decimal numbers.")
        return number

    @property
    def digits(self) -> int:
        """How many decimal digits it takes to write the value, at most."""
        return int(_bits(self.terms) / _BITS_PER_DIGIT) + 1

    def __add__(self, other: int | Fraction | Value) -> Value:
        return Value(_plus(self.terms, Value.of(other).terms))

    def __mul__(self, other: int | Fraction | Value) -> Value:
        return Value(_times(self.terms, Value.of(other).terms))

    def __truediv__(self, other: int | Fraction | Value) -> Value:
        return Value(_quotient(self.terms, Value.of(other).terms))

    def __pow__(self, exponent: int) -> Value:
        if exponent < 0:
            return 1 / self**-exponent
        largest = max((c.numerator.bit_length() + c.denominator.bit_length() for c in self.terms.values()), default=1)
        if exponent * largest > MAX_BITS or (len(self.terms) > 1 and exponent > _MAX_EXPONENT):
            raise UnreadableError("It is too large.")
        result, factor = Value.of(1), self
        while exponent:
            if exponent & 1:
                result *= factor
            exponent >>= 1
            if exponent:
                factor *= factor
        return result

    def __neg__(self) -> Value:
        return self * -1

    def __sub__(self, other: int | Fraction | Value) -> Value:
        return self + -Value.of(other)

    def __rsub__(self, other: int | Fraction) -> Value:
        return Value.of(other) - self

    def __rtruediv__(self, other: int | Fraction) -> Value:
        return Value.of(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int | Fraction):
            other = Value.of(other)
        if not isinstance(other, Value):
            return NotImplemented
        return self.terms == other.terms

    __hash__ = None  # type: ignore[assignment]  # it equals numbers

    def __str__(self) -> str:
        if self.digits > MAX_DIGITS:
            return f"(a value of up to {self.digits:,} digits)"
        return _sum_text(self.terms)

    def __repr__(self) -> str:
        return f"Value({self})"


def root(number: int | Fraction) -> Value:
    """Return the square root of a rational number."""
    number = Fraction(number)
    inside = number.numerator * number.denominator
    if inside >= 0 and (whole := math.isqrt(inside)) ** 2 == inside:
        return Value.of(Fraction(whole, number.denominator))
    if abs(inside) > _MAX_RADICAND:
        raise UnreadableError("It has the root of a number that is too large.")
    outside, free, rest = 1, abs(inside), abs(inside)
    for prime in _SMALL_PRIMES:
        if prime**3 > rest:
            break
        while free % (prime * prime) == 0:
            free //= prime * prime
            outside *= prime
        while rest % prime == 0:
            rest //= prime
    # of the rest no prime is as small as its cube root, so it has two at most: the same one twice, or none to take out
    if rest > 1 and (whole := math.isqrt(rest)) ** 2 == rest:
        free //= rest
        outside *= whole
    return Value({(free if inside > 0 else -free, ()): Fraction(outside, number.denominator)})


def symbol(name: str) -> Value:
    """Return a symbol: ``x``, or ``π``."""
    return Value({(1, ((name, 1),)): Fraction(1)})


# --------------------------------------------------------------------------------------------------- arithmetic


def _bits(total: Mapping[Monomial, Fraction]) -> int:
    """Return how many binary digits a sum takes, about."""
    return sum(
        factor.numerator.bit_length()
        + factor.denominator.bit_length()
        + abs(radicand).bit_length()
        + sum(power.bit_length() + 3 for _, power in powers)
        for (radicand, powers), factor in total.items()
    )


def _bounded(total: Sum) -> Sum:
    """Return a sum without its zeros, unless it is too large."""
    found = {monomial: factor for monomial, factor in total.items() if factor}
    if len(found) > _MAX_TERMS:
        raise UnreadableError("It has too many terms.")
    for factor in found.values():
        checked(factor, MAX_BITS if len(found) == 1 else _MAX_BITS_IN_SUM)
    return found


def _plus(one: Sum, other: Sum) -> Sum:
    total = dict(one)
    for monomial, factor in other.items():
        total[monomial] = total.get(monomial, 0) + factor
    return _bounded(total)


def _times(one: Sum, other: Sum) -> Sum:
    total: Sum = {}
    for (radicand, powers), factor in one.items():
        for (radicand_, powers_), factor_ in other.items():
            shared = math.gcd(radicand, radicand_)
            sign = -1 if radicand < 0 and radicand_ < 0 else 1
            inside = (radicand // shared) * (radicand_ // shared)
            if abs(inside) > _MAX_RADICAND:
                raise UnreadableError("It has the root of a number that is too large.")
            monomial = (inside, _joined(powers, powers_))
            total[monomial] = total.get(monomial, 0) + sign * shared * factor * factor_
    return _bounded(total)


def _joined(one: tuple[tuple[str, int], ...], other: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    if not one or not other:
        return one or other
    powers = dict(one)
    for name, power in other:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted((name, power) for name, power in powers.items() if power))


def _quotient(top: Sum, bottom: Sum) -> Sum:
    """Return a quotient whose bottom is one term, or two without symbols, whose squares are rational."""
    if not bottom:
        raise UnreadableError("It divides by zero.")
    if len(bottom) == 2 and not any(powers for _, powers in bottom):
        (one, first), (other, second) = bottom.items()
        conjugate = {one: first, other: -second}
        top, bottom = _times(top, conjugate), _times(bottom, conjugate)
    if len(bottom) > 1:
        raise UnreadableError("It divides by a sum with letters, or of more than two roots.")
    ((radicand, powers), factor) = next(iter(bottom.items()))
    inverse = {(radicand, tuple((name, -power) for name, power in powers)): 1 / (factor * radicand)}
    return _times(top, inverse)


def _number(total: Sum) -> float:
    result = 0.0
    for (radicand, powers), factor in total.items():
        if radicand < 0 or any(name != "π" for name, _ in powers):
            raise UnreadableError("It is no real number.")
        result += float(factor) * math.sqrt(radicand) * math.pi ** sum(power for _, power in powers)
    return result


# ------------------------------------------------------------------------------------------------------ showing


def _sum_text(total: Sum) -> str:
    if not total:
        return "0"

    def order(monomial: Monomial) -> tuple[int, tuple[tuple[str, int], ...], int]:
        radicand, powers = monomial
        return -sum(power for _, power in powers), tuple((name, -power) for name, power in powers), radicand

    shown = "".join(_term_text(total[monomial], *monomial) for monomial in sorted(total, key=order))
    return shown.removeprefix("+")


def _term_text(factor: Fraction, radicand: int, powers: tuple[tuple[str, int], ...]) -> str:
    rest = rf"\sqrt{{{radicand}}}" if radicand != 1 else ""
    for name, power in powers:
        rest += (r"\pi" if name == "π" else name) + ("" if power == 1 else f"^{{{power}}}")
    sign, size = ("-" if factor < 0 else "+"), abs(factor)
    if size == 1 and rest:
        return sign + rest
    shown = str(size.numerator) if size.denominator == 1 else rf"\frac{{{size.numerator}}}{{{size.denominator}}}"
    return sign + shown + rest
