"""The audit by the checks of OpenEnv's RFC 008: what it finds in sound and in faulty environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.envs.checks import audited_envs
from toolorchestra.cli.main import main
from toolorchestra.envs.checks.audit.graders import GRADERS
from toolorchestra.envs.checks.audit.host_calls import host_calls
from toolorchestra.envs.checks.audit.panel import adversaries
from toolorchestra.envs.checks.audit.report import AuditReport, audit_environment, catalogue
from toolorchestra.envs.checks.audit.subject import AuditSubject
from toolorchestra.toolscale.common.errors import OptionError, ToolOrchestraError

SUMS = f"{audited_envs.__name__}:Sums"
ORACLE = f"{audited_envs.__name__}:oracle"
RECORD = "runtime.trajectory_record"
"""Fails on every environment that emits no record."""


def audit(fault: str = "", **options: Any) -> AuditReport:
    return audit_environment(SUMS, {"fault": fault}, **{"oracle": ORACLE, "episodes": 12, **options})


def failed(report: AuditReport) -> set[str]:
    return {one.check_id for one in report.results if one.status in ("fail", "error")}


def test_a_sound_environment_of_others_passes() -> None:
    report = audit()
    assert failed(report) == {RECORD}
    assert report.verdict == "warn"
    measured = report.result("statistical.adversarial_floor").measured
    assert (measured["floor"], measured["its mean reward"], measured["dump, rewarded"]) == (0.0, 0.0, "0 of 12")
    gap = report.result("statistical.gameability_gap").measured
    assert (gap["gap"], gap["correlation"], gap["episodes"]) == (1.0, 1.0, 12 + 5 * 12)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("pays nothing said", {"semantic.floor_gap", "statistical.gameability_gap"}),
        ("pays length", {"statistical.adversarial_floor", "statistical.gameability_gap", "semantic.canary_floor"}),
        (
            "pays the words of a grader",
            {"statistical.adversarial_floor", "statistical.gameability_gap", "semantic.canary_floor"},
        ),
        ("pays a constant", {"statistical.adversarial_floor", "statistical.gameability_gap"}),
        ("leak", {"runtime.oracle_containment", "semantic.no_solution_leakage"}),
        (
            "no seed",
            {
                "runtime.seed_control",
                "runtime.episode_determinism",
                "runtime.episode_isolation",
                "semantic.replayability",
                "semantic.verifier_determinism",
            },
        ),
        (
            "shared state",
            {
                "runtime.seed_control",
                "runtime.episode_determinism",
                "runtime.episode_isolation",
                "semantic.replayability",
            },
        ),
        ("not a number", {"runtime.reward_well_formed"}),
        ("beyond the range", {"runtime.reward_well_formed"}),
        ("half for the right answer", {"semantic.oracle_max"}),
        ("raises", {"runtime.reward_well_formed"}),
        ("writes a file", {"runtime.host_containment", "semantic.verifier_portability"}),
        ("connects", {"runtime.host_containment", "semantic.verifier_portability"}),
        ("no end", {"runtime.resource_bounds"}),
        ("small space", {"runtime.observation_schema"}),
    ],
)
def test_each_fault_fails_the_checks_that_are_about_it(fault: str, found: set[str]) -> None:
    assert failed(audit(fault)) - {RECORD} == found


def test_a_verdict_by_chance_is_no_deterministic_verifier() -> None:
    assert {"semantic.verifier_determinism", "semantic.oracle_max"} <= failed(audit("verdict by chance"))


def test_without_an_oracle_nobody_shows_that_it_can_be_solved() -> None:
    report = audit(oracle=None)
    assert "semantic.oracle_max" in failed(report)
    assert report.result("statistical.gameability_gap").status == "skip"


def test_the_range_of_rewards_can_be_declared() -> None:
    assert failed(audit("beyond the range", reward_range=(0, 5))) == {RECORD}
    with pytest.raises(OptionError, match="must be increasing"):
        audit(reward_range=(1, 0))


@pytest.mark.parametrize(
    ("env", "options"),
    [("ToolOrchestra-MASBenchParallel-v0", {}), ("MSARL-Math-v0", {"python": "simulated"}), ("domain", {})],
)
def test_environments_of_the_library_pass(env: str, options: dict[str, Any], quick_folder: Path) -> None:
    report = audit_environment(str(quick_folder) if env == "domain" else env, options, episodes=6)
    assert not failed(report)
    solved = report.result("statistical.adversarial_floor").measured["solved by the verdict"]
    assert solved == "0 of 30"


def test_no_adversary_asks_an_expert() -> None:
    subject = AuditSubject("ParaManager-MASBenchParallel-v0", episodes=3)
    for policy in adversaries(subject).values():
        for case in subject.cases:
            assert subject.play(policy, case).over
            asked = {call.name for turn in subject.env.episode.turns for call in turn.calls}
            assert asked <= {"final_answer", *subject.env.play.world.tools}
    subject.close()


def test_what_a_model_of_the_environment_answers_is_no_leak() -> None:
    report = audit_environment("ParaManager-MASBenchDepth-v0", episodes=4)  # its summariser solves what it is asked
    assert report.result("semantic.no_solution_leakage").measured == {"values": 0}


def test_the_catalogue_is_that_of_openenvs_policy() -> None:
    checks = catalogue().checks
    assert len({check.id for check in checks}) == len(checks) == 46
    assert {check.id for check in checks if not check.left_out} == set(GRADERS)
    assert {check.left_out for check in checks} - {""} == set(catalogue().reasons)
    assert {check.number for check in checks} - {None} == set(range(1, 45)) - {5, 7}  # which the RFC drops


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("FrozenLake-v1", "are Discrete"),
        (f"{audited_envs.__name__}:numbers", "are Discrete"),
        (f"{audited_envs.__name__}:nothing", "makes str, which has no `reset`"),
        (f"{audited_envs.__name__}:missing", "has no 'missing'"),
        ("no_such_module:env", "There is no module"),
        ("NoSuch-v0", "NoSuch-v0"),
    ],
)
def test_what_cannot_be_audited_is_refused(env: str, message: str) -> None:
    with pytest.raises(ToolOrchestraError, match=message):
        audit_environment(env)


def test_requests_to_the_host_are_seen_inside_of_the_block_only(tmp_path: Path) -> None:
    with host_calls() as outer:
        (tmp_path / "one").write_text("1")
        with host_calls() as inner:
            (tmp_path / "two").write_text("2")
            (tmp_path / "two").read_text()
    (tmp_path / "three").write_text("3")
    assert outer == [f"writes {tmp_path / 'one'}", f"writes {tmp_path / 'two'}"]
    assert inner == [f"writes {tmp_path / 'two'}"]


def test_the_command_writes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, listed = tmp_path / "new" / "audit.md", tmp_path / "audit.json"
    arguments = ["validate", SUMS, "--env-options", "fault", "pays length", "--episodes", "5", "--oracle", ORACLE]
    assert main([*arguments, "--report", str(page)]) == 1
    printed = capsys.readouterr().out
    assert "✗  statistical.adversarial_floor" in printed
    assert "static.manifest" not in printed  # it applies to packages
    text = page.read_text()
    assert text.startswith(f"# Audit of `{SUMS}` by RFC 008\n\nVerdict: **fail**.")
    assert text.count("\n| ") == 1 + len(catalogue().checks)
    assert main([*arguments, "--report", str(listed), "--json"]) == 1
    assert json.loads(listed.read_text()) == json.loads(capsys.readouterr().out)
    found = {one["check_id"]: one for one in json.loads(listed.read_text())["results"]}
    assert set(found["runtime.startup"]) == {
        "check_id", "status", "measured", "evidence", "remediation", "duration_s"
    }  # fmt: skip


def test_options_of_an_audit_need_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["validate", "ToolOrchestra-Restaurant-v0", "--episodes", "5"]) == 2
    assert "--episodes is for an audit: add --rfc008." in capsys.readouterr().err
    assert main(["validate", SUMS, "--report", str(tmp_path / "audit.txt")]) == 2
    assert "--report must end in .md or .json" in capsys.readouterr().err
