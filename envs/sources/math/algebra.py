"""Families of problems of algebra, and about sequences."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

from toolorchestra.envs.sources.math.sketch import Sketch, family
from toolorchestra.toolscale.answers.symbolic import Value, root, symbol

_X = symbol("x")


def _term(factor: int, name: str) -> str:
    """Return a term of a sum, with its sign: ``+ 3x``, ``- x``, or nothing for 0."""
    if not factor:
        return ""
    size = "" if abs(factor) == 1 and name else str(abs(factor))
    return f" {'-' if factor < 0 else '+'} {size}{name}"


def _sum(*terms: tuple[int, str]) -> str:
    """Return a sum of terms, without the sign of the first one if that is plus."""
    text = "".join(_term(factor, name) for factor, name in terms).strip()
    return text.removeprefix("+ ") if text.startswith("+") else text.replace("- ", "-", 1)


def _nonzero(draw: Random, most: int) -> int:
    """Return a number from -`most` to `most` that is not 0."""
    return draw.choice([number for number in range(-most, most + 1) if number])


@family
def root_powers(sketch: Sketch, draw: Random, level: int) -> None:
    """The sum of equal powers of the roots of a quadratic equation."""
    s, p = _nonzero(draw, 9), _nonzero(draw, 9)
    sketch.ask({"linear": _term(-s, "x"), "constant": _term(p, "")}, s=s, p=p, n=level)
    sums = [2, s]
    sketch.step("What is r + s?", s, wrong=(-s,))
    sketch.first("What is rs?", p, wrong=(-p,))
    for k in range(2, level + 1):
        by = f"({s}) * ({sums[-1]}) - ({p}) * ({sums[-2]})"
        sums.append(s * sums[-1] - p * sums[-2])
        earlier = {0, 1, *range(max(2, k - 2), k)}  # the step of each power sum from 2 on stands at its number
        sketch.step(f"What is r^{k} + s^{k}, which is {by}?", sums[-1], *earlier, by=by)


@family
def reciprocal_powers(sketch: Sketch, draw: Random, level: int) -> None:
    """Powers of a number and its reciprocal, from their sum."""
    k = draw.randint(3, 12)
    sketch.ask(k=k, n=level)
    square = k * k - 2
    sketch.step(f"What is x^2 + 1/x^2, which is {k}^2 - 2?", square, by=f"{k}^2 - 2", wrong=(k * k, k * k + 2))
    if level == 3:
        by = f"{k} * {square} - {k}"
        sketch.step("What is x^3 + 1/x^3?", k * square - k, by=by, wrong=(k**3, k * square))
    elif level == 4:
        by = f"{square}^2 - 2"
        sketch.step(f"What is x^4 + 1/x^4, which is {by}?", square**2 - 2, by=by, wrong=(square**2,))


@family
def linear_system(sketch: Sketch, draw: Random, level: int) -> None:
    """The product of the solutions of a linear system."""
    x, y, z = (draw.randint(-3 * level, 6 * level) for _ in "xyz")
    if level == 3:
        _pairwise_sums(sketch, x, y, z)
        return
    while True:
        a, b, c, d = (draw.randint(1, 3 + 2 * level) for _ in "abcd")
        d = -d
        if a * d != b * c:
            break
    first, second, det = a * x + b * y, c * x + d * y, a * d - b * c
    equations = {"one": _sum((a, "x"), (b, "y")), "other": _sum((c, "x"), (d, "y"))}
    sketch.ask(equations, rows=[[a, b, first], [c, d, second]])
    sketch.step("What is the determinant of the system?", det, by=f"({a}) * ({d}) - ({b}) * ({c})")
    sketch.step("What is x?", x, by=f"(({first}) * ({d}) - ({b}) * ({second})) / ({det})")
    sketch.step("What is y?", y, 0, by=f"(({a}) * ({second}) - ({first}) * ({c})) / ({det})")
    sketch.calculate(f"({x}) * ({y})", x * y, 1, 2)


def _pairwise_sums(sketch: Sketch, x: int, y: int, z: int) -> None:
    p, q, r = x + y, y + z, z + x
    rows = [[1, 1, 0, p], [0, 1, 1, q], [1, 0, 1, r]]
    sketch.ask({"p": p, "q": q, "r": r}, variant="sums", rows=rows)
    half = x + y + z
    sketch.step("What is x + y + z?", half, by=f"(({p}) + ({q}) + ({r})) / 2", wrong=(2 * half,))
    for name, value, other in (("x", x, q), ("y", y, r), ("z", z, p)):
        sketch.step(f"What is {name}?", value, 0, by=f"({half}) - ({other})")
    sketch.calculate(f"({x}) * ({y}) * ({z})", x * y * z, 1, 2, 3)


@family
def larger_root(sketch: Sketch, draw: Random, level: int) -> None:
    """The larger root of a quadratic equation."""
    while True:
        a, b, c = (1 if level == 2 else draw.randint(2, 5)), draw.randint(-9, 9), draw.randint(-12, 8)
        disc = b * b - 4 * a * c
        if disc > 0 and math.isqrt(disc) ** 2 != disc and b and c:
            break
    equation = f"{_sum((a, 'x^2'), (b, 'x'), (c, ''))} = 0"
    sketch.ask({"equation": equation}, a=a, b=b, c=c)
    by = f"({b})^2 - 4 * {a} * ({c})"
    sketch.step(f"What is the discriminant of {equation}?", disc, by=by, wrong=(b * b + 4 * a * c,))
    distance = root(disc)
    sketch.step(f"What is the square root of {disc}, simplified?", distance, by=f"sqrt({disc})")
    answer, *wrong = ((number / (2 * a)) for number in (distance - b, distance + b, -distance - b))
    sketch.step("What is the larger solution?", answer, by=f"(-({b}) + sqrt({disc})) / (2 * {a})", wrong=wrong)


@family
def polynomial_remainder(sketch: Sketch, draw: Random, level: int) -> None:
    """The remainder of a polynomial division."""
    coefficients = [_nonzero(draw, 6), *(draw.randint(-6, 6) for _ in range(level))]
    a, b = draw.sample([-3, -2, -1, 1, 2, 3], 2)
    powers = [*((c, f"x^{level - i}") for i, c in enumerate(coefficients[:-2])), (coefficients[-2], "x")]
    divisor = f"(x{_term(-a, '')})(x{_term(-b, '')})".replace(" ", "")
    shown = _sum(*powers, (coefficients[-1], ""))
    sketch.ask({"shown": shown, "divisor": divisor}, coefficients=coefficients, a=a, b=b)

    def value_at(x: int) -> int:
        by = " + ".join(f"({c}) * ({x})^{level - i}" for i, c in enumerate(coefficients))
        value: int = sum(c * x ** (level - i) for i, c in enumerate(coefficients))
        sketch.first(f"What is the polynomial's value at x = {x}?", value, by=by)
        return value

    at_a, at_b = value_at(a), value_at(b)
    slope = Fraction(at_a - at_b, a - b)
    constant = at_a - slope * a
    by = f"(({at_a}) - ({at_b})) / (({a}) - ({b}))"
    sketch.step("What is the slope of the line through these two points?", slope, 0, 1, by=by)
    sketch.step("What is the line's value at x = 0?", constant, 0, 2, by=f"({at_a}) - ({slope}) * ({a})")
    sketch.step("Which polynomial is the line?", slope * _X + constant, 2, 3, wrong=(slope * _X - constant,))


@family
def composed_functions(sketch: Sketch, draw: Random, level: int) -> None:
    """One polynomial of another."""
    a, b, c, d = (_nonzero(draw, 6) for _ in "abcd")
    inner = c * _X + d if level < 3 else c * _X**2 + d
    words = {
        "outer": _sum((a, "x" if level == 1 else "x^2"), (b, "")),
        "inner": _sum((c, "x" if level < 3 else "x^2"), (d, "")),
    }
    sketch.ask(words, a=a, b=b, c=c, d=d, level=level)
    if level == 1:
        sketch.step(f"What is {a} times ({inner})?", a * inner, by=f"{a} * ({inner})")
        sketch.step("What is f(g(x))?", a * inner + b, wrong=(c * (a * _X + b) + d,))
    else:
        sketch.step(f"What is ({inner})^2, multiplied out?", inner**2, by=f"({inner})^2")
        sketch.step("What is f(g(x))?", a * inner**2 + b, wrong=(a * inner**2, a * (inner + b) ** 2))


@family
def rational_denominator(sketch: Sketch, draw: Random, level: int) -> None:
    """A quotient without roots below."""
    a, b = draw.sample((2, 3, 5, 6, 7, 10, 11, 13), 2)
    c = draw.randint(1, 9)
    sign = draw.choice("+-")
    sketch.ask({"over": f"\\sqrt{{{a}}}" if level == 3 else c}, a=a, b=b, c=c, sign=sign, level=level)
    top = root(a) if level == 3 else Value.of(c)
    other = root(a) - root(b) if sign == "+" else root(a) + root(b)
    by = f"{top} * ({other})"
    sketch.step(f"What is the numerator times the conjugate, {by}?", top * other, by=by)
    sketch.first("What is the denominator times its conjugate?", a - b, by=f"{a} - {b}", wrong=(a + b,))
    sketch.step("What is their quotient?", top * other / (a - b), 0, 1, by=f"({top * other}) / ({a - b})")


@family
def shared_work(sketch: Sketch, draw: Random, level: int) -> None:
    """The time that several need together."""
    hours = draw.sample(range(2, 6 + 4 * level), 2 if level < 3 else 3)
    leak = draw.randint(30, 60) if level == 2 else 0
    words = {
        "who": "two" if level < 3 else "three",
        "alone": f"{', '.join(map(str, hours[:-1]))} and {hours[-1]}",
        "extra": f" A leak would empty the full tank in {leak} hours." if leak else "",
    }
    sketch.ask(words, hours=hours, leak=leak)
    rate = sum((Fraction(1, h) for h in hours), Fraction(0)) - (Fraction(1, leak) if leak else 0)
    by = " + ".join(f"1/{h}" for h in hours) + (f" - 1/{leak}" if leak else "")
    sketch.step("What part of the tank is filled in an hour?", rate, by=by)
    mean = Fraction(sum(hours), 2)
    sketch.step("How many hours does the whole tank take?", 1 / rate, by=f"1 / ({rate})", wrong=(mean,))


@family
def smallest_value(sketch: Sketch, draw: Random, level: int) -> None:
    """The smallest value of a quadratic polynomial."""
    a = 1 if level == 2 else draw.randint(2, 7)
    b, c = _nonzero(draw, 15), draw.randint(-20, 20)
    shown = _sum((a, "x^2"), (b, "x"), (c, ""))
    sketch.ask({"shown": shown}, a=a, b=b, c=c)
    place = Fraction(-b, 2 * a)
    sketch.step(f"At which x is {shown} smallest?", place, by=f"-({b}) / (2 * {a})", wrong=(-place,))
    value = a * place**2 + b * place + c
    by = f"{a} * ({place})^2 + ({b}) * ({place}) + ({c})"
    sketch.step(f"What is its value at x = {place}?", value, by=by, wrong=(place,))


# --------------------------------------------------------------------------------------------------- sequences


@family
def telescoping_sum(sketch: Sketch, draw: Random, level: int) -> None:
    """A sum whose terms cancel."""
    n, d = draw.randint(6, 20 * (level - 1)), level - 2
    sketch.ask({"shown": "k(k+1)" if d == 1 else f"k(k+{d})"}, n=n, d=d)
    ends = []
    for place, start in (("beginning", 0), ("end", n)):
        ends.append(sum((Fraction(1, start + k) for k in range(1, d + 1)), Fraction(0)))
        by = " + ".join(f"1/{start + k}" for k in range(1, d + 1))
        sketch.first(f"What do the terms at the {place} that do not cancel add up to?", ends[-1], by=by)
    kept, lost = ends
    by = f"({kept} - {lost}) / {d}"
    sketch.step("What is the sum?", (kept - lost) / d, 0, 1, by=by, wrong=(kept - lost,))


@family
def arithmetic_sum(sketch: Sketch, draw: Random, level: int) -> None:
    """The sum of an arithmetic sequence, from two terms."""
    first, gap = draw.randint(-5 * level, 10 * level), draw.choice([g for g in range(-4, 3 + 4 * level) if g])
    i = draw.randint(2, 5)
    j = i + draw.randint(2, 5 * level)
    n = draw.randint(10, 20 * level)
    at = [first + gap * (k - 1) for k in (i, j)]
    sketch.ask(i=i, j=j, terms=at, n=n)
    sketch.step("What is the common difference?", gap, by=f"(({at[1]}) - ({at[0]})) / ({j} - {i})")
    sketch.step("What is the first term?", first, by=f"({at[0]}) - {i - 1} * ({gap})")
    total = n * first + gap * n * (n - 1) // 2
    by = f"{n} * (2 * ({first}) + {n - 1} * ({gap})) / 2"
    sketch.step(f"What is the sum of the first {n} terms?", total, 0, 1, by=by, wrong=(n * (first + gap * n),))


@family
def geometric_total(sketch: Sketch, draw: Random, level: int) -> None:
    """The sum of a geometric series, from two terms."""
    ratio = Fraction(draw.choice((-1, 1)) * draw.randint(1, 4), draw.randint(5, 9))
    first = Fraction(draw.randint(1, 20), 1 if level == 2 else draw.randint(1, 6))
    second = first * ratio
    sketch.ask(first=str(first), second=str(second))
    sketch.step("What is the common ratio?", ratio, by=f"({second}) / ({first})", wrong=(1 / ratio,))
    wrong = (first / (1 + ratio),)
    sketch.step("What is the sum of the series?", first / (1 - ratio), by=f"({first}) / (1 - ({ratio}))", wrong=wrong)


@family
def recurrence(sketch: Sketch, draw: Random, level: int) -> None:
    """A term of a linear recurrence, or its remainder."""
    p, q = draw.randint(1, 3), draw.choice((-2, -1, 1, 2, 3))
    terms = [draw.randint(0, 4), draw.randint(1, 5)]
    n = 2 + level if level < 5 else draw.randint(30, 60)
    m = draw.choice((7, 9, 11)) if level == 5 else 0
    rule = _sum((p, "a_k"), (q, "a_{k-1}"))
    sketch.ask({"rule": rule}, variant="remainder" if m else "", p=p, q=q, start=terms.copy(), n=n, m=m)
    if not m:
        for k in range(2, n + 1):
            by = f"{p} * ({terms[-1]}) + ({q}) * ({terms[-2]})"
            terms.append(p * terms[-1] + q * terms[-2])
            sketch.step(f"What is a_{k}?", terms[-1], *range(max(0, k - 4), k - 2), by=by)
        return
    pairs: list[tuple[int, int]] = []
    pair = (terms[0] % m, terms[1] % m)
    while pair not in pairs:
        pairs.append(pair)
        pair = (pair[1], (p * pair[1] + q * pair[0]) % m)
    start = pairs.index(pair)
    period = len(pairs) - start
    sketch.step(f"After how many terms do the remainders modulo {m} repeat (from a_{start} on)?", period)
    place = start + (n - start) % period if n >= start else n
    question = f"Which of the terms a_{start} to a_{start + period - 1} has the remainder of a_{n}, by its number?"
    sketch.step(question, place, by=f"{start} + mod({n} - {start}, {period})")
    sketch.step(f"What is a_{place} modulo {m}?", pairs[place][0])
