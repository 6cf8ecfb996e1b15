"""Which wrong answers the rules cannot settle."""

from __future__ import annotations

import pytest

from toolorchestra.toolscale.judging.expected import ExpectedAnswer, expected_answer
from toolorchestra.toolscale.judging.judge import MAX_CHARACTERS, judge_answer
from toolorchestra.toolscale.judging.unsettled import unsettled_facts
from toolorchestra.toolscale.task import Task


def expected(
    request: str, answer: str, *facts: tuple[str, ...], rivals: tuple[tuple[str, ...], ...] = ()
) -> ExpectedAnswer:
    task = Task(
        id="d/i/1", domain="d", intent="i", split="train", difficulty=1, instruction=request, reference_calls=(),
        communicate=facts, rivals=rivals, answer=answer,
    )  # fmt: skip
    return expected_answer(task, [("dish", "Soup"), ("seats", 6), ("rank", "junior")])


SEATS = expected("How many seats are left for the play tonight?", "There are 6 seats left.", ("6",))
RANK = expected(
    "What rank has the cook Noor?", "Noor is a junior cook.", ("junior",), rivals=(("senior", "head"),)
)  # fmt: skip
BOTH = expected("Who cooks, and for how many?", "Noor cooks for 6 guests.", ("Noor",), ("6",))
REPEATED = expected(
    "Who cooks today in the large kitchen and for how many?", "Noor cooks for 6 guests.", ("Noor",), ("6",)
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "of", "positions"),
    [
        ("There is half a dozen seats left.", SEATS, [0]),
        ("Noor is the youngest cook in rank.", RANK, [0]),
        ("Noor cooks for half a dozen guests.", BOTH, [1]),
        ("The lady whom you know cooks for 6 guests.", BOTH, [0]),
        ("She cooks, for half a dozen guests.", BOTH, [0, 1]),
    ],
)
def test_an_answer_is_unsettled_where_facts_may_be_told_in_other_words(
    text: str, of: ExpectedAnswer, positions: list[int]
) -> None:
    assert judge_answer(text, of)
    assert unsettled_facts(text, of) == positions


@pytest.mark.parametrize(("text", "of"), [("There are 6 seats left.", SEATS), ("Noor is a junior cook.", RANK)])
def test_what_the_rules_accept_is_settled(text: str, of: ExpectedAnswer) -> None:
    assert judge_answer(text, of) == []
    assert unsettled_facts(text, of) == []


@pytest.mark.parametrize(
    ("reason", "text", "of"),
    [
        ("denial", "It is not true that half a dozen seats are left.", SEATS),
        ("hedge", "Maybe half a dozen seats are left.", SEATS),
        ("data", '{"seats": "half a dozen"}', SEATS),
        ("a value of its kind", "There are 7 seats left.", SEATS),
        ("a value of its kind beside other words", "Half a dozen seats are left, or rather 7 of them.", SEATS),
        ("a rival", "Noor is a senior cook, so to speak of the youngest rank.", RANK),
        ("the fact in a question", "What rank has Noor? Is she a junior cook?", RANK),
        ("questions only", "Do you mean the seats for the play tonight?", SEATS),
        ("a refusal", "I cannot say how many seats are left.", SEATS),
        ("the request repeated", "How many seats are left for the play tonight", SEATS),
        (
            "the request repeated beside another fact",
            "You asked who cooks today in the large kitchen and for how many. It is Noor.",
            REPEATED,
        ),
        ("another subject", "Half a dozen.", SEATS),
        ("another subject in one word", "Done.", SEATS),
        ("a word of the request alone", "Seats.", SEATS),
        ("a value alone", "Seats: 1.", SEATS),
        ("nothing", "", SEATS),
        ("too long", "There is half a dozen seats left. " * (MAX_CHARACTERS // 30), SEATS),
        ("a fact denied, and another one not found", "Noor does not cook for half a dozen guests.", BOTH),
        ("a rival of the other fact", "Noor cooks for 7 guests.", BOTH),
    ],
)
def test_what_the_rules_reject_for_a_reason_of_its_own_is_settled(reason: str, text: str, of: ExpectedAnswer) -> None:
    assert judge_answer(text, of), reason
    assert unsettled_facts(text, of) == [], reason


def test_an_answer_without_facts_to_tell_is_always_settled() -> None:
    of = expected("Cancel my order.", "Your order is cancelled.")
    for text in ("I cannot do that.", "Your order is cancelled.", ""):
        assert unsettled_facts(text, of) == []
