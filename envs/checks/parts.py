"""Checks done by several workers: the long ones in parts, each of the others by one worker.

The findings are those of one process. `toolorchestra.envs.checks.environment.check_environment` uses this.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from toolorchestra.envs.checks.one_agent import CHECKS, DIVIDED, Subject
from toolorchestra.envs.checks.other_processes import packed_for_others
from toolorchestra.envs.checks.report import CheckResult, Finding, Progress, run_check
from toolorchestra.envs.checks.several_agents import check_multiagent
from toolorchestra.toolscale.workers.units import Executor, Unit

_PARTS = 4  # parts of a check for each worker, so that all end at about the same time


class _Part(NamedTuple):
    """What a worker found: the result of a whole check, or that a part of one ran, with its value."""

    result: CheckResult
    value: Any = None


def check_in_parts(executor: Executor, subject: Subject, wanted: Sequence[str]) -> tuple[CheckResult, ...]:
    """Return the results of checks of an environment of one agent, done by workers.

    Raises:
        OptionError: An argument of the environment cannot be sent to workers.
    """
    work = packed_for_others(subject.env_id, subject.kwargs, subject.seed, subject.random_episodes, subject.hostile)
    todo: list[tuple[str, range | None]] = [(name, None) for name in wanted if name not in DIVIDED]  # the long ones
    for name in wanted:
        if name in DIVIDED:
            size = DIVIDED[name].size(subject)
            step = max(1, -(-size // (_PARTS * executor.workers)))
            todo += [(name, range(first, min(size, first + step))) for first in range(0, size, step)]
    units = (Unit((subject.env_id, "check", name, part or ""), _check_part, (work, name, part)) for name, part in todo)
    found: dict[str, list[_Part]] = {name: [] for name in wanted}
    for number, ((name, _), part) in enumerate(zip(todo, executor.run(units), strict=True), 1):
        found[name].append(part)
        subject.checking = "checks"
        subject.tick(number, len(todo))
    return tuple(_result(subject, name, found[name]) for name in wanted)


def _result(subject: Subject, name: str, parts: Sequence[_Part]) -> CheckResult:
    """Return the result of a check that was done whole or in parts."""
    if name not in DIVIDED:
        return parts[0].result
    broken = next((part.result for part in parts if part.result.verdict == "fail"), None)
    values = [part.value for part in parts]
    result = broken or run_check(name, functools.partial(DIVIDED[name].finding, subject, values))
    seconds = result.seconds + sum(part.result.seconds for part in parts if part.result is not broken)
    return msgspec.structs.replace(result, seconds=round(seconds, 3))


@functools.lru_cache(maxsize=1)
def _subject(work: bytes) -> Subject:
    """Return the environment under test; a worker keeps it for its next part."""
    return Subject(*pickle.loads(work))


def _check_part(work: bytes, name: str, part: range | None) -> _Part:
    """Do a check, or a part of it, in a worker."""
    subject = _subject(work)
    subject.checking = name
    if part is None:
        return _Part(run_check(name, functools.partial(CHECKS[name], subject)))
    values: list[Any] = []

    def check() -> Finding:
        values.append(DIVIDED[name].part(subject, part))
        return Finding("pass", "")

    return _Part(run_check(name, check), *values)


def check_multiagent_in_parts(
    executor: Executor, env_id: str, wanted: Sequence[str], seed: int, progress: Progress | None, options: Any
) -> tuple[CheckResult, ...]:
    """Return the results of checks of an environment with several agents, each done by one worker."""
    work = packed_for_others(env_id, seed, options)
    results = []
    units = (Unit((env_id, "check", name), _check_several, (work, name)) for name in wanted)
    for number, result in enumerate(executor.run(units), 1):
        results.append(result)
        if progress is not None:
            progress("checks", number, len(wanted))
    return tuple(results)


def _check_several(work: bytes, name: str) -> CheckResult:
    env_id, seed, options = pickle.loads(work)
    return check_multiagent(env_id, checks=[name], seed=seed, **options).results[0]
