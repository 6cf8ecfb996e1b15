"""Families of problems about whole numbers: divisors, remainders, digits, equations."""

from __future__ import annotations

import math
from random import Random

from toolorchestra.envs.sources.math.sketch import Sketch, family

TOPIC = "number theory"
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


def factors(number: int) -> dict[int, int]:
    """Return the prime factors of a number and their exponents."""
    found: dict[int, int] = {}
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found[divisor] = found.get(divisor, 0) + 1
            number //= divisor
        divisor += 1
    if number > 1:
        found[number] = 1
    return found


def product(found: dict[int, int]) -> str:
    r"""Return a factorisation in LaTeX.

    >>> product({2: 3, 7: 1})
    '2^{3} \\cdot 7'
    """
    return r" \cdot ".join(f"{prime}^{{{power}}}" if power > 1 else str(prime) for prime, power in found.items())


def composite(draw: Random, primes: int, most: int) -> int:
    """Return a number with so many different small prime factors."""
    while True:
        number = 1
        for prime in draw.sample(PRIMES[:7], primes):
            number *= prime * prime ** draw.randint(0, 2)
        if number <= most:
            return number


def _cycle(base: int, modulus: int) -> int:
    power, length = base % modulus, 1
    while power != 1:
        power, length = power * base % modulus, length + 1
    return length


@family(TOPIC, 1, 2, 3)
def power_remainder(draw: Random, level: int) -> Sketch:
    """The remainder of a power."""
    m = 10 if level == 1 else draw.choice(PRIMES[3:9] if level == 2 else PRIMES[9:])
    a = draw.choice([a for a in range(2, 60) if math.gcd(a, m) == 1 and a % m > 1])
    n = draw.randint(*((12, 80), (50, 900), (1_000, 999_999))[level - 1])
    asked = (
        f"What is the remainder when ${a}^{{{n}}}$ is divided by {m}?",
        f"Find the least non-negative integer that is congruent to ${a}^{{{n}}}$ modulo {m}.",
    )
    statement = draw.choice(asked) if level > 1 else f"Find the units digit of ${a}^{{{n}}}$."
    sketch = Sketch(statement, a=a, n=n, m=m)
    k = _cycle(a, m)
    sketch.step(f"What is the least k > 0 with {a}^k congruent to 1 modulo {m}?", k, wrong=(m - 1, 2 * k))
    sketch.step(f"What is {n} modulo {k}?", n % k, by=f"mod({n}, {k})")
    sketch.step(f"What is {a}^{n % k} modulo {m}?", pow(a, n, m), by=f"powmod({a}, {n % k}, {m})")
    return sketch


@family(TOPIC, 1, 2, 3)
def divisor_count(draw: Random, level: int) -> Sketch:
    """The number of divisors."""
    n = composite(draw, min(level + 1, 3), (200, 3_000, 40_000)[level - 1])
    even = level == 3 and n % 2 == 0
    kind = "even positive divisors" if even else "positive divisors"
    sketch = Sketch(
        draw.choice((f"How many {kind} does {n} have?", f"Find the number of {kind} of {n}.")), n=n, even=even
    )
    found = factors(n)
    sketch.step(f"What is the prime factorisation of {n}?", product(found))
    choices = [power + 1 - (even and prime == 2) for prime, power in found.items()]
    total = math.prod(choices)
    asked = f"How many {kind} does {product(found)} have?"
    sketch.step(asked, total, by=" * ".join(map(str, choices)), wrong=(math.prod(found.values()), total - 2))
    return sketch


@family(TOPIC, 2, 3, 4)
def divisor_sum(draw: Random, level: int) -> Sketch:
    """The sum of divisors."""
    n = composite(draw, 2 if level == 2 else 3, (400, 4_000, 40_000)[level - 2])
    proper = level == 4
    what = "proper positive divisors (those less than the number itself)" if proper else "positive divisors"
    sketch = Sketch(f"Find the sum of the {what} of {n}.", n=n, proper=proper)
    found = factors(n)
    first = sketch.step(f"What is the prime factorisation of {n}?", product(found))
    sums = [sum(prime**i for i in range(power + 1)) for prime, power in found.items()]
    needs = [
        sketch.step(f"What is the sum of the powers of {prime} from {prime}^0 to {prime}^{power}?", total, first,
                    by=" + ".join(f"{prime}^{i}" for i in range(power + 1)))
        for (prime, power), total in zip(found.items(), sums, strict=True)
    ]  # fmt: skip
    total = math.prod(sums)
    asked = f"What is the sum of all positive divisors, the product of {', '.join(map(str, sums))}?"
    sketch.step(asked, total, *needs, by=" * ".join(map(str, sums)), wrong=(total - n,))
    if proper:
        sketch.step(f"What is {total} less {n} itself?", total - n, by=f"{total} - {n}", wrong=(total,))
    return sketch


