from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.answers.typed_answers import (
    MAX_CHARACTERS,
    AnswerSlot,
    TypedAnswer,
    judge_typed,
    reads_right,
)
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.answer_slots import SlotTable
from toolorchestra.toolscale.tasks.task import Call, Task

Facts = list[list[str]]


def a_task(
    number: int, facts: Facts, *, writes: Sequence[str] = (), refuses: bool = False, intent: str = "ask"
) -> Task:
    return Task(
        id=f"shop/{intent}/{number}",
        domain="shop",
        intent=intent,
        split="train",
        difficulty=1,
        instruction="",
        reference_calls=tuple(Call(name, {}) for name in writes),
        communicate=tuple(map(tuple, facts)),
        answer="",
        refuses=refuses,
    )


def typed(tasks: Sequence[Task], results: Any = None, names: Any = None, currency: Any = None) -> list[TypedAnswer]:
    """Return the typed answers of tasks, all of whose calls write, given what their results are."""
    shown = results or [[]] * len(tasks)
    table = SlotTable(
        tasks,
        lambda task: shown[tasks.index(task)],
        lambda task: [call.name.replace("_", " ") for call in task.reference_calls],
        names or {},
        currency or {},
    )
    return [table.of(task) for task in tasks]


def of(*facts: Facts, results: Any = None) -> TypedAnswer:
    """Return the typed answer of the first of some tasks, given their facts."""
    return typed([a_task(number, found) for number, found in enumerate(facts)], results)[0]


def is_right(expected: TypedAnswer, **values: Any) -> bool:
    return not judge_typed(msgspec.json.encode({"answer": values}).decode(), expected)


@pytest.mark.parametrize(
    ("phrases", "slot", "right", "wrong"),
    [
        (["$1,200.50", "1200.5"], "amount (money in USD)",
         [1200.5, "1200.50", "$1,200.50", "1200.5 dollars", "USD 1200.50"],
         [1200, -1200.5, "-$1,200.50", "~$1,200.50", "$1,200.50 or $3", "at least $1,200.50", "1,2,00.50", None]),
        (["7"], "number (number)", [7, 7.0, "7", "7.0"], [8, "seven", True, None, 7.1, "7 or 8", "not 7", ">7", "7?"]),
        (["0"], "number (number)", [0, "0", -0.0], [1, False, "", None, "none"]),
        (["50 minutes", "50"], "number (number)", [50], [5, "50 seconds"]),
        (["seat 12", "seat number 12"], "number (number)", [12, "seat 12", "Seat  12"], [1, "seat 1"]),
        (["2025-07-30"], "date (date)",
         ["2025-07-30", "July 30, 2025", "30 July 2025", "30th of July 2025", "Wednesday, July 30, 2025", "July 30"],
         ["Monday, July 30, 2025", "Wednesday, July 32, 2025", "Sunday, February 30, 2025",
          "2025-07-31", "2024-07-30", "July 31", "07-30", 20250730, "July 30, 2025 or later",
          "not July 30, 2025"]),
        (["July 30"], "date (date)", ["2025-07-30", "2031-07-30", "July 30", "30 July"], ["2025-07-03", "July 3"]),
        (["19:05"], "time (time)", ["19:05", "7:05 pm", "7:05 p.m."], ["07:05", "19", 19.05, "7:05", "19:05-20:00"]),
        (["P21-TEAL-LONG"], "id (id)", ["P21-TEAL-LONG", "p21-teal-long"], ["P21-TEAL", "21", ["P21-TEAL-LONG"]]),
        (["D05", "Roasted Cauliflower"], "id (id)", ["d05", "roasted cauliflower"], ["D5", "Cauliflower"]),
        (["65"], "number (number)", [65, "65%", "65 percent"], ["65 %%", "0.65", "65 kg"]),
        (["Dr Amal Nair"], "name (name)", ["Dr. Amal Nair", "dr amal nair."], ["Amal Nair", "Dr Amal"]),
        (["Anita Rao"], "name (name)", ["anita rao", "Rao, Anita", "  Anita  Rao."],
         ["Anita", "Rao Anita", "not Anita Rao", "Anita Rao or Ben Oh"]),
        (["Café Orly"], "name (name)", ["Cafe Orly"], ["Café"]),
        (["eligible", "yes"], "answer (true or false)", [True, "yes", "true", "eligible"], [False, "no", None, 1]),
        (["no"], "answer (true or false)", [False, "no", "false"], [True, "yes", 0, ""]),
    ],
)  # fmt: skip
def test_a_value_is_compared_exactly_once_its_type_is_read(
    phrases: list[str], slot: str, right: list[Any], wrong: list[Any]
) -> None:
    expected = of([phrases])
    (name,) = (slot.name for slot in expected.slots)
    assert str(expected) == slot
    assert [value for value in right if not is_right(expected, **{name: value})] == []
    assert [value for value in wrong if is_right(expected, **{name: value})] == []
    assert not judge_typed(expected.written(), expected)


