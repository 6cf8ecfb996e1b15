"""Views of an environment with several agents as Gymnasium environments: of one agent, or of the current agent.

- `SingleAgentEnv`: one agent acts, the others are fixed policies. Learners and policies for one agent can be used on
  it, for example to compare several agents with one.
- `CurrentAgentEnv`: one policy acts for all agents in turn, with the observation of the current agent. So every policy
  for Gymnasium environments can play an environment with several agents.

Agents with policies of their own are played by `toolorchestra.algos.rollout.multi_agent`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from toolorchestra.agents.messages.model_message import MAX_MESSAGE_CHARACTERS
from toolorchestra.agents.policies.base import Policy
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.spaces import MAX_OBSERVATION_CHARACTERS, UnicodeText
from toolorchestra.envs.task_env import RENDER_MODES, EnvSnapshot
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.toolscale.common.errors import OptionError, unknown_name

Partner = Callable[[str, dict[str, Any]], str]
"""A fixed policy: from an agent's observation and info to its message."""


class AgentView(gymnasium.Env[str, str]):
    """What both views share. Info is that of an agent, with ``tools`` (none: agents call tools in text).

    Args:
        multi_agent_env: The environment with several agents.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # noqa: RUF012 - Gymnasium's declaration

    def __init__(self, multi_agent_env: MultiAgentEnv) -> None:
        self.multi_agent_env = multi_agent_env
        self.render_mode = multi_agent_env.render_mode
        self.observation_space = UnicodeText(MAX_OBSERVATION_CHARACTERS)
        self.action_space = UnicodeText(MAX_MESSAGE_CHARACTERS)

    def render(self) -> str | None:
        """Return the transcript so far, if the environment was made with the mode ``ansi``."""
        return self.multi_agent_env.render()

    def close(self) -> None:
        """Release what the environment holds."""
        self.multi_agent_env.close()

    @property
    def source(self) -> TaskSource:
        """Where the tasks come from."""
        return self.multi_agent_env.source

    @property
    def may_block(self) -> bool | None:
        """Whether a step may wait for something outside this process; None: not known."""
        return self.multi_agent_env.may_block

    @property
    def episode(self) -> Episode:
        """The record of the current or last episode."""
        return self.multi_agent_env.episode

    def snapshot(self) -> EnvSnapshot:
        """Return the whole state."""
        return self.multi_agent_env.snapshot()

    def restore(self, snapshot: EnvSnapshot) -> None:
        """Put the environment into the state of `snapshot`."""
        self.multi_agent_env.restore(snapshot)


class SingleAgentEnv(AgentView):
    """An environment of several agents as one of them sees it; the others are fixed policies.

    If the others end an episode before the agent's turn, its first message has no effect: the episode is over.

    Args:
        multi_agent_env: The environment with several agents.
        agent: Who learns or is evaluated.
        partners: The policies of all others, by name.

    Raises:
        OptionError: An agent is unknown, or a partner missing.
    """

    def __init__(self, multi_agent_env: MultiAgentEnv, agent: str, partners: Mapping[str, Partner]) -> None:
        for name in (agent, *partners):
            if name not in multi_agent_env.possible_agents:
                raise OptionError(unknown_name("agent", name, multi_agent_env.possible_agents))
        if missing := [name for name in multi_agent_env.possible_agents if name != agent and name not in partners]:
            raise OptionError(f"{agent} plays with {', '.join(missing)}: give a partner for each.")
        super().__init__(multi_agent_env)
        self.agent = agent
        self.partners = {name: partner for name, partner in partners.items() if name != agent}

    @property
    def may_block(self) -> bool | None:
        """Whether a step may wait for something outside this process: not known, since partners may."""
        return super().may_block or None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode, and let the others act until it is the agent's turn."""
        super().reset(seed=seed)
        self.multi_agent_env.reset(seed=seed, options=options)
        self._let_others_act()
        return self.multi_agent_env.observe(self.agent), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Write a message, and let the others act until it is the agent's turn again, or the episode is over."""
        multi_agent_env, agent = self.multi_agent_env, self.agent
        if not multi_agent_env.play.over:
            multi_agent_env.step(action)
            self._let_others_act()
        reward = multi_agent_env.episode.rewards.get(agent, 0.0)
        return (
            multi_agent_env.observe(agent),
            reward,
            multi_agent_env.terminations[agent],
            multi_agent_env.truncations[agent],
            self._info(),
        )

    def _let_others_act(self) -> None:
        multi_agent_env = self.multi_agent_env
        while not multi_agent_env.play.over and multi_agent_env.agent_selection != self.agent:
            name = multi_agent_env.agent_selection
            multi_agent_env.step(self.partners[name](multi_agent_env.observe(name), multi_agent_env.infos[name]))

    def _info(self) -> dict[str, Any]:
        return {**self.multi_agent_env.infos[self.agent], "tools": []}


class CurrentAgentEnv(AgentView):
    r"""An environment of several agents in which one policy acts for each agent in its turn.

    Observation and info are those of the current agent, which ``info["agent"]`` names. The reward is the team's, at the
    end.

    Args:
        multi_agent_env: The environment with several agents.

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
        self.multi_agent_env.reset(seed=seed, options=options)
        return self._seen()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Write a message as the current agent."""
        multi_agent_env = self.multi_agent_env
        if not multi_agent_env.play.over:  # as it is where an external environment cannot be reset
            multi_agent_env.step(action)
        observation, info = self._seen()
        cut = multi_agent_env.play.truncated
        return (
            observation,
            float(multi_agent_env.episode.reward or 0.0),
            multi_agent_env.play.over and not cut,
            cut,
            info,
        )

    def _seen(self) -> tuple[str, dict[str, Any]]:
        agent = self.multi_agent_env.agent_selection
        return self.multi_agent_env.observe(agent), {**self.multi_agent_env.infos[agent], "agent": agent, "tools": []}


class RandomMessages(Policy):
    """Writes what the protocol's own `random_message` returns: messages of the right form, and of no sense.

    Args:
        write: `random_message`.
        seed: See `Policy`.
    """

    privileged = True  # it reads the rules' state to write well-formed messages

    def __init__(self, write: Callable[[MultiAgentEnv, random.Random], str], seed: int = 0) -> None:
        super().__init__(seed)
        self._write = write

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Mapping[str, Any]) -> None:
        """Begin an episode."""
        super().reset(env, observation, info)
        assert isinstance(env.unwrapped, CurrentAgentEnv), "it acts for all agents of an environment"
        self._multi_agent_env = env.unwrapped.multi_agent_env

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return a random message."""
        return self._write(self._multi_agent_env, self.rng)
