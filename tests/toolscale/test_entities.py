from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.evolution.referring_expressions import Finder
from toolorchestra.toolscale.requests.entities import EntityFact, EntityIndex
from toolorchestra.toolscale.tasks.task import Call


@pytest.fixture(scope="module")
def world(mini: Domain) -> EntityIndex:
    return EntityIndex(mini)


def facts(world: EntityIndex) -> dict[str, EntityFact]:
    return {fact.field: fact for fact in world.facts("orders", "O001")}


def test_look_ups_return_the_facts_that_can_be_put_in_words(world: EntityIndex, mini: Domain) -> None:
    day, price = mini.database.base.execute("SELECT day, price FROM orders WHERE order_id = 'O001'").fetchone()
    found = facts(world)
    assert set(found) == {"day", "price", "double"}  # no reference, no unique coupon, no list of dishes
    assert found["price"].thing == "the price of order O001"
    assert (found["price"].value, found["day"].value) == (price, day)
    assert found["price"].call == Call("get_order", {"order_id": "O001"})


@given(st.sampled_from(["day", "price", "double"]), st.booleans(), st.integers())
def test_a_condition_holds_or_not_as_asked_for(world: EntityIndex, field: str, holds: bool, seed: int) -> None:
    fact = facts(world)[field]
    words = world.predicate(fact, random.Random(seed), holds)
    assert words is not None
    relation = "after" if words.startswith(("at least", "more than", "after")) else "before"
    assert (relation == "after") is (holds is _is_low(words, fact))


def _is_low(words: str, fact: EntityFact) -> bool:
    """Whether the bound in a condition lies below the fact's value."""
    import datetime

    bound = words.removeprefix("at least ").removeprefix("more than ").removeprefix("below ").removeprefix("at most ")
    if fact.kind == "number":
        return float(bound) < fact.value
    date = datetime.datetime.strptime(bound.split(" ", 1)[1], "%B %d, %Y").date().isoformat()
    return date < fact.value


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Cancel order O001.", "order O001"),
        ("Cancel the order O001!", "the order O001"),
        ("O001 is late", "O001"),
        ("Cancel O0011 and XO001 and O001-2", None),
    ],
)
def test_a_key_is_found_in_a_text_with_its_noun_and_never_inside_another_word(
    world: EntityIndex, text: str, found: str | None
) -> None:
    match = world.mention("orders", "O001").search(text)
    assert (match and match[0]) == found


def test_a_number_is_a_key_only_where_the_text_says_so(world: EntityIndex) -> None:
    pattern = world.mention("notes", 2)
    assert pattern.search("Delete note 2.")
    assert pattern.search("Delete note #2.")
    assert not pattern.search("I want 2 soups.")


def test_an_entry_that_no_search_finds_has_no_description(world: EntityIndex) -> None:
    assert Finder(world).description("orders", "O001") is None


def test_an_entry_is_described_by_a_natural_key_when_a_look_up_returns_its_id(world: EntityIndex, mini: Domain) -> None:
    found = Finder(world).description("customers", "C00")
    assert found is not None
    assert found.text == "the customer called Zoe"
    assert found.calls == (Call("get_customer", {"name": "Zoe"}),)


def test_what_is_true_of_two_entries_describes_none(edited: Callable[..., Path]) -> None:
    edited("tools.list_orders.parameters.day.column", "orders.day", file="tools.yaml")
    domain = load_domain(edited("tables.orders.columns.day.recipe", {"value": "2025-07-05"}))
    found = [Finder(EntityIndex(domain)).description("orders", f"O{number:03d}") for number in range(1, 41)]
    texts = [one.text for one in found if one is not None]
    assert len(set(texts)) == len(texts)
    assert all("whose price is" in text for text in texts)  # which the list shows, and which tells them apart
