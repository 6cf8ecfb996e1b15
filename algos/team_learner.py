"""What the learners of several agents share: options, an updater for each policy, and the learner that keeps them.

`PolicyUpdater` makes the optimiser steps of one policy; `ClippedUpdater` makes them on the clipped objective of
`toolorchestra.algos.msarl` and `toolorchestra.algos.multi_grpo`. Not here: which rows an agent learns from, and their
advantages; the run around a learner (`toolorchestra.algos.multi_agent_trainer`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos import memory, ranks
from toolorchestra.algos.autocast import autocast
from toolorchestra.algos.batching import bundles
from toolorchestra.algos.losses import clipped_policy_loss
from toolorchestra.algos.optimizers import make_optimizer, rate_factor
from toolorchestra.algos.options_several_agents import TrainClipped, TrainTeam
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine
from toolorchestra.algos.rollout.starts import Start
from toolorchestra.algos.rollout.trajectory import TrainRow, row_logps

C = TypeVar("C", bound=TrainTeam)
R = TypeVar("R")


class PolicyUpdater(ABC, Generic[C]):
    """Trains one policy on the rows of its agents (`step`); `optimizer` is its optimiser."""

    def __init__(self, policy: TokenPolicy, config: C) -> None:
        self.policy, self.config = policy, config
        self.optimizer = make_optimizer(policy.model.parameters(), config)

    def set_rate(self, factor: float) -> None:
        """Set the share of the learning rate that the next steps have."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.rate * factor

    @abstractmethod
    def step(self, agents: Sequence[Sequence[Any]]) -> dict[str, float]:
        """Make one optimiser step on the rows of each agent that has this policy; each agent's mean counts alike."""

    def parts(self, rows: Sequence[R], length: Callable[[R], int], sequences: int = 1) -> Iterator[Sequence[R]]:
        """Yield the rows of each forward and backward pass, those of similar length together.

        A row has so many `sequences`, the longest of a `length`.
        """
        model, config = self.policy.model, self.config
        device = next(model.parameters()).device
        with autocast(model):
            shape, size = memory.ModelShape.of(model.config), memory.number_size(model)
        per_id = sequences * shape.train_bytes(size, checkpointing=config.gradient_checkpointing)
        fitting = memory.padded_rows(memory.budget(device, config.memory), per_id, masked=False)
        most = max(1, (config.micro_batch or len(rows) * sequences) // sequences)
        for bundle in bundles(list(map(length, rows)), max_rows=lambda width: min(most, fitting(width))):
            yield [rows[n] for n in bundle]

    def apply_gradients(self) -> float:
        """Make the optimiser's step, with gradients clipped to norm 1, and return the norm before that.

        The gradient is the sum of those of all processes, each of which had a share of the rows.
        """
        ranks.add_gradients(self.policy.model.parameters())
        norm = float(torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), 1.0))
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimiser."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state."""
        self.optimizer.load_state_dict(dict(state))


U = TypeVar("U", bound=PolicyUpdater[Any])


class TeamLearner(ABC, Generic[C, U]):
    """A learner with an updater for each policy (`updaters`). Subclasses say what a step is (`learn`).

    The engine plays the environment from the starts in `tasks`; the policies are updated in place.
    """

    def __init__(
        self,
        config: C,
        engine: MultiAgentEngine,
        policies: Mapping[str, TokenPolicy],
        tasks: Sequence[Start],
        updater: Callable[[TokenPolicy, C], U],
    ) -> None:
        self.config, self.engine, self.policies, self.tasks = config, engine, policies, tasks
        self.updaters = {name: updater(policy, config) for name, policy in policies.items()}
        self.factor = rate_factor(config, config.total)

    def set_rate(self, step: int) -> float:
        """Set the learning rate of a batch of rollouts, counted from 1, and return it."""
        factor = self.factor(step - 1)
        for updater in self.updaters.values():
            updater.set_rate(factor)
        return self.config.rate * factor

    @abstractmethod
    def learn(self, step: int) -> dict[str, float]:
        """Play a batch of rollouts, update the policies on it, and return the metrics.

        What it does depends on the seed, the step, the policies and the state only.
        """

    def updates(self, rows: Mapping[str, Sequence[R]]) -> Iterator[tuple[str, U, list[Sequence[R]]]]:
        """Yield each policy's name, its updater, and the rows of each agent that has it, from the rows by agent."""
        for name, updater in self.updaters.items():
            yield name, updater, [own for agent, own in rows.items() if self.config.policy_of(agent) == name]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the updaters."""
        return {name: updater.state_dict() for name, updater in self.updaters.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of the updaters."""
        for name, updater in self.updaters.items():
            updater.load_state_dict(state[name])


class ClippedUpdater(PolicyUpdater[TrainClipped]):
    """Trains one policy on the clipped loss of its rows."""

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
        self.policy.model.train()
        total, clipped, parts = 0.0, 0.0, 0
        for rows in agents:
            for part in self.parts(ranks.share([row for row in rows if row.advantage]), lambda row: row.length):
                loss, cut = self.loss(part, len(rows))
                loss.backward()  # type: ignore[no-untyped-call]  # torch's
                total, clipped, parts = total + float(loss.detach()), clipped + float(cut), parts + 1
        total, clipped, parts = map(sum, zip(*ranks.gather((total, clipped, parts)), strict=True))
        norm = self.apply_gradients() if parts else 0.0
        return {"loss": total, "grad_norm": norm, "clipped": clipped / max(1, parts)}


K = TypeVar("K", bound=TrainClipped)


class ClippedLearner(TeamLearner[K, ClippedUpdater]):
    """A learner whose policies are updated by the clipped objective."""

    def __init__(
        self, config: K, engine: MultiAgentEngine, policies: Mapping[str, TokenPolicy], tasks: Sequence[Start]
    ) -> None:
        super().__init__(config, engine, policies, tasks, ClippedUpdater)

    def update(self, rows: Mapping[str, Sequence[TrainRow]]) -> dict[str, float]:
        """Update every policy on the rows of the agents that have it, by agent, and return the metrics."""
        metrics: dict[str, float] = {}
        for _ in range(self.config.updates):
            for name, updater, own in self.updates(rows):
                metrics |= {f"{name}_{what}": value for what, value in updater.step(own).items()}
        return metrics
