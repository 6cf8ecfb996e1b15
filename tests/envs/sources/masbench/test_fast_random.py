"""Dice draw as `random.Random` does, so that instances do not depend on which of them is used."""

from __future__ import annotations

import random

from hypothesis import given, strategies as st

from toolorchestra.envs.sources.masbench.fast_random import FastRandom


@given(st.text(max_size=8), st.lists(st.integers(1, 60), min_size=1, max_size=12))
def test_the_same_seed_gives_the_same_draws_as_the_standard_library(seed: str, sizes: list[int]):
    dice, plain = FastRandom(seed), random.Random(seed)
    for size in sizes:
        things, mixed = list(range(size)), list(range(size))
        assert dice.below(size) == plain.randrange(size)
        assert dice.between(2, size + 2) == plain.randint(2, size + 2)
        assert dice.choice(things) == plain.choice(things)
        assert dice.random() == plain.random()
        dice.shuffle(mixed)
        plain.shuffle(things)
        assert mixed == things
        for count in {0, size // 2, size}:
            assert dice.sample(things, count) == plain.sample(things, count)
        repeated = [thing for thing in range(size) for _ in range(thing + 1)]
        assert dice.weighted(repeated) == plain.choices(range(size), range(1, size + 1))[0]
        assert dice.cell([(repeated, things), (mixed, repeated)]) == tuple(
            plain.choice(one) for one in plain.choice([(repeated, things), (mixed, repeated)])
        )
    assert dice.random() == plain.random()
