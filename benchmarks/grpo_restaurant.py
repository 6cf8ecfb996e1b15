"""Train the README's first command from three seeds and record time and held-out success before and after GRPO.

    python benchmarks/grpo_restaurant.py            writes benchmarks/results/grpo_restaurant.json

Each seed is a process of its own, so its time includes everything a user waits for. Takes some minutes a seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import RESULTS, cli, folder_for, held_out, learn, read, save

SETTING = ("--difficulty", "1", "--steps", "24")
"""The options of the command: level 1 has 595 tasks to train on and 183 that are held out."""


def main(
    seeds: tuple[int, ...] = (0, 1, 2), output: Path = RESULTS / "grpo_restaurant.json", runs: Path | None = None
) -> None:
    folder = folder_for(runs)
    found: list[dict[str, Any]] = []
    for seed in seeds:
        run = folder / f"seed{seed}"
        spent = learn("grpo", run, *SETTING, "--seed", str(seed))
        found.append({"seed": seed, **spent, **held_out(run), "success": read(run / "summary.json")})
        record = {
            "training": f"toolorchestra train grpo {' '.join(SETTING)} --seed SEED",
            "gain": "success after GRPO minus after SFT, mean over held-out tasks, bootstrap over tasks",
            "runs": found,
        }
        save(output, record)


if __name__ == "__main__":
    cli(main)
