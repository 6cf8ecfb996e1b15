"""Tasks as the commands print them: a table, a summary, or one in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import msgspec
from rich.console import Group
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from toolorchestra.cli.display import key, numbers, plain_table
from toolorchestra.toolscale.task import Call, Task


def task_table(tasks: Iterable[Task]) -> Table:
    """Return tasks, one a line."""
    table = plain_table(key("task"), Column("split", no_wrap=True), *numbers("level", "calls"), "request")
    for task in tasks:
        request = Text(" ".join(task.instruction.split()), no_wrap=True, overflow="ellipsis")
        table.add_row(task.id, task.split, str(task.difficulty), str(len(task.reference_calls)), request)
    return table


def task_summary(tasks: Sequence[Task]) -> str:
    """Return how many tasks there are, by split and level, in one line."""
    splits = Counter(task.split for task in tasks)
    levels = Counter(task.difficulty for task in tasks)
    by_split = ", ".join(f"{split} {count:,}" for split, count in splits.items())
    by_level = ", ".join(f"{level}: {levels[level]:,}" for level in sorted(levels))
    intents = len({task.intent for task in tasks})
    return f"\n{len(tasks):,} tasks of {intents} intents ({by_split or 'none'}; by level {by_level or 'none'})."


def task_card(task: Task) -> Panel:
    """Return a task in full."""

    def heading(text: str) -> Text:
        return Text(f"\n{text}", style="bold")

    parts: list[Any] = [Text(task.instruction), heading("reference trajectory"), _trajectory(task.reference_calls)]
    for number, calls in enumerate(task.alternatives, 1):
        parts += [heading(f"alternative {number}"), _trajectory(calls)]
    if task.communicate:
        facts = "\n".join("  • " + " or ".join(options) for options in task.communicate)
        parts += [heading("the user must be told"), Text(facts)]
    parts += [heading("a right answer"), Text(f"  {task.answer}", style="green")]
    if task.parent is not None:
        parts.append(Text(f"\nevolved from {task.parent} by {task.operator}", style="dim"))
    title = f"{task.id} · {task.split} · difficulty {task.difficulty}"
    return Panel(Group(*parts), title=Text(title), title_align="left", border_style="cyan")


def _trajectory(calls: Iterable[Call]) -> Table:
    """Return the calls of a reference trajectory, stage by stage."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim", width=4)
    grid.add_column()
    for number, (_, stage) in enumerate(groupby(calls, key=lambda call: call.stage), 1):
        for position, call in enumerate(stage):
            grid.add_row("" if position else str(number), _call_text(call))
    return grid


def _call_text(call: Call) -> Text:
    arguments = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in call.arguments.items())
    return Text.assemble((call.name, "bold yellow"), f"({arguments})")
