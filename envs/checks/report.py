"""The report of the checks of an environment, and how one check is run."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Collection, Sequence
from typing import Literal

import msgspec

from toolorchestra.toolscale.common.errors import UnknownNameError

CheckVerdict = Literal["pass", "fail", "note"]
Progress = Callable[[str, int, int], object]
"""Called with how far a check is: its name, steps done, steps in all."""

_MAX_DETAILS = 50


class Finding(msgspec.Struct):
    """What the function of a check returns; see `CheckResult`."""

    verdict: CheckVerdict
    line: str
    counts: dict[str, int] = {}
    details: Sequence[str] = ()


class CheckResult(msgspec.Struct, frozen=True):
    """What one check found.

    Attributes:
        name: The check.
        verdict: ``pass``, ``fail``, or ``note`` (worth knowing; not a failure).
        finding: One line.
        counts: The numbers behind it.
        details: What to look at: tasks that failed, mutants that survived and why.
        seconds: How long it took (wall clock).
    """

    name: str
    verdict: CheckVerdict
    finding: str
    counts: dict[str, int] = {}
    details: tuple[str, ...] = ()
    seconds: float = 0.0


class CheckReport(msgspec.Struct, frozen=True):
    """What all checks found; true in a condition when none failed.

    Attributes:
        env_id: The environment.
        results: One for each check, in the order run.
    """

    env_id: str
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(result.verdict != "fail" for result in self.results)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        lines = [
            f"{result.verdict:4}  {result.name:12}  {result.seconds:6.1f} s  {result.finding}"
            for result in self.results
        ]
        return "\n".join([self.env_id, *lines])


def chosen_checks(names: Sequence[str] | None, known: Collection[str], kind: str = "check") -> list[str]:
    """Return the names of the checks to run, all if `names` is None.

    Raises:
        UnknownNameError: There is no such check.
    """
    for name in names or ():
        if name not in known:
            raise UnknownNameError(kind, name, known)
    return list(known if names is None else names)


def run_check(name: str, check: Callable[[], Finding]) -> CheckResult:
    """Run a check; one that raises has failed."""
    began = time.perf_counter()
    try:
        found = check()
    except Exception as error:  # a check that breaks has found something
        last = traceback.format_exc().splitlines()[-5:-1]
        found = Finding("fail", f"{type(error).__name__}: {error}", details=last)
    details = list(found.details[:_MAX_DETAILS])
    if len(found.details) > _MAX_DETAILS:
        details.append(f"… and {len(found.details) - _MAX_DETAILS} more")
    seconds = round(time.perf_counter() - began, 3)
    return CheckResult(name, found.verdict, found.line, found.counts, tuple(details), seconds)
