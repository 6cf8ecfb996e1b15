"""Families of problems of geometry, with exact answers: roots and multiples of π."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from toolorchestra.envs.sources.math.sketch import Sketch, family
from toolorchestra.toolscale.symbolic import Value, root, symbol

TOPIC = "geometry"
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
    area = root(square)
    sketch.step(f"What is the square root of {square}, simplified?", area, by=f"sqrt({square})")
    return area


@family(TOPIC, 3, 4)
def triangle_area(draw: Random, level: int) -> Sketch:
    """The area or an altitude of a triangle, from its sides."""
    a, b, c = _sides(draw, 5 + 4 * level)
    sketch = Sketch(f"A triangle has sides {a}, {b} and {c}. What is its area? Give the exact value.", sides=[a, b, c])
    area = _area(sketch, a, b, c)
    if level == 4:
        sketch.statement = f"A triangle has sides {a}, {b} and {c}. How long is its altitude to the side {c}, exactly?"
        sketch.given["altitude"] = True
        sketch.step(
            f"What is twice the area, divided by {c}?", area * 2 / c, by=f"2 * ({area}) / {c}", wrong=(area / c,)
        )
    return sketch


@family(TOPIC, 1, 2)
def right_altitude(draw: Random, level: int) -> Sketch:
    """The altitude of a right triangle."""
    triple = draw.choice(_TRIPLES[: 2 + 2 * level])
    k = draw.randint(1, 3 * level)
    a, b, c = (k * side for side in triple)
    statement = f"A right triangle has legs {a} and {b}. How long is its altitude to the hypotenuse?"
    sketch = Sketch(statement, a=a, b=b)
    sketch.step(
        f"How long is the hypotenuse of the right triangle with legs {a} and {b}?", c, by=f"sqrt({a}^2 + {b}^2)"
    )
    asked = f"How long is the altitude to the hypotenuse {c}?"
    sketch.step(asked, Fraction(a * b, c), by=f"{a} * {b} / {c}", wrong=(Fraction(a * b, 2 * c), Fraction(a * b, 2)))
    return sketch


@family(TOPIC, 4, 5)
def circumradius(draw: Random, level: int) -> Sketch:
    """The circle through the corners of a triangle."""
    a, b, c = _sides(draw, 3 * level)
    whole = level == 5
    what = "area of its circumscribed circle, exactly" if whole else "radius of its circumscribed circle, exactly"
    sketch = Sketch(f"A triangle has sides {a}, {b} and {c}. What is the {what}?", sides=[a, b, c], area=whole)
    area = _area(sketch, a, b, c)
    radius = Value.of(a * b * c) / (area * 4)
    by = f"{a} * {b} * {c} / (4 * ({area}))"
    sketch.step("What is the product of the sides, divided by four times the area?", radius, by=by)
    if whole:
        sketch.step(
            f"What is π times the square of {radius}?", _PI * radius**2, by=f"π * ({radius})^2", wrong=(_PI * radius,)
        )
    return sketch


@family(TOPIC, 3, 4)
def inradius(draw: Random, level: int) -> Sketch:
    """The circle inscribed in a triangle."""
    a, b, c = _sides(draw, 3 + 3 * level)
    sketch = Sketch(f"What is the radius of the circle inscribed in a triangle with sides {a}, {b} and {c}, exactly?",
                    sides=[a, b, c])  # fmt: skip
    area = _area(sketch, a, b, c)
    half = Fraction(a + b + c, 2)
    sketch.step(
        f"What is the area divided by {half}?", area / half, 0, 2, by=f"({area}) / ({half})", wrong=(area / (2 * half),)
    )
    return sketch


@family(TOPIC, 2, 3, 4)
def polygon_area(draw: Random, level: int) -> Sketch:
    """The area of a polygon, from its corners."""
    corners = level + 1
    points: list[tuple[int, int]] = []
    while True:  # points in the order of their angle about the origin: the sides do not cross
        quarters = [(1, 1), (-1, 1), (-1, -1), (1, -1)]
        chosen = quarters if corners > 3 else draw.sample(quarters, 3)
        points = [
            (sx * draw.randint(1, 4 * level), sy * draw.randint(1, 4 * level))
            for sx, sy in quarters
            if (sx, sy) in chosen
        ]
        if corners == 5:
            points.insert(0, (draw.randint(2, 4 * level), 0))
        double = sum(x * t - s * y for (x, y), (s, t) in zip(points, points[1:] + points[:1], strict=True))
        if double > 0:
            break
    names = "ABCDE"[: len(points)]
    told = ", ".join(f"${name}({x}, {y})$" for name, (x, y) in zip(names, points, strict=True))
    kind = {3: "triangle", 4: "quadrilateral", 5: "pentagon"}[len(points)]
    sketch = Sketch(
        f"What is the area of the {kind} with the corners {told}, in this order?", points=[list(p) for p in points]
    )
    needs, terms = [], []
    for (x, y), (s, t) in zip(points, points[1:] + points[:1], strict=True):
        terms.append(x * t - s * y)
        by = f"({x}) * ({t}) - ({s}) * ({y})"
        needs.append(sketch.first(f"What is {by}?", terms[-1], by=by))
    by = " + ".join(f"({term})" for term in terms)
    sketch.step(f"What is half of {by}?", Fraction(double, 2), *needs, by=f"({by}) / 2", wrong=(double,))
    return sketch


@family(TOPIC, 1, 2, 3)
def box_diagonal(draw: Random, level: int) -> Sketch:
    """The diagonal of a box."""
    a, b, c = sorted(draw.randint(1, 4 + 3 * level) for _ in "abc")
    square = a * a + b * b + c * c
    if level < 3:
        sketch = Sketch(f"A box has edges {a}, {b} and {c}. How long is its space diagonal, exactly?", edges=[a, b, c])
        needs: list[int] = []
    else:
        p, q, r = a * b, b * c, c * a
        statement = (
            f"Three faces of a box that meet in a corner have areas {p}, {q} and {r}. How long is its space diagonal, "
            "exactly?"
        )
        sketch = Sketch(statement, faces=[p, q, r])
        needs = [
            sketch.first(f"What is the square of the edge that the faces {one} and {two} share?", edge * edge,
                         by=f"{one} * {two} / {other}")
            for edge, one, two, other in ((a, p, r, q), (b, p, q, r), (c, q, r, p))
        ]  # fmt: skip
    by = f"{a * a} + {b * b} + {c * c}"
    last = sketch.step(f"What is {by}?", square, *needs, by=by)
    sketch.step(f"What is the square root of {square}, simplified?", root(square), last, by=f"sqrt({square})",
                wrong=(a + b + c,))  # fmt: skip
    return sketch


@family(TOPIC, 1, 2)
def chord_length(draw: Random, level: int) -> Sketch:
    """The length of a chord."""
    r = draw.randint(4, 10 * level)
    d = draw.randint(1, r - 1)
    sketch = Sketch(
        f"A chord of a circle of radius {r} is at distance {d} from the centre. How long is it, exactly?", r=r, d=d
    )
    square = r * r - d * d
    sketch.step(f"What is {r}^2 - {d}^2?", square, by=f"{r}^2 - {d}^2", wrong=(r * r + d * d,))
    wrong = (root(square),)
    sketch.step(
        f"What is twice the square root of {square}, simplified?",
        2 * root(square),
        by=f"2 * sqrt({square})",
        wrong=wrong,
    )
    return sketch


@family(TOPIC, 1, 2, 3)
def ring_area(draw: Random, level: int) -> Sketch:
    """The area between two circles."""
    small, large = sorted(draw.sample(range(2, 6 + 5 * level), 2))
    if level == 1:
        sketch = Sketch(f"What is the area between two circles with a common centre and radii {small} and {large}?",
                        small=small, large=large)  # fmt: skip
        between = large * large - small * small
        sketch.step(f"What is {large}^2 - {small}^2?", between, by=f"{large}^2 - {small}^2")
        sketch.step(f"What is {between} times π?", between * _PI, by=f"{between} * π")
        return sketch
    chord = draw.randint(3, 12 * level)
    part = draw.choice((1, 2, 3)) if level == 3 else 0
    what = f"What is the area of a sector of {60 * part}° of the ring" if part else "What is the area of the ring"
    statement = (
        f"Two circles have a common centre. A chord of the larger one that touches the smaller one is {chord} long. "
        f"{what} between them?"
    )
    sketch = Sketch(statement, chord=chord, part=part)
    square = Fraction(chord * chord, 4)
    sketch.step("What is the difference of the squares of the radii?", square, by=f"({chord}/2)^2", wrong=(chord**2,))
    sketch.step("What is the area of the whole ring?", square * _PI, by=f"{square} * π")
    if part:
        sketch.step(f"What is {part}/6 of it?", square * part / 6 * _PI, by=f"{square} * π * {part}/6")
    return sketch


@family(TOPIC, 2, 3)
def line_distance(draw: Random, level: int) -> Sketch:
    """The distance of a point from a line."""
    a, b = (draw.choice([n for n in range(-4 * level, 4 * level + 1) if n]) for _ in "ab")
    c, x, y = draw.randint(-15, 15), draw.randint(-9, 9), draw.randint(-9, 9)
    shown = f"{a}x {'+' if b > 0 else '-'} {abs(b)}y {'+' if c >= 0 else '-'} {abs(c)} = 0"
    sketch = Sketch(
        f"What is the distance of the point $({x}, {y})$ from the line ${shown}$, exactly?", a=a, b=b, c=c, x=x, y=y
    )
    value = abs(a * x + b * y + c)
    by = f"abs(({a}) * ({x}) + ({b}) * ({y}) + ({c}))"
    first = sketch.step(f"What is the absolute value of the left side at ({x}, {y})?", value, by=by)
    norm = a * a + b * b
    second = sketch.first(f"What is the square root of ({a})^2 + ({b})^2?", root(norm), by=f"sqrt(({a})^2 + ({b})^2)")
    sketch.step(
        "What is their quotient, simplified?", value / root(norm), first, second, by=f"{value} / ({root(norm)})"
    )
    return sketch


@family(TOPIC, 3, 4)
def hexagon_rest(draw: Random, level: int) -> Sketch:
    """What lies between a regular hexagon and a circle."""
    s = draw.randint(2, 8 * level)
    inside = level == 3
    what = "inside a regular hexagon of side {s} and outside the circle inscribed in it" if inside else (
        "inside the circle through the corners of a regular hexagon of side {s} and outside the hexagon"
    )  # fmt: skip
    sketch = Sketch(f"What is the area of the region {what.format(s=s)}? Give the exact value.", s=s, inside=inside)
    hexagon = root(3) * Fraction(3 * s * s, 2)
    disc = _PI * (Fraction(3 * s * s, 4) if inside else s * s)
    first = sketch.step(f"What is the area of a regular hexagon of side {s}?", hexagon, by=f"3 * sqrt(3) / 2 * {s}^2")
    by = f"π * 3/4 * {s}^2" if inside else f"π * {s}^2"
    second = sketch.first("What is the area of the circle?", disc, by=by)
    answer = hexagon - disc if inside else disc - hexagon
    by = f"{hexagon} - ({disc})" if inside else f"{disc} - ({hexagon})"
    sketch.step("What is the area of the region?", answer, first, second, by=by)
    return sketch


@family(TOPIC, 5)
def cevian(draw: Random, level: int) -> Sketch:
    """The length of a line from a corner of a triangle."""
    while True:
        a, b, c = _sides(draw, 16)
        if a > 3:
            break
    m = draw.randint(1, a - 1)
    statement = (
        f"In triangle ABC, AB = {c}, BC = {a} and CA = {b}. The point D on side BC has BD = {m}. "
        "What is the length of AD, exactly?"
    )
    sketch = Sketch(statement, a=a, b=b, c=c, m=m)
    cosine = Fraction(a * a + c * c - b * b, 2 * a * c)
    sketch.step("What is the cosine of the angle at B?", cosine, by=f"({a}^2 + {c}^2 - {b}^2) / (2 * {a} * {c})")
    twice = 2 * m * c * cosine
    sketch.step(f"What is 2 * {m} * {c} times that cosine?", twice, by=f"2 * {m} * {c} * ({cosine})")
    square = m * m + c * c - twice
    sketch.step("What is the square of AD?", square, by=f"{m}^2 + {c}^2 - ({twice})", wrong=(m * m + c * c + twice,))
    sketch.step(f"What is the square root of {square}, simplified?", root(square), by=f"sqrt({square})")
    return sketch
