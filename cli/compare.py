"""The command `toolorchestra compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from tyro.conf import Positional, arg

from toolorchestra.cli.environments import environment
from toolorchestra.cli.files import print_json, read_recorded
from toolorchestra.cli.options import UsageError
from toolorchestra.toolscale.common.errors import OptionError

_SHOWN = 10


@dataclass
class CompareCommand:
    """Compare two recordings task by task; or report how policies withstood attacks."""

    files: Annotated[Positional[tuple[Path, ...]], arg(metavar="EPISODES")]
    """Two JSONL files of episodes, A and B, as `rollout` writes them; with --robustness one for each policy."""
    robustness: Annotated[Path | None, arg(metavar="TASKS")] = None
    """Report how the policies withstood the attacks of this file of tasks (`synth adversarial` makes one)."""
    json: bool = False
    """Print JSON: all tasks that differ, or the report."""

    def __post_init__(self) -> None:
        if self.robustness is None and len(self.files) != 2:
            raise UsageError(f"Expected two recordings to compare, got {len(self.files)}.")
        if not self.files:
            raise UsageError("Expected at least one file of episodes: toolorchestra rollout TASKS --split all …")

    def run(self) -> int:
        """Print success and cost on the tasks of both, their differences, and the tasks that differ most."""
        from toolorchestra.cli.display.console import show
        from toolorchestra.cli.display.episodes import comparison_text

        if self.robustness is not None:
            return self._print_robustness(self.robustness)
        found = _compare(*self.files)
        if self.json:
            return print_json(found)
        show(comparison_text(found, *self.files, shown=_SHOWN))
        return 0

    def _print_robustness(self, tasks: Path) -> int:
        from toolorchestra.cli.display.console import show
        from toolorchestra.cli.display.episodes import robustness_table
        from toolorchestra.envs.records.robustness import robustness

        source = environment(str(tasks)).source
        results = {file.stem: robustness(source, read_recorded(file)) for file in self.files}
        if self.json:
            extra = {name: {"share": found.share, "interval": found.interval} for name, found in results.items()}
            return print_json({name: msgspec.structs.asdict(results[name]) | extra[name] for name in results})
        show(robustness_table(results))
        return 0


def _compare(first: Path, second: Path) -> dict[str, Any]:
    """Return what is printed of two recordings; an `OptionError` if they have no judged task in common.

    ``success_of_all`` counts episodes that were not judged as not solved, on the tasks that both have recorded.
    """
    one, other = _read(first), _read(second)
    found = compare_means(_means(one.judged), _means(other.judged))
    if found is None:
        raise OptionError(
            f"{first} and {second} have no judged task in common. Record both with the same --split and "
            "--seed, or with --episodes all."
        )
    ours, theirs = _means(one.every), _means(other.every)
    found["success_of_all"] = _compared(ours, theirs, [task for task in ours if task in theirs], "success")
    for name in ("episodes", "judged"):
        rows = (one.every, other.every) if name == "episodes" else (one.judged, other.judged)
        found[name] = {side: sum(map(len, tasks.values())) for side, tasks in zip("ab", rows, strict=True)}
    return found


_Means = Mapping[str, Mapping[str, float]]
"""Means of the judged episodes of each task, by their names."""


def compare_means(ours: _Means, theirs: _Means) -> dict[str, Any] | None:
    """Return how two recordings compare; None if they have no judged task in common.

    A task counts once, with the mean of its judged episodes; differences are B - A, with a 95 % interval over tasks
    (paired bootstrap). `p` is that of the exact sign test: the chance that as many tasks or more change for one side if
    both are equally good (McNemar's exact test where every task has one episode in each).
    """
    from toolorchestra.algos.reporting.stats import sign_test

    tasks = [task for task in ours if task in theirs]
    if not tasks:
        return None
    columns = {name: _compared(ours, theirs, tasks, name) for name in ("success", "cost", "clock", "turns")}
    changes = {task: theirs[task]["success"] - ours[task]["success"] for task in tasks}
    better = sorted((task for task in tasks if changes[task] > 0), key=lambda task: -changes[task])
    worse = sorted((task for task in tasks if changes[task] < 0), key=lambda task: changes[task])
    return {
        "tasks": len(tasks),
        "only_a": len(ours) - len(tasks),
        "only_b": len(theirs) - len(tasks),
        **columns,
        "better": better,
        "worse": worse,
        "p": sign_test(len(better), len(worse)),
    }


def _compared(ours: _Means, theirs: _Means, tasks: Sequence[str], name: str) -> dict[str, Any]:
    """Return both means of a number over tasks, and their difference."""
    from toolorchestra.algos.reporting.stats import paired_bootstrap

    a, b = ([side[task][name] for task in tasks] for side in (ours, theirs))
    return {"a": sum(a) / len(tasks), "b": sum(b) / len(tasks), "difference": paired_bootstrap(b, a)._asdict()}


_Rows = dict[str, list[dict[str, float]]]
"""Numbers of episodes, by task."""


class _Recorded(NamedTuple):
    """The episodes of a recording that were judged, and all of them, of which only the success is known."""

    judged: _Rows
    every: _Rows


def _read(file: Path) -> _Recorded:
    found = _Recorded({}, {})
    for one in read_recorded(file):
        success = {"success": float(one.outcome == "solved")}
        found.every.setdefault(one.task_id, []).append(success)
        if one.outcome in ("solved", "failed"):
            values = success | {"cost": one.cost, "clock": one.clock, "turns": float(len(one.turns))}
            found.judged.setdefault(one.task_id, []).append(values)
    return found


def _means(rows: _Rows) -> dict[str, dict[str, float]]:
    """Return the means of each task."""
    return {task: {name: sum(one[name] for one in of) / len(of) for name in of[0]} for task, of in rows.items()}
