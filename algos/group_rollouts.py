"""Groups of rollouts for GRPO on one agent: played by the engine, filtered, and handed to TRL's trainer.

Between the engine and the trainer come the paper's three filters, the preference reward, and a curriculum.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from toolorchestra.algos import design_statistics
from toolorchestra.algos.advantages import group_advantages, rollout_filters
from toolorchestra.algos.curriculum import Curriculum
from toolorchestra.algos.evaluation import mean_parts
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest, Row
from toolorchestra.algos.rollout.sampling import ModelSampler
from toolorchestra.algos.trainer import TrainOptions
from toolorchestra.envs.rewards import preference_rewards
from toolorchestra.toolscale.errors import OptionError

Filter = Literal["homogeneity", "format", "invalid"]


@dataclass
class GroupOptions(TrainOptions):
    """Options of groups of rollouts."""

    groups: int = 16
    """Tasks per batch."""
    group_size: int = 8
    """Rollouts per task."""
    updates: int = 1
    """Optimiser steps per batch of rollouts, each on its share of the rows."""
    filters: tuple[Filter, ...] = ("homogeneity", "format", "invalid")
    """Filters before the loss: groups of nearly equal reward, rollouts out of format, rollouts without answer."""
    min_std: float = 0.1
    """Minimal standard deviation of a group's rewards that the homogeneity filter lets pass."""
    scale: bool = True
    """Divide advantages by the deviation of their group's rewards (Eq. 3). It makes all groups count alike: where all
    are solved, the smallest difference in cost then weighs as much as success does elsewhere."""
    resample: int = 1
    """How often dropped groups are replaced by playing further tasks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_at_least(1, "groups", "updates")
        if self.group_size < 2:
            raise OptionError(f"Advantages compare the rollouts of a group: `group_size` {self.group_size} is below 2.")
        if self.groups * self.group_size % self.updates:
            raise OptionError(
                f"{self.groups} groups of {self.group_size} rollouts cannot be shared among {self.updates} updates. "
                "Let `updates` divide groups × group_size."
            )


@dataclass
class RolloutGroup:
    """The rollouts of one task, and their advantages.

    Attributes:
        level: Difficulty of the task.
        rows: The rollouts.
        advantages: Eq. 3 over all of them; their sum is 0.
        kept: Which of them the filters leave for the backward pass.
    """

    level: int
    rows: list[Row]
    advantages: list[float]
    kept: list[bool]

    @classmethod
    def judge(
        cls, level: int, rows: list[Row], filters: Sequence[Filter], min_std: float, *, scale: bool = True
    ) -> RolloutGroup:
        """Compare a task's rollouts with one another, and filter them."""
        rewards = torch.tensor(group_rewards(rows))
        kept = rollout_filters(
            rewards,
            torch.tensor([row.well_formed for row in rows]) if "format" in filters else None,
            torch.tensor([row.answered for row in rows]) if "invalid" in filters else None,
            threshold=min_std if "homogeneity" in filters else 0.0,
        )
        return cls(level, rows, group_advantages(rewards, scale=scale).tolist(), kept.tolist())


def group_rewards(rows: Sequence[Row]) -> NDArray[np.float64]:
    """Return a task's rewards: those of the environment, or with a preference Eq. 2 over its rollouts."""
    preference = rows[0].preference
    rewards = np.array([row.reward for row in rows])
    vectors = [row.M for row in rows if row.M is not None]
    if preference is not None and vectors:
        measured = [n for n, row in enumerate(rows) if row.M is not None]  # an episode broken off has no M: it earns 0
        rewards[measured] = preference_rewards(np.stack(vectors), preference)
    return rewards


