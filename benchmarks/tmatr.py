"""Train planner and inferencer by online DPO under several schedules, at equal updates, from three seeds.

    python benchmarks/tmatr.py            writes benchmarks/results/tmatr.json, and a page with figures beside the runs

The agents learn in turns, one of them alone, or both on each batch (`examples.studies.tmatr`). All schedules of a seed
begin with the same team. Each run is a process of its own, so its time includes everything a user waits for; the first
schedule's includes the warm start. What a folder of runs holds already is not trained again.
"""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from harness import RESULTS, cli, folder_for, read, save

from examples.studies import tmatr


@dataclass
class Benchmark:
    """Train a team under several schedules from several seeds."""

    seeds: tuple[int, ...] = (0, 1, 2)  # a run each for every schedule
    schedules: tuple[str, ...] = tmatr.KINDS  # which of the schedules
    questions: int = tmatr.QUESTIONS  # of a batch of rollouts
    samples: int = tmatr.SAMPLES  # sampled episodes of each held-out task after each stage
    more: str = ""  # further options of the learner, in one text: ``--more="--stage-steps 3"``
    output: Path = RESULTS / "tmatr.json"  # where the numbers go
    runs: Path | None = None  # folder to keep the runs in, and the page with figures


def main(benchmark: Benchmark) -> None:
    """Run the benchmark."""
    folder = folder_for(benchmark.runs)
    known = read(benchmark.output, {"runs": {}})["runs"]
    runs: dict[str, dict[str, object]] = {}
    record: dict[str, object] = {"more": benchmark.more, "runs": runs}
    found = []
    for seed in benchmark.seeds:
        for name in benchmark.schedules:
            load, start = os.getloadavg()[0], time.perf_counter()
            sizes = {"questions": benchmark.questions, "samples": benchmark.samples}
            path = tmatr.train(name, seed, folder, more=shlex.split(benchmark.more), **sizes)
            seconds = time.perf_counter() - start
            run = tmatr.read_run(name, seed, path)
            found.append(run)
            before = known.get(name, {}).get(str(seed), {})
            timed = {"seconds": round(seconds, 1), "load_before": round(load, 2)}
            if seconds < 5:  # it was there already
                timed = {what: before[what] for what in timed if what in before}
            runs.setdefault(name, {})[str(seed)] = {
                "schedule": tmatr.SCHEDULES[name],
                **timed,
                "updates": run.updates,
                "rewards": run.rewards,
                "stages": run.stages,
            }
            save(benchmark.output, record)
    study = tmatr.TMATRStudy(found)
    record["gain"] = {name: study.gain(name)._asdict() for name in study.schedules}
    if tmatr.ALTERNATING in study.schedules[:1]:
        record["alternating_over"] = {name: study.over(name)._asdict() for name in study.schedules[1:]}
    save(benchmark.output, record)
    tmatr.write(study, folder / "study")
    print(tmatr.markdown(study), f"\nPage and figures: {folder / 'study'}", sep="")


if __name__ == "__main__":
    cli(main)
