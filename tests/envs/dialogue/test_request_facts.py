from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from toolorchestra.envs.dialogue.request_facts import facts_in, vocabulary_of, with_blanks
from toolorchestra.envs.registration import domain_sources
from toolorchestra.envs.task_source import make_source
from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.domain_folder import load_domain

RESTAURANT = load_domain("restaurant")
VOCABULARY = vocabulary_of(RESTAURANT)


def opened(text: str) -> str:
    return with_blanks(text, facts_in(text, VOCABULARY))


@pytest.mark.parametrize(
    ("request_", "with_gaps"),
    [
        ("Order O1126 of Hugo, please.", "Order [order] of [customer], please."),
        ("Hugo's bill of July 24, 2025?", "[customer]'s bill of [date]?"),
        ("A table for 4 guests at 19:30.", "A table for [number] guests at [time]."),
        ("Swap K05 and K06 (both cook D12).", "Swap [first chef] and [second chef] (both cook [dish])."),
        ("Refund $12.50 of O1126; O1126 was paid by card.", "Refund [amount] of [order]; [order] was paid by card."),
        ("Dinner on 2025-08-06. Is July 30 free?", "Dinner on [first date]. Is [second date] free?"),
        ("What is there for dinner, and is it vegan?", "What is there for dinner, and is it vegan?"),
    ],
)
def test_values_are_left_open_and_named(request_: str, with_gaps: str) -> None:
    assert opened(request_) == with_gaps


def test_another_spelling_of_a_fact_is_left_open_too() -> None:
    assert opened("2025-07-30 is full; what of two tables for 2 on July 30, 2025?") == (
        "[date] is full; what of [number] tables for [number] on [date]?"
    )


def test_what_is_counted_is_another_word_for_a_number() -> None:
    (fact,) = facts_in("A table for 4 guests", VOCABULARY)
    assert {"number", "guest", "how many"} <= set(fact.words)


def test_facts_beyond_the_twentieth_of_a_kind_are_in_the_first_request() -> None:
    orders = ", ".join(f"O{1001 + n}" for n in range(25))
    assert len(facts_in(orders, VOCABULARY)) == 20
    assert opened(orders).endswith("[twentieth order], O1021, O1022, O1023, O1024, O1025")


@pytest.mark.parametrize("source", domain_sources())
def test_no_request_gives_a_fact_away_that_it_leaves_open(source: str) -> None:
    tasks = make_source(source, None, None).tasks("all")
    vocabulary = vocabulary_of(load_domain(source.lower()))
    found = 0
    for task in random.Random(0).sample(list(tasks), 60):
        facts = facts_in(task.instruction, vocabulary)
        request = tokens(with_blanks(task.instruction, facts))
        assert not [fact for fact in facts if mentions(request, fact.value)], task.id
        assert len({fact.label for fact in facts}) == len(facts)
        found += bool(facts)
    assert found >= 50  # most requests have something to ask for


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    facts = facts_in(text, VOCABULARY)
    assert opened(text) == with_blanks(text, facts)
    assert with_blanks(text, ()) == text
