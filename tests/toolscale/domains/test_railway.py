"""The railway: as large as promised, and true to its field's rules, worked out by hand."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.database.build import check_records
from toolorchestra.toolscale.domain import Domain


def sell(domain: Domain, session: Any, train: str, origin: str, destination: str, **more: Any) -> Any:
    ticket = {"passenger": "P001", "train": train, "date": "2025-09-18", "origin": origin, "destination": destination}
    return session.do("sell_ticket", **{**ticket, "class": "second", "fare": "flex"} | more)


def test_a_fare_follows_distance_surcharge_and_percentage(domain: Domain, session: Any) -> None:
    # 539 km is in the band up to 600: $126 in second class, and $12 for the Express; P001 has no card
    trip = {"passenger": "P001", "train": "X61", "date": "2025-09-18", "origin": "TRTO", "destination": "MTRL"}

    prices = [
        session.do("quote_fare", **{**trip, "class": "second", "fare": fare})["price"]
        for fare in ("flex", "standard", "saver")
    ]

    assert prices == [138.0, 110.4, 75.9]


def test_a_card_takes_its_share_until_it_expires(domain: Domain, session: Any) -> None:
    # P004 holds a Classic card (15 %) until 2026-03-06; Toronto to Kingston is 254 km, the band up to 300: $75
    trip = {"passenger": "P004", "train": "C53", "origin": "TRTO", "destination": "KGON", "class": "second"}

    with_card = session.do("quote_fare", **trip, fare="flex", date="2026-03-06")["price"]
    without = session.do("quote_fare", **trip, fare="flex", date="2026-03-07")["price"]

    assert (with_card, without) == (63.75, 75.0)


def test_a_change_takes_the_transfer_time(domain: Domain, session: Any) -> None:
    # C20 reaches Montreal at 08:42 and C52 leaves at 08:50, C56 at 13:10; a change there takes 15 minutes
    one = sell(domain, session, "C20", "QBEC", "MTRL")["ticket"]
    onward = {"passenger": "P001", "date": "2025-09-18", "origin": "MTRL", "destination": "KGON", "fare": "flex"}
    onward |= {"class": "second", "continues": one}

    assert "transfer time" in session.refusal("sell_ticket", train="C52", **onward)
    assert session.do("sell_ticket", train="C56", **onward)


def test_a_seat_is_taken_only_between_where_its_holder_boards_and_alights(domain: Domain, session: Any) -> None:
    ticket = sell(domain, session, "C53", "KGON", "CORN")["ticket"]
    seat = {"train": "C53", "date": "2025-09-18", "coach": 2}
    whole = session.do("list_free_seats", **seat, origin="TRTO", destination="MTRL")

    session.do("reserve_seat", ticket=ticket, coach=2, seat=whole[0])

    assert whole[0] not in session.do("list_free_seats", **seat, origin="BROC", destination="MTRL")
    assert whole[0] in session.do("list_free_seats", **seat, origin="TRTO", destination="KGON")
    assert whole[0] in session.do("list_free_seats", **seat, origin="CORN", destination="MTRL")


def test_a_saver_ticket_takes_a_place_on_each_of_its_segments_and_no_other(domain: Domain, session: Any) -> None:
    sql = "SELECT position, places FROM quotas WHERE train_id = 'X61' AND date = '2025-09-18' ORDER BY position"
    session.connection.execute("UPDATE quotas SET places = 1 WHERE train_id = 'X61' AND date = '2025-09-18'")

    sell(domain, session, "X61", "KGON", "DORV", fare="saver")  # positions 3 to 5, segments 3 and 4

    assert session.connection.execute(sql).fetchall() == [(1, 1), (2, 1), (3, 0), (4, 0), (5, 1)]
    again = {"passenger": "P002", "train": "X61", "date": "2025-09-18", "class": "second", "fare": "saver"}
    assert "No saver places" in session.refusal("sell_ticket", **again, origin="TRTO", destination="CORN")


def travelled_late(domain: Domain, session: Any, minutes: int, cause: str) -> str:
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


def test_compensation_is_the_band_of_the_delay_and_not_paid_twice(domain: Domain, session: Any) -> None:
    ticket = travelled_late(domain, session, 119, "signal failure")

    assert "band" in session.refusal("compensate_delay", ticket=ticket, amount=63)  # 50 % from 120 minutes on
    assert session.do("compensate_delay", ticket=ticket, amount=31.5)  # 25 % from 60 minutes on
    assert "already" in session.refusal("compensate_delay", ticket=ticket, amount=31.5)


def test_storms_are_not_compensated(domain: Domain, session: Any) -> None:
    ticket = travelled_late(domain, session, 119, "severe storm")

    assert "storms" in session.refusal("compensate_delay", ticket=ticket, amount=31.5)


def test_a_refund_is_what_the_fare_gives_and_everything_when_the_train_is_cancelled(
    domain: Domain, session: Any
) -> None:
    one, two = (sell(domain, session, "C53", "TRTO", "MTRL", fare="standard")["ticket"] for _ in range(2))  # $100.80

    assert "not what is refunded" in session.refusal("refund_ticket", ticket=one, amount=100.8)
    session.do("refund_ticket", ticket=one, amount=80.64)  # eight days ahead: 80 %
    session.do("cancel_run", train="C53", date="2025-09-18", cause="staff shortage")
    session.do("refund_ticket", ticket=two, amount=100.8)


def test_assistance_needs_the_notice_of_its_station(domain: Domain, session: Any) -> None:
    tomorrow = sell(domain, session, "C53", "COBO", "MTRL", date="2025-09-11")["ticket"]  # Cobourg: two days of notice

    error = session.refusal("request_assistance", ticket=tomorrow, station="COBO", kind="wheelchair")

    assert "too late" in error
    assert session.do("request_assistance", ticket=tomorrow, station="MTRL", kind="wheelchair")


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
