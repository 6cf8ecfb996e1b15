"""What studies write: a page with tables and links to its figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolorchestra.algos.stats import Interval


def points(difference: Interval) -> str:
    """Return a difference of shares in points, with its interval."""
    estimate, low, high = (f"{100 * number:+.1f}" for number in difference)
    return f"{estimate} [{low}, {high}]"


def make_panels(count: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """Return a figure with panels side by side, each of this size in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def write_page(folder: Path, text: str, figures: Mapping[str, Any], salt: str) -> None:
    """Write ``study.md`` and its figures to a folder, the same bytes for the same study."""
    import matplotlib

    links = "\n".join(f"![{name}]({name}.svg)" for name in figures)
    (folder / "study.md").write_text(f"{text}\n{links}\n", encoding="utf-8")
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        for name, figure in figures.items():
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
