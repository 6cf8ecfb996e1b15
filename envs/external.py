"""Adapter for PettingZoo environments with text, so that learners for several agents can train on them.

Requirements of an external environment: `observe` returns text, action spaces are `gymnasium.spaces.Text` (or
`UnicodeText`), `copy.deepcopy` copies its state, and an episode depends only on the seed of `reset` and the actions.
Its tasks are seeds, different ones for each split. Rollouts take its steps in threads, unless its attribute
``may_block`` is False (`toolorchestra.envs.step_threads`).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import Any, Self

from gymnasium.spaces import Text
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from toolorchestra.agents.messages.model_message import ModelMessage
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.play import Play, PlayStart
from toolorchestra.envs.records.unjudged import INVALID_OUTCOMES, finite, fitted, named_outcome
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld
from toolorchestra.envs.task_env import EpisodeSetup
from toolorchestra.envs.world import World, WorldSession
from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.float_sums import float_sum
from toolorchestra.toolscale.tasks.task import Task

SEEDS = {"train": 1_024, "test": 128, "test_intents": 128}
"""Number of seeds of each split."""


class ExternalEnv(MultiAgentEnv):
    """A PettingZoo environment with text for observations and actions, as a `MultiAgentEnv`.

    **Reward**: each agent gets the sum of its rewards; the team's reward is their mean. **Outcome**: ``outcome`` in the
    info of an agent, if it is there; else solved, if the environment has terminated the episode, not truncated it, and
    the team's reward is above 0. **Failures**: a limit ends an episode as failed, and so does an action outside of the
    agent's space (thoughts and white space around it do not count), each with the rewards so far; an exception ends it
    as an ``infra_error``.

    Args:
        external: An AEC or a parallel environment, which is copied for each episode.
        rules: Text of every agent's system message, before its name; may be empty.
        max_cycles: Messages, of all agents together, after which an episode is truncated.

    Raises:
        OptionError: It is not a PettingZoo environment, or not one with text.
    """

    protocol = "External"
    metadata = {**MultiAgentEnv.metadata, "name": "external_v0"}  # noqa: RUF012 - PettingZoo's declaration

    def __init__(self, external: Any, *, rules: str = "", max_cycles: int = 100) -> None:
        if not isinstance(external, AECEnv | ParallelEnv):
            raise OptionError(
                f"Expected a MultiAgentEnv or an environment of PettingZoo, got {type(external).__name__}."
            )
        name = str(getattr(external, "metadata", {}).get("name", type(external.unwrapped).__name__))
        self._external: Any = parallel_to_aec(external) if isinstance(external, ParallelEnv) else external
        for agent in self._external.possible_agents:
            if not isinstance(space := self._external.action_space(agent), Text):
                raise OptionError(
                    f"The actions of {agent} in {name} are {space}, but models write text: wrap the environment so "
                    "that its action spaces are gymnasium.spaces.Text and it reads them."
                )
        world = QuestionWorld(name, rules)
        splits = [split for split, count in SEEDS.items() for _ in range(count)]
        tasks = [_task(name, split, seed) for seed, split in enumerate(splits)]
        super().__init__(QuestionSource(name, world, tasks), max_cycles, {})
        self._rules = rules
        self._set_agents(self._external.possible_agents)
        self.action_spaces = {agent: self._external.action_space(agent) for agent in self.possible_agents}

    def _setup_episode(
        self, task: Task, world: World, chosen: Mapping[str, Any], typed: TypedAnswer | None
    ) -> EpisodeSetup:
        external = copy.deepcopy(self._external)
        prompts = {agent: f"{self._rules}\n\nYou are {agent}.".strip() for agent in self.possible_agents}
        openings = {agent: [{"role": "system", "content": prompt}] for agent, prompt in prompts.items()}
        error: Exception | None = None
        try:
            external.reset(seed=task.bindings["seed"])
            first = external.agent_selection
            openings[first].append({"role": "user", "content": _observation(external, first)})
        except OptionError:
            raise
        except Exception as raised:  # the episode is over before it begins, and the next one is not
            error = raised
        play = functools.partial(ExternalPlay, external=external, error=error)
        return EpisodeSetup(prompts[self.possible_agents[0]], {}, play, openings)


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
    """An episode of `external`, after its reset; the world and its session are not used.

    `error` is what the reset raised: then the episode is over.
    """

    def __init__(self, start: PlayStart, *, external: Any, error: Exception | None = None) -> None:
        super().__init__(start)
        self.external = external
        self._totals = dict.fromkeys(start.episode.agents, 0.0)
        if error is None:
            self.current_agent = external.agent_selection
        else:
            self._break_off("infra_error", error)

    @property
    def may_block(self) -> bool | None:
        """What the environment says by its own attribute of this name; None, not known, where it has none."""
        said: bool | None = getattr(self.external.unwrapped, "may_block", None)
        return said

    def _on_message(self, agent: str, message: ModelMessage) -> None:
        external = self.external
        action, wrong = fitted(external.action_space(agent), message.text)  # thoughts are no part of an action
        if wrong:
            action, wrong = fitted(external.action_space(agent), message.raw)
        if wrong:
            self.close(solved=False, why=f"{agent}: {wrong}")
            return
        external.step(action)
        rewards = {name: finite(reward) for name, reward in external.rewards.items()}
        for name, reward in rewards.items():
            self._totals[name] += reward
        ended, infos = not _is_cut_off(external), [dict(info) for info in external.infos.values()]
        while external.agents and (
            external.terminations[external.agent_selection] or external.truncations[external.agent_selection]
        ):
            external.step(None)
        if not external.agents:
            self._end(next((info for info in infos if "outcome" in info), {}), ended=ended)
            return
        self.pass_to(external.agent_selection)
        self.observe(external.agent_selection, _observation(external, external.agent_selection))

    def _end(self, info: Mapping[str, Any], *, ended: bool) -> None:
        """End the episode as the environment has."""
        outcome = named_outcome(info, self._mean, terminated=ended)
        why = f"the team's reward is {self._mean:g}" if ended else "a limit of the environment is reached"
        if outcome in INVALID_OUTCOMES:
            self._break_off(outcome, str(info.get("verdict", "says the environment")))
        else:
            self.close(solved=outcome == "solved", why=str(info.get("verdict", why)))
            self.truncated = not ended

    def _set_reward(self, *, solved: bool) -> None:
        self.episode.reward, self.episode.rewards = self._mean, dict(self._totals)

    def fork(self, session: WorldSession | None) -> Self:
        """Return a play in the same state, on a copy of the environment."""
        twin = super().fork(session)
        twin.external = self.external if self.over else copy.deepcopy(self.external)
        twin._totals = dict(self._totals)
        return twin

    @property
    def _mean(self) -> float:
        return float_sum(self._totals.values()) / len(self._totals)


def _observation(external: Any, agent: str) -> str:
    observation = external.observe(agent)
    if not isinstance(observation, str):
        raise OptionError(
            f"{agent} observes a {type(observation).__name__}, and models read text: wrap the environment so that "
            "`observe` returns text."
        )
    return observation


def _is_cut_off(external: Any) -> bool:
    """Return whether a limit of the environment has ended what an agent did."""
    return any(cut and not external.terminations.get(agent) for agent, cut in external.truncations.items())
