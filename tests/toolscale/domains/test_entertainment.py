from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.toolscale.tools.tool import Status
from toolorchestra.toolscale.validation.verifier_mutations import UnexpectedVerdict

TEN = ["C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "D1", "D2"]


def booked(session: Any, customer: str, performance: str, seats: list[str]) -> dict[str, Any]:
    result = session.attempt("book_seats", customer=customer, performance=performance, seats=seats)
    assert result.status is Status.OK, result.error
    found: dict[str, Any] = result.value
    return found


def test_the_better_of_group_and_member_discount_counts(session: Any) -> None:
    # standard seats of S09 cost 33 dollars; G079 is no member, G008 a patron with 20 percent
    group = booked(session, "G079", "E137", TEN)
    session.attempt("release_order", order=group["order"])
    few = booked(session, "G079", "E137", TEN[:9])
    session.attempt("release_order", order=few["order"])
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
def test_refunds_go_by_the_days_before_the_performance(session: Any, order: str, amount: float) -> None:
    assert "not what is due" in session.refusal("refund_order", order=order, amount=amount + 1)
    assert session.attempt("refund_order", order=order, amount=amount).status is Status.OK
    assert session.execute("SELECT count(*) FROM tickets WHERE order_id = :order", {"order": order}).fetchone() == (0,)


def test_nothing_is_refunded_at_the_last_minute_unless_the_house_cancels(session: Any) -> None:
    assert "Nothing" in session.refusal("refund_order", order="T1120", amount=48)  # for today
    assert "pass" in session.refusal("refund_order", order="T1113", amount=48)
    assert "not what is due" in session.refusal("refund_order", order="T1029", amount=60)  # 8 days ahead
    session.attempt("cancel_performance", performance="E134")
    assert session.attempt("refund_order", order="T1029", amount=60).status is Status.OK


def test_an_exchange_keeps_the_seats_and_costs_four_dollars_a_ticket(session: Any) -> None:
    seats = session.attempt("get_order", order="T1029").value["seats"]

    assert "same production" in session.refusal("exchange_order", order="T1029", performance="E137")
    assert session.attempt("exchange_order", order="T1029", performance="E195").value == {"order": "T1029", "fee": 16}
    assert session.attempt("list_taken", performance="E195").value == seats
    assert len(seats) == 4


def test_a_hold_that_is_over_is_released_not_paid(session: Any) -> None:
    assert "over" in session.refusal("pay_order", order="T1010")  # held until 2025-11-03
    assert session.attempt("release_order", order="T1010").status is Status.OK
    assert booked(session, "G008", "E137", ["C1"])["until"] == "2025-11-08"  # 3 days from today


def test_a_voucher_pays_what_is_left_on_it_and_a_card_the_rest(session: Any) -> None:
    order = booked(session, "G079", "E137", ["C1", "C2"])["order"]  # 66 dollars; BRAMBLE has 20 of 50 left

    paid = session.attempt("pay_order", order=order, voucher="BRAMBLE").value

    assert paid == {"total": 66, "by_voucher": 20, "by_card": 46}
    assert session.attempt("get_voucher", voucher="BRAMBLE").value["balance"] == 0


def test_children_wheelchair_spaces_and_taken_seats_are_looked_after(session: Any) -> None:
    # G003 is 13, and Velvet Static from 16
    assert "too young" in session.refusal("book_seats", customer="G003", performance="E178", seats=["C1"])
    assert "Wheelchair" in session.refusal("book_seats", customer="G008", performance="E137", seats=["E8"])
    booked(session, "G079", "E137", ["C1"])
    assert "taken" in session.refusal("book_seats", customer="G008", performance="E137", seats=["C1", "C2"])


def test_a_rehearsal_keeps_the_turnover_of_the_hall(session: Any) -> None:
    # H2 on 2025-11-07: a rehearsal until 11:30, a performance from 19:30, and a turnover of 90 minutes
    plan = {"production": "S11", "hall": "H2", "date": "2025-11-07"}

    assert "in use" in session.refusal("schedule_rehearsal", **plan, time="12:30", minutes=60)
    assert "in use" in session.refusal("schedule_rehearsal", **plan, time="13:00", minutes=310)
    assert session.attempt("schedule_rehearsal", **plan, time="13:00", minutes=300).value["ends"] == "18:00"


def test_an_usher_has_one_performance_a_day_and_one_of_two_has_first_aid(session: Any) -> None:
    assert "on that day" in session.refusal("assign_usher", usher="U01", performance="E116")
    assert "two ushers" in session.refusal("assign_usher", usher="U02", performance="E117")
    session.attempt("remove_usher", usher="U09", performance="E116")  # who has first aid
    assert session.attempt("assign_usher", usher="U02", performance="E116").status is Status.OK
    assert "first aid" in session.refusal("assign_usher", usher="U08", performance="E116")


@pytest.mark.parametrize(
    ("rule", "sql"),
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
def test_records_that_break_a_rule_are_noticed(damage: Callable[[str], str], rule: str, sql: str) -> None:
    assert rule in damage(sql)


def test_the_verifier_tells_right_from_wrong_in_every_intent(surprises: list[UnexpectedVerdict]) -> None:
    assert not surprises
