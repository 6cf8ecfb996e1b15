"""Clipped policy gradients for teams: what `toolorchestra.algos.msarl` and `toolorchestra.algos.multi_grpo` share.

Options, the updater of one policy, and the learner that keeps one for each. Not here: which rows an agent learns from,
and their advantages.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos.losses import clipped_policy_loss
from toolorchestra.algos.multi_agent_trainer import TrainTeam
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine
from toolorchestra.algos.rollout.starts import Start
from toolorchestra.algos.rollout.trajectory import TrainRow, row_logps
from toolorchestra.toolscale.errors import OptionError


@dataclass
class TrainClipped(TrainTeam):
    """Options of learners that update their policies by the clipped objective."""

    steps: int = 20
    """Batches of rollouts."""
    questions: int = 8
    """Questions per batch."""
    updates: int = 1
    """Optimiser steps per batch of rollouts, each on all its rows."""
    epsilon: float = 0.2
    """Clip of the probability ratio below 1."""
    epsilon_high: float = 0.28
    """Clip of the probability ratio above 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_at_least(1, "steps", "questions", "updates")
        if not 0 < self.epsilon < 1 or self.epsilon_high <= 0:
            raise OptionError("`epsilon` must lie in (0, 1), and `epsilon_high` above 0.")

    @property
    def total(self) -> int:
        """Batches of rollouts of the whole training."""
        return self.steps


class ClippedUpdater:
    """Trains one policy on its own rows.

    Args:
        policy: What is trained.
        config: Rate, clip and sizes.

    Attributes:
        optimizer: Its optimiser.
    """

    def __init__(self, policy: TokenPolicy, config: TrainClipped) -> None:
        self.policy, self.config = policy, config
        self.optimizer = torch.optim.AdamW(
            policy.model.parameters(), lr=config.rate, betas=(0.9, 0.95), weight_decay=0.0
        )

    def loss(self, rows: Sequence[TrainRow], count: int) -> tuple[Tensor, Tensor]:
        """Return the clipped loss of some of an agent's `count` rows, and the share of ratios clipped."""
        config = self.config
        logps, old, mask = row_logps(self.policy.model, rows, self.policy.renderer.pad_id, config.temperature)
        advantages = torch.tensor([row.advantage for row in rows], device=logps.device, dtype=logps.dtype)
        found = clipped_policy_loss(logps, old, advantages, mask, eps_low=config.epsilon, eps_high=config.epsilon_high)
        return found.loss * len(rows) / count, found.clipped

    def step(self, agents: Sequence[Sequence[TrainRow]]) -> dict[str, float]:
        """Make one optimiser step on the rows of each agent that has this policy; each agent's mean counts alike.

        Rows without an advantage have no gradient and are only counted; if there are no others, no step is made.
        """
        config = self.config
        self.policy.model.train()
        total, clipped, parts = 0.0, 0.0, 0
        for rows in agents:
            with_advantage = [row for row in rows if row.advantage]
            with_advantage.sort(key=lambda row: len(row.prompt_ids) + len(row.completion_ids))  # alike ones together
            size = config.rows_at_once or (len(with_advantage) or 1 if config.small else 4)
            for first in range(0, len(with_advantage), size):
                loss, cut = self.loss(with_advantage[first : first + size], len(rows))
                loss.backward()  # type: ignore[no-untyped-call]  # torch's
                total, clipped, parts = total + float(loss.detach()), clipped + float(cut), parts + 1
        norm = 0.0
        if parts:
            norm = float(torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), 1.0))
            self.optimizer.step()
            self.optimizer.zero_grad()
        return {"loss": total, "grad_norm": norm, "clipped": clipped / max(1, parts)}


C = TypeVar("C", bound=TrainClipped)


class ClippedLearner(Generic[C]):
    """A learner with an updater for each policy. Subclasses say what a step is (`learn`).

    Args:
        config: The options.
        engine: Plays the game.
        policies: Updated in place.
        tasks: Where episodes begin.

    Attributes:
        updaters: By policy.
    """

    def __init__(
        self, config: C, engine: MultiAgentEngine, policies: Mapping[str, TokenPolicy], tasks: Sequence[Start]
    ) -> None:
        self.config, self.engine, self.policies, self.tasks = config, engine, policies, tasks
        self.updaters = {name: ClippedUpdater(policy, config) for name, policy in policies.items()}

    @abstractmethod
    def learn(self, step: int) -> dict[str, float]:
        """Play a batch of rollouts, update the policies on it, and return the metrics."""

    def update(self, rows: Mapping[str, Sequence[TrainRow]]) -> dict[str, float]:
        """Update every policy on the rows of the agents that have it, by agent, and return the metrics."""
        metrics: dict[str, float] = {}
        for _ in range(self.config.updates):
            for name, updater in self.updaters.items():
                found = updater.step([own for agent, own in rows.items() if self.config.policy_of(agent) == name])
                metrics |= {f"{name}_{what}": value for what, value in found.items()}
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimisers."""
        return {name: updater.optimizer.state_dict() for name, updater in self.updaters.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of the optimisers."""
        for name, updater in self.updaters.items():
            updater.optimizer.load_state_dict(state[name])