def test_options_are_listed_and_compared_by_their_words() -> None:
    expected = of([["packed"]], [["shipped", "under way"]], [["delivered"]])
    assert str(expected) == 'value ("delivered" | "packed" | "shipped")'
    assert is_right(expected, value="Packed")
    assert not is_right(expected, value="shipped")
    assert not is_right(expected, value="packed or shipped")


def test_the_only_option_of_an_intent_stands_beside_its_contrary() -> None:
    assert of([["released"]], [["released"]]).slots == (AnswerSlot("value", options=("not released", "released")),)


def test_where_there_are_many_options_a_text_is_asked_for() -> None:
    assert str(of(*[[[f"option {letter}"]] for letter in "abcdefghijklmnop"])) == "value (text)"


def test_null_says_that_there_is_none() -> None:
    expected = of([["no room", "not possible"]], [["WES-110"]])
    assert str(expected) == "id (id or null)"
    for value in (None, "none", "nothing", "no room"):
        assert is_right(expected, id=value)
    for value in ("WES-110", "", "no", 0, False, []):
        assert not is_right(expected, id=value)


def test_the_outcome_says_which_way_it_ended() -> None:
    tasks = [
        a_task(0, [["$20"]], writes=["cancel_order", "pay_back"]),
        a_task(1, [["nothing"]], writes=["cancel_order"]),
        a_task(2, [["already cancelled"]]),
        a_task(3, [["too late"]], refuses=True),
    ]
    paid, kept, before, late = typed(tasks)
    assert {str(one) for one in (paid, kept, before, late)} == {
        'outcome ("cannot be done" | "done" | "done: pay back" | "nothing to do"), amount (money in USD or null)'
    }
    assert is_right(paid, outcome="done: pay back", amount=20)
    assert not is_right(paid, outcome="done", amount=20)
    assert not is_right(paid, outcome="done: pay back", amount=None)
    assert is_right(kept, outcome="done", amount=None)
    assert is_right(before, outcome="Nothing to do", amount=None)
    assert is_right(late, outcome="cannot be done", amount=None)
    assert not is_right(late, outcome="done", amount=None)


@pytest.mark.parametrize("refuses", [True, False])
def test_an_outcome_is_not_given_away_where_it_is_always_the_same(refuses: bool) -> None:
    only = typed([a_task(0, [], writes=[] if refuses else ["set_price"], refuses=refuses)])[0]
    assert str(only) == 'outcome ("cannot be done" | "done" | "nothing to do")'


def test_what_cannot_be_done_has_the_slots_of_what_can() -> None:
    can, cannot = typed([a_task(0, [["$20"]]), a_task(0, [["no such dish"]], refuses=True, intent="ask+impossible")])
    assert str(can) == str(cannot) == 'outcome ("answered" | "cannot be done"), amount (money in USD or null)'
    assert is_right(can, outcome="answered", amount=20)
    assert is_right(cannot, outcome="cannot be done", amount=None)


