"""What a training run records and shows: metrics, TensorBoard, progress, curves, a closing table.

Not here: what is measured (the learners decide) and the statistics (`toolorchestra.algos.reporting.stats`).
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from toolorchestra.algos.activity import FIRST, Activity, Count
from toolorchestra.algos.reporting.stats import Interval, paired_difference, success_share
from toolorchestra.envs.records.render import VisibleConsole
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.writing import make_folder, whole_file, write_whole

Record = dict[str, Any]

SHOWN = {
    "success": "success {:.2f}",
    "reward": "reward {:.2f}",
    "loss": "loss {:.3f}",
    "cost": "${:.4f}",
    "kl": "KL {:.3f}",
    "tokens_per_second": "{:,.0f} tok/s",
    "memory": "{:.1f} GiB",
}
"""Metrics on the progress bar, in order; the loss only where there is no success to show."""

PANELS = {
    "loss": "loss",
    "reward": "mean reward",
    "kl": "KL to the reference",
    "cost": "cost of an episode (US$)",
    "turns": "turns of an episode",
    "tokens_per_second": "tokens per second",
}
"""Metrics with a panel of their own among the curves, and its title."""

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#8172b3")


def rename_previous_run(directory: Path) -> Path | None:
    """Move the folder of an earlier run out of the way; return where it is now (``grpo.1``, …), or None without one."""
    if not (directory / "metrics.jsonl").exists():
        return None
    number = next(n for n in count(1) if not directory.with_name(f"{directory.name}.{n}").exists())
    return directory.rename(directory.with_name(f"{directory.name}.{number}"))


class RunLog:
    """The record of one training run: ``metrics.jsonl`` in its folder, and all that is made from it.

    A line holds ``phase`` (``"sft"``, ``"grpo"``, …), ``step`` (counted within the phase), ``kind`` (``"train"``
    or ``"heldout"``) and the metrics. Lines are flushed as they are written.

    Args:
        directory: Folder of the run; made if it is not there. A new run replaces the metrics of an earlier one.
        resume: Phase and step of the checkpoint to continue from: later lines are cut off. None for a new run.
        tensorboard: Whether to write TensorBoard files too; they are rebuilt on resume, without duplicates.
        console: Where to show progress.
        silent: Whether to keep the records only, neither written nor shown: another process does that.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with RunLog(folder, tensorboard=False) as run:
    ...     run.log("grpo", 1, success=0.5, reward=0.5)
    ...     run.log("grpo", 2, success=0.75, reward=0.8)
    >>> with RunLog(folder, resume=("grpo", 1), tensorboard=False) as run:
    ...     run.records
    [{'phase': 'grpo', 'step': 1, 'kind': 'train', 'success': 0.5, 'reward': 0.5}]
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        resume: tuple[str, int] | None = None,
        tensorboard: bool = True,
        console: Console | None = None,
        silent: bool = False,
    ) -> None:
        self.directory, self.silent = Path(directory), silent
        self.console = console or VisibleConsole(quiet=silent)
        self._file = self.directory / "metrics.jsonl"
        self._tensorboard = tensorboard and not silent
        self._writers: dict[str, Any] = {}
        self._bar: _Bar | None = None
        self.records: list[Record] = [] if resume is None else _until(_read(self._file), *resume)
        if silent:
            return
        make_folder(self.directory)
        write_whole(self._file, b"".join(msgspec.json.encode(record) + b"\n" for record in self.records))
        self._stream = self._file.open("ab")
        if tensorboard:
            shutil.rmtree(self.directory / "tensorboard", ignore_errors=True)
            for record in self.records:
                self._to_tensorboard(record)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def log(self, phase: str, step: int, **metrics: float | None) -> None:
        """Write the metrics of a training step and show them on the progress bar; None and NaN are left out."""
        record = self._write(phase, step, "train", metrics)
        if self._bar is not None and self._bar.phase == phase:
            self._bar.update(step, record)

    def heldout(self, phase: str, step: int, outcomes: Sequence[float | None], **metrics: float | None) -> Interval:
        """Write the success on held-out tasks, 1 or 0 each (None: not judged, left out), with its 95 % interval.

        ``success_of_all`` counts what was not judged as not solved.
        """
        share = _success(outcomes)
        self._write(phase, step, "heldout", {**share, **metrics})
        return Interval(share["success"], share["low"], share["high"])

    @contextmanager
    def progress(
        self, phase: str, steps: int, done: int = 0, counted: str = "batches", ends: float = math.inf
    ) -> Iterator[None]:
        """Show a progress bar of a phase with so many steps, some done before; `log` moves it.

        What a step is, is shown as `counted`: batches of rollouts, if it is left out. If the run `ends` at a moment of
        the monotonic clock, the time that is left is shown too.

        On a console that is no terminal, print ten lines over the phase instead, or one for each batch of a run that
        ends, since nobody knows how many it will have.
        """
        self._bar = _Bar(self.console, phase, steps, done, counted, ends)
        try:
            with self._bar.bar:
                yield
        finally:
            self._bar = None

    def say(self, text: str) -> None:
        """Print a line, above the progress bar if there is one."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def watch(self, what: str, total: int, first: float = FIRST) -> Iterator[Count]:
        """Show how far something is while it lasts; yielded is what is called with the number of things done so far.

        What cannot be counted has a `total` of 0. Nothing is shown for the `first` seconds. On a console that is no
        terminal, lines are printed.
        """
        if self.silent:
            yield lambda done: None
        elif not self.console.is_terminal:

            def say(done: int, text: str) -> None:
                self.say(f"{what}: {done}/{total}, {text}" if total else f"{what}: {text}")

            with Activity(say, first=first) as activity:
                yield activity.count
        else:
            with nullcontext(self._bar.bar) if self._bar else _progress(self.console) as bar:
                task = bar.add_task(what, total=total or None, shown="", visible=False)

                def show(done: int, text: str) -> None:
                    bar.update(task, completed=done, shown=text, visible=True)

                try:
                    with Activity(show, FIRST, first) as activity:
                        yield activity.count
                finally:
                    bar.remove_task(task)

    def curves(self, references: Mapping[str, float] | None = None, title: str = "") -> Path:
        """Draw the curves of the run into ``curves.png`` in its folder and return the path; see `draw_curves`."""
        path = self.directory / "curves.png"
        if self.silent:
            return path
        with whole_file(path) as stream:
            draw_curves(self.records, references or {}, title).savefig(stream, format="png", dpi=150)
        return path

    def closing(self, results: Mapping[str, Sequence[float | None]], baseline: str = "SFT") -> None:
        """Show the closing table and write its numbers to ``summary.json``; see `closing_table`."""
        if self.silent:
            return
        rows = summary(results, baseline)
        write_whole(self.directory / "summary.json", msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
        self.console.print(closing_table(results, baseline))

    def close(self) -> None:
        """Close the files."""
        if not self.silent:
            self._stream.close()
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _write(self, phase: str, step: int, kind: str, metrics: Mapping[str, float | None]) -> Record:
        record: Record = {"phase": phase, "step": step, "kind": kind}
        if "kind" in metrics:
            raise OptionError("A metric cannot be called 'kind'; choose another name.")
        for name, value in metrics.items():
            if value is not None and math.isfinite(value):
                record[name] = int(value) if isinstance(value, int) else float(value)
        self.records.append(record)
        if self.silent:
            return record
        self._stream.write(msgspec.json.encode(record) + b"\n")
        self._stream.flush()
        if self._tensorboard:
            self._to_tensorboard(record)
        return record

    def _to_tensorboard(self, record: Record) -> None:
        phase = record["phase"]
        if phase not in self._writers:
            from torch.utils.tensorboard import SummaryWriter  # loads in a second, and not every run wants it

            self._writers[phase] = SummaryWriter(str(self.directory / "tensorboard" / phase))
        for name, value in _metrics(record).items():
            self._writers[phase].add_scalar(f"{record['kind']}/{name}", value, record["step"])


def _progress(console: Console, width: int = 3) -> Progress:
    """Return a display of bars; on a console that is no terminal, one that shows nothing."""
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=10, table_column=Column(min_width=10)),
        MofNCompleteColumn(table_column=Column(min_width=width)),
        TimeElapsedColumn(table_column=Column(min_width=7)),
        TextColumn("{task.fields[shown]}", table_column=Column(overflow="fold")),
        console=console,
        disable=not console.is_terminal,
    )


class _Bar:
    """A phase's progress bar; on a console that is no terminal, a line each tenth of it, or each step (`each`)."""

    def __init__(self, console: Console, phase: str, steps: int, done: int, counted: str, ends: float) -> None:
        self.phase, self.steps, self.done, self.ends = phase, steps, done, ends
        self.each = counted == "batches" and ends < math.inf
        self.name = f"{phase.upper()} {counted}"
        self.latest: dict[str, float] = {}
        self.bar = _progress(console, 2 * len(str(steps)) + 1)
        self.task = self.bar.add_task(self.name, total=steps, completed=done, shown="")

    def update(self, step: int, record: Record) -> None:
        """Move to ``step`` and show its metrics; one that it lacks keeps its last value."""
        self.latest |= _metrics(record)
        names = [name for name in SHOWN if name in self.latest and (name != "loss" or "success" not in self.latest)]
        shown = "  ".join(SHOWN[name].format(self.latest[name]) for name in names)
        if self.ends < math.inf:
            shown += f"  {max(0.0, self.ends - time.monotonic()) / 60:.1f} min left"
        self.bar.update(self.task, completed=step, shown=shown)
        tenth = 10 * step // self.steps > 10 * self.done // self.steps
        self.done = step
        if (tenth or self.each) and not self.bar.console.is_terminal:
            made = str(step) if self.each else f"{step}/{self.steps}"
            self.bar.console.print(f"{self.name} {made}  {shown}", highlight=False)


