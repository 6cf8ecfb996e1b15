"""A curriculum over difficulty: easy tasks first."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from toolorchestra.algos.rollout.starts import Start


class Curriculum:
    """Easy tasks first: a level opens once the live success on the level before it is good enough.

    Args:
        tasks: Starts by level; levels open in ascending order.
        open_at: Success on the hardest open level that opens the next.
        memory: Weight of the past in the live success (moving average over groups).

    Attributes:
        success: Live success by level, None before the level's first group.
        open: Number of levels open.
    """

    def __init__(self, tasks: Mapping[int, Sequence[Start]], *, open_at: float = 0.7, memory: float = 0.95) -> None:
        self.tasks = {level: list(plays) for level, plays in sorted(tasks.items()) if plays}
        self.open_at, self.memory = open_at, memory
        self.success: dict[int, float | None] = dict.fromkeys(self.tasks)
        self.open = 1 if open_at > 0 else len(self.tasks)

    def draw(self, count: int, rng: random.Random) -> list[tuple[int, Start]]:
        """Return tasks to play with their levels; levels neither mastered nor hopeless come oftener."""
        levels = list(self.tasks)[: self.open]
        weights = [1.0 if (p := self.success[level]) is None else 0.1 + 4 * p * (1 - p) for level in levels]
        return [(level, rng.choice(self.tasks[level])) for level in rng.choices(levels, weights, k=count)]

    def record(self, level: int, success: float) -> None:
        """Take note of a group's mean success."""
        before = self.success[level]
        self.success[level] = success if before is None else self.memory * before + (1 - self.memory) * success
        hardest = list(self.tasks)[self.open - 1]
        if self.open < len(self.tasks) and (self.success[hardest] or 0.0) >= self.open_at:
            self.open += 1

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs to go on as if nothing had happened."""
        return {"success": list(self.success.items()), "open": self.open}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        self.success = {int(level): value for level, value in state["success"]}
        self.open = int(state["open"])
