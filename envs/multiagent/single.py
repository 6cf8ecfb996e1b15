"""One agent of a game of several as a Gymnasium environment: the others are fixed policies.

So every learner and policy for one agent can be used on a game of several, and a game of several compared with what one
agent makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gymnasium

from toolorchestra.envs.multiagent.base import JointSnapshot, MultiAgentEnv
from toolorchestra.envs.multiagent.record import JointEpisode
from toolorchestra.envs.parsing import MAX_MESSAGE_CHARACTERS
from toolorchestra.envs.play import MAX_OBSERVATION_CHARACTERS
from toolorchestra.envs.sources.base import TaskSource
from toolorchestra.envs.spaces import UnicodeText
from toolorchestra.toolscale.errors import OptionError, unknown_name

Partner = Callable[[str, dict[str, Any]], str]
"""A fixed policy: given an agent's observation and info, what it says."""


class SingleAgentEnv(gymnasium.Env[str, str]):
    """A game of several agents as one of them sees it.

    If the others end an episode before the agent is asked, its first message, whatever it says, finds it over. Info is
    the agent's, with ``tools`` (none: what it can call, it calls in text).

    Args:
        env: The game.
        agent: Who learns or is evaluated.
        partners: The policies of all others, by name.

    Raises:
        OptionError: An agent is unknown, or a partner missing.
    """

    metadata = {"render_modes": ["ansi", "human"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's declaration

    def __init__(self, env: MultiAgentEnv, agent: str, partners: Mapping[str, Partner]) -> None:
        for name in (agent, *partners):
            if name not in env.possible_agents:
                raise OptionError(unknown_name("agent", name, env.possible_agents))
        if missing := [name for name in env.possible_agents if name != agent and name not in partners]:
            raise OptionError(f"{agent} plays with {', '.join(missing)}: give a partner for each.")
        self.env = env
        self.agent = agent
        self.partners = {name: partner for name, partner in partners.items() if name != agent}
        self.render_mode = env.render_mode
        self.observation_space = UnicodeText(MAX_OBSERVATION_CHARACTERS)
        self.action_space = UnicodeText(MAX_MESSAGE_CHARACTERS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode, and let the others move until the agent is asked."""
        super().reset(seed=seed)
        self.env.reset(seed=seed, options=options)
        self._let_others_move()
        return self.env.observe(self.agent), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say something, and let the others move until the agent is asked again, or the episode is over."""
        env = self.env
        if not env.play.over:
            env.step(action)
            self._let_others_move()
        reward = env.episode.paid.get(self.agent, 0.0)
        return env.observe(self.agent), reward, env.terminations[self.agent], env.truncations[self.agent], self._info()

    def render(self) -> str | None:
        """Return the transcript so far, if the game was made with the mode ``ansi``."""
        return self.env.render()

    def close(self) -> None:
        """Release what the game holds."""
        self.env.close()

    @property
    def source(self) -> TaskSource:
        """Where the tasks come from."""
        return self.env.source

    @property
    def episode(self) -> JointEpisode:
        """The record of the current or last episode."""
        return self.env.episode

    def snapshot(self) -> JointSnapshot:
        """Return the whole state of the game."""
        return self.env.snapshot()

    def restore(self, snapshot: JointSnapshot) -> None:
        """Put the game into the state of `snapshot`."""
        self.env.restore(snapshot)

    def _let_others_move(self) -> None:
        env = self.env
        while not env.play.over and env.agent_selection != self.agent:
            name = env.agent_selection
            env.step(self.partners[name](env.observe(name), env.infos[name]))

    def _info(self) -> dict[str, Any]:
        return {**self.env.infos[self.agent], "tools": []}


def register_single(protocol: str, single_env: Callable[..., SingleAgentEnv], sources: Iterable[str]) -> None:
    """Register one agent's view of a game with Gymnasium, for each source and for tasks of the user's own."""
    for source in (*sources, "Custom"):
        gymnasium.register(
            f"{protocol}Single-{source}-v0",
            entry_point=single_env,
            kwargs={"source": None if source == "Custom" else source},
            disable_env_checker=True,
            order_enforce=False,
        )
