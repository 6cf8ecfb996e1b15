"""Run studies, and keep the tables that they print.

    python benchmarks/studies.py                       two or three minutes of one core for each study
    python benchmarks/studies.py --studies masbench    one of them
    python benchmarks/studies.py --studies tmatr --runs FOLDER    trainings, for hours, which can go on (msarl as well)

writes benchmarks/results/study_NAME.json. The same version prints the same tables on every machine; of `msarl`, which
is not among the default ones, the hours differ.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from dataclasses import dataclass
from pathlib import Path

import tyro
from provenance import provenance

from examples.studies.__main__ import main as command_line


@dataclass
class Benchmark:
    """Run studies."""

    studies: tuple[str, ...] = ("paramanager", "masbench")
    """Which of them; `msarl` and `tmatr` train models."""
    quick: bool = False
    """The quick runs, which the records say."""
    seeds: tuple[int, ...] = ()
    """Seeds of the trainings; none: those of the study."""
    runs: Path | None = None
    """Folder of the trainings; those already in it are read."""
    more: tuple[str, ...] = ()
    """Further options of the studies, which the records say."""
    output: Path = Path(__file__).parent / "results"
    """Folder of the records."""


def main(benchmark: Benchmark) -> None:
    """Run the studies."""
    chosen = ["--quick"] * benchmark.quick
    chosen += ["--seeds", *map(str, benchmark.seeds)] if benchmark.seeds else []
    chosen += benchmark.more
    kept = ["--runs", str(benchmark.runs)] if benchmark.runs else []
    for name in benchmark.studies:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = command_line([name, *chosen, *kept])
        if status:
            raise SystemExit(f"The study {name} ended with status {status}.")
        record = {
            **provenance(),
            "study": shlex.join(["python", "-m", "examples.studies", name, *chosen]),
            "lines": printed.getvalue().splitlines(),
        }
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (benchmark.output / f"study_{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Benchmark))
