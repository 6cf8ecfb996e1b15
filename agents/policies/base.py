"""The contract of policies, and playing an episode with one.

Batched policies of models under training are in `toolorchestra.algos.rollout.engine`.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import gymnasium
import msgspec

from toolorchestra.toolscale.tasks.task import Call

Info = Mapping[str, Any]


def write_calls(calls: Iterable[Call], text: str = "") -> str:
    """Return a message that makes `calls`, in the Hermes syntax.

    >>> write_calls([Call("get_dish", {"dish_id": "D07"})])
    '<tool_call>{"name":"get_dish","arguments":{"dish_id":"D07"}}</tool_call>'
    """
    blocks = (msgspec.json.encode({"name": call.name, "arguments": call.arguments}).decode() for call in calls)
    return text + "\n".join(f"<tool_call>{block}</tool_call>" for block in blocks)


class Policy(ABC):
    """Plays episodes, one at a time: `reset` begins one, `act` answers each observation with an action.

    Args:
        seed: Seed of everything random, with the task and the episode's seed (or the number of episodes played before).

    Attributes:
        privileged: Whether it reads what an orchestrator cannot see.
        may_block: Whether `act` may wait, such as for a server. It then runs in a thread, and other episodes go on.
    """

    privileged: ClassVar[bool] = False
    may_block: ClassVar[bool] = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.rng = random.Random(seed)

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode that `env` has just been reset to."""
        episode = getattr(env.unwrapped, "episode", None)
        number = self.rng.random() if episode is None or episode.seed is None else episode.seed
        self.rng = random.Random(f"{self.seed}:{info['task_id']}:{number}")

    @abstractmethod
    def act(self, observation: str, info: Info) -> Any:
        """Return the action that follows `observation`: text, or structured calls."""


class FunctionPolicy(Policy):
    """A function of an observation and its info as a policy; it may wait for a server.

    The info has the ``messages`` so far and the ``tools`` in the format of OpenAI, in every turn.

    Attributes:
        function: The function. What it raises ends the rollout, but for an `ExpertError`, which gives its episode up.
    """

    function: ClassVar[Callable[[str, Info], Any]]
    may_block = True

    def act(self, observation: str, info: Info) -> Any:
        """Return the action that follows `observation`."""
        return type(self).function(observation, info)


def play_episode(env: gymnasium.Env[Any, Any], policy: Policy, **reset: Any) -> dict[str, Any]:
    """Play one episode to its end and return the last info; the record is ``env.unwrapped.episode``.

    `reset` has the arguments of `env.reset`: ``seed``, ``options``.
    """
    observation, info = env.reset(**reset)
    policy.reset(env, observation, info)
    while True:
        observation, _, terminated, truncated, info = env.step(policy.act(observation, info))
        if terminated or truncated:
            return info
