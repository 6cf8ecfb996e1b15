"""Train the built-in model on ParaManager's mathematics from three seeds, beside two ablations.

    python benchmarks/grpo_paramanager.py           writes benchmarks/results/grpo_paramanager.json

The learner is started from a warm start on random orchestration (SFT), from nothing, and from the warm start without
the reward for diversity (ParaManager §5.1, App. B), on the levels at which the models of the pool err. Each run is a
process of its own with one thread, so its time, of the clock and of the processor, includes everything a user waits
for. Without the reward for diversity, R has three parts and a mean that is not to be compared.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness import RESULTS, cli, folder_for, held_out, learn, read, save

SETTINGS = (
    *("--env", "ParaManager-Math-v0", "--difficulty", "3", "4", "5", "--open-at", "0"),
    *("--sft-steps", "100", "--sft-batch", "32"),
    *("--steps", "80", "--updates", "2", "--learning-rate", "5e-4"),
    *("--filters", "homogeneity", "invalid", "--aggregation", "grpo"),
    *("--eval-samples", "4", "--eval-every", "0", "--save-every", "0", "--threads", "1"),
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

    seeds: tuple[int, ...] = (0, 1, 2)  # one run each
    variants: tuple[str, ...] = tuple(VARIANTS)  # which of the variants
    jobs: int = 2  # runs at a time
    output: Path = RESULTS / "grpo_paramanager.json"  # what other runs have left there is kept
    runs: Path | None = None
    rules: Literal["recorded", "paper"] = "recorded"
    """Options of the environment: those that the record was made with, or the defaults, which are the paper's."""


def main(benchmark: Benchmark) -> None:
    """Run the benchmark."""
    folder = folder_for(benchmark.runs)
    found = read(benchmark.output, {"runs": {}})["runs"]
    training = f"toolorchestra train grpo {' '.join(SETTINGS)} --seed SEED"
    runs = [(variant, seed) for variant in benchmark.variants for seed in benchmark.seeds]
    with ThreadPoolExecutor(benchmark.jobs) as pool:
        ended = [pool.submit(train, folder, variant, seed, benchmark.rules) for variant, seed in runs]
        for (variant, seed), run in zip(runs, ended, strict=True):
            found.setdefault(variant, {})[str(seed)] = run.result()
            save(benchmark.output, {"training": training, "runs": found})


def chosen(variant: str, rules: str) -> tuple[str, ...]:
    """Return the options of a variant beside `SETTINGS`."""
    environment, settings = VARIANTS[variant]
    environment = (*(RULES if rules == "recorded" else ()), *environment)
    return (*(("--env-options", *environment) if environment else ()), *settings)


def train(folder: Path, variant: str, seed: int, rules: str) -> dict[str, Any]:
    """Train a variant; return its options, how long it took, and what it found out on held-out tasks."""
    run, options = folder / f"{variant.replace(' ', '-')}-{seed}", chosen(variant, rules)
    spent = learn("grpo", run, *SETTINGS, *options, "--seed", str(seed))
    return {"options": options, **spent, **held_out(run)}


if __name__ == "__main__":
    cli(main)