def test_slots_are_named_as_the_intent_names_its_facts_or_as_the_results_do() -> None:
    tasks = [a_task(0, [["$30"], ["$5"]]), a_task(1, [["$8"], ["$3"]])]
    results = [[{"balance": 30, "overdue": 5, "name": "Ada"}], [{"balance": 8, "overdue": 3}]]
    assert [slot.name for slot in typed(tasks, results)[0].slots] == ["balance", "overdue"]
    assert [slot.name for slot in typed(tasks, results, {"ask": {"": ["left", ""]}})[0].slots] == ["left", "overdue"]
    expected = typed(tasks, results)[0]
    assert is_right(expected, balance=30, overdue=5)
    assert not is_right(expected, balance=5, overdue=30)


def test_a_name_that_only_some_results_have_does_not_name_a_slot() -> None:
    results = [[{"fee": 30, "until": "2025-01-02"}], [{"kind": "late", "until": "2025-01-03"}]]
    expected = of([["$30"], ["2025-01-02"]], [["late"], ["2025-01-03"]], results=results)
    assert [slot.name for slot in expected.slots] == ["answer", "until"]


def test_slots_are_named_by_outcome_where_branches_tell_something_else() -> None:
    tasks = [
        a_task(0, [["20"]], writes=["sell"]),
        a_task(1, [["30"]], writes=["sell", "post"]),
        a_task(2, [["closed"]], refuses=True),
        a_task(3, [["sold out"]], refuses=True),
    ]
    names = {"ask": {"done": ["fee"], "cannot be done": ["reason"]}}
    sold, posted, closed, _ = typed(tasks, names=names, currency={"fee": "EUR"})
    slots = 'fee (money in EUR or null), reason ("closed" | "sold out" or null)'
    assert str(sold) == str(posted) == str(closed) == f'outcome ("cannot be done" | "done" | "done: post"), {slots}'
    assert is_right(posted, outcome="done: post", fee="€30", reason=None)
    assert is_right(posted, outcome="done: post", fee=30, reason=None)
    assert not is_right(posted, outcome="done: post", fee="$30", reason=None)
    assert is_right(closed, outcome="cannot be done", fee=None, reason="closed")


def test_a_slot_may_be_named_after_what_is_asked_and_ends_as_all_of_the_intent_do() -> None:
    fields = ("price", "spice level", "spice level")
    tasks = [a_task(number, [[fact]]) for number, fact in enumerate(("12", "hot", "mild"))]
    tasks.append(a_task(9, [["no such dish"]], refuses=True, intent="ask+impossible"))
    asked = [
        msgspec.structs.replace(task, bindings={"field": field})
        for task, field in zip(tasks, (*fields, "price"), strict=True)
    ]
    names = {"ask": {"": ["{field}"]}}
    price, spice, _, none = typed(asked, names=names)
    ending = 'outcome ("answered" | "cannot be done")'
    assert str(price) == str(none) == f"{ending}, price (number or null)"
    assert str(spice) == f'{ending}, spice_level ("hot" | "mild" or null)'
    assert is_right(spice, outcome="answered", spice_level="hot")


def test_a_list_is_in_any_order_and_as_long_as_it_is() -> None:
    two, three = typed(
        [a_task(0, [["U1"], ["U2"]]), a_task(1, [["U1"], ["U2"], ["U3"]])], names={"ask": {"": ["ushers[]"]}}
    )
    assert str(two) == str(three) == "ushers (list of id)"
    assert is_right(three, ushers=["U3", "U1", "U2"])
    assert not is_right(three, ushers=["U1", "U2"])
    assert not is_right(two, ushers=["U1", "U2", "U3"])


