"""What the index of a recording keeps of an episode, read without the rest of its line."""

from __future__ import annotations

from typing import Any

import msgspec

from toolorchestra.envs.records.failures import ending_reasons


class CallFacts(msgspec.Struct, gc=False):
    """Of a call."""

    name: str
    status: str = "OK"
    cost: float = 0.0


class TurnFacts(msgspec.Struct, gc=False):
    """Of a turn."""

    message: msgspec.Raw
    calls: tuple[CallFacts, ...] = ()
    cost: float = 0.0


class EpisodeFacts(msgspec.Struct):
    """Of an episode: see `toolorchestra.envs.records.episode.Episode` for the fields."""

    env_id: str
    task_id: str
    split: str
    difficulty: int
    seed: int | None = None
    turns: tuple[TurnFacts, ...] = ()
    outcome: str | None = None
    reward: float | None = None
    why: str = ""
    cost: float = 0.0
    clock: float = 0.0

    def row(self) -> tuple[Any, ...]:
        """Return what the list shows, in the order of `COLUMNS`."""
        calls = sum(len(turn.calls) for turn in self.turns)
        why = "" if self.outcome == "solved" else self.why[:_MAX_WHY]
        own = sum(turn.cost for turn in self.turns)
        counted = len(self.turns), calls, self.cost, own, self.clock, self.reward
        outcome = self.outcome or IN_PROGRESS
        return self.env_id, self.task_id, self.intent, self.seed, outcome, self.difficulty, *counted, why

    @property
    def intent(self) -> str:
        """What the task is an instance of: the middle of its id, as in ``restaurant/settle_bill/018``; or nothing."""
        return "/".join(self.task_id.split("/")[1:-1])[:_MAX_NAME]

    @property
    def reasons(self) -> list[str]:
        """Why it was not solved, in a few words."""
        return ending_reasons(self.outcome, self.why)

    @property
    def tools(self) -> set[str]:
        """Names of the tools that were called."""
        return {call.name[:_MAX_NAME] or "(no name)" for turn in self.turns for call in turn.calls}


COLUMNS = (
    "env_id", "task_id", "intent", "seed", "outcome", "level", "turns", "calls", "cost", "own_cost", "clock", "reward",
    "why",
)  # fmt: skip
"""Names of the values of `EpisodeFacts.row`."""
IN_PROGRESS = "in progress"
"""The outcome of an episode that is not over."""
_MAX_WHY, _MAX_NAME = 300, 80
