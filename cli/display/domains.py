"""Environments, domains and tasks as the commands print them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import msgspec
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from toolorchestra.cli.display.console import key, numbers, plain_table
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.export.domain_statistics import Statistics, figures
from toolorchestra.toolscale.export.text_statistics import TextStatistics, text_figures
from toolorchestra.toolscale.tasks.task import Call, Task

_SIDE_BY_SIDE = 3
"""Domains beside each other in a table of statistics."""


def environment_table(rows: Iterable[Mapping[str, str | int]]) -> Table:
    """Return the list of environments; each row has the id, protocol, source, agents, tools, entries, tasks."""
    shown = ([f"{value:,}" if isinstance(value, int) else value for value in row.values()] for row in rows)
    counts = numbers("agents", "tools", "entries", "tasks")
    return plain_table(key("environment"), "protocol", "source", *counts, rows=shown)


def statistics_tables(facts: Sequence[Statistics]) -> Group:
    """Return the figures of domains, one domain a column."""
    parts: list[RenderableType] = []
    for start in range(0, len(facts), _SIDE_BY_SIDE):
        some = facts[start : start + _SIDE_BY_SIDE]
        heads = (Column(fact.domain, justify="right", style="cyan", no_wrap=True) for fact in some)
        columns = [figures(fact) for fact in some]
        rows = ([name, *(column[name] for column in columns)] for name in columns[0])
        parts += [plain_table("", *heads, rows=rows), Text()]
    return Group(*parts)


def beside_table(found: Sequence[TextStatistics]) -> Group:
    """Return the figures of requests, one source a column."""
    columns = [text_figures(one) for one in found]
    heads = (Column(one.name, justify="right", style="cyan", no_wrap=True) for one in found)
    return Group(plain_table("", *heads, rows=([name, *(c[name] for c in columns)] for name in columns[0])))


def print_build(console: Console, domain: Domain, seconds: float) -> None:
    """Print what a build made and what it dropped."""
    rows = ((name, f"{domain.database.count(name):,}") for name in domain.spec.tables)
    console.print(plain_table(Column("table", style="cyan"), *numbers("rows"), rows=rows))
    effects = Counter(tool.effect for tool in domain.tools.values())
    by_effect = ", ".join(f"{count} {effect}" for effect, count in effects.most_common())
    console.print(f"\n{entries(domain):,} entries, {len(domain.tools)} tools ({by_effect})")
    console.print(task_summary(domain.tasks()).strip())
    if by_operator := Counter(task.operator for task in domain.tasks() if task.operator):
        share = by_operator.total() / len(domain.tasks())
        listed = ", ".join(f"{operator} {count:,}" for operator, count in by_operator.most_common())
        console.print(f"{share:.1%} evolved: {listed}")
    for reason, count in domain.dropped.most_common():
        console.print(f"  {count:,} candidates dropped: {reason}", style="yellow", markup=False)
    console.print(f"built {domain.name} in {seconds:.1f} s: domain.db, tasks.jsonl, build.json", style="bold green")


def entries(domain: Domain) -> int:
    """Return the number of rows in a domain's database."""
    return sum(map(domain.database.count, domain.spec.tables))


def task_table(tasks: Iterable[Task]) -> Table:
    """Return tasks, one a line."""

    def row(task: Task) -> tuple[RenderableType, ...]:
        request = Text(visible(" ".join(task.instruction.split())), no_wrap=True, overflow="ellipsis")
        return (
            task.id,
            task.split,
            str(task.difficulty),
            str(len(task.lookups)),
            str(len(task.reference_calls)),
            request,
        )

    counts = numbers("level", "look-ups", "calls")
    return plain_table(key("task"), Column("split", no_wrap=True), *counts, "request", rows=map(row, tasks))


def task_summary(tasks: Sequence[Task]) -> str:
    """Return how many tasks there are, by split and level, in one line."""
    splits = Counter(task.split for task in tasks)
    levels = Counter(task.difficulty for task in tasks)
    by_split = ", ".join(f"{split} {count:,}" for split, count in splits.items())
    by_level = ", ".join(f"{level}: {count:,}" for level, count in sorted(levels.items()))
    intents = len({task.intent for task in tasks})
    return f"\n{len(tasks):,} tasks of {intents} intents ({by_split or 'none'}; by level {by_level or 'none'})."


def task_card(task: Task) -> Panel:
    """Return a task in full."""
    trajectories = {"look-ups": task.lookups} if task.lookups else {}
    trajectories |= {"reference trajectory": task.reference_calls}
    trajectories |= {f"alternative {number}": calls for number, calls in enumerate(task.alternatives, 1)}
    sections: dict[str, RenderableType] = {name: _trajectory(calls) for name, calls in trajectories.items()}
    if task.communicate:
        facts = "\n".join("  • " + " or ".join(accepted) for accepted in task.communicate)
        sections["information to communicate"] = Text(visible(facts))
    sections["a right answer"] = Text(visible(f"  {task.answer}"), style="green")
    parts: list[RenderableType] = [Text(visible(task.instruction))]
    for name, content in sections.items():
        parts += [Text(f"\n{name}", style="bold"), content]
    if task.parent is not None:
        parts.append(Text(f"\nevolved from {task.parent} by {task.operator}", style="dim"))
    title = Text(f"{task.id} · {task.split} · difficulty {task.difficulty}")
    return Panel(Group(*parts), title=title, title_align="left", border_style="cyan")


def _trajectory(calls: Iterable[Call]) -> Table:
    """Return the calls of a path, stage by stage."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim", width=4)
    grid.add_column()
    for number, (_, stage) in enumerate(groupby(calls, key=lambda call: call.stage), 1):
        for position, call in enumerate(stage):
            values = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in call.arguments.items())
            shown = Text.assemble((visible(call.name), "bold yellow"), visible(f"({', '.join(values)})"))
            grid.add_row("" if position else str(number), shown)
    return grid
