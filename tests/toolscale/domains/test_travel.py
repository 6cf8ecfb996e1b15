from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import Status
from toolorchestra.toolscale.validation.verifier_mutations import UnexpectedVerdict


def opened(session: Any, city: str, departs: str, returns: str, *travellers: str, contact: str = "T043") -> str:
    """Open an option and return its id."""
    party = list(travellers or [contact])
    made = session.attempt(
        "create_booking", contact=contact, travellers=party, city=city, departs=departs, returns=returns
    )
    assert made.status is Status.OK, made.error
    return str(made.value["booking"])


def test_refusing_leaves_the_records_alone_and_tells_the_reason(domain: Domain, tasks: list[Task]) -> None:
    refusals = [task for task in tasks if task.refuses]

    assert all(task.communicate for task in refusals)
    assert not any(domain.tools[call.name].effect == "write" for task in refusals for call in task.reference_calls)


def test_the_latest_feeder_is_the_last_that_makes_the_connection(tasks: list[Task]) -> None:
    # AL204 lands at 11:20 in London (75 minutes): 12:00 to Tokyo and 12:20 to Cape Town are too soon, 13:05 to Accra is
    # not. CT512 lands at 13:05 in Madrid (60): Lima has left at 12:10, Bogota leaves at 14:00. KA640 lands at 17:55 in
    # Istanbul (70): 19:00 to Tbilisi is too soon, 20:15 to Delhi is not. GC020 lands at 20:30 in Doha (60): only
    # Kathmandu at 21:45 is in time.
    latest = {
        "NRT": "KA110", "CPT": "KA110", "ACC": "AL204", "LIM": "KA310", "BOG": "KA310", "TBS": "BO872", "DEL": "KA640",
        "BKK": "GC018", "CMB": "GC018", "EBB": "GC018", "KTM": "GC020",
    }  # fmt: skip
    booked = [task for task in tasks if task.intent == "long_haul" and not task.refuses]

    found = {task.bindings["city"]: task.reference_calls[6].arguments["flight"] for task in booked}

    assert len(found) >= 10
    assert found.items() <= latest.items()


def test_a_connection_below_the_minimum_is_refused_in_either_order(session: Any) -> None:
    trip = opened(session, "TBS", "2026-07-18", "2026-08-01", contact="T060")
    leg = {"booking": trip, "date": "2026-07-18", "fare": "standard"}

    assert session.attempt("add_flight", flight="KA640", **leg).status is Status.OK
    assert "shorter than the airport's minimum" in session.refusal("add_flight", flight="BO210", **leg)

    session.reset()
    trip = opened(session, "TBS", "2026-07-18", "2026-08-01", contact="T060")
    assert session.attempt("add_flight", flight="BO210", **leg).status is Status.OK
    assert "shorter than the airport's minimum" in session.refusal("add_flight", flight="KA640", **leg)


def test_a_stay_across_easter_costs_each_night_its_season(session: Any) -> None:
    # Rome, March 27 to April 7: 11 nights, of which March 29 to April 6, 9 nights, are Easter's: 2 x 151 + 9 x 190
    quote = session.attempt("check_room", room="H03-F", arrives="2026-03-27", leaves="2026-04-07").value

    assert (quote["nights"], quote["minimum_nights"], quote["price"]) == (11, 5, 2012)
    assert "minimum of nights" in session.refusal(
        "add_hotel",
        booking=opened(session, "FCO", "2026-04-05", "2026-04-08", contact="T063"),
        room="H03-F",
        arrives="2026-04-05",
        leaves="2026-04-08",
        rooms=1,
    )


def test_an_escorted_child_pays_the_child_fare_and_the_fee_for_each_flight(domain: Domain, tasks: list[Task]) -> None:
    # KA470 and KA471 cost 160 each in standard; Kestrel Air takes 75 % of children and 60 for its escort
    task = next(t for t in tasks if t.intent == "child_alone" and t.bindings["out"] == "KA470" and not t.refuses)

    assert task.communicate == (("360",),)  # 2 x (120 + 60)

    alone = [c for c in task.reference_calls if c.name != "add_flight"] + [
        msgspec.structs.replace(c, arguments=c.arguments | {"escort": False})
        for c in task.reference_calls
        if c.name == "add_flight"
    ]
    assert not domain.replay(task, alone, task.answer, domain.session()).solved


