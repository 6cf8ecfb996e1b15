"""Independent GRPO: every agent of any game learns from its own rewards, on its own tokens.

    python algos/multi_grpo.py                                          two built-in models, within minutes
    python algos/multi_grpo.py --env ID --model PATH                    a causal language model for each agent
    python algos/multi_grpo.py --env ID --model PATH --lora-rank 16     one model, and an adapter for each agent
    python algos/multi_grpo.py --env my_games:chess --model PATH        a game of your own (``docs/multi_grpo.md``)

A task is played G times from the same start. An agent's advantage is its reward r of an episode, normalised within the
group; it applies to the tokens that the agent wrote in that episode:

    A_a,g = (r_a,g − mean_g r_a) / (std_g r_a + δ)

Each agent has a policy of its own, with its own tokenizer, adapter, optimiser, rows and history. Agents may share one
(``--share``, or some of them by ``--sharing``): its update is then the sum over its agents, each agent's mean counting
alike. If all agents have the same reward, this is a team's GRPO without credit assignment; a game's own learner may do
better (`toolorchestra.algos.msarl` branches at the second agent's turn). Independent learners are non-stationary to
each other: nothing here keeps a game of opponents from cycling.
"""

from __future__ import annotations

import toolorchestra.algos  # noqa: F401 - first, also when run as a script: it makes settings that torch reads once

# isort: split
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import tyro
from torch import Tensor

from toolorchestra.algos import multi_agent_trainer
from toolorchestra.algos.advantages import group_advantages
from toolorchestra.algos.clipped_policy_gradient import ClippedLearner, TrainClipped
from toolorchestra.algos.evaluation import make_samplers
from toolorchestra.algos.multi_agent_trainer import Trained
from toolorchestra.algos.report import run_script
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine, Slot
from toolorchestra.algos.rollout.sampling import Sampler
from toolorchestra.algos.rollout.starts import Start
from toolorchestra.algos.rollout.trajectory import TrainRow
from toolorchestra.algos.warm_start import demonstration_options
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.toolscale.errors import OptionError, UnknownNameError


@dataclass
class TrainMultiGRPO(TrainClipped):
    """Train all agents of a game by independent GRPO; without models, make, warm-start and train built-in ones."""

    env: str = "MSARL-Math-v0"
    """Id of the environment (`toolorchestra.envs.make_multiagent`), or ``module:function`` for a game of your own."""
    output: Path = Path("runs/multi_grpo")
    """Folder for models, checkpoints and metrics."""
    model: str | None = None
    """Folder or hub name of a causal language model with a chat template, of which every policy gets a copy; None makes
    built-in models, where the game has a teacher."""
    models: dict[str, str] = field(default_factory=dict)
    """Models of single policies, by name, which need not be `model`."""
    sharing: dict[str, str] = field(default_factory=dict)
    """For agents that share a policy, its name; any other agent has a policy of its own name."""
    group_size: int = 8
    """Rollouts per question (G)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group_size < 2:
            raise OptionError(f"Advantages compare the rollouts of a group: `group_size` {self.group_size} is below 2.")
        if self.share and self.sharing:
            raise OptionError("`share` gives all agents one policy: give it, or `sharing` for some of them.")

    @property
    def small(self) -> bool:
        """Whether the policies are built-in ones."""
        return not self.model and not self.models

    def model_of(self, name: str) -> str:
        """Return the folder or hub name of a policy's model, where they are no built-in ones."""
        found = self.models.get(name, self.model)
        if found is None:
            raise OptionError(f"There is no model for the policy {name!r}: give one in `models`, or a `model` for all.")
        return found

    def policy_of(self, agent: str) -> str:
        """Return the name of the policy of an agent."""
        return self.sharing.get(agent, super().policy_of(agent))

    def make_env(self, hardness: float = 1.0) -> MultiAgentEnv:
        """Return the environment; for built-in models, with the options with which its teacher teaches.

        Raises:
            UnknownNameError: `sharing` names an agent, or `models` a policy, that the game does not have.
        """
        given = self.given_options()
        env = make_multiagent(self.env, **(demonstration_options(self.env, given, hardness) if self.small else given))
        for agent in self.sharing:
            if agent not in env.possible_agents:
                raise UnknownNameError("agent", agent, env.possible_agents)
        for name in self.models:
            if name not in self.policies(env):
                raise UnknownNameError("policy", name, self.policies(env))
        return env


