"""Exact values: equal forms are equal, unequal ones are not, and hostile text is refused at once."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.answers.symbolic import UnreadableError, Value, root, symbol
from toolorchestra.toolscale.answers.symbolic_reader import read


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\frac{1}{2}", "0.5"),
        (r"\frac12", "2/4"),
        (r"\dfrac{3}{4}", "75/100"),
        (r"\frac{1}{\sqrt{2}}", r"\sqrt{2}/2"),
        (r"\frac{1}{\sqrt2+\sqrt3}", r"\sqrt3-\sqrt2"),
        (r"\frac{2+\sqrt2}{1-2\sqrt2}", r"-\frac{6+5\sqrt2}{7}"),
        (r"\sqrt{12}", "2√3"),
        ("4^{1/2}", "2"),
        ("2^-1", "1/2"),
        ("1,234,567", "1234567"),
        (r"3\frac{1}{2}", "7/2"),
        ("-3 1/2", "-3.5"),
        (r"\left(x+1\right)\left(x-1\right)", "x^2-1"),
        ("xy^2", "y*x*y"),
        (r"\pi(5)^2", r"25\pi"),
        (r"\binom{5}{2}", "10"),
        ("5!", "120"),
        ("powmod(7, 100, 13)", "mod(7^100, 13)"),
        ("i^2", "-1"),
        (r"\sqrt{-4}", "2i"),
        (r"\frac{1}{1+i}", "(1-i)/2"),
        ("((2))", "2"),
        ("３½", "7/2"),
        ("٤٢", "42"),
        ("x²", "x^2"),
        ("2⁻¹⁰", "1/1024"),
    ],
)
def test_one_value_has_many_forms(one: str, other: str):
    assert read(one) == read(other)


@pytest.mark.parametrize(("one", "other"), [("1/3", "0.333"), ("x", "y"), ("x", "-x"), (r"\sqrt2", "1.41421356")])
def test_what_differs_is_not_equal(one: str, other: str):
    assert read(one) != read(other)


HOSTILE = [
    "9^9^9^9",
    "10^100000",
    "2^(2^(2^(2^9)))",
    "factorial(100000)",
    "999!!!",
    "(x+y+z+a+b+c)^39",
    "(((2^9999)^9999)^9999)",
    "*".join(["(a+b+c+d+f+g)"] * 40),
    "sqrt(" * 60 + "2" + ")" * 60,
    "(" * 290 + "1" + ")" * 290,
    "{" * 600,
    "1" * 601,
    "sqrt(99999999999999999999999)",
    "__import__('os').system('true')",
    r"\input{/etc/passwd}",
    "1/0",
    "0^-1",
    "1/(x-x)",
    "",
    "()",
    "1 2",
    "hello",
    r"\sin x",
    "2^",
    "\x00",
    "(1000!*1000!)!",
    r"\binom{1000!*1000!}{3}",
    "powmod(2, 3, 1000!*1000!)",
    r"\sqrt[1000!]{2}",
    "lcm(1000!, 999!+1) * lcm(1000!+1, 999!)",
    "/".join(["(1+sqrt(2)+sqrt(3)+sqrt(5)+sqrt(7)+sqrt(11))"] * 10),
    "1/3^9999+1/5^9999+1/7^9999",
    "^".join(["1"] * 300),
    r"\frac" * 150 + "12",
    "1, 2",
    "x = 5",
    "(1, 2)",
    r"\{1\}",
    "1/(x+1)",
    "1/(1+sqrt(2)+sqrt(3))",
    "1e999",
    r"\log_2 9",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_value_or_too_large_is_refused(text: str):
    with pytest.raises(UnreadableError):
        read(text)


@given(st.text(alphabet="0123456789xyπ∞\\{}[]()+-*/^!,.=|$ fracsqtbinompu", max_size=60))
def test_any_text_is_read_or_refused(text: str):
    try:
        value = read(text)
    except UnreadableError:
        return
    assert value == read(text)


def test_what_is_shown_is_read_back():
    rng = random.Random(0)
    atoms = [Value.of(2), Value.of(Fraction(-3, 7)), root(2), root(6), root(Fraction(3, 5)), symbol("x"), symbol("π")]
    for _ in range(300):
        value = rng.choice(atoms)
        for _ in range(3):
            other = rng.choice(atoms)
            value = rng.choice([value + other, value * other, value - other, value / atoms[0]])
        assert read(str(value)) == value, str(value)


def test_values_agree_with_floats():
    value = (1 + root(5)) / (3 - root(2)) * root(Fraction(7, 3))
    assert value.number() == pytest.approx((1 + 5**0.5) / (3 - 2**0.5) * (7 / 3) ** 0.5)
    with pytest.raises(UnreadableError, match="no real number"):
        symbol("x").number()


def test_the_root_of_a_large_prime_in_a_denominator_is_taken():
    value = read(r"\frac{1}{1+\sqrt{9999999967}}")
    assert str(value) == r"-\frac{1}{9999999966}+\frac{1}{9999999966}\sqrt{9999999967}"


def test_roots_lose_all_their_squares():
    rng = random.Random(1)
    for number in [*range(1, 3_000), *(rng.randrange(10**10) for _ in range(300)), 99991**2, 2 * 70_709**2, 2153**3]:
        value = root(number)
        ((inside, _), outside), *rest = value.terms.items() if value.terms else [((1, ()), Fraction(0))]
        assert not rest
        assert outside * outside * inside == number
        assert all(inside % (p * p) for p in (2, 3, 5, 7, 11, 13, 97, 2153))
        assert inside == 1 or math.isqrt(inside) ** 2 != inside


def test_what_is_too_large_is_never_written():
    value = read("factorial(1000)^2")
    assert str(value) == "(a value of up to 5,139 digits)"
    with pytest.raises(UnreadableError, match=r"from 0 to 1,000, found a value of up to 5,139 digits\.$"):
        read("(factorial(1000)^2)!")
    assert len(str(read("factorial(1000)"))) == 2568


def test_what_grows_is_refused_before_it_takes_long():
    x = symbol("x")
    assert (x + 1) ** 30 == read("(x+1)^30")
    for grow in (
        lambda: (x + 1) ** 41,
        lambda: (x + root(2) + root(3) + root(5) + root(7)) ** 20,
        lambda: (x + 1) * 10**400,
    ):
        with pytest.raises(UnreadableError):
            grow()
