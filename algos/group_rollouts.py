"""Groups of rollouts for GRPO on one agent: played by the engine, filtered, and handed to TRL's trainer.

Between the engine and the trainer come the paper's three filters, the preference reward, and a curriculum.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.hardware.autocast import autocast
from toolorchestra.algos.hardware.batching import chunks
from toolorchestra.algos.hardware.logits import hidden_states, logits_in_chunks
from toolorchestra.algos.hardware.sharding import forward, gathered
from toolorchestra.algos.loss.advantages import group_advantages, rollout_filters
from toolorchestra.algos.options.one_agent import Filter, TrainGRPO
from toolorchestra.algos.reporting import call_statistics, design_statistics
from toolorchestra.algos.reporting.evaluation import mean_parts, row_means
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest, Row
from toolorchestra.algos.rollout.generation import Generation
from toolorchestra.algos.rollout.kept_rollouts import KeptRollout, RolloutKeeper
from toolorchestra.algos.rollout.sampling import AnySampler
from toolorchestra.envs.records.unjudged import unjudged_error
from toolorchestra.envs.rewards import preference_rewards
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.common.errors import OptionError

_LOG = logging.getLogger(__name__)


class Curriculum:
    """Easy tasks first: levels open in ascending order, each once the success on the level before it is good enough.

    Args:
        tasks: Starts by level.
        open_at: Live success on the hardest open level that opens the next.
        memory: Weight of the past in the live success (moving average over groups).

    Attributes:
        success: Live success by level, None before the level's first group.
        open: Number of levels open.
    """

    def __init__(
        self, tasks: Mapping[int, Sequence[EpisodeStart]], *, open_at: float = 0.7, memory: float = 0.95
    ) -> None:
        self.tasks = {level: list(plays) for level, plays in sorted(tasks.items()) if plays}
        self.open_at, self.memory = open_at, memory
        self.success: dict[int, float | None] = dict.fromkeys(self.tasks)
        self.open = 1 if open_at > 0 else len(self.tasks)

    def draw(self, count: int, rng: random.Random) -> list[tuple[int, EpisodeStart]]:
        """Return tasks to play with their levels; levels neither mastered nor hopeless come oftener."""
        levels = list(self.tasks)[: self.open]
        weights = [1.0 if (p := self.success[level]) is None else 0.1 + 4 * p * (1 - p) for level in levels]
        return [(level, rng.choice(self.tasks[level])) for level in rng.choices(levels, weights, k=count)]

    def record(self, level: int, success: float) -> None:
        """Take note of a group's mean success."""
        before = self.success[level]
        self.success[level] = success if before is None else self.memory * before + (1 - self.memory) * success
        hardest = list(self.tasks)[self.open - 1]
        if self.open < len(self.tasks) and (self.success[hardest] or 0.0) >= self.open_at:
            self.open += 1

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`."""
        return {"success": list(self.success.items()), "open": self.open}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`."""
        self.success = {int(level): value for level, value in state["success"]}
        self.open = int(state["open"])


@dataclass
class RolloutGroup:
    """The rollouts of a task of some level, their advantages (Eq. 3; they sum to 0), and which the filters keep."""

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
            calls_valid=torch.tensor([row.calls_valid for row in rows]) if "calls" in filters else None,
            threshold=min_std if "homogeneity" in filters else 0.0,
        )
        return cls(level, rows, group_advantages(rewards, scale=scale).tolist(), kept.tolist())

    @classmethod
    def recorded(cls, level: int, rows: list[Row], curriculum: Curriculum, config: TrainGRPO) -> RolloutGroup:
        """Let the curriculum take note of a task's rollouts, and judge them."""
        curriculum.record(level, float(np.mean([row.outcome == "solved" for row in rows])))
        return cls.judge(level, rows, config.used_filters, config.min_std, scale=config.scale)


def group_rewards(rows: Sequence[Row]) -> NDArray[np.float64]:
    """Return a task's rewards: those of the environment, or with a preference Eq. 2 over its rollouts."""
    preference = rows[0].preference
    rewards = np.array([row.reward for row in rows])
    vectors = [row.M for row in rows if row.M is not None]
    if preference is not None and vectors:
        measured = [n for n, row in enumerate(rows) if row.M is not None]
        rewards[measured] = preference_rewards(np.stack(vectors), preference)
    return rewards


