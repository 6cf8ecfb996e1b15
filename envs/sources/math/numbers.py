"""Families of problems about whole numbers: divisors, remainders, digits, equations."""

from __future__ import annotations

import math
from random import Random

import numpy as np

from toolorchestra.envs.sources.math.factorisation import factors, product
from toolorchestra.envs.sources.math.sketch import Sketch, family

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


def _factorise(sketch: Sketch, number: int) -> dict[int, int]:
    """Add the step of factorising a number, and return its factors."""
    found = factors(number)
    sketch.step(f"What is the prime factorisation of {number}?", product(found) or "1")
    return found


def composite(draw: Random, primes: int, most: int) -> int:
    """Return a number with so many different small prime factors."""
    while True:
        number = 1
        for prime in draw.sample(PRIMES[:7], primes):
            number *= prime * prime ** draw.randint(0, 2)
        if number <= most:
            return number


@family
def power_remainder(sketch: Sketch, draw: Random, level: int) -> None:
    """The remainder of a power."""
    m = 10 if level == 1 else draw.choice(PRIMES[3:9] if level == 2 else PRIMES[9:])
    a = draw.choice([a for a in range(2, 60) if math.gcd(a, m) == 1 and a % m > 1])
    n = draw.randint(*((12, 80), (50, 900), (1_000, 999_999))[level - 1])
    sketch.ask(variant="digit" if level == 1 else "", a=a, n=n, m=m)
    k = next(k for k in range(1, m) if pow(a, k, m) == 1)
    sketch.step(f"What is the least k > 0 with {a}^k congruent to 1 modulo {m}?", k, wrong=(m - 1, 2 * k))
    sketch.step(f"What is {n} modulo {k}?", n % k, by=f"mod({n}, {k})")
    sketch.step(f"What is {a}^{n % k} modulo {m}?", pow(a, n, m), by=f"powmod({a}, {n % k}, {m})")


@family
def divisor_count(sketch: Sketch, draw: Random, level: int) -> None:
    """The number of divisors."""
    n = composite(draw, min(level + 1, 3), (200, 3_000, 40_000)[level - 1])
    even = level == 3 and n % 2 == 0
    kind = "even positive divisors" if even else "positive divisors"
    sketch.ask({"kind": kind}, n=n, even=even)
    found = _factorise(sketch, n)
    choices = [power + 1 - (even and prime == 2) for prime, power in found.items()]
    total = math.prod(choices)
    question, wrong = f"How many {kind} does {product(found)} have?", (math.prod(found.values()), total - 2)
    sketch.step(question, total, by=" * ".join(map(str, choices)), wrong=wrong)


@family
def divisor_sum(sketch: Sketch, draw: Random, level: int) -> None:
    """The sum of divisors."""
    n = composite(draw, 2 if level == 2 else 3, (400, 4_000, 40_000)[level - 2])
    proper = level == 4
    sketch.ask(variant="proper" if proper else "", n=n, proper=proper)
    sums = []
    for prime, power in _factorise(sketch, n).items():
        sums.append(sum(prime**i for i in range(power + 1)))
        question = f"What is the sum of the powers of {prime} from {prime}^0 to {prime}^{power}?"
        sketch.step(question, sums[-1], 0, by=" + ".join(f"{prime}^{i}" for i in range(power + 1)))
    total, needs = math.prod(sums), range(1, len(sums) + 1)
    question = f"What is the sum of all positive divisors, the product of {', '.join(map(str, sums))}?"
    sketch.step(question, total, *needs, by=" * ".join(map(str, sums)), wrong=(total - n,))
    if proper:
        sketch.step(f"What is {total} less {n} itself?", total - n, by=f"{total} - {n}", wrong=(total,))


