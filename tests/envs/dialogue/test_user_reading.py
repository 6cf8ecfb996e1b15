from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolorchestra.envs.dialogue.request_facts import facts_in, vocabulary_of
from toolorchestra.envs.dialogue.user_reading import (
    asks_if_done,
    questions,
    reports_done,
    request,
    requested_facts,
    requests,
)
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks.task import Call

FACTS = facts_in("K05 and K06 cook for Hugo and 4 guests on 2025-07-30", vocabulary_of(load_domain("restaurant")))


@pytest.mark.parametrize(
    ("message", "labels"),
    [
        ("Which customer is it?", ["customer"]),
        ("Please tell me the date.", ["date"]),
        ("When is it, and for how many guests?", ["number", "date"]),
        ("Which chefs do you mean?", ["first chef", "second chef"]),
        ("Who is the second chef?", ["second chef"]),
        ("I need the first chef and the date.", ["first chef", "date"]),
        ("Could you provide the first customer?", ["customer"]),
        ("Who is the second customer?", []),
        ("The customer, the chef and the date are on record.", []),
        ("Let me look up the customer.", []),
        ("Is that all?", []),
        ("What about the table?", []),
        ("Do you know 10 chefsters?", []),
        ("", []),
    ],
)
def test_only_questions_ask_and_only_for_what_they_name(message: str, labels: list[str]) -> None:
    assert [fact.label for fact in requested_facts(message, FACTS)] == labels


@pytest.mark.parametrize(
    "message",
    [
        "Everything is done.",
        "The bill is $76.5. That's all.",
        "It cannot be booked: the house is full. All done.",
        "Your request has been completed. Is there anything else?",
        "I have completed your request.",
        "There is nothing more to do.",
    ],
)
def test_reports_are_read(message: str) -> None:
    assert reports_done(message)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "The bill is $76.5.",
        "Is everything done?",
        "Not everything is done.",
        "Once everything is done, I shall tell you.",
        "Almost all done!",
        "If that is all, I begin.",
        "Let me check that.",
    ],
)
def test_a_text_that_is_not_a_report_is_not_read_as_one(message: str) -> None:
    assert not reports_done(message)


def test_yes_is_a_report_after_a_question() -> None:
    assert reports_done("Yes, it is.", after_question=True)
    assert not reports_done("Yes, it is.")
    assert not reports_done("No.", after_question=True)
    assert asks_if_done("Thank you. Is everything done?")
    assert not asks_if_done("Everything is done.")


@pytest.mark.parametrize(
    "call",
    [
        Call("pay_bill", {"order": 'O1 "x", (y)', "amount": 12.5}),
        Call("pay_bill", {"dishes": ["D01", "D02"], "paid": True, "none": None}),
        Call("pay_bill", {}),
    ],
)
def test_a_request_is_read_as_it_is_written(call: Call) -> None:
    assert requests(f"Please call {request(call)}, and {request(call)}.", ["pay_bill"]) == [call, call]


@pytest.mark.parametrize(
    "message",
    ["pay_bill", "pay_bill(", "pay_bill(order)", "pay_bill(order=O1)", "pay_bill(a=1 b=2)", "other(a=1)", "(" * 99],
)
def test_a_text_that_is_not_a_request_is_not_read_as_one(message: str) -> None:
    assert requests(message, ["pay_bill"]) == []


@given(st.text(alphabet='pay_bill(a=1,"[{}])?.! done\n', max_size=200))
def test_reading_never_raises(message: str) -> None:
    questions(message)
    reports_done(message, after_question=True)
    requested_facts(message, FACTS)
    requests(message, ["pay_bill", "a"])
