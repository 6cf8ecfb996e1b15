"""The base of the PettingZoo environments: several agents, one task per episode, text in and text out.

A protocol (MSARL, TMATR, dialogue) subclasses `MultiAgentEnv`, names its agents and overrides `_setup_episode`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from pettingzoo import AECEnv

from toolorchestra.agents.messages.model_message import MAX_MESSAGE_CHARACTERS
from toolorchestra.envs.play import EpisodeLimits, Play
from toolorchestra.envs.records.render import episode_text, turn_text
from toolorchestra.envs.spaces import MAX_OBSERVATION_CHARACTERS, UnicodeText
from toolorchestra.envs.task_env import RENDER_MODES, TaskEnv
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.toolscale.common.errors import OptionError, unknown_name

_COPIED = ("agents", "rewards", "_cumulative_rewards", "terminations", "truncations", "infos")


class Observation(str):
    """A text that knows its numpy type, for which PettingZoo's `api_test` asks every observation."""

    __slots__ = ()
    dtype = np.dtype(str)


class MultiAgentEnv(TaskEnv, AECEnv[str, str, str]):  # type: ignore[misc]  # PettingZoo ships no types
    """A task that several agents solve together, in turns.

    Subclasses override `_setup_episode`, and name the agents by `_set_agents`; `protocol` describes them.

    **Action**: a text, of the agent in `agent_selection`. **Observation**: a text, what the agent observed since its
    last message (before its first: its opening). **Reward**: at the end, to each agent. **End**: terminated by an
    answer; truncated after `max_cycles` messages or by an infrastructure error (``outcome`` is then ``infra_error`` or
    ``judge_error``). Only the current agent acts.

    **Info**, for each agent: ``messages`` (its private history in OpenAI's form), ``task_id``, ``split``,
    ``difficulty``, ``cost`` in US dollars, ``clock`` in virtual seconds, ``slots`` (of the answer, with
    ``answer="typed"``); at the end ``outcome``, ``verdict`` and ``reward_parts`` (where the protocol has parts).

    Args:
        source: Name of a task source (``Math``), or a `TaskSource`.
        max_cycles: Messages, of all agents together, after which an episode is truncated.
        options: See `TaskOptions`.

    `state` is the record of the whole episode as JSON, which no agent is shown.

    Reset options: ``task_id``, ``split``, ``difficulty``, each overriding the above for one episode.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": list(RENDER_MODES),
        "render_fps": 4,
        "is_parallelizable": False,
    }
    home: str = ""
    """Module of the protocol, which may have `random_message` and ``teacher``; empty if it was not made by its id."""

    def __init__(self, source: str | TaskSource | None, max_cycles: int, options: Mapping[str, Any]) -> None:
        if max_cycles < 1:
            raise OptionError(f"`max_cycles` must be at least 1, got {max_cycles!r}.")
        super().__init__(source, EpisodeLimits(turns=max_cycles), options)
        self.np_random, _ = seeding.np_random(None)

    @property
    def max_cycles(self) -> int:
        """Messages, of all agents together, after which an episode is truncated."""
        return self.limits.turns

    def _set_agents(self, agents: Sequence[str]) -> None:
        """Name the agents; the first one moves first."""
        self.agents_at_start = tuple(agents)
        self.possible_agents = list(agents)
        self.observation_spaces = {agent: UnicodeText(MAX_OBSERVATION_CHARACTERS) for agent in agents}
        self.action_spaces = {agent: UnicodeText(MAX_MESSAGE_CHARACTERS) for agent in agents}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin an episode.

        An option that is not known is ignored with a warning, since PettingZoo's own tests pass one.
        """
        if seed is not None:
            self.np_random, _ = seeding.np_random(seed)
        chosen = dict(self._reset_options)
        for name, value in (options or {}).items():
            if name in chosen:
                chosen[name] = value
            else:
                warnings.warn(f"{unknown_name('reset option', str(name), chosen)} It is ignored.", stacklevel=2)
        play = self._start_episode(chosen, seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, play.over)  # by an exception of an external environment
        self._skip_agent_selection: str | None = None
        self.agent_selection = play.current_agent
        self.infos = {agent: self._info(play, agent) for agent in self.agents}
        if self.render_mode == "human":
            print(episode_text(play.episode))

    def step(self, action: str | None) -> None:
        """Take the message of the agent in `agent_selection`; None once its episode is over."""
        play = self.play
        if not self.agents:
            raise gymnasium.error.ResetNeeded("The episode is over. Call reset() to begin another.")
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[self.agent_selection] = 0.0
        turn = play.act(action)
        self.rewards = {agent: play.episode.rewards.get(agent, 0.0) for agent in self.agents}
        self._accumulate_rewards()
        self.agent_selection = play.current_agent
        if play.over:
            self.terminations = dict.fromkeys(self.agents, not play.truncated)
            self.truncations = dict.fromkeys(self.agents, play.truncated)
            self._deads_step_first()
        self.infos = {agent: self._info(play, agent) for agent in self.agents}
        if self.render_mode == "human":
            print(turn_text(turn, play.episode))

    def observe(self, agent: str) -> Observation:
        """Return what `agent` observed since its last message."""
        text = "\n\n".join(str(message["content"]) for message in self.play.new_messages(agent))
        return Observation(text[:MAX_OBSERVATION_CHARACTERS])

    def state(self) -> Observation:
        """Return the whole record of the episode so far as JSON: what all agents wrote, called and observed."""
        return Observation(self.play.episode.to_json().decode())

    def observation_space(self, agent: str) -> UnicodeText:
        """Return the space of the observations of `agent`."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> UnicodeText:
        """Return the space of what `agent` writes."""
        return self.action_spaces[agent]

    def render(self) -> str | None:
        """Return the transcript so far (mode ``ansi``); the mode ``human`` prints as the episode goes."""
        return episode_text(self.episode) if self.render_mode == "ansi" else None

    def _interface_state(self) -> dict[str, Any]:
        """Return the attributes by which PettingZoo keeps account of the agents, copied."""
        state = {name: copy.copy(getattr(self, name)) for name in _COPIED}
        state["agent_selection"], state["_skip_agent_selection"] = self.agent_selection, self._skip_agent_selection
        return {**super()._interface_state(), **state}

    def _info(self, play: Play, agent: str) -> dict[str, Any]:
        episode = play.episode
        info = self._shared_info(play, agent)
        if episode.outcome is not None:
            info |= {"outcome": episode.outcome, "verdict": episode.why}
            if episode.reward_parts:
                info["reward_parts"] = dict(episode.reward_parts)
        return info
