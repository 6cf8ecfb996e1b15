"""Teachers: who demonstrates a protocol with several agents, and with which options of the environment.

A protocol whose environments can be taught has a module ``teacher`` beside its rules (`Teacher`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

import gymnasium as gym

from toolorchestra.agents.policies.base import Info, Policy
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.views import AgentView
from toolorchestra.envs.registration import protocol_module
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Task

_ENVIRONMENTS = "toolorchestra.envs."


class Teacher(Protocol):
    """What the module ``teacher`` of a protocol has, or the module of an environment itself.

    It may also have `options`, which returns options of the environment for how hard it is to be, from 0 to 1, and
    `GROWING`, the names of options that grow with the stages where they are given.
    """

    def knows(self, task: Task, /) -> bool:
        """Return whether it can teach a task."""

    def teach(self, play: Any, /) -> str:
        """Return the right message of the current agent."""

    def inject_error(self, play: Any, rng: random.Random, /) -> str:
        """Return a wrong message of the current agent, with always the same kind of error, if it can be made.

        So a small model learns two ways of deciding, and no misspelling.
        """


def teacher_of(env: MultiAgentEnv) -> Teacher:
    """Return the teacher of an environment that was made by its id; an `OptionError` if it has none.

    One of your own is taught by its module, or by the teacher of the protocol whose class it is.
    """
    own = (kind.__module__ for kind in type(env).__mro__ if kind.__module__.startswith(_ENVIRONMENTS))
    homes = dict.fromkeys((env.home, *(module.rpartition(".")[0] for module in own)))
    teacher = next((found for home in homes if home and (found := _teacher(import_module(home)))), None)
    if teacher is None:
        raise OptionError(
            f"{env.protocol} has no teacher, so nobody can demonstrate it: give models that can play it already "
            f"(`--model PATH`, without `--sft-steps`), recorded episodes, or a module {env.home}.teacher."
        )
    return teacher


class ViewTeacher(Policy):
    """The teacher of a protocol as the policy that acts in a view: for one agent, or for each in its turn."""

    privileged = True  # it reads the task

    def reset(self, env: gym.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode."""
        super().reset(env, observation, info)
        assert isinstance(env.unwrapped, AgentView), "it acts in a view"
        self._team = env.unwrapped.multi_agent_env
        self._teacher = teacher_of(self._team)

    def act(self, observation: str, info: Info) -> str:
        """Return the right message."""
        return self._teacher.teach(self._team.play)


def teacher_options(env_id: str, hardness: float = 1.0) -> dict[str, Any]:
    """Return the options with which a teacher teaches an environment: what its module returns in `options`, or none."""
    options: Callable[[float], dict[str, Any]] | None = getattr(_teacher(protocol_module(env_id)), "options", None)
    return options(hardness) if options else {}


def demonstration_options(env_id: str, given: Mapping[str, Any], hardness: float = 1.0) -> dict[str, Any]:
    """Return the options of demonstrations: the teacher's and those given.

    A number given for an option that grows with the stages (the noise of MSARL) is that of the last stage.
    """
    taught, last = teacher_options(env_id, hardness), teacher_options(env_id)
    growing: Sequence[str] = getattr(_teacher(protocol_module(env_id)), "GROWING", ())
    grown = {
        name: round(hardness * value)
        for name, value in given.items()
        if isinstance(value, int) and (name in growing or taught.get(name) != last.get(name))
    }
    return {**taught, **given, **grown}


def _teacher(home: ModuleType) -> Teacher | None:
    """Return an environment's own module if it can teach, or the module ``teacher`` of its package."""
    module: Any = home
    if not hasattr(home, "teach"):
        name = f"{home.__name__}.teacher"
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            return None
    teacher: Teacher = module
    return teacher
