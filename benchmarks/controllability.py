"""Train one warm start under several preferences, and compare the cost and success of the policies.

    python benchmarks/controllability.py --env ParaManager-Math-v0

writes benchmarks/results/controllability_ParaManager-Math-v0.json.

From one warm start GRPO learns under a cost-averse, a balanced and an accuracy-first preference vector (ToolOrchestra
§6.1 and Table 20), and under the balanced one with each of the three filters left out. All policies, greedily (at
temperature 0, as in the paper), and the baselines always-strongest, always-cheapest and kNN router, play the same
held-out tasks. A policy's score under a preference is the mean of Eq. 2 over all rollouts of a task by all of them. As
that is relative to the dearest and the cheapest of all, policies are also compared by twos: Eq. 2 over the rollouts of
a task by these two. Each policy learns one preference, so no prompt states it.

Trainings are processes of their own, `--jobs` at a time. What a folder of runs holds already is not trained again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from harness import cli, file_of, markdown, percent, save
from numpy.typing import NDArray

from examples.baselines.routing import KNNRouter
from toolorchestra.agents.builtin.model import TokenPolicy, prepare_torch
from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.agents.policies.baselines import Cheapest, Strongest
from toolorchestra.algos import grpo
from toolorchestra.algos.group_rollouts import Curriculum, GroupRollouts
from toolorchestra.algos.options.one_agent import Filter, TrainGRPO
from toolorchestra.algos.reporting.evaluation import evaluate
from toolorchestra.algos.reporting.report import RunLog
from toolorchestra.algos.reporting.stats import paired_bootstrap
from toolorchestra.envs.rewards import Preference, preference_rewards
from toolorchestra.envs.starts import EpisodeStart, make_env, starts
from toolorchestra.toolscale.common.errors import UnknownNameError

Weights = dict[str, dict[str, float]]
"""Weights by preference."""
PREFERENCES: Weights = {
    "cost-averse": {"outcome": 0.3, "compute": 1.0},
    "balanced": {"outcome": 1.0, "compute": 0.3},
    "accuracy-first": {"outcome": 1.0, "compute": 0.1},
}
FILTERS: tuple[Filter, ...] = ("homogeneity", "calls", "invalid")
"""The filters of the records: that of format dropped rollouts with wrong arguments as well, as ``calls`` does."""
NAMES = {"calls": "format"}
Played = list[list[tuple[float, NDArray[np.float64]]]]
"""By task and sample: success, and M."""


@dataclass
class Benchmark:
    """Train one warm start under several preferences, and compare the cost and success of the policies."""

    env: str = "ParaManager-Math-v0"
    env_options: dict[str, str] = field(default_factory=dict)  # further arguments of `gymnasium.make`
    difficulty: tuple[int, ...] = ()  # levels of the tasks; empty for all
    start: Path | None = None  # folder of a policy to start from; None: a warm start of its own
    sft_steps: int = 200  # steps of that warm start
    steps: int = 30  # batches of rollouts of each training
    learning_rate: float | None = None  # of GRPO; None: its default
    compute: dict[str, float] = field(default_factory=dict)
    """Weights of compute, by preference, where they are not the usual ones, e.g. ``accuracy-first 0.02``."""
    filters: tuple[Filter, ...] = FILTERS  # filters of rollouts, but for the trainings that compare them
    samples: int = 2  # episodes per held-out task and policy
    tasks: int = 300  # maximum of held-out tasks
    ablations: bool = True  # also train without each of the filters
    seed: int = 0  # seed of everything
    jobs: int = 2  # trainings at a time
    runs: Path = Path("runs/controllability")
    output: Path | None = None  # where the numbers go; None: a record named after the environment
    more: dict[str, str] = field(default_factory=dict)
    """Further settings of `TrainGRPO`, their values as JSON, e.g. ``temperature 0.8``."""


def main(benchmark: Benchmark) -> None:
    """Run the benchmark."""
    began = time.perf_counter()
    preferences = {name: {**usual} for name, usual in PREFERENCES.items()}
    for name, weight in benchmark.compute.items():
        if name not in preferences:
            raise UnknownNameError("preference", name, preferences)
        preferences[name]["compute"] = weight
    base = TrainGRPO(
        env=benchmark.env,
        env_options=benchmark.env_options,
        difficulty=benchmark.difficulty,
        seed=benchmark.seed,
        sft_steps=benchmark.sft_steps,
        sft_batch=32,
        steps=benchmark.steps,
        learning_rate=benchmark.learning_rate,
        eval_samples=1,
        save_every=0,
        open_at=0,
        track_kl=False,
        **{name: json.loads(value) for name, value in benchmark.more.items()},
    )
    folder = benchmark.runs / benchmark.env
    start = benchmark.start or folder / "start"
    threads = max(1, (os.cpu_count() or 1) // benchmark.jobs)
    if benchmark.start is None and not (start / "config.json").exists():
        with RunLog(start) as log:
            grpo.warm_up(base, lambda step, metrics: log.log("sft", step, **metrics)).save(start)
    seconds = {"warm start": took} if (took := round(time.perf_counter() - began, 1)) else {}
    with ProcessPoolExecutor(benchmark.jobs, get_context("spawn"), partial(prepare_torch, threads)) as pool:
        configs = {
            name: replace(base, filters=filters, output=folder / slug(name), preference=preferences[name.split(",")[0]])
            for name, filters in runs(benchmark.filters, benchmark.ablations)
        }
        trained = {name: pool.submit(train, config, start) for name, config in configs.items()}
        seconds |= {name: took for name, training in trained.items() if (took := training.result())}
        env = make_env(benchmark.env, benchmark.env_options)
        tasks = [play for level in starts(env, "test", benchmark.difficulty).values() for play in level]
        tasks = tasks[:: max(1, -(-len(tasks) // benchmark.tasks))]
        policies = {"start": start, **{name: folder / slug(name) / "final" for name in configs}}
        judged = replace(base, max_turns=50)  # as many as the environment gives the baselines
        playing = {
            name: pool.submit(greedily, judged, policy, tasks, benchmark.samples) for name, policy in policies.items()
        }
        baselines: dict[str, Policy] = {
            "always strongest": Strongest(),
            "always cheapest": Cheapest(),
            "kNN router": KNNRouter.fit(env, questions=100),
        }
        scripts = {name: scripted(env, policy, tasks, benchmark.samples) for name, policy in baselines.items()}
        played = {name: rollouts.result() for name, rollouts in playing.items()} | scripts
    names = tuple(env.unwrapped.episode.tools)  # type: ignore[attr-defined]  # our environments have it
    record = {
        "seed": benchmark.seed,
        "preferences": preferences,
        "tasks": len(tasks),
        "samples": benchmark.samples,
        "seconds": seconds,
        "seconds_in_all": round(time.perf_counter() - began, 1),
        **compared(played, names, preferences),
    }
    save(benchmark.output or file_of(f"controllability_{benchmark.env}"), record)
    rows = [
        [
            name,
            percent(one["success"]),
            f"{one['cost']:.5f}",
            f"{one['seconds']:.1f}",
            *map("{:.3f}".format, one["scores"].values()),
        ]
        for name, one in record["policies"].items()
    ]
    print(markdown("policy|success, %:|cost, $:|seconds:|" + "|".join(f"score {name}:" for name in preferences), rows))


def runs(filters: tuple[Filter, ...], ablations: bool) -> Iterable[tuple[str, tuple[Filter, ...]]]:
    """Yield each training by name, with its filters."""
    for name in PREFERENCES:
        yield name, filters
    if ablations and set(filters) != set(FILTERS):
        yield "balanced, all three filters", FILTERS
    for left_out in FILTERS if ablations else ():
        yield (
            f"balanced, no {NAMES.get(left_out, left_out)} filter",
            tuple(kept for kept in FILTERS if kept != left_out),
        )


def slug(name: str) -> str:
    """Return a run's name as that of a folder."""
    return name.replace(",", "").replace(" ", "-")


