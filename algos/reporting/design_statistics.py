"""Statistics of a policy's designs: share of valid ones, sizes and kinds of agents, as numbers and as a figure.

Like MAS-Orchestra Figure 5, `draw` shows number, sequential length and parallel width of the agents over training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from toolorchestra.agents.builtin.design_renderer import WARNING
from toolorchestra.algos.rollout.engine import Row
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.toolscale.common.svg_themes import GROUND, SERIES, TEXT, shades, svg_of
from toolorchestra.toolscale.common.writing import write_whole

MEASURES = {"agents": "number of agents", "length": "sequential length", "width": "parallel width"}
"""Measures of the size of a design: names of metrics, and titles."""
_MAX_SIZE = 8  # sizes from here on count as one


def valid_of(rows: Sequence[Row]) -> list[float | None]:
    """Return 1 for a row whose design is valid, 0 for one that breaks a rule, None where there is no design."""
    return [None if row.design is None or not row.valid else float(isinstance(row.design, Design)) for row in rows]


def statistics(rows: Sequence[Row]) -> dict[str, float]:
    """Return statistics of the designs of rows; nothing if none has a design.

    Returns:
        ``valid``, the share of valid designs; of these the mean ``agents``, ``length`` and ``width``, the share of each
        size (``agents_3``; the largest one includes all above it), and of all their agents the share of each kind
        (``kind_SCAgent``) and of those that are ``warned`` of notes.
    """
    written = [found for found in valid_of(rows) if found is not None]
    if not written:
        return {}
    designs = [row.design for row in rows if isinstance(row.design, Design) and row.design.agents]
    found = {"valid": float(np.mean(written))}
    if not designs:
        return found
    for measure in MEASURES:
        sizes = [int(getattr(design.shape, measure)) for design in designs]
        found[measure] = float(np.mean(sizes))
        for size, count in sorted(Counter(min(size, _MAX_SIZE) for size in sizes).items()):
            found[f"{measure}_{size}"] = count / len(sizes)
    agents = [agent for design in designs for agent in design.agents]
    for kind, count in sorted(Counter(agent.kind for agent in agents).items()):
        found[f"kind_{kind}"] = count / len(agents)
    found["warned"] = sum(WARNING in agent.input for agent in agents) / len(agents)
    return found


def draw(records: Sequence[Mapping[str, Any]], path: Path, title: str = "") -> None:
    """Draw the agents over the training steps (records of a `RunLog`) into an SVG file with reproducible bytes."""
    steps = [record for record in records if record["kind"] == "train" and "valid" in record]
    if not steps:
        return
    figure = Figure(figsize=(9, 7.2), layout="constrained")
    figure.suptitle(title, fontsize=13, fontweight="bold")
    panels = list(figure.subplots(2, 3).flat)
    for panel, (measure, name) in zip(panels, MEASURES.items(), strict=False):
        sizes = {str(size): f"{measure}_{size}" for size in range(1, _MAX_SIZE + 1)}
        sizes = {size: metric for size, metric in sizes.items() if any(metric in step for step in steps)}
        _draw_shares(panel, steps, sizes, shades(len(sizes)))
        mean = panel.twinx()
        mean.plot(*_curve(steps, measure), color=GROUND, linewidth=3.5)
        mean.plot(*_curve(steps, measure), color=TEXT, linewidth=1.5)
        mean.set_ylim(0, _MAX_SIZE)
        mean.set_ylabel("mean (line)", fontsize=8)
        mean.tick_params(labelsize=8)
        panel.set_title(f"{name} (shares)", fontsize=10)
    shares, kinds, cost = panels[3:]
    lines = (("valid", "valid designs"), ("success", "success"), ("warned", "agents warned of notes"))
    for colour, (metric, label) in zip(SERIES, lines, strict=False):
        shares.plot(*_curve(steps, metric), color=colour, label=label)
    shares.set_title("designs and agents (shares)", fontsize=10)
    shares.set_ylim(-0.02, 1.02)
    names = sorted({name for step in steps for name in step if name.startswith("kind_")})
    _draw_shares(kinds, steps, {name.removeprefix("kind_"): name for name in names}, SERIES)
    kinds.set_title("kinds of agent (shares)", fontsize=10)
    cost.plot(*_curve(steps, "cost"), color=SERIES[3])
    cost.set_title("cost of an episode (US$)", fontsize=10)
    cost.set_ylim(bottom=0)
    for panel in panels:
        panel.set_xlabel("step", fontsize=9)
        panel.tick_params(labelsize=8)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        if panel is not cost:
            panel.yaxis.set_major_formatter(PercentFormatter(1.0))
            if panel.get_legend_handles_labels()[0]:
                columns = 1 if panel is shares else 2 if panel is kinds else 4
                style: dict[str, Any] = {"fontsize": 8, "frameon": False, "handlelength": 1.2, "columnspacing": 1}
                panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns, **style)
    write_whole(path, svg_of(figure, "designs"))


def _draw_shares(
    panel: Axes, steps: Sequence[Mapping[str, Any]], metrics: Mapping[str, str], colours: Sequence[str]
) -> None:
    rows = [_curve(steps, metric, 0.0)[1] for metric in metrics.values()]
    if rows:  # none, where no design was valid
        panel.stackplot(
            [step["step"] for step in steps], rows, labels=list(metrics), colors=colours, edgecolor=GROUND, lw=0.3
        )
    panel.set_ylim(0, 1)
    panel.margins(x=0)


def _curve(steps: Sequence[Mapping[str, Any]], metric: str, missing: float = np.nan) -> tuple[list[int], list[float]]:
    return [step["step"] for step in steps], [step.get(metric, missing) for step in steps]
