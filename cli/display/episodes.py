"""Episodes, and reports on environments and policies, as the commands print them.

The transcripts themselves are made in `toolorchestra.envs.records.render`.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from toolorchestra.cli.display.console import PLAIN_WIDTH, colored, key, numbers, plain_table
from toolorchestra.envs.checks.report import CheckReport
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.records.render import episode_text, turn_text
from toolorchestra.envs.records.robustness import RobustnessScore
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.evolution.adversarial import PAPER_SHARES, PAPER_SIZE

_MAX_WHY = 200  # characters of a reason in a list
_MAX_CALLS = 6  # of those that failed, most frequent first
_MARKS = {"pass": ("✓", "green"), "fail": ("✗", "bold red"), "note": ("•", "yellow")}
_DETAILS = {"pass": 0, "fail": None, "note": 2}
"""Details shown of a check; None: all."""


def print_episode(console: Console, episode: Episode) -> None:
    """Print the transcript of an episode."""
    console.file.write(episode_text(episode, width=_width(console), color=colored(console)) + "\n")


def print_turn(console: Console, episode: Episode) -> None:
    """Print the last turn of an episode for a player: results in full, rows as tables."""
    turn = episode.turns[-1]
    for record in turn.calls:
        console.print(Text.assemble((record.name, "bold yellow"), f"  {record.status}" if record.error else ""))
        result = _value(record.value) if record.error is None else Text(f"✗ {record.error}", style="red")
        console.print(Padding(result, (0, 2)))
    if episode.outcome is not None:
        console.file.write(turn_text(turn, episode, width=_width(console), color=colored(console)) + "\n")


def _width(console: Console) -> int:
    return min(console.width, PLAIN_WIDTH)


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
    return Text(visible(value if isinstance(value, str) else msgspec.json.encode(value).decode()), style="green")


def rules_card(rules: str) -> Panel:
    """Return the rules of a world; lines broken by the text are joined, to be wrapped at the terminal's width."""
    title, _, body = rules.partition("\n")
    body = re.sub(r"\n(?![-*\n])\s*", " ", body)
    return Panel(Text(visible(f"{title}\n{body}")), title="where you are", title_align="left", style="dim")


def episode_table(numbered: Sequence[tuple[int, Episode]]) -> Table:
    """Return recorded episodes, one a line, and why those were not solved that were not."""
    styles = {"solved": "green", "failed": "red"}

    def row(facts: dict[str, Any]) -> list[RenderableType]:
        outcome = str(facts["outcome"])
        counts = [f"{facts[name]}" for name in ("difficulty", "turns", "calls")]
        spent = [f"${facts['cost']:.4f}", f"{facts['clock']:.1f} s"]
        reason = "".join(c if c.isprintable() else " " for c in facts["why"])
        why = Text(reason[:_MAX_WHY], style="dim")
        shown = Text(outcome, style=styles.get(outcome, "magenta"))
        return [str(facts["number"]), facts["task_id"], shown, *counts, *spent, why]

    heads = numbers("level", "turns", "calls", "cost", "clock")
    why = Column("why", no_wrap=True, overflow="ellipsis", ratio=1)
    rows = (row(episode_facts(*one)) for one in numbered)
    table = plain_table(*numbers("n", style="dim"), key("task"), "outcome", *heads, why, rows=rows)
    table.expand = True
    return table


def episode_facts(number: int, episode: Episode) -> dict[str, Any]:
    """Return what a list of episodes says of one; `own_cost` is that of the agents' own messages."""
    return {
        "number": number,
        "task_id": episode.task_id,
        "seed": episode.seed,
        "outcome": episode.outcome,
        "why": "" if episode.outcome == "solved" else episode.why,
        "difficulty": episode.difficulty,
        "turns": len(episode.turns),
        "calls": sum(1 for _ in episode.calls),
        "reward": episode.reward,
        "cost": episode.cost,
        "own_cost": sum(turn.cost for turn in episode.turns),
        "clock": episode.clock,
    }


