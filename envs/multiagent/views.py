"""An environment of several agents as a Gymnasium environment: seen by one of them, or by whoever has the turn.

- `SingleAgentEnv`: one agent acts, the others are fixed policies. Every learner and policy for one agent can be used on
  it, and several agents compared with what one agent makes of the task.
- `CurrentAgentEnv`: one policy acts for all agents, each in its turn, and sees what that agent sees. Whatever plays a
  Gymnasium environment can so play one of several agents.

Agents with policies of their own are played by `toolorchestra.algos.rollout.multi_agent`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from toolorchestra.agents.policies.base import Policy
from toolorchestra.envs.episode import Episode
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.parsing import MAX_MESSAGE_CHARACTERS
from toolorchestra.envs.spaces import MAX_OBSERVATION_CHARACTERS, UnicodeText
from toolorchestra.envs.task_env import RENDER_MODES, EnvSnapshot
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.toolscale.errors import OptionError, unknown_name

Partner = Callable[[str, dict[str, Any]], str]
"""A fixed policy: given an agent's observation and info, what it writes."""


class AgentView(gymnasium.Env[str, str]):
    """What both views share. Info is that of an agent, with ``tools`` (none: agents call tools in text).

    Args:
        game: The environment of several agents.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # noqa: RUF012 - Gymnasium's declaration

    def __init__(self, game: MultiAgentEnv) -> None:
        self.game = game
        self.render_mode = game.render_mode
        self.observation_space = UnicodeText(MAX_OBSERVATION_CHARACTERS)
        self.action_space = UnicodeText(MAX_MESSAGE_CHARACTERS)

    def render(self) -> str | None:
        """Return the transcript so far, if the environment was made with the mode ``ansi``."""
        return self.game.render()

    def close(self) -> None:
        """Release what the environment holds."""
        self.game.close()

    @property
    def source(self) -> TaskSource:
        """Where the tasks come from."""
        return self.game.source

    @property
    def episode(self) -> Episode:
        """The record of the current or last episode."""
        return self.game.episode

    def snapshot(self) -> EnvSnapshot:
        """Return the whole state."""
        return self.game.snapshot()

    def restore(self, snapshot: EnvSnapshot) -> None:
        """Put the environment into the state of `snapshot`."""
        self.game.restore(snapshot)


class SingleAgentEnv(AgentView):
    """An environment of several agents as one of them sees it; the others are fixed policies.

    If the others end an episode before the agent is asked, its first message, whatever it says, finds it over.

    Args:
        game: The environment of several agents.
        agent: Who learns or is evaluated.
        partners: The policies of all others, by name.

    Raises:
        OptionError: An agent is unknown, or a partner missing.
    """

    def __init__(self, game: MultiAgentEnv, agent: str, partners: Mapping[str, Partner]) -> None:
        for name in (agent, *partners):
            if name not in game.possible_agents:
                raise OptionError(unknown_name("agent", name, game.possible_agents))
        if missing := [name for name in game.possible_agents if name != agent and name not in partners]:
            raise OptionError(f"{agent} plays with {', '.join(missing)}: give a partner for each.")
        super().__init__(game)
        self.agent = agent
        self.partners = {name: partner for name, partner in partners.items() if name != agent}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode, and let the others act until the agent is asked."""
        super().reset(seed=seed)
        self.game.reset(seed=seed, options=options)
        self._let_others_act()
        return self.game.observe(self.agent), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Write a message, and let the others act until the agent is asked again, or the episode is over."""
        game, agent = self.game, self.agent
        if not game.play.over:
            game.step(action)
            self._let_others_act()
        reward = game.episode.rewards.get(agent, 0.0)
        return game.observe(agent), reward, game.terminations[agent], game.truncations[agent], self._info()

    def _let_others_act(self) -> None:
        game = self.game
        while not game.play.over and game.agent_selection != self.agent:
            name = game.agent_selection
            game.step(self.partners[name](game.observe(name), game.infos[name]))

    def _info(self) -> dict[str, Any]:
        return {**self.game.infos[self.agent], "tools": []}


class CurrentAgentEnv(AgentView):
    r"""An environment of several agents in which one policy acts for each agent in its turn.

    Observation and info are those of the current agent, which ``info["agent"]`` names. The reward is the team's, at the
    end.

    Args:
        game: The environment of several agents.

    >>> from toolorchestra.envs.registration import make_multiagent
    >>> env = CurrentAgentEnv(make_multiagent("MSARL-Math-v0", python="simulated"))
    >>> observation, info = env.reset(seed=0)
    >>> _, _, _, _, info = env.step("```python\nprint(2 ** 10)\n```")
    >>> info["agent"]
    'helper'
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.game.reset(seed=seed, options=options)
        return self._seen()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Write a message as the current agent."""
        game = self.game
        game.step(action)
        observation, info = self._seen()
        cut = game.play.truncated
        return observation, float(game.episode.reward or 0.0), game.play.over and not cut, cut, info

    def _seen(self) -> tuple[str, dict[str, Any]]:
        agent = self.game.agent_selection
        return self.game.observe(agent), {**self.game.infos[agent], "agent": agent, "tools": []}


class RandomMessages(Policy):
    """Writes what the protocol's own `random_message` returns: messages of the right form, and of no sense.

    Args:
        write: `random_message`.
        seed: See `Policy`.
    """

    privileged = True  # it looks up what can be said

    def __init__(self, write: Callable[[MultiAgentEnv, random.Random], str], seed: int = 0) -> None:
        super().__init__(seed)
        self._write = write

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Mapping[str, Any]) -> None:
        """Begin an episode."""
        super().reset(env, observation, info)
        assert isinstance(env.unwrapped, CurrentAgentEnv), "it acts for all agents of an environment"
        self._game = env.unwrapped.game

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return a random message."""
        return self._write(self._game, self.rng)
