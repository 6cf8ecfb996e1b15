from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.toolscale.database.format import Operator
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import builtin_domains, load_domain, make_domain, read_spec
from toolorchestra.toolscale.evolution.evolution import LEAST, evolve
from toolorchestra.toolscale.evolution.operators import OPERATORS
from toolorchestra.toolscale.evolution.requests import Request, Requests
from toolorchestra.toolscale.evolution.templates import TEMPLATES, own
from toolorchestra.toolscale.requests.entities import EntityIndex
from toolorchestra.toolscale.requests.wording import FRAMES
from toolorchestra.toolscale.requests.wording_checks import MAX_IDS, check_wording, raw_ids, share_with_ids
from toolorchestra.toolscale.tasks.task import Call, Task

ORDER = {
    "table": "orders",
    "says": "SELECT name, day, price FROM orders JOIN customers USING (customer_id) WHERE order_id = :key",
    "phrase": "{name}'s order from {day:date}",
    "find": [
        {"call": "get_customer", "arguments": {"name": "$name"}, "save": "who"},
        {"call": "list_orders", "arguments": {"customer_id": "$who.customer_id", "most": 20}},
    ],
    "pick": {"day": "$day"},
}
GUEST = {"table": "customers", "phrase": "{name}", "find": [{"call": "get_customer", "arguments": {"name": "$name"}}]}
PRICE: dict[str, Any] = {
    "description": "What did an order cost?",
    "bindings": "SELECT order_id FROM orders",
    "names": {"meal": {"order_of": "$order_id"}},
    "speaker": "{meal.name}",
    "instructions": {
        "terse": ["{meal.name}, {meal.day:date}: how much was it?", "Price of {order_id}?"],
        "polite": ["Could you tell me what I paid on {meal.day:date}?"],
        "email": ["{meal.name} needs a receipt for {meal.day:date}. How much was it?"],
        "test": {
            "polite": ["How much did I pay on {meal.day:date}, please?"],
            "terse": ["{meal.name}'s price of {meal.day:date}?"],
        },
    },
    "reference_calls": [{"call": "get_order", "arguments": {"order_id": "$order_id"}, "save": "order"}],
    "communicate": ["{order.price}"],
    "answer": "It was {order.price:money}.",
    "count": 40,
}
NOTE: dict[str, Any] = {
    "description": "Leave a note on an order.",
    "bindings": "SELECT order_id FROM orders WHERE order_id NOT IN (SELECT order_id FROM notes)",
    "names": {"meal": {"order_of": "$order_id"}},
    "instructions": {
        "terse": [
            "No salt for {meal.name} on {meal.day:date}. Note that.",
            "Note that there is no salt in {order_id}.",
        ],
        "polite": ["Would you note that {meal.name} wants no salt on {meal.day:date}?"],
        "email": ["Please put down that {meal.name} takes no salt on {meal.day:date}."],
        "test": {
            "polite": ["Could you write down that {meal.name} wants no salt on {meal.day:date}?"],
            "terse": ["No salt for {meal.name}, {meal.day:date}.", "There is no salt in {order_id}, note that."],
        },
    },
    "reference_calls": [{"call": "write_note", "arguments": {"order_id": "$order_id", "body": "No salt!"}}],
    "answer": "The note is on the order.",
    "count": 40,
}


@pytest.fixture(scope="module")
def domain(edited_once: Callable[..., Path]) -> Domain:
    """The mini domain with two intents whose requests name orders by customer and day, and a rule that refuses."""
    once = {"require": "NOT EXISTS (SELECT 1 FROM notes WHERE order_id = :order_id)", "error": "{order_id} has a note."}
    edited_once("tools.write_note.guards", [once], file="tools.yaml")
    for name in ("order_twice", "drop_order", "leave_note"):
        edited_once(f"intents.{name}", ...)
    edited_once("names", {"order_of": ORDER, "guest": GUEST})
    edited_once("intents.ask_price", PRICE)
    folder = edited_once("intents.note", NOTE)
    return make_domain(read_spec(folder), file=folder / "domain.yaml")


