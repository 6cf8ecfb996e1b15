"""What the learners of several agents share: options, an updater for each policy, and the learner that keeps them.

`PolicyUpdater` makes the optimiser steps of one policy; `ClippedUpdater` makes them on the clipped objective of
`toolorchestra.algos.msarl` and `toolorchestra.algos.multi_grpo`. Not here: which rows an agent learns from, and their
advantages; the run around a learner (`toolorchestra.algos.multi_agent_trainer`).
"""

from __future__ import annotations

import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos.hardware import distributed, memory, sharding
from toolorchestra.algos.hardware.autocast import autocast
from toolorchestra.algos.hardware.batching import bundles
from toolorchestra.algos.hardware.mismatch import Mismatch
from toolorchestra.algos.loss.losses import clipped_policy_loss
from toolorchestra.algos.options.optimizers import make_optimizer, rate_factor
from toolorchestra.algos.options.several_agents import TrainClipped, TrainTeam
from toolorchestra.algos.rollout.kept_rollouts import KeptRollout, RolloutKeeper
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine
from toolorchestra.algos.rollout.sampling import AnySampler
from toolorchestra.algos.rollout.team_generation import TeamGeneration
from toolorchestra.algos.rollout.trajectory import TrainRow, row_logps
from toolorchestra.envs.starts import EpisodeStart

_LOG = logging.getLogger(__name__)
_KEPT_ROWS = 8  # of each agent, where rollouts are kept
C = TypeVar("C", bound=TrainTeam)
R = TypeVar("R")


def warn_of_nothing(step: int, why: str) -> None:
    """Say that a batch of rollouts changes nothing, and what helps."""
    if distributed.is_main():
        _LOG.warning(
            "Batch %d changes nothing: %s. Tasks of another `difficulty`, more rollouts of a question, or longer ones "
            "(`max_turn_ids`, `max_ids`) help.",
            step,
            why,
        )


class PolicyUpdater(ABC, Generic[C]):
    """Trains one policy on the rows of its agents (`step`).

    Attributes:
        optimizer: The optimiser.
        mismatch: Compares log-probabilities of ids by what generated them with those by the policy, before it learns
            from them.
        unchanged: Whether the policy has learnt nothing yet since `begin`.
        steps_made: Optimiser steps so far.
    """

    def __init__(self, policy: TokenPolicy, config: C) -> None:
        self.policy, self.config = policy, config
        self.optimizer = make_optimizer(policy.model.parameters(), config)
        self.mismatch = Mismatch()
        self.unchanged = True
        self.steps_made = 0

    def set_rate(self, factor: float) -> None:
        """Set the share of the learning rate that the next steps have."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.rate * factor

    def begin(self) -> None:
        """Begin to learn from a batch of rollouts, which the policy as it is has written."""
        self.unchanged = True

    @abstractmethod
    def step(self, agents: Sequence[Sequence[Any]]) -> dict[str, float]:
        """Make one optimiser step on the rows of each agent that has this policy; each agent's mean counts alike."""

    def parts(
        self, rows: Sequence[R], length: Callable[[R], int], sequences: int = 1
    ) -> Iterator[tuple[Sequence[R], int]]:
        """Yield the rows of each forward and backward pass of this process, those of similar length together.

        With each comes 1, or 0 where its loss does not count: all processes make equally many passes of a model that is
        divided over them.

        Args:
            rows: Of all processes.
            length: Of the longest sequence of a row.
            sequences: How many a row has.
        """
        model, config = self.policy.model, self.config
        device = next(model.parameters()).device
        with autocast(model):
            shape, size = memory.ModelShape.of(model.config), memory.number_size(model)
        per_id = sequences * shape.train_bytes(size, checkpointing=config.gradient_checkpointing)
        fitting = memory.padded_rows(memory.budget(device, config.memory), per_id, masked=False)
        own = distributed.shard(rows)
        most = max(1, (config.micro_batch or len(rows) * sequences) // sequences)
        found = bundles(list(map(length, own)), max_rows=lambda width: min(most, fitting(width)))
        for bundle in found:
            yield [own[n] for n in bundle], 1
        if sharding.sharded(model):
            yield from [(rows[:1], 0)] * (max(distributed.gather(len(found))) - len(found))

    def apply_gradients(self) -> float:
        """Make the optimiser's step, with gradients clipped to norm 1, and return the norm before that.

        The gradient is the sum of those of all processes, each of which had a share of the rows.
        """
        distributed.add_gradients(self.policy.model.parameters())
        norm = float(sharding.whole(torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), 1.0)))
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.unchanged = False
        self.steps_made += 1
        return norm

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimiser."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state."""
        self.optimizer.load_state_dict(dict(state))
        sharding.divide_state(self.optimizer)


U = TypeVar("U", bound=PolicyUpdater[Any])


