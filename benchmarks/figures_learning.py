"""Draw what was learned, from the records of trainings: MAS-Orchestra's designs, and TMATR's schedules."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from harness import read

from examples.studies import tmatr
from toolorchestra.algos.reporting import design_statistics
from toolorchestra.toolscale.common.svg_themes import svg_of


def learning() -> dict[str, str]:
    """Return the figures of the records, by their paths in the repository."""
    folder = "benchmarks/results"
    found = {}
    for axis, runs in read("grpo_masorchestra")["axes"].items():
        found[f"{folder}/grpo_masorchestra_{axis}.svg"] = designs(axis, runs["0"]["curves"])
    study = schedules(read("tmatr"))
    return found | {f"{folder}/tmatr_{name}.svg": svg_of(one, tmatr.SALT) for name, one in tmatr.figures(study).items()}


def designs(axis: str, curves: list[dict[str, float]]) -> str:
    """Return the figure of the designs while a policy learns on an axis."""
    steps = [{"phase": "grpo", "kind": "train", **step} for step in curves]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "designs.svg"
        design_statistics.draw(steps, file, f"Designs for MASOrchestra-High-MASBench{axis.title()}-v0")
        return file.read_text(encoding="utf-8")


def schedules(record: dict[str, Any]) -> tmatr.TMATRStudy:
    """Return the study of the schedules without its single tasks, which no figure shows."""
    return tmatr.TMATRStudy([
        tmatr.TrainingRun(name, int(seed), run["stages"], [], run["updates"], run["rewards"])
        for name, seeds in record["runs"].items()
        for seed, run in seeds.items()
    ])  # fmt: skip