def train(config: TrainGRPO, start: Path) -> float:
    """Train a start with GRPO, save what comes of it, and return the seconds that it took; 0 if it was there."""
    if (config.output / "final").exists():
        return 0.0
    began = time.perf_counter()
    policy = TokenPolicy.load(start)
    env = make_env(config.env, config.env_options)
    engine = grpo.make_engine(config, policy.renderer)
    curriculum = Curriculum(starts(env, "train", config.difficulty), open_at=config.open_at)
    with RunLog(config.output) as log, log.progress("grpo", config.steps):
        rollouts = GroupRollouts(engine, curriculum, config)
        grpo.fit(policy, rollouts, config, lambda step, metrics: log.log("grpo", step, **metrics))
    policy.save(config.output / "final")
    engine.close()
    env.close()
    return round(time.perf_counter() - began, 1)


def greedily(config: TrainGRPO, policy: Path, tasks: Sequence[EpisodeStart], samples: int) -> Played:
    """Return what a policy does at temperature 0; a task's episodes differ in their seeds."""
    loaded = TokenPolicy.load(policy)
    engine = grpo.make_engine(config, loaded.renderer)
    rows = evaluate(engine, loaded, tasks, samples=samples, greedy=True)
    engine.close()
    width = next(len(row.M) for row in rows if row.M is not None)
    found = [(float(row.outcome == "solved"), np.zeros(width) if row.M is None else row.M) for row in rows]
    return [found[n : n + samples] for n in range(0, len(found), samples)]


