"""Mathematics: every family is solved a second time, in another way; steps, splits and levels are what they claim."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from toolorchestra.agents.chat.base import Price
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import ExpertSpec, Latency
from toolorchestra.envs.ground_truth.parts import find_part, parts_of, problem_of
from toolorchestra.envs.sources.math.families import FAMILIES, Sketch
from toolorchestra.envs.sources.math.source import MathSource, make_problems
from toolorchestra.toolscale.answers.math_verifier import math_verify_installed
from toolorchestra.toolscale.answers.symbolic import UnreadableError
from toolorchestra.toolscale.answers.symbolic_reader import read
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Status


@pytest.fixture(scope="module")
def source() -> MathSource:
    """Problems of all families."""
    return MathSource(seed=3, train=600, test=200, test_intents=100)


# ---------------------------------------------------- solving again: by enumeration, big integers or floats


def count(values: Any) -> int:
    return sum(1 for value in values if value)


def rolls(sides: int, dice: int) -> itertools.product[tuple[int, ...]]:
    return itertools.product(range(1, sides + 1), repeat=dice)


def words(g: dict[str, Any]) -> int:
    """Count arrangements letter by letter, from the multiset of letters left."""

    @functools.cache
    def arrangements(left: str) -> int:
        return sum(arrangements(left.replace(letter, "", 1)) for letter in set(left)) if left else 1

    return arrangements("".join(sorted(g["word"])))


def lines(g: dict[str, Any]) -> int:
    """Insert the others one by one: count by how many forbidden pairs stand together (states of a small chain)."""
    n, pairs = g["n"], 1 + (g["level"] > 2)
    if n <= 8:
        people = range(n)
        return count(
            all(abs(order.index(2 * p) - order.index(2 * p + 1)) > 1 for p in range(pairs))
            for order in itertools.permutations(people)
        )
    free = 0  # places for the pairs, everybody else in any order
    for places in itertools.permutations(range(n), 2 * pairs):
        free += all(abs(places[2 * p] - places[2 * p + 1]) > 1 for p in range(pairs))
    return free * math.factorial(n - 2 * pairs)


def bounded(g: dict[str, Any]) -> int:
    ways = [1] + [0] * g["n"]
    for low in (g[name] for name in "abcd"):
        ways = [sum(ways[total - x] for x in range(low, total + 1)) for total in range(g["n"] + 1)]
    return ways[-1]


def detour(g: dict[str, Any]) -> int:
    ways = defaultdict(int, {(0, 0): 1})
    for x, y in itertools.product(range(g["a"] + 1), range(g["b"] + 1)):
        if (x, y) != (0, 0):
            ways[x, y] = 0 if (x, y) == (g["c"], g["d"]) else ways[x - 1, y] + ways[x, y - 1]
    return ways[g["a"], g["b"]]


def hands(g: dict[str, Any]) -> int:
    people = [(couple, side) for couple in range(g["couples"]) for side in (0, 1)] + [
        (-1 - i, 0) for i in range(g["alone"])
    ]
    return count(one[0] != other[0] for one, other in itertools.combinations(people, 2))


def hits(g: dict[str, Any]) -> Fraction:
    """Solve the chain of throws: x = p + (1-p) y' with y' = (1-q) x, by Cramer's rule."""
    p, q = Fraction(g["p"]), Fraction(g["q"])
    anna = Fraction(p, 1) / (p + q - p * q)
    return q * (1 - p) / (p + q - p * q) if g["level"] == 4 else anna


def series(g: dict[str, Any]) -> int:
    terms = [g["r"], g["s"]]
    while len(terms) <= g["n"]:
        terms.append(g["p"] * terms[-1] + g["q"] * terms[-2])
    return terms[g["n"]]


def quadratic(g: dict[str, Any]) -> float:
    return (-g["b"] + math.sqrt(g["b"] ** 2 - 4 * g["a"] * g["c"])) / (2 * g["a"])


def powers(g: dict[str, Any]) -> int:
    """Trace of a power of the companion matrix."""
    (a, b), (c, d) = (1, 0), (0, 1)
    for _ in range(g["n"]):
        (a, b), (c, d) = (b, -g["p"] * a + g["s"] * b), (d, -g["p"] * c + g["s"] * d)
    return a + d


def reciprocals(g: dict[str, Any]) -> float:
    x = (g["k"] + math.sqrt(g["k"] ** 2 - 4)) / 2
    return float(x ** g["n"] + x ** -g["n"])