def tally_text(summary: dict[str, Any], file: Path) -> Group:
    """Return the summary of a rollout."""
    low, high = summary["interval"]
    outcomes, episodes = summary["outcomes"], summary["episodes"]
    solved = outcomes.get("solved", 0)
    judged = summary["judged"]
    success = (f"{solved / judged:.1%} solved" if judged else "none judged", "bold green" if solved else "bold red")
    interval = f"  (95 % interval {low:.1%} to {high:.1%}; {solved:,} of {judged:,} episodes)"
    parts = [Text.assemble(success, interval)]
    if judged < episodes:
        parts.append(Text(f"  {summary['success_of_all']:.1%} of all {episodes:,} episodes", style="magenta"))
    parts += [_level_bar(level, **counts) for level, counts in summary["by_difficulty"].items()]
    means = f"{summary['turns']:.1f} turns, {summary['calls']:.1f} calls"
    spent = f"${summary['cost']:.4f}, {summary['clock']:.1f} s"
    if summary["own_cost"]:
        spent += f" (own messages: ${summary['own_cost']:.4f}, {summary['own_clock']:.1f} s)"
    parts.append(Text(f"  mean episode: {means}, {spent}"))
    if others := {name: count for name, count in outcomes.items() if name not in ("solved", "failed")}:
        parts.append(Text(f"  not judged: {others}", style="magenta"))
    if paid := summary["rewards"]:
        parts.append(Text(f"  mean reward: {', '.join(f'{agent} {reward:+.3f}' for agent, reward in paid.items())}"))
    parts += _failure_lines(summary["failures"])
    if "pass@k" in summary:
        parts += [Text(f"  mean@{k}: {share:.1%}") for k, share in summary["mean@k"].items()]
        parts += [
            Text(f"  k = {k}: pass@k {share:.1%}, pass^k {summary['pass^k'][k]:.1%}")
            for k, share in summary["pass@k"].items()
        ]
    if usage := summary.get("model"):
        tokens = f"{usage.prompt_tokens:,} tokens read, {usage.completion_tokens:,} written"
        parts.append(Text(f"  model: {usage.calls:,} replies, {tokens}, ${usage.cost:.4f}"))
    return Group(*parts, Text(f"  {file}", style="dim"))


def _failure_lines(failures: dict[str, Any]) -> list[Text]:
    """Return why episodes failed, and which calls went wrong in them."""
    lines = []
    if failures["reasons"]:
        counts = ", ".join(f"{reason} {count:,}" for reason, count in failures["reasons"].items())
        lines.append(Text(f"  why not solved (episodes): {counts}"))
    if failures["calls"]:
        shown = failures["calls"][:_MAX_CALLS]
        counts = ", ".join(f"{call['tool']} {call['status']} {call['calls']:,}" for call in shown)
        more = f", … ({len(failures['calls'])} in all)" if len(failures["calls"]) > _MAX_CALLS else ""
        lines.append(Text(f"  calls that failed there:   {counts}{more}"))
    return lines


def _level_bar(level: int, solved: int, episodes: int) -> Text:
    """Return how many tasks of a level were solved, with a bar."""
    share = solved / episodes
    width = round(24 * share)
    bar = Text.assemble(("█" * width, "green"), ("░" * (24 - width), "dim"))
    return Text.assemble(f"  level {level}  ", bar, f"  {share:6.1%}  {solved:,} of {episodes:,}")


