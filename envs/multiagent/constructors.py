"""The constructors that PettingZoo's modules have: `env` and `parallel_env`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import turn_based_aec_to_parallel
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from toolorchestra.envs.multiagent.base import MultiAgentEnv

P = ParamSpec("P")


def constructors(
    raw_env: Callable[P, MultiAgentEnv],
) -> tuple[Callable[P, AECEnv[str, str, str]], Callable[P, ParallelEnv[str, str, str]]]:
    """Return `env` and `parallel_env`, which take the arguments of `raw_env`.

    `env` makes the environment in PettingZoo's wrapper that enforces the order of calls, `parallel_env` with
    PettingZoo's parallel interface: every step is one message of the current agent, and what the others send is
    ignored.
    """

    def env(*args: P.args, **kwargs: P.kwargs) -> AECEnv[str, str, str]:
        """Make the environment, in PettingZoo's wrapper that enforces the order of calls; arguments as of `raw_env`."""
        return OrderEnforcingWrapper(raw_env(*args, **kwargs))

    def parallel_env(*args: P.args, **kwargs: P.kwargs) -> ParallelEnv[str, str, str]:
        """Make the environment with PettingZoo's parallel interface; arguments as of `raw_env`.

        Every step is one message of the current agent, and what the others send is ignored.
        """
        return turn_based_aec_to_parallel(env(*args, **kwargs))

    return env, parallel_env
