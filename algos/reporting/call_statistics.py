"""Statistics of a policy's calls: shares of tools and of models, and different tools of an episode, also as a figure.

ParaManager Figure 5 compares the shares of an untrained and a trained policy, Figure 6b shows the number of different
tools over training; ToolOrchestra Figures 2 and 4 have the shares of models and tools of several orchestrators.
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

from toolorchestra.algos.rollout.engine import Row
from toolorchestra.toolscale.common.svg_themes import GROUND, SERIES, svg_of
from toolorchestra.toolscale.common.writing import write_whole

UNIQUE = "unique_tools"
"""Metric: mean number of different tools of an episode, the final one not counted (Figure 6b)."""
KINDS = {"tool_": "shares of tools", "model_": "shares of models"}
"""Prefixes of metrics, and titles of their panels."""


def statistics(rows: Sequence[Row]) -> dict[str, float]:
    """Return statistics of the calls of rows; nothing if no model was called in them.

    Returns:
        ``unique_tools``; for each tool its share of all calls (``tool_code_reasoner``), and for each model its share of
        all calls of models (``model_gpt-oss-20b``).
    """
    models = Counter(name for row in rows for call in row.calls for name in call.models)
    if not models:
        return {}
    tools = Counter(call.tool for row in rows for call in row.calls)
    found = {UNIQUE: float(np.mean([len({call.tool for call in row.calls}) for row in rows]))}
    for prefix, counts in zip(KINDS, (tools, models), strict=True):
        found |= {f"{prefix}{name}": count / counts.total() for name, count in sorted(counts.items())}
    return found


def draw(
    records: Sequence[Mapping[str, Any]], means: Mapping[str, Mapping[str, float]], path: Path, title: str = ""
) -> None:
    """Draw the calls over the training steps, and before and after it, into an SVG file with reproducible bytes.

    Args:
        records: Those of a `RunLog`.
        means: Statistics on held-out tasks by policy, in the order in which they are shown.
        path: The file; it is not written if no model was called.
        title: Title.
    """
    steps = [record for record in records if record["kind"] == "train" and UNIQUE in record]
    if not steps:
        return
    figure = Figure(figsize=(9, 7.4), layout="constrained")
    figure.suptitle(title, fontsize=13, fontweight="bold")
    above, below = figure.subplots(2, 3)
    for (prefix, name), over, held_out in zip(KINDS.items(), above[:2], below[:2], strict=True):
        metrics = sorted({metric for one in (*steps, *means.values()) for metric in one if metric.startswith(prefix)})
        numbers = [step["step"] for step in steps]
        curves = [[step.get(metric, 0.0) for step in steps] for metric in metrics]
        labels = [metric.removeprefix(prefix) for metric in metrics]
        over.stackplot(numbers, curves, labels=labels, colors=SERIES, edgecolor=GROUND, lw=0.3)
        over.set(title=f"{name} over training", ylim=(0, 1))
        over.margins(x=0)
        over.legend(
            fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False, handlelength=1.2
        )
        _draw_bars(held_out, metrics, means)
        held_out.set_title(f"{name} on held-out tasks")
    unique = [step[UNIQUE] for step in steps]
    above[2].plot([step["step"] for step in steps], unique, color=SERIES[0])
    above[2].set(title="different tools of an episode", ylim=(0, max(unique) * 1.15 + 0.1))
    below[2].bar(list(means), [found.get(UNIQUE, 0.0) for found in means.values()], color=SERIES[0], width=0.5)
    below[2].set_title("different tools on held-out tasks")
    for panel in above:
        panel.set_xlabel("step", fontsize=9)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    for panel in (*above[:2], *below[:2]):
        panel.yaxis.set_major_formatter(PercentFormatter(1.0))
    for panel in (*above, *below):
        panel.title.set_fontsize(9)
        panel.tick_params(labelsize=8)
    write_whole(path, svg_of(figure, "calls"))


def _draw_bars(panel: Axes, metrics: Sequence[str], means: Mapping[str, Mapping[str, float]]) -> None:
    base = np.zeros(len(means))
    for number, metric in enumerate(metrics):
        shares = np.array([found.get(metric, 0.0) for found in means.values()])
        panel.bar(
            list(means), shares, bottom=base, color=SERIES[number % len(SERIES)], width=0.5, edgecolor=GROUND, lw=0.3
        )
        base += shares
    panel.set_ylim(0, 1)
