"""Train the default learner from three seeds and record time and held-out success before and after GRPO.

    python benchmarks/grpo_restaurant.py            writes benchmarks/results/grpo_restaurant.json

Each seed is a process of its own, so its time includes everything a user waits for. Takes some minutes a seed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from provenance import provenance

FILTERS = ("--filters", "homogeneity", "calls", "invalid")
"""The filters of the record: that of format dropped rollouts with wrong arguments as well, as ``calls`` does."""


@dataclass
class Benchmark:
    """Train the default learner from several seeds."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds, one run each."""
    output: Path = Path(__file__).parent / "results" / "grpo_restaurant.json"
    """Where the numbers go."""
    runs: Path | None = None
    """Folder to keep the runs in; None: a temporary one."""


def main(benchmark: Benchmark) -> None:
    """Run the benchmark."""
    folder = benchmark.runs or Path(tempfile.mkdtemp())
    script = Path(__file__).parent.parent / "algos" / "grpo.py"
    found = []
    for seed in benchmark.seeds:
        run = folder / f"seed{seed}"
        load, start = os.getloadavg()[0], time.perf_counter()
        subprocess.run([sys.executable, str(script), *FILTERS, "--seed", str(seed), "--output", str(run)], check=True)
        seconds = time.perf_counter() - start
        held_out = json.loads((run / "heldout.json").read_text(encoding="utf-8"))
        success = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        found.append(
            {"seed": seed, "seconds": round(seconds, 1), "load_before": round(load, 2), **held_out, "success": success}
        )
        record = {
            **provenance(),
            "training": f"toolorchestra train grpo {' '.join(FILTERS)} --seed SEED",
            "gain": "success after GRPO minus after SFT, mean over held-out tasks, bootstrap over tasks",
            "runs": found,
        }
        benchmark.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Benchmark))
