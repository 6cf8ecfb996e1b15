from __future__ import annotations

import json
import sqlite3
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.database.build import check_records
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import make_domain
from toolorchestra.toolscale.evolution.operators import OPERATORS
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.validation.verifier_mutations import UnexpectedVerdict

OF_THE_PAPER = [
    "look_calendar",
    "get_order",
    "find_table",
    "check_table_availability",
    "find_chef",
    "check_chef_on_duty",
    "get_dish",
    "calculator",
    "make_order",
    "pay_bill",
    "get_membership",
    "calculate_points",
    "update_points",
]

JASPER = (
    "Today is July 23, 2025. On the next Wednesday, Jasper would like to book the same dinner to welcome "
    "another group of guests as he did on the last Monday. If both dishes and the table (that can serve the "
    "same number of people) are available, use the same payment method to pay and record points to his "
    "membership card."
)


RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


@pytest.fixture(scope="module")
def jasper(tasks: list[Task]) -> Task:
    return next(task for task in tasks if task.instruction == JASPER)


def writes(domain: Domain, task: Task) -> int:
    return sum(domain.tools[call.name].effect == "write" for call in task.reference_calls)


def test_the_thirteen_tools_of_the_paper_are_there(domain: Domain) -> None:
    assert set(OF_THE_PAPER) <= set(domain.tools)
    assert len(domain.tools) >= 26


def test_its_rules_are_short(domain: Domain) -> None:
    assert len(domain.rules) <= 1500


@pytest.mark.long
def test_what_is_committed_is_what_its_files_build(domain: Domain, tasks: list[Task]) -> None:
    fresh = make_domain(domain.spec)
    filtered = Counter({why: count for why, count in domain.dropped.items() if why.startswith("filter: ")})
    kept = {task.id for task in tasks}
    unevolved = Counter({why: count for why, count in fresh.dropped.items() if why.split(":")[0] not in OPERATORS})

    assert fresh.database.image == domain.database.image
    assert [task for task in fresh.tasks() if task.id in kept] == tasks
    assert len(fresh.tasks()) - len(tasks) == filtered.total() < len(tasks) / 50
    assert fresh.dropped == domain.dropped - filtered
    assert all(why.endswith("solved like a task that is tested") for why in unevolved)
    assert unevolved.total() < len(tasks) / 50


def test_every_write_declares_the_columns_that_plausible_arguments_come_from(domain: Domain) -> None:
    for tool in domain.tools.values():
        for parameter in tool.parameters.values():
            free = parameter.type in ("string", "array") and not parameter.enum
            assert not free or parameter.column or tool.effect != "write"


def test_every_reference_trajectory_solves_its_task(domain: Domain, tasks: list[Task]) -> None:
    session = domain.session()

    failed = [t.id for t in tasks if not domain.replay(t, t.reference_calls, t.answer, session).solved]

    assert not failed


def test_knowing_the_answer_is_rarely_enough_and_silence_never(domain: Domain, tasks: list[Task]) -> None:
    session = domain.session()
    answered = [t.id for t in tasks if domain.replay(t, (), t.answer, session).solved]
    silent = [t.id for t in tasks if domain.replay(t, (), "", session).solved]

    assert not silent
    assert len(answered) <= 0.08 * len(tasks)  # what lists and searches answer, which operate on no entry


def test_no_two_requests_are_the_same(tasks: list[Task]) -> None:
    assert len({task.instruction for task in tasks}) == len(tasks)


def test_reference_trajectories_have_from_one_to_more_than_twelve_calls(tasks: list[Task]) -> None:
    calls = Counter(len(task.reference_calls) for task in tasks)

    assert min(calls) == 1
    assert sum(count for length, count in calls.items() if length >= 12) >= 200


def test_splits_keep_new_bindings_and_new_intents_apart(domain: Domain, tasks: list[Task]) -> None:
    train, test, unseen = (domain.tasks(split) for split in ("train", "test", "test_intents"))

    assert 0.15 * len(tasks) < len(test) < 0.3 * len(tasks)
    assert not {task.intent for task in unseen} & {task.intent for task in [*train, *test]}