@pytest.fixture
def requests(domain: Domain) -> Requests:
    return Requests(EntityIndex(domain))


def made(domain: Domain, operator: Operator, count: int = 12) -> list[Task]:
    tasks, dropped = evolve(domain, domain.tasks(), {operator: count}, 0)
    assert len(tasks) == count, dropped
    return tasks


def openings() -> list[str]:
    return [
        text
        for frames in FRAMES.values()
        for part in (frames.train, frames.test)
        for text in (*part.openings, *part.closings)
        if len(text) > 3
    ]


def spoken(text: str) -> int:
    """How many openings and closings a text holds; one that is part of another does not count."""
    found = [one for one in set(openings()) if re.search(rf"(?:^|\s){re.escape(one)}(?:\s|$)", text)]
    return sum(not any(one != other and one in other for other in found) for one in found)


def test_a_request_is_what_a_task_asks_in_each_phrasing_without_opening_and_closing(
    domain: Domain, requests: Requests
) -> None:
    task = next(task for task in domain.tasks("train") if task.intent == "ask_price" and task.lookups)
    found = requests.of(task)
    assert {one.register for one in found} == {"terse", "polite", "email"}
    for one in found:
        assert spoken(one.body) == 0
        assert bool(one.lookups) == (task.bindings["order_id"] not in one.body)
        assert (one.speaker is None) == (task.bindings["order_id"] not in one.body and one.register != "polite")


def test_requests_of_intents_without_registers_are_taken_as_they_are(mini: Domain) -> None:
    task = mini.tasks()[0]
    assert Requests(EntityIndex(mini)).of(task) == (Request(task.instruction, None, None, None, ()),)


def test_requests_without_ids_come_first_and_notes_last(requests: Requests) -> None:
    plain, with_id, note = (
        Request(body, register, None, None, ())  # type: ignore[arg-type]  # a register each
        for body, register in (("Zoe's order?", "terse"), ("O001?", "terse"), ("Zoe's order.", "note"))
    )
    for seed in range(5):
        rng = random.Random(seed)
        assert requests.choose([with_id, note, plain], rng) == plain
        assert requests.choose([with_id, note], rng) == note
        assert requests.choose([with_id], rng) == with_id


def test_two_requests_are_made_by_one_person(domain: Domain, requests: Requests) -> None:
    of = {intent: [task for task in domain.tasks("train") if task.intent == intent] for intent in ("ask_price", "note")}
    for first in of["ask_price"][:6]:
        for second in of["note"][:6]:
            pair = requests.pair(first, second, random.Random(0))
            if first.lookups and second.lookups:
                assert pair is not None
                assert pair[0].person is pair[1].person is None
                assert pair[0].register == pair[1].register


def test_an_entry_is_called_by_the_phrase_of_its_name_if_that_leads_to_it_alone(
    domain: Domain, requests: Requests
) -> None:
    sql = "SELECT order_id, name, day FROM orders AS o JOIN customers USING (customer_id) ORDER BY 1"
    rows = domain.database.base.execute(sql).fetchall()
    for key, name, day in rows:
        called = requests.called("orders", key)
        alone = sum((one, on) == (name, day) for _, one, on in rows) == 1
        assert (called is not None) == alone
        if called is not None:
            assert called.text.startswith(f"{name}'s order from ")
            assert [call.name for call in called.calls] == ["get_customer", "list_orders"]
            assert called.is_named_in(f"{called.text} is late.")
            assert not called.is_named_in(f"{name}'s order is late.")
    assert requests.called("notes", 2) is None


def test_a_person_says_my_of_what_is_their_own() -> None:
    assert own("the points of the membership of Petra", "Petra") == "the points of my membership"
    assert own("the total of Petra's order for July 9", "Petra") == "the total of my order for July 9"
    assert own("the age of Petra Marsh", "Petra") == "the age of Petra Marsh"


