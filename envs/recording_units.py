"""Episodes played by several workers: `play_units` yields them in the order of their resets, whoever played them.

Workers keep their environments and policies from unit to unit. Not covered: how episodes of one process are played
(`toolorchestra.envs.playing`) and how workers are run (`toolorchestra.toolscale.workers`).
"""

from __future__ import annotations

import functools
import operator
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium
import msgspec

from toolorchestra.agents.chat.base import Usage
from toolorchestra.agents.policies.base import Policy
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.envs.playing import play_many
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.workers.units import Executor, InProcess, Unit

Players = tuple[Callable[[], gymnasium.Env[Any, Any]], Callable[[], Policy]]
"""What makes an environment, and what makes a policy: the first arguments of `play_many`."""

_MAX_EPISODES = 64  # of a unit: some ten milliseconds of scripted policies
_WAVES = 4  # of a unit whose episodes wait for a model: as many episodes as are in progress, so many times


def play_units(
    executor: Executor,
    name: str,
    setup: Callable[[], Players],
    resets: Sequence[EpisodeStart],
    *,
    in_flight: int = 1,
    spent: Callable[[Usage], object] = lambda usage: None,
) -> Iterator[Episode]:
    """Yield the episodes that begin with `resets`, played by the workers of an executor, in the order of `resets`.

    Their bytes are those of `play_many` in one process, one episode at a time. With `InProcess` this is `play_many`,
    which yields each episode when it is over.

    Args:
        executor: Does the units.
        name: What the episodes are, for messages: e.g. the environment and the policy.
        setup: A picklable function, called once in each worker, that returns the first arguments of `play_many`.
        resets: How the episodes begin.
        in_flight: Maximum number of episodes in progress at a time, over all workers (at least one in each).
        spent: Called with what the policy's model has used for a part of the episodes.

    Raises:
        ExpertError: The policy's model cannot be reached at all.
        WorkerError: Workers end again and again.
    """
    if isinstance(executor, InProcess):
        make_env, make_policy = setup()
        yield from play_many(make_env, make_policy, resets, in_flight=in_flight)
        spent(_usage(make_policy()))
        return
    share = -(-in_flight // executor.workers)
    size = min(_WAVES * share if share > 1 else _MAX_EPISODES, -(-len(resets) // (8 * executor.workers)))
    size = max(share, size)
    packed = pickle.dumps(setup)
    parts = (resets[start : start + size] for start in range(0, len(resets), size))
    units = (
        Unit((name, f"seeds {part[0].seed} to {part[-1].seed}"), _play_unit, (packed, part, share)) for part in parts
    )
    for played, usage in executor.run(units):
        yield from played
        spent(usage)


class _Kept:
    """The environments and policies of a worker; each unit begins with the same ones."""

    def __init__(self, players: Players) -> None:
        self._make_env, self.make_policy = players
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._taken = 0

    def begin(self) -> None:
        """Begin a unit."""
        self._taken = 0

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """Return the next environment, made if need be; one that was closed can be reset again."""
        self._taken += 1
        if self._taken > len(self._envs):
            self._envs.append(self._make_env())
        return self._envs[self._taken - 1]


@functools.lru_cache(maxsize=1)
def _kept(setup: bytes) -> _Kept:
    return _Kept(pickle.loads(setup)())


def _play_unit(setup: bytes, resets: Sequence[EpisodeStart], in_flight: int) -> tuple[list[Episode], Usage]:
    """Play a unit, in a worker: return the records in the order of `resets`, and what the policy's model has used."""
    kept = _kept(setup)
    kept.begin()
    before = _usage(kept.make_policy())
    found = {one.seed: one for one in play_many(kept.make_env, kept.make_policy, resets, in_flight=in_flight)}
    after = _usage(kept.make_policy())
    return [found[reset.seed] for reset in resets], _combined(operator.sub, after, before)


def _usage(policy: Policy) -> Usage:
    """Return what the model of a policy has used so far; the model is the same for all policies of a process."""
    return policy.model.meter.usage if isinstance(policy, ChatPolicy) else Usage()


@contextmanager
def closing_model(policy: Policy) -> Iterator[None]:
    """Close the connections of a policy's model at the end, if it has a model with some."""
    try:
        yield
    finally:
        if close := getattr(getattr(policy, "model", None), "close", None):
            close()


def total_usage(parts: Iterable[Usage]) -> Usage:
    """Return the sum of what was used for parts of the episodes."""
    return functools.reduce(functools.partial(_combined, operator.add), parts, Usage())


def _combined(how: Callable[[Any, Any], Any], one: Usage, other: Usage) -> Usage:
    return Usage(*map(how, msgspec.structs.astuple(one), msgspec.structs.astuple(other)))