@family
def other_number(sketch: Sketch, draw: Random, level: int) -> None:
    """A number from another one, their greatest common divisor and least common multiple."""
    g = draw.randint(2, 9 * level)
    x, y = draw.choice([(x, y) for x in range(2, 8 * level) for y in range(2, 8 * level) if math.gcd(x, y) == 1])
    a, lcm = g * x, g * x * y
    sketch.ask(g=g, lcm=lcm, a=a)
    sketch.step(f"What is the product of the numbers, {g} * {lcm}?", g * lcm, by=f"{g} * {lcm}")
    sketch.step(f"What is {g * lcm} divided by {a}?", g * y, by=f"{g * lcm} / {a}", wrong=(lcm // a, y))


@family
def remainder_system(sketch: Sketch, draw: Random, level: int) -> None:
    """The smallest number with given remainders."""
    moduli = draw.sample([5, 7, 8, 9, 11, 13] if level < 5 else [7, 9, 11, 13, 16, 17], 2 if level == 3 else 3)
    x = draw.randint(max(moduli), math.prod(moduli) - 1)
    rests = [x % m for m in moduli]
    *others, last = (f"{r} when divided by {m}" for r, m in zip(rests, moduli, strict=True))
    sketch.ask({"remainders": f"{', '.join(others)} and {last}"}, rests=rests, moduli=moduli)
    known, modulus = rests[0], moduli[0]
    for r, m in zip(rests[1:], moduli[1:], strict=True):
        inverse = pow(modulus, -1, m)
        sketch.step(f"What is the inverse of {modulus} modulo {m}?", inverse)
        times = (r - known) * inverse % m
        question = f"Which t from 0 to {m - 1} makes {known} + {modulus}t leave remainder {r} modulo {m}?"
        sketch.step(question, times, by=f"mod(({r} - {known}) * {inverse}, {m})")
        value = known + modulus * times
        sketch.calculate(f"{known} + {modulus} * {times}", value)
        known, modulus = value, modulus * m


@family
def factorial_power(sketch: Sketch, draw: Random, level: int) -> None:
    """The power of a prime in a factorial."""
    p = 5 if level == 2 else draw.choice((3, 5, 7) if level == 3 else (2, 3, 7, 11))
    n = draw.randint(*((30, 120), (100, 400), (400, 2_500))[level - 2])
    sketch.ask(variant="zeros" if level == 2 else "", n=n, p=p)
    counts, power = [], p
    while power <= n:
        counts.append(n // power)
        sketch.first(
            f"How many of the numbers 1 to {n} are multiples of {power}?", counts[-1], by=f"floor({n}/{power})"
        )
        power *= p
    sketch.calculate(" + ".join(map(str, counts)), sum(counts), *range(len(counts)), wrong=(counts[0],))


@family
def digit_sum(sketch: Sketch, draw: Random, level: int) -> None:
    """The digits of a power of ten less a number."""
    d = level
    k = draw.randint(10 ** (d - 1) + 1, 10**d - 1)
    n = draw.randint(20, 60 * level)
    sketch.ask(n=n, k=k)
    tail, nines = 10**d - k, 9 * (n - d)
    rest = sum(map(int, str(tail)))
    sketch.calculate(f"10^{d} - {k}", tail)
    sketch.step(f"What is the sum of the digits of {tail}?", rest)
    question = f"What do the {n - d} nines before these {d} digits add up to?"
    sketch.first(question, nines, by=f"9*({n} - {d})", wrong=(9 * n,))
    sketch.calculate(f"{nines} + {rest}", nines + rest, 1, 2)


@family
def multiples_count(sketch: Sketch, draw: Random, level: int) -> None:
    """How many numbers some divide and others do not."""
    a, b, c = draw.sample((3, 4, 5, 6, 7, 8, 9, 10, 11), 3)
    n = draw.randint(100, 500 * level)
    without = level > 2
    sketch.ask({"extra": f" but not of {c}" if without else ""}, n=n, a=a, b=b, c=c if without else 0)
    ab = math.lcm(a, b)
    sketch.step(f"What is the least common multiple of {a} and {b}?", ab, by=f"lcm({a}, {b})", wrong=(a * b,))
    both = n // a + n // b
    total = both - n // ab
    by = f"floor({n}/{a}) + floor({n}/{b}) - floor({n}/{ab})"
    sketch.step(f"How many of 1 to {n} are divisible by {a} or {b}?", total, by=by, wrong=(both,))
    if without:
        ac, bc, abc = math.lcm(a, c), math.lcm(b, c), math.lcm(ab, c)
        lost = n // ac + n // bc - n // abc
        by = f"floor({n}/{ac}) + floor({n}/{bc}) - floor({n}/{abc})"
        sketch.step(f"How many of 1 to {n} are divisible by {c}, and by {a} or {b}?", lost, 0, by=by, wrong=(n // c,))
        sketch.calculate(f"{total} - {lost}", total - lost, 1, 2)


@family
def coprime_count(sketch: Sketch, draw: Random, level: int) -> None:
    """How many numbers have no factor in common with one."""
    n = composite(draw, 2 if level == 2 else 3, (300, 3_000, 30_000)[level - 2])
    sketch.ask(n=n)
    found = _factorise(sketch, n)
    total = math.prod(prime ** (power - 1) * (prime - 1) for prime, power in found.items())
    by = f"{n} * " + " * ".join(f"(1 - 1/{prime})" for prime in found)
    sketch.step(f"What is {n} times (1 - 1/p) for each of its primes p?", total, by=by)


@family
def base_sum(sketch: Sketch, draw: Random, level: int) -> None:
    """The sum of two numerals in another base."""
    b = draw.randint(4, 9)
    x, y = (draw.randint(b ** (level + 1), b ** (level + 2) - 1) for _ in "xy")
    numerals = {x: np.base_repr(x, b), y: np.base_repr(y, b)}
    sketch.ask(b=b, x=numerals[x], y=numerals[y])
    for value in (x, y):
        shown = numerals[value]
        by = " + ".join(f"{digit}*{b}^{i}" for i, digit in enumerate(reversed(shown)))
        sketch.first(f"What is the base {b} numeral {shown} in base ten?", value, by=by)
    sketch.calculate(f"{x} + {y}", x + y, 0, 1)


@family
def payment_ways(sketch: Sketch, draw: Random, level: int) -> None:
    """The number of positive solutions of a linear equation."""
    a, b = draw.choice([(a, b) for a in range(3, 12) for b in range(a + 1, 16) if math.gcd(a, b) == 1])
    n = draw.randint(10 * b, 40 * b * (level - 2))
    sketch.ask(a=a, b=b, n=n)
    y0 = next((y for y in range(1, a + 1) if (n - b * y) % a == 0), 0)
    sketch.step(f"What is the inverse of {b} modulo {a}?", pow(b, -1, a))
    sketch.step(f"What is the least y > 0 for which {a} divides {n} - {b}y?", y0)
    top = (n - a) // b
    sketch.first(f"What is the largest y with {b}y at most {n} - {a}?", top, by=f"floor(({n} - {a})/{b})")
    question = f"How many of {y0}, {y0 + a}, {y0 + 2 * a}, … are at most {top}?"
    sketch.step(question, (top - y0) // a + 1, 1, 2, by=f"floor(({top} - {y0})/{a}) + 1")


@family
def square_difference(sketch: Sketch, draw: Random, level: int) -> None:
    """The number of differences of squares that a number is."""
    n = 2
    while n % 4 == 2:  # those are no differences of squares
        n = composite(draw, 2 if level == 3 else 3, (600, 4_000, 30_000)[level - 3]) * (4 if level == 5 else 1)
    sketch.ask(n=n)
    m = n if n % 2 else n // 4
    if n % 2 == 0:
        sketch.step(f"Both factors x - y and x + y of {n} are even; what do their halves multiply to?", m, by=f"{n}/4")
    powers = _factorise(sketch, m).values()
    count = math.prod(power + 1 for power in powers)
    by = " * ".join(f"({power} + 1)" for power in powers)
    sketch.step(f"How many positive divisors does {m} have?", count, by=by)
    question = f"How many pairs of different factors u < v have the product {m}, which has {count} divisors?"
    sketch.step(question, count // 2, by=f"floor({count}/2)", wrong=(count,))


@family
def repeated_ones(sketch: Sketch, draw: Random, level: int) -> None:
    """The remainder of a number made of ones."""
    m = draw.choice((7, 13, 21, 27, 33, 37, 39) if level == 4 else (17, 19, 23, 29, 31, 41, 43, 47))
    n = draw.randint(100, 5_000)
    sketch.ask(n=n, m=m)
    rest, k = 1, 1
    while rest:
        rest, k = (10 * rest + 1) % m, k + 1
    sketch.step(f"How many ones has the shortest number 11…1 that {m} divides?", k)
    r = n % k
    sketch.step(f"What is {n} modulo {k}?", r, by=f"mod({n}, {k})")
    question = f"What is the remainder of the number made of {r} ones, which is (10^{r} - 1)/9, modulo {m}?"
    sketch.step(question, (10**r - 1) // 9 % m, by=f"mod((10^{r} - 1)/9, {m})")