class GroupRollouts:
    """TRL's `rollout_func`: plays groups and hands them over, as many rows as it was asked for.

    A dropped rollout keeps its place with an empty loss mask and only the first of its ids, so that a long one does not
    widen the whole batch. The only state is the curriculum: the tasks and samples of a step depend on the seed and the
    step.
    """

    def __init__(self, engine: RolloutEngine, curriculum: Curriculum, config: GroupOptions, start: Any = None) -> None:
        self.engine, self.curriculum, self.config, self.start = engine, curriculum, config, start
        self.metrics: dict[str, float] = {}

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """Return rows for `prompts` (which only say how many)."""
        config = self.config
        rng = random.Random(f"{config.seed}/{trainer.state.global_step}")
        model = trainer.accelerator.unwrap_model(trainer.model)
        sampler = ModelSampler(model, self.engine.renderer, temperature=config.temperature, seed=rng.getrandbits(48))
        wanted = len(prompts) // config.group_size
        useful: list[RolloutGroup] = []
        spare: list[RolloutGroup] = []
        for _ in range(config.resample + 1):
            for group in self.play(sampler, wanted - len(useful), rng):
                (useful if any(group.kept) else spare).append(group)
            if len(useful) == wanted:
                break
        chosen = (useful + spare)[:wanted]
        if len(chosen) < wanted:
            raise OptionError(
                f"Only {len(chosen)} of {wanted} groups could be played without infrastructure errors. "
                "Look at the environment's log, or raise `resample`."
            )
        self._measure(useful, spare, model)
        rows = [item for g in chosen for item in zip(g.rows, g.kept, g.advantages, strict=True)]
        return {
            "prompt_ids": [row.prompt_ids for row, _, _ in rows],
            "completion_ids": [row.completion_ids if kept else row.completion_ids[:1] for row, kept, _ in rows],
            "logprobs": [row.logprobs if kept else row.logprobs[:1] for row, kept, _ in rows],
            "env_mask": [row.mask if kept else [0] for row, kept, _ in rows],
            "advantage": [advantage for _, _, advantage in rows],
        }

    def play(self, sampler: ModelSampler, count: int, rng: random.Random) -> Iterator[RolloutGroup]:
        """Play and judge `count` tasks of the curriculum; a group with an infrastructure error is left out."""
        config = self.config
        tasks = self.curriculum.draw(count, rng)
        size = config.group_size
        requests = [RolloutRequest(n, start.another(rng)) for n, (_, start) in enumerate(tasks) for _ in range(size)]
        rows = self.engine.play(sampler, requests)
        for n, (level, _) in enumerate(tasks):
            group = rows[n * size : (n + 1) * size]
            if all(row.valid for row in group):
                self.curriculum.record(level, float(np.mean([row.outcome == "solved" for row in group])))
                yield RolloutGroup.judge(level, group, config.filters, config.min_std, scale=config.scale)

    def _measure(self, useful: Sequence[RolloutGroup], spare: Sequence[RolloutGroup], model: Any) -> None:
        rows = [row for group in (*useful, *spare) for row in group.rows]
        self.metrics = {
            "success": float(np.mean([row.outcome == "solved" for row in rows])),
            "reward": float(np.mean([row.reward for row in rows])),
            "cost": float(np.mean([row.cost for row in rows])),
            "seconds": float(np.mean([row.seconds for row in rows])),
            "turns": float(np.mean([row.turns for row in rows])),
            "well_formed": float(np.mean([row.well_formed for row in rows])),
            "groups_kept": len(useful),
            "groups_played": len(useful) + len(spare),
            "levels_open": self.curriculum.open,
            "tokens_per_second": self.engine.speed(),
        }
        self.metrics |= mean_parts(rows) | design_statistics.statistics(rows)
        answered = [row for row in rows if row.answered]  # of bounded length, unlike one that was broken off
        if self.start is not None and answered:
            spread = answered[:: math.ceil(len(answered) / 32)]
            self.metrics["kl"] = divergence(model, self.start, spread, self.engine.renderer.pad_id)


@torch.no_grad()
def divergence(model: Any, start: Any, rows: Sequence[Row], pad_id: int) -> float:
    """Return KL(model ‖ start) per policy token, computed over the whole vocabulary, as mean over rows of `model`."""
    width = max(len(row.prompt_ids) + len(row.completion_ids) for row in rows)
    device = next(model.parameters()).device
    ids = torch.full((len(rows), width), pad_id, device=device)
    attention = torch.zeros_like(ids)
    mask = torch.zeros(ids.shape, dtype=torch.bool, device=device)
    for n, row in enumerate(rows):
        sequence = row.prompt_ids + row.completion_ids
        ids[n, : len(sequence)], attention[n, : len(sequence)] = torch.tensor(sequence, device=device), 1
        mask[n, len(row.prompt_ids) : len(sequence)] = torch.tensor(row.mask, device=device).bool()

    def logprobs(of: Any) -> torch.Tensor:
        logits: torch.Tensor = of(input_ids=ids, attention_mask=attention).logits
        return torch.log_softmax(logits[:, :-1][mask[:, 1:]].float(), -1)  # (policy tokens, V)

    ours, theirs = logprobs(model), logprobs(start.to(device))
    return float((ours.exp() * (ours - theirs)).sum(-1).mean())


def advantages_as_rewards(advantage: list[float | None], **_: Any) -> list[float | None]:
    """Return advantages where TRL asks for rewards.

    TRL takes no advantages from a `rollout_func`: it computes them from rewards, minus their mean over the group
    (``scale_rewards="none"``). The advantages of a whole group sum to 0, so it leaves them as they are.
    """
    return advantage
