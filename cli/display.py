"""What the command line shows: tables, cards and summaries, drawn with rich.

Transcripts of episodes are `toolorchestra.envs.render`'s.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from toolorchestra.envs.checks.report import CheckReport
from toolorchestra.envs.episode import Episode
from toolorchestra.envs.render import episode_text, turn_text
from toolorchestra.envs.robustness import RobustnessScore
from toolorchestra.toolscale.adversarial import PAPER_SHARES, PAPER_SIZE
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_statistics import Statistics, figures
from toolorchestra.toolscale.preferences import PreferencePair
from toolorchestra.toolscale.sql import quote
from toolorchestra.toolscale.task import Call, Task

if TYPE_CHECKING:
    from toolorchestra.toolscale.filters import Report
    from toolorchestra.toolscale.generate import Generated
    from toolorchestra.toolscale.synth.model_queries import StageCount

PLAIN_WIDTH = 120
"""Columns when the output is no terminal."""

_SIDE_BY_SIDE = 3
_RIGHT: dict[str, Any] = {"justify": "right"}


def stdout_console() -> Console:
    """Return a console on standard output: as wide as the terminal, or fixed when there is none."""
    console = Console(highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def colored(console: Console) -> bool:
    """Return whether what is written to a console may have colours."""
    return console.is_terminal and not console.no_color


def progress_bars(*, transient: bool = False) -> Progress:
    """Return a progress display on standard error; nothing is shown when that is no terminal.

    Args:
        transient: Whether it vanishes at the end.
    """
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description:12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not console.is_terminal,
        transient=transient,
    )


def print_episode(console: Console, episode: Episode) -> None:
    """Print the transcript of an episode."""
    how: dict[str, Any] = {"width": min(console.width, PLAIN_WIDTH), "color": colored(console)}
    text = episode_text(episode, **how)
    console.file.write(text + "\n")


def print_turn(console: Console, episode: Episode) -> None:
    """Print the last turn of an episode as a player wants it: results in full, rows as tables."""
    turn = episode.turns[-1]
    for record in turn.calls:
        console.print(Text.assemble((record.name, "bold yellow"), f"  {record.status}" if record.error else ""))
        if record.error is not None:
            console.print(Padding(Text(f"✗ {record.error}", style="red"), (0, 2)))
        else:
            console.print(Padding(_value(record.value), (0, 2)))
    if episode.outcome is not None:
        width = min(console.width, PLAIN_WIDTH)
        console.file.write(turn_text(turn, episode, width=width, color=colored(console)) + "\n")


def _value(value: Any) -> RenderableType:
    """Return a result: rows as a table, an object as its fields, the rest as JSON."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
        for name in (names := list(dict.fromkeys(name for row in value for name in row))):
            table.add_column(name, overflow="fold")
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


def place_card(rules: str) -> Panel:
    """Return what a player must know of the place, its lines as long as the terminal has room for."""
    title, _, body = rules.partition("\n")
    body = re.sub(r"\n(?![-*\n])\s*", " ", body)
    return Panel(Text(f"{title}\n{body}"), title="where you are", title_align="left", style="dim")


def environment_table(rows: Iterable[Mapping[str, str | int]]) -> Table:
    """Return the list of environments; each row has the id, protocol, source, agents, tools, entries, tasks."""
    table = _table()
    table.add_column("environment", style="cyan", no_wrap=True)
    for name in ("protocol", "source"):
        table.add_column(name)
    for name in ("agents", "tools", "entries", "tasks"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else value for value in row.values()))
    return table


def statistics_tables(facts: Sequence[Statistics]) -> Group:
    """Return the figures of domains, a column each, so many side by side as a terminal has room for."""
    tables: list[Table] = []
    for start in range(0, len(facts), _SIDE_BY_SIDE):
        some = facts[start : start + _SIDE_BY_SIDE]
        table = _table()
        table.add_column("")
        for fact in some:
            table.add_column(fact.domain, justify="right", style="cyan", no_wrap=True)
        columns = [figures(fact) for fact in some]
        for name in columns[0]:
            table.add_row(name, *(column[name] for column in columns))
        tables.append(table)
    return Group(*(part for table in tables for part in (table, Text())))