def closing_table(results: Mapping[str, Sequence[float | None]], baseline: str = "SFT") -> Table:
    """Return the table of held-out success by policy, with 95 % intervals.

    Args:
        results: For each policy, in the order of the rows, 1 or 0 for each held-out task in the same order; None
            where an error ended the episode.
        baseline: The policy that the last column compares the others with, task by task.
    """
    rows = summary(results, baseline)
    table = Table(title="Held-out success", caption="Brackets: 95 % intervals.", title_style="bold")
    table.add_column("policy")
    table.add_column("episodes", justify="right")
    table.add_column("success", justify="right", style="bold")
    table.add_column("interval", justify="center")
    unjudged = any(row["episodes"] < row["all_episodes"] for row in rows.values())
    if unjudged:
        table.add_column("of all", justify="right")
    if baseline in rows:
        table.add_column(f"against {baseline}", justify="right")
    for name, row in rows.items():
        low, high, compared = 100 * row["low"], 100 * row["high"], "–  "
        success = "–" if math.isnan(row["success"]) else f"{100 * row['success']:.1f} %"
        if gain := row.get("difference"):
            sure = " [green]▲[/]" if gain["low"] > 0 else " [red]▼[/]" if gain["high"] < 0 else "  "
            compared = Interval(**gain).points() + sure
        cells = [name, str(row["episodes"]), success, rf"\[{low:.1f}, {high:.1f}]"]
        if unjudged:
            cells.append(f"{100 * row['success_of_all']:.1f} %")
        table.add_row(*cells, *([compared] if baseline in rows else []))
    return table


