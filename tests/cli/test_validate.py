from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.envs.checks import environment
from toolorchestra.envs.checks.report import CheckReport, CheckResult

Run = Callable[..., Any]
MULTI_AGENT = "MSARL-Math-v0"
QUIET = ("--env-options", "python", "simulated")


def test_validate_prints_a_table_and_returns_zero_when_all_is_well(run: Run, folder: str):
    output = run("validate", folder, "--only", "oracle", "null", "coverage")
    assert output.code == 0
    for part in ("✓  oracle", "✓  null", "•  coverage", "all checks passed"):
        assert part in output.out


def test_validate_returns_one_when_a_check_fails(run: Run, folder: str, monkeypatch: pytest.MonkeyPatch):
    results = (CheckResult("oracle", "fail", "3 of 4 solved", {"solved": 3}, ("a/b/003: failed",)),)
    monkeypatch.setattr(environment, "check_environment", lambda env_id, **_: CheckReport(env_id, results))
    output = run("validate", folder)
    assert output.code == 1
    assert "✗  oracle" in output.out
    assert "a/b/003: failed" in output.out
    report = run("validate", folder, "--json")
    assert report.code == 1
    assert report.json["passed"] is False
    assert report.json["results"][0]["counts"] == {"solved": 3}


def test_of_what_did_not_fail_little_is_shown_unless_it_is_asked_for(
    run: Run, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = [f"attack: kind {number}: 0 of 9 paid" for number in range(30)]
    results = (
        CheckResult("attacks", "pass", "0 of 270 attacks paid", details=tuple(tried)),
        CheckResult(
            "coverage", "note", "1 of 9 tools", details=tuple(f"no trajectory calls {tool}" for tool in "abcdef")
        ),
        CheckResult("oracle", "fail", "0 of 40 solved", details=tuple(f"a/b/{number:03}" for number in range(40))),
    )
    monkeypatch.setattr(environment, "check_environment", lambda env_id, **_: CheckReport(env_id, results))
    short = run("validate", folder).out.splitlines()
    assert not set(tried) & set(short)
    assert "34 more lines (attacks, coverage) are left out; --verbose prints them." in short
    assert {*results[1].details[:2], *results[2].details} <= set(short)
    assert not {*results[1].details[2:]} & set(short)
    for option in ("--verbose", "-v"):
        whole = run("validate", folder, option).out.splitlines()
        assert {*tried, *results[1].details, *results[2].details} <= set(whole)
        assert not any("left out" in line for line in whole)


def test_an_unknown_check_suggests_the_nearest(run: Run, folder: str):
    assert "Did you mean 'oracle'" in run("validate", folder, "--only", "orakle").err


def test_validate_runs_the_checks_of_several_agents(run: Run) -> None:
    output = run("validate", MULTI_AGENT, *QUIET, "--json")
    assert output.code == 0
    assert {result["name"] for result in json.loads(output.out)["results"]} >= {"pettingzoo", "privacy", "snapshot"}
    assert "✓  privacy" in run("validate", MULTI_AGENT, *QUIET, "--only", "privacy").out
    assert "Did you mean 'privacy'" in run("validate", MULTI_AGENT, *QUIET, "--only", "privaci").err
