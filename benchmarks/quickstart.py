"""Run `toolorchestra quickstart` from three seeds, and record what the model does on held-out tasks before and after.

    python benchmarks/quickstart.py                 writes benchmarks/results/quickstart.json
    python benchmarks/quickstart.py --seeds 1 2     runs these anew, and keeps what the record has of others

Each seed is a process of its own and takes the default time, a quarter of an hour. How many steps are made in it
depends on the machine and on what else it does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from harness import PACKAGES, RESULTS, cli, folder_for, lines, provenance, read, rounded, save


def main(
    seeds: tuple[int, ...] = (0, 1, 2), output: Path = RESULTS / "quickstart.json", runs: Path | None = None
) -> None:
    folder = folder_for(runs)
    earlier = read(output, {"runs": []})
    found = {run["seed"]: {"commit": earlier["commit"], **run} for run in earlier["runs"] if run["seed"] not in seeds}
    for seed in seeds:
        out, load, began = folder / f"seed{seed}", os.getloadavg()[0], time.perf_counter()
        command = [sys.executable, "-m", "toolorchestra", "quickstart", "--seed", str(seed), "--out", str(out)]
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - began
        steps = [record for record in lines(out / "training" / "metrics.jsonl") if record["kind"] == "train"]
        found[seed] = {
            "commit": provenance()["commit"],
            "seed": seed,
            "seconds": round(seconds, 1),
            "load_before": round(load, 2),
            "steps": {phase: sum(step["phase"] == phase for step in steps) for phase in ("sft", "grpo")},
            "memory_gib": round(max(step["memory"] for step in steps), 1),
            "held_out": rounded(read(out / "summary.json"), 6),
        }
        record = {
            "training": "toolorchestra quickstart --seed SEED",
            "difference": "success after minus before, mean over the same held-out tasks, 95 % interval",
            "runs": [found[one] for one in sorted(found)],
        }
        save(output, record, *PACKAGES, "peft", "xllamacpp")


if __name__ == "__main__":
    cli(main)