class TeamLearner(ABC, Generic[C, U]):
    """A learner with an updater for each policy (`updaters`). Subclasses say what a step is (`learn`).

    The engine plays the environment from the starts in `tasks`; the policies are updated in place.

    Attributes:
        generation: Who generates; at first the models themselves.
    """

    def __init__(
        self,
        config: C,
        engine: MultiAgentEngine,
        policies: Mapping[str, TokenPolicy],
        tasks: Sequence[EpisodeStart],
        updater: Callable[[TokenPolicy, C], U],
    ) -> None:
        self.config, self.engine, self.policies, self.tasks = config, engine, policies, tasks
        self.updaters = {name: updater(policy, config) for name, policy in policies.items()}
        self.factor = rate_factor(config, config.total)
        self.generation = TeamGeneration(config.memory)
        self._synchronised: dict[str, int] = {}  # after how many optimiser steps of each policy

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

    def sync(self) -> None:
        """Bring the weights that have changed to where policies are sampled from."""
        for name, updater in self.updaters.items():
            if self._synchronised.get(name) != updater.steps_made:
                self.generation.of(name).sync(self.policies[name])
                self._synchronised[name] = updater.steps_made

    def samplers(self, rng: random.Random) -> dict[str, AnySampler]:
        """Return a sampler of each policy, with its present weights."""
        self.sync()
        return self.generation.samplers(self.policies, self.config.temperature, rng)

    def sampling_metrics(self) -> dict[str, float]:
        """Return how far each policy was from what generated for it (`Mismatch`), and the use of caches."""
        found = {name: updater.mismatch.metrics() for name, updater in self.updaters.items()}
        named = {f"{name}_{what}": value for name, metrics in found.items() for what, value in metrics.items()}
        return named | self.generation.metrics()

    def sampling(self) -> AbstractContextManager[None]:
        """Return the context in which the policies are sampled from."""
        return sharding.gathered(*(policy.model for policy in self.policies.values()))

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

    def __init__(self, policy: TokenPolicy, config: TrainClipped) -> None:
        super().__init__(policy, config)
        self._before: dict[int, tuple[TrainRow, Tensor]] = {}  # by the identity of rows, which are kept for it

    def begin(self) -> None:
        """Begin to learn from a batch of rollouts."""
        super().begin()
        self._before.clear()

    def loss(self, rows: Sequence[TrainRow], count: int) -> tuple[Tensor, Tensor]:
        """Return the clipped loss of some of an agent's `count` rows, and the share of ratios clipped.

        With an `importance_cap`, ratios are to the policy before its first update on the rows, and the loss of a token
        is weighed by what that one says of it beside what generated it, at most the cap.
        """
        config = self.config
        logps, old, mask = row_logps(self.policy.model, rows, self.policy.renderer.pad_id, config.temperature)
        advantages = torch.tensor([row.advantage for row in rows], device=logps.device, dtype=logps.dtype)
        if self.unchanged:
            self.mismatch.add(old, logps.detach(), mask)
        weights = None
        if config.importance_limit:
            before = self._logps_before(rows, logps.detach())
            weights, old = (before - old).exp().clamp(max=config.importance_limit), before
        found = clipped_policy_loss(
            logps, old, advantages, mask, eps_low=config.epsilon, eps_high=config.epsilon_high, weights=weights
        )
        return found.loss * len(rows) / count, found.clipped

    def _logps_before(self, rows: Sequence[TrainRow], logps: Tensor) -> Tensor:
        """Return what the policy said of rows before its first update on them, from what it says now."""
        if self.unchanged:
            self._before |= {id(row): (row, own) for row, own in zip(rows, logps, strict=True)}
            return logps
        known = [self._before[id(row)][1][: len(row.completion_ids)] for row in rows]
        return torch.nn.utils.rnn.pad_sequence(known, batch_first=True)

    def step(self, agents: Sequence[Sequence[TrainRow]]) -> dict[str, float]:
        """Make one optimiser step on the rows of each agent that has this policy; each agent's mean counts alike.

        Rows without an advantage have no gradient and are only counted; if there are no others, no step is made.
        """
        self.policy.model.train()
        total, clipped, parts = 0.0, 0.0, 0
        for rows in agents:
            for part, counts in self.parts([row for row in rows if row.advantage], lambda row: row.length):
                loss, cut = self.loss(part, len(rows))
                torch.autograd.backward(loss * counts)
                total, clipped = total + counts * float(loss.detach()), clipped + counts * float(cut)
                parts += counts
        total, clipped, parts = map(sum, zip(*distributed.gather((total, clipped, parts)), strict=True))
        norm = self.apply_gradients() if parts else 0.0
        return {"loss": total, "grad_norm": norm, "clipped": clipped / max(1, parts)}


K = TypeVar("K", bound=TrainClipped)


class ClippedLearner(TeamLearner[K, ClippedUpdater]):
    """A learner whose policies are updated by the clipped objective."""

    def __init__(
        self, config: K, engine: MultiAgentEngine, policies: Mapping[str, TokenPolicy], tasks: Sequence[EpisodeStart]
    ) -> None:
        super().__init__(config, engine, policies, tasks, ClippedUpdater)
        self._keeper = RolloutKeeper(config.output, config.keep_rollouts)

    def update(self, step: int, rows: Mapping[str, Sequence[TrainRow]]) -> dict[str, float]:
        """Update every policy on the rows of the agents that have it, by agent, and return the metrics of a step."""
        if distributed.is_main() and self._keeper.wants(step):
            first = ((agent, row) for agent, several in rows.items() for row in several[:_KEPT_ROWS])
            self._keeper.write(step, [KeptRollout(step, agent, *row.tokens, row.advantage) for agent, row in first])
        if not any(row.advantage for several in rows.values() for row in several):
            warn_of_nothing(step, "no rollout earned more or less than the others that it is compared with")
        for updater in self.updaters.values():
            updater.begin()
        metrics: dict[str, float] = {}
        for _ in range(self.config.updates):
            for name, updater, own in self.updates(rows):
                metrics |= {f"{name}_{what}": value for what, value in updater.step(own).items()}
        return metrics