class GroupRollouts:
    """TRL's `rollout_func`: plays groups and returns as many rows as there are prompts.

    A dropped rollout keeps its place with an empty loss mask and only the first of its ids, so that a long one does not
    widen the whole batch. The only state is the curriculum: the tasks and samples of a step depend on the seed and the
    step.
    """

    def __init__(
        self,
        engine: RolloutEngine,
        curriculum: Curriculum,
        config: TrainGRPO,
        start: Any = None,
        generation: Generation | None = None,
    ) -> None:
        self.engine, self.curriculum, self.config, self.start = engine, curriculum, config, start
        self.generation = generation or Generation(config.memory)
        self.metrics: dict[str, float] = {}
        self._keeper = RolloutKeeper(config.output, config.keep_rollouts)
        self._unjudged: list[str | None] = []  # why each row of the batch was not judged

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """Return rows for `prompts` (which only say how many)."""
        model = trainer.accelerator.unwrap_model(trainer.model)
        with gathered(model):
            return self._rows(prompts, trainer.state.global_step, model)

    def _rows(self, prompts: Sequence[Any], global_step: int, model: Any) -> dict[str, list[Any]]:
        config = self.config
        wanted = distributed.world_size() * len(prompts) // config.rollouts_per_task
        self._unjudged = []
        useful, spare = self.collect(wanted, global_step, model)
        chosen = (useful + spare)[:wanted]
        if len(chosen) < wanted:
            raise OptionError(
                f"Only {len(chosen)} of {wanted} groups could be played without infrastructure errors "
                f"({unjudged_error(self._unjudged)}). Repair what failed, or raise `resample`."
            )
        if not useful and distributed.is_main():
            self._warn(spare)
        self._measure(useful, spare, model)
        step = global_step // config.updates + 1
        if distributed.is_main() and self._keeper.wants(step):
            self._keeper.write(step, kept_rollouts(step, chosen[0]))
        rows = [item for g in chosen for item in zip(g.rows, g.kept, g.advantages, strict=True)]
        rows = rows[distributed.rank() * len(prompts) :][: len(prompts)]
        return {
            "prompt_ids": [row.prompt_ids for row, _, _ in rows],
            "completion_ids": [row.completion_ids if kept else row.completion_ids[:1] for row, kept, _ in rows],
            "logprobs": [row.logprobs if kept else row.logprobs[:1] for row, kept, _ in rows],
            "env_mask": [row.mask if kept else [0] for row, kept, _ in rows],
            "advantage": [advantage for _, _, advantage in rows],
        }

    def collect(self, wanted: int, step: int, model: Any) -> tuple[list[RolloutGroup], list[RolloutGroup]]:
        """Return so many groups for an optimiser step that the filters leave something of, and the others played."""
        rng = random.Random(f"{self.config.seed}/{step}")
        sampler = self.generation.sampler(
            model, self.engine.renderer, temperature=self.config.temperature, seed=rng.getrandbits(48)
        )
        useful: list[RolloutGroup] = []
        spare: list[RolloutGroup] = []
        for _ in range(self.config.resample + 1):
            for group in self.play(sampler, wanted - len(useful), rng):
                (useful if any(group.kept) else spare).append(group)
            if len(useful) == wanted:
                break
        return useful, spare

    def close(self) -> None:
        """Stop what is still played."""

    def play(self, sampler: AnySampler, count: int, rng: random.Random) -> Iterator[RolloutGroup]:
        """Play and judge `count` tasks of the curriculum; a group with an infrastructure error is left out."""
        config = self.config
        tasks = self.curriculum.draw(count, rng)
        size = config.rollouts_per_task
        requests = [
            RolloutRequest(n, start.another(rng), rng.getrandbits(48))
            for n, (_, start) in enumerate(tasks)
            for _ in range(size)
        ]
        own = distributed.shard(list(chunks(requests, size)))
        played = self.engine.play(sampler, [request for group in own for request in group])
        reasons = [[row.unjudged for row in group] for group in chunks(played, size)]
        for row in played:
            row.episode, row.messages = None, []  # nobody needs them, and they would be sent to every process
        groups = distributed.all_gather(list(zip(chunks(played, size), reasons, strict=True)))
        for (level, _), (group, unjudged) in zip(tasks, groups, strict=True):
            self._unjudged += unjudged
            if all(row.valid for row in group):
                yield RolloutGroup.recorded(level, list(group), self.curriculum, config)

    def _warn(self, groups: Sequence[RolloutGroup]) -> None:
        """Say why no group is left to learn from."""
        rows = [row for group in groups for row in group.rows]
        equal = sum(bool(np.std(group_rewards(group.rows)) <= self.config.min_std) for group in groups)
        _LOG.warning(
            "No group of %d survived the filters, so this step changes nothing: %d have nearly equal rewards, %d of %d "
            "rollouts are not well-formed, %d were broken off. Easier tasks (`difficulty`), more rollouts "
            "(`group_size`, `resample`), longer ones (`max_turns`, `max_turn_ids`) or fewer `filters` help.",
            len(groups),
            equal,
            sum(not row.well_formed for row in rows),
            len(rows),
            sum(not row.answered for row in rows),
        )

    def _measure(self, useful: Sequence[RolloutGroup], spare: Sequence[RolloutGroup], model: Any) -> None:
        rows = [row for group in (*useful, *spare) for row in group.rows]
        self.metrics = {
            "success": float(np.mean([row.outcome == "solved" for row in rows])),
            **row_means(rows, "reward", "cost", "seconds", "turns", "well_formed", "calls_valid"),
            "groups_kept": len(useful),
            "groups_played": len(useful) + len(spare),
            "unjudged": sum(reason is not None for reason in self._unjudged) / max(1, len(self._unjudged)),
            "levels_open": self.curriculum.open,
            "tokens_per_second": sum(distributed.gather(self.engine.speed())),
        }
        self.metrics |= mean_parts(rows) | design_statistics.statistics(rows) | call_statistics.statistics(rows)
        self.metrics |= self.generation.metrics()
        answered = [row for row in rows if row.answered]  # of bounded length, unlike one that was broken off
        if self.start is not None and answered:
            spread = answered[:: math.ceil(len(answered) / 32)]
            self.metrics["kl"] = divergence(model, self.start, spread, self.engine.renderer.pad_id)


