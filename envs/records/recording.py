"""Recording: many episodes played by one policy, each written to a JSONL file as soon as it is over.

A crash loses only the episodes in progress. An interrupted recording can be resumed: the episodes in the file are not
played again, but for those that were not judged. ``run.json`` beside ``run.jsonl`` says how it was made. Not covered:
how episodes are played (`toolorchestra.envs.run_episodes`).
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.records.failures import FailureCounts
from toolorchestra.envs.records.unjudged import unjudged_error, unjudged_reason
from toolorchestra.toolscale.common.append_only import AppendOnly
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.float_sums import float_sum
from toolorchestra.toolscale.common.intervals import wilson_interval
from toolorchestra.toolscale.common.urls import without_credentials
from toolorchestra.toolscale.common.writing import write_whole


class Recording:
    """A JSONL file of episodes that grows while they are played; it has one writer at a time.

    Args:
        file: The file.
        made_by: The options that the episodes are made with, all but their number; they are kept beside the file.
        resume: Continue the file if it exists; without this it must not exist. Episodes that were not judged leave it,
            to be played again.

    Attributes:
        done: Seeds of the episodes that the file held at the start and keeps.
        episodes: Those episodes.

    Raises:
        OptionError: The file exists and `resume` is not set, or it was made with other options.
        AppendingError: It is no file of episodes.
        OutputError: It cannot be written, or another process writes it.
    """

    def __init__(self, file: Path, made_by: Mapping[str, Any], *, resume: bool = False) -> None:
        self.file = file
        note = file.with_suffix(".json")
        made = msgspec.json.decode(without_credentials(msgspec.json.encode(made_by).decode()))
        if not resume and os.path.isfile(file) and os.path.getsize(file):
            raise OptionError(f"{file} is there already: give --resume to go on with it, or another --out.")
        self._lines = AppendOnly(file, Episode, "an episode", sync=False)
        try:
            before = msgspec.json.decode(note.read_bytes()) if self._lines.lines and note.exists() else made
            if before != made:
                differing = [key for key in {**made, **before} if before.get(key) != made.get(key)]
                was = ", ".join(f"{key} {before.get(key)!r}, now {made.get(key)!r}" for key in differing)
                raise OptionError(
                    f"{file} was recorded with other options ({was}): give the same options, or another --out."
                )
            write_whole(note, msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
            self.episodes = [episode for episode in self._lines.lines if unjudged_reason(episode) is None]
            if len(self.episodes) < len(self._lines.lines):
                self._lines.keep(self.episodes)
        except BaseException:
            self._lines.close()
            raise
        self.done = {episode.seed for episode in self.episodes}

    def write(self, episode: Episode) -> None:
        """Append an episode; it is in the file when this returns. An `OutputError` leaves the file as it was."""
        self._lines.add(episode)

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Tally:
    """Adds up episodes as they end.

    Attributes:
        failures: Why episodes failed.
        samples: Whether the judged episodes of each task are solved.
        rewards: Rewards of each agent in judged episodes, where there are several agents.
    """

    def __init__(self, episodes: Iterable[Episode]) -> None:
        self.outcomes: Counter[str] = Counter()
        self.reasons: list[str | None] = []
        self.levels: dict[int, Counter[bool]] = {}
        self.cost = self.clock = self.own_cost = self.own_clock = 0.0
        self.turns = self.calls = 0
        self.failures = FailureCounts()
        self.samples: dict[str, list[bool]] = {}
        self.rewards: dict[str, list[float]] = {}
        for episode in episodes:
            self.add(episode)

    def add(self, episode: Episode) -> None:
        """Count an episode."""
        self.outcomes[str(episode.outcome)] += 1
        self.reasons.append(unjudged_reason(episode))
        self.cost += episode.cost
        self.clock += episode.clock
        self.own_cost += float_sum(turn.cost for turn in episode.turns)
        self.own_clock += float_sum(turn.seconds for turn in episode.turns)
        self.turns += len(episode.turns)
        self.calls += sum(1 for _ in episode.calls)
        self.failures.add(episode)
        if episode.reward is not None:
            if len(episode.agents) > 1:
                for agent, reward in episode.rewards.items():
                    self.rewards.setdefault(agent, []).append(reward)
            self.samples.setdefault(episode.task_id, []).append(episode.outcome == "solved")
            self.levels.setdefault(episode.difficulty, Counter())[episode.outcome == "solved"] += 1

    @property
    def judged(self) -> int:
        """Episodes solved or failed: those that no error ended."""
        return self.outcomes["solved"] + self.outcomes["failed"]

    @property
    def share(self) -> float:
        """Share of the judged episodes that are solved; NaN without any."""
        return self.outcomes["solved"] / self.judged if self.judged else math.nan

    def summary(self) -> dict[str, Any]:
        """Return the totals and means; ``own_…`` are the parts of the agents' own messages.

        ``success`` is the share of the judged episodes, ``success_of_all`` that of all; ``unjudged`` says what is wrong
        if too many were left out.
        """
        count = max(1, self.outcomes.total())
        return {
            "episodes": self.outcomes.total(),
            "outcomes": dict(self.outcomes),
            "judged": self.judged,
            "success": self.share,
            "success_of_all": self.outcomes["solved"] / self.outcomes.total() if self.reasons else math.nan,
            "unjudged": unjudged_error(self.reasons),
            "interval": wilson_interval(self.outcomes["solved"], self.judged),
            "by_difficulty": {
                level: {"episodes": counts.total(), "solved": counts[True]}
                for level, counts in sorted(self.levels.items())
            },
            "turns": self.turns / count,
            "calls": self.calls / count,
            "cost": self.cost / count,
            "clock": self.clock / count,
            "own_cost": self.own_cost / count,
            "own_clock": self.own_clock / count,
            "failures": self.failures.summary(),
            "rewards": {agent: sum(rewards) / len(rewards) for agent, rewards in self.rewards.items()},
        }
