from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import Status
from toolorchestra.toolscale.validation.verifier_mutations import UnexpectedVerdict


def test_some_intents_are_held_out(domain: Domain) -> None:
    assert 3 <= sum(intent.held_out for intent in domain.spec.intents.values()) <= 5


def test_one_wording_leads_to_enrolment_waiting_list_or_refusal(tasks: list[Task]) -> None:
    ends = Counter(task.bindings["outcome"] for task in tasks if task.intent == "enrol_or_explain")

    assert set(ends) == {"ok", "full", "hold", "late", "lacks", "apart", "clash", "over"}


def test_a_drop_in_the_second_window_gives_half_of_the_charge_back(domain: Domain, session: Any) -> None:
    before = session.attempt("get_account", student="S135").value

    dropped = session.attempt("drop_section", student="S135", section="ARTS120-1")
    after = session.attempt("get_account", student="S135").value

    assert dropped.status is Status.OK  # A7 refunds half from January 17 to 30; Drawing has 2 credits at $340
    assert before["balance"] - after["balance"] == 2 * 340 / 2


def test_the_gpa_counts_the_best_attempt_of_each_course(domain: Domain, session: Any) -> None:
    record = session.attempt("get_transcript", student="S151").value
    grades = [result[:2] for result in record["results"]]

    assert ["STAT150", "D"] in grades
    assert ["STAT150", "C"] in grades
    # BIOL110 B, BIOL120 B, CHEM110 C, CHEM120 B-, ENGL101 B-, PSYC101 B-, STAT150 C with 3 credits each,
    # MATH110 B with 4, BIOL111 C- and CHEM111 B with 1
    points = 3 * (3.0 + 3.0 + 2.0 + 2.7 + 2.7 + 2.7 + 2.0) + 4 * 3.0 + 1.7 + 3.0
    assert record["gpa"] == f"{points / 27:.2f}" == "2.63"


def test_a_plan_adds_its_fee_and_splits_the_balance_into_quarters(domain: Domain, session: Any) -> None:
    owed = session.attempt("get_account", student="S101").value["balance"]

    plan = session.attempt("create_plan", student="S101").value
    account = session.attempt("get_account", student="S101").value

    assert owed == 2470
    assert plan == {"instalment": 627.5, "first_due": "2026-02-15"}  # (2470 + 40) / 4
    assert account["overdue"] == 0


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("enrol", {"student": "S101", "section": "MATH110-1"}, "hold"),
        ("enrol", {"student": "S102", "section": "ECON101-2"}, "too late"),
        ("join_waitlist", {"student": "S150", "section": "ARTS240-1"}, "prerequisite|free seat"),
        ("enrol", {"student": "S102", "section": "PHYS310-1"}, "prerequisite"),
        ("withdraw_section", {"student": "S135", "section": "ARTS120-1"}, "still be dropped"),
        ("release_hold", {"hold": "H32"}, "overdue"),
        ("raise_limit", {"student": "S151", "credits": 19}, "3.50|part-time"),
        ("move_section", {"section": "CSCI101-1", "room": "HAL-101"}, "equipment"),
        ("order_transcript", {"student": "S101", "copies": 1, "delivery": "email"}, "hold"),
        ("record_payment", {"student": "S101", "amount": 2470.5, "method": "card"}, "more than"),
    ],
)
def test_a_tool_refuses_what_the_rules_forbid_and_changes_nothing(
    domain: Domain, session: Any, name: str, arguments: dict[str, Any], reason: str
) -> None:
    result = session.attempt(name, **arguments)

    assert result.status is Status.EXEC_ERR
    assert any(part in (result.error or "") for part in reason.split("|"))
    assert not session.touched()


def test_a_free_seat_goes_to_whoever_waits_longest(domain: Domain, session: Any) -> None:
    waiting = session.attempt("get_section", section="PHIL230-1").value["waiting"]
    assert session.attempt("set_capacity", section="PHIL230-1", capacity=7).status is Status.OK

    barred = [student for student in waiting if session.attempt("list_holds", student=student).value]
    free = [student for student in waiting if student not in barred]
    second = session.attempt("enrol", student=free[1], section="PHIL230-1")
    first = session.attempt("enrol", student=free[0], section="PHIL230-1")

    assert "wait longer" in (second.error or "")
    assert first.status is Status.OK


@pytest.mark.parametrize(
    ("planted", "rule"),
    [
        ("UPDATE sections SET capacity = 1 WHERE section_id = 'PHIL230-1'", "beyond a section's capacity"),
        ("UPDATE sections SET room_id = 'HAL-202' WHERE section_id = 'STAT150-1'", "."),
        ("UPDATE instalments SET amount = 1 WHERE number = 2", "equal"),
        ("UPDATE sections SET instructor = 'F22' WHERE section_id = 'MATH110-1'", "department"),
        ("UPDATE loans SET item_id = 'B01' WHERE returned IS NULL", "lent once"),
    ],
)
def test_a_planted_violation_breaks_a_rule(damage: Callable[[str], str], planted: str, rule: str) -> None:
    assert rule in damage(planted)


def test_the_verifier_tells_right_from_wrong_in_every_intent(surprises: list[UnexpectedVerdict]) -> None:
    assert not [surprise for surprise in surprises if not surprise.equivalent]
