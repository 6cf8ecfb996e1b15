"""What checks of an environment report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

Finding = Literal["pass", "fail", "note"]
Progress = Callable[[str, int, int], object]
"""Called with how far a check is: its name, steps done, steps in all."""


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
    verdict: Finding
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
