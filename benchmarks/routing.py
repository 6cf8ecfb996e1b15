"""Train Stable-Baselines3's PPO on `Routing-Math-v0`, and compare it with fixed experts at equal cost.

    python benchmarks/routing.py                       five seeds, each about 2 minutes on one idle core
    python benchmarks/routing.py --seeds 1 --steps 20000 --tasks 50       a quick look
    python benchmarks/routing.py --record              the same as the first, written to results/routing.json

A fixed expert is asked once, or as a vote three or five times. A mixture of two plays one or the other by chance, so
that any mean cost between theirs can be had: at the cost of the trained policy, the best mixture of fixed experts is
what it must beat, and the best mixture of those and of votes, which spend more on one expert, besides. All play the
same test tasks with the same seeds, so differences are paired by task; intervals are of a bootstrap over training seeds
and tasks. The options were chosen with training seed 0 on the same test tasks; seeds from 1 on are reported.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from harness import cli, markdown, save
from numpy.typing import NDArray

import toolorchestra  # noqa: F401 - registers the environments

ENV = "Routing-Math-v0"
VOTES = (1, 3, 5)
SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3, "n_steps": 256, "batch_size": 256, "n_epochs": 4, "gamma": 1.0,
    "gae_lambda": 0.95, "ent_coef": 0.01,
}  # fmt: skip
Act = Callable[[NDArray[np.float32], Sequence[int]], int]
"""From an observation and the actions of the episode so far to the next one."""


class Played(NamedTuple):
    """Whether tasks were solved, and their cost in US dollars: means over the repeats, shape ``(tasks,)``."""

    solved: NDArray[np.float64]
    cost: NDArray[np.float64]


def test_tasks(env: gym.Env[Any, Any], count: int | None) -> list[str]:
    tasks = [task.id for task in env.unwrapped.env.source.tasks("test")]  # type: ignore[attr-defined]
    return tasks[:: max(1, len(tasks) // count)][:count] if count else tasks


def play(env: gym.Env[Any, Any], act: Act, tasks: Sequence[str], repeats: int) -> Played:
    """Play each task with the same seeds for every policy."""
    solved, cost = np.zeros((2, len(tasks), repeats))
    for number, task in enumerate(tasks):
        for repeat in range(repeats):
            observation, info = env.reset(seed=1000 * repeat + number, options={"task_id": task})
            done: list[int] = []
            over = False
            while not over:
                done.append(act(observation, done))
                observation, _, terminated, truncated, info = env.step(done[-1])
                over = terminated or truncated
            solved[number, repeat], cost[number, repeat] = info["outcome"] == "solved", info["cost"]
    return Played(solved.mean(1), cost.mean(1))


def fixed(action: int, votes: int) -> Act:
    return lambda _, done: action if len(done) < votes else 0


def train(seed: int, steps: int, envs: int, options: dict[str, Any]) -> tuple[Any, float]:
    """Return a policy that PPO has trained, and the seconds that it took."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    start = time.perf_counter()
    vector = make_vec_env(ENV, n_envs=envs, seed=seed, env_kwargs={"split": "train", **options})
    model = PPO("MlpPolicy", vector, seed=seed, device="cpu", **SETTINGS)
    model.learn(steps)
    vector.close()
    return model, time.perf_counter() - start


def best_mixture(cost: float, known: dict[str, Played]) -> tuple[dict[str, float], Played]:
    """Return the shares of the best mixture of at most two policies with this mean cost, and how it plays."""
    means = {name: (one.cost.mean(), one.solved.mean()) for name, one in known.items()}
    found: tuple[float, dict[str, float]] = (-1.0, {})
    for low, (low_cost, low_solved) in means.items():
        if low_cost > cost:
            continue
        found = max(found, (low_solved, {low: 1.0}), key=lambda one: one[0])
        for high, (high_cost, high_solved) in means.items():
            if high_cost > cost:
                share = (cost - low_cost) / (high_cost - low_cost)
                mixed = (1 - share) * low_solved + share * high_solved
                found = max(found, (mixed, {low: 1 - share, high: share}), key=lambda one: one[0])
    shares = found[1]
    parts = [(share, known[name]) for name, share in shares.items()]
    return shares, Played(sum(s * p.solved for s, p in parts), sum(s * p.cost for s, p in parts))  # type: ignore[arg-type]