def synthesis_table(counts: Sequence[StageCount]) -> Table:
    """Return how far a synthesis by a model is: a line for each stage so far, and their sums."""
    table = _table()
    table.add_column("stage", style="cyan", no_wrap=True)
    for name in ("done", "of", "asked", "stored", "repaired", "dropped", "tokens in", "tokens out", "cost"):
        table.add_column(name, justify="right")
    figures = [
        (c.settled, c.matters, c.asked, c.cached, c.repaired, c.dropped, c.prompt_tokens, c.completion_tokens, c.cost)
        for c in counts
    ]
    names = [count.stage for count in counts]
    if len(figures) > 1:
        names.append("all")
        figures.append(tuple(map(sum, zip(*figures, strict=True))))  # type: ignore[arg-type]  # nine columns again
    for name, (*numbers, cost) in zip(names, figures, strict=True):
        table.add_row(name, *(f"{number:,}" for number in numbers), f"${cost:.4f}")
    return table


def filter_table(report: Report) -> Group:
    """Return what each filter of each stage kept and dropped, and the filters that did not run."""
    table = _table()
    for name, options in (("stage", {}), ("filter", {}), ("kept", _RIGHT), ("dropped", _RIGHT), ("e.g.", {})):
        table.add_column(name, **options)
    for stage in report.stages:
        for number, one in enumerate(stage.filters):
            example = Text(one.examples[0] if one.examples else "", no_wrap=True, overflow="ellipsis", style="dim")
            shown = f"{one.dropped:,}" if one.dropped else "-"
            table.add_row("" if number else stage.name, Text(one.name), f"{one.kept:,}", shown, example)
    return Group(table, *(Text(f"{one.name} did not run: {one.why}", style="yellow") for one in report.not_run))


def generated_table(found: Generated) -> Table:
    """Return how many tasks were generated, by domain, operator and split."""
    table = _table()
    for name, options in (("", {}), ("tasks", _RIGHT)):
        table.add_column(name, **options)
    operators = {"as posed" if name == "none" else f"evolved: {name}": n for name, n in found.operators.items()}
    for title, counts in (("domains", found.domains), ("tasks", operators), ("splits", found.splits)):
        for number, (name, count) in enumerate(counts.items()):
            if number == 0:
                table.add_row(Text(title, style="bold"), "")
            table.add_row(f"  {name}", f"{count:,}")
    return table


def task_table(tasks: Iterable[Task]) -> Table:
    """Return tasks, one a line."""
    table = _table()
    table.add_column("task", style="cyan", no_wrap=True)
    table.add_column("split", no_wrap=True)
    for name in ("level", "calls"):
        table.add_column(name, justify="right")
    table.add_column("request")
    for task in tasks:
        request = Text(" ".join(task.instruction.split()), no_wrap=True, overflow="ellipsis")
        table.add_row(task.id, task.split, str(task.difficulty), str(len(task.reference_calls)), request)
    return table


def _table(**options: Any) -> Table:
    return Table(box=None, pad_edge=False, header_style="bold", **options)


def _call_text(call: Call) -> Text:
    arguments = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in call.arguments.items())
    return Text.assemble((call.name, "bold yellow"), f"({arguments})")


