"""The command `toolorchestra compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from tyro.conf import Positional, arg

from toolorchestra.cli.files import print_json, read_recorded
from toolorchestra.toolscale.common.errors import OptionError

_SHOWN = 10


@dataclass
class CompareCommand:
    """Compare two recordings task by task."""

    first: Annotated[Positional[Path], arg(metavar="A")]
    """JSONL file of episodes, as `rollout` writes it."""
    second: Annotated[Positional[Path], arg(metavar="B")]
    """The other one, with the same tasks or some of them."""
    json: bool = False
    """Print JSON, with all tasks that differ."""

    def run(self) -> int:
        """Print success and cost on the tasks of both, their differences, and the tasks that differ most."""
        from toolorchestra.cli.display import show
        from toolorchestra.cli.display_episodes import comparison_text

        found = self.compare()
        if self.json:
            return print_json(found)
        show(comparison_text(found, self.first, self.second, shown=_SHOWN))
        return 0

    def compare(self) -> dict[str, Any]:
        """Return what is printed; an `OptionError` if the two have no judged task in common.

        ``success_of_all`` counts episodes that were not judged as not solved, on the tasks that both have recorded.
        """
        one, other = _read(self.first), _read(self.second)
        found = compare_means(_means(one.judged), _means(other.judged))
        if found is None:
            raise OptionError(
                f"{self.first} and {self.second} have no judged task in common. Record both with the same --split and "
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
