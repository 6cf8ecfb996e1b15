"""The base of the PettingZoo environments: several agents, one task per episode, text in and text out.

A protocol subclasses `MultiAgentEnv`: it names the agents and says how an episode begins and by which rules it is
played (a `JointPlay`). Choosing tasks, PettingZoo's bookkeeping, snapshots and rendering are here.
"""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from pettingzoo import AECEnv

from toolorchestra.envs.multiagent.play import JointPlay
from toolorchestra.envs.multiagent.record import JointEpisode
from toolorchestra.envs.multiagent.render import joint_text, move_text
from toolorchestra.envs.parsing import MAX_MESSAGE_CHARACTERS
from toolorchestra.envs.play import MAX_OBSERVATION_CHARACTERS, World, WorldSession
from toolorchestra.envs.sources.base import TaskSource, make_source
from toolorchestra.envs.spaces import UnicodeText
from toolorchestra.toolscale.errors import OptionError, UnknownNameError, unknown_name
from toolorchestra.toolscale.task import Task

RESET_OPTIONS = ("task_id", "split", "difficulty")


class Observation(str):
    """A text that knows its numpy type, for which PettingZoo's `api_test` asks every observation."""

    __slots__ = ()
    dtype = np.dtype(str)


@dataclass(frozen=True)
class JointSnapshot:
    """The whole state of an environment: the episode, the random generator, PettingZoo's books."""

    play: JointPlay
    session: Any
    generator: Mapping[str, Any]
    books: Mapping[str, Any]


