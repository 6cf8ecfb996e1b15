"""Solvers for the filter *unsolved in pass@k*: policies that play a task of a domain just built.

An oracle with injected errors shows that a task can be played at all. Simulated experts of two strengths, asked at
every step and followed, show how hard it is. None needs a model; one that does is `toolorchestra synth domain --solver
llm`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from toolorchestra.agents.policies.base import Policy
    from toolorchestra.toolscale.domain import Domain
    from toolorchestra.toolscale.requests.filters import Solver
    from toolorchestra.toolscale.tasks.task import Task

SolverName = Literal["noisy-oracle", "strong-expert", "weak-expert"]
EXPERTS = {"strong-expert": "gpt-5", "weak-expert": "llama-3.1-8b"}
"""The simulated experts that are asked, by solver."""


@contextmanager
def task_solver(name: SolverName, folder: Path) -> Iterator[Solver]:
    """Yield a solver by name, which plays the domain in `folder`."""
    from toolorchestra.agents.policies.registry import make_policy

    if name in EXPERTS:
        expert = EXPERTS[name]
        options = {"tools": "full", "tool_config": "training"}
        with solving(folder, lambda seed: make_policy("direct", seed=seed, expert=expert), **options) as solver:
            yield solver
    else:
        with solving(folder, lambda seed: make_policy(name, seed=seed)) as solver:
            yield solver


@contextmanager
def solving(folder: Path, policy: Callable[[int], Policy], **options: Any) -> Iterator[Solver]:
    """Yield a function that has a policy play a task of the domain in `folder` and returns whether it solved it.

    Args:
        folder: The domain.
        policy: Makes the policy from the attempt's seed.
        options: Further arguments of the environment.
    """
    import gymnasium

    from toolorchestra.agents.policies.base import play_episode
    from toolorchestra.envs.base import OrchestrationEnv

    made = gymnasium.make("ToolOrchestra-Custom-v0", domain=str(folder), disable_env_checker=True, **options)
    env = made.unwrapped
    assert isinstance(env, OrchestrationEnv)

    def solves(domain: Domain, task: Task, seed: int) -> bool:
        play_episode(env, policy(seed), seed=seed, options={"split": "all", "task_id": task.id})
        return env.episode.outcome == "solved"

    try:
        yield solves
    finally:
        env.close()