def _path(calls: Iterable[Call]) -> Table:
    """Return a reference trajectory, stage by stage."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim", width=4)
    grid.add_column()
    for number, (_, stage) in enumerate(groupby(calls, key=lambda call: call.stage), 1):
        for position, call in enumerate(stage):
            grid.add_row("" if position else str(number), _call_text(call))
    return grid


def task_card(task: Task) -> Panel:
    """Return a task in full."""
    parts: list[Any] = [
        Text(task.instruction),
        Text("\nreference trajectory", style="bold"),
        _path(task.reference_calls),
    ]
    for number, path in enumerate(task.alternatives, 1):
        parts += [Text(f"\nalternative {number}", style="bold"), _path(path)]
    if task.communicate:
        told = "\n".join("  • " + " or ".join(options) for options in task.communicate)
        parts += [Text("\nthe user must be told", style="bold"), Text(told)]
    parts += [Text("\na right answer", style="bold"), Text(f"  {task.answer}", style="green")]
    if task.parent is not None:
        parts.append(Text(f"\nevolved from {task.parent} by {task.operator}", style="dim"))
    title = f"{task.id} · {task.split} · difficulty {task.difficulty}"
    return Panel(Group(*parts), title=Text(title), title_align="left", border_style="cyan")


def task_summary(tasks: Sequence[Task]) -> str:
    """Return how many tasks there are, by split and level, in one line."""
    splits = Counter(task.split for task in tasks)
    levels = Counter(task.difficulty for task in tasks)
    by_split = ", ".join(f"{split} {count:,}" for split, count in splits.items())
    by_level = ", ".join(f"{level}: {levels[level]:,}" for level in sorted(levels))
    intents = len({task.intent for task in tasks})
    return f"\n{len(tasks):,} tasks of {intents} intents ({by_split or 'none'}; by level {by_level or 'none'})."


def episode_table(episodes: Sequence[Episode]) -> Table:
    """Return recorded episodes, one a line."""
    table = _table()
    table.add_column("n", justify="right", style="dim")
    table.add_column("task", style="cyan", no_wrap=True)
    table.add_column("outcome")
    for name in ("level", "turns", "calls", "cost", "clock"):
        table.add_column(name, justify="right")
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
    """Return a rollout's summary as a person reads it."""
    low, high = summary["interval"]
    solved, episodes = summary["outcomes"].get("solved", 0), summary["episodes"]
    line = Text.assemble(
        (f"{summary['success']:.1%} solved", "bold green" if solved else "bold red"),
        f"  (95 % interval {low:.1%} to {high:.1%}; {solved:,} of {episodes:,} episodes)",
    )
    parts: list[Any] = [line]
    for level, counts in summary["by_difficulty"].items():
        share = counts["solved"] / counts["episodes"]
        width = round(24 * share)
        bar = Text.assemble(("█" * width, "green"), ("░" * (24 - width), "dim"))
        parts.append(
            Text.assemble(f"  level {level}  ", bar, f"  {share:6.1%}  {counts['solved']:,} of {counts['episodes']:,}")
        )
    means = (
        f"{summary['turns']:.1f} turns, {summary['calls']:.1f} calls, ${summary['cost']:.4f}, {summary['clock']:.1f} s"
    )
    parts.append(Text(f"  mean episode: {means}"))
    if others := {name: count for name, count in summary["outcomes"].items() if name not in ("solved", "failed")}:
        parts.append(Text(f"  not judged: {others}", style="magenta"))
    if usage := summary.get("model"):
        parts.append(
            Text(
                f"  model: {usage.calls:,} replies, {usage.prompt_tokens:,} tokens read, "
                f"{usage.completion_tokens:,} written, ${usage.cost:.4f}"
            )
        )
    parts.append(Text(f"  {file}", style="dim"))
    return Group(*parts)


def pairs_table(pairs: Sequence[PreferencePair], limit: int = 10) -> Table:
    """Return the first preference pairs: what is rewarded how much, and the words for it."""
    table = _table()
    table.add_column("split")
    table.add_column("rewarded", style="cyan", ratio=2)
    table.add_column("instruction", ratio=3)
    for pair in pairs[:limit]:
        rewarded = [f"{name} {weight:g}" for name, weight in pair.rewarded.items()]
        shown = ", ".join(rewarded if len(rewarded) < 6 else [*rewarded[:5], f"and {len(rewarded) - 5} more"])
        table.add_row(pair.split, shown, Text(pair.instruction))
    return table


