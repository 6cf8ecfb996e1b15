"""Checks of a whole environment: the properties that training on it relies on.

`check_environment` runs all checks on any environment of the library; ``toolorchestra validate`` does so in a terminal.
All checks run, even if one fails or raises. Not covered: speed, which ``benchmarks/`` measures.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from toolorchestra.envs.checks.one_agent import CHECKS, Subject
from toolorchestra.envs.checks.parts import check_in_parts, check_multiagent_in_parts
from toolorchestra.envs.checks.report import CheckReport, Progress, chosen_checks, run_check
from toolorchestra.envs.checks.several_agents import CHECKS as MULTIAGENT_CHECKS, check_multiagent
from toolorchestra.envs.registration import is_multiagent, make_multiagent
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.workers.units import Executor, InProcess


def check_environment(
    env_id: str,
    *,
    checks: Sequence[str] | None = None,
    random_episodes: int = 1000,
    hostile: int = 3000,
    seed: int = 0,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **make_kwargs: Any,
) -> CheckReport:
    """Check an environment of the library and return what was found.

    The checks are ``gymnasium`` (its own checker), ``determinism`` (same seed, options and actions, same bytes;
    across processes too), ``oracle`` (reference trajectories solve every task), ``null`` and ``random`` (policies that
    do not understand solve less than 1 %), ``snapshot`` (an episode that continues from a restored state equals the
    original), ``hostile`` (no action raises, or changes what a valid call would not), ``verifier`` (mutants judged
    failed, legitimate variants judged solved), ``wording`` (requests and answers read as people write; a failure
    only in domains of the library) and ``coverage`` (tools and splits in use; reported only). For an
    environment with several agents, see `toolorchestra.envs.checks.several_agents.check_multiagent`.

    Args:
        env_id: Id of an environment of the library, of one agent or several.
        checks: Names of the checks to run; None for all.
        random_episodes: Episodes of the random policy.
        hostile: Number of hostile actions.
        seed: Seed of everything random in the checks.
        progress: Called with the name of a check, its steps done and its steps in all.
        executor: Does the checks, and parts of the long ones, with its workers; the report is the same, but for times.
        make_kwargs: Arguments of the environment, e.g. ``domain`` for ``ToolOrchestra-Custom-v0``.

    Raises:
        UnknownNameError: There is no such check.
        OptionError: The environment is not one of the library.
    """
    fans_out = executor is not None and not isinstance(executor, InProcess)
    if is_multiagent(env_id):
        if executor is None or not fans_out:
            return check_multiagent(env_id, checks=checks, seed=seed, progress=progress, **make_kwargs)
        wanted = chosen_checks(checks, MULTIAGENT_CHECKS)
        make_multiagent(env_id, **make_kwargs).close()  # raises for wrong arguments, as below
        return CheckReport(env_id, check_multiagent_in_parts(executor, env_id, wanted, seed, progress, make_kwargs))
    wanted = chosen_checks(checks, CHECKS)
    for option, value in (("random_episodes", random_episodes), ("hostile", hostile)):
        if value < 1:
            raise OptionError(f"`{option}` must be at least 1, got {value}.")
    subject = Subject(env_id, make_kwargs, seed, random_episodes, hostile, progress)
    subject.make().close()  # raises for a wrong id or wrong arguments, which is the caller's error and not a finding
    if executor is not None and fans_out:
        return CheckReport(env_id, check_in_parts(executor, subject, wanted))
    results = []
    for name in wanted:
        subject.checking = name
        results.append(run_check(name, functools.partial(CHECKS[name], subject)))
    subject.env.close()
    return CheckReport(env_id, tuple(results))
