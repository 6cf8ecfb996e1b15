"""Families of problems of geometry, with exact answers: roots and multiples of π."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from toolorchestra.envs.sources.math.sketch import Sketch, family
from toolorchestra.toolscale.answers.symbolic import Value, root, symbol

_PI = symbol("π")
_TRIPLES = ((3, 4, 5), (5, 12, 13), (8, 15, 17), (7, 24, 25), (20, 21, 29), (9, 40, 41), (12, 35, 37))


def _sides(draw: Random, most: int) -> tuple[int, int, int]:
    """Return the sides of a triangle that is not degenerate."""
    while True:
        a, b, c = (draw.randint(4, most) for _ in "abc")
        if a + b > c and b + c > a and c + a > b:
            return a, b, c


def _area(sketch: Sketch, a: int, b: int, c: int) -> Value:
    """Add the steps to the area of a triangle by Heron's formula."""
    half = Fraction(a + b + c, 2)
    sketch.step(f"What is half of {a} + {b} + {c}?", half, by=f"({a} + {b} + {c}) / 2")
    square = half * (half - a) * (half - b) * (half - c)
    by = f"({half}) * ({half} - {a}) * ({half} - {b}) * ({half} - {c})"
    sketch.step(f"What is s(s - {a})(s - {b})(s - {c}) for s = {half}?", square, by=by)
    return _root(sketch, square)


def _root(sketch: Sketch, square: Fraction | int, wrong: tuple[int, ...] = ()) -> Value:
    """Add the step of taking a square root, and return the root."""
    found = root(square)
    sketch.step(f"What is the square root of {square}, simplified?", found, by=f"sqrt({square})", wrong=wrong)
    return found


@family
def triangle_area(sketch: Sketch, draw: Random, level: int) -> None:
    """The area or an altitude of a triangle, from its sides."""
    a, b, c = _sides(draw, 5 + 4 * level)
    if level == 3:
        sketch.ask(sides=[a, b, c])
        _area(sketch, a, b, c)
    else:
        sketch.ask(variant="altitude", sides=[a, b, c], altitude=True)
        area = _area(sketch, a, b, c)
        question = f"What is twice the area, divided by {c}?"
        sketch.step(question, area * 2 / c, by=f"2 * ({area}) / {c}", wrong=(area / c,))


@family
def right_altitude(sketch: Sketch, draw: Random, level: int) -> None:
    """The altitude of a right triangle."""
    triple = draw.choice(_TRIPLES[: 2 + 2 * level])
    k = draw.randint(1, 3 * level)
    a, b, c = (k * side for side in triple)
    sketch.ask(a=a, b=b)
    question = f"How long is the hypotenuse of the right triangle with legs {a} and {b}?"
    sketch.step(question, c, by=f"sqrt({a}^2 + {b}^2)")
    question, wrong = f"How long is the altitude to the hypotenuse {c}?", (Fraction(a * b, 2 * c), Fraction(a * b, 2))
    sketch.step(question, Fraction(a * b, c), by=f"{a} * {b} / {c}", wrong=wrong)


@family
def circumradius(sketch: Sketch, draw: Random, level: int) -> None:
    """The circle through the corners of a triangle."""
    a, b, c = _sides(draw, 3 * level)
    whole = level == 5
    sketch.ask({"what": "area" if whole else "radius"}, sides=[a, b, c], area=whole)
    area = _area(sketch, a, b, c)
    radius = Value.of(a * b * c) / (area * 4)
    by = f"{a} * {b} * {c} / (4 * ({area}))"
    sketch.step("What is the product of the sides, divided by four times the area?", radius, by=by)
    if whole:
        question = f"What is π times the square of {radius}?"
        sketch.step(question, _PI * radius**2, by=f"π * ({radius})^2", wrong=(_PI * radius,))


@family
def inradius(sketch: Sketch, draw: Random, level: int) -> None:
    """The circle inscribed in a triangle."""
    a, b, c = _sides(draw, 3 + 3 * level)
    sketch.ask(sides=[a, b, c])
    area, half = _area(sketch, a, b, c), Fraction(a + b + c, 2)
    radius = area / half
    sketch.step(f"What is the area divided by {half}?", radius, 0, 2, by=f"({area}) / ({half})", wrong=(radius / 2,))


@family
def polygon_area(sketch: Sketch, draw: Random, level: int) -> None:
    """The area of a polygon, from its corners."""
    corners, quarters = level + 1, [(1, 1), (-1, 1), (-1, -1), (1, -1)]
    while True:  # points in the order of their angle about the origin: the sides do not cross
        chosen = quarters if corners > 3 else draw.sample(quarters, 3)
        points = [
            (sx * draw.randint(1, 4 * level), sy * draw.randint(1, 4 * level))
            for sx, sy in quarters
            if (sx, sy) in chosen
        ]
        if corners == 5:
            points.insert(0, (draw.randint(2, 4 * level), 0))
        sides = list(zip(points, points[1:] + points[:1], strict=True))
        double = sum(x * t - s * y for (x, y), (s, t) in sides)
        if double > 0:
            break
    words = {
        "corners": ", ".join(f"${name}({x}, {y})$" for name, (x, y) in zip("ABCDE", points, strict=False)),
        "kind": {3: "triangle", 4: "quadrilateral", 5: "pentagon"}[corners],
    }
    sketch.ask(words, points=[list(point) for point in points])
    for (x, y), (s, t) in sides:
        by = f"({x}) * ({t}) - ({s}) * ({y})"
        sketch.first(f"What is {by}?", x * t - s * y, by=by)
    by = " + ".join(f"({x * t - s * y})" for (x, y), (s, t) in sides)
    sketch.step(f"What is half of {by}?", Fraction(double, 2), *range(corners), by=f"({by}) / 2", wrong=(double,))


