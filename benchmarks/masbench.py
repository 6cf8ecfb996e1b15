"""Check MASBench with many instances: their cost, whether text and graph agree, and the digests of masbench-v1.

    python benchmarks/masbench.py --record          50,000 instances, written to benchmarks/results/masbench.json
    python benchmarks/masbench.py --parts rates     one part alone; with --record the others stay as they were

- *Rates* are instances a second on one core at the values 4, 8, 16 and 32 of each axis, both splits: the best of some
  rounds, in processor time of this process, garbage collection included. *Growth* is the exponent g of a cost that
  grows as value^g from 4 to 32: 1 is linear.
- *Agreement* is that of the solver, which reads nothing but the text, with the graph: in answers, axes and split, on
  instances of all values 1 to 32.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from harness import cli, markdown, provenance, read, write

from toolorchestra.envs.sources.masbench.dataset_check import DatasetCheck, check_dataset
from toolorchestra.envs.sources.masbench.graph import AXES, LARGEST, Axes
from toolorchestra.envs.sources.masbench.sets import COUNTS, DIGESTS, digest, instances, named_set

COLUMNS = "axis|instances|text and graph disagree|templates train / test|in both|χ² (< 40.3)|ms each|ms to solve one"
TIMED = (4, 8, 16, 32)
ROUNDS = 8
MIN_RATE = 2_000
Part = Literal["rates", "agreement", "published"]
PARTS: tuple[Part, ...] = ("rates", "agreement", "published")


def rate(axis: str, value: int, split: str, rounds: int = ROUNDS) -> float:
    """Return instances a second, in the best of some rounds."""
    count = max(10, 320 // value)
    best = math.inf
    for _ in range(rounds):
        series = instances(Axes(**{axis: value}), split, seed="rate")
        next(series)
        began = time.process_time()
        for _ in range(count):
            next(series)
        best = min(best, (time.process_time() - began) / count)
    return 1 / best


def rates() -> dict[str, Any]:
    """Return the rates of every axis, how its cost grows, and the rate of all axes together at the least value."""
    found: dict[str, Any] = {}
    rows = []
    passed = True
    for split in ("train", "test"):
        axes: dict[str, Any] = {}
        for axis in AXES:
            each = {value: rate(axis, value, split) for value in TIMED}
            growth = math.log(each[TIMED[0]] / each[TIMED[-1]]) / math.log(TIMED[-1] / TIMED[0])
            axes[axis] = {**{str(value): round(one) for value, one in each.items()}, "growth": round(growth, 3)}
            rows.append([axis, split, *(f"{one:,.0f}" for one in each.values()), f"{growth:.2f}"])
        mean = len(AXES) / sum(1 / one[str(TIMED[0])] for one in axes.values())
        rows.append(["all, in equal numbers", split, f"{mean:,.0f}", *[""] * len(TIMED)])
        passed &= all(one["growth"] <= 1 for one in axes.values())
        passed &= split != "train" or min(one[str(TIMED[0])] for one in axes.values()) >= MIN_RATE
        found[split] = axes | {"all": {str(TIMED[0]): round(mean)}}
    print(markdown("axis|split|" + "|".join(f"a second at {value}:" for value in TIMED) + "|growth:", rows))
    return {"passed": passed, **found}


def published() -> dict[str, Any]:
    """Return what masbench-v1 holds: digests, how many tasks of each value, and templates that both splits share."""
    found: dict[str, Any] = {"digests": {}, "counts": {}, "templates in both": {}}
    for axis, counts in COUNTS.items():
        templates: dict[str, set[str]] = {}
        for split in counts:
            made = list(named_set(axis, split))
            values = Counter(task.bindings["masbench"]["axes"][axis] for task in made)
            templates[split] = {one for task in made for one in task.bindings["masbench"]["templates"]}
            found["digests"][f"{axis}/{split}"] = digest(made)
            found["counts"][f"{axis}/{split}"] = {str(value): values[value] for value in sorted(values)}
        found["templates in both"][axis] = len(templates["train"] & templates["test"])
    wanted = {
        f"{axis}/{split}": {str(value): count for value, count in COUNTS[axis][split].items()}
        for axis in COUNTS
        for split in COUNTS[axis]
    }
    apart = not any(found["templates in both"].values())
    for name, counts in found["counts"].items():
        print(f"{name}: {found['digests'][name]} {counts}")
    print(f"templates in both splits: {found['templates in both']}")
    return {"passed": found["digests"] == DIGESTS and found["counts"] == wanted and apart, **found}


def agreement(count: int) -> dict[str, Any]:
    """Return what the surveys of all axes found, on so many instances of each."""
    found: dict[str, DatasetCheck] = {}
    rows = []
    for axis in AXES:
        wanted = [Axes(**{axis: value}) for value in range(1, LARGEST + 1)]
        whole = found[axis] = check_dataset(wanted, -(-count // (2 * LARGEST)))
        templates = f"{whole.templates['train']:,} / {whole.templates['test']:,}"
        times = (f"{number:.2f}" for number in (whole.chi_square, whole.milliseconds, whole.solving))
        rows.append([axis, f"{whole.instances:,}", whole.disagreements, templates, whole.shared, *times])
        for fault in whole.faults:
            print(fault, file=sys.stderr)
    print(markdown(COLUMNS, rows))
    checked, wrong = (sum(getattr(one, what) for one in found.values()) for what in ("instances", "disagreements"))
    print(f"text and graph agree on {checked - wrong:,} of {checked:,} instances", flush=True)
    passed = all(one.passed for one in found.values())
    return {"passed": passed, "instances": checked, "disagreements": wrong, "axes": msgspec.to_builtins(found)}


def main(parts: tuple[Part, ...] = PARTS, count: int = 10_000, record: bool = False) -> bool:
    """Check parts, agreement with at least so many instances of each axis."""
    checks: dict[str, Callable[[], dict[str, Any]]] = {
        "rates": rates,
        "agreement": lambda: agreement(count),
        "published": published,
    }
    done = {part: check() for part, check in checks.items() if part in parts}
    if record:
        write("masbench", read("masbench", {}) | {part: {**provenance(), **found} for part, found in done.items()})
    failed = [part for part, found in done.items() if not found["passed"]]
    print(f"failed: {', '.join(failed) or 'nothing'}")
    return bool(failed)


if __name__ == "__main__":
    cli(main)
