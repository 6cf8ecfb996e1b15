"""Draw what was learned, from the records: MAS-Orchestra's designs, TMATR's schedules, TRL's GRPO, the quickstart."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from harness import read

from examples.studies import tmatr
from examples.studies.shared import legend_below, make_panels
from toolorchestra.algos.reporting import design_statistics
from toolorchestra.toolscale.common.svg_themes import SERIES, svg_of


def learning() -> dict[str, str]:
    """Return the figures of the records, by their paths in the repository."""
    folder = "benchmarks/results"
    found = {}
    for axis, runs in read("grpo_masorchestra")["axes"].items():
        found[f"{folder}/grpo_masorchestra_{axis}.svg"] = designs(axis, runs["0"]["curves"])
    study = schedules(read("tmatr"))
    found |= {f"{folder}/tmatr_{name}.svg": svg_of(one, tmatr.SALT) for name, one in tmatr.figures(study).items()}
    found[f"{folder}/grpo_trl.svg"] = rewards(read("grpo_trl")["rewards"])
    return found | {f"{folder}/quickstart.svg": quickstart(read("quickstart")["runs"])}


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


def rewards(steps: list[float]) -> str:
    """Return the figure of TRL's GRPO: the reward of each step, and the mean of five."""
    figure, (panel,) = make_panels(1, 6.0, 2.6)
    numbers = range(1, len(steps) + 1)
    means = [sum(steps[max(0, n - 5) : n]) / len(steps[max(0, n - 5) : n]) for n in numbers]
    panel.plot(numbers, steps, "o", color=SERIES[0], markersize=3, label="64 episodes")
    panel.plot(numbers, means, color=SERIES[1], label="mean of five steps")
    panel.set(xlabel="step of GRPO", ylabel="reward", ylim=(0, 1))
    legend_below(figure, panel)
    return svg_of(figure, "grpo_trl")


def quickstart(runs: list[dict[str, Any]]) -> str:
    """Return the figure of held-out success before and after the quickstart, with its interval, of each seed."""
    figure, (panel,) = make_panels(1, 6.0, 2.2)
    for number, (name, colour) in enumerate(zip(("before", "after"), SERIES, strict=False)):
        held_out = [run["held_out"][name] for run in runs]
        middle = [100 * one["success"] for one in held_out]
        low, high = ([100 * abs(one[end] - one["success"]) for one in held_out] for end in ("low", "high"))
        places = [place + 0.12 * (2 * number - 1) for place in range(len(runs))]
        panel.errorbar(middle, places, xerr=[low, high], fmt="o", color=colour, capsize=3, label=name)
    panel.set(
        xlabel="held-out tasks solved, % (95 % interval)",
        xlim=(-3, 103),
        xticks=range(0, 101, 10),
        ylim=(len(runs) - 0.5, -0.5),
    )
    panel.set_yticks(range(len(runs)), [f"seed {run['seed']}" for run in runs])
    legend_below(figure, panel)
    return svg_of(figure, "quickstart")
