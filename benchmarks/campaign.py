"""The parts of a campaign of attacks: what was tried, how much of it held, and what took longest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

MAX_FAULTS = 20
"""Faults of a part that are kept with their texts."""


@dataclass
class Part:
    """What became of one kind of attack.

    Attributes:
        name: The kind.
        tried: Attacks that were made.
        held: Those that the library withstood.
        slowest: Seconds that the slowest one took.
        slowest_is: Which one that was.
        faults: What did not hold, the first `MAX_FAULTS` of it.
        skipped: Why the part was not run, if it was not.
    """

    name: str
    tried: int = 0
    held: int = 0
    slowest: float = 0.0
    slowest_is: str = ""
    faults: list[str] = field(default_factory=list)
    skipped: str = ""

    def note(self, attack: str, seconds: float, fault: str | None = None) -> None:
        """Count one attack, that took so long; `fault` says what did not hold."""
        self.tried += 1
        if seconds > self.slowest:
            self.slowest, self.slowest_is = seconds, attack
        if fault is None:
            self.held += 1
        elif len(self.faults) < MAX_FAULTS:
            self.faults.append(f"{attack}: {fault}")

    def add(self, other: Part) -> None:
        """Count what was found in another slice of this kind."""
        self.tried, self.held = self.tried + other.tried, self.held + other.held
        if other.slowest > self.slowest:
            self.slowest, self.slowest_is = other.slowest, other.slowest_is
        self.faults = [*self.faults, *other.faults][:MAX_FAULTS]
        self.skipped = self.skipped or other.skipped


def merged(parts: Iterable[Part]) -> list[Part]:
    """Return the parts with those of one name as one, in the order of their names' first."""
    found: dict[str, Part] = {}
    for part in parts:
        found.setdefault(part.name, Part(part.name)).add(part)
    return [*found.values()]
