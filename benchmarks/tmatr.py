"""Train planner and inferencer by online DPO under several schedules, at equal updates, from three seeds.

    python benchmarks/tmatr.py            writes benchmarks/results/tmatr.json, and a page with figures beside the runs

The agents learn in turns, one of them alone, or both on each batch (`examples.studies.tmatr`). All schedules of a seed
begin with the same team. Each run is a process of its own, so its time includes everything a user waits for; the first
schedule's includes the warm start. What a folder of runs holds already is not trained again.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from provenance import provenance

from examples.studies import tmatr


@dataclass
class Benchmark:
    """Train a team under several schedules from several seeds."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds; a run each for every schedule."""
    schedules: tuple[str, ...] = tmatr.KINDS
    """Which of the schedules."""
    questions: int = tmatr.QUESTIONS
    """Questions of a batch of rollouts."""
    samples: int = tmatr.SAMPLES
    """Sampled episodes of each held-out task after each stage."""
    more: str = ""
    """Further options of the learner, in one text: ``--more="--stage-steps 3"``."""
    output: Path = Path(__file__).parent / "results" / "tmatr.json"
    """Where the numbers go."""
    runs: Path | None = None
    """Folder to keep the runs in, and the page with figures; None: a temporary one."""


def main(benchmark: Benchmark) -> None:
    """Run the benchmark."""
    folder = benchmark.runs or Path(tempfile.mkdtemp())
    record: dict[str, object] = {**provenance(), "more": benchmark.more, "runs": {}}
    known = json.loads(benchmark.output.read_text(encoding="utf-8"))["runs"] if benchmark.output.exists() else {}
    runs: dict[str, dict[str, object]] = {}
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
            record["runs"] = runs
            benchmark.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    study = tmatr.TMATRStudy(found)
    record["gain"] = {name: study.gain(name)._asdict() for name in study.schedules}
    if tmatr.ALTERNATING in study.schedules[:1]:
        record["alternating_over"] = {name: study.over(name)._asdict() for name in study.schedules[1:]}
    benchmark.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    tmatr.write(study, folder / "study")
    print(tmatr.markdown(study), f"\nPage and figures: {folder / 'study'}", sep="")


if __name__ == "__main__":
    main(tyro.cli(Benchmark))
