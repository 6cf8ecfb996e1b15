"""The result of fitting an expert to answers: estimates with intervals, a catalogue entry made of them, and a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from toolorchestra.agents.chat.base import Price
from toolorchestra.agents.experts.specification import ExpertSpec, Latency
from toolorchestra.toolscale.common.errors import OptionError, install_line
from toolorchestra.toolscale.common.svg_themes import SERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Z95 = 1.96
UNKNOWN_EXPERT = ExpertSpec(
    provider="unknown",
    roles=("generalist",),
    price=Price(),
    latency=Latency(1.0),
    context=131_072,
    skills={"other": 0.5},
    sources={"price": "unknown", "context": "assumed"},
)
"""The entry that is assumed of an expert of which only answers are known."""


class Estimate(msgspec.Struct, frozen=True):
    """A figure with the ends of its 95 % interval, estimated from answers or (not `fitted`) taken as given."""

    value: float
    low: float
    high: float
    fitted: bool = True

    @classmethod
    def given(cls, value: float) -> Estimate:
        """Return a figure that the answers do not determine."""
        return cls(value, value, value, fitted=False)

    @classmethod
    def about(cls, value: float, error: float) -> Estimate:
        """Return a figure that is at least 0, with its standard error."""
        return cls(float(value), float(max(0.0, value - Z95 * error)), float(value + Z95 * error))


class SkillCell(msgspec.Struct, frozen=True):
    """The numbers of right and of all answers to problems of one subject and length, and the predicted share.

    The interval is Wilson's 95 % interval of the observed share, as if answers were independent.
    """

    subject: str
    steps: int
    right: int
    answers: int
    predicted: float
    interval: tuple[float, float]


class Fit(msgspec.Struct, frozen=True):
    """The fit of an expert to its answers.

    Attributes:
        name: The expert.
        answers: Answers that were used.
        problems: Problems that they answer.
        estimates: Every figure, by the path of its field in a catalogue (``skills.math``, ``load``, ``tokens.spread``),
            and ``shared_noise``.
        log_likelihood: Of the right and wrong answers.
        cells: Observed and predicted shares.
        remarks: What could not be estimated, and why.
    """

    name: str
    answers: int
    problems: int
    estimates: dict[str, Estimate]
    log_likelihood: float
    cells: list[SkillCell]
    remarks: list[str]

    def spec(self, base: ExpertSpec | None = None) -> ExpertSpec:
        """Return `base` with the fitted figures and their sources."""
        base = base or UNKNOWN_EXPERT
        found = {path: one for path, one in self.estimates.items() if one.fitted and path != "shared_noise"}
        values = {path: float(f"{one.value:.4g}") for path, one in found.items()}

        def inner(field: str) -> dict[str, float]:
            return {path.removeprefix(f"{field}."): v for path, v in values.items() if path.startswith(f"{field}.")}

        latency = inner("latency")
        by_role = {path.removeprefix("by_role."): latency.pop(path) for path in list(latency) if "." in path}
        source = f"fitted to {self.answers:,} answers to {self.problems:,} problems"
        kept = {
            field: text
            for field, text in base.sources.items()
            if not any(path == field or path.startswith(f"{field}.") for path in found)
        }
        skills = inner("skills")
        if base is UNKNOWN_EXPERT:
            skills.setdefault("other", min(skills.values()))
        return msgspec.structs.replace(
            base,
            skills=base.skills | skills,
            tokens=msgspec.structs.replace(base.tokens, **inner("tokens")),
            latency=msgspec.structs.replace(base.latency, **latency, by_role=base.latency.by_role | by_role),
            **{field: values[field] for field in ("load", "deceived", "own_noise") if field in values},
            sources=kept | dict.fromkeys(found, source),
        )

    def entry(self, base: ExpertSpec | None = None, *, new: bool = False) -> dict[str, Any]:
        """Return the expert's entry for a catalogue file: what changes in `base`, or all fields.

        Args:
            base: Its entry so far; None returns all fields.
            new: Return all fields, since `base` is the entry of another expert.
        """
        fitted: dict[str, Any] = msgspec.to_builtins(self.spec(base))
        return _changes({} if base is None or new else msgspec.to_builtins(base), fitted)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are new or different, recursively."""
    found = {}
    for key, value in after.items():
        if isinstance(value, dict) and isinstance(before.get(key), dict):
            if inner := _changes(before[key], value):
                found[key] = inner
        elif key not in before or before[key] != value:
            found[key] = value
    return found


def plot_fit(fit: Fit) -> Figure:
    """Return a figure of observed accuracy with Wilson's intervals and predicted accuracy, by length.

    `OptionError` if Matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, PercentFormatter
    except ImportError:
        raise OptionError(f"A plot needs matplotlib, which is not installed: {install_line('fit')}.") from None
    subjects = sorted({cell.subject for cell in fit.cells})
    columns = min(4, len(subjects))
    lines = -(-len(subjects) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.8 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for axes in list(grid.flat)[len(subjects) :]:
        axes.set_visible(False)
    for subject, axes in zip(subjects, grid.flat, strict=False):
        _plot_subject(axes, subject, [cell for cell in fit.cells if cell.subject == subject])
        axes.set_ylim(-0.03, 1.03)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper right", fontsize="small", frameon=False)
    figure.supxlabel("steps of the problem")
    figure.supylabel("right answers")
    figure.suptitle(f"{fit.name}: observed and predicted accuracy")
    return figure


def _plot_subject(axes: Any, subject: str, cells: Sequence[SkillCell]) -> None:
    steps = [cell.steps for cell in cells]
    shares = [cell.right / cell.answers for cell in cells]
    below = [max(0.0, share - cell.interval[0]) for share, cell in zip(shares, cells, strict=True)]
    above = [max(0.0, cell.interval[1] - share) for share, cell in zip(shares, cells, strict=True)]
    axes.errorbar(steps, shares, yerr=[below, above], fmt="o", color="black", capsize=2, markersize=4, label="observed")
    axes.plot(steps, [cell.predicted for cell in cells], "-x", color=SERIES[1], label="predicted")
    axes.set_title(f"{subject} ({sum(cell.answers for cell in cells):,} answers)", fontsize="medium")