def draw_curves(records: Sequence[Record], references: Mapping[str, float], title: str = "") -> Figure:
    """Return the figure of a run: success by phase with held-out marks, and a small panel per further metric.

    Lines show the held-out success of `references`, other policies such as random and oracle.
    """
    phases = list(dict.fromkeys(record["phase"] for record in records))
    colours = {phase: COLOURS[i % len(COLOURS)] for i, phase in enumerate(phases)}
    wide = [phase for phase in phases if any("success" in record for record in _of(records, phase))]
    small = [(phase, name) for name in PANELS for phase in phases if len(_points(records, phase, name)[0]) > 1]
    rows = math.ceil(len(small) / 4)
    heights = [4.2] * bool(wide) + [2.3 * rows] * bool(rows)
    figure = Figure(figsize=(11, (4.2 if wide else 0.4) + 2.3 * rows))
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=13, fontweight="bold")
    parts = iter(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False).flat if heights else ())
    if wide:
        part = next(parts)
        axes = part.subplots(1, len(wide), sharey=True, squeeze=False)[0]
        for ax, phase in zip(axes, wide, strict=True):
            _draw_success(ax, records, phase, colours[phase], references)
        axes[0].set_ylabel("success")
        drawn = dict(pair for ax in axes for pair in zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        part.legend(list(drawn.values()), list(drawn), loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    if rows:
        grid = next(parts).subplots(rows, min(4, len(small)), squeeze=False)
        for ax in grid.flat[len(small) :]:
            ax.set_axis_off()
        for ax, (phase, name) in zip(grid.flat, small, strict=False):
            _draw_line(ax, *_points(records, phase, name), colours[phase])
            ax.set_title(PANELS[name], fontsize=10)
            _dress(ax, phase)
    return figure


def _draw_success(
    ax: Axes, records: Sequence[Record], phase: str, colour: str, references: Mapping[str, float]
) -> None:
    steps, values = _points(records, phase, "success")
    if steps:
        _draw_line(ax, steps, values, colour, "training rollouts")
    held = [record for record in _of(records, phase, "heldout") if "success" in record]
    if held:
        at, share = ([record[name] for record in held] for name in ("step", "success"))
        below = [max(0.0, record["success"] - record["low"]) for record in held]  # at 0 and 1 rounding may put
        above = [max(0.0, record["high"] - record["success"]) for record in held]  # the bound on the wrong side
        style: dict[str, Any] = {"fmt": "o", "color": "#222222", "markersize": 5, "capsize": 3, "zorder": 4}
        ax.errorbar(at, share, yerr=[below, above], label="held-out tasks, 95 % interval", **style)
        ax.plot(at, share, color="#222222", linewidth=0.8, alpha=0.5)
        if best := [(record["step"], record["greedy"]) for record in held if "greedy" in record]:
            style = {"color": "#222222", "marker": "o", "markersize": 5, "markerfacecolor": "white"}
            ax.plot(*zip(*best, strict=True), linewidth=0.8, label="held-out tasks, greedy", **style)
        offset: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontweight": "bold"}
        ax.annotate(f"{share[-1]:.0%}", (at[-1], share[-1] + above[-1]), (0, 4), **offset)
    for name, value in references.items():
        ax.axhline(value, color="#777777", linestyle="--", linewidth=1)
        place, shift = ("bottom", 3) if value < 0.5 else ("top", -3)
        offset = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": place}
        ax.annotate(f"{name} {value:.0%}", (0.3, value), (0, shift), fontsize=9, color="#555555", **offset)
    ax.set_title(phase.upper(), fontsize=12, color=colour, fontweight="bold")
    ax.set_ylim(-0.02, 1.02)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    _dress(ax, phase)


def _draw_line(ax: Axes, steps: Sequence[int], values: Sequence[float], colour: str, label: str = "") -> None:
    """Draw a curve; a long one faintly, with its moving average over it."""
    if len(values) < 20:
        ax.plot(steps, values, color=colour, linewidth=1.8, label=label)
        return
    window = max(2, len(values) // 20)
    around = [values[max(0, i - window) : i + window + 1] for i in range(len(values))]
    ax.plot(steps, values, color=colour, linewidth=1.0, alpha=0.3)
    ax.plot(steps, [sum(part) / len(part) for part in around], color=colour, linewidth=2.0, label=label)


def _dress(ax: Axes, phase: str) -> None:
    ax.set_xlabel(f"{phase.upper()} step", fontsize=9)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=9)


def summary(results: Mapping[str, Sequence[float | None]], baseline: str) -> dict[str, dict[str, Any]]:
    """Return the numbers of the closing table, by policy; see `closing_table`."""
    rows: dict[str, dict[str, Any]] = {}
    theirs = results.get(baseline, ())
    for name, outcomes in results.items():
        rows[name] = _success(outcomes)
        if name != baseline and baseline in results:
            if len(outcomes) != len(theirs):
                raise OptionError(
                    f"{name!r} has {len(outcomes)} outcomes and {baseline!r} {len(theirs)}. Play both on "
                    "the same tasks, with None where an error ended the episode."
                )
            pairs = np.array([pair for pair in zip(outcomes, theirs, strict=True) if None not in pair]).reshape(-1, 2)
            rows[name]["difference"] = paired_difference(*pairs.T)._asdict()
    return rows


def _success(outcomes: Sequence[float | None]) -> dict[str, float]:
    """Return the success over the judged episodes, with its interval, and over all; and the number of both."""
    valid = [outcome for outcome in outcomes if outcome is not None]
    share = success_share(valid)
    return {
        "success": share.estimate,
        "low": share.low,
        "high": share.high,
        "episodes": len(valid),
        "success_of_all": sum(valid) / len(outcomes) if outcomes else math.nan,
        "all_episodes": len(outcomes),
    }


def _metrics(record: Record) -> dict[str, float]:
    return {name: value for name, value in record.items() if name not in ("phase", "step", "kind")}


def _of(records: Sequence[Record], phase: str, kind: str | None = None) -> list[Record]:
    return [r for r in records if r["phase"] == phase and kind in (None, r["kind"])]


def _points(records: Sequence[Record], phase: str, name: str) -> tuple[list[int], list[float]]:
    found = [record for record in _of(records, phase, "train") if name in record]
    return [record["step"] for record in found], [record[name] for record in found]


def _read(file: Path) -> list[Record]:
    """Return the records of a file; a last line that was cut short is left out."""
    if not file.exists():
        raise OptionError(f"There is no run to resume in {file.parent}: {file.name} is missing. Start a new run.")
    lines = file.read_bytes().split(b"\n")[:-1]
    return [msgspec.json.decode(line) for line in lines]


def _until(records: list[Record], phase: str, step: int) -> list[Record]:
    """Return the records up to a checkpoint: phases before it, and the steps of its own up to ``step``."""
    own = [i for i, record in enumerate(records) if record["phase"] == phase]
    end = next((i for i in own if records[i]["step"] > step), own[-1] + 1 if own else None)
    return records[:end]
