"""Families of problems about counting and chance."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from random import Random

from toolorchestra.envs.sources.math.sketch import Sketch, family

COUNTING = "counting"
CHANCE = "probability"
_WORDS = {
    1: ("LEVEL", "BANANA", "APPLE", "EERIE", "PEPPER", "COFFEE", "TOFFEE", "KAYAK", "HELLO", "DADDY", "RADAR", "MAMMA"),
    2: ("LETTERS", "BALLOON", "ALGEBRA", "ARRANGE", "CABBAGE", "SUCCESS", "PARALLEL", "COCONUT", "ADDRESS", "INITIAL"),
    3: ("MISSISSIPPI", "TENNESSEE", "ENGINEERING", "COMMITTEE", "ASSESSMENT", "ABRACADABRA", "SUCCESSION"),
}


def _choose(n: int, k: int) -> int:
    return math.comb(n, k) if 0 <= k <= n else 0


@family(COUNTING, 1, 2, 3)
def word_arrangements(draw: Random, level: int) -> Sketch:
    """Arrangements of the letters of a word."""
    word = draw.choice(_WORDS[level])
    letters = Counter(word)
    together = draw.choice(sorted(letters)) if level == 2 else ""
    condition = f" have all letters {together} next to each other" if together and letters[together] > 1 else ""
    asked = f"How many different arrangements of the letters of {word}{condition}?"
    statement = asked if condition else f"How many different arrangements are there of the letters of {word}?"
    sketch = Sketch(statement, word=word, together=together if condition else "")
    blocks = Counter(letters)
    if condition:
        blocks[together] = 1
    n = sum(blocks.values())
    repeats = [count for count in blocks.values() if count > 1]
    first = sketch.step(f"In how many orders can {n} different things stand?", math.factorial(n), by=f"{n}!")
    shared = math.prod(map(math.factorial, repeats))
    by = " * ".join(f"{count}!" for count in repeats) or "1"
    second = sketch.first(f"How often is each arrangement counted, letters repeating {repeats} times?", shared, by=by)
    total = math.factorial(n) // shared
    by = f"{math.factorial(n)} / {shared}"
    sketch.step(f"What is {by}?", total, first, second, by=by, wrong=(math.factorial(n),))
    return sketch


@family(COUNTING, 1, 2, 3)
def apart_in_line(draw: Random, level: int) -> Sketch:
    """Lines of people some of whom do not stand together."""
    n = draw.randint(5, 6 + 2 * level)
    pairs = 1 if level < 3 else 2
    who = "Ann and Ben refuse to stand" if pairs == 1 else "neither Ann and Ben nor Cleo and Dan may stand"
    sketch = Sketch(f"In how many ways can {n} people stand in a line if {who} next to each other?", n=n, pairs=pairs)
    first = sketch.step(f"In how many orders can {n} people stand?", math.factorial(n), by=f"{n}!")
    together = 2 * math.factorial(n - 1)
    second = sketch.first(f"In how many of the orders of {n} people do two given ones stand together?", together,
                          by=f"2 * {n - 1}!", wrong=(math.factorial(n - 1),))  # fmt: skip
    if pairs == 1:
        by = f"{math.factorial(n)} - {together}"
        sketch.step(f"What is {by}?", math.factorial(n) - together, first, second, by=by)
        return sketch
    both = 4 * math.factorial(n - 2)
    third = sketch.first(
        f"In how many of the orders of {n} people do both pairs stand together?", both, by=f"4 * {n - 2}!"
    )
    total = math.factorial(n) - 2 * together + both
    by = f"{math.factorial(n)} - 2 * {together} + {both}"
    sketch.step(f"What is {by}?", total, first, second, third, by=by, wrong=(math.factorial(n) - 2 * together,))
    return sketch


@family(COUNTING, 2, 3, 4)
def round_table(draw: Random, level: int) -> Sketch:
    """Seatings at a round table."""
    n = draw.randint(5, 5 + 2 * level)
    apart = level > 2
    who = "if two of them must not sit next to each other" if apart else "if two of them want to sit next to each other"
    statement = (
        f"In how many ways can {n} people sit around a round table {who}? "
        "Seatings that differ by a rotation are the same."
    )
    sketch = Sketch(statement, n=n, apart=apart)
    pair = 2 * math.factorial(n - 2)
    first = sketch.step(f"In how many ways can {n} people sit with the two together?", pair, by=f"2 * {n - 2}!",
                        wrong=(math.factorial(n - 2), 2 * math.factorial(n - 1)))  # fmt: skip
    if apart:
        every = math.factorial(n - 1)
        second = sketch.first(f"In how many ways can {n} people sit at all?", every, by=f"{n - 1}!")
        sketch.step(f"What is {every} - {pair}?", every - pair, first, second, by=f"{every} - {pair}")
    return sketch


@family(COUNTING, 2, 3, 4)
def bounded_sum(draw: Random, level: int) -> Sketch:
    """Solutions of a sum in integers with lower bounds."""
    k = level + draw.randint(1, 2)
    low = [draw.randint(0, level - 1) for _ in range(k)]
    n = sum(low) + draw.randint(5, 6 + 2 * level)
    names = "abcdefg"[:k]
    bounds = ", ".join(f"${name} \\ge {bound}$" for name, bound in zip(names, low, strict=True))
    sketch = Sketch(f"How many integer solutions has ${' + '.join(names)} = {n}$ with {bounds}?", n=n, low=low)
    rest = n - sum(low)
    by = f"{n} - ({' + '.join(map(str, low))})"
    sketch.step("How much remains to be shared when each variable has its least value?", rest, by=by)
    total = math.comb(rest + k - 1, k - 1)
    by = f"binomial({rest + k - 1}, {k - 1})"
    asked = f"In how many ways can {rest} equal units be given to {k} variables?"
    sketch.step(asked, total, by=by, wrong=(math.comb(rest + k, k), math.comb(rest - 1, k - 1)))
    return sketch


@family(COUNTING, 3, 4)
def lattice_detour(draw: Random, level: int) -> Sketch:
    """Lattice paths around a point."""
    a, b = draw.randint(4, 3 + level), draw.randint(4, 3 + level)
    c, d = draw.randint(1, a - 1), draw.randint(1, b - 1)
    statement = (
        f"A path goes from $(0,0)$ to $({a},{b})$ in unit steps right or up. How many such paths avoid the point "
        f"$({c},{d})$?"
    )
    sketch = Sketch(statement, a=a, b=b, c=c, d=d)
    every, there, on = math.comb(a + b, a), math.comb(c + d, c), math.comb(a + b - c - d, a - c)
    first = sketch.step(f"How many paths lead from (0,0) to ({a},{b})?", every, by=f"binomial({a + b}, {a})")
    second = sketch.first(f"How many paths lead from (0,0) to ({c},{d})?", there, by=f"binomial({c + d}, {c})")
    by = f"binomial({a + b - c - d}, {a - c})"
    third = sketch.first(f"How many paths lead from ({c},{d}) to ({a},{b})?", on, by=by)
    by = f"{every} - {there} * {on}"
    sketch.step(f"What is {by}?", every - there * on, first, second, third, by=by, wrong=(every - there - on,))
    return sketch


@family(COUNTING, 3, 4)
def no_neighbours(draw: Random, level: int) -> Sketch:
    """Choices without neighbours."""
    n, k = draw.randint(8, 6 + 2 * level), draw.randint(3, level)
    asked = (
        f"How many subsets of $\\{{1, 2, \\dots, {n}\\}}$ have {k} elements, no two of them consecutive?",
        f"In how many ways can {k} of {n} chairs in a row be chosen so that no two are next to each other?",
    )
    sketch = Sketch(draw.choice(asked), n=n, k=k)
    gaps = n - k + 1
    sketch.step(
        f"Between and around the {n - k} numbers left out, how many places are there?", gaps, by=f"{n} - {k} + 1"
    )
    total = math.comb(gaps, k)
    sketch.step(f"In how many ways can {k} of {gaps} places be chosen?", total, by=f"binomial({gaps}, {k})",
                wrong=(math.comb(n, k), math.comb(n - k, k)))  # fmt: skip
    return sketch


@family(COUNTING, 1, 2, 3)
def committee(draw: Random, level: int) -> Sketch:
    """Committees with enough women."""
    men, women = draw.randint(4, 5 + level), draw.randint(4, 5 + level)
    k = draw.randint(3, 3 + level // 2)
    least = k if level == 1 else draw.randint(k - level + 1, k - 1)
    how = f"only women among its {k} members" if level == 1 else f"{k} members, at least {least} of them women"
    sketch = Sketch(f"From {men} men and {women} women, how many committees can be formed with {how}?",
                    men=men, women=women, k=k, least=least)  # fmt: skip
    needs, terms = [], []
    for w in range(least, k + 1):
        count = _choose(women, w) * _choose(men, k - w)
        by = f"binomial({women}, {w}) * binomial({men}, {k - w})"
        if w <= women and k - w <= men:
            terms.append(count)
            needs.append(sketch.first(f"How many committees have exactly {w} women and {k - w} men?", count, by=by))
    if len(terms) > 1:
        by = " + ".join(map(str, terms))
        sketch.step(f"What is {by}?", sum(terms), *needs, by=by, wrong=(terms[0],))
    return sketch


@family(COUNTING, 3, 4, 5)
def full_boxes(draw: Random, level: int) -> Sketch:
    """Ways to leave no box empty."""
    k = level - draw.randint(0, 1)
    n = k + draw.randint(1, 3)
    asked = (
        f"In how many ways can {n} different balls be put into {k} different boxes so that no box is empty?",
        f"How many functions from a set of {n} elements onto a set of {k} elements are there?",
    )
    sketch = Sketch(draw.choice(asked), n=n, k=k)
    needs, terms = [], []
    for j in range(k):
        term = math.comb(k, j) * (k - j) ** n
        terms.append(term)
        asked_step = f"How many ways are there for {j} chosen boxes to stay empty, times the choices of these boxes?"
        needs.append(sketch.first(asked_step, term, by=f"binomial({k}, {j}) * {k - j}^{n}"))
    by = "".join(f" {'-' if j % 2 else '+'} {term}" for j, term in enumerate(terms)).removeprefix(" + ")
    total = sum(term * (-1) ** j for j, term in enumerate(terms))
    sketch.step(f"What is {by}?", total, *needs, by=by, wrong=(k**n,))
    return sketch


@family(COUNTING, 3, 4, 5)
def fixed_points(draw: Random, level: int) -> Sketch:
    """Permutations with some fixed points."""
    n = draw.randint(level + 2, level + 3)
    k = draw.randint(2, n - 3)
    statement = (
        f"{n} letters are put at random into {n} addressed envelopes, one in each. In how many ways do exactly {k} "
        f"letters get into the right envelope?"
    )
    sketch = Sketch(statement, n=n, k=k)
    first = sketch.step(
        f"In how many ways can the {k} right letters be chosen?", math.comb(n, k), by=f"binomial({n}, {k})"
    )
    none = [1, 0]
    for m in range(2, n - k + 1):
        none.append((m - 1) * (none[-1] + none[-2]))
    for m in range(2, n - k):
        by = f"{m - 1} * ({none[m - 1]} + {none[m - 2]})"
        asked = f"In how many ways can {m} letters all be wrong?"
        sketch.first(asked, none[m], by=by) if m == 2 else sketch.step(asked, none[m], by=by)
    m, wrong = n - k, none[n - k]
    last = sketch.step(
        f"In how many ways can {m} letters all be wrong?", wrong, by=f"{m - 1} * ({none[m - 1]} + {none[m - 2]})"
    )
    by = f"{math.comb(n, k)} * {wrong}"
    sketch.step(f"What is {by}?", math.comb(n, k) * wrong, first, last, by=by)
    return sketch


@family(COUNTING, 2, 3, 4)
def distinct_digits(draw: Random, level: int) -> Sketch:
    """Even numbers of different digits."""
    n = level + draw.randint(0, 1)
    statement = f"How many {n}-digit even positive integers have {n} different digits (the first is not 0)?"
    sketch = Sketch(statement, n=n)
    zero = math.perm(9, n - 1)
    first = sketch.step("How many of them end in 0?", zero, by=" * ".join(str(9 - i) for i in range(n - 1)))
    other = 4 * 8 * math.perm(8, n - 2)
    by = " * ".join(["4", "8", *(str(8 - i) for i in range(n - 2))])
    second = sketch.first("How many of them end in 2, 4, 6 or 8?", other, by=by, wrong=(4 * math.perm(9, n - 1),))
    sketch.step(f"What is {zero} + {other}?", zero + other, first, second, by=f"{zero} + {other}")
    return sketch


@family(COUNTING, 1, 2)
def handshakes(draw: Random, level: int) -> Sketch:
    """Handshakes of couples and guests."""
    couples = draw.randint(4, 9 * level)
    alone = draw.randint(1, 6) if level == 2 else 0
    extra = f" and {alone} single guests" if alone else ""
    statement = (
        f"{couples} couples{extra} meet. Everyone shakes hands once with everyone else, except with their own partner. "
        "How many handshakes are there?"
    )
    sketch = Sketch(statement, couples=couples, alone=alone)
    people = 2 * couples + alone
    sketch.step("How many people are there?", people, by=f"2 * {couples} + {alone}")
    pairs = people * (people - 1) // 2
    sketch.step(
        f"How many pairs do {people} people form?", pairs, by=f"binomial({people}, 2)", wrong=(people * (people - 1),)
    )
    sketch.step(
        f"What is {pairs} less the {couples} couples?", pairs - couples, by=f"{pairs} - {couples}", wrong=(pairs,)
    )
    return sketch


@family(COUNTING, 4, 5)
def ring_colourings(draw: Random, level: int) -> Sketch:
    """Colourings of a ring."""
    n, k = draw.randint(4, level + 3), draw.randint(3, level)
    statement = (
        f"A ring of {n} fixed, numbered lamps is to be coloured with {k} colours so that neighbours differ. "
        "In how many ways can this be done?"
    )
    sketch = Sketch(statement, n=n, k=k)
    row = k * (k - 1) ** (n - 1)
    ring = k * (k - 1) * (k - 2)
    sketch.step("In how many ways can a ring of 3 lamps be coloured so?", ring, by=f"{k} * {k - 1} * {k - 2}")
    for m in range(4, n + 1):
        row = k * (k - 1) ** (m - 1)
        by = f"{k} * {k - 1}^{m - 1} - {ring}"
        asked = f"Rows of {m} lamps whose ends agree are rings of {m - 1} lamps: how many rings of {m} are there?"
        sketch.step(asked, row - ring, by=by, wrong=(row,))
        ring = row - ring
    return sketch


# ------------------------------------------------------------------------------------------------------ chance


@family(CHANCE, 1, 2, 3)
def dice_sum(draw: Random, level: int) -> Sketch:
    """The chance of a sum of dice."""
    dice, sides = (2, 6) if level == 1 else (2, draw.choice((8, 10, 12))) if level == 2 else (3, 6)
    s = draw.randint(dice + 1, dice * sides - 1)
    statement = (
        f"{('Two', 'Three')[dice - 2]} fair {sides}-sided dice are rolled. What is the probability that the numbers "
        f"shown add up to {s}?"
    )
    sketch = Sketch(statement, dice=dice, sides=sides, s=s)
    ways = sum(
        1
        for rest in range(sides ** (dice - 1))
        if 1 <= s - sum(rest // sides**i % sides + 1 for i in range(dice - 1)) <= sides
    )
    first = sketch.step(f"In how many ways do {dice} such dice add up to {s}?", ways)
    second = sketch.first(f"How many outcomes have {dice} dice with {sides} sides?", sides**dice, by=f"{sides}^{dice}")
    asked = f"What is {ways} of {sides**dice} as a fraction in lowest terms?"
    sketch.step(asked, Fraction(ways, sides**dice), first, second, by=f"{ways}/{sides**dice}")
    return sketch


@family(CHANCE, 1, 2, 3)
def drawn_balls(draw: Random, level: int) -> Sketch:
    """The chance of a draw without replacement."""
    red, blue = draw.randint(3, 4 + 2 * level), draw.randint(3, 4 + 2 * level)
    k = level + 1
    r = draw.randint(1, min(k, red)) if level > 1 else 2
    statement = (
        f"A bag holds {red} red and {blue} blue balls. {k} balls are drawn at random without replacement. What is the "
        f"probability that exactly {r} of them are red?"
    )
    sketch = Sketch(statement, red=red, blue=blue, k=k, r=r)
    every, good = math.comb(red + blue, k), math.comb(red, r) * math.comb(blue, k - r)
    by = f"binomial({red}, {r}) * binomial({blue}, {k - r})"
    first = sketch.step(f"In how many ways can {r} red and {k - r} blue balls be drawn?", good, by=by)
    by = f"binomial({red + blue}, {k})"
    second = sketch.first(f"In how many ways can {k} of {red + blue} balls be drawn?", every, by=by)
    asked = f"What is {good}/{every} in lowest terms?"
    sketch.step(asked, Fraction(good, every), first, second, by=f"{good}/{every}")
    return sketch


@family(CHANCE, 2, 3)
def coin_flips(draw: Random, level: int) -> Sketch:
    """The chance of enough heads."""
    n = draw.randint(4, 5 + level)
    k = draw.randint(n // 2 + 1, n - 1)
    p = Fraction(1, 2) if level == 2 else Fraction(1, draw.choice((3, 4)))
    coin = "A fair coin" if level == 2 else f"A coin that shows heads with probability {p}"
    sketch = Sketch(f"{coin} is flipped {n} times. What is the probability of at least {k} heads?", n=n, k=k, p=str(p))
    needs, terms = [], []
    for heads in range(k, n + 1):
        term = math.comb(n, heads) * p**heads * (1 - p) ** (n - heads)
        terms.append(term)
        by = f"binomial({n}, {heads}) * ({p})^{heads} * ({1 - p})^{n - heads}"
        needs.append(sketch.first(f"What is the probability of exactly {heads} heads?", term, by=by))
    by = " + ".join(map(str, terms))
    sketch.step("What do these probabilities add up to?", sum(terms, Fraction(0)), *needs, by=by, wrong=(terms[0],))
    return sketch


@family(CHANCE, 3, 4)
def first_to_hit(draw: Random, level: int) -> Sketch:
    """The chance to hit first, in turns."""
    p, q = (Fraction(draw.randint(1, 4), draw.randint(5, 4 + level)) for _ in "pq")
    second_wins = level == 4
    who = "Bert" if second_wins else "Anna"
    statement = (
        f"Anna and Bert throw at a target in turns, Anna first, until one of them hits. Anna hits with probability {p} "
        f"on each throw, Bert with probability {q}. What is the probability that {who} hits first?"
    )
    sketch = Sketch(statement, p=str(p), q=str(q), second=second_wins)
    miss = (1 - p) * (1 - q)
    first = sketch.step("What is the probability that both miss in a round?", miss, by=f"(1 - {p}) * (1 - {q})")
    win = p / (1 - miss)
    last = sketch.step(
        "What is the probability that Anna hits first?", win, first, by=f"({p}) / (1 - ({miss}))", wrong=(p,)
    )
    if second_wins:
        sketch.step("What is the probability that Bert hits first?", 1 - win, last, by=f"1 - {win}", wrong=(q,))
    return sketch


@family(CHANCE, 3, 4)
def expected_maximum(draw: Random, level: int) -> Sketch:
    """The expected largest number of some dice."""
    n, dice = draw.randint(4, 10), level - 1
    statement = (
        f"{('Two', 'Three')[dice - 2]} fair {n}-sided dice with the numbers 1 to {n} are rolled. What is the expected "
        "value of the largest number shown?"
    )
    sketch = Sketch(statement, n=n, dice=dice)
    lost = sum(m**dice for m in range(1, n))
    by = " + ".join(f"{m}^{dice}" for m in range(1, n))
    sketch.step(f"What is the sum of m^{dice} for m from 1 to {n - 1}?", lost, by=by)
    share = Fraction(lost, n**dice)
    sketch.step("What do the chances that the largest number is at most m add up to, for m below the top?", share,
                by=f"{lost} / {n}^{dice}")  # fmt: skip
    sketch.step(f"What is {n} less that?", n - share, by=f"{n} - {share}")
    return sketch


@family(CHANCE, 3, 4)
def given_one(draw: Random, level: int) -> Sketch:
    """A chance given what one die shows."""
    n = 6 if level == 3 else draw.choice((8, 10, 12))
    s = draw.randint(2, n)
    t = draw.randint(s + 2, s + n - 1)
    statement = (
        f"Two fair {n}-sided dice are rolled. Given that at least one of them shows {s}, what is the probability that "
        f"the sum is at least {t}?"
    )
    sketch = Sketch(statement, n=n, s=s, t=t)
    first = sketch.step(f"How many of the {n * n} outcomes show at least one {s}?", 2 * n - 1, by=f"2 * {n} - 1",
                        wrong=(2 * n,))  # fmt: skip
    least = max(1, t - s)
    good = 2 * (n - least + 1) - (least <= s)
    second = sketch.first(
        f"In how many outcomes with at least one {s} is the sum at least {t}?", good, wrong=(good + 1,)
    )
    asked = f"What is {good}/{2 * n - 1} in lowest terms?"
    sketch.step(asked, Fraction(good, 2 * n - 1), first, second, by=f"{good}/{2 * n - 1}")
    return sketch


@family(CHANCE, 2, 3, 4)
def divisible_pair(draw: Random, level: int) -> Sketch:
    """The chance that a sum is divisible."""
    n, m = draw.randint(8, 10 * level), draw.randint(3, level + 2)
    statement = (
        f"Two different integers are chosen at random from 1 to {n}. What is the probability that their sum is "
        f"divisible by {m}?"
    )
    sketch = Sketch(statement, n=n, m=m)
    sizes = [sum(1 for i in range(1, n + 1) if i % m == r) for r in range(m)]
    asked = f"How many of 1 to {n} leave the remainders 0 to {m - 1} modulo {m}?"
    first = sketch.step(asked, ", ".join(map(str, sizes)))
    good = sizes[0] * (sizes[0] - 1) // 2
    by = f"binomial({sizes[0]}, 2)"
    for r in range(1, m // 2 + 1):
        if 2 * r == m:
            good += sizes[r] * (sizes[r] - 1) // 2
            by += f" + binomial({sizes[r]}, 2)"
        elif 2 * r < m:
            good += sizes[r] * sizes[m - r]
            by += f" + {sizes[r]} * {sizes[m - r]}"
    second = sketch.step(f"How many pairs have a sum divisible by {m}?", good, first, by=by)
    every = n * (n - 1) // 2
    third = sketch.first("How many pairs are there?", every, by=f"binomial({n}, 2)")
    sketch.step(f"What is {good}/{every} in lowest terms?", Fraction(good, every), second, third, by=f"{good}/{every}")
    return sketch