@family
def box_diagonal(sketch: Sketch, draw: Random, level: int) -> None:
    """The diagonal of a box."""
    a, b, c = sorted(draw.randint(1, 4 + 3 * level) for _ in "abc")
    if level < 3:
        sketch.ask(edges=[a, b, c])
    else:
        p, q, r = a * b, b * c, c * a
        sketch.ask(variant="faces", faces=[p, q, r])
        for edge, one, two, other in ((a, p, r, q), (b, p, q, r), (c, q, r, p)):
            question = f"What is the square of the edge that the faces {one} and {two} share?"
            sketch.first(question, edge * edge, by=f"{one} * {two} / {other}")
    square = a * a + b * b + c * c
    sketch.calculate(f"{a * a} + {b * b} + {c * c}", square, *(range(3) if level == 3 else ()))
    _root(sketch, square, wrong=(a + b + c,))


@family
def chord_length(sketch: Sketch, draw: Random, level: int) -> None:
    """The length of a chord."""
    r = draw.randint(4, 10 * level)
    d = draw.randint(1, r - 1)
    sketch.ask(r=r, d=d)
    square = r * r - d * d
    half = root(square)
    sketch.calculate(f"{r}^2 - {d}^2", square, wrong=(r * r + d * d,))
    question = f"What is twice the square root of {square}, simplified?"
    sketch.step(question, 2 * half, by=f"2 * sqrt({square})", wrong=(half,))


@family
def ring_area(sketch: Sketch, draw: Random, level: int) -> None:
    """The area between two circles."""
    small, large = sorted(draw.sample(range(2, 6 + 5 * level), 2))
    if level == 1:
        sketch.ask(small=small, large=large)
        between = large * large - small * small
        sketch.calculate(f"{large}^2 - {small}^2", between)
        sketch.step(f"What is {between} times π?", between * _PI, by=f"{between} * π")
        return
    chord = draw.randint(3, 12 * level)
    part = draw.choice((1, 2, 3)) if level == 3 else 0
    what = f"a sector of {60 * part}° of the ring" if part else "the ring"
    sketch.ask({"what": what}, variant="chord", chord=chord, part=part)
    square = Fraction(chord * chord, 4)
    sketch.step("What is the difference of the squares of the radii?", square, by=f"({chord}/2)^2", wrong=(chord**2,))
    sketch.step("What is the area of the whole ring?", square * _PI, by=f"{square} * π")
    if part:
        sketch.step(f"What is {part}/6 of it?", square * part / 6 * _PI, by=f"{square} * π * {part}/6")


@family
def line_distance(sketch: Sketch, draw: Random, level: int) -> None:
    """The distance of a point from a line."""
    a, b = (draw.choice([n for n in range(-4 * level, 4 * level + 1) if n]) for _ in "ab")
    c, x, y = draw.randint(-15, 15), draw.randint(-9, 9), draw.randint(-9, 9)
    shown = f"{a}x {'+' if b > 0 else '-'} {abs(b)}y {'+' if c >= 0 else '-'} {abs(c)} = 0"
    sketch.ask({"shown": shown}, a=a, b=b, c=c, x=x, y=y)
    value, norm = abs(a * x + b * y + c), root(a * a + b * b)
    by = f"abs(({a}) * ({x}) + ({b}) * ({y}) + ({c}))"
    sketch.step(f"What is the absolute value of the left side at ({x}, {y})?", value, by=by)
    by = f"({a})^2 + ({b})^2"
    sketch.first(f"What is the square root of {by}?", norm, by=f"sqrt({by})")
    sketch.step("What is their quotient, simplified?", value / norm, 0, 1, by=f"{value} / ({norm})")


@family
def hexagon_rest(sketch: Sketch, draw: Random, level: int) -> None:
    """What lies between a regular hexagon and a circle."""
    s = draw.randint(2, 8 * level)
    inside = level == 3
    sketch.ask(variant="" if inside else "outside", s=s, inside=inside)
    hexagon = root(3) * Fraction(3 * s * s, 2)
    disc = _PI * (Fraction(3 * s * s, 4) if inside else s * s)
    sketch.step(f"What is the area of a regular hexagon of side {s}?", hexagon, by=f"3 * sqrt(3) / 2 * {s}^2")
    sketch.first("What is the area of the circle?", disc, by=f"π * 3/4 * {s}^2" if inside else f"π * {s}^2")
    large, small = (hexagon, disc) if inside else (disc, hexagon)
    sketch.step("What is the area of the region?", large - small, 0, 1, by=f"{large} - ({small})")


@family
def cevian(sketch: Sketch, draw: Random, level: int) -> None:
    """The length of a line from a corner of a triangle."""
    a, b, c = _sides(draw, 16)
    m = draw.randint(1, a - 1)
    sketch.ask(a=a, b=b, c=c, m=m)
    cosine = Fraction(a * a + c * c - b * b, 2 * a * c)
    sketch.step("What is the cosine of the angle at B?", cosine, by=f"({a}^2 + {c}^2 - {b}^2) / (2 * {a} * {c})")
    twice = 2 * m * c * cosine
    sketch.step(f"What is 2 * {m} * {c} times that cosine?", twice, by=f"2 * {m} * {c} * ({cosine})")
    square = m * m + c * c - twice
    sketch.step("What is the square of AD?", square, by=f"{m}^2 + {c}^2 - ({twice})", wrong=(m * m + c * c + twice,))
    _root(sketch, square)