def test_what_is_the_same_for_all_tells_less_than_what_is_not() -> None:
    moved, _ = typed([a_task(0, [["moved", "R12"]]), a_task(1, [["moved", "R14"]])], names={"ask": {"": ["room"]}})
    assert str(moved) == "room (id)"
    assert is_right(moved, room="R12")
    assert not is_right(moved, room="R14")


def test_of_several_results_that_show_a_value_the_one_that_is_spoken_of_names_it() -> None:
    task = msgspec.structs.replace(a_task(0, [["5720"]], intent="imported"), answer="The tuition is 5720.")
    (expected,) = typed([task], [[{"paid": 5720, "tuition": 5720}]], currency={"tuition": "USD"})
    ending = 'outcome ("answered" | "cannot be done" | "done" | "nothing to do")'
    assert str(expected) == f"{ending}, tuition (money in USD)"
    for outcome in ("answered", "cannot be done", "nothing to do"):  # nothing tells which of them
        assert is_right(expected, outcome=outcome, tuition=5720)
    assert not is_right(expected, outcome="done", tuition=5720)


def test_values_of_one_list_are_a_list_in_any_order() -> None:
    expected = of([["U06"], ["U11"]], results=[[[{"usher": "U06"}, {"usher": "U11"}, {"usher": "U12"}]]])
    assert str(expected) == "usher (list of id)"
    assert is_right(expected, usher=["U06", "U11"])
    assert is_right(expected, usher=["U11", "u06"])
    for wrong in (["U06"], ["U06", "U06"], ["U06", "U11", "U12"], "U06", "U06, U11", None, [["U06", "U11"]]):
        assert not is_right(expected, usher=wrong)


def test_values_of_several_results_stand_in_their_order() -> None:
    expected = of([["U06"], ["U11"]], results=[[{"usher": "U06"}, {"usher": "U11"}]])
    assert str(expected) == "usher_1 (id), usher_2 (id)"
    assert is_right(expected, usher_1="U06", usher_2="U11")
    assert not is_right(expected, usher_1="U11", usher_2="U06")


def test_a_task_that_asks_and_changes_nothing_has_no_slots() -> None:
    assert judge_typed('{"answer": {}}', of([])) == []
    assert judge_typed("Done.", of([])) == ["expected one JSON object, found text"]


PRICE = of([["12.50"]])


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": {"number": 12.5}}',
        '  \n{"answer":{"number":"12.50"}}\n',
        '{"answer": {"number": 12.5}, "message": "It costs 13."}',
        '```json\n{"answer": {"number": 12.5}}\n```',
        'Here it is:\n```\n{"answer": {"number": 12.5}}\n```\nThank you.',
        r'So \boxed{{"answer": {"number": 12.5}}}',
    ],
)
def test_it_stands_alone_or_in_a_fenced_block_or_in_a_box(text: str) -> None:
    assert judge_typed(text, PRICE) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "found text"),
        ("It is 12.50.", "found text"),
        ("[12.5]", "found text"),
        ("{", "expected one JSON object: Expecting property name"),
        ("{}", 'expected an object {"answer": {…}}'),
        ('{"answer": 12.5}', 'expected an object {"answer": {…}}'),
        ('{"answer": [12.5]}', 'expected an object {"answer": {…}}'),
        ('{"answer": {"number": [12.5]}}', "the slot 'number' has [12.5], expected 12.5"),
        ('{"answer": {"number": {"is": 12.5}}}', "the slot 'number' has [["),
        ('{"answer": {}}', "the slot 'number' is missing"),
        ('{"answer": {"price": 12.5}}', "the slot 'number' is missing"),
        ('{"answer": {"number": 12.5, "more": 13}}', "there is no slot 'more', only number"),
        ('{"answer": {"number": 13, "number": 12.5}}', "the slot 'number' stands there 2 times"),
        ('{"answer": {"number": 12.5}} {"answer": {"number": 13}}', "Extra data"),
        ('```\n{"answer": {"number": 12.5}}\n```\n```\n{"answer": {"number": 13}}\n```', "found 2 of them"),
        ('{"answer": {"number": 12.5}}' + " " * MAX_CHARACTERS, "at most 20,000 are read"),
        ('{"answer": {"number": "12.5 or 13"}}', "the slot 'number' has \"12.5 or 13\", expected 12.5"),
        ('{"answer": {"number": 1e999}}', "has Infinity"),
        ('{"answer": {"number": ' + "9" * 5000 + "}}", "expected one JSON object: Exceeds the limit"),
        ('{"answer": {"number": -' + "9" * 400 + "}}", "a number beyond all bounds"),
        ('{"answer": {"number": NaN}}', "NaN is no JSON"),
        ('{"answer": ' * 100 + "1" + "}" * 100, "is missing"),
        ('{"answer":' * 1900 + "1", "expected one JSON object: "),
        ('{"answer": {"number": ' + "[" * 9000, "expected one JSON object: "),
        ('{"answer": {"\\ud800": 1, "number": 12.5}}', r"there is no slot '\ud800'"),
        ("\ud800", "found text"),
        ('{"answer": {"number": "\ud800"}}', 'has "?"'),
        ("```" * 6000, "found text"),
        (r"\boxed{" * 2000, "found text"),
    ],
)
def test_whatever_else_is_wrong_and_the_verdict_says_which_slot(text: str, wrong: str) -> None:
    found = judge_typed(text, PRICE)
    assert len(found) == 1
    assert wrong in found[0]
    assert len(found[0].encode()) < 500  # of which a file can be made


