from __future__ import annotations

import random
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


@pytest.fixture(scope="module")
def domain() -> Domain:
    return load_domain("travel")


@pytest.fixture(scope="module")
def tasks(domain: Domain) -> list[Task]:
    return domain.tasks()


@pytest.fixture
def session(domain: Domain) -> Session:
    return domain.session()


def call(session: Session, name: str, **arguments: Any) -> ToolResult:
    tool = load_domain("travel").tools[name]
    return session.call(tool, tool.decode(msgspec.json.encode(arguments)))


def refused(session: Session, name: str, **arguments: Any) -> str:
    """Return why a call that must change nothing is refused."""
    before = session.touched()
    result = call(session, name, **arguments)
    assert result.status is Status.EXEC_ERR
    assert session.touched() == before
    return str(result.error)


def opened(session: Session, city: str, departs: str, returns: str, *travellers: str, contact: str = "T043") -> str:
    """Open an option and return its id."""
    party = list(travellers or [contact])
    made = call(
        session, "create_booking", contact=contact, travellers=party, city=city, departs=departs, returns=returns
    )
    assert made.status is Status.OK, made.error
    return str(made.value["booking"])


def test_it_is_larger_than_the_papers(domain: Domain, tasks: list[Task]) -> None:
    assert len(domain.tools) >= 24
    assert domain.database.entries() >= 1000
    assert len(tasks) >= 500
    assert len(domain.spec.tables) >= 16
    assert len(domain.spec.consistency) >= 12


def test_tasks_are_long_branch_and_end_in_refusals(domain: Domain, tasks: list[Task]) -> None:
    assert sum(len(task.reference_calls) >= 8 for task in tasks) >= 0.12 * len(tasks)
    assert sum(task.branches for task in tasks) >= 0.18 * len(tasks)
    assert sum(task.refuses for task in tasks) >= 0.07 * len(tasks)
    assert min(Counter(task.difficulty for task in tasks).values()) >= 40


def test_tasks_differ_in_what_is_done(domain: Domain, tasks: list[Task]) -> None:
    assert len({tuple(call.name for call in task.reference_calls) for task in tasks}) >= 75
    assert len({(task.intent, msgspec.json.encode(task.bindings)) for task in tasks}) == len(tasks)
    assert {call.name for task in tasks for call in task.reference_calls} == set(domain.tools)


def test_unseen_intents_are_of_all_kinds(domain: Domain) -> None:
    unseen = domain.tasks("test_intents")

    assert len({task.intent for task in unseen}) >= 5
    assert {task.difficulty for task in unseen} == {1, 2, 3, 4, 5}


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


def test_a_connection_below_the_minimum_is_refused_in_either_order(session: Session) -> None:
    trip = opened(session, "TBS", "2026-07-18", "2026-08-01", contact="T060")
    leg = {"booking": trip, "date": "2026-07-18", "fare": "standard"}

    assert call(session, "add_flight", flight="KA640", **leg).status is Status.OK
    assert "shorter than the airport's minimum" in refused(session, "add_flight", flight="BO210", **leg)

    session.reset()
    trip = opened(session, "TBS", "2026-07-18", "2026-08-01", contact="T060")
    assert call(session, "add_flight", flight="BO210", **leg).status is Status.OK
    assert "shorter than the airport's minimum" in refused(session, "add_flight", flight="KA640", **leg)


