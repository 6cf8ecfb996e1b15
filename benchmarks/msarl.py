"""Train reasoner and helper together, by several rules, beside one agent that reads raw output itself.

    python benchmarks/msarl.py            writes benchmarks/results/msarl.json
    python benchmarks/msarl.py --noise 24 --output benchmarks/results/msarl_long.json     longer output

All agents of a seed are warm-started by the same teacher, with as many steps, in the same simulated Python with its
noise. The teams of a seed begin with the same policies. The one agent (``helpers="none"``) is given at least as many
moves and tokens as the team: it needs two messages an episode where a team shares its first one among branches. Each
run is a process of its own with one thread, so its time includes everything a user waits for. What a folder of runs
holds already is not trained again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import RESULTS, cli, folder_for, interval, learn, lines, markdown, read, save, write

from toolorchestra.algos.reporting.stats import paired_bootstrap

TEAM, ONE = "nested", "one agent"


class Variant(NamedTuple):
    """One of the ways to train.

    Attributes:
        script: A script of `algos/`.
        options: Its options.
        game: Options of the environment.
    """

    script: str
    options: tuple[str, ...] = ()
    game: tuple[str, ...] = ()


VARIANTS: dict[str, Variant] = {
    TEAM: Variant("msarl", ("--no-train-finish",)),
    "nested, pooled rule": Variant("msarl", ("--no-train-finish", "--reasoner-advantage", "pooled")),
    "nested, the paper's rule": Variant("msarl", ("--no-train-finish", "--reasoner-advantage", "paper")),
    "nested, finish trained": Variant("msarl", ("--train-finish",)),
    "independent": Variant("multi_grpo", ("--group-size", "7"), ("max_cycles", "3")),
    ONE: Variant("multi_grpo", ("--group-size", "11"), ("helpers", "none", "max_cycles", "2")),
}
"""A nested question is 3 (1 + 3 + 3) = 21 moves, an independent one 7 · 3, one agent's 11 · 2."""


@dataclass
class Benchmark:
    """Train two agents together by several rules, and one agent alone, from several seeds."""

    seeds: tuple[int, ...] = (0, 1, 2)  # one run each
    variants: tuple[str, ...] = tuple(VARIANTS)
    """Which of the variants. ``nested`` must be among them, from whose policies other teams start."""
    noise: int = 8  # lines of noise in the output of the simulated Python
    steps: int = 20  # batches of rollouts
    samples: int = 8  # sampled episodes of each held-out task
    jobs: int = 2  # seeds at a time
    more: tuple[str, ...] = ()  # further options of all learners, e.g. ``--more=--learning-rate=1e-4``
    output: Path = RESULTS / "msarl.json"  # where the numbers go
    runs: Path | None = None


def main(benchmark: Benchmark) -> None:
    """Run the benchmark."""
    if TEAM not in benchmark.variants:
        raise SystemExit(f"Other teams start as {TEAM!r} does: give it too, got {', '.join(benchmark.variants)}.")
    folder = folder_for(benchmark.runs)
    with ThreadPoolExecutor(benchmark.jobs) as pool:
        found = dict(zip(benchmark.seeds, pool.map(partial(train, benchmark, folder), benchmark.seeds), strict=True))
    by_task = {name: {seed: runs[name].pop("by_task") for seed, runs in found.items()} for name in benchmark.variants}
    record = {
        "variants": {name: " ".join(command(benchmark, VARIANTS[name])) for name in benchmark.variants},
        "runs": {name: {str(seed): runs[name] for seed, runs in found.items()} for name in benchmark.variants},
        "over_the_start": {name: gain(by_task[name]) for name in benchmark.variants},
    }
    if ONE in by_task:
        record["over_one_agent"] = {name: over(by_task[name], by_task[ONE]) for name in by_task if name != ONE}
    save(benchmark.output, record)
    show(record)


