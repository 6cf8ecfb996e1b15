"""Episodes played by several workers: `run_units` yields them in the order of their starts, whoever played them.

Workers keep their environments from unit to unit. Not covered: how episodes of one process are played
(`toolorchestra.envs.run_episodes`) and how workers are run (`toolorchestra.toolscale.workers`).
"""

from __future__ import annotations

import functools
import operator
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from toolorchestra.agents.chat.base import Usage
from toolorchestra.agents.policies.base import Policy
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.run_episodes import EnvPool, MakeEnv, MakePolicy, run_episodes, run_policies
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.workers.units import Executor, InProcess, Unit

Makers = tuple[MakeEnv, MakePolicy]
"""What makes an environment, and what makes a policy: the first arguments of `run_episodes`."""

_MAX_EPISODES = 64  # of a unit: some ten milliseconds of scripted policies
_WAVES = 4  # of a unit whose episodes wait for a model: as many episodes as are in progress, so many times


def run_units(
    executor: Executor,
    name: str,
    setup: Callable[[], Makers],
    starts: Sequence[EpisodeStart],
    *,
    in_flight: int = 1,
    spent: Callable[[Usage], object] = lambda usage: None,
) -> Iterator[Episode]:
    """Yield the episodes that begin with `starts`, played by the workers of an executor, in the order of `starts`.

    Their bytes are those of `run_episodes` in one process, one episode at a time. With `InProcess` this is
    `run_episodes`, which yields each episode when it is over.

    Args:
        executor: Does the units.
        name: What the episodes are, for messages: e.g. the environment and the policy.
        setup: A picklable function, called once in each worker, that returns the first arguments of `run_episodes`.
        starts: How the episodes begin.
        in_flight: Maximum number of episodes in progress at a time, over all workers (at least one in each).
        spent: Called with what the policy's model has used for a part of the episodes.

    Raises:
        ExpertError: The policy's model cannot be reached at all.
        WorkerError: Workers end again and again.
    """
    if isinstance(executor, InProcess):
        make_env, make_policy = setup()
        yield from run_episodes(make_env, make_policy, starts, in_flight=in_flight)
        spent(_usage(make_policy()))
        return
    share = -(-in_flight // executor.workers)
    size = min(_WAVES * share if share > 1 else _MAX_EPISODES, -(-len(starts) // (8 * executor.workers)))
    size = max(share, size)
    packed = pickle.dumps(setup)
    parts = (starts[first : first + size] for first in range(0, len(starts), size))
    units = (
        Unit((name, f"seeds {part[0].seed} to {part[-1].seed}"), _run_unit, (packed, part, share)) for part in parts
    )
    for played, usage in executor.run(units):
        yield from played
        spent(usage)


@functools.lru_cache(maxsize=1)
def _kept(setup: bytes) -> tuple[EnvPool, MakePolicy]:
    """Return the environments of a worker, and what makes its policies."""
    make_env, make_policy = pickle.loads(setup)()
    return EnvPool(make_env), make_policy


def _run_unit(setup: bytes, starts: Sequence[EpisodeStart], in_flight: int) -> tuple[list[Episode], Usage]:
    """Play a unit, in a worker: return the records in the order of `starts`, and what the policy's model has used."""
    envs, make_policy = _kept(setup)
    before = _usage(make_policy())
    found = {run.number: run.episode for run in run_policies(envs, make_policy, starts, in_flight=in_flight)}
    for env in envs.idle:
        env.close()  # what it holds; it can be reset again
    return [found[number] for number in range(len(starts))], _combined(operator.sub, _usage(make_policy()), before)


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
