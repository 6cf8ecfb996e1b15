"""Hostile expressions: graders and calculators do not raise."""

from __future__ import annotations

import random
from itertools import islice

import msgspec
import pytest

from toolorchestra.envs.checks.hostile_expressions import EXPRESSION_KINDS, hostile_expressions, long_answers
from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.toolscale.answers.answers import equal, is_right
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Status

REFERENCES = ("5", r"\frac{3}{4}", r"2\sqrt{39}", "5x+1", r"\{1,2\}", "Brenholm", "explorer", "B", "87 years")


@pytest.mark.parametrize("kind", EXPRESSION_KINDS)
def test_hostile_answers_are_graded_and_expressions_computed(kind: str) -> None:
    rng = random.Random(f"expressions: {kind}")
    calculator = Calculator()
    for number in range(250):
        text, right = EXPRESSION_KINDS[kind](rng), rng.choice(REFERENCES)
        said = (text, rf"\boxed{{{text}}}", f"<answer>{text}</answer>")[number % 3]
        assert is_right(said, [right]) in (True, False)
        result = calculator.run({"expression": text[:500]}, NO_CONTEXT)
        assert result.status in (Status.OK, Status.EXEC_ERR)
        msgspec.json.encode(result.value)


def test_hostile_answers_of_a_million_characters_are_graded() -> None:
    rng = random.Random(2)
    for text in islice(long_answers(rng), 30):
        assert len(text) > 990_000
        assert is_right(text, [rng.choice(REFERENCES)]) in (True, False)


def test_votes_over_hostile_answers_are_counted() -> None:
    texts = [text for _, text in islice(hostile_expressions(random.Random(3)), 60)]
    assert all(isinstance(equal(one, other), bool) for one in texts for other in texts[:10])


def test_the_same_seed_gives_the_same_expressions() -> None:
    one, other = (list(islice(hostile_expressions(random.Random(4)), 50)) for _ in range(2))
    assert one == other
    assert {kind for kind, _ in one} == set(EXPRESSION_KINDS)
