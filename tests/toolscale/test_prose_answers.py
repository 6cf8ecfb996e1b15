"""The paper's rule for answers in prose: everything is mentioned, and nothing else is checked."""

from __future__ import annotations

import pytest

from toolorchestra.toolscale.answers.prose_answers import MAX_CHARACTERS, judge_mentions

FACTS = (("$1,234.50",), ("soup", "broth"), ("2025-07-30",))


@pytest.mark.parametrize(
    "text",
    [
        "The soup is 1234.5 on July 30, 2025.",
        "On the 30th of July 2025: BROTH, USD 1,234.50",
        "| broth | 2025-07-30 | $1234.50 |",
        "It is not 1234.5, no soup, and never on 2025-07-30.",  # the rule does not read for meaning
        "1 or 2 or 1234.5; soup, pie or cake; 2025-07-29, 2025-07-30 or 2025-07-31",  # nor does it count
    ],
)
def test_an_answer_that_mentions_every_fact_is_right(text: str) -> None:
    assert judge_mentions(text, FACTS) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("", ["'$1,234.50'", "'soup' or 'broth'", "'2025-07-30'"]),
        ("Soup, July 30, 2025, 1234.55", ["'$1,234.50'"]),
        ("Soups for 1234.5 on 2025-07-30", ["'soup' or 'broth'"]),
        ("Soup for 1234.5 on 2024-07-30", ["'2025-07-30'"]),
        ("soup 12345 2025-07-301", ["'$1,234.50'", "'2025-07-30'"]),
    ],
)
def test_what_is_not_mentioned_is_named(text: str, missing: list[str]) -> None:
    assert judge_mentions(text, FACTS) == [f"the user was not told {fact}" for fact in missing]


def test_where_nothing_is_to_be_told_any_answer_of_bounded_length_is_right() -> None:
    assert judge_mentions("", ()) == judge_mentions("No.", ()) == []
    assert "at most 20,000 are read" in judge_mentions("x" * (MAX_CHARACTERS + 1), ())[0]
