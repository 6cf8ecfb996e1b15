"""Evaluation on held-out tasks: of a policy (rows of one agent), and of the policies of several agents (slots)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.agents.policies.base import Policy
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.hardware.batching import chunks
from toolorchestra.algos.hardware.sharding import gathered
from toolorchestra.algos.reporting import call_statistics, design_statistics
from toolorchestra.algos.reporting.stats import known_mean
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest, Row
from toolorchestra.algos.rollout.generation import Generation
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine, Slot
from toolorchestra.algos.rollout.team_generation import TeamGeneration
from toolorchestra.envs.records.unjudged import INVALID_OUTCOMES, require_judged
from toolorchestra.envs.run_episodes import run_all
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.answers.answers import equal, final_answer
from toolorchestra.toolscale.common.jsonl import write_jsonl

Progress = Callable[[int], None]
"""Called with the number of episodes that have ended."""


def evaluate(
    engine: RolloutEngine,
    policy: TokenPolicy,
    plays: Sequence[EpisodeStart],
    *,
    samples: int,
    greedy: bool = False,
    record: Path | None = None,
    generation: Generation | None = None,
    progress: Progress = lambda done: None,
) -> list[Row]:
    """Return the rows of `samples` episodes per start, in order; those of one start differ in their seed.

    With `record`, the episodes are written to that JSONL file (`toolorchestra show` draws them). Without a
    `generation` the model itself generates. `progress` is called with the number of episodes that have ended. Processes
    play a share each, and all return all rows.

    Raises:
        EvaluationError: More than 1 % of them were not judged.
    """
    sampler = (generation or Generation()).sampler(policy.model, policy.renderer, temperature=0.0 if greedy else 1.0)
    rng = random.Random(samples)
    repeated = [(n, start.another(rng)) for n, start in enumerate(plays) for _ in range(samples)]
    requests = [RolloutRequest(n, start, number) for number, (n, start) in enumerate(repeated)]
    with gathered(policy.model):
        rows = distributed.all_gather(
            engine.play(sampler, distributed.shard(requests), lambda done: progress(done * distributed.world_size()))
        )
    if record is not None and distributed.is_main():
        write_jsonl(record, [row.episode for row in rows if row.episode is not None])
    require_judged(row.unjudged for row in rows)
    return rows


@dataclass(frozen=True)
class PolicyScores:
    """How a policy does on held-out tasks: rows of sampled episodes, task by task; share of tasks solved greedily."""

    rows: list[Row]
    samples: int
    greedy: float

    @cached_property
    def outcomes(self) -> list[float | None]:
        """Success of every sampled episode; None after an infrastructure error."""
        return outcomes_of(self.rows)

    @cached_property
    def by_task(self) -> list[float]:
        """Mean success of the sampled episodes of each task; NaN if none was judged."""
        return self.task_means(self.outcomes)

    def task_means(self, values: Sequence[float | None]) -> list[float]:
        """Return the mean of each task of values of all sampled episodes, NaN where all are None.

        Others that are None are left out.
        """
        tasks = chunks(values, self.samples)
        return [known_mean([math.nan if value is None else value for value in task]) for task in tasks]

    def episode_means(self) -> dict[str, float]:
        """Return the means of reward, cost and time, of the parts of the reward, and statistics of designs."""
        valid = [row for row in self.rows if row.valid]
        means = row_means(valid, "reward", "cost", "seconds")
        return means | mean_parts(valid) | design_statistics.statistics(valid) | call_statistics.statistics(valid)

    def means(self) -> dict[str, float]:
        """Return the means that are reported with the success."""
        return {"greedy": self.greedy, **self.episode_means()}


def row_means(rows: Sequence[Row], *names: str) -> dict[str, float]:
    """Return the means of these attributes."""
    return {name: float(np.mean([getattr(row, name) for row in rows])) for name in names}


def mean_parts(rows: Sequence[Row]) -> dict[str, float]:
    """Return the mean of each part of the reward, where there are parts; 0 for an episode that has none."""
    names = next((row.parts for row in rows if row.parts), {})
    return {f"reward_{name}": float(np.mean([row.parts.get(name, 0.0) for row in rows])) for name in names}


def outcomes_of(rows: Sequence[Row]) -> list[float | None]:
    """Return 1 for a row that is solved, 0 for one that is not, None after an infrastructure error."""
    return [float(row.outcome == "solved") if row.valid else None for row in rows]


def rewards_of(rows: Sequence[Row]) -> list[float | None]:
    """Return the environment's reward of each row, None after an infrastructure error."""
    return [row.reward if row.valid else None for row in rows]


def reference(
    make_env: Callable[[], gym.Env[Any, Any]],
    make_policy: Callable[[], Policy],
    plays: Sequence[EpisodeStart],
    *,
    in_flight: int = 1,
) -> list[float | None]:
    """Return the outcomes of a reference policy, one episode per start, `in_flight` of them at a time."""
    outcomes: list[float | None] = []
    for one in run_all(make_env, make_policy, plays, in_flight=in_flight):
        outcomes.append(None if one.outcome in INVALID_OUTCOMES else float(one.outcome == "solved"))
    return outcomes


