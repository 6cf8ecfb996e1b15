"""Train the default learner from three seeds and record time and held-out success before and after GRPO.

    python benchmarks/grpo_restaurant.py            writes benchmarks/results/grpo_restaurant.json

Each seed is a process of its own, so its time includes everything a user waits for. Takes some minutes a seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import RESULTS, cli, folder_for, held_out, learn, read, save

FILTERS = ("--filters", "homogeneity", "calls", "invalid")
"""The filters of the record: that of format dropped rollouts with wrong arguments as well, as ``calls`` does."""


def main(
    seeds: tuple[int, ...] = (0, 1, 2), output: Path = RESULTS / "grpo_restaurant.json", runs: Path | None = None
) -> None:
    folder = folder_for(runs)
    found: list[dict[str, Any]] = []
    for seed in seeds:
        run = folder / f"seed{seed}"
        spent = learn("grpo", run, *FILTERS, "--seed", str(seed))
        found.append({"seed": seed, **spent, **held_out(run), "success": read(run / "summary.json")})
        record = {
            "training": f"toolorchestra train grpo {' '.join(FILTERS)} --seed SEED",
            "gain": "success after GRPO minus after SFT, mean over held-out tasks, bootstrap over tasks",
            "runs": found,
        }
        save(output, record)


if __name__ == "__main__":
    cli(main)
