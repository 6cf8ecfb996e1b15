"""Dialogue: a user with a goal and an orchestrator that has to ask for facts, as PettingZoo environments.

`env`, `raw_env` and `parallel_env` are as in PettingZoo's own modules; `toolorchestra.envs.make_multiagent` makes
environments by id. In the parallel form every step is one message of the current agent; what the other sends is
ignored.

`single_env` is the orchestrator's view, in which the user follows a script, for learners of one agent:
``gymnasium.make("DialogueSingle-Restaurant-v0")``.
"""

from __future__ import annotations

import random
from typing import Any

from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import turn_based_aec_to_parallel
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from toolorchestra.agents.policies.base import write_calls
from toolorchestra.envs.dialogue.env import DialogueEnv
from toolorchestra.envs.dialogue.scenario import ORCHESTRATOR, STOP, USER
from toolorchestra.envs.dialogue.user import ChatUser, ScriptedUser
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.views import Partner, SingleAgentEnv
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.toolscale.task import Call

__all__ = ["ChatUser", "DialogueEnv", "ScriptedUser", "env", "parallel_env", "random_message", "raw_env", "single_env"]


def raw_env(source: str | TaskSource | None = "Restaurant", **options: Any) -> DialogueEnv:
    """Return the environment itself; see `DialogueEnv` for its options."""
    return DialogueEnv(source, **options)


def env(source: str | TaskSource | None = "Restaurant", **options: Any) -> AECEnv[str, str, str]:
    """Return the environment in PettingZoo's wrapper that enforces the order of calls."""
    return OrderEnforcingWrapper(raw_env(source, **options))


def parallel_env(source: str | TaskSource | None = "Restaurant", **options: Any) -> ParallelEnv[str, str, str]:
    """Return the environment with PettingZoo's parallel interface."""
    return turn_based_aec_to_parallel(env(source, **options))


def single_env(
    source: str | TaskSource | None = "Restaurant", *, user: Partner | None = None, **options: Any
) -> SingleAgentEnv:
    """Return the orchestrator's view; the user is a `ScriptedUser` unless another one is given."""
    return SingleAgentEnv(raw_env(source, **options), ORCHESTRATOR, {USER: user or ScriptedUser()})


def random_message(env: MultiAgentEnv, rng: random.Random) -> str:
    """Return a random message, so that random play reaches every rule."""
    tool = rng.choice(list(env.play.tools))
    call = write_calls([rng.choice([*env.task.reference_calls, Call(tool, {})])])
    if env.agent_selection == USER:
        return rng.choice((env.task.instruction, f"It is {rng.randint(0, 99)}.", call, "", f"Goodbye. {STOP}"))
    return rng.choice(
        (call, call, "For which date is it?", f"Please do {tool}().", env.task.answer, "Everything is done.")
    )


def __dir__() -> list[str]:
    return __all__
