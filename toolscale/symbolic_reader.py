r"""Reading symbolic values from LaTeX and plain text: numbers, expressions, tuples, intervals and sets.

The text may be hostile: it is parsed, never evaluated as code, and what would grow too large, or take more work than
`toolorchestra.toolscale.symbolic.MAX_WORK`, is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

from toolorchestra.toolscale.numerals import plain_digits
from toolorchestra.toolscale.symbolic import (
    MAX_BITS,
    MAX_DEPTH,
    UnreadableError,
    Value,
    ValueGroup,
    charge,
    checked,
    limited_work,
    root,
    symbol,
)

MAX_CHARACTERS = 600
"""Characters of a text that is read."""

_DROPPED = re.compile(
    r"\$|\\left|\\right|\\displaystyle|\\!|\\,|\\;|\\:|\\ |~|\^\s*\{?\s*\\circ\s*\}?|°|\\?%"
    r"|\\(?:text|mathrm|mbox|textbf)\s*\{[^{}]*\}"
)
_SPELLINGS = (
    (re.compile(r"\\[dtc]frac"), r"\\frac"),
    (re.compile(r"\\cdot|\\times|[·×∗⋅]|\*\*(?=\*)"), "*"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"\\div|÷"), "/"),
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"√"), r"\\sqrt"),
    (re.compile(r"\\pi\b|π|\bpi\b"), " π "),
    (re.compile(r"\\infty|∞"), " ∞ "),
    (re.compile(r"\\[dt]?binom"), r"\\binom"),
    (re.compile(r"(?<!\d)(\d+)\s+(\d+)/(\d+)"), r"(\1+\2/\3)"),
)
_NAMED = re.compile(r"\s*[A-Za-z](?:_\{?\w+\}?)?(?:\([a-z]\))?\s*(?:=|\\in\b|∈)(.*)", re.DOTALL)
_SEPARATOR = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_BRACKET = re.compile(r"[(\[]|\\\{")
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?|\.\d+)|(\\?[A-Za-z]+|[π∞])|(\\[{}]|.))", re.DOTALL)
_SHOWN_DIGITS = 60  # of a value in a message
_MAX_ITEMS = 64  # of a tuple or set
_MAX_LOGARITHM_BITS = 400
_MAX_NESTED = 100  # powers of powers, fractions of fractions, and what stands in brackets
_UNION = (r"\cup", "∪")
_PLUS_MINUS = (r"\pm", "±")
_NO_FACTOR = ("", *_UNION, *_PLUS_MINUS, r"\}")
_PAIRS = {"(": ")", "{": "}", "[": "]", "|": "|"}
_CLOSING = {"(": (")", "]"), "[": ("]", ")"), r"\{": (r"\}",)}


def read(text: str) -> Value | ValueGroup:
    r"""Return the value, or the group of values, that a text writes.

    >>> print(read(r"3\frac{1}{2}"), read("sqrt(8)"), read("1,000,000"))
    \frac{7}{2} 2\sqrt{2} 1000000
    >>> read("2, 1") == read(r"\{1, 2\}"), read("(1, 2)") == read("(2, 1)")
    (True, False)

    Raises:
        UnreadableError: It writes none, or one too large.
    """
    if len(text) > MAX_CHARACTERS:
        raise UnreadableError(f"It has {len(text)} characters; at most {MAX_CHARACTERS}.")
    text = _DROPPED.sub(" ", plain_digits(text)).strip().rstrip(".").strip()
    if named := _NAMED.fullmatch(text):
        text = named[1].strip()
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    text = text.replace("{,}", "")
    if not _BRACKET.search(text):  # there, commas part values
        text = _SEPARATOR.sub("", text)
    tokens: list[str] = []
    for number, word, other in _TOKEN.findall(text.strip()):
        if len(word) == 2 and word.islower():  # a product, as in xy^2; longer words are none
            tokens += word
        else:
            tokens.append(number or word or other)
    try:
        with limited_work():
            return _Reader(tokens).whole()
    except (RecursionError, OverflowError, ZeroDivisionError):
        raise UnreadableError("It is nested too deep, too large, or divides by zero.") from None


def read_or_none(text: str) -> Value | ValueGroup | None:
    """Return what `read` returns, or None if a text writes no value."""
    try:
        return read(text)
    except UnreadableError:
        return None


def _shown(value: Value) -> str:
    """Return a value for a message: as it is written, unless that is long."""
    return str(value) if value.digits <= _SHOWN_DIGITS else f"a value of up to {value.digits:,} digits"


def _integer(value: Value) -> int:
    number = value.rational
    if number is None or number.denominator != 1:
        raise UnreadableError(f"Expected an integer, found {_shown(value)}.")
    return number.numerator


def _small(value: Value, largest: int) -> int:
    number = _integer(value)
    if not 0 <= number <= largest:
        raise UnreadableError(f"Expected an integer from 0 to {largest:,}, found {_shown(value)}.")
    return number


def _fraction(value: Value) -> Fraction:
    number = value.rational
    if number is None:
        raise UnreadableError(f"Expected a rational number, found {_shown(value)}.")
    return number


def _whole_root(number: Fraction, degree: int) -> Fraction:
    """Return the root of a perfect power."""
    parts = []
    for part in (abs(number.numerator), number.denominator):
        guess = round(part ** (1 / degree)) if degree and part.bit_length() < 900 else 0
        if guess**degree != part:
            raise UnreadableError(f"It has a root of degree {degree} that is not rational.")
        parts.append(guess)
    if number < 0 and degree % 2 == 0:
        raise UnreadableError("It has an even root of a negative number.")
    return Fraction(parts[0] if number >= 0 else -parts[0], parts[1])


def _modulo(value: Value, modulus: Value) -> Value:
    if not modulus.top:
        raise UnreadableError("It divides by zero.")
    charge(2 + ((value.digits + modulus.digits) ** 2 >> 12))
    return Value.of(_fraction(value) % _fraction(modulus))


def _binomial(n: Value, k: Value) -> Value:
    charge(100)
    return Value.of(math.comb(_small(n, 2_000), _small(k, 2_000)))


def _factorial(n: Value) -> Value:
    number = _small(n, 1_000)
    charge(number >> 2)
    return Value.of(math.factorial(number))


def _of_integers(function: Callable[[int, int], int], one: Value, other: Value) -> Value:
    first, second = _integer(one), _integer(other)
    charge(1 + (first.bit_length() * second.bit_length() >> 16))
    return Value.of(checked(function(first, second)))


def _logarithm(base: Value, value: Value) -> Value:
    """Return the logarithm of a power of the base, or of a root of one."""
    one, other = _fraction(base), _fraction(value)
    largest = max(part.bit_length() for number in (one, other) for part in number.as_integer_ratio())
    if one <= 0 or other <= 0 or one == 1 or largest > _MAX_LOGARITHM_BITS:
        raise UnreadableError("It has a logarithm that is not known exactly.")
    charge(50)
    logs = [math.log(number.numerator) - math.log(number.denominator) for number in (other, one)]
    found = Fraction(logs[0] / logs[1]).limit_denominator(12)
    if abs(found) > _MAX_LOGARITHM_BITS or one**found.numerator != other**found.denominator:
        raise UnreadableError("It has a logarithm that is not known exactly.")
    return Value.of(found)


def _power_modulo(base: Value, exponent: Value, modulus: Value) -> Value:
    divisor = _integer(modulus)
    if not 0 < divisor < 10**18:
        raise UnreadableError(f"Expected a modulus from 1 to 10^18, found {_shown(modulus)}.")
    charge(30)
    return Value.of(pow(_integer(base), _small(exponent, 10**18), divisor))


FUNCTIONS: dict[str, tuple[int, Callable[..., Value]]] = {
    "sqrt": (1, lambda x: root(_fraction(x))),
    "abs": (1, lambda x: Value.of(abs(_fraction(x)))),
    "floor": (1, lambda x: Value.of(math.floor(_fraction(x)))),
    "ceil": (1, lambda x: Value.of(math.ceil(_fraction(x)))),
    "factorial": (1, _factorial),
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
        self._depth = 0
        self._nested = 0

    def whole(self) -> Value | ValueGroup:
        parts = [self._part()]
        while self._take(*_UNION):
            parts.append(self._part())
        if self._at < len(self._tokens):
            raise UnreadableError(f"Unexpected {self._next!r}.")
        return parts[0] if len(parts) == 1 else ValueGroup("{}", parts)

    def _part(self) -> Value | ValueGroup:
        start = self._at
        for opening, closings in _CLOSING.items():
            if self._take(opening):
                items = self._items()
                closing = next((sign for sign in closings if self._take(sign)), None)
                ends = self._at == len(self._tokens) or self._next in _UNION
                if closing and ends and (len(items) > 1 or opening != "("):
                    return ValueGroup((opening + closing).replace("\\", ""), items)
                self._at = start
                break
        items = self._items()
        return items[0] if len(items) == 1 else ValueGroup("{}", items)

    def _items(self) -> list[Value | ValueGroup]:
        items: list[Value | ValueGroup] = []
        while True:
            value = self._sum()
            if self._take(*_PLUS_MINUS):
                rest = self._product()
                items += [value + rest, value - rest]
            else:
                items.append(value)
            if len(items) > _MAX_ITEMS:
                raise UnreadableError(f"It has more than {_MAX_ITEMS} values.")
            if not self._take(","):
                return items

    def _sum(self) -> Value:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableError("It is nested too deep.")
        total = Value({}) if self._next in _PLUS_MINUS else self._product()  # as in ±3, read by _items
        while self._next in ("+", "-"):  # the sign of the product
            total += self._product()
        self._depth -= 1
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
        self._deeper()
        exponent = -self._power() if self._take("-") else self._power()
        self._nested -= 1
        power = exponent.rational
        if power is None or power.denominator > 2 or abs(power) > MAX_BITS:
            raise UnreadableError("Expected a whole exponent, or a half.")
        if power.denominator == 2:
            return root(_fraction(base)) ** power.numerator
        return base**power.numerator

    def _atom(self) -> Value:
        self._deeper()
        value = self._one_atom()
        self._nested -= 1
        return value

    def _deeper(self) -> None:
        self._nested += 1
        if self._nested > _MAX_NESTED:
            raise UnreadableError("It is nested too deep.")

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
            return FUNCTIONS["abs"][1](value) if token == "|" else value
        if token == r"\frac":
            return self._argument() / self._argument()
        if token == r"\binom":
            return _binomial(self._argument(), self._argument())
        if token == r"\sqrt":
            if not self._take("["):
                return root(_fraction(self._atom()))
            degree = self._sum()
            self._expect("]")
            return Value.of(_whole_root(_fraction(self._atom()), _small(degree, 100)))
        if token == r"\log":
            base = self._argument() if self._take("_") else Value.of(10)
            return _logarithm(base, self._power())
        if token in FUNCTIONS:
            return self._call(token)
        if token == "i":
            return root(-1)
        if token in ("π", "∞") or (len(token) == 1 and token.isalpha() and token.isascii()):
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
        return token not in _NO_FACTOR and (token[:1].isalnum() or token[:1] in "({π\\.")

    def _take(self, *tokens: str) -> bool:
        if self._next not in tokens:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise UnreadableError(f"Expected {token!r}, found {self._next or 'the end'!r}.")
