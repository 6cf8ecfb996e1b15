"""Episodes as the commands print them: a transcript, the last turn, a table, or the summary of a rollout.

The transcripts themselves are made in `toolorchestra.envs.render`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from toolorchestra.cli.display import PLAIN_WIDTH, colored, key, numbers, plain_table
from toolorchestra.envs.episode import Episode
from toolorchestra.envs.render import episode_text, turn_text


def print_episode(console: Console, episode: Episode) -> None:
    """Print the transcript of an episode."""
    text = episode_text(episode, width=min(console.width, PLAIN_WIDTH), color=colored(console))
    console.file.write(text + "\n")


def print_turn(console: Console, episode: Episode) -> None:
    """Print the last turn of an episode for a player: results in full, rows as tables."""
    turn = episode.turns[-1]
    for record in turn.calls:
        console.print(Text.assemble((record.name, "bold yellow"), f"  {record.status}" if record.error else ""))
        result = _value(record.value) if record.error is None else Text(f"✗ {record.error}", style="red")
        console.print(Padding(result, (0, 2)))
    if episode.outcome is not None:
        width = min(console.width, PLAIN_WIDTH)
        console.file.write(turn_text(turn, episode, width=width, color=colored(console)) + "\n")


def _value(value: Any) -> RenderableType:
    """Return a result: rows as a table, an object as its fields, the rest as JSON."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        names = list(dict.fromkeys(name for row in value for name in row))
        columns = (Column(name, overflow="fold") for name in names)
        table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
        for row in value:
            table.add_row(*(_cell(row.get(name)) for name in names))
        return table
    if isinstance(value, dict):
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        for name, field in value.items():
            nested = isinstance(field, list) and field and isinstance(field[0], dict)
            grid.add_row(name, _value(field) if nested else _cell(field))
        return grid
    return _cell(value)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("–", style="dim")
    return Text(value if isinstance(value, str) else msgspec.json.encode(value).decode(), style="green")


def rules_card(rules: str) -> Panel:
    """Return the rules of a world; lines broken by the text are joined, to be wrapped at the terminal's width."""
    title, _, body = rules.partition("\n")
    body = re.sub(r"\n(?![-*\n])\s*", " ", body)
    return Panel(Text(f"{title}\n{body}"), title="where you are", title_align="left", style="dim")


def episode_table(episodes: Sequence[Episode]) -> Table:
    """Return recorded episodes, one a line."""
    table = plain_table(
        *numbers("n", style="dim"), key("task"), "outcome", *numbers("level", "turns", "calls", "cost", "clock")
    )
    for number, episode in enumerate(episodes, 1):
        style = {"solved": "green", "failed": "red"}.get(str(episode.outcome), "magenta")
        table.add_row(
            str(number),
            episode.task_id,
            Text(str(episode.outcome), style=style),
            str(episode.difficulty),
            str(len(episode.turns)),
            str(sum(1 for _ in episode.calls)),
            f"${episode.cost:.4f}",
            f"{episode.clock:.1f} s",
        )
    return table


def tally_text(summary: dict[str, Any], file: Path) -> Group:
    """Return the summary of a rollout."""
    low, high = summary["interval"]
    outcomes, episodes = summary["outcomes"], summary["episodes"]
    solved = outcomes.get("solved", 0)
    parts = [
        Text.assemble(
            (f"{summary['success']:.1%} solved", "bold green" if solved else "bold red"),
            f"  (95 % interval {low:.1%} to {high:.1%}; {solved:,} of {episodes:,} episodes)",
        )
    ]
    parts += [_level_bar(level, counts) for level, counts in summary["by_difficulty"].items()]
    means = f"{summary['turns']:.1f} turns, {summary['calls']:.1f} calls"
    parts.append(Text(f"  mean episode: {means}, ${summary['cost']:.4f}, {summary['clock']:.1f} s"))
    if others := {name: count for name, count in outcomes.items() if name not in ("solved", "failed")}:
        parts.append(Text(f"  not judged: {others}", style="magenta"))
    if usage := summary.get("model"):
        tokens = f"{usage.prompt_tokens:,} tokens read, {usage.completion_tokens:,} written"
        parts.append(Text(f"  model: {usage.calls:,} replies, {tokens}, ${usage.cost:.4f}"))
    parts.append(Text(f"  {file}", style="dim"))
    return Group(*parts)


def _level_bar(level: int, counts: dict[str, int]) -> Text:
    """Return how many tasks of a level were solved, with a bar."""
    share = counts["solved"] / counts["episodes"]
    width = round(24 * share)
    bar = Text.assemble(("█" * width, "green"), ("░" * (24 - width), "dim"))
    return Text.assemble(f"  level {level}  ", bar, f"  {share:6.1%}  {counts['solved']:,} of {counts['episodes']:,}")
