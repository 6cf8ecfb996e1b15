"""Run studies, and keep the tables that they print.

    python benchmarks/studies.py                       two or three minutes of one core for each study
    python benchmarks/studies.py --studies masbench    one of them
    python benchmarks/studies.py --studies tmatr --runs FOLDER    trainings, for hours, which can go on (msarl as well)

writes benchmarks/results/study_NAME.json. The same version prints the same tables on every machine; of `msarl`, which
is not among the default ones, the hours differ.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from harness import RESULTS, cli, printed, save

from examples.studies.__main__ import main as command_line


@dataclass
class Benchmark:
    """Run studies."""

    studies: tuple[str, ...] = ("paramanager", "masbench")  # which of them; `msarl` and `tmatr` train models
    quick: bool = False  # the quick runs, which the records say
    seeds: tuple[int, ...] = ()  # seeds of the trainings; none: those of the study
    runs: Path | None = None  # folder of the trainings; those already in it are read
    more: tuple[str, ...] = ()  # further options of the studies, which the records say
    output: Path = RESULTS  # folder of the records


def main(benchmark: Benchmark) -> None:
    chosen = ["--quick"] * benchmark.quick
    chosen += ["--seeds", *map(str, benchmark.seeds)] if benchmark.seeds else []
    chosen += benchmark.more
    kept = ["--runs", str(benchmark.runs)] if benchmark.runs else []
    for name in benchmark.studies:
        shown = printed(command_line, name, *chosen, *kept).splitlines()
        study = shlex.join(["python", "-m", "examples.studies", name, *chosen])
        save(benchmark.output / f"study_{name}.json", {"study": study, "lines": shown})


if __name__ == "__main__":
    cli(main)