# ---------------------------------------------------------------------------------------------------- rollouts


def play_groups(
    engine: MultiAgentEngine, samplers: Mapping[str, Sampler], starts: Sequence[Start], size: int
) -> list[list[Slot]]:
    """Play each task `size` times from the same start, noise included, and return the slots of each."""
    roots = [engine.start(start) for start in starts]
    groups = [[root, *(root.fork() for _ in range(size - 1))] for root in roots]
    engine.play(samplers, [slot for group in groups for slot in group])
    return groups


class GroupBatch(NamedTuple):
    """Rewards and training rows of a batch of rollouts.

    Attributes:
        rewards: Of each agent, shape ``(tasks, G)``; NaN after an infrastructure error.
        rows: Training rows of each agent, with its advantages.
    """

    rewards: dict[str, Tensor]
    rows: dict[str, list[TrainRow]]


def judge(groups: Sequence[Sequence[Slot]], agents: Sequence[str]) -> GroupBatch:
    """Return the training rows of groups of rollouts, with the advantage of each agent from its own rewards."""
    rewards = {
        agent: torch.tensor([[slot.agent_reward(agent) for slot in group] for group in groups], dtype=torch.float64)
        for agent in agents
    }
    rows: dict[str, list[TrainRow]] = {agent: [] for agent in agents}
    for agent, own in rewards.items():
        advantages = group_advantages(own)
        for q, group in enumerate(groups):
            for g, slot in enumerate(group):
                row = slot.trajectories[agent].row()
                if row is not None:
                    rows[agent].append(replace(row, advantage=float(advantages[q, g])))
    return GroupBatch(rewards, rows)


# ---------------------------------------------------------------------------------------------------- learning


class IndependentGRPO(ClippedLearner[TrainMultiGRPO]):
    """The learner: groups of rollouts, and an update of every policy on the rows of its agents."""

    def learn(self, step: int) -> dict[str, float]:
        """Play one batch of rollouts, update every policy on it, and return the metrics."""
        config, engine = self.config, self.engine
        rng = random.Random(f"{config.seed}/{step}")
        starts = [rng.choice(self.tasks).another(rng) for _ in range(config.questions)]
        samplers = make_samplers(self.policies, config.temperature, rng)
        engine.generated.clear()
        groups = play_groups(engine, samplers, starts, config.group_size)
        batch = judge(groups, list(engine.policies))
        return measure(groups, batch, engine) | self.update(batch.rows)


def measure(groups: Sequence[Sequence[Slot]], batch: GroupBatch, engine: MultiAgentEngine) -> dict[str, float]:
    """Return metrics of a batch of rollouts, of the team and of each agent."""
    slots = [slot for group in groups for slot in group]
    metrics = {
        "success": _mean([slot.success for slot in slots]),
        "reward": _mean([slot.reward for slot in slots]),
        "turns": float(np.mean([len(slot.play.episode.turns) for slot in slots])),
        "moves": float(sum(len(slot.play.episode.turns) for slot in slots)),
        "cost": float(np.mean([slot.play.episode.cost for slot in slots])),
    }
    for agent, rewards in batch.rewards.items():
        differing = group_advantages(rewards).ne(0).any(-1)  # (tasks,): only these have advantages
        metrics |= {
            f"{agent}_reward": _mean(rewards.flatten().tolist()),
            f"{agent}_signal": float(differing.double().mean()),
            f"{agent}_rows": float(len(batch.rows[agent])),
        }
    return metrics | {f"{name}_tokens": float(engine.generated[name]) for name in engine.renderers}


def _mean(values: Sequence[float]) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def train(config: TrainMultiGRPO) -> Trained:
    """Warm-start if need be, train, and evaluate on held-out tasks before and after."""
    return multi_agent_trainer.train(config, partial(IndependentGRPO, config), phase="multi-grpo")


def main(config: TrainMultiGRPO | None = None) -> None:
    """Run the command."""
    train(config or tyro.cli(TrainMultiGRPO))


if __name__ == "__main__":
    run_script(main)
