"""Check MASBench at length: what an instance costs, whether text and graph agree, and the digests of masbench-v1.

    python benchmarks/masbench.py --record          50,000 instances, written to benchmarks/results/masbench.json
    python benchmarks/masbench.py --count 100       a quick look

- *Rates* are instances a second on one core at the values 4, 8, 16 and 32 of each axis, both splits: the best of some
  rounds, in processor time of this process, garbage collection included. *Growth* is the exponent g of a cost that
  grows as value^g from 4 to 32: 1 is linear.
- *Agreement* is that of the solver, which reads nothing but the text, with the graph: in answers, axes and split, on
  instances of all values 1 to 32.
"""

from __future__ import annotations

import math
import platform
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import tyro

from toolorchestra.envs.sources.masbench.graph import AXES, LARGEST, Axes
from toolorchestra.envs.sources.masbench.sets import COUNTS, DIGESTS, digest, instances, named_set
from toolorchestra.envs.sources.masbench.survey import survey

COLUMNS = (
    *("axis", "instances", "text and graph disagree", "templates train / test", "in both", "χ² (< 40.3)"),
    *("ms each", "ms to solve one"),
)
TIMED = (4, 8, 16, 32)
ROUNDS = 8
WANTED = 2_000


@dataclass
class Options:
    """Check the generator of MASBench."""

    count: int = 10_000
    """Least number of instances of each axis."""
    record: bool = False
    """Write what is found to benchmarks/results/masbench.json."""


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
    for split in ("train", "test"):
        axes: dict[str, Any] = {}
        for axis in AXES:
            each = {value: rate(axis, value, split) for value in TIMED}
            growth = math.log(each[TIMED[0]] / each[TIMED[-1]]) / math.log(TIMED[-1] / TIMED[0])
            axes[axis] = {**{str(value): round(one) for value, one in each.items()}, "growth": round(growth, 3)}
            told = " | ".join(f"{one:,.0f}" for one in each.values())
            print(f"| {axis} | {split} | {told} | {growth:.2f} |", flush=True)
        mean = len(AXES) / sum(1 / one[str(TIMED[0])] for one in axes.values())
        print(f"| all, in equal numbers | {split} | {mean:,.0f} | | | | |", flush=True)
        found[split] = axes | {"all": {str(TIMED[0]): round(mean)}}
    return found


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
    return found


def as_published(found: dict[str, Any]) -> bool:
    """Return whether masbench-v1 is what it is said to be."""
    counts = {
        f"{axis}/{split}": {str(value): count for value, count in COUNTS[axis][split].items()}
        for axis in COUNTS
        for split in COUNTS[axis]
    }
    return found["digests"] == DIGESTS and found["counts"] == counts and not any(found["templates in both"].values())


def main(options: Options) -> int:
    print(
        "| axis | split | " + " | ".join(f"{value}: a second" for value in TIMED) + " | growth |\n" + "|---" * 7 + "|"
    )
    timed = rates()
    print("\n| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    each = -(-options.count // (2 * LARGEST))
    found: dict[str, Any] = {}
    for axis in AXES:
        whole = survey([Axes(**{axis: value}) for value in range(1, LARGEST + 1)], each)
        found[axis] = {"survey": whole, "passed": whole.passed}
        cells = (
            *(axis, f"{whole.instances:,}", whole.disagreements),
            *(f"{whole.templates['train']:,} / {whole.templates['test']:,}", whole.shared),
            *(f"{whole.chi_square:.1f}", f"{whole.milliseconds:.2f}", f"{whole.solving:.2f}"),
        )
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        for fault in whole.faults:
            print(fault, file=sys.stderr)
    checked, wrong = (
        sum(getattr(one["survey"], name) for one in found.values()) for name in ("instances", "disagreements")
    )
    print(f"text and graph agree on {checked - wrong:,} of {checked:,} instances", flush=True)
    began = time.perf_counter()
    made = published()
    print(f"masbench-v1: {sum(map(_size, COUNTS)):,} tasks in {time.perf_counter() - began:.0f} s", flush=True)
    for name, counts in made["counts"].items():
        print(f"  {name}: {made['digests'][name]} {counts}")
    print(f"  templates in both splits: {made['templates in both']}")
    print(f"  counts, digests and templates as published: {as_published(made)}")
    if options.record:
        content = {
            "command": f"python benchmarks/masbench.py --count {options.count} --record",
            "python": platform.python_version(),
            "instances a second": timed,
            "agreement": {"instances": checked, "disagreements": wrong},
            "axes": found,
            "masbench-v1": made | {"as published": as_published(made)},
        }
        file = Path(__file__).parent / "results" / "masbench.json"
        file.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    linear = all(timed[split][axis]["growth"] <= 1 for split in timed for axis in AXES)
    fast = timed["train"]["all"][str(TIMED[0])] >= WANTED
    if not (linear and fast):
        print(
            f"expected {WANTED:,} training instances a second at {TIMED[0]}, and growths of at most 1", file=sys.stderr
        )
    return 0 if all(one["passed"] for one in found.values()) and as_published(made) and linear and fast else 1


def _size(axis: str) -> int:
    return sum(sum(counts.values()) for counts in COUNTS[axis].values())


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options)))
