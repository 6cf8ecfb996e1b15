"""MSARL: a reasoner that writes code, and helpers that read its output (MSARL §3.2), as PettingZoo environments.

`env`, `raw_env` and `parallel_env` are as in PettingZoo's own modules; `toolorchestra.envs.make_multiagent` makes
environments by id. In the parallel form every step is one message of the current agent; what the others send is
ignored.

`single_env` is the view of one agent, for learners of one agent: ``gymnasium.make("MSARLSingle-Math-v0")``.
"""

from __future__ import annotations

import random
from typing import Any

from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import turn_based_aec_to_parallel
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from toolorchestra.envs.msarl.env import MSARLEnv
from toolorchestra.envs.msarl.play import REASONER
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.views import SingleAgentEnv
from toolorchestra.envs.task_source import TaskSource

__all__ = ["MSARLEnv", "env", "parallel_env", "random_message", "raw_env", "single_env"]


def raw_env(source: str | TaskSource | None = "Math", **options: Any) -> MSARLEnv:
    """Return the environment itself; see `MSARLEnv` for its options."""
    return MSARLEnv(source, **options)


def env(source: str | TaskSource | None = "Math", **options: Any) -> AECEnv[str, str, str]:
    """Return the environment in PettingZoo's wrapper that enforces the order of calls."""
    return OrderEnforcingWrapper(raw_env(source, **options))


def parallel_env(source: str | TaskSource | None = "Math", **options: Any) -> ParallelEnv[str, str, str]:
    """Return the environment with PettingZoo's parallel interface."""
    return turn_based_aec_to_parallel(env(source, **options))


def single_env(source: str | TaskSource | None = "Math", **options: Any) -> SingleAgentEnv:
    """Return the reasoner's view without helpers: one agent that reasons with code, and reads raw output.

    With ``max_calls=0`` it is one agent that reasons in text alone. These are the paper's baselines for two agents.
    """
    return SingleAgentEnv(raw_env(source, helpers="none", **options), REASONER, {})


def random_message(env: MultiAgentEnv, rng: random.Random) -> str:
    """Return a random well-formed message, so that random play reaches every rule."""
    number = rng.randint(0, 99)
    block = f"```{rng.choice(list(env.play.tools))}\n{number} + {rng.randint(0, 99)}\n```"
    return rng.choice((block, block, rf"\boxed{{{number}}}", f"It may be {number}."))


def __dir__() -> list[str]:
    return __all__