def interval(rows: NDArray[np.float64], draws: int = 4000) -> dict[str, float]:
    """Return the mean of differences, shape ``(seeds, tasks)``, and its 95 % interval: both are drawn anew."""
    rng = np.random.default_rng(0)
    seeds, tasks = rows.shape
    means = [
        rows[rng.integers(seeds, size=seeds)].mean(0)[rng.integers(tasks, size=tasks)].mean() for _ in range(draws)
    ]
    low, high = np.quantile(means, (0.025, 0.975))
    return {"estimate": mean(rows), "low": round(float(low), 4), "high": round(float(high), 4)}


def mean(values: NDArray[np.float64]) -> float:
    return round(float(values.mean()), 4)


def greedy(model: Any) -> Act:
    return lambda seen, _: int(model.predict(seen, deterministic=True)[0])


@dataclass
class Options:
    """What is trained and played."""

    seeds: int = 5  # number of training runs
    steps: int = 150_000  # environment steps of a run
    envs: int = 8  # environments that a run steps in turn
    compute: float = 0.5  # weight of money in the preference
    word_counts: int = 16  # counts that words of requests are hashed into
    tasks: int | None = None  # test tasks; all by default
    repeats: int = 2  # episodes of each test task
    record: bool = False  # write the results


def main(given: Options) -> None:
    options = {"preference": {"outcome": 1.0, "compute": given.compute}, "word_counts": given.word_counts}
    env = gym.make(ENV, split="test", **options)
    tasks, actions = test_tasks(env, given.tasks), env.unwrapped.actions  # type: ignore[attr-defined]
    known: dict[str, Played] = {}
    for action, name in enumerate(actions[1:], 1):
        for votes in VOTES:
            known[f"{name} × {votes}"] = play(env, fixed(action, votes), tasks, given.repeats)
    print(f"{ENV}, {len(tasks)} test tasks, {given.repeats} episodes each\n")
    by_cost = sorted(known.items(), key=lambda item: item[1].cost.mean())
    rows = [[f"`{name}`", f"{one.solved.mean():.1%}", f"${one.cost.mean():.4f}"] for name, one in by_cost]
    print(markdown("policy|success|cost", rows))
    once = {name: one for name, one in known.items() if name.endswith("× 1")}
    runs: list[dict[str, Any]] = []
    ahead: dict[str, list[NDArray[np.float64]]] = {"experts": [], "experts_and_votes": []}
    for seed in range(1, given.seeds + 1):
        model, seconds = train(seed, given.steps, given.envs, options)
        ours = play(env, greedy(model), tasks, given.repeats)
        cost = float(ours.cost.mean())
        run = {"seed": seed, "success": mean(ours.solved), "cost": round(cost, 6), "train_seconds": round(seconds)}
        for name, fixed_ones in (("experts", once), ("experts_and_votes", known)):
            shares, mixed = best_mixture(cost, fixed_ones)
            ahead[name].append(ours.solved - mixed.solved)
            run[name] = {"success": mean(mixed.solved), "mixture": {k: round(v, 3) for k, v in shares.items()}}
        runs.append(run)
        print(json.dumps(run), flush=True)
    gains = {name: interval(np.array(rows)) for name, rows in ahead.items()}
    print(json.dumps(gains, indent=1))
    if given.record:
        table = {
            name: {"success": mean(one.solved), "cost": round(float(one.cost.mean()), 6)} for name, one in known.items()
        }
        found = {
            "environment": ENV,
            "tasks": len(tasks),
            "repeats": given.repeats,
            "steps": given.steps,
            "environments": given.envs,
            "options": options,
            "settings": SETTINGS,
            "fixed": table,
            "runs": runs,
            "ahead": gains,
        }
        save("routing", found, "toolorchestra", "gymnasium", "numpy", "torch", "stable-baselines3")


if __name__ == "__main__":
    cli(main)
