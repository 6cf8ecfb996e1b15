"""Measure how much faster several workers play than one process, with processes and with Ray, in one run.

    python benchmarks/workers.py                       1 and 2 workers
    python benchmarks/workers.py --workers 1 2 4 8     other numbers
    python benchmarks/workers.py --record              and write results/workers.json

Workers play the same episodes as one process, which are compared byte by byte. Every number is the median of rounds,
all ways by turns, in wall-clock time with the workers started and warm. The speed-up is that over one process without
workers; linear is the number of workers, as far as there are cores. The process of the command takes the records: the
share of its time that this needs is reported. Run it on an idle machine: it fails below 85 % of linear.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from provenance import PACKAGES, provenance

from toolorchestra.cli.rollout import RolloutCommand
from toolorchestra.envs.episode import Episode
from toolorchestra.envs.playing import Reset
from toolorchestra.envs.recording_units import play_units
from toolorchestra.toolscale.workers.processes import ProcessExecutor
from toolorchestra.toolscale.workers.units import Executor, InProcess

LEAST_SHARE = 0.85
RESULTS = Path(__file__).parent / "results" / "workers.json"


def played(executor: Executor, env: str, policy: Any, episodes: int) -> tuple[float, float, list[bytes]]:
    """Play, and return the seconds on the clock, those of this process's own work, and the records."""
    command = RolloutCommand(env=env, policy=policy)
    resets = [Reset(seed, {"split": "test", "difficulty": None}) for seed in range(episodes)]
    wall, cpu = time.perf_counter(), time.process_time()
    lines = [
        one.to_json()
        for one in play_units(executor, f"{env} {policy}", command._players, resets)
        if isinstance(one, Episode)
    ]
    return time.perf_counter() - wall, time.process_time() - cpu, lines


def executors(workers: list[int], kinds: list[str], stack: ExitStack) -> Iterator[tuple[str, int, Executor]]:
    """Yield each way to play: its name, its workers and its executor."""
    yield "one process", 1, InProcess()
    for count in workers:
        if "process" in kinds:
            yield f"process, {count}", count, stack.enter_context(ProcessExecutor(count))
        if "ray" in kinds:
            from toolorchestra.toolscale.workers.ray_cluster import RayExecutor, connect, import_ray

            if not (ray := import_ray()).is_initialized():
                connect(ray, sum(workers), None)  # all executors keep their actors at the same time
                stack.callback(ray.shutdown)
            yield f"ray, {count}", count, stack.enter_context(RayExecutor(count))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--executors", nargs="+", choices=("process", "ray"), default=["process", "ray"])
    parser.add_argument("--env", default="ToolOrchestra-Restaurant-v0")
    parser.add_argument("--policy", default="noisy-oracle")
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    with ExitStack() as stack:
        ways = list(executors(options.workers, options.executors, stack))
        for _, _, executor in ways:  # warm: domains loaded, environments made
            played(executor, options.env, options.policy, min(500, options.episodes))
        seconds: dict[str, list[float]] = {name: [] for name, _, _ in ways}
        own: dict[str, list[float]] = {name: [] for name, _, _ in ways}
        first: list[bytes] = []
        for _ in range(options.rounds):
            for name, _, executor in ways:
                wall, cpu, lines = played(executor, options.env, options.policy, options.episodes)
                seconds[name].append(wall)
                own[name].append(cpu)
                first = first or lines
                if lines != first:
                    sys.exit(f"{name}: the records differ from those of one process.")
    alone = statistics.median(seconds["one process"])
    rows = {}
    for name, count, _ in ways:
        median = statistics.median(seconds[name])
        rows[name] = {
            "workers": count,
            "seconds": round(median, 3),
            "speed_up": round(alone / median, 3),
            "share_of_linear": round(alone / median / min(count, os.cpu_count() or 1), 3),
            "own_share": round(statistics.median(own[name]) / median, 3),
        }
        print(f"{name:12}  {json.dumps(rows[name])}")
    found = {
        **provenance(*PACKAGES, "ray"),
        "load": os.getloadavg()[0],
        "env": options.env,
        "policy": options.policy,
        "episodes": options.episodes,
        "rounds": options.rounds,
        "ways": rows,
    }
    if options.record:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    worst = min(row["share_of_linear"] for row in rows.values())
    print(f"worst share of linear: {worst:.0%} (at least {LEAST_SHARE:.0%})")
    return 0 if worst >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