def test_a_cancellation_keeps_the_scale_s_share_and_the_premium(session: Any) -> None:
    # B107 leaves on June 20, 96 days ahead: 20 % of 3,640 without the premium of 150; 3,790 were paid
    assert "not cancelled" in session.refusal("refund_booking", booking="B107", amount=2912)
    assert session.attempt("cancel_booking", booking="B107").status is Status.OK

    assert "not what is due" in session.refusal("refund_booking", booking="B107", amount=3032)  # 80 % of everything
    assert session.attempt("refund_booking", booking="B107", amount=2912).status is Status.OK  # 3790 - 150 - 728
    assert "refunded already" in session.refusal("refund_booking", booking="B107", amount=2912)


def test_no_money_is_taken_while_papers_are_missing(domain: Domain, tasks: list[Task], session: Any) -> None:
    stopped = [t for t in tasks if t.intent == "take_deposit" and t.refuses and t.bindings["held"]]

    assert stopped
    for task in stopped:
        due = {"booking": task.bindings["booking"], "amount": task.bindings["due"], "method": "card"}
        assert "in the party" in session.refusal("take_payment", **due)


def test_young_drivers_pay_more_and_too_young_ones_stay_on_foot(session: Any) -> None:
    # Orla Fitzgerald (T029) is 21 in May, the minimum for Toronto's economy cars: 2 days at 47 + 14
    hire = {"booking": "B168", "driver": "T029", "starts": "2026-05-05", "ends": "2026-05-07"}

    assert "too young" in session.refusal("add_car", car="YYZ-ESTATE", **hire)
    assert session.attempt("add_car", car="YYZ-ECONOMY", **hire).value["price"] == 122


def test_nothing_is_sold_against_the_advice(session: Any) -> None:
    trip = {"contact": "T043", "travellers": ["T043"], "departs": "2026-09-01", "returns": "2026-09-08"}
    colombia = opened(session, "BOG", "2026-09-01", "2026-09-08")

    assert "level 4" in session.refusal("create_booking", city="BEY", **trip)
    assert "level 3" in session.refusal("add_insurance", booking=colombia, plan="classic")


def test_records_keep_their_rules_after_every_request(domain: Domain, tasks: list[Task], session: Any) -> None:
    for task in tasks[::4]:
        domain.replay(task, task.reference_calls, task.answer, session)
        assert not session.broken_rules(), task.id


def test_records_keep_their_rules_when_all_requests_come_together(
    domain: Domain, tasks: list[Task], session: Any
) -> None:
    done: Counter[str] = Counter()
    for task in random.Random(0).sample(tasks, len(tasks)):
        for reference_calls in task.reference_calls:
            if domain.tools[reference_calls.name].effect == "write":
                done[reference_calls.name] += (
                    session.attempt(reference_calls.name, **reference_calls.arguments).status is Status.OK
                )

    assert not session.broken_rules()
    assert sum(done.values()) > 300


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ("UPDATE flights SET arrives = '20:00' WHERE flight = 'BO322'", "by the clocks of both airports"),
        ("UPDATE items SET price = price + 1 WHERE kind = 'hotel'", "each season at its rate"),
        ("UPDATE tour_dates SET booked = 99", "at most its maximum of participants"),
        ("UPDATE travellers SET passport_expires = '2026-06-01'", "passport, visa and vaccination in order"),
        ("UPDATE countries SET advice = 4", "Nothing is sold where the advice"),
    ],
)
def test_records_that_contradict_each_other_are_found(damage: Callable[[str], str], change: str, rule: str) -> None:
    assert rule in damage(change)


def test_the_verifier_tells_right_from_wrong_in_every_intent(surprises: list[UnexpectedVerdict]) -> None:
    assert not [surprise for surprise in surprises if not surprise.equivalent]
