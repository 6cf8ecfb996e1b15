"""Make a domain of a SQLite file, warm-start the built-in model on it, and compare with the README's environment.

    python benchmarks/own_database.py                   two warm starts: about ten minutes on one core
    python benchmarks/own_database.py --record          and write down what was found

The file is the German shop of `tests/toolscale/synth/test_german_shop.py`: eight tables, 49,000 rows, prefixes,
composite keys and Unix times, with a file of English names. It becomes a domain by `toolorchestra synth`, and the warm
start is that of `train grpo` by default (2,000 steps of SFT), on one thread. For both: seconds of CPU time of making
the domain and of the training as a process of its own, and the share of held-out tasks that the policy solves greedily.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from learners import run_learner
from provenance import provenance

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos.grpo import make_engine
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.reporting.evaluation import evaluate
from toolorchestra.algos.starts import starts
from toolorchestra.cli.main import main as command_line
from toolorchestra.toolscale.common.writing import write_whole
from toolorchestra.toolscale.domain_folder import load_domain

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "own_database.json"
COMPARED = "ToolOrchestra-Restaurant-v0"
HELD_OUT = 60
"""Held-out tasks that a policy plays."""


def make_domain(folder: Path) -> dict[str, Any]:
    """Write the shop and make a domain of it; return its sizes, and the seconds that it took."""
    spec = importlib.util.spec_from_file_location(
        "shop", ROOT / "tests" / "toolscale" / "synth" / "test_german_shop.py"
    )
    assert spec is not None
    assert spec.loader is not None
    shop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shop)
    rows = shop.german_shop(folder / "shop.db")
    (folder / "names.yaml").write_text(shop.NAMES, encoding="utf-8")
    start = time.process_time()
    options = ["--from-sqlite", str(folder / "shop.db"), "--names", str(folder / "names.yaml")]
    if status := command_line(["synth", str(folder / "domain"), *options]):
        raise SystemExit(f"synth ended with status {status}.")
    seconds = time.process_time() - start
    domain = load_domain(folder / "domain")
    sizes = {"rows": rows, "entries": domain.database.entries(), "tasks": len(domain.tasks())}
    return {**sizes, "cpu_seconds": round(seconds, 1)}


def solved(env: str, policy: Path) -> float:
    """Return the share of held-out tasks that a policy solves greedily."""
    config = TrainGRPO(env=env, start=policy, output=policy)
    model = TokenPolicy.load(policy)
    held_out = [
        start for level in starts(config.make_env(), config.eval_split, config.difficulty).values() for start in level
    ]
    chosen = held_out[:: max(1, len(held_out) // HELD_OUT)][:HELD_OUT]
    rows = evaluate(make_engine(config, model.renderer), model, chosen, samples=1, greedy=True)
    return sum(row.outcome == "solved" for row in rows) / len(rows)


def warm_start(env: str, folder: Path, steps: int) -> dict[str, Any]:
    """Warm-start the built-in model, and return the seconds that took and what it can do."""
    options = ["--env", env, "--steps", str(steps), "--threads", "1", "--output", str(folder)]
    found = run_learner("sft", options, quiet=True)
    last = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    loss = next(row["loss"] for row in reversed(last) if "loss" in row)
    return {**found, "loss": round(loss, 4), "solved": round(solved(env, folder / "final"), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=TrainGRPO().sft_steps, help="optimiser steps of a warm start")
    parser.add_argument("--record", action="store_true", help=f"write the results to {RESULTS.name}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        found = {**provenance(), "steps": given.steps, "made": make_domain(folder)}
        for name, env in (("shop", str(folder / "domain")), (COMPARED, COMPARED)):
            found[name] = warm_start(env, folder / f"run-{name}", given.steps)
            print(f"{name}: {found[name]}", flush=True)
    found["ratio"] = round(found["shop"]["cpu_seconds"] / found[COMPARED]["cpu_seconds"], 2)
    print(f"made: {found['made']}\nThe shop's warm start takes {found['ratio']} times as long.")
    if given.record:
        write_whole(RESULTS, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
