"""Train the embedded model on ParaManager's mathematics from three seeds, beside two ablations.

    python benchmarks/grpo_paramanager.py           writes benchmarks/results/grpo_paramanager.json

The learner is started from a warm start on random orchestration (SFT), from nothing, and from the warm start without
the reward for diversity (ParaManager §5.1, App. B). Each run is a process of its own, so its time includes everything a
user waits for. Without the reward for diversity, R has three parts and a mean that is not to be compared.
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

SETTINGS = (
    *("--env", "ParaManager-Math-v0", "--difficulty", "--open-at", "0", "--sft-steps", "100", "--steps", "40"),
    *("--filters", "homogeneity", "invalid", "--eval-samples", "2", "--save-every", "0"),
)
VARIANTS = {
    "default": (),
    "without SFT": ("--sft-steps", "0"),
    "without diversity": ("--env-options", "no_diversity", "true"),
}


@dataclass
class Benchmark:
    """Train on ParaManager-Math-v0 from several seeds, with and without warm start and reward for diversity."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds, one run each."""
    variants: tuple[str, ...] = tuple(VARIANTS)
    """Which of the variants."""
    output: Path = Path(__file__).parent / "results" / "grpo_paramanager.json"
    """Where the numbers go; what other runs have left there is kept."""
    runs: Path | None = None
    """Folder to keep the runs in; None: a temporary one."""


def main(benchmark: Benchmark) -> None:
    """Run the benchmark."""
    folder = benchmark.runs or Path(tempfile.mkdtemp())
    script = Path(__file__).parent.parent / "algos" / "grpo.py"
    record = {
        "command": f"toolorchestra train grpo {' '.join(SETTINGS)} --seed SEED",
        "cores": os.cpu_count(),
        "runs": {},
    }
    if benchmark.output.exists():
        record["runs"] = json.loads(benchmark.output.read_text(encoding="utf-8"))["runs"]
    for variant in benchmark.variants:
        for seed in benchmark.seeds:
            run = folder / f"{variant.replace(' ', '-')}-{seed}"
            options = [*SETTINGS, *VARIANTS[variant], "--seed", str(seed), "--output", str(run)]
            load, start = os.getloadavg()[0], time.perf_counter()
            subprocess.run([sys.executable, str(script), *options], check=True)
            seconds = round(time.perf_counter() - start, 1)
            held_out = json.loads((run / "heldout.json").read_text(encoding="utf-8"))
            found = {"options": VARIANTS[variant], "seconds": seconds, "load_before": round(load, 2), **held_out}
            record["runs"].setdefault(variant, {})[str(seed)] = found
            benchmark.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Benchmark))
