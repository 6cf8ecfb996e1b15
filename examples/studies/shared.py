"""What the studies share: episodes of each task, Markdown tables, and a page with its figures."""

from __future__ import annotations

import csv
import io
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.algos.hardware.parent import PARENT
from toolorchestra.algos.reporting.stats import Interval
from toolorchestra.toolscale.common.errors import OutputError, ResumableError
from toolorchestra.toolscale.common.svg_themes import svg_of
from toolorchestra.toolscale.common.writing import make_folder, write_whole, writing
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.workers.units import Executor, InProcess, Unit

Part = TypeVar("Part")
Tick = Callable[[], object]
"""Called after each episode, to move a progress bar."""


def no_tick() -> None:
    """Move no progress bar: what workers are given."""


def done_parts(
    executor: Executor,
    parts: Iterable[tuple[Callable[..., Part], tuple[Any, ...]]],
    episodes: Callable[[Part], int],
    tick: Tick,
) -> Iterator[Part]:
    """Yield what each function returns for its arguments and, as its last one, a tick; done by an executor's workers.

    Workers cannot move the bar of this process: `tick` is then called here, so often as the result has `episodes`.
    """
    here = isinstance(executor, InProcess)
    given = tick if here else no_tick
    units = (
        Unit((function.__module__, *arguments[:4]), function, (*arguments, given)) for function, arguments in parts
    )
    for found in executor.run(units):
        for _ in range(0 if here else episodes(found)):
            tick()
        yield found


def play_tasks(
    env: Any,
    tasks: Iterable[Task],
    samples: int,
    policy: Callable[[], Policy],
    measure: Callable[[], Sequence[float]],
    tick: Tick = lambda: None,
) -> list[list[float]]:
    """Play each task so many times, each with its own seed, and return a list for each number that `measure` returns.

    Such a list has the mean over the samples of each task; `measure` is called after each episode.
    """
    means = []
    for task in tasks:
        measured = []
        for sample in range(samples):
            play_episode(env, policy(), seed=sample, options={"task_id": task.id})
            measured.append(measure())
            tick()
        means.append(np.mean(measured, axis=0, dtype=float).tolist())
    return list(map(list, zip(*means, strict=True)))


def run_learner(module: str, options: Sequence[str], output: Path) -> None:
    """Run the learner of this module in a process of its own; what it prints is kept beside its folder `output`.

    Raises:
        OutputError: The folder cannot be written.
        ResumableError: The training failed.
    """
    file = output.with_suffix(".log")
    try:
        with writing(make_folder(output.parent)), file.open("w") as log:
            command = [sys.executable, "-m", f"toolorchestra.algos.{module}", *options]
            environment = {**os.environ, PARENT: str(os.getpid())}
            subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT, env=environment)
    except subprocess.CalledProcessError as error:
        last_line = file.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        kind = OutputError if error.returncode == 4 else ResumableError
        message = f"The training {output.name} ended with status {error.returncode}: {last_line} (all of it: {file})"
        raise kind(message) from None


def table(columns: Sequence[str], alignment: str, rows: Iterable[Sequence[str]]) -> list[str]:
    """Return an empty line and those of a Markdown table; `alignment` has ``l`` or ``r`` for each column.

    >>> table(("model", "right"), "lr", [("weak", "12")])
    ['', '| model | right |', '|---|--:|', '| weak | 12 |']
    """
    line = "|" + "".join("--:|" if side == "r" else "---|" for side in alignment)
    head, *body = ("|" + "".join(f" {cell} |" if cell else " |" for cell in cells) for cells in (columns, *rows))
    return ["", head, line, *body]


def expected_table(unit: str, differences: Mapping[str, Interval], factor: Callable[[str], int]) -> list[str]:
    """Return the table of differences that a paper expects above 0, each multiplied by a factor for its name."""
    rows = []
    for name, difference in differences.items():
        estimate, low, high = (f"{factor(name) * number:+.1f}" for number in difference)
        rows.append((name, estimate, f"[{low}, {high}]"))
    return table(("expected above 0", unit, "95 % interval"), "lrl", rows)


def make_panels(count: int, width: float, height: float, columns: int = 3) -> tuple[Any, list[Any]]:
    """Return a figure with panels of this size in inches, in rows as wide as a page."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[count:]:
        panel.set_axis_off()
    return figure, panels[:count]


def legend_below(figure: Any, panel: Any, columns: int = 3) -> None:
    """Put the legend of a panel below all panels, where it covers no data."""
    figure.legend(
        *panel.get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize="small", frameon=False
    )


def write_page(
    folder: Path, rows: Sequence[Mapping[str, object]], text: str, figures: Mapping[str, Any], salt: str
) -> None:
    """Write ``study.csv``, ``study.md`` and its figures to a folder, the same bytes for the same study."""
    lines = io.StringIO(newline="")
    writer = csv.DictWriter(lines, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    write_whole(folder / "study.csv", lines.getvalue())
    links = "\n".join(f"![{name}]({name}.svg)" for name in figures)
    for name, figure in figures.items():
        write_whole(folder / f"{name}.svg", svg_of(figure, salt))
    write_whole(folder / "study.md", f"{text}\n{links}\n")
