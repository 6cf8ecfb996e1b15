"""Families of problems about counting and probability."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from random import Random

from toolorchestra.envs.sources.math.sketch import Sketch, family

_WORDS = {
    1: ("LEVEL", "BANANA", "APPLE", "EERIE", "PEPPER", "COFFEE", "TOFFEE", "KAYAK", "HELLO", "DADDY", "RADAR", "MAMMA"),
    2: ("LETTERS", "BALLOON", "ALGEBRA", "ARRANGE", "CABBAGE", "SUCCESS", "PARALLEL", "COCONUT", "ADDRESS", "INITIAL"),
    3: ("MISSISSIPPI", "TENNESSEE", "ENGINEERING", "COMMITTEE", "ASSESSMENT", "ABRACADABRA", "SUCCESSION"),
}
_DICE = {2: "Two", 3: "Three"}


@family
def word_arrangements(sketch: Sketch, draw: Random, level: int) -> None:
    """Arrangements of the letters of a word."""
    word = draw.choice(_WORDS[level])
    blocks = Counter(word)
    together = draw.choice(sorted(blocks)) if level == 2 else ""
    if blocks[together] > 1:
        blocks[together] = 1
        sketch.ask(variant="together", word=word, together=together)
    else:
        sketch.ask(word=word, together="")
    orders = math.factorial(n := blocks.total())
    repeats = [count for count in blocks.values() if count > 1]
    shared = math.prod(map(math.factorial, repeats))
    sketch.step(f"In how many orders can {n} different things stand?", orders, by=f"{n}!")
    by = " * ".join(f"{count}!" for count in repeats) or "1"
    sketch.first(f"How often is each arrangement counted, letters repeating {repeats} times?", shared, by=by)
    sketch.calculate(f"{orders} / {shared}", orders // shared, 0, 1, wrong=(orders,))


@family
def apart_in_line(sketch: Sketch, draw: Random, level: int) -> None:
    """Lines of people some of whom do not stand together."""
    n = draw.randint(5, 6 + 2 * level)
    pairs = 1 if level < 3 else 2
    who = "Ann and Ben refuse to stand" if pairs == 1 else "neither Ann and Ben nor Cleo and Dan may stand"
    sketch.ask({"who": who}, n=n, pairs=pairs)
    every, rest = math.factorial(n), math.factorial(n - 1)
    together, both = 2 * rest, 4 * math.factorial(n - 2)
    sketch.step(f"In how many orders can {n} people stand?", every, by=f"{n}!")
    question = f"In how many of the orders of {n} people do two given ones stand together?"
    sketch.first(question, together, by=f"2 * {n - 1}!", wrong=(rest,))
    if pairs == 1:
        sketch.calculate(f"{every} - {together}", every - together, 0, 1)
        return
    sketch.first(f"In how many of the orders of {n} people do both pairs stand together?", both, by=f"4 * {n - 2}!")
    one = every - 2 * together
    sketch.calculate(f"{every} - 2 * {together} + {both}", one + both, 0, 1, 2, wrong=(one,))


@family
def round_table(sketch: Sketch, draw: Random, level: int) -> None:
    """Seatings at a round table."""
    n = draw.randint(5, 5 + 2 * level)
    apart = level > 2
    sketch.ask({"wish": "must not" if apart else "want to"}, n=n, apart=apart)
    every, pair = math.factorial(n - 1), 2 * math.factorial(n - 2)
    wrong = (pair // 2, 2 * every)
    sketch.step(f"In how many ways can {n} people sit with the two together?", pair, by=f"2 * {n - 2}!", wrong=wrong)
    if apart:
        sketch.first(f"In how many ways can {n} people sit at all?", every, by=f"{n - 1}!")
        sketch.calculate(f"{every} - {pair}", every - pair, 0, 1)


@family
def bounded_sum(sketch: Sketch, draw: Random, level: int) -> None:
    """Solutions of a sum in integers with lower bounds."""
    k = level + draw.randint(1, 2)
    low = [draw.randint(0, level - 1) for _ in range(k)]
    n = sum(low) + draw.randint(5, 6 + 2 * level)
    names = "abcdefg"[:k]
    bounds = ", ".join(f"${name} \\ge {bound}$" for name, bound in zip(names, low, strict=True))
    sketch.ask({"total": " + ".join(names), "bounds": bounds}, n=n, low=low)
    rest = n - sum(low)
    by = f"{n} - ({' + '.join(map(str, low))})"
    sketch.step("How much remains to be shared when each variable has its least value?", rest, by=by)
    total, places = math.comb(rest + k - 1, k - 1), rest + k - 1
    question = f"In how many ways can {rest} equal units be given to {k} variables?"
    wrong = (math.comb(rest + k, k), math.comb(rest - 1, k - 1))
    sketch.step(question, total, by=f"binomial({places}, {k - 1})", wrong=wrong)


@family
def lattice_detour(sketch: Sketch, draw: Random, level: int) -> None:
    """Lattice paths around a point."""
    a, b = draw.randint(4, 3 + level), draw.randint(4, 3 + level)
    c, d = draw.randint(1, a - 1), draw.randint(1, b - 1)
    sketch.ask(a=a, b=b, c=c, d=d)
    counts = []
    for s, t, x, y in ((0, 0, a, b), (0, 0, c, d), (c, d, a, b)):
        steps, right = x - s + y - t, x - s
        counts.append(math.comb(steps, right))
        sketch.first(f"How many paths lead from ({s},{t}) to ({x},{y})?", counts[-1], by=f"binomial({steps}, {right})")
    every, there, on = counts
    sketch.calculate(f"{every} - {there} * {on}", every - there * on, 0, 1, 2, wrong=(every - there - on,))


@family
def no_neighbours(sketch: Sketch, draw: Random, level: int) -> None:
    """Choices without neighbours."""
    n, k = draw.randint(8, 6 + 2 * level), draw.randint(3, level)
    sketch.ask(n=n, k=k)
    gaps = n - k + 1
    question = f"Between and around the {n - k} numbers left out, how many places are there?"
    sketch.step(question, gaps, by=f"{n} - {k} + 1")
    question, wrong = f"In how many ways can {k} of {gaps} places be chosen?", (math.comb(n, k), math.comb(n - k, k))
    sketch.step(question, math.comb(gaps, k), by=f"binomial({gaps}, {k})", wrong=wrong)


@family
def committee(sketch: Sketch, draw: Random, level: int) -> None:
    """Committees with enough women."""
    men, women = draw.randint(4, 5 + level), draw.randint(4, 5 + level)
    k = draw.randint(3, 3 + level // 2)
    least = k if level == 1 else draw.randint(k - level + 1, k - 1)
    sketch.ask(variant="women" if level == 1 else "", men=men, women=women, k=k, least=least)
    terms = []
    for w in range(max(least, k - men), min(k, women) + 1):
        terms.append(math.comb(women, w) * math.comb(men, k - w))
        by = f"binomial({women}, {w}) * binomial({men}, {k - w})"
        sketch.first(f"How many committees have exactly {w} women and {k - w} men?", terms[-1], by=by)
    if len(terms) > 1:
        sketch.calculate(" + ".join(map(str, terms)), sum(terms), *range(len(terms)), wrong=(terms[0],))


@family
def full_boxes(sketch: Sketch, draw: Random, level: int) -> None:
    """Ways to leave no box empty."""
    k = level - draw.randint(0, 1)
    n = k + draw.randint(1, 3)
    sketch.ask(n=n, k=k)
    terms = [math.comb(k, j) * (k - j) ** n for j in range(k)]
    for j, term in enumerate(terms):
        question = f"How many ways are there for {j} chosen boxes to stay empty, times the choices of these boxes?"
        sketch.first(question, term, by=f"binomial({k}, {j}) * {k - j}^{n}")
    by = "".join(f" {'-' if j % 2 else '+'} {term}" for j, term in enumerate(terms)).removeprefix(" + ")
    sketch.calculate(by, sum(terms[::2]) - sum(terms[1::2]), *range(k), wrong=(k**n,))


@family
def fixed_points(sketch: Sketch, draw: Random, level: int) -> None:
    """Permutations with some fixed points."""
    n = draw.randint(level + 2, level + 3)
    k = draw.randint(2, n - 3)
    sketch.ask(n=n, k=k)
    chosen, none = math.comb(n, k), [1, 0]
    sketch.step(f"In how many ways can the {k} right letters be chosen?", chosen, by=f"binomial({n}, {k})")
    for m in range(2, n - k + 1):
        by = f"{m - 1} * ({none[-1]} + {none[-2]})"
        none.append((m - 1) * (none[-1] + none[-2]))
        question = f"In how many ways can {m} letters all be wrong?"
        sketch.first(question, none[m], by=by) if m == 2 else sketch.step(question, none[m], by=by)
    sketch.calculate(f"{chosen} * {none[-1]}", chosen * none[-1], 0, n - k - 1)


@family
def distinct_digits(sketch: Sketch, draw: Random, level: int) -> None:
    """Even numbers of different digits."""
    n = level + draw.randint(0, 1)
    sketch.ask(n=n)
    zero, other = math.perm(9, n - 1), 4 * 8 * math.perm(8, n - 2)
    sketch.step("How many of them end in 0?", zero, by=" * ".join(map(str, range(9, 10 - n, -1))))
    by = " * ".join(map(str, (4, 8, *range(8, 10 - n, -1))))
    sketch.first("How many of them end in 2, 4, 6 or 8?", other, by=by, wrong=(4 * zero,))
    sketch.calculate(f"{zero} + {other}", zero + other, 0, 1)


@family
def handshakes(sketch: Sketch, draw: Random, level: int) -> None:
    """Handshakes of couples and guests."""
    couples = draw.randint(4, 9 * level)
    alone = draw.randint(1, 6) if level == 2 else 0
    sketch.ask({"extra": f" and {alone} single guests" if alone else ""}, couples=couples, alone=alone)
    people = 2 * couples + alone
    pairs = math.comb(people, 2)
    sketch.step("How many people are there?", people, by=f"2 * {couples} + {alone}")
    sketch.step(f"How many pairs do {people} people form?", pairs, by=f"binomial({people}, 2)", wrong=(2 * pairs,))
    question = f"What is {pairs} less the {couples} couples?"
    sketch.step(question, pairs - couples, by=f"{pairs} - {couples}", wrong=(pairs,))


@family
def ring_colourings(sketch: Sketch, draw: Random, level: int) -> None:
    """Colourings of a ring."""
    n, k = draw.randint(4, level + 3), draw.randint(3, level)
    sketch.ask(n=n, k=k)
    ring = k * (k - 1) * (k - 2)
    sketch.step("In how many ways can a ring of 3 lamps be coloured so?", ring, by=f"{k} * {k - 1} * {k - 2}")
    for m in range(4, n + 1):
        row = k * (k - 1) ** (m - 1)
        by = f"{k} * {k - 1}^{m - 1} - {ring}"
        question = f"Rows of {m} lamps whose ends agree are rings of {m - 1} lamps: how many rings of {m} are there?"
        sketch.step(question, row - ring, by=by, wrong=(row,))
        ring = row - ring


# ------------------------------------------------------------------------------------------------- probability


def _share(sketch: Sketch, good: int, every: int, *needs: int) -> None:
    """Add the step from the numbers of good and of all cases to a probability."""
    by = f"{good}/{every}"
    sketch.step(f"What is {by} in lowest terms?", Fraction(good, every), *needs, by=by)


@family
def dice_sum(sketch: Sketch, draw: Random, level: int) -> None:
    """The probability of a sum of dice."""
    dice, sides = (2, 6) if level == 1 else (2, draw.choice((8, 10, 12))) if level == 2 else (3, 6)
    s = draw.randint(dice + 1, dice * sides - 1)
    sketch.ask({"count": _DICE[dice]}, dice=dice, sides=sides, s=s)
    others = itertools.product(range(1, sides + 1), repeat=dice - 1)
    ways = sum(1 <= s - sum(shown) <= sides for shown in others)
    every = sides**dice
    sketch.step(f"In how many ways do {dice} such dice add up to {s}?", ways)
    sketch.first(f"How many outcomes have {dice} dice with {sides} sides?", every, by=f"{sides}^{dice}")
    question = f"What is {ways} of {every} as a fraction in lowest terms?"
    sketch.step(question, Fraction(ways, every), 0, 1, by=f"{ways}/{every}")


@family
def drawn_balls(sketch: Sketch, draw: Random, level: int) -> None:
    """The probability of a draw without replacement."""
    red, blue = draw.randint(3, 4 + 2 * level), draw.randint(3, 4 + 2 * level)
    k = level + 1
    r = draw.randint(1, min(k, red)) if level > 1 else 2
    sketch.ask(red=red, blue=blue, k=k, r=r)
    every, good = math.comb(red + blue, k), math.comb(red, r) * math.comb(blue, k - r)
    by = f"binomial({red}, {r}) * binomial({blue}, {k - r})"
    sketch.step(f"In how many ways can {r} red and {k - r} blue balls be drawn?", good, by=by)
    sketch.first(f"In how many ways can {k} of {red + blue} balls be drawn?", every, by=f"binomial({red + blue}, {k})")
    _share(sketch, good, every, 0, 1)


@family
def coin_flips(sketch: Sketch, draw: Random, level: int) -> None:
    """The probability of enough heads."""
    n = draw.randint(4, 5 + level)
    k = draw.randint(n // 2 + 1, n - 1)
    p = Fraction(1, 2) if level == 2 else Fraction(1, draw.choice((3, 4)))
    coin = "A fair coin" if level == 2 else f"A coin that shows heads with probability {p}"
    sketch.ask({"coin": coin}, n=n, k=k, p=str(p))
    terms = []
    for heads in range(k, n + 1):
        terms.append(math.comb(n, heads) * p**heads * (1 - p) ** (n - heads))
        by = f"binomial({n}, {heads}) * ({p})^{heads} * ({1 - p})^{n - heads}"
        sketch.first(f"What is the probability of exactly {heads} heads?", terms[-1], by=by)
    needs, by = range(len(terms)), " + ".join(map(str, terms))
    sketch.step("What do these probabilities add up to?", sum(terms, Fraction(0)), *needs, by=by, wrong=(terms[0],))


@family
def first_to_hit(sketch: Sketch, draw: Random, level: int) -> None:
    """The probability to hit first, in turns."""
    p, q = (Fraction(draw.randint(1, 4), draw.randint(5, 4 + level)) for _ in "pq")
    second_wins = level == 4
    sketch.ask({"who": "Bert" if second_wins else "Anna"}, p=str(p), q=str(q), second=second_wins)
    miss = (1 - p) * (1 - q)
    win = p / (1 - miss)
    sketch.step("What is the probability that both miss in a round?", miss, by=f"(1 - {p}) * (1 - {q})")
    sketch.step("What is the probability that Anna hits first?", win, by=f"({p}) / (1 - ({miss}))", wrong=(p,))
    if second_wins:
        sketch.step("What is the probability that Bert hits first?", 1 - win, by=f"1 - {win}", wrong=(q,))


@family
def expected_maximum(sketch: Sketch, draw: Random, level: int) -> None:
    """The expected largest number of some dice."""
    n, dice = draw.randint(4, 10), level - 1
    sketch.ask({"count": _DICE[dice]}, n=n, dice=dice)
    lost = sum(m**dice for m in range(1, n))
    by = " + ".join(f"{m}^{dice}" for m in range(1, n))
    sketch.step(f"What is the sum of m^{dice} for m from 1 to {n - 1}?", lost, by=by)
    share = Fraction(lost, n**dice)
    question = "What do the chances that the largest number is at most m add up to, for m below the top?"
    sketch.step(question, share, by=f"{lost} / {n}^{dice}")
    sketch.step(f"What is {n} less that?", n - share, by=f"{n} - {share}")


@family
def given_one(sketch: Sketch, draw: Random, level: int) -> None:
    """A probability given what one die shows."""
    n = 6 if level == 3 else draw.choice((8, 10, 12))
    s = draw.randint(2, n)
    t = draw.randint(s + 2, s + n - 1)
    sketch.ask(n=n, s=s, t=t)
    every = 2 * n - 1
    by = f"2 * {n} - 1"
    sketch.step(f"How many of the {n * n} outcomes show at least one {s}?", every, by=by, wrong=(2 * n,))
    least = max(1, t - s)
    good = 2 * (n - least + 1) - (least <= s)
    sketch.first(f"In how many outcomes with at least one {s} is the sum at least {t}?", good, wrong=(good + 1,))
    _share(sketch, good, every, 0, 1)


@family
def divisible_pair(sketch: Sketch, draw: Random, level: int) -> None:
    """The probability that a sum is divisible."""
    n, m = draw.randint(8, 10 * level), draw.randint(3, level + 2)
    sketch.ask(n=n, m=m)
    sizes = [sum(i % m == r for i in range(1, n + 1)) for r in range(m)]
    shown = ", ".join(map(str, sizes))
    sketch.step(f"How many of 1 to {n} leave the remainders 0 to {m - 1} modulo {m}?", shown)
    good, terms = 0, []
    for r in range(m // 2 + 1):  # with the remainder r goes m - r
        if r == -r % m:
            good += math.comb(sizes[r], 2)
            terms.append(f"binomial({sizes[r]}, 2)")
        else:
            good += sizes[r] * sizes[m - r]
            terms.append(f"{sizes[r]} * {sizes[m - r]}")
    sketch.step(f"How many pairs have a sum divisible by {m}?", good, by=" + ".join(terms))
    every = math.comb(n, 2)
    sketch.first("How many pairs are there?", every, by=f"binomial({n}, 2)")
    _share(sketch, good, every, 1, 2)
