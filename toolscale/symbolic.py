r"""Symbolic values: numbers and expressions, compared and shown without rounding.

A `Value` is a quotient of sums of rational multiples of square roots, π and symbols: integers, fractions, decimals,
radicals, polynomials and rational functions. Equality is exact: ``\frac{1}{2}``, ``0.5`` and ``2/4`` are one value,
and so are ``\frac{1}{\sqrt{2}}`` and ``\sqrt{2}/2``. Values that would grow too large are refused, and within
`limited_work` also what would take too long; what is too large to be written is never written.

Not covered: trigonometric and other transcendental functions, roots of roots, equations, matrices.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from fractions import Fraction
from typing import TypeAlias

_MAX_TERMS = 200
MAX_BITS = 20_000
"""Binary digits of a number, and the largest exponent."""
_MAX_RADICAND = 10**10
MAX_DEPTH = 40
"""Brackets in brackets, and the largest exponent of a sum."""
MAX_WORK = 10_000
"""Work that a hostile text may cause, in about microseconds. It is counted, not timed: a result depends on no clock."""
MAX_DIGITS = 4_000
"""Decimal digits that are written (Python refuses more than 4,300)."""
_BITS_PER_DIGIT = 3.32
_SMALL_PRIMES = tuple(p for p in range(2, 2_160) if all(p % q for q in range(2, math.isqrt(p) + 1)))

Monomial: TypeAlias = tuple[int, tuple[tuple[str, int], ...]]
"""A square root (of a squarefree number) times powers of symbols."""
Sum: TypeAlias = dict[Monomial, Fraction]

_ONE: Monomial = (1, ())


class UnreadableError(ValueError):
    """A text is not a value of this module, or one that is too large."""


_work_left: ContextVar[list[int] | None] = ContextVar("work_left", default=None)


@contextlib.contextmanager
def limited_work(work: int = MAX_WORK) -> Iterator[None]:
    """Refuse arithmetic, by an `UnreadableError`, once it has taken so much work; inside of another limit, that holds.

    >>> with limited_work(): (root(2) + root(3) + root(5) + root(7) + symbol("x")) ** 40
    Traceback (most recent call last):
    toolorchestra.toolscale.symbolic.UnreadableError: It takes too much work.
    """
    if _work_left.get() is not None:
        yield
        return
    token = _work_left.set([work])
    try:
        yield
    finally:
        _work_left.reset(token)


def charge(work: int) -> None:
    """Take work from the limit in force, if there is one.

    Raises:
        UnreadableError: None is left.
    """
    left = _work_left.get()
    if left is not None:
        left[0] -= work
        if left[0] < 0:
            raise UnreadableError("It takes too much work.")


def checked(number: int | Fraction) -> int | Fraction:
    """Return a number that is not too large.

    Raises:
        UnreadableError: It has more than `MAX_BITS` binary digits.
    """
    if number.numerator.bit_length() > MAX_BITS or number.denominator.bit_length() > MAX_BITS:
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

    __slots__ = ("bottom", "top")

    def __init__(self, top: Sum, bottom: Sum | None = None) -> None:
        self.top, self.bottom = _reduced(top, bottom or {_ONE: Fraction(1)})

    @classmethod
    def of(cls, number: int | Fraction | Value) -> Value:
        """Return a number as a value."""
        if isinstance(number, Value):
            return number
        return cls({_ONE: Fraction(checked(number))} if number else {})

    @property
    def rational(self) -> Fraction | None:
        """The value as a fraction, or None if it is none."""
        if not self.top:
            return Fraction(0)
        plain = len(self.top) == 1 and _ONE in self.top and self.bottom == {_ONE: 1}
        return self.top[_ONE] if plain else None

    def number(self) -> float:
        """Return the value as a float.

        Raises:
            UnreadableError: It has symbols, is not real, or is too large for one.
        """
        try:
            number = _number(self.top) / _number(self.bottom)
        except (OverflowError, ZeroDivisionError):
            number = math.nan
        if not math.isfinite(number):
            raise UnreadableError("It is beyond the range of decimal numbers.")
        return number

    @property
    def digits(self) -> int:
        """How many decimal digits it takes to write the value, at most."""
        return int((_bits(self.top) + _bits(self.bottom)) / _BITS_PER_DIGIT) + 1

    def __add__(self, other: int | Fraction | Value) -> Value:
        other = Value.of(other)
        if self.bottom == other.bottom:
            return Value(_plus(self.top, other.top), self.bottom)
        top = _plus(_times(self.top, other.bottom), _times(other.top, self.bottom))
        return Value(top, _times(self.bottom, other.bottom))

    def __mul__(self, other: int | Fraction | Value) -> Value:
        other = Value.of(other)
        return Value(_times(self.top, other.top), _times(self.bottom, other.bottom))

    def __truediv__(self, other: int | Fraction | Value) -> Value:
        other = Value.of(other)
        if not other.top:
            raise UnreadableError("It divides by zero.")
        return Value(_times(self.top, other.bottom), _times(self.bottom, other.top))

    def __pow__(self, exponent: int) -> Value:
        if exponent < 0:
            return 1 / self**-exponent
        largest = max((c.numerator.bit_length() + c.denominator.bit_length() for c in self.top.values()), default=1)
        if exponent * largest > MAX_BITS or (len(self.top) > 1 and exponent > MAX_DEPTH):
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
        return _times(self.top, other.bottom) == _times(other.top, self.bottom)

    __hash__ = None  # type: ignore[assignment]  # equal values may differ in form

    def __str__(self) -> str:
        if self.digits > MAX_DIGITS:
            return f"(a value of up to {self.digits:,} digits)"
        if self.bottom == {_ONE: 1}:
            return _sum_text(self.top)
        return rf"\frac{{{_sum_text(self.top)}}}{{{_sum_text(self.bottom)}}}"

    def __repr__(self) -> str:
        return f"Value({self})"


class ValueGroup:
    r"""Values in brackets: a tuple or interval (``()``, ``[]``, ``(]``, ``[)``), or a set, in no order (``{}``)."""

    __slots__ = ("brackets", "items")

    def __init__(self, brackets: str, items: list[Value | ValueGroup]) -> None:
        self.brackets, self.items = brackets, items

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ValueGroup):
            return NotImplemented
        if self.brackets != other.brackets or len(self.items) != len(other.items):
            return False
        if self.brackets != "{}":
            return self.items == other.items
        rest = list(other.items)
        for item in self.items:
            if item not in rest:
                return False
            rest.remove(item)
        return True

    __hash__ = None  # type: ignore[assignment]  # like its items


def root(number: int | Fraction) -> Value:
    """Return the square root of a rational number."""
    number = Fraction(number)
    inside = number.numerator * number.denominator
    charge(5 + (inside.bit_length() ** 2 >> 18))
    if inside >= 0 and (whole := math.isqrt(inside)) ** 2 == inside:
        return Value.of(Fraction(whole, number.denominator))
    if abs(inside) > _MAX_RADICAND:
        raise UnreadableError("It has the root of a number that is too large.")
    charge(50)
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


def _effort(one: Mapping[Monomial, Fraction], other: Mapping[Monomial, Fraction]) -> int:
    """Return the work, in about microseconds, of adding or multiplying a factor of each of two sums."""
    tops = [factor.numerator.bit_length() for total in (one, other) for factor in total.values()]
    bottoms = [factor.denominator.bit_length() for total in (one, other) for factor in total.values()]
    top, bottom = max(tops, default=0), max(bottoms, default=0)
    return 9 + (max(top, bottom) * bottom >> 16) + (top >> 8)


def _plus(one: Mapping[Monomial, Fraction], other: Mapping[Monomial, Fraction]) -> Sum:
    shared = one.keys() & other.keys()
    charge(1 + (len(one) + len(other) >> 1) + (len(shared) * _effort(one, other) if shared else 0))
    if len(one) + len(other) - len(shared) > 2 * _MAX_TERMS:
        raise UnreadableError("It has too many terms.")
    total = {monomial: one.get(monomial, Fraction(0)) + other.get(monomial, 0) for monomial in {**one, **other}}
    for monomial in shared:
        checked(total[monomial])
    return {monomial: factor for monomial, factor in total.items() if factor}


def _times(one: Mapping[Monomial, Fraction], other: Mapping[Monomial, Fraction]) -> Sum:
    if len(one) * len(other) > _MAX_TERMS**2:
        raise UnreadableError("It has too many terms.")
    if _work_left.get() is not None:
        charge(len(one) * len(other) * _effort(one, other))
    total: Sum = {}
    for (radicand, powers), factor in one.items():
        for (radicand_, powers_), factor_ in other.items():
            shared = math.gcd(radicand, radicand_)
            sign = -1 if radicand < 0 and radicand_ < 0 else 1
            inside = (radicand // shared) * (radicand_ // shared)
            if abs(inside) > _MAX_RADICAND:
                raise UnreadableError("It has the root of a number that is too large.")
            monomial = (inside, _joined(powers, powers_))
            found = total.get(monomial, 0) + sign * shared * factor * factor_
            if found:
                checked(found)
                total[monomial] = found
            else:
                total.pop(monomial, None)
    if len(total) > _MAX_TERMS:
        raise UnreadableError("It has too many terms.")
    return total


def _joined(one: tuple[tuple[str, int], ...], other: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    if not one or not other:
        return one or other
    powers = dict(one)
    for name, power in other:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted((name, power) for name, power in powers.items() if power))


def _reduced(top: Sum, bottom: Sum) -> tuple[Sum, Sum]:
    """Return a quotient whose bottom is 1, unless the bottom is a sum with symbols."""
    if bottom == {_ONE: 1}:
        return top, bottom
    if len(bottom) > 1 and not any(powers for _, powers in bottom):
        while radicand := next((abs(radicand) for radicand, _ in bottom if radicand != 1), None):
            part = _inseparable(radicand, (inside for inside, _ in bottom))
            conjugate = {
                (inside, powers): -factor if (inside % part == 0 if part > 1 else inside < 0) else factor
                for (inside, powers), factor in bottom.items()
            }
            top, bottom = _times(top, conjugate), _times(bottom, conjugate)
    if len(bottom) == 1:
        ((radicand, powers), factor) = next(iter(bottom.items()))
        inverse = {(radicand, tuple((name, -power) for name, power in powers)): 1 / (factor * radicand)}
        return _times(top, inverse), {_ONE: Fraction(1)}
    return top, bottom


def _inseparable(radicand: int, others: Iterator[int]) -> int:
    """Return a divisor of a radicand that divides each of the others or has no factor in common with it.

    Its root can change its sign by itself, as that of a prime can: no number is factored for it.
    """
    for other in others:
        shared = math.gcd(radicand, other)
        if shared > 1:
            radicand = shared
    return radicand


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