def robustness_table(results: Mapping[str, RobustnessScore]) -> Group:
    """Return how policies withstood attacks, one a line, and each attack's share below."""
    table = _table()
    table.add_column("episodes of", style="cyan")
    for name in ("judged", "not followed", "95 % interval", "attempted", "harm done", "task solved"):
        table.add_column(name, justify="right")
    for name, found in results.items():
        low, high = found.interval
        count = max(1, found.episodes)
        shares = (f"{part / count:.1%}" for part in (found.attempted, found.effect, found.solved))
        table.add_row(name, f"{found.episodes:,}", f"{found.share:.1%}", f"{low:.1%}–{high:.1%}", *shares)
    attacks = _table()
    attacks.add_column("not followed, by attack", style="dim")
    for name in results:
        attacks.add_column(name, justify="right")
    for attack in sorted({attack for found in results.values() for attack in found.by_attack}):
        pairs = [found.by_attack.get(attack, (0, 0)) for found in results.values()]
        attacks.add_row(attack, *(f"{resisted} of {count}" for count, resisted in pairs))
    paper = ", ".join(f"{model} {share:.1%}" for model, share in PAPER_SHARES.items())
    return Group(table, Text(), attacks, Text(f"\nThe paper's set of {PAPER_SIZE} (Table 18): {paper}.", style="dim"))


_MARKS = {"pass": ("✓", "green"), "fail": ("✗", "bold red"), "note": ("•", "yellow")}


def print_report(console: Console, report: CheckReport) -> None:
    """Print what the checks found: a table, then what there is to look at."""
    table = _table(title=report.env_id, title_style="bold cyan")
    table.title_justify = "left"
    table.add_column("")
    table.add_column("check", no_wrap=True)
    table.add_column("finding", ratio=1)
    table.add_column("seconds", justify="right")
    for result in report.results:
        mark, style = _MARKS[result.verdict]
        table.add_row(Text(mark, style=style), result.name, Text(result.finding), f"{result.seconds:.1f}")
    console.print(table)
    for result in report.results:
        if result.details:
            mark, style = _MARKS[result.verdict]
            console.print(Text.assemble("\n", (f"{mark} {result.name}", style)))
            for detail in result.details:
                console.print(Text(textwrap.shorten(detail, 300, placeholder=" …")), style="dim")
    total = sum(result.seconds for result in report.results)
    failed = [result.name for result in report.results if result.verdict == "fail"]
    if failed:
        console.print(f"\n[bold red]{', '.join(failed)} failed[/] ({total:.1f} s)")
    else:
        console.print(f"\n[bold green]all checks passed[/] ({total:.1f} s)")


def print_build(console: Console, domain: Domain, seconds: float) -> None:
    """Print what a build made and what it dropped."""
    table = _table()
    table.add_column("table", style="cyan")
    table.add_column("rows", justify="right")
    for name in domain.spec.tables:
        table.add_row(name, f"{_count(domain, name):,}")
    console.print(table)
    effects = Counter(tool.effect for tool in domain.tools.values())
    by_effect = ", ".join(f"{count} {effect}" for effect, count in effects.most_common())
    console.print(f"\n{entries(domain):,} entries, {len(domain.tools)} tools ({by_effect})")
    console.print(task_summary(domain.tasks()).strip())
    for reason, count in domain.dropped.most_common():
        console.print(f"  {count:,} candidates dropped: {reason}", style="yellow", markup=False)
    console.print(f"built {domain.name} in {seconds:.1f} s: domain.db, tasks.jsonl, build.json", style="bold green")


def entries(domain: Domain) -> int:
    """Return the number of rows in a domain's database."""
    return sum(_count(domain, table) for table in domain.spec.tables)


def _count(domain: Domain, table: str) -> int:
    return int(domain.database.base.execute(f"SELECT count(*) FROM {quote(table)}").fetchone()[0])
