from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import pytest

import toolorchestra
from toolorchestra.envs.checks import report as report_module
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.checks.one_agent import CHECKS
from toolorchestra.envs.checks.report import CheckReport, CheckResult
from toolorchestra.envs.checks.wording import wording_finding
from toolorchestra.envs.episode import Episode
from toolorchestra.envs.play import Play, PlaySnapshot
from toolorchestra.envs.toolorchestra.env import ToolOrchestraEnv
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.verify import SOLVED

CUSTOM = "ToolOrchestra-Custom-v0"


@pytest.fixture
def check(mini_folder: Path) -> Callable[..., CheckResult]:
    """Run one check on the mini domain."""

    def run(name: str, **options: Any) -> CheckResult:
        (result,) = check_environment(CUSTOM, domain=mini_folder, checks=[name], **options).results
        return result

    return run


def test_the_mini_domain_passes_all_checks(edited: Callable[..., Path]):
    folder = edited("tools.spin", ..., file="tools.yaml")  # calls that only end at their bound take their time
    edited("tools.spin_writing", ..., file="tools.yaml")
    told = []
    report = check_environment(
        CUSTOM,
        domain=folder,
        random_episodes=200,
        hostile=200,
        progress=lambda name, done, total: told.append((name, done, total)),
    )
    assert report.passed, report
    assert [result.name for result in report.results] == list(CHECKS)
    assert all(result.verdict in ("pass", "note") for result in report.results)
    assert all(result.seconds >= 0 and result.finding for result in report.results)
    assert all(0 <= done <= total for _, done, total in told)
    assert {name for name, _, _ in told} >= {"oracle", "null", "random", "snapshot", "hostile", "verifier"}


def test_it_is_public():
    assert toolorchestra.check_environment is check_environment


def test_environments_with_several_agents_are_checked_too():
    told = []
    report = check_environment(
        "MSARL-Math-v0", checks=["privacy", "snapshot"], python="simulated", progress=lambda *step: told.append(step)
    )
    assert report.passed, report
    assert [result.name for result in report.results] == ["privacy", "snapshot"]
    assert told == [("privacy", 0, 1), ("privacy", 1, 1), ("snapshot", 0, 1), ("snapshot", 1, 1)]
    with pytest.raises(UnknownNameError, match="Did you mean 'privacy'"):
        check_environment("MSARL-Math-v0", checks=["privaci"])


def test_counts_stand_behind_the_findings(check: Callable[..., CheckResult], mini: Domain):
    tasks = len(mini.tasks())
    assert check("oracle").counts == {"tasks": tasks, "solved": tasks}
    assert check("null").counts == {"tasks": tasks, "solved": 0}
    verifier = check("verifier").counts
    assert verifier["mutants"] > 0
    assert verifier["variants"] > 0


def test_idle_tools_and_empty_splits_are_noted_but_no_failure(check: Callable[..., CheckResult]):
    result = check("coverage")
    assert result.verdict == "note"
    assert "mini: no reference trajectory calls take_coupon" in result.details