def kept_rollouts(step: int, group: RolloutGroup) -> Iterator[KeptRollout]:
    """Yield the rollouts of a group as a run keeps them."""
    for row, advantage, kept in zip(group.rows, group.advantages, group.kept, strict=True):
        tokens = row.prompt_ids, row.completion_ids, row.mask, row.logprobs
        yield KeptRollout(step, row.agent, *tokens, advantage, kept, row.task_id, row.outcome, row.reward)


@torch.no_grad()
def divergence(model: Any, start: Any, rows: Sequence[Row], pad_id: int) -> float:
    """Return KL(model ‖ start) per policy token, computed over the whole vocabulary, as mean over rows of `model`."""
    start.to(next(model.parameters()).device)
    found = []
    for row in distributed.shard(rows):
        total = 0.0
        sequence, predicting = [row.prompt_ids + row.completion_ids], slice(len(row.prompt_ids) - 1, -1)
        own = torch.tensor(row.mask, dtype=torch.bool)
        with autocast(model):
            ours, theirs = (
                forward(one, partial(hidden_states, one, sequence, pad_id))[0, predicting][own]
                for one in (model, start)
            )
            for p, q in zip(logits_in_chunks(model, ours), logits_in_chunks(start, theirs), strict=True):
                q, p = q.log_softmax(-1), p.log_softmax(-1)  # (n, V)
                total += float((p.exp() * (p - q)).sum())
        found.append((total, len(ours)))
    totals, counts = zip(*distributed.all_gather(found), strict=True)
    return float(sum(totals) / sum(counts))


def advantages_as_rewards(advantage: list[float | None], **_: Any) -> list[float | None]:
    """Return advantages where TRL asks for rewards.

    TRL takes no advantages from a `rollout_func`: it computes them from rewards, minus their mean over the group
    (``scale_rewards="none"``). The advantages of a whole group sum to 0, so it leaves them as they are.
    """
    return advantage
