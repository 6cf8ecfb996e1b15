from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.guess import Guesser
from toolorchestra.toolscale.session import Session
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import Status


@pytest.fixture(scope="module")
def domain() -> Domain:
    return load_domain("weather")


@pytest.fixture(scope="module")
def tasks(domain: Domain) -> list[Task]:
    return domain.tasks()


@pytest.fixture
def session(domain: Domain) -> Iterator[Session]:
    session = domain.session()
    yield session
    session.close()


def do(domain: Domain, session: Session, name: str, **arguments: Any) -> Any:
    result = session.call(domain.tools[name], arguments_of(domain, name, arguments))
    assert result.status is Status.OK, result.error
    return result.value


def refusal(domain: Domain, session: Session, name: str, **arguments: Any) -> str:
    result = session.call(domain.tools[name], arguments_of(domain, name, arguments))
    assert result.status is Status.EXEC_ERR
    assert not session.touched()
    return str(result.error)


def arguments_of(domain: Domain, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return domain.tools[name].decode(msgspec.json.encode(arguments))


def broken(domain: Domain, session: Session) -> list[str]:
    today = {"today": domain.spec.today}
    return [rule.rule for rule in domain.spec.consistency if session.connection.execute(rule.sql, today).fetchall()]


def test_it_is_larger_than_the_papers(domain: Domain, tasks: list[Task]) -> None:
    assert len(domain.tools) >= 40
    assert domain.database.entries() >= 1200
    assert len(domain.spec.tables) >= 20
    assert len(domain.spec.consistency) >= 14
    assert len(domain.spec.intents) >= 40
    assert len(tasks) >= 950


def test_tasks_are_of_all_levels_and_many_shapes(domain: Domain, tasks: list[Task]) -> None:
    levels = Counter(task.difficulty for task in tasks)

    assert min(levels[level] for level in range(1, 6)) >= 130
    assert sum(len(task.reference_calls) >= 8 for task in tasks) >= 0.15 * len(tasks)
    assert len({tuple(call.name for call in task.reference_calls) for task in tasks}) >= 100
    assert {call.name for task in tasks for call in task.reference_calls} == set(domain.tools)
    assert len({task.intent for task in tasks if task.split == "test_intents"}) >= 4


def test_what_is_right_often_depends_on_the_records_and_is_sometimes_a_refusal(tasks: list[Task]) -> None:
    assert sum(task.branches for task in tasks) >= 0.5 * len(tasks)
    assert sum(task.refuses for task in tasks) >= 0.12 * len(tasks)


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
def test_units_are_converted(
    domain: Domain, session: Session, value: float, unit: str, to: str, converted: float
) -> None:
    assert do(domain, session, "convert_unit", value=value, unit=unit, to=to)["value"] == converted


def test_low_confidence_takes_a_level_off(domain: Domain, session: Session) -> None:
    # Amber Coast, April 15: 87 km/h is yellow for a coast (80), but the confidence is low
    forecast = do(domain, session, "get_forecast", region="R10", date="2026-04-15")
    wish = {"region": "R10", "hazard": "wind", "date": "2026-04-15"}

    assert (forecast["gust"], forecast["confidence"]) == (87.0, "low")
    assert "does not give yellow" in refusal(domain, session, "issue_alert", **wish, level="yellow")

    do(domain, session, "amend_forecast", region="R10", date="2026-04-15", variable="gust", value=100, forecaster="F02")
    do(domain, session, "issue_alert", **wish, level="yellow")  # orange by its value, less one


def test_red_takes_a_chief_forecaster(domain: Domain, session: Session) -> None:
    # Mossdale, April 15: 111 km/h, where lowland is red from 110 on
    wish = {"region": "R05", "hazard": "wind", "date": "2026-04-15", "level": "red"}

    assert "approval of a chief" in refusal(domain, session, "issue_alert", **wish)
    assert "approval of a chief" in refusal(domain, session, "issue_alert", **wish, approver="F03")
    alert = do(domain, session, "issue_alert", **wish, approver="F05")["alert"]
    assert do(domain, session, "list_recipients", alert=alert) == ["U417"]


def test_an_alert_follows_the_amended_forecast(domain: Domain, session: Session) -> None:
    # Averstad's basin, April 16: 108 km/h is orange (90 to 110), and the alert A321 still yellow
    do(domain, session, "change_alert", alert="A321", level="orange")
    do(domain, session, "amend_forecast", region="R07", date="2026-04-16", variable="gust", value=69, forecaster="F06")
    do(domain, session, "cancel_alert", alert="A321")

    assert [alert["alert"] for alert in do(domain, session, "list_alerts", region="R07")] == ["A305", "A313", "A333"]


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
    domain: Domain, session: Session, tool: str, arguments: dict[str, Any], reason: str
) -> None:
    assert reason in refusal(domain, session, tool, **arguments)


def test_a_sound_value_beyond_the_record_becomes_the_record(domain: Domain, session: Session) -> None:
    entered = do(domain, session, "enter_record", station="W131", extreme="strongest gust")

    assert (entered["value"], entered["date"]) == (57.0, "2026-04-14")  # 53 km/h, since 1998


def test_either_of_two_instruments_is_right_but_not_both(domain: Domain, tasks: list[Task], session: Session) -> None:
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
def test_a_planted_error_breaks_a_rule(domain: Domain, session: Session, planted: str, rule: str) -> None:
    assert not broken(domain, session)
    session.connection.execute(planted)
    assert any(rule in name for name in broken(domain, session))


def test_records_keep_their_rules_whatever_is_written(domain: Domain, session: Session) -> None:
    guesser = Guesser(domain.database, random.Random(0))
    writers = [tool for tool in domain.tools.values() if tool.effect == "write"]
    done: Counter[str] = Counter()
    for _ in range(6000):
        tool = guesser.rng.choice(writers)
        arguments = tool.decode(msgspec.json.encode(guesser.arguments(tool)))
        done[tool.name] += session.call(tool, arguments).status is Status.OK

    assert sum(done.values()) > 500
    assert not broken(domain, session)