@family(TOPIC, 1, 2)
def other_number(draw: Random, level: int) -> Sketch:
    """A number from another one, their greatest common divisor and least common multiple."""
    g = draw.randint(2, 9 * level)
    x, y = draw.choice([(x, y) for x in range(2, 8 * level) for y in range(2, 8 * level) if math.gcd(x, y) == 1])
    a, lcm = g * x, g * x * y
    asked = (
        f"The greatest common divisor of two positive integers is {g} and their least common multiple is {lcm}. "
        f"One of them is {a}. What is the other?",
        f"Positive integers m and n satisfy gcd(m, n) = {g} and lcm(m, n) = {lcm}. If m = {a}, find n.",
    )
    sketch = Sketch(draw.choice(asked), g=g, lcm=lcm, a=a)
    sketch.step(f"What is the product of the numbers, {g} * {lcm}?", g * lcm, by=f"{g} * {lcm}")
    sketch.step(f"What is {g * lcm} divided by {a}?", g * y, by=f"{g * lcm} / {a}", wrong=(lcm // a, y))
    return sketch


@family(TOPIC, 3, 4, 5)
def remainder_system(draw: Random, level: int) -> Sketch:
    """The smallest number with given remainders."""
    moduli = draw.sample([5, 7, 8, 9, 11, 13] if level < 5 else [7, 9, 11, 13, 16, 17], 2 if level == 3 else 3)
    x = draw.randint(max(moduli), math.prod(moduli) - 1)
    rests = [x % m for m in moduli]
    told = ", ".join(f"{r} when divided by {m}" for r, m in zip(rests[:-1], moduli[:-1], strict=True))
    statement = (
        f"What is the smallest positive integer that leaves remainder {told} and {rests[-1]} when divided by "
        f"{moduli[-1]}?"
    )
    sketch = Sketch(statement, rests=rests, moduli=moduli)
    known, modulus = rests[0], moduli[0]
    for r, m in zip(rests[1:], moduli[1:], strict=True):
        inverse = pow(modulus, -1, m)
        sketch.step(f"What is the inverse of {modulus} modulo {m}?", inverse)
        times = (r - known) * inverse % m
        asked = f"Which t from 0 to {m - 1} makes {known} + {modulus}t leave remainder {r} modulo {m}?"
        sketch.step(asked, times, by=f"mod(({r} - {known}) * {inverse}, {m})")
        value = known + modulus * times
        sketch.step(f"What is {known} + {modulus} * {times}?", value, by=f"{known} + {modulus} * {times}")
        known, modulus = value, modulus * m
    return sketch


@family(TOPIC, 2, 3, 4)
def factorial_power(draw: Random, level: int) -> Sketch:
    """The power of a prime in a factorial."""
    p = 5 if level == 2 else draw.choice((3, 5, 7) if level == 3 else (2, 3, 7, 11))
    n = draw.randint(*((30, 120), (100, 400), (400, 2_500))[level - 2])
    zeros = level == 2
    asked = (
        f"How many zeros are at the end of {n}! (the factorial)?"
        if zeros
        else f"Find the largest integer k such that ${p}^k$ divides ${n}!$."
    )
    sketch = Sketch(asked, n=n, p=p)
    counts, power, needs = [], p, []
    while power <= n:
        counts.append(n // power)
        asked = f"How many of the numbers 1 to {n} are multiples of {power}?"
        needs.append(sketch.first(asked, counts[-1], by=f"floor({n}/{power})"))
        power *= p
    total = " + ".join(map(str, counts))
    sketch.step(f"What is {total}?", sum(counts), *needs, by=total, wrong=(counts[0],))
    return sketch


@family(TOPIC, 2, 3, 4)
def digit_sum(draw: Random, level: int) -> Sketch:
    """The digits of a power of ten less a number."""
    d = level
    k = draw.randint(10 ** (d - 1) + 1, 10**d - 1)
    n = draw.randint(20, 60 * level)
    sketch = Sketch(f"What is the sum of the digits of $10^{{{n}}} - {k}$?", n=n, k=k)
    tail = 10**d - k
    first = sketch.step(f"What is 10^{d} - {k}?", tail, by=f"10^{d} - {k}")
    rest = sum(map(int, str(tail)))
    second = sketch.step(f"What is the sum of the digits of {tail}?", rest, first)
    nines = sketch.first(f"What do the {n - d} nines before these {d} digits add up to?", 9 * (n - d),
                         by=f"9*({n} - {d})", wrong=(9 * n,))  # fmt: skip
    sketch.step(f"What is {9 * (n - d)} + {rest}?", 9 * (n - d) + rest, second, nines, by=f"{9 * (n - d)} + {rest}")
    return sketch


@family(TOPIC, 2, 3, 4)
def multiples_count(draw: Random, level: int) -> Sketch:
    """How many numbers some divide and others do not."""
    a, b, c = draw.sample((3, 4, 5, 6, 7, 8, 9, 10, 11), 3)
    n = draw.randint(100, 500 * level)
    without = level > 2
    extra = f" but not of {c}" if without else ""
    asked = (
        f"How many of the integers from 1 to {n} are multiples of {a} or of {b}{extra}?",
        f"How many positive integers not exceeding {n} are multiples of {a} or {b}{extra}?",
    )
    sketch = Sketch(draw.choice(asked), n=n, a=a, b=b, c=c if without else 0)
    ab = math.lcm(a, b)
    first = sketch.step(f"What is the least common multiple of {a} and {b}?", ab, by=f"lcm({a}, {b})", wrong=(a * b,))
    by = f"floor({n}/{a}) + floor({n}/{b}) - floor({n}/{ab})"
    total = n // a + n // b - n // ab
    either = sketch.step(f"How many of 1 to {n} are divisible by {a} or {b}?", total, first, by=by,
                         wrong=(n // a + n // b,))  # fmt: skip
    if without:
        ac, bc, abc = math.lcm(a, c), math.lcm(b, c), math.lcm(ab, c)
        lost = n // ac + n // bc - n // abc
        by = f"floor({n}/{ac}) + floor({n}/{bc}) - floor({n}/{abc})"
        asked_step = f"How many of 1 to {n} are divisible by {c}, and by {a} or {b}?"
        last = sketch.step(asked_step, lost, first, by=by, wrong=(n // c,))
        sketch.step(f"What is {total} - {lost}?", total - lost, either, last, by=f"{total} - {lost}")
    return sketch


@family(TOPIC, 2, 3, 4)
def coprime_count(draw: Random, level: int) -> Sketch:
    """How many numbers have no factor in common with one."""
    n = composite(draw, 2 if level == 2 else 3, (300, 3_000, 30_000)[level - 2])
    asked = (
        f"How many integers from 1 to {n} have no common factor with {n} other than 1?",
        f"How many positive integers less than {n} are relatively prime to {n}?",
    )
    sketch = Sketch(draw.choice(asked), n=n)
    found = factors(n)
    total = math.prod(prime ** (power - 1) * (prime - 1) for prime, power in found.items())
    sketch.step(f"What is the prime factorisation of {n}?", product(found))
    by = f"{n} * " + " * ".join(f"(1 - 1/{prime})" for prime in found)
    sketch.step(f"What is {n} times (1 - 1/p) for each of its primes p?", total, by=by)
    return sketch


@family(TOPIC, 1, 2, 3)
def base_sum(draw: Random, level: int) -> Sketch:
    """The sum of two numerals in another base."""
    b = draw.randint(4, 9)
    x, y = (draw.randint(b ** (level + 1), b ** (level + 2) - 1) for _ in "xy")

    def digits(number: int) -> str:
        shown = ""
        while number:
            number, digit = divmod(number, b)
            shown = str(digit) + shown
        return shown

    asked = (
        f"What is the value in base ten of ${digits(x)}_{{{b}}} + {digits(y)}_{{{b}}}$, both in base {b}?",
        f"Two numerals in base {b} read {digits(x)} and {digits(y)}. Write their sum in base ten.",
    )
    sketch = Sketch(draw.choice(asked), b=b, x=digits(x), y=digits(y))
    needs = [
        sketch.first(f"What is the base {b} numeral {shown} in base ten?", value,
                     by=" + ".join(f"{digit}*{b}^{i}" for i, digit in enumerate(reversed(shown))))
        for shown, value in ((digits(x), x), (digits(y), y))
    ]  # fmt: skip
    sketch.step(f"What is {x} + {y}?", x + y, *needs, by=f"{x} + {y}")
    return sketch


@family(TOPIC, 3, 4)
def payment_ways(draw: Random, level: int) -> Sketch:
    """The number of positive solutions of a linear equation."""
    a, b = draw.choice([(a, b) for a in range(3, 12) for b in range(a + 1, 16) if math.gcd(a, b) == 1])
    n = draw.randint(10 * b, 40 * b * (level - 2))
    sketch = Sketch(f"How many pairs of positive integers $(x, y)$ satisfy ${a}x + {b}y = {n}$?", a=a, b=b, n=n)
    y0 = next((y for y in range(1, a + 1) if (n - b * y) % a == 0), 0)
    sketch.step(f"What is the inverse of {b} modulo {a}?", pow(b, -1, a))
    sketch.step(f"What is the least y > 0 for which {a} divides {n} - {b}y?", y0)
    top = (n - a) // b
    last = sketch.first(f"What is the largest y with {b}y at most {n} - {a}?", top, by=f"floor(({n} - {a})/{b})")
    total = (top - y0) // a + 1
    asked = f"How many of {y0}, {y0 + a}, {y0 + 2 * a}, … are at most {top}?"
    sketch.step(asked, total, 1, last, by=f"floor(({top} - {y0})/{a}) + 1")
    return sketch


@family(TOPIC, 3, 4, 5)
def square_difference(draw: Random, level: int) -> Sketch:
    """The number of differences of squares that a number is."""
    while True:
        n = composite(draw, 2 if level == 3 else 3, (600, 4_000, 30_000)[level - 3]) * (4 if level == 5 else 1)
        if n % 4 != 2:
            break
    sketch = Sketch(f"How many ordered pairs $(x, y)$ of positive integers satisfy $x^2 - y^2 = {n}$?", n=n)
    m = n if n % 2 else n // 4
    found = factors(m)
    if n % 2 == 0:
        sketch.step(f"Both factors x - y and x + y of {n} are even; what do their halves multiply to?", m, by=f"{n}/4")
    sketch.step(f"What is the prime factorisation of {m}?", product(found) or "1")
    count = math.prod(power + 1 for power in found.values())
    sketch.step(
        f"How many positive divisors does {m} have?", count, by=" * ".join(f"({p} + 1)" for p in found.values())
    )
    asked = f"How many pairs of different factors u < v have the product {m}, which has {count} divisors?"
    sketch.step(asked, count // 2, by=f"floor({count}/2)", wrong=(count,))
    return sketch


@family(TOPIC, 4, 5)
def repeated_ones(draw: Random, level: int) -> Sketch:
    """The remainder of a number made of ones."""
    m = draw.choice((7, 13, 21, 27, 33, 37, 39) if level == 4 else (17, 19, 23, 29, 31, 41, 43, 47))
    n = draw.randint(100, 5_000)
    sketch = Sketch(f"What is the remainder when the number made of {n} ones, 111…1, is divided by {m}?", n=n, m=m)
    rest, k = 1 % m, 1
    while rest:
        rest, k = (10 * rest + 1) % m, k + 1
    sketch.step(f"How many ones has the shortest number 11…1 that {m} divides?", k)
    sketch.step(f"What is {n} modulo {k}?", n % k, by=f"mod({n}, {k})")
    r = n % k
    asked = f"What is the remainder of the number made of {r} ones, which is (10^{r} - 1)/9, modulo {m}?"
    sketch.step(asked, (10**r - 1) // 9 % m, by=f"mod((10^{r} - 1)/9, {m})")
    return sketch
