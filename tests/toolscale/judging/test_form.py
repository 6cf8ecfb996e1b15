from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.judging.expected import expected_answer
from toolorchestra.toolscale.judging.form import MAX_CHARACTERS, AnswerForm, FormSlot, FormTable, judge_form
from toolorchestra.toolscale.task import Task

Facts = list[list[str]]


def a_task(number: int, *communicate: list[str]) -> Task:
    return Task(
        id=f"shop/ask/{number}",
        domain="shop",
        intent="ask",
        split="train",
        difficulty=1,
        instruction="",
        reference_calls=(),
        communicate=tuple(map(tuple, communicate)),
        answer="",
    )


def forms(*facts: Facts, shown: Any = ()) -> list[AnswerForm]:
    """Return the forms of the tasks of an intent, given what each communicates, and what the results show of each."""
    tasks = [a_task(number, *communicate) for number, communicate in enumerate(facts)]
    results = dict(zip((task.id for task in tasks), shown or [()] * len(tasks), strict=True))
    table = FormTable(tasks, lambda task: expected_answer(task, results[task.id]))
    return [table.of(task) for task in tasks]


def form_of(*options: str, others: Facts | None = None) -> AnswerForm:
    """Return the form of a task with one fact, given its accepted phrases and the facts of other tasks."""
    return forms([list(options)], *([other] for other in others or ()))[0]


def is_right(form: AnswerForm, **values: Any) -> bool:
    return not judge_form(msgspec.json.encode({"answer": values}).decode(), form)


@pytest.mark.parametrize(
    ("phrases", "kind", "right", "wrong"),
    [
        (["$1,200.50", "1200.5"], "money", [1200.5, "1200.50"], [1200, -1200.5, "$1,200.50", "1200.5 dollars", None]),
        (["7"], "number", [7, 7.0, "7", "7.0"], [8, "seven", True, None, 7.1]),
        (["0"], "number", [0, "0", -0.0, None, "none"], [1, False, ""]),
        (["50 minutes", "50"], "number", [50], [5, "50 seconds"]),
        (["seat 12", "seat number 12"], "number", [12, "seat 12", "Seat  12"], [1, "seat 1"]),
        (["2025-07-30"], "date", ["2025-07-30"], ["2025-07-31", "30.07.2025", "July 30, 2025", "07-30", 20250730]),
        (["July 30"], "date", ["2025-07-30", "2031-07-30"], ["2025-07-03"]),
        (["09:05"], "time", ["09:05", "9:05"], ["21:05", "9", 9.05]),
        (["P21-TEAL-LONG"], "identifier", ["P21-TEAL-LONG", "p21-teal-long"], ["P21-TEAL", "21"]),
        (["D05", "Roasted Cauliflower"], "identifier", ["d05", "roasted cauliflower"], ["D5", "Cauliflower"]),
        (["Anita Rao"], "name", ["anita rao", "Rao, Anita", "  Anita  Rao."], ["Anita", "Rao Anita", "not Anita Rao"]),
        (["C+"], "name", ["C+", "c+"], ["C", "C-"]),
        (["Café Orly"], "name", ["Cafe Orly"], ["Café"]),
        (["eligible", "yes"], "yes/no", [True, "yes", "true", "eligible"], [False, "no", None, 1]),
    ],
)  # fmt: skip
def test_the_value_of_a_slot_is_compared_exactly_in_the_spelling_of_its_kind(
    phrases: list[str], kind: str, right: list[Any], wrong: list[Any]
) -> None:
    form = form_of(*phrases)
    assert form.slots == (FormSlot("answer_1", (kind,)),)
    assert [value for value in right if not is_right(form, answer_1=value)] == []
    assert [value for value in wrong if is_right(form, answer_1=value)] == []
    assert not judge_form(form.filled(), form)


def test_options_are_listed_and_compared_by_their_words() -> None:
    form = form_of("packed", others=[["shipped", "under way"], ["delivered"]])
    assert form.slots[0].options == ("delivered", "packed", "shipped")
    assert is_right(form, answer_1="packed")
    assert is_right(form, answer_1="Packed")
    assert not is_right(form, answer_1="shipped")
    assert not is_right(form, answer_1="packed or shipped")
    assert {"enum": ["delivered", "packed", "shipped"]} in form.slots[0].schema["anyOf"]


def test_the_only_option_of_an_intent_stands_beside_its_contrary() -> None:
    form = form_of("released", "release", others=[["released", "release"]])
    assert form.slots[0].options == ("not released", "released")
    assert is_right(form, answer_1="released")
    assert not is_right(form, answer_1="not released")


