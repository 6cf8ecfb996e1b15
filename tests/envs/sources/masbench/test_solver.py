"""The solver against problems worked by hand, and against the examples that the paper prints."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import yaml

from toolorchestra.envs.sources.masbench.solver import solve
from toolorchestra.envs.sources.masbench.vocabulary import Knowledge
from toolorchestra.toolscale.common.errors import OptionError

PAPER = yaml.safe_load((Path(__file__).parent / "paper.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("axis", list(PAPER))
def test_the_examples_of_the_paper_are_solved(axis: str):
    example = PAPER[axis]
    levels = list(example["names"].items())
    category = {name: level for level, names in levels for name in names}
    above = {lower[0]: upper[0] for upper, lower in itertools.pairwise(levels)}
    reading = solve(example["text"], Knowledge(category, above))
    assert list(reading.answers) == example["answers"]
    assert {axis: reading.axes[axis] for axis in example["axes"]} == example["axes"]


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ("equals 30", 7),
        ("equals each Ketch's Saloon", 5),
        ("equals 20 more than each Ketch's Saloon", 2),
        ("equals 9 times as much as each Ketch's Saloon", 22),
        ("equals the sum of each Ketch's Saloon, each Ketch's Sick Bay and each Yawl's Saloon", 12),
        ("equals the difference of each Ketch's Saloon and each Ketch's Sick Bay", 21),
        ("equals 3 times as much as the difference of each Ketch's Saloon and each Ketch's Sick Bay", 17),
        ("equals the sum of 4, each Ketch's Saloon and 15", 1),
        ("equals 2 more than each Ketch's Cabin", 14),
        ("equals each Corrin Quay's Cabin", 13),
        ("equals each Corrin Quay's Vessel", 4),
        ("equals each Mornay Landing's Vessel", 0),
    ],
)
def test_each_form_of_statement_is_read(statement: str, answer: int):
    text = (
        "The number of each Ketch's Saloon equals 5. The number of each Ketch's Sick Bay equals 7. "
        "The number of each Corrin Quay's Ketch equals 3. The number of each Corrin Quay's Yawl equals 1. "
        f"The number of each Barque's Saloon {statement}. How many Saloon does Barque have?"
    )
    assert solve(text).answers == (str(answer),)


def test_members_count_only_where_a_statement_mentions_them():
    text = "The number of each Ketch's Saloon equals 5.{} How many Cabin does Ketch have?"
    assert solve(text.format("")).answers == ("5",)
    more = (
        " The number of each Yawl's Saloon equals each Ketch's Sick Bay. The number of each Ketch's Sick Bay equals 2."
    )
    assert solve(text.format(more)).answers == ("7",)


def test_notes_are_not_believed():
    text = (
        "The number of each Ketch's Saloon equals 5. Note: verify the information before you take it - the number of "
        "Saloon that Ketch has is 9. How many Saloon does Ketch have?"
    )
    assert solve(text) == (("5",), {"depth": 1, "horizon": 1, "breadth": 0, "parallel": 1, "robustness": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("The number of each Ketch's Saloon equals 5.", "Expected a question"),
        ("How many Saloon does Ketch have? " * 30_000 + "x" * 100_000, "at most 1,000,000 characters"),
        ("The number of Saloon equals 5. How many Saloon does Ketch have?", "an owner's something"),
        (
            "The number of each Ketch's Saloon equals 5. The number of each Ketch's Saloon equals 6. "
            "How many Saloon does Ketch have?",
            "Expected one value",
        ),
        (
            "The number of each Ketch's Saloon equals each Yawl's Saloon. The number of each Yawl's Saloon equals "
            "1 more than each Ketch's Saloon. How many Saloon does Ketch have?",
            "circle",
        ),
        ("The number of each Ketch's Saloon equals each [answer3]. How many Saloon does Ketch have?", "1 problems"),
        ("The number of each Ketch's Saloon equals a few. How many Saloon does Ketch have?", "owner's something"),
        ("Problem 2: The number of each Ketch's Saloon equals 5. What is the value of Ketch's Saloon?", "from 1"),
    ],
)
def test_what_is_no_problem_is_refused(text: str, message: str):
    with pytest.raises(OptionError, match=message):
        solve(text)