def scripted(env: Any, policy: Policy, tasks: Sequence[EpisodeStart], samples: int) -> Played:
    """Return what a scripted policy does."""
    played: Played = []
    for task in tasks:
        episodes = [play_episode(env, policy, seed=1000 + number, options=task.options) for number in range(samples)]
        played.append([(float(info["outcome"] == "solved"), info["M"]) for info in episodes])
    return played


def compared(played: dict[str, Played], tools: tuple[str, ...], preferences: Weights) -> dict[str, Any]:
    """Return success, cost, latency and scores by policy, and by how much each exceeds the others on its preference."""
    wanted = {name: Preference.of(weights, tools) for name, weights in preferences.items()}
    scores = {name: scored(played, preference) for name, preference in wanted.items()}
    means: dict[str, dict[str, list[float]]] = {}
    policies: dict[str, Any] = {}
    for name, tasks in played.items():
        success = [float(np.mean([solved for solved, _ in task])) for task in tasks]
        cost = [float(np.mean([-vector[-2] for _, vector in task])) for task in tasks]
        latency = [float(np.mean([-vector[-1] for _, vector in task])) for task in tasks]
        means[name] = {"success": success, "cost": cost}
        policies[name] = {
            "success": float(np.mean(success)),
            "cost": float(np.mean(cost)),
            "seconds": float(np.mean(latency)),
            "scores": {preference: float(np.mean(scores[preference][name])) for preference in preferences},
        }
    gains: dict[str, Any] = {name: {"among all": {}, "by twos": {}} for name in preferences}
    for name, preference in wanted.items():
        for other in (other for other in played if other != name):
            two = scored({name: played[name], other: played[other]}, preference)
            for how, found in (("among all", scores[name]), ("by twos", two)):
                gains[name][how][other] = paired_bootstrap(found[name], found[other])._asdict()
    pairs = (("balanced", "cost-averse"), ("accuracy-first", "balanced"), ("accuracy-first", "cost-averse"))
    apart = {
        f"{one} over {other}": {
            what: paired_bootstrap(means[one][what], means[other][what])._asdict() for what in ("success", "cost")
        }
        for one, other in pairs
    }
    return {"policies": policies, "own_preference_over": gains, "apart": apart}


def scored(played: dict[str, Played], preference: Preference) -> dict[str, list[float]]:
    """Return the score of each policy on each task: the mean of Eq. 2 over the rollouts of all these policies."""
    scores: dict[str, list[float]] = {name: [] for name in played}
    for task in zip(*played.values(), strict=True):
        rewards = iter(preference_rewards(np.stack([m for rollouts in task for _, m in rollouts]), preference).tolist())
        for name, rollouts in zip(played, task, strict=True):
            scores[name].append(float(np.mean([next(rewards) for _ in rollouts])))
    return scores


if __name__ == "__main__":
    cli(main)
