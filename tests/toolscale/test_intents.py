from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.intents import difficulty, make_tasks
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.tool import Status

Broken = Callable[..., Domain]


def test_every_task_is_solved_by_its_reference_trajectory_and_not_by_silence(mini: Domain) -> None:
    session = mini.session()
    for task in mini.tasks():
        for path in (task.reference_calls, *task.alternatives):
            session.reset()
            for call in path:
                tool = mini.tools[call.name]
                result = session.call(tool, tool.decode(msgspec.json.encode(call.arguments)))
                assert result.status is Status.OK
            assert mini.verify(task, session, task.answer).solved, task.id
        session.reset()
        assert not mini.verify(task, session, "").solved
    session.close()


def test_tasks_have_unique_ids_and_instructions_without_placeholders(mini: Domain) -> None:
    tasks = mini.tasks()
    assert len({task.id for task in tasks}) == len({task.instruction for task in tasks}) == len(tasks)
    assert not [task for task in tasks if set("{}") & set(task.instruction + task.answer)]


def test_intents_yield_as_many_tasks_as_they_ask_for(mini: Domain) -> None:
    counts = Counter(task.intent for task in mini.tasks())
    assert counts == {"ask_price": 20, "order_twice": 12, "drop_order": 8, "leave_note": 8}


def test_splits_hold_new_bindings_and_new_intents(mini: Domain) -> None:
    intents = {split: {task.intent for task in mini.tasks(split)} for split in ("train", "test", "test_intents")}
    assert intents["test_intents"] == {"leave_note"}
    assert "leave_note" not in intents["train"] | intents["test"]
    assert intents["test"] <= intents["train"]
    assert 0 < len(mini.tasks("test")) < len(mini.tasks("train"))


def test_several_phrasings_are_used(mini: Domain) -> None:
    starts = {task.instruction.split()[0] for task in mini.tasks() if task.intent == "ask_price"}
    assert starts == {"How", "Price"}


def test_arguments_come_from_bindings_and_earlier_results(mini: Domain) -> None:
    task = next(task for task in mini.tasks() if task.intent == "order_twice")
    look, first, second, check = task.reference_calls
    assert look.arguments == {"name": task.bindings["name"]}
    assert first.arguments["customer_id"] == second.arguments["customer_id"]
    assert check.arguments == {"order_id": "O041"}
    assert [call.stage for call in task.reference_calls] == [0, 1, 1, 2]
    assert task.answer == "Done, O041."


@pytest.mark.parametrize(
    ("calls", "branches", "level"),
    [(1, False, 1), (2, False, 2), (3, False, 2), (4, False, 3), (5, False, 3), (6, False, 4), (8, False, 4),
     (9, False, 5), (12, True, 5), (1, True, 2), (8, True, 5)],
)  # fmt: skip
def test_difficulty_grows_with_calls_and_branches(calls: int, branches: bool, level: int) -> None:
    assert difficulty(calls, branches) == level


def intent(**fields: Any) -> dict[str, Any]:
    return {
        "description": "d",
        "bindings": "SELECT order_id, price FROM orders ORDER BY order_id LIMIT 6",
        "instructions": ["Cancel {order_id}.", "Away with {order_id}!"],
        "reference_calls": [{"call": "cancel_order", "arguments": {"order_id": "$order_id"}}],
        "answer": "Done.",
    } | fields


def made(broken: Broken, **fields: Any) -> Domain:
    return broken("intents", {"x": intent(**fields)})


def test_a_step_may_be_made_for_each_item_or_left_out(broken: Broken) -> None:
    domain = made(
        broken,
        bindings="""SELECT customer_id, json_group_array(order_id) AS ids, max(price) > 40 AS dear
                    FROM orders WHERE order_id NOT IN (SELECT order_id FROM notes) GROUP BY 1""",
        json=["ids"],
        instructions=["Cancel all of {customer_id}: {ids:and}.", "Away with {ids:and} of {customer_id}!"],
        reference_calls=[
            {"call": "cancel_order", "arguments": {"order_id": "$one"}, "each": "$ids", "item": "one", "save": "gone"},
            {"call": "list_orders", "arguments": {"customer_id": "$customer_id"}, "when": "$dear"},
            {"call": "count_orders", "when": "!$dear", "parallel": True},
        ],
    )
    for task in domain.tasks():
        *cancelled, last = task.reference_calls
        assert [call.arguments["order_id"] for call in cancelled] == task.bindings["ids"]
        assert {call.stage for call in cancelled} == {0}
        assert (last.name, last.stage) == (("list_orders", 1) if task.bindings["dear"] else ("count_orders", 0))