def test_a_stay_across_easter_costs_each_night_its_season(session: Session) -> None:
    # Rome, March 27 to April 7: 11 nights, of which March 29 to April 6, 9 nights, are Easter's: 2 x 151 + 9 x 190
    quote = call(session, "check_room", room="H03-F", arrives="2026-03-27", leaves="2026-04-07").value

    assert (quote["nights"], quote["minimum_nights"], quote["price"]) == (11, 5, 2012)
    assert "minimum of nights" in refused(
        session,
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

    assert task.communicate == (("360", "360"),)  # 2 x (120 + 60)

    alone = [c for c in task.reference_calls if c.name != "add_flight"] + [
        msgspec.structs.replace(c, arguments=c.arguments | {"escort": False})
        for c in task.reference_calls
        if c.name == "add_flight"
    ]
    assert not domain.replay(task, alone, task.answer, domain.session()).solved


def test_a_cancellation_keeps_the_scale_s_share_and_the_premium(session: Session) -> None:
    # B107 leaves on June 20, 96 days ahead: 20 % of 3,640 without the premium of 150; 3,790 were paid
    assert "not cancelled" in refused(session, "refund_booking", booking="B107", amount=2912)
    assert call(session, "cancel_booking", booking="B107").status is Status.OK

    assert "not what is due" in refused(session, "refund_booking", booking="B107", amount=3032)  # 80 % of everything
    assert call(session, "refund_booking", booking="B107", amount=2912).status is Status.OK  # 3790 - 150 - 728
    assert "refunded already" in refused(session, "refund_booking", booking="B107", amount=2912)


def test_no_money_is_taken_while_papers_are_missing(domain: Domain, tasks: list[Task], session: Session) -> None:
    stopped = [t for t in tasks if t.intent == "take_deposit" and t.refuses and t.bindings["held"]]

    assert stopped
    for task in stopped:
        due = {"booking": task.bindings["booking"], "amount": task.bindings["due"], "method": "card"}
        assert "in the party" in refused(session, "take_payment", **due)


def test_young_drivers_pay_more_and_too_young_ones_stay_on_foot(session: Session) -> None:
    # Orla Fitzgerald (T029) is 21 in May, the minimum for Toronto's economy cars: 2 days at 47 + 14
    hire = {"booking": "B168", "driver": "T029", "starts": "2026-05-05", "ends": "2026-05-07"}

    assert "too young" in refused(session, "add_car", car="YYZ-ESTATE", **hire)
    assert call(session, "add_car", car="YYZ-ECONOMY", **hire).value["price"] == 122


def test_nothing_is_sold_against_the_advice(session: Session) -> None:
    trip = {"contact": "T043", "travellers": ["T043"], "departs": "2026-09-01", "returns": "2026-09-08"}
    colombia = opened(session, "BOG", "2026-09-01", "2026-09-08")

    assert "level 4" in refused(session, "create_booking", city="BEY", **trip)
    assert "level 3" in refused(session, "add_insurance", booking=colombia, plan="classic")


def broken_rules(domain: Domain, session: Session) -> list[str]:
    today = {"today": domain.spec.today}
    return [r.rule for r in domain.spec.consistency if session.connection.execute(r.sql, today).fetchall()]


def test_records_keep_their_rules_after_every_request(domain: Domain, tasks: list[Task], session: Session) -> None:
    for task in tasks[::4]:
        domain.replay(task, task.reference_calls, task.answer, session)
        assert not broken_rules(domain, session), task.id


def test_records_keep_their_rules_when_all_requests_come_together(
    domain: Domain, tasks: list[Task], session: Session
) -> None:
    done: Counter[str] = Counter()
    for task in random.Random(0).sample(tasks, len(tasks)):
        for reference_calls in task.reference_calls:
            if domain.tools[reference_calls.name].effect == "write":
                done[reference_calls.name] += (
                    call(session, reference_calls.name, **reference_calls.arguments).status is Status.OK
                )

    assert not broken_rules(domain, session)
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
def test_records_that_contradict_each_other_are_found(domain: Domain, change: str, rule: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(domain.database.image)
    connection.execute(change)

    with pytest.raises(DomainError, match=rule):
        check_records(connection, domain.spec)
    connection.close()


def test_the_verifier_tells_right_from_wrong_in_every_intent(domain: Domain, tasks: list[Task]) -> None:
    some = {(task.intent, task.refuses): task for task in tasks}

    report = try_verifier(domain, list(some.values()))

    assert not [surprise for surprise in report.surprises if not surprise.equivalent]
