"""Train the built-in model on ParaManager's mathematics from three seeds, beside two ablations.

    python benchmarks/grpo_paramanager.py           writes benchmarks/results/grpo_paramanager.json

The learner is started from a warm start on random orchestration (SFT), from nothing, and from the warm start without
the reward for diversity (ParaManager §5.1, App. B), on the levels at which the models of the pool err. Each run is a
process of its own with one thread, so its time, of the clock and of the processor, includes everything a user waits
for. Without the reward for diversity, R has three parts and a mean that is not to be compared.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro
from learners import run_learner
from provenance import provenance

SETTINGS = (
    *("--env", "ParaManager-Math-v0", "--difficulty", "3", "4", "5", "--open-at", "0"),
    *("--sft-steps", "100", "--sft-batch", "32"),
    *("--steps", "80", "--updates", "2", "--learning-rate", "5e-4"),
    *("--filters", "homogeneity", "invalid", "--eval-samples", "4", "--save-every", "0", "--threads", "1"),
)
RULES = ("final", "orchestrator", "counting", "run", "strategies", "false")
"""Options of the environment with which the record was made; without them it plays as the paper does."""
VARIANTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "default": ((), ()),
    "without SFT": ((), ("--sft-steps", "0", "--steps", "8", "--eval-samples", "1")),
    "without diversity": (("no_diversity", "true"), ()),
}
"""Options of the environment and settings of the training, by variant. Without SFT a policy rambles: few steps."""


@dataclass
class Benchmark:
    """Train on ParaManager-Math-v0 from several seeds, with and without warm start and reward for diversity."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds, one run each."""
    variants: tuple[str, ...] = tuple(VARIANTS)
    """Which of the variants."""
    jobs: int = 2
    """Runs at a time."""
    output: Path = Path(__file__).parent / "results" / "grpo_paramanager.json"
    """Where the numbers go; what other runs have left there is kept."""
    runs: Path | None = None
    """Folder to keep the runs in; None: a temporary one."""
    rules: Literal["recorded", "paper"] = "recorded"
    """Options of the environment: those that the record was made with, or the defaults, which are the paper's."""


def main(benchmark: Benchmark) -> None:
    """Run the benchmark."""
    folder = benchmark.runs or Path(tempfile.mkdtemp())
    record = {**provenance(), "training": f"toolorchestra train grpo {' '.join(SETTINGS)} --seed SEED", "runs": {}}
    if benchmark.output.exists():
        record["runs"] = json.loads(benchmark.output.read_text(encoding="utf-8"))["runs"]
    runs = [(variant, seed) for variant in benchmark.variants for seed in benchmark.seeds]
    with ThreadPoolExecutor(benchmark.jobs) as pool:
        trainings = []
        for variant, seed in runs:
            run = folder / f"{variant.replace(' ', '-')}-{seed}"
            options = (*SETTINGS, *chosen(variant, benchmark.rules), "--seed", str(seed), "--output", str(run))
            trainings.append(pool.submit(train, options, run))
        for (variant, seed), training in zip(runs, trainings, strict=True):
            record["runs"].setdefault(variant, {})[str(seed)] = {
                "options": chosen(variant, benchmark.rules),
                **training.result(),
            }
            benchmark.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def chosen(variant: str, rules: str) -> tuple[str, ...]:
    """Return the options of a variant beside `SETTINGS`."""
    environment, settings = VARIANTS[variant]
    environment = (*(RULES if rules == "recorded" else ()), *environment)
    return (*(("--env-options", *environment) if environment else ()), *settings)


def train(options: Sequence[str], run: Path) -> dict[str, Any]:
    """Train in a process of its own; return how long it took, and what it found out on held-out tasks."""
    spent = run_learner("grpo", options)
    return spent | json.loads((run / "heldout.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(tyro.cli(Benchmark))