@pytest.mark.parametrize("piece", ["```", "``` ", "```\n", r"\boxed{", "{", "[", '"', "9", " ", "\ufdfa", '{"answer":'])
def test_long_messages_are_wrong(piece: str) -> None:
    inside = json.dumps({"answer": {"number": piece * 3000}})[:MAX_CHARACTERS]
    for text in ((piece * MAX_CHARACTERS)[:MAX_CHARACTERS], f"```{piece * 10_000}"[:MAX_CHARACTERS], inside):
        assert judge_typed(text, PRICE)


@given(st.text() | st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_no_value_raises(value: Any) -> None:
    text = value if isinstance(value, str) else msgspec.json.encode({"answer": {"number": repr(value)}}).decode()
    assert judge_typed(text, PRICE)
    assert judge_typed('{"answer": {"number": ' + text + "}}", PRICE) or text.strip() in ("12.5", "12.50", '"12.5"')


def test_every_task_of_a_domain_is_solved_by_its_own_values_and_by_no_others(mini: Domain) -> None:
    table = mini.slots
    session = mini.session()
    for task in mini.tasks():
        expected = table.of(task)
        for call in task.reference_calls:
            mini.call(call, session)
        assert mini.verify(task, session, expected.written(), expected).solved, task.id
        wrong = expected.written([f"x{value}" for value in expected.values])
        verdict = mini.verify(task, session, wrong, expected)
        assert verdict.solved is (not expected.slots)
        assert {failure.criterion for failure in verdict.failures} <= {"fidelity"}
        session.reset()


def test_names_that_would_stand_twice_are_numbered() -> None:
    results = [[{"train": "R1"}, {"train": "R2"}, {"train_1": "R3"}]]
    expected = of([["R1"], ["R2"], ["R3"]], results=results)
    assert [slot.name for slot in expected.slots] == ["answer_1", "answer_2", "answer_3"]


@pytest.mark.parametrize("value", [None, "none", "None", []])
def test_a_list_that_does_not_apply_may_be_said_to_be_none(value: Any) -> None:
    assert reads_right(value, (), several=True)
    assert not reads_right(value, (frozenset({"=a"}),), several=True)


@pytest.mark.parametrize("value", [0, "", "no", ["none"], ["a"], "a"])
def test_a_list_that_does_not_apply_has_nothing_in_it(value: Any) -> None:
    assert not reads_right(value, (), several=True)
