"""Plots of fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolorchestra.agents.experts.fit import Fit
from toolorchestra.toolscale.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_fit(fit: Fit) -> Figure:
    """Return the figure of a fit: observed accuracy with Wilson's intervals and what the fit predicts, by length.

    Raises:
        OptionError: Matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, PercentFormatter
    except ImportError:
        raise OptionError(
            "A plot needs matplotlib, which is not installed: pip install 'toolorchestra[train]'."
        ) from None
    subjects = sorted({cell.subject for cell in fit.cells})
    columns = min(4, len(subjects))
    lines = -(-len(subjects) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.8 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for axes in list(grid.flat)[len(subjects) :]:
        axes.set_visible(False)
    for subject, axes in zip(subjects, grid.flat, strict=False):
        cells = [cell for cell in fit.cells if cell.subject == subject]
        steps = [cell.steps for cell in cells]
        shares = [cell.right / cell.answers for cell in cells]
        ends = [
            [max(0.0, share - cell.interval[0]) for share, cell in zip(shares, cells, strict=True)],
            [max(0.0, cell.interval[1] - share) for share, cell in zip(shares, cells, strict=True)],
        ]
        axes.errorbar(steps, shares, yerr=ends, fmt="o", color="black", capsize=2, markersize=4, label="observed")
        axes.plot(steps, [cell.predicted for cell in cells], "-x", color="tab:red", label="predicted")
        axes.set_title(f"{subject} ({sum(cell.answers for cell in cells):,} answers)", fontsize="medium")
        axes.set_ylim(-0.03, 1.03)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    grid[0, 0].legend(fontsize="small")
    figure.supxlabel("steps of the problem")
    figure.supylabel("right answers")
    figure.suptitle(f"{fit.name}: observed and predicted accuracy")
    return figure
