from __future__ import annotations

from typing import Any

import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Task


def test_a_refused_task_changes_nothing(domain: Domain, tasks: list[Task]) -> None:
    refused = [task for task in tasks if task.refuses]

    assert not [t.id for t in refused if any(domain.tools[call.name].effect == "write" for call in t.reference_calls)]


@pytest.mark.parametrize(
    ("value", "unit", "to", "converted"),
    [
        (8.4, "C", "F", 47.1),
        (97, "km/h", "kn", 52.4),
        (90, "km/h", "m/s", 25.0),
        (-40, "F", "C", -40.0),
        (1, "in", "mm", 25.4),
    ],
)
def test_units_are_converted(domain: Domain, session: Any, value: float, unit: str, to: str, converted: float) -> None:
    assert session.do("convert_unit", value=value, unit=unit, to=to)["value"] == converted


def test_low_confidence_takes_a_level_off(domain: Domain, session: Any) -> None:
    # Amber Coast, April 15: 87 km/h is yellow for a coast (80), but the confidence is low
    forecast = session.do("get_forecast", region="R10", date="2026-04-15")
    wish = {"region": "R10", "hazard": "wind", "date": "2026-04-15"}

    assert (forecast["gust"], forecast["confidence"]) == (87.0, "low")
    assert "does not give yellow" in session.refusal("issue_alert", **wish, level="yellow")

    session.do("amend_forecast", region="R10", date="2026-04-15", variable="gust", value=100, forecaster="F02")
    session.do("issue_alert", **wish, level="yellow")  # orange by its value, less one


def test_red_takes_a_chief_forecaster(domain: Domain, session: Any) -> None:
    # Mossdale, April 15: 111 km/h, where lowland is red from 110 on
    wish = {"region": "R05", "hazard": "wind", "date": "2026-04-15", "level": "red"}

    assert "approval of a chief" in session.refusal("issue_alert", **wish)
    assert "approval of a chief" in session.refusal("issue_alert", **wish, approver="F03")
    alert = session.do("issue_alert", **wish, approver="F05")["alert"]
    assert session.do("list_recipients", alert=alert) == ["U417"]


def test_an_alert_follows_the_amended_forecast(domain: Domain, session: Any) -> None:
    # Averstad's basin, April 16: 108 km/h is orange (90 to 110), and the alert A321 still yellow
    session.do("change_alert", alert="A321", level="orange")
    session.do("amend_forecast", region="R07", date="2026-04-16", variable="gust", value=69, forecaster="F06")
    session.do("cancel_alert", alert="A321")

    assert [alert["alert"] for alert in session.do("list_alerts", region="R07")] == ["A305", "A313", "A333"]


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("issue_alert", {"region": "R07", "hazard": "wind", "date": "2026-04-16", "level": "orange"}, "already"),
        (
            "issue_alert",
            {"region": "R07", "hazard": "wind", "date": "2026-04-18", "level": "yellow"},
            "three days ahead",
        ),
        ("cancel_alert", {"alert": "A321"}, "still gives a level"),
        ("send_alert", {"alert": "A321", "subscribers": ["U401"]}, "see list_recipients"),
        ("assign_ticket", {"ticket": "M501", "technician": "K04"}, "3 open tickets"),
        ("assign_ticket", {"ticket": "M501", "technician": "K05"}, "not trained"),
        ("assign_ticket", {"ticket": "M501", "technician": "K01"}, "another district"),
        ("close_ticket", {"ticket": "M501"}, "no technician"),
        ("record_calibration", {"instrument": "I202"}, "faulty"),
        ("set_flag", {"observation": "B1035", "flag": "good"}, "good already"),
        ("enter_record", {"station": "W108", "extreme": "strongest gust"}, "outside the plausible range"),
        ("enter_record", {"station": "W123", "extreme": "strongest gust"}, "suspect or missing"),
        ("warn_at_sea", {"area": "Z3", "date": "2026-04-17", "warning": "gale"}, "does not ask for gale"),  # force 7
        ("warn_at_sea", {"area": "Z1", "date": "2026-04-17", "warning": "storm"}, "does not ask for storm"),  # force 8
    ],
)
def test_what_the_rules_forbid_is_refused_and_changes_nothing(
    domain: Domain, session: Any, tool: str, arguments: dict[str, Any], reason: str
) -> None:
    assert reason in session.refusal(tool, **arguments)


def test_a_sound_value_beyond_the_record_becomes_the_record(domain: Domain, session: Any) -> None:
    entered = session.do("enter_record", station="W131", extreme="strongest gust")

    assert (entered["value"], entered["date"]) == (57.0, "2026-04-14")  # 53 km/h, since 1998


def test_either_of_two_instruments_is_right_but_not_both(domain: Domain, tasks: list[Task], session: Any) -> None:
    task = next(task for task in tasks if task.intent == "choose_site")

    assert domain.replay(task, task.alternatives[0], task.answer, session).solved
    assert not domain.replay(task, [*task.reference_calls, task.alternatives[0][-1]], task.answer, session).solved


@pytest.mark.parametrize(
    ("planted", "rule"),
    [
        ("UPDATE observations SET value = 1, flag = 'good' WHERE instrument_id = 'I202'", "faulty instrument"),
        ("UPDATE alerts SET level = 'red', approver = 'F02' WHERE alert_id = 'A321'", "approval of a chief"),
        ("UPDATE marine SET warning = 'storm' WHERE area_id = 'Z1' AND date = '2026-04-17'", "wind force"),
        ("UPDATE tickets SET technician_id = 'K05' WHERE ticket_id = 'M503'", "trained for it"),
        ("UPDATE forecasts SET low = 6.5 WHERE region_id = 'R07' AND date = '2026-04-15'", "lowest and highest"),
    ],
)
def test_a_planted_error_breaks_a_rule(domain: Domain, session: Any, planted: str, rule: str) -> None:
    assert not session.broken_rules()
    session.connection.execute(planted)
    assert any(rule in name for name in session.broken_rules())


def test_records_keep_their_rules_whatever_is_written(session: Any) -> None:
    assert session.write_at_random(6000) > 500
    assert not session.broken_rules()
