"""The audit of an environment by the checks of OpenEnv's RFC 008, and its report."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import msgspec

from toolorchestra.envs.checks.audit.evidence import Evidence, gather
from toolorchestra.envs.checks.audit.graders import GRADERS, Found, Status, why
from toolorchestra.envs.checks.audit.subject import AuditSubject
from toolorchestra.envs.checks.report import Progress
from toolorchestra.toolscale.common.errors import OptionError

Verdict = Literal["pass", "warn", "fail"]
_WORDS: dict[Status, str] = {"pass": "passes", "fail": "**fails**", "skip": "does not apply", "error": "**broke**"}
_LEVELS = {1: "static", 2: "runtime", 3: "semantic", 4: "statistical"}


class RFCCheck(msgspec.Struct, frozen=True):
    """A check of the RFC.

    Attributes:
        id: Its id in OpenEnv's severity policy.
        title: What it is called.
        level: 1 static, 2 runtime, 3 semantic, 4 statistical.
        lane: ``local``, or ``hub`` where the RFC leaves it to operators.
        severity: ``fail``, ``warn`` or ``advisory``, by OpenEnv's policy v2.
        number: Its number in OpenEnv's issue 778; None for two that have none.
        left_out: Why it cannot be judged on an environment in a Python process: a key of `Catalogue.reasons`.
    """

    id: str
    title: str
    level: int
    lane: str
    severity: str
    number: int | None = None
    left_out: str = ""


class Catalogue(msgspec.Struct, frozen=True):
    """All checks, in the order of the RFC."""

    source: str
    reasons: dict[str, str]
    checks: tuple[RFCCheck, ...]


@functools.cache
def catalogue() -> Catalogue:
    """Return the checks of the RFC."""
    text = Path(__file__).with_name("rfc008.yaml").read_text(encoding="utf-8")
    return msgspec.yaml.decode(text, type=Catalogue)


class AuditResult(msgspec.Struct, frozen=True):
    """What one check came to, with the fields of OpenEnv's `CheckResult`.

    Attributes:
        check_id: Id of the check.
        status: ``pass``, ``fail``, ``skip`` (it does not apply) or ``error`` (the grader broke).
        measured: Numbers.
        evidence: What was found, or why the check does not apply.
        remediation: What to change; None unless it failed.
        duration_s: Seconds that judging took; episodes are played before.
    """

    check_id: str
    status: Status
    measured: dict[str, Any] = {}
    evidence: tuple[str, ...] = ()
    remediation: str | None = None
    duration_s: float = 0.0


class AuditReport(msgspec.Struct, frozen=True):
    """What all checks came to.

    Attributes:
        target: Name of the environment.
        options: Its arguments.
        episodes: Number of episodes that each adversary played.
        reward_range: The rewards that an episode may have, as declared.
        results: One for each check of the RFC.
        policy_version: Version of OpenEnv's policy whose severities are used.
    """

    target: str
    options: dict[str, Any]
    episodes: int
    reward_range: tuple[float, float]
    results: tuple[AuditResult, ...]
    policy_version: str = "v2"

    @property
    def verdict(self) -> Verdict:
        """``fail`` if a check of the severity ``fail`` failed or broke, ``warn`` if another one did."""
        severities = {check.id: check.severity for check in catalogue().checks}
        wrong = {severities[one.check_id] for one in self.results if one.status == "fail"}
        if "fail" in wrong or any(one.status == "error" for one in self.results):
            return "fail"
        return "warn" if wrong else "pass"

    @property
    def counts(self) -> Counter[str]:
        """How many checks have each status."""
        return Counter(one.status for one in self.results)

    def result(self, check_id: str) -> AuditResult:
        """Return what a check came to."""
        return next(one for one in self.results if one.check_id == check_id)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as it is written to JSON."""
        return {**msgspec.to_builtins(self), "verdict": self.verdict, "counts": dict(self.counts)}

    def to_markdown(self) -> str:
        """Return the report as a page."""
        counts = self.counts
        floor = self.result("statistical.adversarial_floor")
        lines = [
            f"# Audit of `{self.target}` by RFC 008",
            "",
            f"Verdict: **{self.verdict}**. {counts['pass']} checks pass, {counts['fail'] + counts['error']} fail, "
            f"{counts['skip']} do not apply. {self.episodes:,} episodes of each adversary.",
            "",
            *(f"- {line}" for line in (*floor.evidence, *self.result("statistical.gameability_gap").evidence)),
            "",
            f"[The checks]({catalogue().source}); severities are those of OpenEnv's policy {self.policy_version}.",
            "",
            "| # | check | level | severity | result | what was found, or why it does not apply |",
            "|--:|---|---|---|---|---|",
        ]
        for check in catalogue().checks:
            one = self.result(check.id)
            said = "<br>".join([*one.evidence, *([one.remediation] if one.remediation else [])]).replace("|", "\\|")
            lines.append(
                f"| {check.number or ''} | `{check.id}` {check.title} | {_LEVELS[check.level]} | {check.severity} "
                f"| {_WORDS[one.status]} | {' '.join(said.split())} |"
            )
        return "\n".join([*lines, ""])


def audit_environment(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    oracle: str | None = None,
    episodes: int | None = None,
    reward_range: Sequence[float] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit an environment by the checks of OpenEnv's RFC 008.

    Five adversaries that do not understand the task play the same episodes (nothing at all, random, everything that was
    shown, texts that speak to a grader, and the best of many constant answers, looked for on other episodes), and so
    does an oracle, if there is one. What they are paid, and how their episodes go when played again, is judged.

    Args:
        name: Name of an environment of this library; or ``module:name``, a class or function that makes an environment
            of text with the interface of Gymnasium or PettingZoo. The module is imported.
        options: Its arguments.
        oracle: A policy that solves tasks, ``module:Class`` or ``module:function``; by default the reference
            trajectories, or the teacher, of this library.
        episodes: Episodes of each adversary; by default one for each task of the split ``test``, or 100 seeds.
        reward_range: The least and the largest reward that an episode may have; None: as the environment declares it
            in ``reward_range``, or 0 and 1.
        seed: Seed of the adversaries.
        progress: Called with what is being done, steps done and steps in all.

    Raises:
        OptionError: The environment cannot be made, or cannot be played with text.
    """
    with closing(AuditSubject(name, options, oracle=oracle, episodes=episodes, seed=seed)) as subject:
        low, high = map(float, reward_range or subject.reward_range)
        if not low < high:
            raise OptionError(f"`reward_range` must be increasing, got {low:g} and {high:g}.")
        evidence = gather(subject, progress)
        results = tuple(_result(check, evidence, (low, high)) for check in catalogue().checks)
        return AuditReport(name, subject.options, len(subject.cases), (low, high), results)


def _result(check: RFCCheck, evidence: Evidence, declared: tuple[float, float]) -> AuditResult:
    """Return what a check comes to."""
    began = time.perf_counter()
    if check.left_out:
        found = Found("skip", [catalogue().reasons[check.left_out]])
    else:
        try:
            found = GRADERS[check.id](evidence, declared)
        except Exception as error:  # a grader that breaks has found something
            found = Found("error", [why(error)])
    seconds = round(time.perf_counter() - began, 3)
    return AuditResult(
        check.id, found.status, dict(found.measured), tuple(found.evidence), found.remediation or None, seconds
    )