class MultiAgentEnv(AECEnv[str, str, str]):  # type: ignore[misc]  # PettingZoo ships no types
    """A task that several agents solve together, in turns.

    Subclasses override `_begin`; `protocol` and the agents describe them. Everything else is machinery.

    **Action**: a text, of the agent in `agent_selection`. **Observation**: a text, what the agent was told since it
    last spoke (before it has: its opening). **Reward**: paid at the end, to each agent. **End**: terminated by an
    answer; truncated after `max_cycles` messages or by an error of ours (``outcome`` is then ``infra_error`` or
    ``judge_error``). Only agents that have something to do are asked.

    **Info**, for each agent: ``messages`` (its private history in OpenAI's form), ``task_id``, ``split``,
    ``difficulty``, ``cost`` in US dollars, ``clock`` in virtual seconds; at the end ``outcome`` and ``verdict``.

    Args:
        source: Name of a task source (``Math``), or a `TaskSource`.
        domain: Folder (or name) of a domain to play instead of a named source.
        tasks: JSONL file of tasks to play instead; see `toolorchestra.envs.sources.base.FileSource`.
        split: Split from which `reset` draws unless told otherwise.
        difficulty: Level or levels from which `reset` draws; None for all.
        max_cycles: Messages, of all agents together, after which an episode is truncated.
        render_mode: ``ansi`` (`render` returns the transcript) or ``human`` (messages are printed as they come).

    Reset options: ``task_id``, ``split``, ``difficulty``, each overriding the above for one episode.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": ["ansi", "human"],
        "render_fps": 4,
        "is_parallelizable": False,
    }
    protocol: ClassVar[str]
    """As it stands in environment ids."""
    home: str = ""
    """Module of the game, which may have `random_message` and ``teacher``; empty if it was not made by its id."""

    def __init__(
        self,
        source: str | TaskSource | None,
        *,
        domain: str | Path | None,
        tasks: str | Path | None,
        split: str,
        difficulty: int | Iterable[int] | None,
        max_cycles: int,
        render_mode: str | None,
    ) -> None:
        super().__init__()
        if (source is None) == (domain is None and tasks is None):
            raise OptionError(
                "Give either a `source` (e.g. 'Math'), or the folder of a `domain`, a file of `tasks`, or both."
            )
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UnknownNameError("render mode", render_mode, self.metadata["render_modes"])
        if max_cycles < 1:
            raise OptionError(f"`max_cycles` must be at least 1, got {max_cycles!r}.")
        self.source = source if isinstance(source, TaskSource) else make_source(source, domain, tasks)
        self.max_cycles = max_cycles
        self.render_mode = render_mode
        self._defaults = dict(zip(RESET_OPTIONS, (None, split, difficulty), strict=True))
        self._sessions: dict[str, WorldSession] = {}
        self._generator, _ = seeding.np_random(None)
        self._play: JointPlay | None = None

    def _seat(self, agents: Sequence[str]) -> None:
        """Name the agents of the game; the first one moves first."""
        self.possible_agents = list(agents)
        self.observation_spaces = {agent: UnicodeText(MAX_OBSERVATION_CHARACTERS) for agent in agents}
        self.action_spaces = {agent: UnicodeText(MAX_MESSAGE_CHARACTERS) for agent in agents}

    @abstractmethod
    def _begin(self, task: Task, world: World, seed: int | None) -> JointPlay:
        """Return the play of a new episode of `task`."""

    # --- PettingZoo

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin an episode.

        An option that is not known is ignored with a warning, since PettingZoo's own tests pass one.
        """
        if seed is not None:
            self._generator, _ = seeding.np_random(seed)
        chosen = dict(self._defaults)
        for name, value in (options or {}).items():
            if name in chosen:
                chosen[name] = value
            else:
                warnings.warn(f"{unknown_name('reset option', str(name), chosen)} It is ignored.", stacklevel=2)
        task = self._choose(chosen)
        play = self._play = self._begin(task, self.source.world(task), seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._skip_agent_selection: str | None = None
        self.agent_selection = play.current_agent
        self.infos = {agent: self._info(play, agent) for agent in self.agents}
        if self.render_mode == "human":
            print(joint_text(play.episode))

    def step(self, action: str | None) -> None:
        """Take the message of the agent in `agent_selection`; None once its episode is over."""
        play = self._playing()
        if not self.agents:
            raise gymnasium.error.ResetNeeded("The episode is over. Call reset() to begin another.")
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[self.agent_selection] = 0.0
        move = play.act(action)
        self.rewards = {agent: play.episode.paid.get(agent, 0.0) for agent in self.agents}
        self._accumulate_rewards()
        self.agent_selection = play.current_agent
        if play.over:
            self.terminations = dict.fromkeys(self.agents, not play.truncated)
            self.truncations = dict.fromkeys(self.agents, play.truncated)
            self._deads_step_first()
        self.infos = {agent: self._info(play, agent) for agent in self.agents}
        if self.render_mode == "human":
            print(move_text(move, play.episode))

    def observe(self, agent: str) -> Observation:
        """Return what `agent` was told since it last spoke."""
        text = "\n\n".join(str(message["content"]) for message in self._playing().new_messages(agent))
        return Observation(text[:MAX_OBSERVATION_CHARACTERS])

    def observation_space(self, agent: str) -> UnicodeText:
        """Return the space of what `agent` is told."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> UnicodeText:
        """Return the space of what `agent` says."""
        return self.action_spaces[agent]

    def render(self) -> str | None:
        """Return the transcript so far (mode ``ansi``); the mode ``human`` prints as the episode goes."""
        return joint_text(self._playing().episode) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Release the sessions."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._play = None

    # --- beyond PettingZoo

    @property
    def episode(self) -> JointEpisode:
        """The record of the current or last episode."""
        return self._playing().episode

    @property
    def task(self) -> Task:
        """The task being played, its solution included: hidden from the agents."""
        return self._playing().task

    @property
    def play(self) -> JointPlay:
        """The episode being played."""
        return self._playing()

    def snapshot(self) -> JointSnapshot:
        """Return the whole state: a branch point, from which any number of episodes can go on."""
        play = self._playing()
        return JointSnapshot(
            play.fork(play.session), play.session.snapshot(), dict(self._generator.bit_generator.state), self._books()
        )

    def restore(self, snapshot: JointSnapshot) -> None:
        """Put the environment into the state of `snapshot`, taken from this or an equal environment."""
        session = self._session(snapshot.play.world)
        self._play = snapshot.play.fork(session)
        session.restore(snapshot.session)
        self._generator.bit_generator.state = dict(snapshot.generator)
        for name, value in snapshot.books.items():
            setattr(self, name, copy.copy(value))

    def _books(self) -> dict[str, Any]:
        names = ("agents", "rewards", "_cumulative_rewards", "terminations", "truncations", "infos")
        books = {name: copy.copy(getattr(self, name)) for name in names}
        return {**books, "agent_selection": self.agent_selection, "_skip_agent_selection": self._skip_agent_selection}

    def _new_episode(
        self, task: Task, seed: int | None, openings: Mapping[str, Sequence[Mapping[str, Any]]], tools: Iterable[str]
    ) -> JointEpisode:
        """Return the record of an episode that begins."""
        agents = tuple(self.possible_agents)
        return JointEpisode(
            env_id=f"{self.protocol}-{self.source.name}-v0",
            task_id=task.id,
            seed=seed,
            split=task.split,
            difficulty=task.difficulty,
            prompt=str(openings[agents[0]][0]["content"]),
            instruction=task.instruction,
            tools=tuple(tools),
            noise_seed=int(self._generator.integers(2**31)),
            agents=agents,
            openings={agent: tuple(map(dict, openings[agent])) for agent in agents},
        )

    def _session(self, world: World) -> WorldSession:
        """Return the session of a world: made once, and reset by each episode."""
        session = self._sessions.get(world.name)
        if session is None:
            session = self._sessions[world.name] = world.session()
        return session

    def _playing(self) -> JointPlay:
        if self._play is None:
            raise gymnasium.error.ResetNeeded("Call reset() before step(), observe(), render() or snapshot().")
        return self._play

    def _choose(self, chosen: Mapping[str, Any]) -> Task:
        if chosen["task_id"] is not None:
            return self.source.task(str(chosen["task_id"]))
        levels = chosen["difficulty"]
        if levels is not None:
            levels = frozenset([levels] if isinstance(levels, int) else levels)
        return self.source.sample(chosen["split"], levels, self._generator)

    def _info(self, play: JointPlay, agent: str) -> dict[str, Any]:
        episode = play.episode
        info: dict[str, Any] = {
            "messages": play.histories[agent].copy(),
            "task_id": episode.task_id,
            "split": episode.split,
            "difficulty": episode.difficulty,
            "cost": episode.cost,
            "clock": episode.clock,
        }
        if episode.outcome is not None:
            info |= {"outcome": episode.outcome, "verdict": episode.why}
        return info
