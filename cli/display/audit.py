"""How an audit is printed."""

from rich.console import Console
from rich.table import Column
from rich.text import Text

from toolorchestra.cli.display.console import plain_table
from toolorchestra.envs.checks.audit.report import AuditReport, catalogue
from toolorchestra.toolscale.common.visible import visible

_MARKS = {"pass": ("✓", "green"), "fail": ("✗", "bold red"), "skip": ("-", "dim"), "error": ("✗", "bold red")}


def print_audit(console: Console, report: AuditReport) -> None:
    """Print what the checks came to that apply, and how many do not; then what to change."""
    table = plain_table("", Column("check", no_wrap=True), Column("what was found", ratio=1))
    table.title, table.title_style, table.title_justify = f"{report.target}, RFC 008", "bold cyan", "left"
    severities = {check.id: check.severity for check in catalogue().checks}
    left_out = {check.id for check in catalogue().checks if check.left_out}
    for result in report.results:
        if result.check_id not in left_out:
            lines = Text(visible("\n".join(result.evidence)))
            table.add_row(Text(*_MARKS[result.status]), result.check_id, lines)
    console.print(table)
    for result in report.results:
        if result.remediation:
            console.print(Text(f"\n{result.check_id} ({severities[result.check_id]}): {result.remediation}"))
    counts = report.counts
    told = f"{counts['pass']} checks pass, {counts['fail'] + counts['error']} fail, {counts['skip']} do not apply"
    style = {"pass": "bold green", "warn": "bold yellow", "fail": "bold red"}[report.verdict]
    console.print(f"\n[{style}]{report.verdict}[/]: {told} ({report.episodes:,} episodes of each adversary)")
