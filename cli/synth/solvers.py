"""The filters of tasks, and solvers for *unsolved in pass@k*: policies that play a task of a domain just built.

An oracle with injected errors shows that a task can be played at all. Simulated experts of two strengths, asked at
every step and followed, show how hard it is. None needs a model; one that does is `toolorchestra synth domain --solver
llm`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from toolorchestra.agents.policies.base import Policy
    from toolorchestra.toolscale.domain import Domain
    from toolorchestra.toolscale.requests.filters import Report, Solver
    from toolorchestra.toolscale.tasks.task import Task

SolverName = Literal["noisy-oracle", "strong-expert", "weak-expert"]
EXPERTS = {"strong-expert": "gpt-5", "weak-expert": "llama-3.1-8b"}
"""The simulated experts that are asked, by solver."""


def filtered(
    domain: Domain,
    solvers: Iterable[tuple[str, AbstractContextManager[Solver]]],
    k: int,
    *,
    every: bool = False,
    unread: Path | None = None,
) -> tuple[list[Task], Report]:
    """Return the tasks that the filters keep and what they dropped, and show how far they are (see `apply_filters`).

    `unread` is the folder of a domain whose tasks nobody has read.
    """
    from toolorchestra.cli.display.console import progress_bars
    from toolorchestra.toolscale.requests.filters import apply_filters

    with ExitStack() as stack, progress_bars() as progress:
        bar = progress.add_task("", total=1, note="")
        found = apply_filters(
            domain,
            domain.tasks(),
            solvers={name: stack.enter_context(solver) for name, solver in solvers},
            k=k,
            every=every,
            guessers=None if unread is None else {"random": stack.enter_context(task_solver("random", unread))},
            progress=lambda name, done, total: progress.update(bar, description=name, completed=done, total=total),
        )
        progress.remove_task(bar)
    return found


@contextmanager
def task_solver(name: SolverName | Literal["random"], folder: Path) -> Iterator[Solver]:
    """Yield a solver by name, which plays the domain in `folder`."""
    from toolorchestra.agents.policies.registry import make_policy

    asked = {"expert": EXPERTS[name]} if name in EXPERTS else {}
    options = {"tools": "full", "tool_config": "training"} if asked else {}
    policy = "direct" if asked else name
    with solving(folder, lambda seed: make_policy(policy, seed=seed, **asked), **options) as solver:
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
