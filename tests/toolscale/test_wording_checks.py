from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import builtin_domains, load_domain, make_domain, read_spec
from toolorchestra.toolscale.requests.lookups import ids_in, raw_ids
from toolorchestra.toolscale.requests.wording_checks import (
    MAX_IDS,
    check_wording,
    is_sentence,
    share_with_ids,
    text_faults,
)

WORDED = builtin_domains()
"""Domains of the library whose requests are phrased by register."""


@pytest.mark.long
@pytest.mark.parametrize("name", WORDED)
def test_shipped_domains_have_no_fault(name: str) -> None:
    domain = load_domain(name)
    assert not list(map(str, check_wording(domain)))
    assert share_with_ids(domain.tasks(), raw_ids(domain)) <= MAX_IDS


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("A table with 1 seats.", {"agreement"}),
        ("Two guest come.", {"agreement"}),
        ("There are 1 left.", {"agreement"}),
        ("There is 3 left.", {"agreement"}),
        ("It costs 45.60000000000002 dollars.", {"decimals"}),
        ("It costs $45.6 now.", {"decimals"}),
        ("Dear {name}.", {"placeholders"}),
        ("A table with 1 seat for 2 guests, $45.60 each, at 12:30 on July 2.", set()),
        ("A 2-night stay, room 12 guest Ada.", {"agreement"}),
    ],
)
def test_faults_of_texts_are_found(text: str, faults: set[str]) -> None:
    assert {rule for rule, _ in text_faults(text)} == faults


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("A0133: today.", False),
        ("D07 price 21", False),
        ("D07 price is 21", False),
        ("the price is $21.", False),
        ("Ada, dinner on July 5: T05.", False),
        ("Ada has table T05 for dinner.", True),
        ("That isn't possible: the table is taken.", True),
        ('She said "it is too late."', True),
    ],
)
def test_fragments_are_told_from_sentences(text: str, right: bool) -> None:
    assert is_sentence(text) is right


def test_ids_are_keys_with_digits_or_in_capitals(mini: Domain) -> None:
    ids = raw_ids(mini)
    assert {"O001", "C00"} <= ids
    assert "soup" not in ids
    assert ids_in("Order O001, of soup, O0019.", ids) == {"O001"}


def test_a_list_of_instructions_is_a_fault_of_registers_only(mini: Domain) -> None:
    found = {fault.rule for fault in check_wording(mini) if fault.place == "ask_price"}
    assert found == {"registers"}


def _texts(**test: list[str]) -> dict[str, Any]:
    return {
        "terse": ["How much was {order_id}?"],
        "polite": ["Could you tell me what {order_id} was?"],
        "rambling": ["My dog ate the receipt, so what was {order_id}?"],
        "email": ["I need the price of {order_id}."],
        "test": {"terse": ["Price, {order_id}?"], "email": ["Please send me the price of {order_id}."], **test},
    }


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        ("instructions", {"terse": ["{order_id}?"], "test": {"terse": ["{order_id}!"]}}, "phrasings"),
        ("instructions", {"terse": ["{order_id}?"], "test": {"terse": ["{order_id}!"]}}, "registers"),
        ("instructions", _texts(polite=["How much was {order_id}?"]), "repeated"),
        ("instructions", _texts(polite=["What does it say under price for {order_id}?"]), "dictating"),
        ("instructions", _texts(polite=["How much was my order?"]), "ambiguous"),
        ("instructions", _texts(polite=["How much was my order?"]), "unfindable"),
        ("instructions", _texts(polite=["What of {nothing}?"]), "unused"),
        ("answer", "{order_id} {order.price}", "sentences"),
    ],
)
def test_faults_of_intents_are_found(edited: Callable[..., Any], path: str, value: Any, rule: str) -> None:
    edited("intents.ask_price.instructions", _texts())
    folder = edited(f"intents.ask_price.{path}", value)
    domain = make_domain(read_spec(folder))
    assert rule in {fault.rule for fault in check_wording(domain)}


def test_too_many_ids_are_a_fault_that_names_the_intents(mini: Domain) -> None:
    fault = next(fault for fault in check_wording(mini) if fault.rule == "ids")
    assert "ask_price (20)" in fault.message


def test_a_call_may_take_an_id_that_a_look_up_or_an_earlier_result_gives(mini: Domain) -> None:
    assert not [fault for fault in check_wording(mini) if fault.rule == "unfindable"]
    task = next(task for task in mini.tasks() if task.intent == "ask_price")
    hidden = msgspec.structs.replace(task, instruction="How much was it?")
    assert {fault.rule for fault in check_wording(mini, [hidden])} >= {"unfindable"}
