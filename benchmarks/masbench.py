"""Check MASBench at length: 10,000 instances of each axis at all values 1 to 32, and the digests of masbench-v1.

Usage: python benchmarks/masbench.py [--count N] [--record]
"""

from __future__ import annotations

import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import tyro

from toolorchestra.envs.sources.masbench.graph import AXES, LARGEST, Axes
from toolorchestra.envs.sources.masbench.sets import COUNTS, DIGESTS, digest, named_set
from toolorchestra.envs.sources.masbench.survey import survey

COLUMNS = (
    *("axis", "instances", "text and graph disagree", "templates train / test", "in both", "χ² (< 40.3)"),
    *("ms each", "ms at 2 to 12"),
)
USUAL = (2, 4, 6, 8, 10, 12)


@dataclass
class Options:
    """Check the generator of MASBench."""

    count: int = 10_000
    """Least number of instances of each axis."""
    record: bool = False
    """Write what is found to benchmarks/results/masbench.json."""


def digests() -> dict[str, str]:
    return {f"{axis}/{split}": digest(named_set(axis, split)) for axis in COUNTS for split in COUNTS[axis]}


def main(options: Options) -> int:
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    each = -(-options.count // (2 * LARGEST))
    found: dict[str, Any] = {}
    for axis in AXES:
        whole = survey([Axes(**{axis: value}) for value in range(1, LARGEST + 1)], each)
        usual = survey([Axes(**{axis: value}) for value in USUAL], 50, seed="usual")
        found[axis] = {"all values": whole, "values of the paper": usual, "passed": whole.passed}
        cells = (
            *(axis, f"{whole.instances:,}", whole.disagreements),
            *(f"{whole.templates['train']:,} / {whole.templates['test']:,}", whole.shared),
            *(f"{whole.chi_square:.1f}", f"{whole.milliseconds:.2f}", f"{usual.milliseconds:.2f}"),
        )
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        for fault in whole.faults:
            print(fault, file=sys.stderr)
    began = time.perf_counter()
    made = digests()
    print(f"masbench-v1: {sum(map(_size, COUNTS))} tasks in {time.perf_counter() - began:.0f} s", flush=True)
    for name, value in made.items():
        print(f"  {name}: {value}{'' if DIGESTS.get(name) == value else '  (differs from what is pinned)'}")
    if options.record:
        content = {
            "command": f"python benchmarks/masbench.py --count {options.count}",
            "python": platform.python_version(),
            "axes": found,
            "digests": made,
        }
        file = Path(__file__).parent / "results" / "masbench.json"
        file.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    return 0 if all(one["passed"] for one in found.values()) and made == DIGESTS else 1


def _size(axis: str) -> int:
    return sum(sum(counts.values()) for counts in COUNTS[axis].values())


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options)))