def train(benchmark: Benchmark, folder: Path, seed: int) -> dict[str, dict[str, Any]]:
    """Train all variants of a seed unless that has been done, and return what each came to."""
    found = {}
    for name in benchmark.variants:
        run = folder / f"{name.replace(',', '').replace(' ', '-')}-{seed}"
        if not (run / "benchmark.json").exists():
            script, *options = command(benchmark, VARIANTS[name])
            options += ["--seed", str(seed), "--threads", "1", "--save-every", "0"]
            if name not in (TEAM, ONE):
                options += ["--start", str(folder / f"{TEAM}-{seed}" / "start")]
            write(run / "benchmark.json", learn(script, run, *options, quiet=True))
        found[name] = results(run, benchmark.steps)
    return found


def command(benchmark: Benchmark, variant: Variant) -> list[str]:
    """Return the script of a variant, and the options that its runs have in common."""
    sizes = ["--steps", str(benchmark.steps), "--eval-samples", str(benchmark.samples)]
    game = ["--env-options", *variant.game, "noise", str(benchmark.noise)]
    return [variant.script, *variant.options, *game, *sizes, *benchmark.more]


def results(run: Path, steps: int) -> dict[str, Any]:
    """Return the results of a run: held-out success and its gain, and the moves and tokens that training took."""
    batches = [line for line in lines(run / "metrics.jsonl") if line["kind"] == "train" and line["phase"] != "sft"]
    scores = [read(run / "heldout" / f"{step}.json") for step in (0, steps)]
    return {
        **read(run / "benchmark.json"),
        "moves": sum(batch["moves"] for batch in batches),
        "tokens": sum(value for batch in batches for name, value in batch.items() if name.endswith("_tokens")),
        "success": [round(float(np.mean(score["by_task"])), 4) for score in scores],
        "greedy": [round(score["greedy"], 4) for score in scores],
        "gain": paired_bootstrap(scores[1]["by_task"], scores[0]["by_task"])._asdict(),
        "by_task": [score["by_task"] for score in scores],
    }


def gain(seeds: dict[int, list[list[float]]]) -> dict[str, float]:
    """Return by how much success grew, over all seeds: tasks are what is drawn again."""
    return paired_bootstrap(mean(seeds, 1), mean(seeds, 0))._asdict()


def over(ones: dict[int, list[list[float]]], others: dict[int, list[list[float]]]) -> dict[str, Any]:
    """Return by how much one variant's final success exceeds another's: for each seed, and over all."""
    each = {str(seed): paired_bootstrap(ones[seed][1], others[seed][1])._asdict() for seed in ones}
    return {**each, "all": paired_bootstrap(mean(ones, 1), mean(others, 1))._asdict()}


def mean(seeds: dict[int, list[list[float]]], when: int) -> list[float]:
    """Return the mean success of each task over the seeds, at the start (0) or the end (1)."""
    return [float(value) for value in np.mean([scores[when] for scores in seeds.values()], axis=0)]


def show(record: dict[str, Any]) -> None:
    """Print held-out success of sampled episodes before and after, and by how much each way to train is ahead."""
    leads = record.get("over_one_agent", {})
    rows = []
    for name, runs in record["runs"].items():
        for seed, run in runs.items():
            shares = [f"{share:.1%}" for share in run["success"]]
            greedy = " → ".join(f"{share:.0%}" for share in run["greedy"])
            lead = interval(leads[name][seed], 1, 100) if name in leads else ""
            numbers = (f"{run[what]:,.0f}" for what in ("moves", "tokens", "cpu_seconds"))
            rows.append([name, seed, *shares, interval(run["gain"], 1, 100), greedy, *numbers, lead])
    print(markdown("variant|seed:|start:|end:|gain, points:|greedy:|moves:|tokens:|CPU s:|over one:", rows))
    for name, gained in record["over_the_start"].items():
        print(f"{name} over its start, all seeds: {interval(gained, 1, 100)} points.")
    for name, lead in leads.items():
        print(f"{name} over {ONE}, all seeds: {interval(lead['all'], 1, 100)} points.")


if __name__ == "__main__":
    cli(main)
