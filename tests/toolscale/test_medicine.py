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


@pytest.fixture(scope="module")
def domain() -> Domain:
    return load_domain("medicine")


@pytest.fixture(scope="module")
def tasks(domain: Domain) -> list[Task]:
    return domain.tasks()


@pytest.fixture
def session(domain: Domain) -> Session:
    return domain.session()


def call(session: Session, name: str, **arguments: Any) -> ToolResult:
    tool = load_domain("medicine").tools[name]
    return session.call(tool, tool.decode(msgspec.json.encode(arguments)))


def refused(session: Session, name: str, **arguments: Any) -> str:
    """Return the error of a call that must be refused and change nothing."""
    before = session.touched()
    result = call(session, name, **arguments)
    assert result.status is Status.EXEC_ERR
    assert session.touched() == before
    return result.error or ""


def prescription(patient: str, product: str, per_day: int, *, clinician: str = "C01", **more: int) -> dict[str, Any]:
    written = {"patient": patient, "product": product, "clinician": clinician, "per_day": per_day}
    return written | {"days": 30, "refills": 0} | more


def test_it_is_larger_than_the_papers(domain: Domain, tasks: list[Task]) -> None:
    assert len(domain.tools) >= 30
    assert domain.database.entries() >= 1100
    assert len(tasks) >= 750
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


def test_the_same_wording_is_right_to_obey_for_some_patients_and_to_refuse_for_others(tasks: list[Task]) -> None:
    outcomes: dict[str, set[bool]] = {}
    for task in tasks:
        outcomes.setdefault(task.intent, set()).add(task.refuses)

    assert sum(found == {True, False} for found in outcomes.values()) >= 8


def test_a_childs_dose_goes_by_weight(session: Session) -> None:
    # P003 weighs 41 kg: 12 mg of azithromycin per kg are 492 mg, so 12 mL of 40 mg and not 13
    assert "exceed" in refused(session, "prescribe", **prescription("P003", "M08", 13, clinician="C06", days=3))
    made = call(session, "prescribe", **prescription("P003", "M08", 12, clinician="C06", days=3))

    assert made.value == {"prescription": "RX1182", "expires": "2026-10-14"}


def test_weak_kidneys_lower_a_dose_and_forbid_some_substances(session: Session) -> None:
    # P011 has an eGFR of 23: below 30 at most 25 mg of sitagliptin, and no metformin at all
    assert "exceed" in refused(session, "prescribe", **prescription("P011", "M57", 2))
    assert "exceed" in refused(session, "prescribe", **prescription("P011", "M54", 1))
    assert call(session, "prescribe", **prescription("P011", "M57", 1)).status is Status.OK


def test_nobody_prescribes_against_allergy_pregnancy_or_a_severe_interaction(session: Session) -> None:
    assert "allergic" in refused(session, "prescribe", **prescription("P017", "M01", 3))  # penicillins
    assert "pregnant" in refused(session, "prescribe", **prescription("P007", "M10", 2))  # doxycycline, D
    assert "severe" in refused(session, "prescribe", **prescription("P036", "M19", 1))  # ibuprofen and warfarin


def test_controlled_substances_need_a_licence_short_fills_and_few_refills(session: Session) -> None:
    tramadol = prescription("P088", "M25", 2)

    assert "licence" in refused(session, "prescribe", **tramadol | {"clinician": "C02"})
    assert "30 days" in refused(session, "prescribe", **tramadol | {"days": 31})
    assert "refills" in refused(session, "prescribe", **tramadol | {"refills": 6})
    assert call(session, "prescribe", **tramadol | {"refills": 5}).value["expires"] == "2026-04-12"  # 180 days


def test_a_fill_comes_from_the_first_lot_that_lasts_and_the_next_one_must_wait(session: Session) -> None:
    # of M36 (lisinopril), L018 expires on 2025-11-22 and L159 on 2026-03-03; 90 days last until 2026-01-12
    made = call(session, "prescribe", **prescription("P003", "M36", 1, days=90, refills=1)).value["prescription"]

    assert "not the lot" in refused(session, "dispense", prescription=made, lot="L018")
    assert call(session, "dispense", prescription=made, lot="L159").value["units"] == 90
    assert "too soon" in refused(session, "dispense", prescription=made, lot="L159")
    assert session.execute("SELECT units FROM lots WHERE lot_id = 'L159'", {}).fetchone() == (220 - 90,)


def test_warfarin_is_renewed_only_while_the_inr_is_in_range(session: Session) -> None:
    assert "out of range" in refused(session, "renew_prescription", prescription="RX1136", refills=1)  # INR 5.06
    assert call(session, "renew_prescription", prescription="RX1028", refills=2).status is Status.OK  # INR 2.16


def test_vaccines_keep_their_interval_and_live_ones_are_not_for_pregnant_patients(session: Session) -> None:
    # P033 had the first dose of hepatitis B on 2025-09-02; 56 days later is 2025-10-28
    assert "too soon" in refused(session, "give_vaccine", patient="P033", vaccine="hepatitis B")
    assert "live" in refused(session, "give_vaccine", patient="P007", vaccine="varicella")
    assert "too young" in refused(session, "give_vaccine", patient="P003", vaccine="zoster")
    assert call(session, "give_vaccine", patient="P003", vaccine="varicella").value == {
        "vaccine": "varicella",
        "dose": 1,
    }


def test_a_critical_result_is_acknowledged_once_and_by_the_patients_own_clinician(session: Session) -> None:
    first = call(session, "list_critical", clinician="C04").value[0]

    assert "own clinician" in refused(session, "acknowledge_result", order=first["order"], clinician="C01")
    assert call(session, "acknowledge_result", order=first["order"], clinician="C04").status is Status.OK
    assert "waits" in refused(session, "acknowledge_result", order=first["order"], clinician="C04")


def test_a_specialist_is_booked_with_a_referral_where_the_plan_asks_for_one(domain: Domain, session: Session) -> None:
    task = next(task for task in domain.tasks() if task.intent == "refer_and_book")
    booking = next(step.arguments for step in task.reference_calls if step.name == "book_appointment")
    referral = next(step.arguments for step in task.reference_calls if step.name == "create_referral")

    assert "referral" in refused(session, "book_appointment", **booking)
    call(session, "create_referral", **referral)
    assert call(session, "book_appointment", **booking).status is Status.OK


def test_who_is_refused_must_hear_why(domain: Domain, tasks: list[Task], session: Session) -> None:
    for task in tasks:
        if task.refuses:
            assert not domain.replay(
                task, task.reference_calls, "I am afraid that is against our rules.", session
            ).solved


@pytest.mark.parametrize(
    ("rule", "damage"),
    [
        ("allergic", "INSERT INTO allergies VALUES ('P036', 'anticoagulants', 'rash')"),
        ("severe", "UPDATE prescriptions SET product_id = 'M19' WHERE patient_id = 'P036' AND product_id = 'M47'"),
        ("dose", "UPDATE patients SET egfr = 12 WHERE patient_id = 'P030'"),
        ("dispensed", "UPDATE fills SET units = units + 1 WHERE prescription_id = 'RX1028'"),
        ("copay", "UPDATE fills SET paid = paid + 1 WHERE prescription_id = 'RX1028'"),
        ("two places", "UPDATE appointments SET time = '08:00' WHERE appointment_id = 'A0001'"),
        ("interval", "UPDATE vaccinations SET date = '2025-10-01' WHERE dose = 1"),
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
