"""How the commands print: the console, progress bars, and tables, with rich."""

from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from toolorchestra.envs.records.render import VisibleConsole
from toolorchestra.toolscale.common.visible import visible

PLAIN_WIDTH = 120
"""Columns when the output is no terminal."""


def stdout_console() -> Console:
    """Return a console on standard output: as wide as the terminal, or fixed when there is none."""
    console = VisibleConsole(highlight=False)
    return console if console.is_terminal else VisibleConsole(highlight=False, width=PLAIN_WIDTH)


def show(*what: RenderableType, style: str | None = None) -> None:
    """Print on standard output; text is not wrapped, and its brackets are no markup."""
    console = stdout_console()
    for one in what:
        console.print(one, style=style, markup=False, soft_wrap=isinstance(one, str))


def colored(console: Console) -> bool:
    """Return whether what is written to a console may have colours."""
    return console.is_terminal and not console.no_color


def progress_bars() -> Progress:
    """Return a progress display on standard error, if that is a terminal."""
    console = VisibleConsole(stderr=True)
    return Progress(
        TextColumn("{task.description:12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not console.is_terminal,
    )


def plain_table(*columns: Column | str, rows: Iterable[Iterable[RenderableType]] = ()) -> Table:
    """Return a table without lines."""
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(visible(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def key(name: str) -> Column:
    """Return a column of names, which are not wrapped."""
    return Column(name, style="cyan", no_wrap=True)


def numbers(*names: str, style: str = "") -> list[Column]:
    """Return columns of numbers."""
    return [Column(name, justify="right", style=style) for name in names]
