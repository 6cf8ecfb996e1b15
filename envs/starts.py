"""Where episodes begin: environments made by name, and the resets that start an episode of each task of a split."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym

from toolorchestra.envs.environment_names import make_named
from toolorchestra.toolscale.common.errors import OptionError


def make_env(name: str, options: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Return an environment by its name: an id, the folder of a domain, or a file of tasks.

    Options may come from a command line: see `json_or_text`.
    """
    return make_named(name, **{option: json_or_text(value) for option, value in options.items()})


def json_or_text(value: Any) -> Any:
    """Return the value of a text from a command line if it is JSON, else what was given."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


@dataclass(frozen=True)
class EpisodeStart:
    """How an episode begins: the seed and the options of a reset.

    >>> EpisodeStart(3, {"split": "test"}).arguments
    {'seed': 3, 'options': {'split': 'test'}}
    """

    seed: int | None = None
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `reset`."""
        return {"seed": self.seed, "options": self.options or None}

    def another(self, rng: random.Random) -> EpisodeStart:
        """Return a start of the same task with another seed; a start that is nothing but a seed stays as it is."""
        return replace(self, seed=rng.getrandbits(31)) if self.options else self


def starts(
    env: gym.Env[Any, Any], split: str, levels: Sequence[int], count: int = 256
) -> dict[int, list[EpisodeStart]]:
    """Return the starts of a split by difficulty level; an `OptionError` if it has no task of these levels.

    An environment with a task source gives one start per task. Any other is started by seed (all of level 0):
    `count` seeds, and different ones for each split.
    """
    source = getattr(env.unwrapped, "source", None)
    if source is None:
        first = 1_000_000 * (1 + sorted(("train", "test", "test_intents", split)).index(split))
        return {0: [EpisodeStart(first + n) for n in range(count)]}
    found: dict[int, list[EpisodeStart]] = {}
    for task in source.tasks(split):
        if not levels or task.difficulty in levels:
            found.setdefault(task.difficulty, []).append(EpisodeStart(0, {"task_id": task.id}))
    if not found:
        there = sorted({task.difficulty for task in source.tasks(split)})
        raise OptionError(
            f"{source.name} has no task of split {split!r} with difficulty {list(levels)}; it has {there}."
        )
    return dict(sorted(found.items()))
