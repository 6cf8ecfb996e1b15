from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tools.tool import Status
from toolorchestra.toolscale.validation.verifier_mutations import UnexpectedVerdict


def prescription(patient: str, product: str, per_day: int, *, clinician: str = "C01", **more: int) -> dict[str, Any]:
    written = {"patient": patient, "product": product, "clinician": clinician, "per_day": per_day}
    return written | {"days": 30, "refills": 0} | more


def test_a_childs_dose_goes_by_weight(session: Any) -> None:
    # P003 weighs 41 kg: 12 mg of azithromycin per kg are 492 mg, so 12 mL of 40 mg and not 13
    assert "exceed" in session.refusal("prescribe", **prescription("P003", "M08", 13, clinician="C06", days=3))
    made = session.attempt("prescribe", **prescription("P003", "M08", 12, clinician="C06", days=3))

    assert made.value == {"prescription": "RX1182", "expires": "2026-10-14"}


def test_weak_kidneys_lower_a_dose_and_forbid_some_substances(session: Any) -> None:
    # P011 has an eGFR of 23: below 30 at most 25 mg of sitagliptin, and no metformin at all
    assert "exceed" in session.refusal("prescribe", **prescription("P011", "M57", 2))
    assert "exceed" in session.refusal("prescribe", **prescription("P011", "M54", 1))
    assert session.attempt("prescribe", **prescription("P011", "M57", 1)).status is Status.OK


def test_nobody_prescribes_against_allergy_pregnancy_or_a_severe_interaction(session: Any) -> None:
    assert "allergic" in session.refusal("prescribe", **prescription("P017", "M01", 3))  # penicillins
    assert "pregnant" in session.refusal("prescribe", **prescription("P007", "M10", 2))  # doxycycline, D
    assert "severe" in session.refusal("prescribe", **prescription("P036", "M19", 1))  # ibuprofen and warfarin


def test_controlled_substances_need_a_licence_short_fills_and_few_refills(session: Any) -> None:
    tramadol = prescription("P088", "M25", 2)

    assert "licence" in session.refusal("prescribe", **tramadol | {"clinician": "C02"})
    assert "30 days" in session.refusal("prescribe", **tramadol | {"days": 31})
    assert "refills" in session.refusal("prescribe", **tramadol | {"refills": 6})
    assert session.attempt("prescribe", **tramadol | {"refills": 5}).value["expires"] == "2026-04-12"  # 180 days


def test_a_fill_comes_from_the_first_lot_that_lasts_and_the_next_one_must_wait(session: Any) -> None:
    # of M36 (lisinopril), L018 expires on 2025-11-22 and L159 on 2026-03-03; 90 days last until 2026-01-12
    made = session.attempt("prescribe", **prescription("P003", "M36", 1, days=90, refills=1)).value["prescription"]

    assert "not the lot" in session.refusal("dispense", prescription=made, lot="L018")
    assert session.attempt("dispense", prescription=made, lot="L159").value["units"] == 90
    assert "too soon" in session.refusal("dispense", prescription=made, lot="L159")
    assert session.execute("SELECT units FROM lots WHERE lot_id = 'L159'", {}).fetchone() == (220 - 90,)


def test_warfarin_is_renewed_only_while_the_inr_is_in_range(session: Any) -> None:
    assert "out of range" in session.refusal("renew_prescription", prescription="RX1136", refills=1)  # INR 5.06
    assert session.attempt("renew_prescription", prescription="RX1028", refills=2).status is Status.OK  # INR 2.16


def test_vaccines_keep_their_interval_and_live_ones_are_not_for_pregnant_patients(session: Any) -> None:
    # P033 had the first dose of hepatitis B on 2025-09-02; 56 days later is 2025-10-28
    assert "too soon" in session.refusal("give_vaccine", patient="P033", vaccine="hepatitis B")
    assert "live" in session.refusal("give_vaccine", patient="P007", vaccine="varicella")
    assert "too young" in session.refusal("give_vaccine", patient="P003", vaccine="zoster")
    assert session.attempt("give_vaccine", patient="P003", vaccine="varicella").value == {
        "vaccine": "varicella",
        "dose": 1,
    }


def test_a_critical_result_is_acknowledged_once_and_by_the_patients_own_clinician(session: Any) -> None:
    first = session.attempt("list_critical", clinician="C04").value[0]

    assert "own clinician" in session.refusal("acknowledge_result", order=first["order"], clinician="C01")
    assert session.attempt("acknowledge_result", order=first["order"], clinician="C04").status is Status.OK
    assert "waits" in session.refusal("acknowledge_result", order=first["order"], clinician="C04")


def test_a_specialist_is_booked_with_a_referral_where_the_plan_asks_for_one(domain: Domain, session: Any) -> None:
    task = next(task for task in domain.tasks() if task.intent == "refer_and_book")
    booking = next(step.arguments for step in task.reference_calls if step.name == "book_appointment")
    referral = next(step.arguments for step in task.reference_calls if step.name == "create_referral")

    assert "referral" in session.refusal("book_appointment", **booking)
    session.attempt("create_referral", **referral)
    assert session.attempt("book_appointment", **booking).status is Status.OK


@pytest.mark.parametrize(
    ("rule", "sql"),
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
def test_records_that_break_a_rule_are_noticed(damage: Callable[[str], str], rule: str, sql: str) -> None:
    assert rule in damage(sql)


def test_the_verifier_tells_right_from_wrong_in_every_intent(surprises: list[UnexpectedVerdict]) -> None:
    assert not surprises
