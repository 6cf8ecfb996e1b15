"""TMATR: a tree of atomic actions of a planner and an inferencer, as PettingZoo environments.

`env`, `raw_env` and `parallel_env` are as in PettingZoo's own modules; `toolorchestra.envs.make_multiagent` makes
environments by id. In the parallel form every step is one message of the current agent; what the others send is
ignored.

`single_env` has one agent for all actions and is a Gymnasium environment: ``gymnasium.make("TMATRSingle-Math-v0")``.
"""

from __future__ import annotations

import random
from typing import Any

from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import turn_based_aec_to_parallel
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.views import SingleAgentEnv
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.envs.tmatr.actions import BRANCHES, Action
from toolorchestra.envs.tmatr.env import TMATREnv
from toolorchestra.envs.tmatr.play import TMATRPlay

__all__ = ["TMATREnv", "env", "parallel_env", "random_message", "raw_env", "single_env"]


def raw_env(source: str | TaskSource | None = "Math", **options: Any) -> TMATREnv:
    """Return the environment itself; see `TMATREnv` for its options."""
    return TMATREnv(source, **options)


def env(source: str | TaskSource | None = "Math", **options: Any) -> AECEnv[str, str, str]:
    """Return the environment in PettingZoo's wrapper that enforces the order of calls."""
    return OrderEnforcingWrapper(raw_env(source, **options))


def parallel_env(source: str | TaskSource | None = "Math", **options: Any) -> ParallelEnv[str, str, str]:
    """Return the environment with PettingZoo's parallel interface."""
    return turn_based_aec_to_parallel(env(source, **options))


def single_env(source: str | TaskSource | None = "Math", **options: Any) -> SingleAgentEnv:
    """Return the environment with one agent for all actions, as a Gymnasium environment."""
    inner = raw_env(source, **({"roles": "single"} | options))
    return SingleAgentEnv(inner, inner.possible_agents[0], {})


def random_message(env: MultiAgentEnv, rng: random.Random) -> str:
    """Return a random message, mostly well-formed, so that random play reaches every rule."""
    play = env.play
    assert isinstance(play, TMATRPlay)
    number = rng.randint(0, 99)
    if rng.random() < 0.1:
        return f"It may be {number}."
    match play.action:
        case Action.DECIDE:
            return f"<ACTION>{rng.choice(BRANCHES)}</ACTION>\n<GOAL>Find {number}.</GOAL>"
        case Action.SELECT:
            return f"<REASON>Why not?</REASON>\n<SELECTED_TOOL>{rng.choice(list(play.tools))}</SELECTED_TOOL>"
        case Action.PLAN:
            return f"<REASONING_STEPS>\nStep 1: Think of {number}.\n</REASONING_STEPS>"
        case Action.EXECUTE:
            return f"<TOOL_INPUT>\n{number} + {rng.randint(0, 99)}\n</TOOL_INPUT>"
        case _:
            answer = rf"<ANSWER>\boxed{{{number}}}</ANSWER>" if rng.random() < 0.5 else ""
            return f"<THINK>\nStep 1: {number}.\n</THINK>{answer}"


def __dir__() -> list[str]:
    return __all__
