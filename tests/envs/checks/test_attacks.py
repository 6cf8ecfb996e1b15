"""What is reported of attacks and exploits."""

from __future__ import annotations

import pytest

from toolorchestra.envs.checks.attacks import attack_lines, exploit_finding
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.toolscale.validation.exploiter import Exploit, ExploitReport
from toolorchestra.toolscale.validation.verifier_attacks import AttackReport


def test_kinds_that_were_judged_wrongly_stand_before_the_others() -> None:
    report = AttackReport()
    report.tried.update({"a": 9, "b": 9, "c": 9})
    report.paid.update({"b": 1})
    report.rephrased.update({"d": 5, "e": 5})
    report.accepted.update({"d": 5, "e": 4})
    wrong, right = attack_lines(report)
    assert wrong == ["attack: b: 1 of 9 paid", "rephrasing: e: 4 of 5 accepted"]
    assert [line.split(":")[1] for line in right] == [" a", " c", " d"]


@pytest.mark.parametrize(
    ("called", "idle", "verdict"), [(12, 1, "pass"), (13, 1, "pass"), (14, 1, "note"), (13, 2, "fail"), (99, 2, "fail")]
)
def test_exploits_are_a_note_with_the_calls_made_and_a_failure_without(called: int, idle: int, verdict: str) -> None:
    strategy = {"date": "null", "number": "0", "time": "null"}
    exploits = [Exploit(found, ["a task"] * solved, 100) for found, solved in ((strategy, called), ({}, idle))]
    report = ExploitReport("shop", *exploits, 0.1)
    found = exploit_finding([report])
    assert found.verdict == verdict
    assert found.counts["picked at random"] == 10
    assert found.details == [
        f"shop: with the reference calls {called} of 100 tasks that ask for a fact ({called}.0%; at random 10.0%), "
        f"without calls {idle} of 100 tasks ({idle}.00%)",
        "shop, with the reference calls: null: date, time",
        "shop, with the reference calls: 0: number",
    ]


def test_questions_have_no_exploits() -> None:
    (result,) = check_environment("ToolOrchestra-Math-v0", checks=["exploit"]).results
    assert (result.verdict, result.finding) == ("note", "no domain whose tasks are split into train and test")
