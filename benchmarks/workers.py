"""Measure how much faster several workers play than one process, with processes and with Ray, in one run.

    python benchmarks/workers.py                       1 and 2 workers
    python benchmarks/workers.py --workers 1 2 4 8     other numbers
    python benchmarks/workers.py --record              and write results/workers.json

Ray is a cluster on this machine with a raylet for each worker. Workers play the same episodes as one process, which
are compared byte by byte; they are started and warm. Every number is the median over rounds, all ways in turn and from
round to round in another order; ratios are within a round. Linear is the speed of one process without workers times
the number of workers, as far as there are cores. Beside it stand as many processes that share nothing: each plays its
part and sends nothing back, so this is what the cores give, be they threads of one core or busy with something else.
`cpu_share` is the CPU time of one process over that of all processes of a way, Ray's own included: the share of linear
that is left when everything runs at the same time, whatever else the machine does. `own_share` is the share of the
time that the process of the command needs to take the records. Run it on an idle machine: it fails below 85 % of
linear.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness import PACKAGES, cli, median, save

from toolorchestra.cli.rollout import RolloutCommand
from toolorchestra.envs.recording_units import Makers, run_units
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.workers.processes import ProcessExecutor
from toolorchestra.toolscale.workers.units import Executor, InProcess, Unit

LEAST_SHARE = 0.85
ALONE = "one process"


class SharingNothing:
    """As many processes, each of which plays its part of the episodes and keeps the records."""

    def __init__(self, workers: int) -> None:
        self.pool = ProcessExecutor(workers)

    def __enter__(self) -> SharingNothing:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()


def play_alone(env: str, policy: Any, seeds: range) -> list[bytes]:
    """Play in this process, and return the records."""
    command = RolloutCommand(env=env, policy=policy)
    starts = [EpisodeStart(seed, {"split": "test", "difficulty": None}) for seed in seeds]
    return [one.to_json() for one in run_units(InProcess(), env, _makers(command), starts) if isinstance(one, Episode)]


def play_and_keep(env: str, policy: Any, seeds: range) -> int:
    """Play in a worker, and return the number of records only."""
    return len(play_alone(env, policy, seeds))


def _makers(command: RolloutCommand) -> Callable[[], Makers]:
    """Return what makes the environment and the policy of a process, which keeps its environment."""
    key = (command.env, command.policy)
    if key not in _KEPT:
        make_env, make_policy = command._makers()
        env = make_env()
        _KEPT[key] = (lambda: env, make_policy)
    return lambda: _KEPT[key]


_KEPT: dict[Any, Makers] = {}


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all that it and they have started, also of those that ended."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = stat.read_text().rsplit(")", 1)[1].split()
            parents[int(stat.parent.name)] = int(fields[1])
            used[int(stat.parent.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used[pid] for pid in ours)


def played(
    executor: Executor | SharingNothing, env: str, policy: Any, episodes: int
) -> tuple[float, float, float, list[bytes]]:
    """Play, and return the seconds on the clock, of this process's work and of all processes', and the records."""
    command = RolloutCommand(env=env, policy=policy)
    starts = [EpisodeStart(seed, {"split": "test", "difficulty": None}) for seed in range(episodes)]
    before = cpu_seconds()
    wall, cpu = time.perf_counter(), time.process_time()
    if isinstance(executor, SharingNothing):
        count = executor.pool.workers
        parts = [range(episodes * n // count, episodes * (n + 1) // count) for n in range(count)]
        units = (Unit((str(part),), play_and_keep, (env, policy, part)) for part in parts)
        assert sum(executor.pool.run(units)) == episodes
        lines = []
    elif isinstance(executor, InProcess):
        lines = play_alone(env, policy, range(episodes))
    else:
        lines = [
            one.to_json()
            for one in run_units(executor, f"{env} {policy}", command._makers, starts)
            if isinstance(one, Episode)
        ]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return wall, cpu, cpu_seconds() - before, lines


def ways_to_play(
    workers: Sequence[int], kinds: Sequence[str], stack: ExitStack
) -> Iterator[tuple[str, int, Executor | SharingNothing]]:
    """Yield each way to play: its name, its workers and its executor."""
    yield ALONE, 1, InProcess()
    if "ray" in kinds:
        start_cluster(sum(workers), stack)  # all executors keep their actors at the same time
    for count in workers:
        if count > 1:
            yield f"sharing nothing, {count}", count, stack.enter_context(SharingNothing(count))
        if "process" in kinds:
            yield f"process, {count}", count, stack.enter_context(ProcessExecutor(count))
        if "ray" in kinds:
            from toolorchestra.toolscale.workers.ray_cluster import RayExecutor

            yield f"ray, {count}", count, stack.enter_context(RayExecutor(count))


def start_cluster(nodes: int, stack: ExitStack) -> None:
    """Start a cluster of a head and nodes of one processor, each with its raylet, and connect to it."""
    from toolorchestra.toolscale.workers.ray_cluster import import_ray

    ray = import_ray()
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head, shutdown_at_exit=False)
    stack.callback(cluster.shutdown)
    for _ in range(nodes):
        cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
    stack.callback(ray.shutdown)


def warm(executor: Executor | SharingNothing, env: str, policy: Any) -> None:
    """Play until all workers have started, loaded the domain and made their environment."""
    workers = executor.pool.workers if isinstance(executor, SharingNothing) else executor.workers
    for _ in range(3):
        played(executor, env, policy, 200 * workers)


def median_ratio(some: list[float], others: list[float]) -> float:
    """Return the median over rounds of one number over another."""
    return float(median([one / other for one, other in zip(some, others, strict=True)]))


@dataclass
class Options:
    """What is played."""

    workers: tuple[int, ...] = (1, 2)
    executors: tuple[Literal["process", "ray"], ...] = ("process", "ray")
    env: str = "ToolOrchestra-Restaurant-v0"
    policy: str = "noisy-oracle"
    episodes: int = 10_000
    rounds: int = 7
    record: bool = False


def main(options: Options) -> bool:
    with ExitStack() as stack:
        ways = list(ways_to_play(options.workers, options.executors, stack))
        for _, _, executor in ways:
            warm(executor, options.env, options.policy)
        seconds: dict[str, list[float]] = {name: [] for name, _, _ in ways}
        own, used = copy.deepcopy(seconds), copy.deepcopy(seconds)
        first: list[bytes] = []
        for turn in range(options.rounds):
            shift = turn % len(ways)
            for name, _, executor in (*ways[shift:], *ways[:shift]):
                wall, cpu, all_cpu, lines = played(executor, options.env, options.policy, options.episodes)
                seconds[name].append(wall)
                own[name].append(cpu)
                used[name].append(all_cpu)
                first = first or lines
                if lines != first and not isinstance(executor, SharingNothing):
                    sys.exit(f"{name}: the records differ from those of one process.")
    rows = {}
    for name, count, _ in ways:
        speed_up = median_ratio(seconds[ALONE], seconds[name])
        rows[name] = {
            "workers": count,
            "seconds": round(median(seconds[name]), 3),
            "speed_up": round(speed_up, 3),
            "share_of_linear": round(speed_up / min(count, os.cpu_count() or 1), 3),
            "cpu_share": round(median_ratio(used[ALONE], used[name]), 3),
            "own_share": round(median_ratio(own[name], seconds[name]), 3),
        }
        if (free := f"sharing nothing, {count}") in seconds:
            rows[name]["share_of_sharing_nothing"] = round(median_ratio(seconds[free], seconds[name]), 3)
        print(f"{name:18}  {json.dumps(rows[name])}")
    if options.record:
        save("workers", {"load": os.getloadavg()[0], **vars(options), "ways": rows}, *PACKAGES, "ray")
    worst = min(row["share_of_linear"] for name, row in rows.items() if "sharing" not in name)
    print(f"worst share of linear: {worst:.0%} (at least {LEAST_SHARE:.0%})")
    return bool(worst < LEAST_SHARE)


if __name__ == "__main__":
    cli(main)
