"""What `synth` prints: progress, what the filters dropped, and the tasks and pairs that were made."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from toolorchestra.cli.display.console import key, numbers, plain_table
from toolorchestra.envs.records.render import VisibleConsole
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.synth.draft import is_untouched
from toolorchestra.toolscale.synth.tables.names_file import look_foreign, read_names
from toolorchestra.toolscale.synth.tables.notes import NOTE_TITLES

if TYPE_CHECKING:
    from toolorchestra.toolscale.generate import Generated
    from toolorchestra.toolscale.preferences import PreferencePair
    from toolorchestra.toolscale.requests.filters import Report
    from toolorchestra.toolscale.synth.model_queries import StageCount
    from toolorchestra.toolscale.synth.tables.notes import Notes


_NOTES_SHOWN, _NOTE_LENGTH = 5, 230
"""Notes of one kind that are printed, and most characters of one."""


@contextmanager
def synthesis_progress() -> Iterator[Callable[[Sequence[StageCount]], None]]:
    """Show a table of the stages on standard error; yield what updates it."""
    with Live(console=VisibleConsole(stderr=True), refresh_per_second=4) as live:
        yield lambda counts: live.update(synthesis_table(counts))


def synthesis_table(counts: Sequence[StageCount]) -> Table:
    """Return how far a synthesis by a model is: a line for each stage so far, and their sums."""
    table = plain_table(
        key("stage"), *numbers("done", "of", "new", "stored", "repaired", "dropped", "tokens in", "tokens out", "cost")
    )
    figures = attrgetter(
        "settled", "matters", "answered", "cached", "repaired", "dropped", "prompt_tokens", "completion_tokens", "cost"
    )
    rows = [figures(count) for count in counts]
    names = [count.stage for count in counts]
    if len(rows) > 1:
        names.append("all")
        rows.append(tuple(map(sum, zip(*rows, strict=True))))
    for name, (*whole, cost) in zip(names, rows, strict=True):
        table.add_row(name, *(f"{figure:,}" for figure in whole), f"${cost:.4f}")
    return table


def print_notes(console: Console, notes: Notes) -> None:
    """Print what a domain does not have as its database has it: how much of each kind, and the first of it."""
    for kind, title in NOTE_TITLES.items():
        if found := notes.of(kind):
            console.print(Text(f"{title}: {len(found):,}", style="bold"))
            for note in found[:_NOTES_SHOWN]:
                console.print(Text(visible(f"  {shorten(note, _NOTE_LENGTH, placeholder=' …')}")))
    if notes:
        console.print(Text("All of it stands at the top of domain.yaml.\n", style="dim"))


def print_suggestion(console: Console, names: Path) -> None:
    """Print how to give other names, where those of a database do not look English that are in the file `names`."""
    if is_untouched(names) and look_foreign(read_names(names)):
        file = shlex.quote(str(names))
        ways = f"Edit {file}, and run the same command with --names {file}, or with --llm BASE_URL --model NAME."
        text = f"\nThe names do not look English, but the tasks are. {ways}"
        console.print(text, style="yellow", markup=False, soft_wrap=True)


def filter_table(report: Report) -> Group:
    """Return what each filter that dropped something kept and dropped, and which dropped nothing or did not run."""
    table = plain_table("stage", "filter", *numbers("kept", "dropped"), "e.g.")
    idle: list[str] = []
    for stage in report.stages:
        name = stage.name
        for one in stage.filters:
            if one.dropped:
                example = visible(one.examples[0]) if one.examples else ""
                shown = Text(example, no_wrap=True, overflow="ellipsis", style="dim")
                table.add_row(name, Text(one.name), f"{one.kept:,}", f"{one.dropped:,}", shown)
                name = ""
            elif one.name not in idle:
                idle.append(one.name)
    nothing = [Text(f"dropped nothing: {', '.join(idle)}", style="dim")] if idle else []
    did_not = (Text(f"{one.name} did not run: {one.why}", style="yellow") for one in report.not_run)
    return Group(*([table] if table.rows else []), *nothing, *did_not)


def generated_table(found: Generated) -> Table:
    """Return how many tasks were generated, by domain, operator and split."""
    table = plain_table("", *numbers("tasks"))
    operators = {"as posed" if name == "none" else f"evolved: {name}": n for name, n in found.operators.items()}
    for title, counts in (("domains", found.domains), ("tasks", operators), ("splits", found.splits)):
        if counts:
            table.add_row(Text(title, style="bold"), "")
        for name, count in counts.items():
            table.add_row(f"  {name}", f"{count:,}")
    return table


def pairs_table(pairs: Sequence[PreferencePair], limit: int = 10) -> Table:
    """Return the first preference pairs: the weights of what is rewarded, and the instruction that says so."""
    table = plain_table("split", Column("rewarded", style="cyan", ratio=2), Column("instruction", ratio=3))
    for pair in pairs[:limit]:
        rewarded = [f"{name} {weight:g}" for name, weight in pair.rewarded.items()]
        shown = ", ".join(rewarded if len(rewarded) < 6 else [*rewarded[:5], f"and {len(rewarded) - 5} more"])
        table.add_row(pair.split, shown, Text(visible(pair.instruction)))
    return table