def system(g: dict[str, Any]) -> int:
    """Try all pairs."""
    (found,) = (
        x * y
        for x, y in itertools.product(range(-20, 20), repeat=2)
        if (g["a"] * x + g["b"] * y, g["c"] * x - g["d"] * y) == (g["p"], g["q"])
    )
    return found


def division(g: dict[str, Any]) -> str:
    """Long division by (x - a)(x - b)."""
    rest = [Fraction(g[name]) for name in "fghij"]
    divisor = [1, -g["a"] - g["b"], g["a"] * g["b"]]
    while len(rest) > 2:
        for i in range(3):
            rest[i] -= rest[0] * divisor[i] if i else 0
        rest = rest[1:]
    return f"({rest[0]}) * x + ({rest[1]})"


def composition(g: dict[str, Any]) -> str:
    """Interpolate f(g(x)) from its values."""
    inner = (lambda x: g["c"] * x + g["d"]) if g["level"] < 3 else (lambda x: g["c"] * x * x + g["d"])
    outer = (lambda x: g["a"] * x + g["b"]) if g["level"] == 1 else (lambda x: g["a"] * x * x + g["b"])
    points = range(5)
    terms = []
    for i in points:
        others = [j for j in points if j != i]
        factors = " * ".join(f"(x - {j})" for j in others)
        terms.append(f"({outer(inner(i))}) / ({math.prod(i - j for j in others)}) * {factors}")
    return " + ".join(terms)


def denominator(g: dict[str, Any]) -> float:
    over = math.sqrt(g["a"]) * g["c"] if g["level"] == 3 else g["c"]
    return over / (math.sqrt(g["a"]) + g["sign"] * math.sqrt(g["b"]))


