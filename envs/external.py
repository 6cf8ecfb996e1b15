"""Any PettingZoo environment whose agents read and write text, as one that learners of several agents can train on.

What an external environment must have: `observe` returns text, action spaces are `gymnasium.spaces.Text` (or
`UnicodeText`), `copy.deepcopy` copies its state, and what follows depends on the seed of `reset` and the actions alone.
It has no tasks: each seed is one, with seeds of its own for each split. An agent's rewards in an episode add up.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import Any, Self

from gymnasium.spaces import Text
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.parsing import Message
from toolorchestra.envs.play import Play, PlayStart
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld
from toolorchestra.envs.spaces import UnicodeText
from toolorchestra.envs.task_env import EpisodeSetup
from toolorchestra.envs.world import World, WorldSession
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Task

SEEDS = {"train": 1_024, "test": 128, "test_intents": 128}
"""Seeds of each split."""


class ExternalEnv(MultiAgentEnv):
    """A PettingZoo environment with text for observations and actions, as a `MultiAgentEnv`.

    **Reward**: each agent is paid the sum of its rewards; the team's is their mean. **Outcome**: solved, if the team's
    reward is above 0. An action that is outside of the agent's space is cut to what fits in.

    Args:
        game: An AEC or a parallel environment, which is copied for each episode.
        rules: What every agent is told at the beginning; what they observe may be enough.
        max_cycles: Messages, of all agents together, after which an episode is truncated.

    Raises:
        OptionError: It is no PettingZoo environment, or not one of text.
    """

    protocol = "Foreign"
    metadata = {**MultiAgentEnv.metadata, "name": "foreign_v0"}  # noqa: RUF012 - PettingZoo's declaration

    def __init__(self, game: Any, *, rules: str = "", max_cycles: int = 100) -> None:
        if not isinstance(game, AECEnv | ParallelEnv):
            raise OptionError(f"Expected a MultiAgentEnv or an environment of PettingZoo, got {type(game).__name__}.")
        name = str(getattr(game, "metadata", {}).get("name", type(game.unwrapped).__name__))
        self._game: Any = parallel_to_aec(game) if isinstance(game, ParallelEnv) else game
        for agent in self._game.possible_agents:
            if not isinstance(space := self._game.action_space(agent), Text):
                raise OptionError(
                    f"The actions of {agent} in {name} are {space}, and models write text: wrap the environment so "
                    "that its action spaces are gymnasium.spaces.Text and it reads them."
                )
        world = QuestionWorld(name, rules)
        splits = [split for split, count in SEEDS.items() for _ in range(count)]
        tasks = [_task(name, split, seed) for seed, split in enumerate(splits)]
        super().__init__(QuestionSource(name, world, tasks), max_cycles, {})
        self._rules = rules
        self._set_agents(self._game.possible_agents)

    def _begin(self, task: Task, world: World, chosen: Mapping[str, Any]) -> EpisodeSetup:
        game = copy.deepcopy(self._game)
        game.reset(seed=task.bindings["seed"])
        openings = {
            agent: [{"role": "system", "content": f"{self._rules}\n\nYou are {agent}.".strip()}]
            for agent in self.possible_agents
        }
        first = game.agent_selection
        openings[first].append({"role": "user", "content": _seen(game, first)})
        prompt = str(openings[self.possible_agents[0]][0]["content"])
        return EpisodeSetup(prompt, {}, functools.partial(ExternalPlay, game=game), openings)


def _task(name: str, split: str, seed: int) -> Task:
    return Task(
        id=f"{name}/seed/{split}-{seed:05}",
        domain=name,
        intent="seed",
        split=split,
        difficulty=1,
        instruction=f"{name}, seed {seed}",
        reference_calls=(),
        answer="",
        bindings={"seed": seed},
    )


class ExternalPlay(Play):
    """An episode of an external environment; what `Play` asks of a world and its session is not used.

    Args:
        game: The environment, reset; `start` is that of `Play`.
    """

    def __init__(
        self,
        start: PlayStart,
        *,
        game: Any,
    ) -> None:
        super().__init__(start)
        self.game = game
        self.current_agent = game.agent_selection
        self._totals = dict.fromkeys(start.episode.agents, 0.0)

    def _take(self, agent: str, message: Message) -> None:
        game = self.game
        game.step(_fitting(game.action_space(agent), message.text))
        for name, reward in game.rewards.items():
            self._totals[name] += float(reward)
        while game.agents and (game.terminations[game.agent_selection] or game.truncations[game.agent_selection]):
            game.step(None)
        if not game.agents:
            self.close(solved=self._mean > 0, why=f"the team was paid {self._mean:g}")
            return
        self.pass_to(game.agent_selection)
        self.observe(game.agent_selection, _seen(game, game.agent_selection))

    def _pay(self, *, solved: bool) -> None:
        self.episode.reward, self.episode.rewards = self._mean, dict(self._totals)

    def fork(self, session: WorldSession | None) -> Self:
        """Return a play in the same state, on a copy of the environment."""
        twin = super().fork(session)
        twin.game, twin._totals = copy.deepcopy(self.game), dict(self._totals)
        return twin

    @property
    def _mean(self) -> float:
        return sum(self._totals.values()) / len(self._totals)


def _seen(game: Any, agent: str) -> str:
    seen = game.observe(agent)
    if not isinstance(seen, str):
        raise OptionError(
            f"{agent} observes a {type(seen).__name__}, and models read text: wrap the environment so that `observe` "
            "returns text."
        )
    return seen


def _fitting(space: Text, text: str) -> str:
    """Return an action that is in the space, as far as cutting helps."""
    if not isinstance(space, UnicodeText):
        text = "".join(character for character in text if character in space.character_set)
    return text[: space.max_length]
