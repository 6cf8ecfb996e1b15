"""The railway: as large as promised, and true to its field's rules, worked out by hand."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
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


@pytest.fixture(scope="module")
def domain() -> Domain:
    return load_domain("railway")


@pytest.fixture(scope="module")
def tasks(domain: Domain) -> list[Task]:
    return domain.tasks()


@pytest.fixture
def session(domain: Domain) -> Iterator[Session]:
    with_changes = domain.session()
    yield with_changes
    with_changes.close()


def call(domain: Domain, session: Session, name: str, **arguments: Any) -> ToolResult:
    tool = domain.tools[name]
    return session.call(tool, tool.decode(msgspec.json.encode(arguments)))


def done(domain: Domain, session: Session, name: str, **arguments: Any) -> Any:
    result = call(domain, session, name, **arguments)
    assert result.status is Status.OK, result.error
    return result.value


def sell(domain: Domain, session: Session, train: str, origin: str, destination: str, **more: Any) -> Any:
    ticket = {"passenger": "P001", "train": train, "date": "2025-09-18", "origin": origin, "destination": destination}
    return done(domain, session, "sell_ticket", **{**ticket, "class": "second", "fare": "flex"} | more)


def refused(domain: Domain, session: Session, name: str, **arguments: Any) -> str:
    before = session.touched()
    result = call(domain, session, name, **arguments)
    assert result.status is Status.EXEC_ERR
    assert session.touched() == before
    return str(result.error)


def test_it_is_larger_than_the_papers(domain: Domain, tasks: list[Task]) -> None:
    assert len(domain.tools) >= 27
    assert domain.database.entries() >= 1000
    assert len(tasks) >= 550
    assert len(domain.spec.tables) >= 10
    assert len(domain.spec.consistency) >= 8
    assert len(domain.spec.intents) >= 24


def test_its_tasks_are_varied_and_often_hard(tasks: list[Task]) -> None:
    levels = Counter(task.difficulty for task in tasks)

    assert all(levels[level] >= 40 for level in range(1, 6))
    assert sum(len(task.reference_calls) >= 8 for task in tasks) >= 0.12 * len(tasks)
    assert sum(task.branches for task in tasks) >= 0.18 * len(tasks)
    assert sum(task.refuses for task in tasks) >= 0.07 * len(tasks)
    assert len({tuple(call.name for call in task.reference_calls) for task in tasks}) >= 75
    assert len({(task.intent, msgspec.json.encode(task.bindings)) for task in tasks}) == len(tasks)


def test_every_tool_serves_some_task(domain: Domain, tasks: list[Task]) -> None:
    assert {call.name for task in tasks for call in task.reference_calls} == set(domain.tools)


def test_a_fare_follows_distance_surcharge_and_percentage(domain: Domain, session: Session) -> None:
    # 539 km is in the band up to 600: $126 in second class, and $12 for the Express; P001 has no card
    trip = {"passenger": "P001", "train": "X61", "date": "2025-09-18", "origin": "TRTO", "destination": "MTRL"}

    prices = [
        done(domain, session, "quote_fare", **{**trip, "class": "second", "fare": fare})["price"]
        for fare in ("flex", "standard", "saver")
    ]

    assert prices == [138.0, 110.4, 75.9]


def test_a_card_takes_its_share_until_it_expires(domain: Domain, session: Session) -> None:
    # P004 holds a Classic card (15 %) until 2026-03-06; Toronto to Kingston is 254 km, the band up to 300: $75
    trip = {"passenger": "P004", "train": "C53", "origin": "TRTO", "destination": "KGON", "class": "second"}

    with_card = done(domain, session, "quote_fare", **trip, fare="flex", date="2026-03-06")["price"]
    without = done(domain, session, "quote_fare", **trip, fare="flex", date="2026-03-07")["price"]

    assert (with_card, without) == (63.75, 75.0)


def test_a_change_takes_the_transfer_time(domain: Domain, session: Session) -> None:
    # C20 reaches Montreal at 08:42 and C52 leaves at 08:50, C56 at 13:10; a change there takes 15 minutes
    one = sell(domain, session, "C20", "QBEC", "MTRL")["ticket"]
    onward = {"passenger": "P001", "date": "2025-09-18", "origin": "MTRL", "destination": "KGON", "fare": "flex"}
    onward |= {"class": "second", "continues": one}

    assert "transfer time" in refused(domain, session, "sell_ticket", train="C52", **onward)
    assert done(domain, session, "sell_ticket", train="C56", **onward)


def test_a_seat_is_taken_only_between_where_its_holder_boards_and_alights(domain: Domain, session: Session) -> None:
    ticket = sell(domain, session, "C53", "KGON", "CORN")["ticket"]
    seat = {"train": "C53", "date": "2025-09-18", "coach": 2}
    whole = done(domain, session, "list_free_seats", **seat, origin="TRTO", destination="MTRL")

    done(domain, session, "reserve_seat", ticket=ticket, coach=2, seat=whole[0])

    assert whole[0] not in done(domain, session, "list_free_seats", **seat, origin="BROC", destination="MTRL")
    assert whole[0] in done(domain, session, "list_free_seats", **seat, origin="TRTO", destination="KGON")
    assert whole[0] in done(domain, session, "list_free_seats", **seat, origin="CORN", destination="MTRL")


def test_a_saver_ticket_takes_a_place_on_each_of_its_segments_and_no_other(domain: Domain, session: Session) -> None:
    sql = "SELECT position, places FROM quotas WHERE train_id = 'X61' AND date = '2025-09-18' ORDER BY position"
    session.connection.execute("UPDATE quotas SET places = 1 WHERE train_id = 'X61' AND date = '2025-09-18'")

    sell(domain, session, "X61", "KGON", "DORV", fare="saver")  # positions 3 to 5, segments 3 and 4

    assert session.connection.execute(sql).fetchall() == [(1, 1), (2, 1), (3, 0), (4, 0), (5, 1)]
    again = {"passenger": "P002", "train": "X61", "date": "2025-09-18", "class": "second", "fare": "saver"}
    assert "No saver places" in refused(domain, session, "sell_ticket", **again, origin="TRTO", destination="CORN")


def travelled_late(domain: Domain, session: Session, minutes: int, cause: str) -> str:
    """Return a ticket at $126 for an InterCity that came in late two days ago."""
    ticket: str = sell(domain, session, "C53", "TRTO", "MTRL")["ticket"]
    session.connection.execute(
        "UPDATE tickets SET status = 'used', date = '2025-09-08', bought = '2025-09-01' WHERE ticket_id = ?", [ticket]
    )
    session.connection.execute(
        "INSERT OR REPLACE INTO disruptions VALUES ('C53', '2025-09-08', 'delayed', ?, ?, '2025-09-08')",
        [minutes, cause],
    )
    return ticket


def test_compensation_is_the_band_of_the_delay_and_not_paid_twice(domain: Domain, session: Session) -> None:
    ticket = travelled_late(domain, session, 119, "signal failure")

    assert "band" in refused(domain, session, "compensate_delay", ticket=ticket, amount=63)  # 50 % from 120 minutes on
    assert done(domain, session, "compensate_delay", ticket=ticket, amount=31.5)  # 25 % from 60 minutes on
    assert "already" in refused(domain, session, "compensate_delay", ticket=ticket, amount=31.5)


def test_storms_are_not_compensated(domain: Domain, session: Session) -> None:
    ticket = travelled_late(domain, session, 119, "severe storm")

    assert "storms" in refused(domain, session, "compensate_delay", ticket=ticket, amount=31.5)


def test_a_refund_is_what_the_fare_gives_and_everything_when_the_train_is_cancelled(
    domain: Domain, session: Session
) -> None:
    one, two = (sell(domain, session, "C53", "TRTO", "MTRL", fare="standard")["ticket"] for _ in range(2))  # $100.80

    assert "not what is refunded" in refused(domain, session, "refund_ticket", ticket=one, amount=100.8)
    done(domain, session, "refund_ticket", ticket=one, amount=80.64)  # eight days ahead: 80 %
    done(domain, session, "cancel_run", train="C53", date="2025-09-18", cause="staff shortage")
    done(domain, session, "refund_ticket", ticket=two, amount=100.8)


def test_assistance_needs_the_notice_of_its_station(domain: Domain, session: Session) -> None:
    tomorrow = sell(domain, session, "C53", "COBO", "MTRL", date="2025-09-11")["ticket"]  # Cobourg: two days of notice

    error = refused(domain, session, "request_assistance", ticket=tomorrow, station="COBO", kind="wheelchair")

    assert "too late" in error
    assert done(domain, session, "request_assistance", ticket=tomorrow, station="MTRL", kind="wheelchair")


def test_a_group_on_a_passengers_seat_breaks_a_rule(domain: Domain) -> None:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(domain.database.image)
    check_records(connection, domain.spec)
    connection.execute(
        "INSERT INTO groups SELECT 'G999', 'Curlers', train_id, date, boards, alights, coach, seat, seat, 0 "
        "FROM tickets WHERE seat IS NOT NULL AND status = 'valid' ORDER BY ticket_id LIMIT 1"
    )

    with pytest.raises(DomainError, match="Nobody sits where another sits"):
        check_records(connection, domain.spec)
    connection.close()
