"""Families of problems of algebra, and about sequences."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

from toolorchestra.envs.sources.math.sketch import Sketch, family
from toolorchestra.toolscale.symbolic import Value, root, symbol

ALGEBRA = "algebra"
SEQUENCES = "sequences"
_X = symbol("x")


def _term(factor: int, name: str) -> str:
    """Return a term of a sum, with its sign: ``+ 3x``, ``- x``, or nothing for 0."""
    if not factor:
        return ""
    size = "" if abs(factor) == 1 and name else str(abs(factor))
    return f" {'-' if factor < 0 else '+'} {size}{name}"


def _plain(text: str) -> str:
    """Return a sum without the sign of its first term, if that is plus."""
    text = text.strip()
    return text.removeprefix("+ ") if text.startswith("+") else text.replace("- ", "-", 1)


@family(ALGEBRA, 2, 3, 4, 5)
def root_powers(draw: Random, level: int) -> Sketch:
    """The sum of equal powers of the roots of a quadratic equation."""
    s, p = draw.choice([s for s in range(-9, 10) if s]), draw.choice([p for p in range(-9, 10) if p])
    n = level
    statement = f"Let r and s be the roots of $x^2{_term(-s, 'x')}{_term(p, '')} = 0$. What is $r^{{{n}}} + s^{{{n}}}$?"
    sketch = Sketch(statement, s=s, p=p, n=n)
    sums = [2, s]
    sketch.step("What is r + s?", s, wrong=(-s,))
    sketch.first("What is rs?", p, wrong=(-p,))
    for k in range(2, n + 1):
        by = f"({s}) * ({sums[-1]}) - ({p}) * ({sums[-2]})"
        sums.append(s * sums[-1] - p * sums[-2])
        earlier = {0, 1, *range(max(2, k - 2), k)}  # the step of each power sum from 2 on stands at its number
        sketch.step(f"What is r^{k} + s^{k}, which is {by}?", sums[-1], *earlier, by=by)
    return sketch


@family(ALGEBRA, 2, 3, 4)
def reciprocal_powers(draw: Random, level: int) -> Sketch:
    """Powers of a number and its reciprocal, from their sum."""
    k, n = draw.randint(3, 12), level
    asked = (
        f"If $x + \\frac{{1}}{{x}} = {k}$, what is $x^{{{n}}} + \\frac{{1}}{{x^{{{n}}}}}$?",
        f"A real number x satisfies $x + 1/x = {k}$. Find the value of $x^{{{n}}} + 1/x^{{{n}}}$.",
    )
    sketch = Sketch(draw.choice(asked), k=k, n=n)
    square = k * k - 2
    sketch.step(f"What is x^2 + 1/x^2, which is {k}^2 - 2?", square, by=f"{k}^2 - 2", wrong=(k * k, k * k + 2))
    if n == 3:
        by = f"{k} * {square} - {k}"
        sketch.step("What is x^3 + 1/x^3?", k * square - k, by=by, wrong=(k**3, k * square))
    elif n == 4:
        sketch.step(f"What is x^4 + 1/x^4, which is {square}^2 - 2?", square**2 - 2, by=f"{square}^2 - 2",
                    wrong=(square**2,))  # fmt: skip
    return sketch


@family(ALGEBRA, 1, 2, 3)
def linear_system(draw: Random, level: int) -> Sketch:
    """The product of the solutions of a linear system."""
    x, y, z = (draw.randint(-3 * level, 6 * level) for _ in "xyz")
    if level < 3:
        while True:
            a, b, c, d = (draw.randint(1, 3 + 2 * level) for _ in "abcd")
            d = -d
            if a * d != b * c:
                break
        first, second = a * x + b * y, c * x + d * y
        statement = (
            f"The numbers x and y satisfy ${_plain(_term(a, 'x') + _term(b, 'y'))} = {first}$ and "
            f"${_plain(_term(c, 'x') + _term(d, 'y'))} = {second}$. What is $xy$?"
        )
        sketch = Sketch(statement, rows=[[a, b, first], [c, d, second]])
        det = a * d - b * c
        sketch.step("What is the determinant of the system?", det, by=f"({a}) * ({d}) - ({b}) * ({c})")
        by = f"(({first}) * ({d}) - ({b}) * ({second})) / ({det})"
        sketch.step("What is x?", x, by=by)
        sketch.step("What is y?", y, 0, by=f"(({a}) * ({second}) - ({first}) * ({c})) / ({det})")
        sketch.step(f"What is ({x}) * ({y})?", x * y, 1, 2, by=f"({x}) * ({y})")
        return sketch
    p, q, r = x + y, y + z, z + x
    statement = f"Three numbers have the pairwise sums $x + y = {p}$, $y + z = {q}$, $z + x = {r}$. What is $xyz$?"
    sketch = Sketch(statement, rows=[[1, 1, 0, p], [0, 1, 1, q], [1, 0, 1, r]])
    half = x + y + z
    sketch.step("What is x + y + z?", half, by=f"(({p}) + ({q}) + ({r})) / 2", wrong=(2 * half,))
    needs = [
        sketch.step(f"What is {name}?", value, 0, by=f"({half}) - ({other})")
        for name, value, other in (("x", x, q), ("y", y, r), ("z", z, p))
    ]
    sketch.step(f"What is ({x}) * ({y}) * ({z})?", x * y * z, *needs, by=f"({x}) * ({y}) * ({z})")
    return sketch


@family(ALGEBRA, 2, 3)
def larger_root(draw: Random, level: int) -> Sketch:
    """The larger root of a quadratic equation."""
    while True:
        a, b, c = (1 if level == 2 else draw.randint(2, 5)), draw.randint(-9, 9), draw.randint(-12, 8)
        disc = b * b - 4 * a * c
        if disc > 0 and math.isqrt(disc) ** 2 != disc and b and c:
            break
    equation = f"{_plain(_term(a, 'x^2') + _term(b, 'x') + _term(c, ''))} = 0"
    sketch = Sketch(f"What is the larger solution of ${equation}$? Give the exact value.", a=a, b=b, c=c)
    by = f"({b})^2 - 4 * {a} * ({c})"
    sketch.step(f"What is the discriminant of {equation}?", disc, by=by, wrong=(b * b + 4 * a * c,))
    sketch.step(f"What is the square root of {disc}, simplified?", root(disc), by=f"sqrt({disc})")
    answer = (root(disc) - b) / (2 * a)
    wrong = ((root(disc) + b) / (2 * a), (-root(disc) - b) / (2 * a))
    sketch.step("What is the larger solution?", answer, by=f"(-({b}) + sqrt({disc})) / (2 * {a})", wrong=wrong)
    return sketch


@family(ALGEBRA, 3, 4)
def polynomial_remainder(draw: Random, level: int) -> Sketch:
    """The remainder of a polynomial division."""
    coefficients = [draw.choice([c for c in range(-6, 7) if c]), *(draw.randint(-6, 6) for _ in range(level))]
    a, b = draw.sample([-3, -2, -1, 1, 2, 3], 2)
    degree = len(coefficients) - 1
    powers = [f"x^{degree - i}" for i in range(degree - 1)] + ["x", ""]
    shown = _plain("".join(_term(c, power) for c, power in zip(coefficients, powers, strict=True)))
    divisor = f"(x{_term(-a, '')})(x{_term(-b, '')})".replace(" ", "")
    sketch = Sketch(
        f"What is the remainder when the polynomial ${shown}$ is divided by ${divisor}$? Answer as a polynomial in x.",
        coefficients=coefficients, a=a, b=b,
    )  # fmt: skip

    def at(x: int) -> int:
        return sum(c * x ** (degree - i) for i, c in enumerate(coefficients))

    def by(x: int) -> str:
        return " + ".join(f"({c}) * ({x})^{degree - i}" for i, c in enumerate(coefficients))

    first = sketch.step(f"What is the polynomial's value at x = {a}?", at(a), by=by(a))
    second = sketch.first(f"What is the polynomial's value at x = {b}?", at(b), by=by(b))
    slope = Fraction(at(a) - at(b), a - b)
    third = sketch.step("What is the slope of the line through these two points?", slope, first, second,
                        by=f"(({at(a)}) - ({at(b)})) / (({a}) - ({b}))")  # fmt: skip
    fourth = sketch.step("What is the line's value at x = 0?", at(a) - slope * a, first, third,
                         by=f"({at(a)}) - ({slope}) * ({a})")  # fmt: skip
    line = slope * _X + (at(a) - slope * a)
    sketch.step("Which polynomial is the line?", line, third, fourth, wrong=(slope * _X - (at(a) - slope * a),))
    return sketch


@family(ALGEBRA, 1, 2, 3)
def composed_functions(draw: Random, level: int) -> Sketch:
    """One polynomial of another."""
    a, b, c, d = (draw.choice([n for n in range(-6, 7) if n]) for _ in "abcd")
    inner = c * _X + d if level < 3 else c * _X**2 + d
    outer = f"{_plain(_term(a, 'x') + _term(b, ''))}" if level == 1 else f"{_plain(_term(a, 'x^2') + _term(b, ''))}"
    result = a * inner + b if level == 1 else a * inner**2 + b
    statement = (
        f"Let $f(x) = {outer}$ and $g(x) = {_plain(_term(c, 'x' if level < 3 else 'x^2') + _term(d, ''))}$. "
        "Write $f(g(x))$ as a polynomial in x, multiplied out."
    )
    sketch = Sketch(statement, a=a, b=b, c=c, d=d, level=level)
    if level > 1:
        sketch.step(f"What is ({inner})^2, multiplied out?", inner**2, by=f"({inner})^2")
    else:
        sketch.step(f"What is {a} times ({inner})?", a * inner, by=f"{a} * ({inner})")
    wrong = (c * (a * _X + b) + d,) if level == 1 else (a * inner**2, a * (inner + b) ** 2)
    sketch.step("What is f(g(x))?", result, wrong=wrong)
    return sketch


@family(ALGEBRA, 2, 3)
def rational_denominator(draw: Random, level: int) -> Sketch:
    """A quotient without roots below."""
    a, b = draw.sample((2, 3, 5, 6, 7, 10, 11, 13), 2)
    c = draw.randint(1, 9)
    sign = draw.choice("+-")
    over = f"\\sqrt{{{a}}}" if level == 3 else str(c)
    shown = f"\\frac{{{over}}}{{\\sqrt{{{a}}} {sign} \\sqrt{{{b}}}}}"
    sketch = Sketch(f"Simplify ${shown}$ so that its denominator has no root.", a=a, b=b, c=c, sign=sign, level=level)
    top = root(a) if level == 3 else Value.of(c)
    other = root(a) - root(b) if sign == "+" else root(a) + root(b)
    first = sketch.step(f"What is the numerator times the conjugate, {top} * ({other})?",
                        top * other, by=f"{top} * ({other})")  # fmt: skip
    second = sketch.first("What is the denominator times its conjugate?", a - b, by=f"{a} - {b}", wrong=(a + b,))
    sketch.step("What is their quotient?", top * other / (a - b), first, second, by=f"({top * other}) / ({a - b})")
    return sketch


@family(ALGEBRA, 1, 2, 3)
def shared_work(draw: Random, level: int) -> Sketch:
    """The time that several need together."""
    hours = draw.sample(range(2, 6 + 4 * level), 2 if level < 3 else 3)
    who = ("two pumps", "three pumps")[len(hours) - 2]
    told = " and ".join(map(str, hours)) if len(hours) == 2 else f"{hours[0]}, {hours[1]} and {hours[2]}"
    leak = draw.randint(30, 60) if level == 2 else 0
    extra = f" A leak would empty the full tank in {leak} hours." if leak else ""
    statement = (
        f"Alone, {who} fill a tank in {told} hours.{extra} How many hours do they need together, starting empty?"
    )
    sketch = Sketch(statement, hours=hours, leak=leak)
    rate = sum((Fraction(1, h) for h in hours), Fraction(0)) - (Fraction(1, leak) if leak else 0)
    by = " + ".join(f"1/{h}" for h in hours) + (f" - 1/{leak}" if leak else "")
    sketch.step("What part of the tank is filled in an hour?", rate, by=by)
    sketch.step(
        "How many hours does the whole tank take?", 1 / rate, by=f"1 / ({rate})", wrong=(Fraction(sum(hours), 2),)
    )
    return sketch


@family(ALGEBRA, 2, 3)
def smallest_value(draw: Random, level: int) -> Sketch:
    """The smallest value of a quadratic polynomial."""
    a = 1 if level == 2 else draw.randint(2, 7)
    b, c = draw.choice([b for b in range(-15, 16) if b]), draw.randint(-20, 20)
    shown = _plain(_term(a, "x^2") + _term(b, "x") + _term(c, ""))
    sketch = Sketch(f"What is the smallest value of ${shown}$ for real x?", a=a, b=b, c=c)
    place = Fraction(-b, 2 * a)
    sketch.step(f"At which x is {shown} smallest?", place, by=f"-({b}) / (2 * {a})", wrong=(-place,))
    value = a * place**2 + b * place + c
    by = f"{a} * ({place})^2 + ({b}) * ({place}) + ({c})"
    sketch.step(f"What is its value at x = {place}?", value, by=by, wrong=(place,))
    return sketch


# --------------------------------------------------------------------------------------------------- sequences


@family(SEQUENCES, 3, 4)
def telescoping_sum(draw: Random, level: int) -> Sketch:
    """A sum whose terms cancel."""
    n, d = draw.randint(6, 20 * (level - 1)), level - 2
    shown = "k(k+1)" if d == 1 else f"k(k+{d})"
    sketch = Sketch(f"Find $\\sum_{{k=1}}^{{{n}}} \\frac{{1}}{{{shown}}}$ as a fraction in lowest terms.", n=n, d=d)
    kept = sum((Fraction(1, k) for k in range(1, d + 1)), Fraction(0))
    lost = sum((Fraction(1, n + k) for k in range(1, d + 1)), Fraction(0))
    first = sketch.step("What do the terms at the beginning that do not cancel add up to?", kept,
                        by=" + ".join(f"1/{k}" for k in range(1, d + 1)))  # fmt: skip
    second = sketch.first("What do the terms at the end that do not cancel add up to?", lost,
                          by=" + ".join(f"1/{n + k}" for k in range(1, d + 1)))  # fmt: skip
    sketch.step(
        "What is the sum?", (kept - lost) / d, first, second, by=f"({kept} - {lost}) / {d}", wrong=(kept - lost,)
    )
    return sketch


@family(SEQUENCES, 1, 2, 3)
def arithmetic_sum(draw: Random, level: int) -> Sketch:
    """The sum of an arithmetic sequence, from two terms."""
    first, gap = draw.randint(-5 * level, 10 * level), draw.choice([g for g in range(-4, 3 + 4 * level) if g])
    i = draw.randint(2, 5)
    j = i + draw.randint(2, 5 * level)
    n = draw.randint(10, 20 * level)
    at = [first + gap * (k - 1) for k in (i, j)]
    statement = (
        f"In an arithmetic sequence, term number {i} is {at[0]} and term number {j} is {at[1]}. "
        f"What is the sum of the first {n} terms?"
    )
    sketch = Sketch(statement, i=i, j=j, terms=at, n=n)
    sketch.step("What is the common difference?", gap, by=f"(({at[1]}) - ({at[0]})) / ({j} - {i})")
    sketch.step("What is the first term?", first, by=f"({at[0]}) - {i - 1} * ({gap})")
    total = n * first + gap * n * (n - 1) // 2
    by = f"{n} * (2 * ({first}) + {n - 1} * ({gap})) / 2"
    sketch.step(f"What is the sum of the first {n} terms?", total, 0, 1, by=by, wrong=(n * (first + gap * n),))
    return sketch


@family(SEQUENCES, 2, 3)
def geometric_total(draw: Random, level: int) -> Sketch:
    """The sum of a geometric series, from two terms."""
    ratio = Fraction(draw.choice((-1, 1)) * draw.randint(1, 4), draw.randint(5, 9))
    first = Fraction(draw.randint(1, 20), 1 if level == 2 else draw.randint(1, 6))
    second = first * ratio
    statement = f"An infinite geometric series begins ${first}, {second}, \\dots$. What is its sum?"
    sketch = Sketch(statement, first=str(first), second=str(second))
    sketch.step("What is the common ratio?", ratio, by=f"({second}) / ({first})", wrong=(1 / ratio,))
    wrong = (first / (1 + ratio),)
    sketch.step("What is the sum of the series?", first / (1 - ratio), by=f"({first}) / (1 - ({ratio}))", wrong=wrong)
    return sketch


@family(SEQUENCES, 2, 3, 4, 5)
def recurrence(draw: Random, level: int) -> Sketch:
    """A term of a linear recurrence, or its remainder."""
    p, q = draw.randint(1, 3), draw.choice((-2, -1, 1, 2, 3))
    terms = [draw.randint(0, 4), draw.randint(1, 5)]
    n = 2 + level if level < 5 else draw.randint(30, 60)
    m = draw.choice((7, 9, 11)) if level == 5 else 0
    rule = f"a_{{k+1}} = {_plain(_term(p, 'a_k') + _term(q, 'a_{k-1}'))}"
    end = f"What is the remainder when $a_{{{n}}}$ is divided by {m}?" if m else f"What is $a_{{{n}}}$?"
    statement = f"A sequence has $a_0 = {terms[0]}$, $a_1 = {terms[1]}$ and ${rule}$ for $k \\ge 1$. {end}"
    sketch = Sketch(statement, p=p, q=q, start=terms.copy(), n=n, m=m)
    if not m:
        for k in range(2, n + 1):
            by = f"{p} * ({terms[-1]}) + ({q}) * ({terms[-2]})"
            terms.append(p * terms[-1] + q * terms[-2])
            sketch.step(f"What is a_{k}?", terms[-1], *range(max(0, k - 4), k - 2), by=by)
        return sketch
    pairs: list[tuple[int, int]] = []
    pair = (terms[0] % m, terms[1] % m)
    while pair not in pairs:
        pairs.append(pair)
        pair = (pair[1], (p * pair[1] + q * pair[0]) % m)
    start = pairs.index(pair)
    period = len(pairs) - start
    sketch.step(f"After how many terms do the remainders modulo {m} repeat (from a_{start} on)?", period)
    place = start + (n - start) % period if n >= start else n
    asked = f"Which of the terms a_{start} to a_{start + period - 1} has the remainder of a_{n}, by its number?"
    sketch.step(asked, place, by=f"{start} + mod({n} - {start}, {period})")
    sketch.step(f"What is a_{place} modulo {m}?", pairs[place][0])
    return sketch
