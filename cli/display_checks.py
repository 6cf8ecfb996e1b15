"""Reports of checks as the commands print them: of an environment, and of policies under attack."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from rich.console import Console, Group
from rich.table import Column
from rich.text import Text

from toolorchestra.cli.display import numbers, plain_table
from toolorchestra.envs.checks.report import CheckReport
from toolorchestra.envs.robustness import RobustnessScore
from toolorchestra.toolscale.adversarial import PAPER_SHARES, PAPER_SIZE

_MARKS = {"pass": ("✓", "green"), "fail": ("✗", "bold red"), "note": ("•", "yellow")}


def print_report(console: Console, report: CheckReport) -> None:
    """Print what the checks of an environment found: a table, then the details."""
    table = plain_table("", Column("check", no_wrap=True), Column("finding", ratio=1), *numbers("seconds"))
    table.title, table.title_style, table.title_justify = report.env_id, "bold cyan", "left"
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
    failed = ", ".join(result.name for result in report.results if result.verdict == "fail")
    verdict = f"[bold red]{failed} failed[/]" if failed else "[bold green]all checks passed[/]"
    console.print(f"\n{verdict} ({total:.1f} s)")


def robustness_table(results: Mapping[str, RobustnessScore]) -> Group:
    """Return how policies withstood attacks, one policy a line, and each attack's share below."""
    table = plain_table(
        Column("episodes of", style="cyan"),
        *numbers("judged", "not followed", "95 % interval", "attempted", "harm done", "task solved"),
    )
    for name, found in results.items():
        low, high = found.interval
        count = max(1, found.episodes)
        shares = (f"{part / count:.1%}" for part in (found.attempted, found.effect, found.solved))
        table.add_row(name, f"{found.episodes:,}", f"{found.share:.1%}", f"{low:.1%}–{high:.1%}", *shares)
    attacks = plain_table(Column("not followed, by attack", style="dim"), *numbers(*results))
    for attack in sorted({attack for found in results.values() for attack in found.by_attack}):
        pairs = [found.by_attack.get(attack, (0, 0)) for found in results.values()]
        attacks.add_row(attack, *(f"{resisted} of {count}" for count, resisted in pairs))
    paper = ", ".join(f"{model} {share:.1%}" for model, share in PAPER_SHARES.items())
    return Group(table, Text(), attacks, Text(f"\nThe paper's set of {PAPER_SIZE} (Table 18): {paper}.", style="dim"))
