"""Rollouts of training that a run keeps to be looked at: one group now and then, with tokens, mask and advantages.

They are lines of ``rollouts.jsonl`` in the folder of the run, which `toolorchestra view` shows. Nothing is learned from
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from toolorchestra.toolscale.common.writing import write_whole, writing

FILE = "rollouts.jsonl"


class KeptRollout(msgspec.Struct, frozen=True, omit_defaults=True):
    """The row that one agent was trained on.

    Attributes:
        step: The batch of rollouts, counted from 1.
        agent: Who wrote the ids under the mask.
        prompt_ids: Ids before the first that it wrote.
        completion_ids: All ids after, the environment's included.
        mask: 1 on the ids that it wrote and is trained on, 0 on the others.
        logprobs: Log-probability of each of its ids when drawn; 0 where the mask is 0.
        advantage: How much better it did than the others of its group.
        kept: Whether the filters let it pass; what they drop changes nothing.
        task_id: The task, where the row is of one whole episode.
        outcome: How that ended.
        reward: Its reward.
    """

    step: int
    agent: str
    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    advantage: float
    kept: bool = True
    task_id: str = ""
    outcome: str = ""
    reward: float | None = None


class RolloutKeeper:
    """Writes rollouts of every so many steps into the folder of a run, those of the first step among them.

    Args:
        folder: The folder.
        every: Steps between them; 0 keeps none.
    """

    def __init__(self, folder: Path, every: int) -> None:
        self.file, self.every = folder / FILE, every
        self._begun = False

    def wants(self, step: int) -> bool:
        """Return whether the rollouts of a step, counted from 1, are kept."""
        return self.every > 0 and (step - 1) % self.every == 0

    def write(self, step: int, rollouts: Iterable[KeptRollout]) -> None:
        """Append the rollouts of a step. Those of it and of later steps go, which a run wrote before it was resumed.

        Raises:
            OutputError: The file cannot be written.
        """
        with writing(self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            if not self._begun and self.file.exists():
                lines = self.file.read_bytes().splitlines(keepends=True)
                write_whole(self.file, b"".join(line for line in lines if _is_before(line, step)))
            self._begun = True
            with self.file.open("ab") as stream:
                stream.writelines(msgspec.json.encode(rollout) + b"\n" for rollout in rollouts)


class _Step(msgspec.Struct):
    step: int


def _is_before(line: bytes, step: int) -> bool:
    """Return whether a line is a rollout of an earlier step; one that was cut short is not."""
    try:
        return line.endswith(b"\n") and msgspec.json.decode(line, type=_Step).step < step
    except msgspec.DecodeError:
        return False