@dataclass(frozen=True)
class Scores:
    """How policies do on held-out tasks; shares of the tasks, or means over them.

    Attributes:
        by_task: Mean success of the sampled episodes of each task; NaN if none was judged.
        outcomes: Success of every sampled episode, task by task; None after an infrastructure error.
        greedy: Success of the greedy episode.
        pass_at: Share of tasks with a right answer among the samples.
        maj_at: Share of tasks whose commonest answer is right; None in an environment without answers.
        reward: Mean reward of the sampled episodes.
        calls: Mean number of tool calls of a sampled episode.
        rewards: Mean reward of each agent in the sampled episodes.
        greedy_by_task: Success of the greedy episode of each task; NaN if it was not judged.
        calling: Share of the sampled episodes with a tool call; NaN where it was not counted.
    """

    by_task: list[float]
    outcomes: list[float | None]
    greedy: float
    pass_at: float
    maj_at: float | None
    reward: float
    calls: float
    rewards: dict[str, float] = field(default_factory=dict)
    greedy_by_task: list[float] = field(default_factory=list)
    calling: float = math.nan

    @property
    def success(self) -> float:
        """Mean success of the sampled episodes (pass@1)."""
        return known_mean(self.by_task)

    def means(self) -> dict[str, float]:
        """Return the means that are reported with the success."""
        found = {name: getattr(self, name) for name in ("greedy", "pass_at", "maj_at", "reward", "calls", "calling")}
        if self.maj_at is None:
            del found["maj_at"]
        if len(set(self.rewards.values())) > 1:  # agents that are paid alike need no numbers of their own
            found |= {f"{agent}_reward": reward for agent, reward in self.rewards.items()}
        return found


def evaluate_agents(
    engine: MultiAgentEngine,
    policies: Mapping[str, TokenPolicy],
    starts: Sequence[EpisodeStart],
    *,
    samples: int,
    temperature: float = 1.0,
    record: Path | None = None,
    generation: TeamGeneration | None = None,
    progress: Progress = lambda done: None,
) -> Scores:
    """Play held-out tasks greedily and `samples` times each; `record` keeps the greedy episodes as JSONL.

    Without a `generation` the models themselves generate. See `evaluate` for `progress`.

    Raises:
        EvaluationError: More than 1 % of the episodes were not judged.
    """
    rng, everywhere, generation = random.Random(samples), distributed.world_size(), generation or TeamGeneration()
    played = [engine.start(start) for start in distributed.shard(starts)]
    models = [policy.model for policy in policies.values()]
    samplers = generation.samplers(policies, 0.0, rng)
    with gathered(*models):
        engine.play(samplers, played, progress=lambda done: progress(done * everywhere))
    greedy = distributed.all_gather(played)
    if record is not None and distributed.is_main():
        write_jsonl(record, [slot.play.episode for slot in greedy])
    repeated = [start.another(rng) for start in starts for _ in range(samples)]
    samplers = generation.samplers(policies, temperature, rng)
    played = [engine.start(start) for start in distributed.shard(repeated)]
    with gathered(*models):
        engine.play(samplers, played, progress=lambda done: progress(len(greedy) + done * everywhere))
    slots = distributed.all_gather(played)
    for several in (greedy, slots):
        require_judged(slot.unjudged for slot in several)
    judged = [[slot for slot in task if not math.isnan(slot.success)] for task in chunks(slots, samples)]
    return Scores(
        by_task=[known_mean([slot.success for slot in task]) for task in judged],
        outcomes=[None if math.isnan(slot.success) else slot.success for slot in slots],
        greedy=known_mean([slot.success for slot in greedy]),
        greedy_by_task=[slot.success for slot in greedy],
        pass_at=known_mean([any(slot.success for slot in task) for task in judged if task]),
        maj_at=known_mean([_majority(task) for task in judged if task]) if any(map(_answered, slots)) else None,
        reward=known_mean([slot.reward for slot in slots]),
        calls=float(np.mean([slot.calls for slot in slots])),
        rewards={agent: known_mean([slot.agent_reward(agent) for slot in slots]) for agent in engine.policies},
        calling=float(np.mean([slot.calls > 0 for slot in slots])),
    )


def _answered(slot: Slot) -> bool:
    return slot.play.episode.answer is not None


def _majority(slots: Sequence[Slot]) -> float:
    """Return the success of the commonest answer; 0 if there is none."""
    clusters: list[tuple[Any, list[Slot]]] = []
    for slot in slots:
        if slot.play.episode.answer is not None:
            answer = final_answer(slot.play.episode.answer)
            cluster = next((members for one, members in clusters if equal(answer, one)), None)
            if cluster is None:
                clusters.append((answer, [slot]))
            else:
                cluster.append(slot)
    return max((members for _, members in clusters), key=len)[0].success if clusters else 0.0
