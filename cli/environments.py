"""Environments as commands need them, by the names that `toolorchestra.envs.environment_names` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolorchestra.toolscale.common.errors import OptionError

if TYPE_CHECKING:
    from toolorchestra.envs.base import OrchestrationEnv
    from toolorchestra.envs.multiagent.views import CurrentAgentEnv
    from toolorchestra.envs.task_source import TaskSource
    from toolorchestra.toolscale.domain import Domain
    from toolorchestra.toolscale.tasks.task import Task


def environment(name: str, **options: Any) -> OrchestrationEnv:
    """Make an environment of one agent with these arguments, without wrappers.

    Raises:
        OptionError: It has several agents, is not of this library, or does not take these arguments.
    """
    from toolorchestra.envs.base import OrchestrationEnv
    from toolorchestra.envs.environment_names import make_named
    from toolorchestra.envs.registration import is_multiagent

    if is_multiagent(name):
        raise OptionError(
            f"{name} has several agents, and this command is for environments of one. For such environments there "
            "are `envs`, `rollout --policy llm|random|null`, `show`, `synth select`, `validate` and `train`."
        )
    env = make_named(name, **options).unwrapped
    if not isinstance(env, OrchestrationEnv):
        raise OptionError(f"{name} is no environment of this library with text in and out but {type(env).__name__}.")
    return env


def playable(name: str, **options: Any) -> OrchestrationEnv | CurrentAgentEnv:
    """Make what one policy can play: an environment of one agent, or the current agent's part of one of several."""
    from toolorchestra.envs.multiagent.views import CurrentAgentEnv
    from toolorchestra.envs.registration import is_multiagent, make_multiagent

    if is_multiagent(name):
        return CurrentAgentEnv(make_multiagent(name, **options))
    return environment(name, **options)


def task_source(name: str, **options: Any) -> TaskSource:
    """Return where the tasks of an environment come from, of one agent or of several."""
    return playable(name, **options).source


def domains_of(name: str) -> list[tuple[Domain, list[Task]]]:
    """Return the domains in which an environment's tasks take place, each with those tasks."""
    from toolorchestra.toolscale.domain import Domain

    source = task_source(name)
    found: dict[str, tuple[Domain, list[Task]]] = {}
    for task in source.tasks("all"):
        world = source.world(task)
        if isinstance(world, Domain):
            found.setdefault(world.name, (world, []))[1].append(task)
    if not found:
        raise OptionError(f"Expected an environment whose tasks take place in domains; {name} has none.")
    return list(found.values())