def test_where_there_are_many_options_a_few_words_are_asked_for() -> None:
    form = form_of("option a", others=[[f"option {letter}"] for letter in "bcdefghijklmnopq"])
    assert form.slots[0] == FormSlot("answer_1", ("option",))
    assert form.slots[0].description.startswith("a few words")


def test_null_or_none_says_that_there_is_none() -> None:
    form = form_of("no room", "not possible", others=[["WES-110"]])
    assert form.slots == (FormSlot("answer_1", ("identifier",)),)
    for value in (None, "none", "None", "nothing", "no room", "not possible"):
        assert is_right(form, answer_1=value)
    for value in ("WES-110", "", "no", 0, False):
        assert not is_right(form, answer_1=value)
    assert form.filled() == '{"answer":{"answer_1":null}}'


def test_two_kinds_of_refusal_are_options_and_null_says_neither() -> None:
    form = form_of("not free", others=[["not returnable"], ["2025-11-12"]])
    assert form.slots == (FormSlot("answer_1", ("date", "option"), ("not free", "not returnable"), nullable=False),)
    assert is_right(form, answer_1="not free")
    assert not is_right(form, answer_1=None)
    assert "null" not in form.slots[0].description


def test_no_is_the_contrary_of_yes() -> None:
    form = form_of("not possible", others=[["possible", "yes"]])
    assert form.slots[0].kinds == ("yes/no",)
    assert is_right(form, answer_1=False)
    assert is_right(form, answer_1="no")
    assert not is_right(form, answer_1=True)


def test_what_a_form_shows_is_the_same_for_all_tasks_of_an_intent() -> None:
    facts: list[Facts] = [[["$20"]], [["rejected", "reject"]], [["no refund", "none"]], [["2025-10-01"]]]
    shown = [form.text("Write it here:") for form in forms(*facts)]
    assert len(set(shown)) == 1
    assert 'an amount of money as a plain number or a date as YYYY-MM-DD or one of "no refund", "rejected"' in shown[0]


def test_several_slots_are_named_by_the_key_under_which_all_results_show_them() -> None:
    shown = [[("balance", 30), ("overdue", 5), ("name", "Ada")], [("balance", 8), ("overdue", 3)]]
    form, _ = forms([["$30"], ["$5"]], [["$8"], ["$3"]], shown=shown)
    assert [slot.name for slot in form.slots] == ["balance", "overdue"]
    assert is_right(form, balance=30, overdue=5)
    assert not is_right(form, balance=5, overdue=30)
    assert [slot.name for slot in forms([["$30"]], shown=[[("balance", 30)]])[0].slots] == ["answer_1"]  # needs no name


def test_a_key_that_only_some_tasks_have_does_not_name_a_slot() -> None:
    shown = [[("fee", 30), ("until", "2025-01-02")], [("kind", "late"), ("until", "2025-01-03")]]
    form, _ = forms([["$30"], ["2025-01-02"]], [["late"], ["2025-01-03"]], shown=shown)
    assert [slot.name for slot in form.slots] == ["answer_1", "until"]


def test_slots_that_are_asked_for_alike_are_filled_in_any_order() -> None:
    shown = [[("usher", "U06"), ("usher", "U11")]]
    form = forms([["U06"], ["U11"]], shown=shown)[0]
    assert [slot.name for slot in form.slots] == ["usher_1", "usher_2"]
    assert is_right(form, usher_1="U06", usher_2="U11")
    assert is_right(form, usher_1="U11", usher_2="U06")
    assert not is_right(form, usher_1="U06", usher_2="U06")
    assert "usher_1 and usher_2: in any order" in form.text("")


def test_a_task_with_nothing_to_communicate_has_an_empty_form() -> None:
    form = forms([])[0]
    assert judge_form('{"answer": {}}', form) == []
    assert judge_form("Done.", form) == ['expected one JSON object {"answer": {}}, found text']


