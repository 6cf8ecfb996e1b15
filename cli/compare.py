"""The command `toolorchestra compare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from toolorchestra.cli.files import print_json, read_recorded
from toolorchestra.toolscale.errors import OptionError

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
        """Return what is printed; an `OptionError` if the two have no judged task in common."""
        ours, theirs = (_by_task(file) for file in (self.first, self.second))
        found = compare_means(ours, theirs)
        if found is None:
            raise OptionError(
                f"{self.first} and {self.second} have no judged task in common. Record both with the same --split and "
                "--seed, or with --episodes all."
            )
        return found


_Means = Mapping[str, Mapping[str, float]]
"""Means of the judged episodes of each task, by their names."""


def compare_means(ours: _Means, theirs: _Means) -> dict[str, Any] | None:
    """Return how two recordings compare; None if they have no judged task in common.

    A task counts once, with the mean of its judged episodes; differences are B - A, with a 95 % interval over tasks
    (paired bootstrap). `p` is that of the exact sign test: the chance that as many tasks or more change for one side if
    both are equally good (McNemar's exact test where every task has one episode in each).
    """
    from toolorchestra.algos.stats import paired_bootstrap, sign_test

    tasks = [task for task in ours if task in theirs]
    if not tasks:
        return None
    columns: dict[str, Any] = {}
    for name in ("success", "cost", "clock", "turns"):
        a, b = ([side[task][name] for task in tasks] for side in (ours, theirs))
        columns[name] = {
            "a": sum(a) / len(tasks),
            "b": sum(b) / len(tasks),
            "difference": paired_bootstrap(b, a)._asdict(),
        }
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


def _by_task(file: Path) -> dict[str, dict[str, float]]:
    """Return the means of the judged episodes of each task in a file."""
    found: dict[str, list[dict[str, float]]] = {}
    for one in read_recorded(file):
        if one.outcome in ("solved", "failed"):
            values = {"success": one.outcome == "solved", "cost": one.cost, "clock": one.clock, "turns": len(one.turns)}
            found.setdefault(one.task_id, []).append({name: float(value) for name, value in values.items()})
    return {
        task: {name: sum(one[name] for one in rows) / len(rows) for name in rows[0]} for task, rows in found.items()
    }