def test_candidates_that_are_no_tasks_are_dropped_and_counted(broken: Broken) -> None:
    noted = made(broken, bindings="SELECT order_id FROM orders", count=40)  # those with notes cannot be cancelled
    assert len(noted.tasks()) == 37
    assert all("FOREIGN KEY" in reason for reason in noted.dropped)
    twice = made(broken, instructions=["Cancel an order.", "Cancel an order."])
    assert len(twice.tasks()) == 1
    assert twice.dropped == {"x: duplicate instruction": 5}


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"bindings": "SELECT 1 FROM oders"}, "intents.x.bindings", "no such table: oders"),
        ({"bindings": "SELECT 1 AS order_id WHERE 0"}, "intents.x", "its bindings are empty"),
        ({"json": ["ids"]}, "intents.x.json", "Unknown binding 'ids'. Known: order_id, price."),
        ({"json": ["order_id"]}, "intents.x.bindings", "is not JSON"),
        ({"instructions": ["{oder_id}", "{order_id}"], "count": 1}, "", ""),
        ({"instructions": ["{oder_id}", "x {oder_id}"]}, "intents.x", "Nothing at 'oder_id'"),
        (
            {"reference_calls": [{"call": "cancel_order", "arguments": {"order_id": "$id"}}]},
            "intents.x",
            "Nothing at 'id'",
        ),
        (
            {"reference_calls": [{"call": "cancel_order", "arguments": {"order_id": 3}}]},
            "intents.x",
            "is malformed: Argument",
        ),
        (
            {"reference_calls": [{"call": "get_order", "arguments": {"order_id": "O999"}}]},
            "intents.x",
            "errs: No order O999.",
        ),
        ({"reference_calls": []}, "intents.x", "solved by doing and saying nothing"),
        ({"communicate": ["{price}"]}, "intents.x", "the reference trajectory does not pass: fidelity"),
    ],
)
def test_an_intent_that_yields_no_task_says_why(
    broken: Broken, fields: dict[str, Any], path: str, message: str
) -> None:
    if not path:
        assert made(broken, **fields).tasks()
        return
    with pytest.raises(DomainError) as error:
        made(broken, **fields)
    assert error.value.path == path
    assert message in str(error.value)


def test_any_one_of_several_sufficient_look_ups_is_enough_and_any_of_their_phrases_is_told(broken: Broken) -> None:
    orders = ["O001", "O002", "O003"]
    domain = broken(
        "intents",
        {
            "x": intent(
                bindings=f"SELECT 'C02' AS customer_id, '{json.dumps(orders)}' AS ids, "
                f"'{json.dumps(orders[1:])}' AS late",
                json=["ids", "late"],
                aside=["late"],
                instructions=["Which of {ids:and} is late, {customer_id}?", "{customer_id}: is one of {ids:and} late?"],
                reference_calls=[
                    {"call": "get_order", "arguments": {"order_id": "$item"}, "each": "$ids", "any": "$late"}
                ],
                communicate=[["{late.0}", "-", "$late"]],
                answer="{late.0} is late.",
            )
        },
    )
    (task,) = make_tasks(domain)[0]
    assert task.communicate == (("O002", "O003"),)
    assert "late" not in task.bindings
    assert [[call.arguments["order_id"] for call in path] for path in (task.reference_calls, *task.alternatives)] == [
        orders,
        ["O002"],
        ["O003"],
    ]
    session = domain.session()
    for looked_up, solved in ((["O003"], True), (["O001"], False), ([], False)):
        calls = [Call("get_order", {"order_id": one}) for one in looked_up]
        assert domain.replay(task, calls, "It is O003 that is late.", session).solved is solved
    session.close()


def test_rows_that_are_skipped_make_no_task_and_leave_the_others_as_they_are(broken: Broken) -> None:
    fields = {"bindings": "SELECT order_id FROM orders", "count": 3}
    whole, _ = make_tasks(broken("intents", {"x": intent(**fields)}))
    skip = {"order_id": [whole[1].bindings["order_id"], "none such"]}
    left, dropped = make_tasks(broken("intents", {"x": intent(**fields, skip=skip)}))
    assert [task.bindings for task in left][:2] == [whole[0].bindings, whole[2].bindings]
    assert dropped["x: skipped"] == 1


def test_columns_aside_change_neither_ids_nor_splits(broken: Broken) -> None:
    plain = make_tasks(broken("intents", {"x": intent(bindings="SELECT order_id FROM orders")}))[0]
    more = intent(bindings="SELECT order_id, price AS anew FROM orders", aside=["anew"])
    assert make_tasks(broken("intents", {"x": more}))[0] == plain


def test_any_needs_each(broken: Broken) -> None:
    step = {"call": "get_order", "arguments": {"order_id": "O001"}, "any": "$ids"}
    with pytest.raises(DomainError, match="`any` says which items of `each` are enough, and there is no `each`"):
        make_tasks(broken("intents", {"x": intent(reference_calls=[step])}))


def test_a_name_alone_stands_for_all_values_of_a_list_and_one_slot_takes_them(broken: Broken) -> None:
    fields = {
        "bindings": """SELECT DISTINCT 'C02' AS customer_id, '["O002", "O003"]' AS late FROM orders""",
        "json": ["late"],
        "instructions": ["Which orders are late, {customer_id}?", "{customer_id}: what is late?"],
        "reference_calls": [{"call": "get_order", "arguments": {"order_id": "$item"}, "each": "$late"}],
        "communicate": ["$late"],
        "slots": ["late_orders[]"],
        "answer": "{late:and} are late.",
    }
    (task,) = (domain := made(broken, **fields)).tasks()
    assert task.communicate == (("O002",), ("O003",))
    assert str(domain.slots.of(task)) == "late_orders (list of id)"


def test_there_is_a_name_for_each_slot(broken: Broken) -> None:
    slots = {"done": ["price", "fee"]}
    with pytest.raises(DomainError, match="Expected a name for each of the 1 in `communicate`") as error:
        made(broken, communicate=["{price}"], answer="It was {price}.", slots=slots)
    assert error.value.path == "intents.x.slots.done"