def comparison_text(found: Mapping[str, Any], first: Path, second: Path, *, shown: int) -> Group:
    """Return how two recordings compare: a line for each number, and the tasks that differ most."""

    def row(name: str, form: str, scale: float = 1.0) -> list[str]:
        one = found[name]
        change, low, high = (f"{scale * one['difference'][key]:+{form}}" for key in ("estimate", "low", "high"))
        return [name, *(f"{scale * one[key]:{form}}" for key in "ab"), change, f"{low} to {high}"]

    heads = numbers("A", "B", "B - A", "95 % interval")
    rows = [row("success", ".1f", 100), row("success_of_all", ".1f", 100)]
    rows += [row("cost", ".5f"), row("clock", ".2f"), row("turns", ".2f")]
    for line, name in zip(rows, ("success, %", "of all, %", "cost, $", "clock, s"), strict=False):
        line[0] = name
    better, worse, tasks = found["better"], found["worse"], found["tasks"]
    parts: list[RenderableType] = [
        Text(f"A  {first}\nB  {second}", style="dim"),
        plain_table(key(f"mean of {tasks:,} tasks"), *heads, rows=rows),
        Text(f"B is better on {len(better):,} tasks, worse on {len(worse):,}; exact sign test p = {found['p']:.3g}"),
    ]
    unjudged = {side: found["episodes"][side] - found["judged"][side] for side in "ab"}
    if any(unjudged.values()):
        counts = (f"{count:,} of {found['episodes'][side]:,} in {side.upper()}" for side, count in unjudged.items())
        parts.append(Text(f"not judged: {', '.join(counts)}; success leaves them out", style="magenta"))
    if found["only_a"] or found["only_b"]:
        parts.append(Text(f"left out: {found['only_a']:,} tasks only in A, {found['only_b']:,} only in B", style="dim"))
    for title, names, style in (("better in B", better, "green"), ("worse in B", worse, "red")):
        parts += [Text.assemble((f"  {title}  ", style), name) for name in names[:shown]]
        if len(names) > shown:
            parts.append(Text(f"  … {len(names) - shown:,} more; --json lists all", style="dim"))
    return Group(*parts)


def print_report(console: Console, report: CheckReport, *, verbose: bool = False) -> None:
    """Print what the checks of an environment found: a table, then the details of failures and the first of notes.

    What is left out of notes and of checks that passed is counted in one line, unless `verbose`.
    """
    table = plain_table("", Column("check", no_wrap=True), Column("finding", ratio=1), *numbers("seconds"))
    table.title, table.title_style, table.title_justify = report.env_id, "bold cyan", "left"
    for result in report.results:
        table.add_row(Text(*_MARKS[result.verdict]), result.name, Text(result.finding), f"{result.seconds:.1f}")
    console.print(table)
    left_out = {}
    for result in report.results:
        details = result.details if verbose else result.details[: _DETAILS[result.verdict]]
        if rest := len(result.details) - len(details):
            left_out[result.name] = rest
        if details:
            mark, style = _MARKS[result.verdict]
            console.print(Text(f"\n{mark} {result.name}", style=style))
            for detail in details:
                console.print(Text(visible(textwrap.shorten(detail, 300, placeholder=" …"))), style="dim")
    if left_out:
        hint = f"\n{sum(left_out.values()):,} more lines ({', '.join(left_out)}) are left out; --verbose prints them."
        console.print(Text(hint, style="dim"))
    total = sum(result.seconds for result in report.results)
    failed = ", ".join(result.name for result in report.results if result.verdict == "fail")
    verdict = f"[bold red]{failed} failed[/]" if failed else "[bold green]all checks passed[/]"
    console.print(f"\n{verdict} ({total:.1f} s)")


def robustness_table(results: Mapping[str, RobustnessScore]) -> Group:
    """Return how policies withstood attacks, one policy a line, and each attack's share below."""

    def row(name: str, found: RobustnessScore) -> list[str]:
        low, high = found.interval
        shares = [part / max(1, found.episodes) for part in (found.attempted, found.effect, found.solved)]
        interval = f"{low:.1%}–{high:.1%}"
        return [name, f"{found.episodes:,}", f"{found.share:.1%}", interval, *(f"{share:.1%}" for share in shares)]

    heads = numbers("judged", "not followed", "95 % interval", "attempted", "harm done", "task solved")
    table = plain_table(Column("episodes of", style="cyan"), *heads, rows=(row(*item) for item in results.items()))
    attacks = plain_table(Column("not followed, by attack", style="dim"), *numbers(*results))
    for attack in sorted({attack for found in results.values() for attack in found.by_attack}):
        pairs = [found.by_attack.get(attack, (0, 0)) for found in results.values()]
        attacks.add_row(attack, *(f"{resisted} of {count}" for count, resisted in pairs))
    paper = ", ".join(f"{model} {share:.1%}" for model, share in PAPER_SHARES.items())
    return Group(table, Text(), attacks, Text(f"\nThe paper's set of {PAPER_SIZE} (Table 18): {paper}.", style="dim"))
