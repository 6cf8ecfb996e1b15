"""Independent GRPO: every agent of any environment learns from its own rewards, on its own tokens.

    python algos/multi_grpo.py                                          two built-in models, within minutes
    python algos/multi_grpo.py --env ID --model PATH                    a causal language model for each agent
    python algos/multi_grpo.py --env ID --model PATH --lora-rank 16     one model, and an adapter for each agent
    python algos/multi_grpo.py --env my_envs:chess --model PATH         your own environment (``docs/multi_grpo.md``)

A task is played G times from the same start. An agent's advantage is its reward r of an episode, normalised within the
group; it weighs the tokens that the agent wrote in that episode:

    A_a,g = (r_a,g − mean_g r_a) / (std_g r_a + δ)

Each agent has its own policy, with its own tokenizer, adapter, optimiser, rows and history. Agents may share one
(``--share``, or some of them by ``--sharing``): its update is the sum over its agents, each agent's mean counting
alike. If all agents have the same reward, this is GRPO for a team without credit assignment; a protocol's own learner
may do better (`toolorchestra.algos.msarl` branches at the second agent's turn). Independent learners are non-stationary
to each other: opponents may cycle.
"""

from __future__ import annotations

import toolorchestra.algos  # noqa: F401 - first, also when run as a script: it makes settings that torch reads once

# isort: split
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from toolorchestra.algos import multi_agent_trainer
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.loss.advantages import group_advantages, signal
from toolorchestra.algos.multi_agent_trainer import MultiAgentTrainer
from toolorchestra.algos.options.several_agents import TrainMultiGRPO
from toolorchestra.algos.reporting.stats import known_mean
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine, Slot, unjudged_share
from toolorchestra.algos.rollout.sampling import AnySampler
from toolorchestra.algos.rollout.trajectory import TrainRow
from toolorchestra.algos.team_learner import ClippedLearner
from toolorchestra.algos.trainer import run_script
from toolorchestra.envs.starts import EpisodeStart


def play_groups(
    engine: MultiAgentEngine, samplers: Mapping[str, AnySampler], starts: Sequence[EpisodeStart], size: int
) -> list[list[Slot]]:
    """Play each task `size` times from the same start, noise included, and return the slots of each.

    Processes play a share of the tasks each.
    """
    roots = [engine.start(start) for start in distributed.shard(starts)]
    groups = [[root, *(root.fork() for _ in range(size - 1))] for root in roots]
    engine.play(samplers, [slot for group in groups for slot in group])
    return distributed.all_gather(groups)


class GroupBatch(NamedTuple):
    """Rewards and training rows of a batch of rollouts.

    Attributes:
        rewards: Of each agent, shape ``(tasks, G)``; NaN after an infrastructure error.
        rows: Training rows of each agent, with its advantages.
    """

    rewards: dict[str, Tensor]
    rows: dict[str, list[TrainRow]]


def judge(groups: Sequence[Sequence[Slot]], agents: Sequence[str]) -> GroupBatch:
    """Return the training rows of groups of rollouts, with the advantage of each agent from its own rewards.

    Rollouts that were not judged have none.
    """
    slots = [slot for group in groups for slot in group]
    rewards: dict[str, Tensor] = {}
    rows: dict[str, list[TrainRow]] = {}
    for agent in agents:
        own = [[slot.agent_reward(agent) for slot in group] for group in groups]
        rewards[agent] = torch.tensor(own, dtype=torch.float64)
        advantages = group_advantages(rewards[agent]).flatten().tolist()
        written = [slot.rows(agent) if slot.valid else [] for slot in slots]
        rows[agent] = [
            replace(row, advantage=advantage)
            for own_rows, advantage in zip(written, advantages, strict=True)
            for row in own_rows
        ]
    return GroupBatch(rewards, rows)


class IndependentGRPO(ClippedLearner[TrainMultiGRPO]):
    """The learner: groups of rollouts, and an update of every policy on the rows of its agents."""

    def learn(self, step: int) -> dict[str, float]:
        """Play one batch of rollouts, update every policy on it, and return the metrics."""
        config, engine = self.config, self.engine
        rng = random.Random(f"{config.seed}/{step}")
        starts = [rng.choice(self.tasks).another(rng) for _ in range(config.groups)]
        samplers = self.samplers(rng)
        engine.generated.clear()
        with self.sampling():
            groups = play_groups(engine, samplers, starts, config.group_size)
        batch = judge(groups, list(engine.policies))
        return measure(groups, batch, engine) | self.update(step, batch.rows)


def measure(groups: Sequence[Sequence[Slot]], batch: GroupBatch, engine: MultiAgentEngine) -> dict[str, float]:
    """Return metrics of a batch of rollouts, of the team and of each agent."""
    slots = [slot for group in groups for slot in group]
    metrics = {
        "unjudged": unjudged_share(slots),
        "success": known_mean([slot.success for slot in slots]),
        "reward": known_mean([slot.reward for slot in slots]),
        "turns": float(np.mean([len(slot.play.episode.turns) for slot in slots])),
        "moves": float(sum(len(slot.play.episode.turns) for slot in slots)),
        "cost": float(np.mean([slot.play.episode.cost for slot in slots])),
    }
    for agent, rewards in batch.rewards.items():
        metrics |= {
            f"{agent}_reward": known_mean(rewards),
            f"{agent}_signal": signal(rewards),
            f"{agent}_rows": float(len(batch.rows[agent])),
        }
    return metrics | engine.token_counts()


def train(config: TrainMultiGRPO) -> MultiAgentTrainer:
    """Warm-start if need be, train, and evaluate on held-out tasks before and after."""
    return multi_agent_trainer.train(config, partial(IndependentGRPO, config), phase="multi-grpo")


if __name__ == "__main__":
    run_script(TrainMultiGRPO, train)
