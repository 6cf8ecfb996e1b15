"""A game of several agents as one policy plays it that speaks for all of them: whoever moves is the one observed.

So whatever plays a Gymnasium environment (`toolorchestra.envs.recording.play_many`, a `ChatPolicy`) can play a game of
several agents, each of whom still knows only its own history. Agents with policies of their own are
`toolorchestra.algos.rollout.multi_agent`'s, and one agent among fixed partners is
`toolorchestra.envs.multiagent.single`'s.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from toolorchestra.agents.policies.base import Policy
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.record import JointEpisode
from toolorchestra.envs.parsing import MAX_MESSAGE_CHARACTERS
from toolorchestra.envs.play import MAX_OBSERVATION_CHARACTERS
from toolorchestra.envs.sources.base import TaskSource
from toolorchestra.envs.spaces import UnicodeText


class CurrentAgentEnv(gymnasium.Env[str, str]):
    r"""A game in which one policy speaks for every agent, each in its turn.

    Observation and info are those of the agent to move (``info["agent"]``), with ``tools`` (none: what agents can call,
    they call in text). The reward is the team's, at the end.

    Args:
        game: The game.

    >>> from toolorchestra.envs import make_multiagent
    >>> env = CurrentAgentEnv(make_multiagent("MSARL-Math-v0", python="simulated"))
    >>> observation, info = env.reset(seed=0)
    >>> _, _, _, _, info = env.step("```python\nprint(2 ** 10)\n```")
    >>> info["agent"]
    'helper'
    """

    metadata = {"render_modes": ["ansi", "human"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's declaration

    def __init__(self, game: MultiAgentEnv) -> None:
        self.game = game
        self.render_mode = game.render_mode
        self.observation_space = UnicodeText(MAX_OBSERVATION_CHARACTERS)
        self.action_space = UnicodeText(MAX_MESSAGE_CHARACTERS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.game.reset(seed=seed, options=options)
        return self._seen()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say something as the agent to move."""
        game = self.game
        game.step(action)
        observation, info = self._seen()
        cut = game.play.truncated
        return observation, float(game.episode.reward or 0.0), game.play.over and not cut, cut, info

    def render(self) -> str | None:
        """Return the transcript so far, if the game was made with the mode ``ansi``."""
        return self.game.render()

    def close(self) -> None:
        """Release what the game holds."""
        self.game.close()

    @property
    def source(self) -> TaskSource:
        """Where the tasks come from."""
        return self.game.source

    @property
    def episode(self) -> JointEpisode:
        """The record of the current or last episode."""
        return self.game.episode

    def _seen(self) -> tuple[str, dict[str, Any]]:
        agent = self.game.agent_selection
        return self.game.observe(agent), {**self.game.infos[agent], "agent": agent, "tools": []}


class RandomMessages(Policy):
    """Says what the game's own `random_message` does: of the right form, and of no sense.

    Args:
        say: `random_message`.
        seed: See `Policy`.
    """

    privileged = True  # it looks up what can be said

    def __init__(self, say: Callable[[MultiAgentEnv, random.Random], str], seed: int = 0) -> None:
        super().__init__(seed)
        self._say = say

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Mapping[str, Any]) -> None:
        """Begin an episode."""
        super().reset(env, observation, info)
        assert isinstance(env.unwrapped, CurrentAgentEnv), "it plays games of several agents"
        self._game = env.unwrapped.game

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return a random message."""
        return self._say(self._game, self.rng)