def test_refusing_changes_nothing_and_tells_why(domain: Domain, tasks: list[Task]) -> None:
    refusals = [task for task in tasks if task.refuses]

    assert not [task.id for task in refusals if writes(domain, task) or not task.communicate]
    assert len({task.intent for task in refusals}) >= 12


def test_one_request_ends_in_a_booking_for_some_and_a_refusal_for_others(tasks: list[Task]) -> None:
    for intent in ("book_party", "safe_feast", "release_chef", "best_coupon"):
        assert {task.refuses for task in tasks if task.intent == intent} == {True, False}


def test_a_feast_leaves_out_what_the_guest_must_not_eat(domain: Domain, tasks: list[Task]) -> None:
    allergens = set(domain.database.base.execute("SELECT dish_id, allergen FROM dish_allergens"))
    feasts = [task for task in tasks if task.intent == "safe_feast" and not task.refuses]
    allergy = dict(domain.database.base.execute("SELECT name, allergy FROM customers"))

    for task in feasts:
        served = set(task.reference_calls[-1].arguments["dishes"])
        unsafe = {(dish, allergy[task.bindings["guest"]]) for dish in task.bindings["dishes"]} & allergens
        assert served == set(task.bindings["dishes"]) - {dish for dish, _ in unsafe}


def test_the_learners_benchmark_plays_the_tasks_that_it_was_recorded_on(domain: Domain) -> None:
    record = json.loads((RESULTS / "grpo_restaurant.json").read_text(encoding="utf-8"))

    assert {run["tasks"] for run in record["runs"]} == {sum(task.difficulty == 1 for task in domain.tasks("test"))}


def test_the_papers_example_goes_through_its_twelve_stages(jasper: Task) -> None:
    stages = [
        [call.name for call in stage] for _, stage in groupby(jasper.reference_calls, key=lambda call: call.stage)
    ]

    assert [list(dict.fromkeys(names)) for names in stages] == [
        ["look_calendar"],
        ["get_order"],
        ["find_table"],
        ["check_table_availability", "find_chef"],
        ["check_chef_on_duty"],
        ["get_dish"],
        ["calculator"],
        ["make_order"],
        ["pay_bill"],
        ["get_membership"],
        ["calculate_points"],
        ["update_points"],
    ]
    assert jasper.difficulty == 5


def test_the_papers_example_repeats_last_mondays_dinner(domain: Domain, jasper: Task) -> None:
    row = domain.database.base.execute(
        "SELECT meal, guests, method FROM orders JOIN payments USING (order_id) "
        "WHERE customer = 'Jasper' AND orders.date = '2025-07-21'"
    ).fetchone()
    made = next(call.arguments for call in jasper.reference_calls if call.name == "make_order")
    paid = next(call.arguments for call in jasper.reference_calls if call.name == "pay_bill")

    assert (made["meal"], made["guests"], paid["method"]) == row
    assert made["date"] == "2025-07-30"


def test_a_free_table_that_is_not_the_lowest_is_the_wrong_one(domain: Domain, jasper: Task) -> None:
    calls = [
        msgspec.structs.replace(call, arguments=call.arguments | {"table": "T06"})
        if call.name == "make_order"
        else call
        for call in jasper.reference_calls
    ]

    verdict = domain.replay(jasper, calls, jasper.answer, domain.session())

    assert "execution" in {failure.criterion for failure in verdict.failures}


def test_whoever_stops_looking_at_the_first_free_table_is_right_too(domain: Domain, jasper: Task) -> None:
    lazy = [
        call
        for call in jasper.reference_calls
        if call.name != "check_table_availability" or call.arguments["table"] == "T05"
    ]

    assert domain.replay(jasper, lazy, jasper.answer, domain.session()).solved


def test_records_keep_their_rules_whatever_is_written(session: Any) -> None:
    assert session.write_at_random(20_000) > 1000
    assert not session.broken_rules()


def test_the_initial_records_keep_their_rules(domain: Domain) -> None:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(domain.database.image)
    check_records(connection, domain.spec)
    connection.close()


def test_the_verifier_tells_right_from_wrong_in_every_intent(surprises: list[UnexpectedVerdict]) -> None:
    assert not [surprise for surprise in surprises if not surprise.equivalent]
