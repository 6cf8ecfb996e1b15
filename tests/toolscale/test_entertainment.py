from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.build import check_records
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.errors import DomainError
from toolorchestra.toolscale.session import Session
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import Status, ToolResult
from toolorchestra.toolscale.verifier_mutations import try_verifier

TEN = ["C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "D1", "D2"]


@pytest.fixture(scope="module")
def domain() -> Domain:
    return load_domain("entertainment")


@pytest.fixture(scope="module")
def tasks(domain: Domain) -> list[Task]:
    return domain.tasks()


@pytest.fixture
def session(domain: Domain) -> Session:
    return domain.session()


def call(session: Session, name: str, **arguments: Any) -> ToolResult:
    tool = load_domain("entertainment").tools[name]
    return session.call(tool, tool.decode(msgspec.json.encode(arguments)))


def refused(session: Session, name: str, **arguments: Any) -> str:
    """Return the error of a call that must be refused and change nothing."""
    before = session.touched()
    result = call(session, name, **arguments)
    assert result.status is Status.EXEC_ERR
    assert session.touched() == before
    return result.error or ""


def booked(session: Session, customer: str, performance: str, seats: list[str]) -> dict[str, Any]:
    result = call(session, "book_seats", customer=customer, performance=performance, seats=seats)
    assert result.status is Status.OK, result.error
    found: dict[str, Any] = result.value
    return found


def test_it_is_larger_than_the_papers(domain: Domain, tasks: list[Task]) -> None:
    assert len(domain.tools) >= 30
    assert domain.database.entries() >= 1000
    assert len(tasks) >= 650
    assert len(domain.spec.intents) >= 30
    assert len(domain.spec.consistency) >= 15


def test_tasks_are_long_varied_and_often_hang_on_a_look_up(domain: Domain, tasks: list[Task]) -> None:
    levels = Counter(task.difficulty for task in tasks)

    assert sorted(levels) == [1, 2, 3, 4, 5]
    assert min(levels.values()) >= 40
    assert sum(len(task.reference_calls) >= 8 for task in tasks) >= 0.12 * len(tasks)
    assert sum(task.branches for task in tasks) >= 0.18 * len(tasks)
    assert sum(task.refuses for task in tasks) >= 0.07 * len(tasks)
    assert len({tuple(call.name for call in task.reference_calls) for task in tasks}) >= 75
    assert {call.name for task in tasks for call in task.reference_calls} == set(domain.tools)
    assert len({task.difficulty for task in domain.tasks("test_intents")}) >= 4


def test_the_same_wording_is_right_to_obey_for_some_guests_and_to_refuse_for_others(tasks: list[Task]) -> None:
    outcomes: dict[str, set[bool]] = {}
    for task in tasks:
        outcomes.setdefault(task.intent, set()).add(task.refuses)

    assert sum(found == {True, False} for found in outcomes.values()) >= 8


def test_the_better_of_group_and_member_discount_counts(session: Session) -> None:
    # standard seats of S09 cost 33 dollars; G079 is no member, G008 a patron with 20 percent
    group = booked(session, "G079", "E137", TEN)
    call(session, "release_order", order=group["order"])
    few = booked(session, "G079", "E137", TEN[:9])
    call(session, "release_order", order=few["order"])
    patron = booked(session, "G008", "E137", TEN)

    assert (group["percent"], group["total"]) == (15, 280.5)
    assert (few["percent"], few["total"]) == (0, 297)
    assert (patron["percent"], patron["total"]) == (20, 264)


@pytest.mark.parametrize(
    ("order", "amount"),
    [
        ("T1102", 18),  # 36 dollars, 2 days ahead: half
        ("T1123", 7.5),  # 15 dollars, 6 days ahead: half
        ("T1004", 18),  # 24 dollars, 7 days ahead: three quarters
        ("T1052", 132),  # 132 dollars, 14 days ahead: all
    ],
)
def test_refunds_go_by_the_days_before_the_performance(session: Session, order: str, amount: float) -> None:
    assert "not what is due" in refused(session, "refund_order", order=order, amount=amount + 1)
    assert call(session, "refund_order", order=order, amount=amount).status is Status.OK
    assert session.execute("SELECT count(*) FROM tickets WHERE order_id = :order", {"order": order}).fetchone() == (0,)


def test_nothing_is_refunded_at_the_last_minute_unless_the_house_cancels(session: Session) -> None:
    assert "Nothing" in refused(session, "refund_order", order="T1120", amount=48)  # for today
    assert "pass" in refused(session, "refund_order", order="T1113", amount=48)
    assert "not what is due" in refused(session, "refund_order", order="T1029", amount=60)  # 8 days ahead
    call(session, "cancel_performance", performance="E134")
    assert call(session, "refund_order", order="T1029", amount=60).status is Status.OK


def test_an_exchange_keeps_the_seats_and_costs_four_dollars_a_ticket(session: Session) -> None:
    seats = call(session, "get_order", order="T1029").value["seats"]

    assert "same production" in refused(session, "exchange_order", order="T1029", performance="E137")
    assert call(session, "exchange_order", order="T1029", performance="E195").value == {"order": "T1029", "fee": 16}
    assert call(session, "list_taken", performance="E195").value == seats
    assert len(seats) == 4


def test_a_hold_that_is_over_is_released_not_paid(session: Session) -> None:
    assert "over" in refused(session, "pay_order", order="T1010")  # held until 2025-11-03
    assert call(session, "release_order", order="T1010").status is Status.OK
    assert booked(session, "G008", "E137", ["C1"])["until"] == "2025-11-08"  # 3 days from today


def test_a_voucher_pays_what_is_left_on_it_and_a_card_the_rest(session: Session) -> None:
    order = booked(session, "G079", "E137", ["C1", "C2"])["order"]  # 66 dollars; BRAMBLE has 20 of 50 left

    paid = call(session, "pay_order", order=order, voucher="BRAMBLE").value

    assert paid == {"total": 66, "by_voucher": 20, "by_card": 46}
    assert call(session, "get_voucher", voucher="BRAMBLE").value["balance"] == 0


def test_children_wheelchair_spaces_and_taken_seats_are_looked_after(session: Session) -> None:
    # G003 is 13, and Velvet Static from 16
    assert "too young" in refused(session, "book_seats", customer="G003", performance="E178", seats=["C1"])
    assert "Wheelchair" in refused(session, "book_seats", customer="G008", performance="E137", seats=["E8"])
    booked(session, "G079", "E137", ["C1"])
    assert "taken" in refused(session, "book_seats", customer="G008", performance="E137", seats=["C1", "C2"])


def test_a_rehearsal_keeps_the_turnover_of_the_hall(session: Session) -> None:
    # H2 on 2025-11-07: a rehearsal until 11:30, a performance from 19:30, and a turnover of 90 minutes
    plan = {"production": "S11", "hall": "H2", "date": "2025-11-07"}

    assert "in use" in refused(session, "schedule_rehearsal", **plan, time="12:30", minutes=60)
    assert "in use" in refused(session, "schedule_rehearsal", **plan, time="13:00", minutes=310)
    assert call(session, "schedule_rehearsal", **plan, time="13:00", minutes=300).value["ends"] == "18:00"


def test_an_usher_has_one_performance_a_day_and_one_of_two_has_first_aid(session: Session) -> None:
    assert "on that day" in refused(session, "assign_usher", usher="U01", performance="E116")
    assert "two ushers" in refused(session, "assign_usher", usher="U02", performance="E117")
    call(session, "remove_usher", usher="U09", performance="E116")  # who has first aid
    assert call(session, "assign_usher", usher="U02", performance="E116").status is Status.OK
    assert "first aid" in refused(session, "assign_usher", usher="U08", performance="E116")


def test_who_is_refused_must_hear_why(domain: Domain, tasks: list[Task], session: Session) -> None:
    for task in tasks:
        if task.refuses:
            assert not domain.replay(
                task, task.reference_calls, "I am afraid that is against our rules.", session
            ).solved


@pytest.mark.parametrize(
    ("rule", "damage"),
    [
        ("turnover", "UPDATE rehearsals SET time = '18:45' WHERE rehearsal_id = 'B02'"),
        ("price of its zone", "UPDATE tickets SET price = price + 1 WHERE order_id = 'T1029'"),
        ("total", "UPDATE orders SET total = total + 1 WHERE order_id = 'T1029'"),
        ("paid in full", "DELETE FROM payments WHERE order_id = 'T1029' AND method = 'card'"),
        ("too young", "UPDATE customers SET born = '2024-01-01' WHERE customer_id = 'G031'"),
        ("Wheelchair", "UPDATE seats SET accessible = 1"),
        ("overdrawn", "UPDATE vouchers SET value = 1 WHERE code = 'BRAMBLE'"),
        ("usher", "UPDATE shifts SET usher_id = 'U01' WHERE performance_id = 'E116'"),
        ("away", "INSERT INTO absences SELECT artist_id, '2025-11-07' FROM casts WHERE production_id = 'S14'"),
    ],
)
def test_records_that_break_a_rule_are_noticed(domain: Domain, rule: str, damage: str) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(domain.database.image)
    assert connection.execute(damage).rowcount > 0

    with pytest.raises(DomainError, match=rule):
        check_records(connection, domain.spec)
    connection.close()


def test_the_verifier_tells_right_from_wrong_in_every_intent(domain: Domain, tasks: list[Task]) -> None:
    some = {task.intent: task for task in tasks}

    report = try_verifier(domain, list(some.values()))

    assert not report.surprises
