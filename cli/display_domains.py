"""Environments and domains as the commands print them: what there is, how large, and what a build made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, Group
from rich.table import Column, Table
from rich.text import Text

from toolorchestra.cli.display import key, numbers, plain_table
from toolorchestra.cli.display_tasks import task_summary
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_statistics import Statistics, figures
from toolorchestra.toolscale.sql import quote

_SIDE_BY_SIDE = 3
"""Domains beside each other in a table of statistics."""


def environment_table(rows: Iterable[Mapping[str, str | int]]) -> Table:
    """Return the list of environments; each row has the id, protocol, source, agents, tools, entries, tasks."""
    table = plain_table(key("environment"), "protocol", "source", *numbers("agents", "tools", "entries", "tasks"))
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else value for value in row.values()))
    return table


def statistics_tables(facts: Sequence[Statistics]) -> Group:
    """Return the figures of domains, one domain a column."""
    tables: list[Table] = []
    for start in range(0, len(facts), _SIDE_BY_SIDE):
        some = facts[start : start + _SIDE_BY_SIDE]
        heads = (Column(fact.domain, justify="right", style="cyan", no_wrap=True) for fact in some)
        table = plain_table("", *heads)
        columns = [figures(fact) for fact in some]
        for name in columns[0]:
            table.add_row(name, *(column[name] for column in columns))
        tables.append(table)
    return Group(*(part for table in tables for part in (table, Text())))


def print_build(console: Console, domain: Domain, seconds: float) -> None:
    """Print what a build made and what it dropped."""
    table = plain_table(Column("table", style="cyan"), *numbers("rows"))
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
