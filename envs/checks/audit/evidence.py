"""What an audit gathers before it judges: episodes of adversaries and of the oracle, and their replays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.checks.audit.panel import INJECTIONS, Canary, Leak, adversaries, searched
from toolorchestra.envs.checks.audit.subject import AuditSubject, Trial, as_text, begun, mean
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.checks.report import CheckResult, Progress
from toolorchestra.envs.environment_names import resolve
from toolorchestra.envs.records.unjudged import error_text
from toolorchestra.toolscale.domain import Domain

REPLAYED = 24
"""Episodes that are played again: in another environment, after others, beside others, and in another process."""
FRESH = "in a new environment"
AFTER = "after another episode in the same environment"
BESIDE = "beside another episode in another environment"
ELSEWHERE = "in another process with another PYTHONHASHSEED"
CANARIED = 8
"""Episodes in which each canary is sent."""


@dataclass
class Evidence:
    """What was played.

    Attributes:
        subject: The environment.
        panel: The episodes of each adversary, on the same cases.
        oracle: Those of the policy that solves tasks; empty if there is none.
        canaries: Those in which one text was sent throughout.
        leaks: Those of the policy that reads ``info``; `leaked` is how many values it found there and sent.
        answer: What the search sends, and `tried`: all that it tried.
        original: Some of all these, and `again`: how they went when played again, for each way of doing so.
        checks: What the library's own checks of verification found, where they apply, by name.
        broken: Why a replay could not be made.
    """

    subject: AuditSubject
    panel: dict[str, list[Trial]] = field(default_factory=dict)
    oracle: list[Trial] = field(default_factory=list)
    canaries: list[Trial] = field(default_factory=list)
    leaks: list[Trial] = field(default_factory=list)
    leaked: int = 0
    answer: str = ""
    tried: list[str] = field(default_factory=list)
    original: list[Trial] = field(default_factory=list)
    again: dict[str, list[Any]] = field(default_factory=dict)
    checks: dict[str, CheckResult] = field(default_factory=dict)
    broken: str = ""

    @property
    def trials(self) -> list[Trial]:
        """All episodes."""
        return [*(one for trials in self.panel.values() for one in trials), *self.oracle, *self.canaries, *self.leaks]

    @property
    def floor(self) -> float:
        """The mean reward of doing nothing."""
        return mean(self.panel["null"])

    @property
    def best(self) -> tuple[str, float]:
        """The adversary that earns most, with its mean reward; of equals the first."""
        earned = {name: mean(trials) for name, trials in self.panel.items()}
        if exploit := self.checks.get("exploit"):
            tasks = exploit.counts.get("tasks without calls", 0)
            if tasks:
                earned["search of slots"] = exploit.counts["exploited without calls"] / tasks
        name = max(earned, key=earned.__getitem__)
        return name, earned[name]

    @property
    def digest(self) -> str:
        """A digest of what the replayed episodes showed, to be compared with that of another machine."""
        whole = msgspec.json.encode([[repr(part) for part in trial.seen] for trial in self.original])
        return hashlib.sha256(whole).hexdigest()[:16]


def gather(subject: AuditSubject, progress: Progress | None = None) -> Evidence:
    """Play everything that the graders judge."""
    tell = progress or (lambda name, done, total: None)
    found = Evidence(subject)

    def played(name: str, policy: Any, cases: Sequence[Any]) -> list[Trial]:
        trials = []
        for number, case in enumerate(cases):
            tell(name, number, len(cases))
            trials.append(subject.play(policy, case))
        return trials

    for name, policy in adversaries(subject).items():
        found.panel[name] = played(name, policy, subject.cases)
    tell("search", 0, 1)
    policy, found.tried = searched(subject)
    found.answer = policy.said
    found.panel["search"] = played("search", policy, subject.cases)
    if reference := subject.reference():
        found.oracle = played("oracle", *reference)
    for said in INJECTIONS:
        found.canaries += played("canaries", Canary(said), subject.cases[:CANARIED])
    leak = Leak()
    found.leaks = played("leaks", leak, subject.cases)
    found.leaked = leak.found
    found.checks = _verified(subject, tell)
    _replay(found, tell)
    return found


def _verified(subject: AuditSubject, tell: Progress) -> dict[str, CheckResult]:
    """Run the library's own checks of verification, which know the tasks."""
    if not isinstance(subject.env, OrchestrationEnv):
        return {}
    in_domains = all(isinstance(subject.env.source.world(task), Domain) for task in subject.tasks)
    names = ["attacks", "exploit"] if in_domains else ["verifier"]
    env_id, named = resolve(subject.name)
    report = check_environment(env_id, checks=names, seed=subject.seed, progress=tell, **{**named, **subject.options})
    return {result.name: result for result in report.results}


def _replay(found: Evidence, tell: Progress) -> None:
    """Play some episodes again, in each of the ways that must not make a difference."""
    subject = found.subject
    whole = [trial for trial in found.trials if trial.over and not trial.error]
    found.original = whole[:: max(1, len(whole) // REPLAYED)][:REPLAYED]
    tell("replays", 0, 4)
    fresh = subject.make()
    found.again[FRESH] = [subject.replay(trial, fresh).seen for trial in found.original]
    tell("replays", 1, 4)
    found.again[AFTER] = [subject.replay(trial, fresh).seen for trial in reversed(found.original)][::-1]
    tell("replays", 2, 4)
    found.again[BESIDE] = list(_beside(subject, found.original))
    tell("replays", 3, 4)
    try:
        found.again[ELSEWHERE] = subject.replay_elsewhere(found.original)
    except Exception as error:  # what cannot be sent there, or fails there, is a finding
        found.broken = error_text(error)


def _beside(subject: AuditSubject, trials: Sequence[Trial]) -> Iterator[Any]:
    """Yield what episodes show while another one goes on, with a step of each in turn."""
    one, other = subject.make(), subject.make()
    for trial, second in zip(trials, [*trials[1:], *trials[:1]], strict=True):
        neighbour = _steps(other, second)
        seen = []
        for part in _steps(one, trial):
            next(neighbour, None)
            seen.append(part)
        yield seen


def _steps(env: Any, trial: Trial) -> Iterator[Any]:
    """Yield what an episode shows, step by step; an exception ends it, and is shown too."""
    try:
        observation, _ = begun(env, trial.case)
        yield as_text(observation), 0.0, False, False
        for action in trial.actions:
            observation, reward, terminated, truncated, _ = env.step(action)
            yield as_text(observation), reward, bool(terminated), bool(truncated)
    except Exception as error:
        yield error_text(error), 0.0, False, False
