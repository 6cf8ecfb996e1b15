"""Results of the study on MASBench: means and comparisons with 95 % intervals, tables, a CSV file, and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from examples.studies.masbench_systems import (
    BASE,
    DIFFICULTIES,
    EFFORTS,
    INSTRUCT,
    MODELS,
    PLAYED,
    REASONING,
    SEARCHES,
    STRUCTURES,
    WARNED,
)
from examples.studies.shared import expected_table, legend_below, make_panels, table, write_page
from toolorchestra.algos.reporting.stats import Interval, mean_interval, paired_bootstrap, success_share
from toolorchestra.envs.sources.masbench.sets import COUNTS
from toolorchestra.toolscale.common.svg_themes import SERIES

SIZES = ("agents", "length", "width")
"""Measures of the size of a design."""


class ResultCell(msgspec.Struct, frozen=True):
    """The results of a system on the problems of one value of an axis, problem by problem (means over samples).

    `right` has shares of right answers; a design has so many `agents`, `length` of them on its longest path and at most
    `width` side by side. `usd` are US dollars; `seconds` are virtual for simulated models.
    """

    axis: str
    value: int
    model: str
    system: str
    right: list[float]
    agents: list[float]
    length: list[float]
    width: list[float]
    usd: list[float]
    seconds: list[float]
    condition: str = ""

    def mean(self, what: str) -> Interval:
        """Return a mean over problems with its 95 % interval (Wilson's for right answers, one sample each)."""
        values = getattr(self, what)
        if what == "right" and set(values) <= {0.0, 1.0}:
            return success_share(values)
        return mean_interval(values)


class MASBenchStudy(msgspec.Struct, frozen=True):
    """The results of the study: of each value so many problems (a quarter with notes) with so many episodes each."""

    problems: int
    samples: int
    cells: list[ResultCell]

    def of(
        self, axis: str, model: str, system: str, values: Sequence[int] | None = None, condition: str = ""
    ) -> list[ResultCell]:
        """Return the cells of a system on an axis under a condition, by value."""
        return [
            cell
            for cell in self.cells
            if (cell.axis, cell.model, cell.system, cell.condition) == (axis, model, system, condition)
            and (values is None or cell.value in values)
        ]

    def right(
        self, axis: str, model: str, system: str, values: Sequence[int] | None = None, condition: str = ""
    ) -> list[float]:
        """Return the shares of right answers, problem by problem."""
        return [right for cell in self.of(axis, model, system, values, condition) for right in cell.right]

    def gain(
        self, axis: str, model: str, system: str = "mirror", over: str = "single", condition: str = ""
    ) -> Interval:
        """Return by how much a system is more often right than another, with its 95 % interval, paired by problem."""
        right, other = (self.right(axis, model, one, None, condition) for one in (system, over))
        return paired_bootstrap(right, other)

    def gains(self, axis: str, model: str, condition: str = "") -> NDArray[np.float64]:
        """Return the mirror's gain over the single agent, problem by problem."""
        right, other = (self.right(axis, model, system, None, condition) for system in ("mirror", "single"))
        return np.subtract(right, other)

    def beside_depth(self, axis: str) -> Interval:
        """Return by how much the weak model's gain on an axis exceeds that on depth."""
        return _apart(self.gains(axis, "weak"), self.gains("depth", "weak"))

    def diminished(self, axis: str, condition: str = "") -> Interval:
        """Return by how much the weak model's gain exceeds the strong one's, paired by problem."""
        return paired_bootstrap(self.gains(axis, "weak", condition), self.gains(axis, "strong", condition))

    def between(self, axes: Sequence[str], system: str, condition: str, over: str) -> Interval:
        """Return by how much a system over the strong model is more often right under a condition than another."""
        right, other = (
            [r for axis in axes for r in self.right(axis, "strong", system, None, one)] for one in (condition, over)
        )
        return paired_bootstrap(right, other)

    def fall(self, model: str, system: str, axes: Sequence[str] = STRUCTURES, *, beyond: bool = False) -> Interval:
        """Return by how much a system's accuracy falls from the least values of some axes to the largest.

        With `beyond`, from the values up to the largest of the paper's training to those above.
        """
        before: list[float] = []
        after: list[float] = []
        for axis in axes:
            values = [cell.value for cell in self.of(axis, model, system)]
            trained = max(COUNTS[axis]["train"])
            less, more = values[:1], values[-1:]
            if beyond:
                less, more = [v for v in values if v <= trained], [v for v in values if v > trained]
            before += self.right(axis, model, system, less)
            after += self.right(axis, model, system, more)
        return _apart(before, after)

    def observations(self) -> dict[str, Interval]:
        """Return what the paper's Observations 1 to 5 and 8 and Figure 3 say is above 0, with 95 % intervals."""
        found = {f"1: weak, gain on {axis}": self.gain(axis, "weak") for axis in STRUCTURES[1:]}
        found |= {f"1: weak, gain on {axis} over gain on depth": self.beside_depth(axis) for axis in STRUCTURES[1:]}
        found |= {f"2: weak gain over strong gain, {axis}": self.diminished(axis) for axis in STRUCTURES[1:]}
        for model in MODELS:
            for system in ("single", "mirror"):
                found[f"3: {model}, {system}: from least values to largest"] = self.fall(model, system)
                found[f"3: {model}, {system}: from training values to larger"] = self.fall(model, system, beyond=True)
        for over in ("single", "mirror", "single, warned"):
            found[f"robustness: strong, {WARNED} over {over}"] = self.gain("robustness", "strong", WARNED, over)
        return found | self._of_conditions()

    def _of_conditions(self) -> dict[str, Interval]:
        """Return the observations about conditions other than the base that were played."""
        played = {cell.condition for cell in self.cells}
        found = {}
        for one, axis in product(DIFFICULTIES, STRUCTURES[1:]):
            if one.name in played:
                found[f"2: weak gain over strong gain, {axis}, {one.name}"] = self.diminished(axis, one.name)
        for axis in STRUCTURES:
            if self.of(axis, "strong", INSTRUCT):
                found[f"4: {INSTRUCT} over {REASONING}, {axis}"] = self.gain(axis, "strong", INSTRUCT, REASONING)
        low, _, high, free = (one.name for one in EFFORTS)
        if low in played:
            for system in ("single", "mirror", INSTRUCT):
                found[f"5: {low} over high, {system}"] = self.between(STRUCTURES, system, low, high)
            found[f"5: {free} over limit, single"] = self.between(STRUCTURES, "single", free, high)
            for one in EFFORTS:
                name = f"5: robustness, {one.name}, {WARNED} over single"
                found[name] = self.gain("robustness", "strong", WARNED, condition=one.name)
        if cells := self.of(SEARCHES, "strong", SEARCHES):
            for cell in cells[1:]:
                found[f"8: {cell.value} searches over one"] = paired_bootstrap(cell.right, cells[0].right)
        return found


def _apart(before: ArrayLike, after: ArrayLike) -> Interval:
    """Return a difference of means of different problems, with its normal 95 % interval."""
    first, second = mean_interval(before), mean_interval(after)
    half = math.hypot(first.high - first.estimate, second.high - second.estimate)
    return Interval(*(first.estimate - second.estimate + by for by in (0.0, -half, half)))


def markdown(study: MASBenchStudy) -> str:
    """Return the tables of a study."""
    lines = [
        f"{study.problems} problems of each value ({-(-study.problems // 4)} with notes), "
        f"{study.samples} episode(s) each; % of right answers, ± is half the 95 % interval."
    ]
    for axis in STRUCTURES:
        lines += _accuracies(study, axis, PLAYED[axis][:2])
    lines += _accuracies(study, "robustness", PLAYED["robustness"])
    lines += ["", "Gain over the single agent, all values together, in points:"]
    gains = []
    for axis, model in product(STRUCTURES, MODELS):
        systems = [system for system in PLAYED[axis][1:] if study.of(axis, model, system)]
        gains.append((axis, model, *(study.gain(axis, model, system).points() for system in systems)))
    lines += table(("axis", "model", "mirror", "branches"), "llrr", gains)
    lines += _under_conditions(study)
    lines += expected_table("points", study.observations(), lambda name: 100)
    lines += ["", "Agents of the mirror: how many, the longest path, the most side by side:"]
    sizes = [
        (axis, str(cell.value), *(f"{cell.mean(what).estimate:.1f}" for what in SIZES))
        for axis in PLAYED
        for cell in study.of(axis, "weak", "mirror")
    ]
    lines += table(("axis", "value", *SIZES), "lrrrr", sizes)
    return "\n".join(lines) + "\n"


def _accuracies(study: MASBenchStudy, axis: str, systems: Sequence[str]) -> list[str]:
    values = [str(cell.value) for cell in study.of(axis, "weak", "single")]
    rows = [
        (f"{model}, {system}", *(_percent(cell.mean("right")) for cell in cells))
        for model in MODELS
        for system in systems
        if (cells := study.of(axis, model, system))
    ]
    return table((axis, *values), "l" + "r" * len(values), rows)


def _under_conditions(study: MASBenchStudy) -> list[str]:
    """Return the table of accuracies, all values of an axis together, under each condition and the base."""
    systems = ("single", "mirror", INSTRUCT, WARNED)
    rows = []
    for condition, axis, model in product((BASE, *DIFFICULTIES, *EFFORTS), PLAYED, MODELS):
        found = [study.right(axis, model, system, None, condition.name) for system in systems]
        if any(found[1:]):
            shares = ("" if not right else _percent(mean_interval(right)) for right in found)
            rows.append((condition.name or "as in the environments", axis, model, *shares))
    lines = ["", "All values of an axis together, under each condition:"]
    lines += table(("condition", "axis", "model", *systems), "lllrrrr", rows)
    if cells := study.of(SEARCHES, "strong", SEARCHES):
        lines += ["", f"Questions of several hops ({len(cells[0].right)}), by searches side by side:"]
        shown = ("right", "usd", "seconds")
        row = [("right, %", *(_percent(cell.mean("right")) for cell in cells))]
        row += [(what, *(f"{cell.mean(what).estimate:.3g}" for cell in cells)) for what in shown[1:]]
        lines += table((SEARCHES, *(str(cell.value) for cell in cells)), "l" + "r" * len(cells), row)
    return lines


def _percent(share: Interval) -> str:
    return f"{100 * share.estimate:.0f} ± {50 * (share.high - share.low):.0f}"


def write(study: MASBenchStudy, folder: Path) -> None:
    """Write ``study.csv``, ``study.md`` and three figures to a folder (needs the extra ``train``)."""
    rows = []
    for cell in study.cells:
        right = dict(zip(("right", "low", "high"), cell.mean("right"), strict=True))
        numbers = right | {what: cell.mean(what).estimate for what in (*SIZES, "usd", "seconds")}
        where = {"axis": cell.axis, "value": cell.value, "model": cell.model, "system": cell.system}
        where |= {"condition": cell.condition}
        rows.append(where | {"problems": len(cell.right)} | {what: f"{one:.6g}" for what, one in numbers.items()})
    figures = {"accuracy": _draw_accuracy(study), "robustness": _draw_robustness(study), "agents": _draw_agents(study)}
    write_page(folder, rows, markdown(study), figures, "masbench")


def _draw_accuracy(study: MASBenchStudy) -> Any:
    """Draw Figure 2: accuracy by value, with bands."""
    figure, panels = make_panels(len(STRUCTURES), 3.2, 3.0)
    for panel, axis in zip(panels, STRUCTURES, strict=True):
        for colour, model in zip(SERIES, MODELS, strict=False):
            for line, system in (("--", "single"), ("-", "mirror")):
                cells = study.of(axis, model, system)
                values, found = [cell.value for cell in cells], [cell.mean("right") for cell in cells]
                panel.plot(values, [one.estimate for one in found], line, color=colour, label=f"{model}, {system}")
                panel.fill_between(
                    values, [one.low for one in found], [one.high for one in found], color=colour, alpha=0.12, lw=0
                )
        panel.set(title=axis, xlabel="value", ylim=(0, 1.02))
    panels[0].set_ylabel("right answers")
    legend_below(figure, panels[0], 2)
    return figure


def _draw_robustness(study: MASBenchStudy) -> Any:
    """Draw Figure 3 and Figure E.3: accuracy with notes."""
    figure, panels = make_panels(len(MODELS), 3.2, 3.0)
    for panel, model in zip(panels, MODELS, strict=True):
        systems = [system for system in PLAYED["robustness"] if study.of("robustness", model, system)]
        for place, system in enumerate(systems):
            cells = study.of("robustness", model, system)
            found = [cell.mean("right") for cell in cells]
            at = np.arange(len(cells)) + (place - len(systems) / 2) * 0.16
            spread = np.array([[one.estimate - one.low, one.high - one.estimate] for one in found]).T.clip(0)
            panel.bar(at, [one.estimate for one in found], 0.15, yerr=spread, label=system, color=SERIES[place])
            panel.set_xticks(range(len(cells)), [f"{cell.value} notes" for cell in cells])
        panel.set(title=model, ylim=(0, 1.02))
    panels[0].set_ylabel("right answers")
    legend_below(figure, panels[0])
    return figure


def _draw_agents(study: MASBenchStudy) -> Any:
    """Draw the statistics of Figure E.1: agents, length and width by value."""
    figure, panels = make_panels(len(PLAYED), 3.2, 3.0)
    for panel, axis in zip(panels, PLAYED, strict=True):
        cells = study.of(axis, "weak", "mirror")
        for colour, what in zip(SERIES, SIZES, strict=False):
            means = [cell.mean(what).estimate for cell in cells]
            panel.plot([cell.value for cell in cells], means, "o-", color=colour, label=what)
        panel.set(title=axis, xlabel="value")
        panel.set_ylim(bottom=0)
    legend_below(figure, panels[0])
    return figure
