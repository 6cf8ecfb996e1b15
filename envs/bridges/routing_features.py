"""What a router sees: the features of a task, an episode and its experts, as numbers from 0 to 1.

Nothing of the ground truth is among them: the same request looks the same whatever its answer is.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolorchestra.agents.policies.expert_roles import Proposal, plurality, same_proposal
from toolorchestra.envs.rewards import COMPONENTS
from toolorchestra.toolscale.answers.mentions import tokens

_ASKED, _CALLS, _WORDS, _NUMBERS, _REPEATED = 4, 16, 400, 24, 8  # counts that are shown as 1
_OF_EXPERT = ("available", "price", "seconds", "asked", "agrees")
_BAR_WIDTH, _BAR_HEIGHT = 6, 96  # pixels
_BAR, _GROUND = np.array((63, 81, 181)), np.array((245, 245, 245))
_NUMBER_MARKS = "#@~"
"""First characters of the tokens that are numbers, dates and times."""


class Asked(NamedTuple):
    """An expert that was asked about the present step, and what it proposed."""

    expert: int
    proposed: Proposal | None


class Progress(NamedTuple):
    """How far an episode is: shares of its turns, money and time that are spent, calls made, and how the last ended."""

    turns: float
    cost: float
    clock: float
    calls: int
    last_failed: bool


class RoutingFeatures:
    """The features, in the order of `names`.

    Args:
        experts: Names of the experts.
        word_counts: Number of counts that words are hashed into.

    >>> features = RoutingFeatures(["ada"], 2)
    >>> features.names[:3], features.names[-5:]
    (('words', 'numbers', 'turns'), ('ada.available', 'ada.price', 'ada.seconds', 'ada.asked', 'ada.agrees'))
    """

    def __init__(self, experts: Sequence[str], word_counts: int) -> None:
        self._count, self._word_counts = len(experts), word_counts
        hashed = (f"word_{number}" for number in range(word_counts))
        of_episode = ("turns", "calls", "last_call_failed")
        left, proposed = ("budget_left", "time_left"), ("proposals", "agreement", "proposes_answer")
        each = (f"{name}.{feature}" for name in experts for feature in _OF_EXPERT)
        self.names: tuple[str, ...] = (
            "words", "numbers", *of_episode, *hashed, *left, *COMPONENTS, *proposed, *each,
        )  # fmt: skip

    def of_task(self, request: str) -> NDArray[np.float32]:
        """Return the features of a request: its words, its numbers, and counts of words."""
        read = tokens(request)
        words = [word for word in read if word[0] not in _NUMBER_MARKS]
        counts = np.zeros(self._word_counts, np.float32)
        for word in words if self._word_counts else ():
            counts[zlib.crc32(word.encode()) % self._word_counts] += 1 / _REPEATED
        shares = [len(words) / _WORDS, (len(read) - len(words)) / _NUMBERS]
        return np.concatenate([np.array(shares, np.float32), counts])

    def observation(
        self,
        task: NDArray[np.float32],
        experts: NDArray[np.float32],
        weights: Sequence[float],
        progress: Progress,
        asked: Sequence[Asked],
    ) -> NDArray[np.float32]:
        """Return all features.

        Args:
            task: Those of the request.
            experts: Whether each expert is there, its price and its time, shape ``(experts, 3)``.
            weights: Weights of outcome, compute and latency.
            progress: How far the episode is.
            asked: Who was asked about the present step.
        """
        leading = leading_proposal(asked)
        agree = [one.expert for one in asked if leading is not None and _agrees(one.proposed, leading)]
        of_episode = [progress.turns, progress.calls / _CALLS, float(progress.last_failed)]
        middle = [
            1.0 - progress.cost,
            1.0 - progress.clock,
            *weights,
            len(asked) / _CALLS,
            len(agree) / max(1, len(asked)),
            float(isinstance(leading, str)),
        ]
        each = np.zeros((self._count, len(_OF_EXPERT)), np.float32)
        each[:, :3] = experts
        for expert, count in Counter(one.expert for one in asked).items():
            each[expert, 3:] = count / _ASKED, expert in agree
        found = [task[:2], np.array(of_episode, np.float32), task[2:], np.array(middle, np.float32), each.ravel()]
        return np.concatenate(found).clip(0.0, 1.0)


def leading_proposal(asked: Sequence[Asked]) -> Proposal | None:
    """Return the most frequent proposal, the first one in a tie; None if there is none."""
    return plurality([one.proposed for one in asked if one.proposed is not None])


def _agrees(proposed: Proposal | None, leading: Proposal) -> bool:
    return proposed is not None and same_proposal(proposed, leading)


def picture(observation: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return a picture with a bar for each feature, shape ``(height, width, 3)``."""
    full = (observation * _BAR_HEIGHT).astype(int)
    filled = np.arange(_BAR_HEIGHT)[::-1, None] < full[None, :]
    colours = np.where(filled[:, :, None], _BAR, _GROUND).astype(np.uint8)
    return np.repeat(colours, _BAR_WIDTH, axis=1)