def test_wording_that_no_person_would_use_is_noted_in_a_users_domain_and_fails_in_one_of_the_library(
    check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    result = check("wording")
    assert result.verdict == "note"
    assert result.counts["ids"] == 1
    assert any("phrasings without registers" in line for line in result.details)
    restaurant = load_domain("restaurant")
    assert wording_finding([(restaurant, restaurant.tasks())]).verdict == "pass"
    worse = [msgspec.structs.replace(task, answer="T05") for task in restaurant.tasks()[:3]]
    assert wording_finding([(restaurant, worse)]).verdict == "fail"


def test_an_environment_that_solves_everything_fails_the_floors(
    check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Domain, "verify", lambda *_: SOLVED)
    for name in ("null", "random"):
        result = check(name, random_episodes=20)
        assert result.verdict == "fail"
        assert "(100.0%" in result.finding


def test_a_reference_trajectory_that_does_not_solve_its_task_is_named(
    check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    result = check("oracle", max_turns=1)  # the oracle keeps to that, and answers at once
    assert result.verdict == "fail"
    assert any(detail.startswith("mini/order_twice/") and "failed" in detail for detail in result.details)


def test_a_record_that_differs_from_run_to_run_is_found(
    check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    calls = iter(range(10**9))
    monkeypatch.setattr(Episode, "to_json", lambda self: str(next(calls)).encode())
    result = check("determinism")
    assert result.verdict == "fail"
    assert result.counts["differing"] > 0


def test_arguments_that_another_process_cannot_have_are_refused_by_determinism(mini: Domain):
    from toolorchestra.envs.task_source import DomainSource

    class LocalSource(DomainSource):
        """A source that no other process can import."""

    (result,) = check_environment(CUSTOM, source=LocalSource(mini), checks=["determinism"]).results
    assert result.verdict == "fail"
    assert "give names or folders" in result.finding


def test_a_restore_that_forgets_the_database_is_found(
    check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    restored = PlaySnapshot.restored

    def forgetful(self: PlaySnapshot, session: Any) -> Play:
        play = restored(self, session)
        play.session.reset()
        return play

    monkeypatch.setattr(PlaySnapshot, "restored", forgetful)
    result = check("snapshot")
    assert result.verdict == "fail"
    assert "restored into" in result.details[0]


def test_a_step_that_raises_is_found(check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch):
    def step(self: ToolOrchestraEnv, action: Any) -> Any:
        raise KeyError("oops")

    monkeypatch.setattr(ToolOrchestraEnv, "step", step)
    result = check("hostile", hostile=5)
    assert result.verdict == "fail"
    assert "step raised KeyError" in result.details[0]


def test_a_call_that_changes_what_it_should_not_is_found(
    check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    act = Play.act

    def careless(self: Play, action: Any) -> Any:
        self.session.connection.execute("UPDATE orders SET price = price + 1 WHERE order_id = 'O001'")
        self.session.wrote = True
        return act(self, action)

    monkeypatch.setattr(Play, "act", careless)
    result = check("hostile", hostile=40)
    assert result.verdict == "fail"
    assert "beyond what its valid calls change" in " ".join(result.details)


def test_a_verifier_that_accepts_everything_fails(check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolorchestra.toolscale.verify.Verifier.verify", lambda *_: SOLVED)
    result = check("verifier")
    assert result.verdict == "fail"
    assert result.finding.startswith("0.00%")
    assert len(result.details) > 10


def test_a_check_that_breaks_fails_and_hides_no_other(mini_folder: Path, monkeypatch: pytest.MonkeyPatch):
    def breaks(subject: Any) -> Any:
        raise RuntimeError("broken check")

    monkeypatch.setitem(CHECKS, "oracle", breaks)
    report = check_environment(CUSTOM, domain=mini_folder, checks=["oracle", "null"])
    assert [result.verdict for result in report.results] == ["fail", "pass"]
    assert report.results[0].finding == "RuntimeError: broken check"
    assert not report


def test_long_lists_of_details_are_cut(check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(report_module, "_MAX_DETAILS", 3)
    details = check("oracle", max_turns=1).details
    assert len(details) == 4
    assert details[-1].startswith("… and ")


def test_a_mixture_is_checked_as_well(mini: Domain, edited: Callable[..., Path]):
    from toolorchestra.envs.task_source import DomainSource, MixtureSource

    folder = edited("name", "other")
    source = MixtureSource([DomainSource(mini), DomainSource(folder)])
    names = ["oracle", "null", "snapshot", "hostile", "verifier"]
    report = check_environment(CUSTOM, source=source, checks=names, hostile=100)
    assert report.passed, report
    assert report.results[0].counts["tasks"] == 2 * len(mini.tasks())


def test_wrong_arguments_are_the_callers_errors(mini_folder: Path):
    with pytest.raises(UnknownNameError, match="Did you mean 'oracle'"):
        check_environment(CUSTOM, domain=mini_folder, checks=["orcale"])
    with pytest.raises(OptionError, match="`hostile` must be at least 1"):
        check_environment(CUSTOM, domain=mini_folder, hostile=0)
    with pytest.raises(OptionError, match="is no ToolOrchestra environment"):
        check_environment("CartPole-v1")
    with pytest.raises(gym.error.Error):
        check_environment("ToolOrchestra-Nowhere-v0")


def test_a_report_reads_as_text_and_as_a_condition():
    passed, failed = CheckResult("a", "pass", "fine"), CheckResult("b", "fail", "not fine")
    noted = CheckResult("c", "note", "by the way")
    assert CheckReport("X-v0", (passed, noted))
    report = CheckReport("X-v0", (passed, failed))
    assert not report
    assert str(report).splitlines()[0] == "X-v0"
    assert "not fine" in str(report)
