r"""Reading expressions, in plain text or LaTeX, as symbolic values: what the calculator is asked.

The text may be hostile: it is parsed, never evaluated as code, and what is long or would grow too large is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

from toolorchestra.toolscale.answers.numerals import plain_digits
from toolorchestra.toolscale.answers.symbolic import MAX_BITS, UnreadableError, Value, checked, root, symbol

MAX_CHARACTERS = 600
"""Characters of a text that is read."""

_DROPPED = re.compile(r"\$|\\left|\\right|\\[!,;: ]|~")
_SPELLINGS = (
    (re.compile(r"\\[dtc]frac"), r"\\frac"),
    (re.compile(r"\\cdot|\\times|[·×∗⋅]|\*\*(?=\*)"), "*"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"\\div|÷"), "/"),
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"√"), r"\\sqrt"),
    (re.compile(r"\\pi\b|π|\bpi\b"), " π "),
    (re.compile(r"\\[dt]?binom"), r"\\binom"),
    (re.compile(r"(?<!\d)(\d+)\s+(\d+)/(\d+)"), r"(\1+\2/\3)"),
)
_SEPARATOR = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?|\.\d+)|(\\?[A-Za-z]+|π)|(.))", re.DOTALL)
_SHOWN_DIGITS = 60  # of a value in a message
_MAX_NESTED = 60  # brackets in brackets, powers of powers, fractions of fractions
_PAIRS = {"(": ")", "{": "}", "[": "]"}


def read(text: str) -> Value:
    r"""Return the value of an expression.

    >>> print(read(r"3\frac{1}{2}"), read("sqrt(8)"), read("1,000,000 / 4"))
    \frac{7}{2} 2\sqrt{2} 250000

    Raises:
        UnreadableError: It is no expression, or its value is too large.
    """
    if len(text) > MAX_CHARACTERS:
        raise UnreadableError(f"It has {len(text)} characters; at most {MAX_CHARACTERS}.")
    text = _DROPPED.sub(" ", plain_digits(text)).strip().rstrip(".").strip()
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    if "(" not in text:  # there, commas part arguments
        text = _SEPARATOR.sub("", text)
    tokens: list[str] = []
    for number, word, other in _TOKEN.findall(text.strip()):
        if len(word) == 2 and word.islower():  # a product, as in xy^2; longer words are none
            tokens += word
        else:
            tokens.append(number or word or other)
    try:
        return _Reader(tokens).whole()
    except (RecursionError, OverflowError, ZeroDivisionError):
        raise UnreadableError("It is nested too deep, too large, or divides by zero.") from None


def _expected(what: str, value: Value) -> UnreadableError:
    shown = str(value) if value.digits <= _SHOWN_DIGITS else f"a value of up to {value.digits:,} digits"
    return UnreadableError(f"Expected {what}, found {shown}.")


def _fraction(value: Value) -> Fraction:
    if (number := value.rational) is None:
        raise _expected("a rational number", value)
    return number


def _integer(value: Value) -> int:
    if (number := value.rational) is None or number.denominator != 1:
        raise _expected("an integer", value)
    return number.numerator


def _small(value: Value, largest: int) -> int:
    if not 0 <= (number := _integer(value)) <= largest:
        raise _expected(f"an integer from 0 to {largest:,}", value)
    return number


def _modulo(value: Value, modulus: Value) -> Value:
    if not modulus.terms:
        raise UnreadableError("It divides by zero.")
    return Value.of(_fraction(value) % _fraction(modulus))


def _binomial(n: Value, k: Value) -> Value:
    return Value.of(math.comb(_small(n, 2_000), _small(k, 2_000)))


def _of_integers(function: Callable[[int, int], int], one: Value, other: Value) -> Value:
    return Value.of(checked(function(_integer(one), _integer(other))))


def _power_modulo(base: Value, exponent: Value, modulus: Value) -> Value:
    divisor = _integer(modulus)
    if not 0 < divisor < 10**18:
        raise _expected("a modulus from 1 to 10^18", modulus)
    return Value.of(pow(_integer(base), _small(exponent, 10**18), divisor))


FUNCTIONS: dict[str, tuple[int, Callable[..., Value]]] = {
    "sqrt": (1, lambda x: root(_fraction(x))),
    "abs": (1, lambda x: Value.of(abs(_fraction(x)))),
    "floor": (1, lambda x: Value.of(math.floor(_fraction(x)))),
    "ceil": (1, lambda x: Value.of(math.ceil(_fraction(x)))),
    "factorial": (1, lambda n: Value.of(math.factorial(_small(n, 1_000)))),
    "gcd": (2, lambda a, b: _of_integers(math.gcd, a, b)),
    "lcm": (2, lambda a, b: _of_integers(math.lcm, a, b)),
    "mod": (2, _modulo),
    "binomial": (2, _binomial),
    "powmod": (3, _power_modulo),
}
"""Functions that may be written: the number of arguments, and what they do."""


class _Reader:
    """Recursive descent over tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._nested = 0

    def whole(self) -> Value:
        value = self._sum()
        if self._next == ",":
            raise UnreadableError("It is several expressions, not one.")
        if self._next:
            raise UnreadableError(f"Unexpected {self._next!r}.")
        return value

    def _sum(self) -> Value:
        total = self._product()
        while self._next in ("+", "-"):  # the sign of the product
            total += self._product()
        return total

    def _product(self) -> Value:
        sign = 1
        while self._next in ("+", "-"):
            sign = -sign if self._next == "-" else sign
            self._at += 1
        first = self._next
        total = self._power()
        if first.isdecimal() and self._next == r"\frac":  # a mixed number
            part = self._power()
            share = part.rational
            total = total + part if share is not None and 0 < share < 1 else total * part
        while True:
            if self._take("*"):
                total *= self._power(signed=True)
            elif self._take("/"):
                total /= self._power(signed=True)
            elif self._begins():
                if self._next[0].isdecimal() or self._next[0] == ".":
                    raise UnreadableError("Two numbers stand side by side.")
                total *= self._power()
            else:
                return total * sign

    def _power(self, *, signed: bool = False) -> Value:
        if signed and self._take("-"):
            return -self._power()
        base = self._atom()
        while self._take("!"):
            base = FUNCTIONS["factorial"][1](base)
        if not self._take("^"):
            return base
        exponent = -self._deeper(self._power) if self._take("-") else self._deeper(self._power)
        power = exponent.rational
        if power is None or power.denominator > 2 or abs(power) > MAX_BITS:
            raise UnreadableError("Expected a whole exponent, or a half.")
        if power.denominator == 2:
            return root(_fraction(base)) ** power.numerator
        return base**power.numerator

    def _atom(self) -> Value:
        return self._deeper(self._one_atom)

    def _deeper(self, read: Callable[[], Value]) -> Value:
        self._nested += 1
        if self._nested > _MAX_NESTED:
            raise UnreadableError("It is nested too deep.")
        value = read()
        self._nested -= 1
        return value

    def _one_atom(self) -> Value:
        token = self._next
        self._at += 1
        if not token:
            raise UnreadableError("It ends too early.")
        if token[0].isdecimal() or (token[0] == "." and len(token) > 1):
            return Value.of(Fraction(token))
        if token in _PAIRS:
            value = self._sum()
            self._expect(_PAIRS[token])
            return value
        if token == r"\frac":
            return self._argument() / self._argument()
        if token == r"\binom":
            return _binomial(self._argument(), self._argument())
        if token == r"\sqrt":
            return root(_fraction(self._atom()))
        if token in FUNCTIONS:
            return self._call(token)
        if token == "i":
            return root(-1)
        if token == "π" or (len(token) == 1 and token.isalpha() and token.isascii()):
            return symbol(token)
        raise UnreadableError(f"Unexpected {token!r}.")

    def _call(self, name: str) -> Value:
        count, function = FUNCTIONS[name]
        self._expect("(")
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        self._expect(")")
        if len(arguments) != count:
            raise UnreadableError(f"{name} takes {count} argument{'s' * (count > 1)}, found {len(arguments)}.")
        return function(*arguments)

    def _argument(self) -> Value:
        r"""Return an argument as LaTeX has it: braces, or a single digit (``\frac12`` is a half)."""
        token = self._next
        if token.isdecimal() and len(token) > 1:
            self._tokens[self._at : self._at + 1] = [token[0], token[1:]]
        return self._atom()

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _begins(self) -> bool:
        """Whether a factor begins here, to be multiplied without a sign."""
        token = self._next
        return token != "" and (token[:1].isalnum() or token[:1] in "({π\\.")

    def _take(self, *tokens: str) -> bool:
        if self._next not in tokens:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise UnreadableError(f"Expected {token!r}, found {self._next or 'the end'!r}.")