PRICE = form_of("12.50")


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": {"answer_1": 12.5}}',
        '  \n{"answer":{"answer_1":"12.50"}}\n',
        '```json\n{"answer": {"answer_1": 12.5}}\n```',
        'Here it is:\n```\n{"answer": {"answer_1": 12.5}}\n```\nThank you.',
        r'So \boxed{{"answer": {"answer_1": 12.5}}}',
    ],
)
def test_a_form_stands_alone_or_in_a_fenced_block_or_in_a_box(text: str) -> None:
    assert judge_form(text, PRICE) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "found text"),
        ("It is 12.50.", "found text"),
        ("12.5", "found text"),
        ("[12.5]", "found text"),
        ("{", "found another one: Input data was truncated"),
        ("{}", "missing required field `answer`"),
        ('{"answer": 12.5}', "Expected `object`, got `float`"),
        ('{"answer": [12.5]}', "Expected `object`, got `array`"),
        ('{"answer": {"answer_1": [12.5]}}', "got `array`"),
        ('{"answer": {"answer_1": {"is": 12.5}}}', "got `object`"),
        ('{"answer": {}}', "the slot 'answer_1' is missing"),
        ('{"answer": {"price": 12.5}}', "the slot 'answer_1' is missing"),
        ('{"answer": {"answer_1": 12.5, "answer_2": 13}}', "there is no slot 'answer_2'"),
        ('{"answer": {"answer_1": 12.5}, "note": "or 13"}', "unknown field `note`"),
        ('{"answer": {"answer_1": 12.5}} {"answer": {"answer_1": 13}}', "trailing characters"),
        ('```\n{"answer": {"answer_1": 12.5}}\n```\n```\n{"answer": {"answer_1": 13}}\n```', "found 2 of them"),
        ('{"answer": {"answer_1": 12.5}}' + " " * MAX_CHARACTERS, "at most 20,000 are read"),
        ('{"answer": {"answer_1": 13}}', "the form has 13 in 'answer_1', expected 12.5 (a plain number"),
        ('{"answer": {"answer_1": "12.5 or 13"}}', "the form has \"12.5 or 13\" in 'answer_1', expected 12.5"),
        ('{"answer": {"answer_1": true}}', "the form has true"),
        ('{"answer": {"answer_1": 1e999}}', "expected"),
        ('{"answer": {"answer_1": 1e308}}', "the form has 1e308"),
        ('{"answer": {"answer_1": ' + "9" * 5000 + "}}", "expected"),
        ('{"answer": {"answer_1": -' + "9" * 400 + "}}", "expected"),
        ('{"answer": {"answer_1": NaN}}', "found another one"),
        ('{"answer": ' * 1000 + "1" + "}" * 1000, "Expected"),
        ('{"answer": {"answer_1": ' + "[" * 9000, "found another one"),
        ('{"answer": {"\\ud800": 1, "answer_1": 12.5}}', "expected"),
        ("\ud800", "found text"),
        ('{"answer": {"answer_1": "\ud800"}}', "expected"),
        ("{" + "\x00" * 50, "found another one"),
        ("```" * 6000, "found text"),
        (r"\boxed{" * 2000, "found text"),
    ],
)
def test_a_message_that_is_no_form_is_wrong_and_the_verdict_says_what_was_expected(text: str, wrong: str) -> None:
    found = judge_form(text, PRICE)
    assert len(found) == 1
    assert wrong in found[0]
    assert "expected" in found[0]
    assert len(found[0]) < 500


@pytest.mark.parametrize("piece", ["```", "``` ", "```\n", r"\boxed{", "{", "[", '"', "9", " ", "\ufdfa", '{"answer":'])
def test_long_messages_are_no_forms(piece: str) -> None:
    inside = json.dumps({"answer": {"answer_1": piece * 3000}})[:MAX_CHARACTERS]
    for text in ((piece * MAX_CHARACTERS)[:MAX_CHARACTERS], f"```{piece * 10_000}"[:MAX_CHARACTERS], inside):
        assert judge_form(text, PRICE)


@given(st.text() | st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_no_value_raises(value: Any) -> None:
    text = value if isinstance(value, str) else msgspec.json.encode({"answer": {"answer_1": repr(value)}}).decode()
    assert judge_form(text, PRICE)
    assert judge_form('{"answer": {"answer_1": ' + text + "}}", PRICE) or text.strip() in ("12.5", "12.50", '"12.5"')


def test_every_task_of_a_domain_is_solved_by_its_filled_form_and_by_no_other_of_its_intent(mini: Domain) -> None:
    table = FormTable(mini.tasks(), lambda task: mini.verifier.reference(task).answer)
    session = mini.session()
    for task in mini.tasks():
        form = table.of(task)
        for call in task.reference_calls:
            mini.call(call, session)
        assert mini.verify(task, session, form.filled(), form).solved, task.id
        wrong = form.filled([f"x{value}" for value in form.values])
        verdict = mini.verify(task, session, wrong, form)
        assert verdict.solved is (not form.slots)
        assert {failure.criterion for failure in verdict.failures} <= {"fidelity"}
        session.reset()
