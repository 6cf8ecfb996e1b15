from __future__ import annotations

import random
from typing import Any

from toolorchestra.algos.curriculum import Curriculum
from toolorchestra.algos.rollout.starts import Start


def curriculum(**settings: Any) -> Curriculum:
    return Curriculum({1: [Start(0), Start(1)], 2: [Start(2)], 3: [Start(3)]}, **settings)


def test_only_the_easiest_level_is_open_at_first() -> None:
    assert {level for level, _ in curriculum().draw(50, random.Random(0))} == {1}


def test_success_on_a_level_opens_the_next() -> None:
    tasks = curriculum(open_at=0.7)
    tasks.record(1, 0.6)
    assert tasks.open == 1
    for _ in range(60):
        tasks.record(1, 1.0)
    assert tasks.open == 2
    assert {level for level, _ in tasks.draw(50, random.Random(0))} == {1, 2}


def test_threshold_zero_opens_all_levels() -> None:
    assert {level for level, _ in curriculum(open_at=0.0).draw(99, random.Random(0))} == {1, 2, 3}


def test_levels_at_even_odds_are_drawn_oftener_than_mastered_ones() -> None:
    tasks = curriculum(open_at=0.0)
    for level, success in ((1, 1.0), (2, 0.5), (3, 0.0)):
        tasks.record(level, success)
    drawn = [level for level, _ in tasks.draw(1000, random.Random(0))]
    assert drawn.count(2) > 5 * max(drawn.count(1), drawn.count(3))


def test_a_restored_curriculum_goes_on_the_same() -> None:
    tasks, again = curriculum(), curriculum()
    for success in (0.9, 1.0, 0.4):
        tasks.record(1, success)
    again.restore(tasks.state())
    assert again.state() == tasks.state()
    assert again.draw(20, random.Random(3)) == tasks.draw(20, random.Random(3))
