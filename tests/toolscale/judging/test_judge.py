"""The judge, on tasks written by hand: for each kind of fact what is right and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from toolorchestra.toolscale.judging.expected import NO_NAMES, ExpectedAnswer, Names, expected_answer
from toolorchestra.toolscale.judging.judge import MAX_CHARACTERS, judge_answer
from toolorchestra.toolscale.task import Task


def expect(
    instruction: str,
    answer: str,
    *facts: Sequence[str],
    rivals: Sequence[Sequence[str]] = (),
    shown: Sequence[tuple[str, Any]] = (),
    names: Names = NO_NAMES,
    idle: bool = False,
) -> ExpectedAnswer:
    task = Task(
        id="mini/test/000",
        domain="mini",
        intent="test",
        split="train",
        difficulty=1,
        instruction=instruction,
        reference_calls=(),
        communicate=tuple(map(tuple, facts)),
        rivals=tuple(map(tuple, rivals)),
        answer=answer,
    )
    return expected_answer(task, shown, names, idle=idle)


PRICE = expect(
    "How much is dish D15?",
    "Dish D15 costs $21.00.",
    ["$21.00"],
    shown=[("dish", "D15"), ("name", "Chickpea Tagine"), ("price", 21.0), ("calories", 450), ("category", "main")],
)
RETURN = expect(
    "Until when can I send back the boots from my order of September 1, 2025?",
    "You can return the boots until September 30, 2025.",
    ["2025-09-30"],
    shown=[("ordered", "2025-09-01"), ("last_day", "2025-09-30"), ("delivered", "2025-09-03")],
)
CHEAPER = expect(
    "Which is cheaper, D15 or D17?",
    "D15 (Chickpea Tagine) is cheaper.",
    ["D15", "Chickpea Tagine"],
    shown=[
        ("dish", "D15"),
        ("price", 21),
        ("dish", "D17"),
        ("price", 24),
        ("name", "Chickpea Tagine"),
        ("name", "Vongole"),
    ],
)
REFEREE = expect(
    "Appoint a referee for M091 if one is free, and tell me who, or that there is none.",
    "There is no referee for M091.",
    ["no referee", "none"],
    rivals=[["Dougal Reid", "Greta Oster", "U07"]],
)
STATE = expect(
    "Book the wheelchair journey on C42, or tell me what prevents it.",
    "The wheelchair journey on C42 is booked.",
    ["booked", "confirmed"],
    rivals=[["too late", "no assistance"]],
)
ALLERGY = expect(
    "Which dish of her order must Esther not eat, and why?",
    "Esther must not eat D15 (Chickpea Tagine) because of celery.",
    ["D15", "Chickpea Tagine"],
    ["celery"],
    rivals=[[], ["soy", "nuts", "milk"]],
    shown=[("dish", "D15"), ("dish", "D22"), ("name", "Chickpea Tagine"), ("name", "Falafel"), ("allergen", "celery")],
)
ZERO = expect("How many seats are left for M102?", "0 seats are left for M102.", ["0"])
PERSON = expect(
    "Who leads the club?", "Anita Rao leads the club.", ["Anita Rao"], rivals=[["Maud Finch", "Iain Mulcahy"]]
)


UNSUITABLE = expect(
    "Buy GENX for Noor if it suits her profile; else tell me the risk class.",
    "Nothing was bought, because GENX does not suit the profile: its risk class is 5.",
    ["5"],
    idle=True,
)
SPARED = expect(
    "Can Lucille be spared at lunch on July 24? If not, which dish needs her?",
    "Lucille cannot be spared at lunch on July 24, 2025: nobody else on duty cooks the Mango Sorbet.",
    ["D49", "Mango Sorbet"],
    idle=True,
)
PAID = expect("Pay the order.", "The order is paid: after the gift card, $41.90 was paid by card.", ["$41.90"])
SLOT = expect("Book a slot.", "The team has the slot until March 3, 2026.", ["2026-03-03"])
COUNTED = expect(
    "Move the subscriptions of Three Lakes Orchards.",
    "2 subscriptions of Three Lakes Orchards were moved.",
    ["2"],
    names=Names({}, {"#3": (("#3", "lakes", "orchards"),)}),
)
MOVED = expect(
    "Move the subscriptions of Three Lakes Orchards.",
    "3 subscriptions of Three Lakes Orchards were moved.",
    ["3"],
    names=Names({}, {"#3": (("#3", "lakes", "orchards"),)}),
)
ENTRIES = expect("How many entries are left?", "The pass paid the first order; 1 entry is left.", ["1"])
FEE = expect("What is the fee?", "Declan takes the place of Caio, and the fee is $0.", ["0"])
LEFT_OUT = expect(
    "Enrol S119, S131 and S143 in MATH330-1. Who is left out?",
    "S119 and S143 are enrolled; S131 could not be enrolled.",
    ["S131", "Ines Figueira"],
    shown=[("section", "HIST102-2"), ("student", "S131")],
)
ALERT = expect(
    "Issue an orange alert, or tell me the level by the rules.",
    "The orange alert cannot be issued; the level by the rules is yellow.",
    ["yellow"],
)
TITLE = expect("What is her title?", "The title of Fatima is Ms.", ["Ms"], rivals=[["Mr", "Dr"]])
FROZEN = expect("Freeze the card.", "The card is frozen.")
OTHERS = expect(
    "What does the course cost?",
    "The course costs $900.",
    ["$900"],
    names=Names({"dante rossetto": (("dante", "rossetto"),)}, {}),
)
CHANGED = expect("Change the payment to $225.", "The payment is $225 from October 16, 2025 on.", ["2025-10-16"])


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (UNSUITABLE, "I did not buy GENX: with risk class 5 it is not for this profile."),
        (UNSUITABLE, "GENX is in risk class 5, which is too high for the profile, so I bought nothing."),
        (SPARED, "No, Lucille has to stay, as nobody else cooks the Mango Sorbet then."),
        (SPARED, "I have checked: Lucille cannot be spared, because of D49."),
        (PAID, "The order is paid, $41.90 of it by card."),
        (SLOT, "Done, the slot is theirs until March 3, 2026."),
        (COUNTED, "I moved 2 subscriptions of Three Lakes Orchards."),
        (MOVED, "I moved three subscriptions of Three Lakes Orchards."),
        (ENTRIES, "There is one entry left."),
        (FEE, "There is no fee for it."),
        (FEE, "The fee is nothing at all."),
        (LEFT_OUT, "S119 and S143 are in MATH330-1. S131 may not, as HIST102-2 meets at the same time."),
        (ALERT, "I could not issue it: the level by the rules is yellow."),
        (TITLE, "The title is Ms. Is there anything else?"),
        (FROZEN, "The card is frozen now. Get in touch when it turns up and I'll unfreeze it."),
        (FROZEN, "All set: we will ring you when the card turns up."),
        (CHANGED, "The amount could not be changed for today, so it is $225 from October 16 on."),
        (PRICE, "Dish D15 costs $21.00."),
        (PRICE, "It is 21 dollars."),
        (PRICE, "Of course! Dish D15 (Chickpea Tagine) costs **$21**. Anything else?"),
        (PRICE, "Dish D15 costs twenty-one dollars."),
        (PRICE, "D15: 21,00 $ (450 calories)."),
        (PRICE, "| dish | price |\n|---|---|\n| D15 | $21.00 |"),
        (PRICE, "No, it is not $24; D15 costs $21."),
        (RETURN, "You can send them back until 30.09.2025."),
        (RETURN, "The last day is 30 September 2025, as your order of September 1 was delivered on September 3."),
        (RETURN, "Until Sept 30."),
        (CHEAPER, "D15 is cheaper than D17."),
        (CHEAPER, "The Chickpea Tagine, D15, is the cheaper one (21 instead of 24 dollars)."),
        (REFEREE, "Unfortunately no referee is available for M091."),
        (REFEREE, "None of the referees is free for M091."),
        (REFEREE, "I could not find a referee for M091."),
        (STATE, "Done: the journey on C42 has been booked."),
        (STATE, "C42 is confirmed."),
        (ALLERGY, "Esther should avoid D15, it contains celery."),
        (ALLERGY, "She must not eat the Chickpea Tagine because of the celery in it."),
        (ZERO, "No seats are left for M102: 0."),
        (ZERO, "There are none left for M102."),
        (ZERO, "There are zero seats left."),
        (PERSON, "The club is led by Rao, Anita."),
    ],
)
def test_right(expected: ExpectedAnswer, text: str):
    assert judge_answer(text, expected) == []


@pytest.mark.parametrize(
    ("expected", "text", "why"),
    [
        (PRICE, "Dish D15 costs $22.00.", "the user was not told '$21.00'"),
        (PRICE, "Dish D15 costs $21 or $22.", "says 22 as well, where"),
        (PRICE, "6, 20, 21, 22 or 24 dollars.", "as well, where"),
        (
            PRICE,
            "It is NOT true that: Dish D15 costs $21.00. I do not know.",
            "denies or doubts what it says: 'not true'",
        ),
        (PRICE, "Dish D15 does not cost $21.00.", "denies '$21.00'"),
        (PRICE, "Maybe $21.", "denies or doubts what it says: 'maybe'"),
        (PRICE, "Does dish D15 cost $21?", "the user was not told"),
        (PRICE, '[{"dish": "D15", "price": 21.0}]', "is data"),
        (PRICE, "21", "and not of what"),
        (PRICE, "D15 costs $21, and D16 does too.", "says d16, which neither the request nor the results show"),
        (RETURN, "You can return them until September 3, 2025.", "not told '2025-09-30'"),
        (RETURN, "You can return them until September 30, 2025, or October 1, 2025.", "says 2025-10-01 as well"),
        (CHEAPER, "Which is cheaper, D15 or D17?", "not told"),
        (CHEAPER, "D17 is cheaper than D15.", ""),
        (CHEAPER, "D15. D17.", "says d17 as well"),
        (CHEAPER, "D15 is not cheaper.", "denies"),
        (REFEREE, "Dougal Reid is the referee for M091.", "not told"),
        (REFEREE, "Appoint a referee for M091 if one is free, and tell me who, or that there is none.", "not told"),
        (REFEREE, "None.", "and not of what"),
        (REFEREE, "There is no referee for M091; Greta Oster does it.", "says 'greta oster' as well"),
        (STATE, "The wheelchair journey on C42 is not booked.", "denies 'booked'"),
        (STATE, "The journey on C42 is booked, it was too late.", "says 'too late' as well"),
        (ALLERGY, "Esther must eat D15 because of celery.", "not told"),
        (ALLERGY, "Esther must not eat D22, D15 because of celery.", "says d22 as well"),
        (ALLERGY, "Esther must not eat D15 because of soy.", "not told 'celery'"),
        (ZERO, "0", "and not of what"),
        (ZERO, "1 seat is left for M102.", "not told"),
        (PERSON, "Maud Finch leads the club.", "not told 'Anita Rao'"),
        (PERSON, "Anita Rao, Maud Finch and Iain Mulcahy lead the club.", "as well"),
        (PERSON, "", "not told"),
        (UNSUITABLE, "Nothing was bought, because GENX does suit the profile: its risk class is 5.", "states 'suit'"),
        (UNSUITABLE, "I have bought GENX, its risk class is 5.", "claims an action"),
        (UNSUITABLE, "Done: GENX with risk class 5 does not suit, and is yours now.", "claims an action"),
        (SPARED, "Lucille can be spared at lunch: nobody else on duty cooks the Mango Sorbet.", "states 'spared'"),
        (PAID, "The order is not paid: after the gift card, $41.90 was paid by card.", "negates 'paid'"),
        (SLOT, "The team has the slot until March 3, 2026. No slot was booked.", "was not done"),
        (SLOT, "The team has the slot until March 3, 2026. Nothing was booked.", "was not done"),
        (MOVED, "5 subscriptions of Three Lakes Orchards were moved.", "not told '3'"),
        (ENTRIES, "The pass paid the first order; 4 entries are left.", "not told '1'"),
        (FEE, "Nothing was booked, as the hotel is full.", "not told '0'"),
        (LEFT_OUT, "S119 and S143 are enrolled; S131 and S158 could not be enrolled.", "says s158"),
        (ALERT, "The yellow alert cannot be issued; the level by the rules is orange.", "denies 'yellow'"),
        (TITLE, "The title is Ms. It is also Mr.", "says 'mr' as well"),
        (FROZEN, "I will freeze the card.", "does not say that it was done"),
        (OTHERS, "The course costs $900. Dante Rossetto pays it.", "says 'dante rossetto', which neither"),
        (CHANGED, "The payment could not be changed, as it runs on October 16, 2025.", "does not say that it was done"),
        (PERSON, "Anita Rao. I cannot help you with that.", "denies or doubts"),
    ],
)
def test_wrong(expected: ExpectedAnswer, text: str, why: str):
    wrong = judge_answer(text, expected)
    assert wrong, text
    assert why in wrong[0]


def test_an_answer_is_bounded_in_what_it_adds():
    shown = [("price", 21.0), *((name, 100 + i) for i, name in enumerate(("salt", "fat", "sugar", "weight", "fibre")))]
    expected = expect("How much is dish D15?", "Dish D15 costs $21.00.", ["$21.00"], shown=shown)
    three = "Dish D15 costs $21.00; it has salt 100, fat 101 and sugar 102."
    assert judge_answer(three, expected) == []
    five = f"{three} Also weight 103 and fibre 104."
    assert judge_answer(five, expected) == [
        "the answer states 5 things that were not asked; at most 3 are taken for an answer"
    ]


def test_a_long_answer_is_wrong_unread():
    text = "Dish D15 costs $21.00. " * 1000
    assert judge_answer(text, PRICE) == [
        f"the answer has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read"
    ]


def test_nothing_to_communicate_nothing_to_judge():
    assert judge_answer("whatever", expect("Cancel it.", "Done.")) == []


@given(st.text(max_size=300))
def test_no_text_raises(text: str):
    for expected in (PRICE, CHEAPER, REFEREE, ALLERGY):
        assert isinstance(judge_answer(text, expected), list)


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(["Of course!", "Hello.", "**", "Thank you for asking.", "I checked.", "\n- "]), max_size=4)
)
def test_courtesy_changes_nothing(before: list[str]):
    for expected, answer in ((PRICE, "Dish D15 costs $21.00."), (STATE, "The wheelchair journey on C42 is booked.")):
        assert judge_answer(" ".join([*before, answer]), expected) == []


def test_the_reason_names_what_the_answer_states_first() -> None:
    # and not what a set, whose order differs between processes, begins with
    restock = expect(
        "Broccoli: low or not? 12 units if low. And what is in stock?",
        "The stock of broccoli is not low, there are 12 units, so nothing has been ordered.",
        ["12"],
        shown=[("stock", 12)],
        idle=True,
    )
    restock = msgspec.structs.replace(restock, denied=frozenset(("low", "ordered")))
    for answer, first in (
        ("It is low; 12 units were ordered.", "low"),
        ("12 units were ordered, as it is low.", "ordered"),
    ):
        assert judge_answer(answer, restock) == [f"the answer states {first!r}, which does not hold"]
