"""Measure the time of generating a task, and whether it grows with the number of tasks.

    python benchmarks/synth.py                           2,000 and 20,000 tasks of all shipped domains, 2 workers
    python benchmarks/synth.py --domains restaurant      of one domain
    python benchmarks/synth.py --record                  and write the results to results/synth.json

Every task is verified (its reference trajectory passes, silence does not). Time is that of the wall, from the call to
the whole file, and includes the start of the workers and the loading of the domains. The cost per task is processor
time of all processes; the *marginal* cost is that of the tasks by which the larger run is larger, where start-up
cancels. The run fails when 20,000 tasks take more than 10 minutes, when one of the larger run costs more than 1.2
times one of the smaller, or when the two runs with one and with more workers do not write the same bytes.
"""

from __future__ import annotations

import hashlib
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import cli, save

from toolorchestra.toolscale.domain_folder import builtin_domains
from toolorchestra.toolscale.generate import generate
from toolorchestra.toolscale.workers.executors import make_executor

MAX_SECONDS, MAX_RATIO = 600.0, 1.2


def cpu_seconds() -> float:
    """Return the processor time of this process and of the workers that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def measured(domains: list[str], count: int, workers: int, seed: int, file: Path) -> dict[str, Any]:
    """Generate once and return what it took."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    with make_executor("process", workers) as executor:
        found = generate(domains, count, file, seed=seed, executor=executor)
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "tasks": found.made,
        "workers": workers,
        "seconds": round(wall, 1),
        "tasks_per_second": round(found.made / wall, 1),
        "cpu_seconds": round(cpu, 1),
        "cpu_ms_per_task": round(1000 * cpu / found.made, 3),
        "peak_mb": round(peak / 1024),
        "operators": found.operators,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }


@dataclass
class Options:
    """What is generated."""

    domains: tuple[str, ...] = tuple(builtin_domains())  # names or folders of domains
    counts: tuple[int, int] = (2_000, 20_000)  # tasks of the two runs
    workers: int = 2
    seed: int = 0
    record: bool = False  # write the results


def main(given: Options) -> bool:
    domains, (few, many) = [*given.domains], given.counts
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tasks.jsonl"
        alone, small, large = (
            measured(domains, count, workers, given.seed, file)
            for count, workers in ((few, 1), (few, given.workers), (many, given.workers))
        )
    print(f"{'tasks':>8}{'workers':>9}{'seconds':>10}{'tasks/s':>10}{'CPU ms/task':>13}{'peak MB':>9}")
    for run in (alone, small, large):
        print(
            f"{run['tasks']:>8,}{run['workers']:>9}{run['seconds']:>10}{run['tasks_per_second']:>10}"
            f"{run['cpu_ms_per_task']:>13}{run['peak_mb']:>9}"
        )
    ratio = large["cpu_ms_per_task"] / small["cpu_ms_per_task"]
    more = large["tasks"] - small["tasks"]
    marginal = 1000 * (large["cpu_seconds"] - small["cpu_seconds"]) / more if more else float("nan")
    same = alone["sha256"] == small["sha256"]
    print(f"cost of a task, {many:,} over {few:,}: {ratio:.2f} (marginal {marginal:.3f} ms)")
    print(f"the same bytes with 1 and {given.workers} workers: {'yes' if same else 'no'}")
    if given.record:
        results = {"ratio": round(ratio, 3), "marginal_ms": round(marginal, 3), "same_bytes": same}
        save("synth", {"domains": domains, **results, "runs": [alone, small, large]})
    return not same or large["seconds"] > MAX_SECONDS or ratio > MAX_RATIO


if __name__ == "__main__":
    cli(main)