@pytest.mark.parametrize("operator", OPERATORS)
def test_evolved_requests_have_one_opening_and_one_closing_at_most_and_name_entries_without_ids(
    domain: Domain, operator: Operator
) -> None:
    tasks = made(domain, operator)
    for task in tasks:
        assert spoken(task.instruction) <= 2, task.instruction
        assert not re.search(r"\{|\}|\|", task.instruction)
    assert share_with_ids(tasks, raw_ids(domain)) <= 0.5  # orders of one customer on one day have nothing but ids
    assert {fault.rule for fault in check_wording(domain, [*domain.tasks(), *tasks])} <= {
        "ids",
        "phrasings",
        "registers",
    }


@pytest.mark.parametrize("operator", ["chain", "branch", "distract"])
def test_the_look_ups_of_joined_requests_follow_one_another(domain: Domain, operator: Operator) -> None:
    joined = 0
    for task in made(domain, operator):
        assert [call.stage for call in task.lookups] == list(range(len(task.lookups)))
        joined += len(task.lookups) > 2
        session = domain.session()
        for call in task.whole_path:
            domain.call(call, session)
        assert domain.verify(task, session, task.answer).solved
    assert joined or operator == "distract"  # what a request takes back need not be looked up


def test_a_fact_about_a_named_entry_is_asked_for_by_its_name(domain: Domain) -> None:
    for task in made(domain, "constraint"):
        condition = task.bindings["evolved"]["condition"]
        assert re.match(r"the \w+ of (?:\w+'s order from \w+ \d+, 2025|\w+|order O\d+) (?:is|are) ", condition), (
            condition
        )
        assert condition.rsplit(" is ")[1] in task.instruction


def test_nothing_is_found_of_an_entry_that_is_named_as_none_is(domain: Domain) -> None:
    session = domain.session()
    found = 0
    for task in made(domain, "impossible"):
        if not task.answer.startswith("I could not find "):
            continue
        found += 1
        assert not raw_ids(domain).intersection(re.findall(r"\w+", task.instruction))
        session.reset()
        *_, last = [domain.call(call, session).value for call in (*task.lookups, *task.reference_calls)]
        day = re.search(r"order from (\w+ \d+, 2025)", task.answer)
        assert day is not None
        assert day[1].split(",")[0] in task.instruction
        assert all(row["day"] not in (day[1],) for row in last)
        assert "," not in task.answer.split("order from")[0]
    assert found


def test_a_rule_refuses_what_is_asked_for_another_entry(domain: Domain) -> None:
    refused = [task for task in made(domain, "impossible", 20) if task.answer.startswith("That cannot be done.")]
    assert refused
    for task in refused:
        ((_, other),) = task.bindings["evolved"]["changed"].items()
        assert task.reference_calls == (Call("get_order", {"order_id": other}),)
        assert "has a note" in task.answer
        if task.lookups:
            assert other not in f"{task.instruction} {task.answer}"


def test_what_is_impossible_is_not_solved_by_an_excuse_or_by_the_contrary(domain: Domain) -> None:
    session = domain.session()
    for task in made(domain, "impossible", 20):
        contrary = task.answer.replace("cannot be done", "can be done").replace("could not find", "found")
        assert contrary != task.answer
        for answer in (contrary, "I cannot help you with that."):
            assert not domain.replay(task, task.reference_calls, answer, session).solved


@pytest.mark.parametrize("kind", TEMPLATES)
def test_what_is_said_around_tested_requests_is_never_trained_on(kind: str) -> None:
    train, test = (set(TEMPLATES[kind][split]) for split in ("train", "test"))
    assert train
    assert test
    assert not train & test


@pytest.mark.parametrize("name", builtin_domains())
def test_every_operator_makes_tasks_in_every_domain_and_few_of_all_requests_have_ids(name: str) -> None:
    domain = load_domain(name)
    tasks = domain.tasks()
    for operator in OPERATORS:
        assert sum(task.operator == operator for task in tasks) >= LEAST, operator
    assert sum(task.operator is not None for task in tasks) >= 0.2 * len(tasks)
    assert share_with_ids(tasks, raw_ids(domain)) <= MAX_IDS