def work(g: dict[str, Any]) -> Fraction:
    hours = [g[name] for name in "abc" if g[name]]
    minutes = math.lcm(*hours, g["leak"] or 1)
    filled = sum(minutes // each for each in hours) - (minutes // g["leak"] if g["leak"] else 0)
    return Fraction(minutes, filled)


def arithmetic(g: dict[str, Any]) -> Fraction:
    gap = Fraction(g["q"] - g["p"], g["j"] - g["i"])
    return sum((g["p"] + gap * (k - g["i"]) for k in range(1, g["n"] + 1)), Fraction(0))


def geometric(g: dict[str, Any]) -> float:
    first, second = Fraction(g["first"]), Fraction(g["second"])
    return float(sum(float(first) * float(second / first) ** k for k in range(2000)))


def triangle(g: dict[str, Any]) -> tuple[float, float, float]:
    """Side c of a triangle, which lies on the axis, and the corner above it."""
    a, b, c = (g[name] for name in "abc")
    x = (b * b + c * c - a * a) / (2 * c)
    return float(c), x, math.sqrt(b * b - x * x)


def surface(g: dict[str, Any]) -> float:
    c, _, height = triangle(g)
    return height if g["level"] == 4 else c * height / 2


def circumcircle(g: dict[str, Any]) -> float:
    """Distance of the corners from where the perpendicular bisectors meet."""
    c, x, y = triangle(g)
    radius = math.hypot(c / 2, (x * x + y * y - c * x) / (2 * y))
    return math.pi * radius**2 if g["level"] == 5 else radius


def fan(g: dict[str, Any]) -> Fraction:
    """Area as a fan of triangles from the first corner."""
    (x, y), *rest = (g["a"], g["b"]), (-g["c"], g["d"]), (-g["e"], -g["f"]), (g["g"], -g["h"])
    rest = rest[: g["level"]]
    return sum(
        (Fraction((a - x) * (d - y) - (c - x) * (b - y), 2) for (a, b), (c, d) in itertools.pairwise(rest)), Fraction(0)
    )


def foot(g: dict[str, Any]) -> float:
    """Distance from the foot of the perpendicular."""
    a, b, c, x, y = (g[name] for name in "abcxy")
    t = (a * x + b * y + c) / (a * a + b * b)
    return math.hypot(a * t, b * t)


def hexagon(g: dict[str, Any]) -> float:
    corners = [(g["s"] * math.cos(k * math.pi / 3), g["s"] * math.sin(k * math.pi / 3)) for k in range(7)]
    area = sum(a * d - c * b for (a, b), (c, d) in itertools.pairwise(corners)) / 2
    middle = math.dist((0, 0), ((corners[0][0] + corners[1][0]) / 2, (corners[0][1] + corners[1][1]) / 2))
    radius = middle if g["level"] == 3 else g["s"]
    return abs(area - math.pi * radius**2)


def inner_line(g: dict[str, Any]) -> float:
    """Coordinates: B at the origin, C on the axis."""
    a, b, c = g["a"], g["b"], g["c"]
    x = (a * a + c * c - b * b) / (2 * a)
    return math.hypot(x - g["m"], math.sqrt(c * c - x * x))


def ring(g: dict[str, Any]) -> float:
    small = 3.0  # any will do
    large = math.hypot(small, g["chord"] / 2)
    return math.pi * (large**2 - small**2) * g["angle"] / 360


def colourings(g: dict[str, Any]) -> int:
    n, k = g["n"], g["k"]
    return count(all(c[i] != c[i - 1] for i in range(n)) for c in itertools.product(range(k), repeat=n))


SOLVERS: dict[str, Callable[[dict[str, Any]], int | float | Fraction | str]] = {
    "power_remainder": lambda g: pow(g["a"], g["n"], g["m"]),
    "divisor_count": lambda g: count(g["n"] % d == 0 for d in range(1, g["n"] + 1)),
    "other_number": lambda g: next(
        b for b in range(1, g["lcm"] + 1) if math.gcd(g["a"], b) == g["g"] and math.lcm(g["a"], b) == g["lcm"]
    ),
    "remainder_system": lambda g: next(
        x for x in itertools.count(1) if all(x % g[m] == g[r] for r, m in zip("pqr", "kmn", strict=True))
    ),
    "factorial_power": lambda g: next(k for k in itertools.count() if math.factorial(g["n"]) % g["p"] ** (k + 1)),
    "digit_sum": lambda g: sum(map(int, str(10 ** g["n"] - g["k"]))),
    "multiples_count": lambda g: count(
        (i % g["a"] == 0 or i % g["b"] == 0) and i % g["c"] for i in range(1, g["n"] + 1)
    ),
    "coprime_count": lambda g: count(math.gcd(i, g["n"]) == 1 for i in range(1, g["n"] + 1)),
    "base_sum": lambda g: int(g["x"], g["b"]) + int(g["y"], g["b"]),
    "payment_ways": lambda g: count(
        (g["n"] - g["b"] * y) > 0 and (g["n"] - g["b"] * y) % g["a"] == 0 for y in range(1, g["n"])
    ),
    "repeated_ones": lambda g: (10 ** g["n"] - 1) // 9 % g["m"],
    "word_arrangements": words,
    "apart_in_line": lines,
    "bounded_sum": bounded,
    "lattice_detour": detour,
    "no_neighbours": lambda g: count(
        all(b - a > 1 for a, b in itertools.pairwise(c)) for c in itertools.combinations(range(g["n"]), g["k"])
    ),
    "committee": lambda g: count(
        sum(member < g["women"] for member in c) == g["w"]
        for c in itertools.combinations(range(g["men"] + g["women"]), g["k"])
    ),
    "full_boxes": lambda g: count(len(set(f)) == g["k"] for f in itertools.product(range(g["k"]), repeat=g["n"])),
    "fixed_points": lambda g: count(
        sum(i == x for i, x in enumerate(p)) == g["k"] for p in itertools.permutations(range(g["n"]))
    ),
    "handshakes": hands,
    "ring_colourings": colourings,
    "dice_sum": lambda g: Fraction(count(sum(r) == g["s"] for r in rolls(g["sides"], 2)), g["sides"] ** 2),
    "drawn_balls": lambda g: Fraction(
        count(
            sum(b < g["red"] for b in c) == g["r"] for c in itertools.combinations(range(g["red"] + g["blue"]), g["k"])
        ),
        math.comb(g["red"] + g["blue"], g["k"]),
    ),
    "coin_flips": lambda g: sum(
        (
            math.prod(Fraction(1, g["m"]) if flip else 1 - Fraction(1, g["m"]) for flip in flips)
            for flips in itertools.product((0, 1), repeat=g["n"])
            if sum(flips) == g["k"]
        ),
        Fraction(0),
    ),
    "first_to_hit": hits,
    "divisible_pair": lambda g: Fraction(
        count(sum(pair) % 3 == 0 for pair in itertools.combinations(range(1, g["n"] + 1), 2)), math.comb(g["n"], 2)
    ),
    "root_powers": powers,
    "reciprocal_powers": reciprocals,
    "linear_system": system,
    "pairwise_sums": lambda g: next(
        x * (g["p"] - x) * (g["r"] - x) for x in range(-50, 50) if g["p"] - x + g["r"] - x == g["q"]
    ),
    "larger_root": quadratic,
    "polynomial_remainder": division,
    "composed_functions": composition,
    "rational_denominator": denominator,
    "shared_work": work,
    "telescoping_sum": lambda g: sum((Fraction(1, k * (k + g["d"])) for k in range(1, g["n"] + 1)), Fraction(0)),
    "arithmetic_sum": arithmetic,
    "geometric_total": geometric,
    "recurrence": series,
    "triangle_area": surface,
    "right_altitude": lambda g: g["a"] * g["b"] / math.hypot(g["a"], g["b"]),
    "circumradius": circumcircle,
    "polygon_area": fan,
    "box_diagonal": lambda g: math.hypot(g["a"], g["b"], g["c"]),
    "box_faces": lambda g: math.hypot(*(math.sqrt(g["p"] * g["q"] * g["r"]) / g[face] for face in "pqr")),
    "chord_length": lambda g: 2 * g["r"] * math.sin(math.acos(g["d"] / g["r"])),
    "ring_area": lambda g: math.pi * g["large"] ** 2 - math.pi * g["small"] ** 2,
    "ring_chord": ring,
    "line_distance": foot,
    "hexagon_rest": hexagon,
    "cevian": inner_line,
}


def sketches(name: str, each: int, seed: int = 7) -> list[tuple[int, Sketch]]:
    """Draw problems of a family at all its levels."""
    rng = random.Random(seed)
    return [(level, FAMILIES[name].draw(rng, level)) for level in FAMILIES[name].levels for _ in range(each)]


@pytest.mark.parametrize("name", list(FAMILIES))
def test_every_family_is_right_when_solved_in_another_way(name: str):
    for level, sketch in sketches(name, 6):
        answer, again = read(sketch.parts()[-1].answer), SOLVERS[name](sketch.given | {"level": level})
        if isinstance(again, float):
            assert answer.number() == pytest.approx(again, rel=1e-9), sketch.statement
        else:
            assert answer == read(str(again)), sketch.statement


@pytest.mark.parametrize("name", list(FAMILIES))
def test_every_step_follows_from_those_before(name: str):
    computed = 0
    for _, sketch in sketches(name, 12):
        for position, (part, by) in enumerate(zip(sketch.parts(), sketch.expressions, strict=True)):
            assert all(0 <= needed < position for needed in part.needs)
            assert list(part.needs) == sorted(set(part.needs))
            assert part.answer not in part.wrong
            assert part.question.strip().endswith("?")
            if by:
                assert len(by) <= 500
                assert read(by) == read(part.answer), (part.question, by)
                computed += 1
    assert computed >= 12  # a calculator has a part in every family


@pytest.mark.parametrize("name", list(FAMILIES))
def test_mistakes_are_never_right(name: str):
    for _, sketch in sketches(name, 6):
        last = sketch.parts()[-1]
        truth = read(last.answer)
        assert len(last.wrong) >= 2
        assert all(read(wrong) != truth for wrong in last.wrong), (last.answer, last.wrong)


def test_there_are_many_families_of_every_topic():
    assert set(SOLVERS) == set(FAMILIES)
    topics = Counter(family.topic for family in FAMILIES.values())
    assert set(topics) == {"number theory", "counting", "probability", "algebra", "sequences", "geometry"}
    assert min(topics.values()) >= 4
    assert len(FAMILIES) >= 50
    assert {level for family in FAMILIES.values() for level in family.levels} == {1, 2, 3, 4, 5}


def test_answers_are_of_all_sorts(source: MathSource):
    sorts: Counter[str] = Counter()
    for task in source.tasks("all"):
        value = read(task.communicate[0][0])
        number = value.rational
        try:
            value.number()
            sorts[
                "fraction" if number and number.denominator > 1 else "irrational" if number is None else "integer"
            ] += 1
        except UnreadableError:
            sorts["expression"] += 1
    assert min(sorts[sort] for sort in ("integer", "fraction", "irrational", "expression")) >= 20, sorts


# --------------------------------------------------------------------------------------------- the source


def test_splits_share_no_instance_and_unseen_families_are_unseen(source: MathSource):
    tasks = source.tasks("all")
    instances = [(task.intent, repr(sorted(task.bindings["given"].items()))) for task in tasks]
    assert len(set(instances)) == len(tasks)
    assert len({task.instruction for task in tasks}) == len(tasks)
    families = {split: {task.intent for task in source.tasks(split)} for split in ("train", "test", "test_intents")}
    held_out = {family.name for family in FAMILIES.values() if family.held_out}
    assert len(held_out) == 10
    assert families["test_intents"] == held_out
    assert families["test"] <= families["train"] == (set(FAMILIES) - held_out) | {"composed"}


def test_all_levels_are_alike_in_number_and_harder_ones_are_harder(source: MathSource):
    levels = Counter(task.difficulty for task in source.tasks("train"))
    assert set(levels) == {1, 2, 3, 4, 5}
    assert max(levels.values()) - min(levels.values()) <= 10
    spec = ExpertSpec(
        provider="none", roles=("math",), price=Price(), latency=Latency(1.0), context=8_000, skills={"other": 0.97}
    )
    expert = SimulatedExpert("solver", spec)
    chances = {level: [0.0, 0] for level in levels}
    for task in source.tasks("train"):
        problem = problem_of(task)
        right = math.prod(expert.chance(problem, step) for step in range(len(problem.steps)))
        chances[task.difficulty][0] += right
        chances[task.difficulty][1] += 1
    means = [chances[level][0] / chances[level][1] for level in sorted(chances)]
    assert all(easy > hard + 0.05 for easy, hard in itertools.pairwise(means)), means


def test_the_same_seed_makes_the_same_problems():
    assert make_problems("train", 120, seed=5) == make_problems("train", 120, seed=5)
    assert make_problems("train", 120, seed=5) != make_problems("train", 120, seed=6)
    with pytest.raises(OptionError, match="at least 0"):
        MathSource(train=-1)
    with pytest.raises(OptionError, match="at least one question"):
        MathSource(train=0, test=0, test_intents=0)


def test_the_reference_trajectory_computes(source: MathSource):
    tool = source.world(source.tasks("train")[0]).tools["calculator"]
    for task in source.tasks("test"):
        assert task.reference_calls
        answers = [read(part.answer) for part in parts_of(task) if part.answer and _readable(part.answer)]
        for call in task.reference_calls:
            result = tool.run(tool.decode(msgspec.json.encode(call.arguments)), NO_CONTEXT)
            assert result.status is Status.OK, result.error
            assert any(read(result.value["exact"]) == answer for answer in answers)


def _readable(text: str) -> bool:
    try:
        read(text)
    except UnreadableError:
        return False
    return True


def test_the_answer_is_right_as_the_calculator_writes_it_and_in_exact_numbers(source: MathSource):
    world = source.world(source.tasks("train")[0])
    for task in source.tasks("train")[:200]:
        value = read(task.communicate[0][0])
        forms = [str(value), f"${value}$", str(value).replace("+", " + ").replace("frac", "dfrac")]
        if (number := value.rational) is not None:
            forms += [str(number), f"x = {number}", f"{2 * number.numerator}/{2 * number.denominator}"]
        for form in forms:
            assert world.verify(task, None, rf"\boxed{{{form}}}").solved, (task.id, form)
        for form in (f"{value + 1}", f"{value}, {value + 1}", f"{value} or {value + 1}", ""):
            assert not world.verify(task, None, rf"\boxed{{{form}}}").solved, (task.id, form)


@pytest.mark.skipif(not math_verify_installed(), reason="Math-Verify (extra `math`) is missing")
def test_other_forms_of_the_answer_are_right_by_math_verify(source: MathSource):
    world = source.world(source.tasks("train")[0])
    symbolic = [task for task in source.tasks("train") if read(task.communicate[0][0]).rational is None]
    for task in symbolic[:20]:
        value = read(task.communicate[0][0])
        assert world.verify(task, None, rf"\boxed{{\frac{{2({value})}}{{2}}}}").solved, task.id
        assert not world.verify(task, None, rf"\boxed{{\frac{{2({value})}}{{3}}}}").solved, task.id


def test_a_sub_question_is_a_problem_of_its_own(source: MathSource):
    found = 0
    for task in source.tasks("train")[:100]:
        whole = problem_of(task)
        assert (whole.subject, len(whole.steps)) == ("math", len(parts_of(task)))
        assert problem_of(task, task.instruction) == whole
        assert problem_of(task, "Please find out something about flowers.") == whole
        for number, part in enumerate(parts_of(task)):
            if find_part(task, part.question) == number:
                alone = problem_of(task, part.question)
                assert [step.answer for step in alone.steps] == [part.answer]
                found += 1
    assert found > 200
