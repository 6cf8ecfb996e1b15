"""Domain cards and the statistics page, as Markdown: what `toolorchestra envs --card` and `--stats` print."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.database.format import ColumnSpec
from toolorchestra.toolscale.database.sql import primary_key
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.export.domain_statistics import LONG, PAPER_SIZES, Statistics, figures, statistics
from toolorchestra.toolscale.export.text_statistics import TextStatistics, text_figures
from toolorchestra.toolscale.tasks.task import Call, Task

_MAX_PATH = 12
"""Calls of an example's look-ups, and of its reference trajectory, that are shown."""


def card(domain: Domain, facts: Statistics | None = None) -> str:
    """Return the card of a domain: rules, entities, tools, example tasks and statistics, as Markdown.

    Args:
        domain: The domain.
        facts: Its figures, if they are known already.
    """
    facts = facts or statistics(domain)
    parts = [
        f"# {domain.spec.title}",
        f"`{domain.name}` · {facts.tools} tools · {facts.entries:,} entries · {facts.tasks:,} tasks · "
        f"{facts.intents} intents · today is {domain.spec.today}",
        "The domain as the prompt of an orchestrator describes it:",
        textwrap.indent(domain.spec.description.strip(), "> ", lambda line: True).replace("> \n", ">\n"),
        "## Entities",
        _entities(domain),
    ]
    if domain.spec.consistency:
        parts += ["Rules that hold for all records:", "\n".join(f"- {rule.rule}" for rule in domain.spec.consistency)]
    parts += ["## Tools", _tools(domain), "## Tasks", _intents(domain), "### Examples", *_examples(domain)]
    if domain.spec.attacks:
        attacks = [[f"`{name}`", attack.description] for name, attack in domain.spec.attacks.items()]
        parts += ["## Attacks", _markdown(["attack", "what harm an adversary asks for"], attacks)]
    parts += ["## Statistics", statistics_table([facts])]
    return visible("\n\n".join(parts) + "\n")


BESIDE = Path(__file__).with_name("statistics_beside.json")
"""Figures of the requests beside which the statistics page puts ours."""


def statistics_page(
    facts: Sequence[Statistics], texts: Sequence[TextStatistics] = (), beside: Sequence[TextStatistics] | None = None
) -> str:
    """Return the page that compares domains with the paper's table and shows how varied their tasks are.

    Args:
        facts: The figures of the domains.
        texts: The figures of their requests as texts.
        beside: Those of other requests, put beside them; by default those that come with the library.
    """
    if beside is None:
        beside = msgspec.json.decode(BESIDE.read_bytes(), type=list[TextStatistics])
    sizes = _markdown(["domain", "tools", "entries", "tasks"], map(_beside_paper, facts), right=1)
    template = Path(__file__).with_name("statistics_page.md").read_text(encoding="utf-8")
    compared = [*texts, *beside]
    columns = list(map(text_figures, compared))
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    readability = _markdown(["", *(one.name for one in compared)], rows, right=1)
    return visible(template.format(sizes=sizes, figures=statistics_table(facts), long=LONG, readability=readability))


def statistics_table(facts: Sequence[Statistics]) -> str:
    """Return a Markdown table of the figures, a column for each domain."""
    columns = [figures(fact) for fact in facts]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return _markdown(["", *(fact.domain for fact in facts)], rows, right=1)


def _beside_paper(fact: Statistics) -> list[str]:
    counts = [f"{count:,}" for count in (fact.tools, fact.entries, fact.tasks)]
    if paper := PAPER_SIZES.get(fact.domain):
        counts = [f"{count} ({size:,})" for count, size in zip(counts, paper, strict=True)]
    return [f"`{fact.domain}`", *counts]


def _entities(domain: Domain) -> str:
    rows = []
    for name, table in domain.spec.tables.items():
        keys = primary_key(table)
        columns = ", ".join(_column(column, spec, column in keys) for column, spec in table.columns.items())
        count = domain.database.count(name)
        rows.append([f"`{name}`", f"{count:,}", table.description or "–", columns])
    return _markdown(["table", "rows", "what it holds", "columns (**key**, → reference)"], rows)


def _column(name: str, spec: ColumnSpec, key: bool) -> str:
    shown = f"**{name}**" if key else name
    return f"{shown} → {spec.references.split('.')[0]}" if spec.references else shown


def _tools(domain: Domain) -> str:
    rows = []
    for tool in domain.tools.values():
        parameters = ", ".join(name if spec.required else f"{name}?" for name, spec in tool.parameters.items())
        rows.append([f"`{tool.name}({parameters})`", tool.effect, f"${tool.price:.4f}", tool.description])
    return _markdown(["tool", "effect", "price", "what it does"], rows)


def _intents(domain: Domain) -> str:
    rows = []
    by_intent: dict[str, list[Task]] = {}
    for task in domain.tasks():
        by_intent.setdefault(task.intent, []).append(task)
    for name, tasks in by_intent.items():
        spec = domain.spec.intents.get(name)
        levels = sorted({task.difficulty for task in tasks})
        marks = [mark for mark in ("branches", "refuses") if any(getattr(task, mark) for task in tasks)]
        marks += ["held out"] if tasks[0].split == "test_intents" else []
        description = spec.description if spec else f"Evolved by {tasks[0].operator}."
        span = "–".join(map(str, dict.fromkeys((levels[0], levels[-1]))))
        rows.append([f"`{name}`", str(len(tasks)), span, ", ".join(marks), description])
    return _markdown(["intent", "tasks", "level", "", "what is asked"], rows)


def _examples(domain: Domain) -> Iterable[str]:
    """Yield one task of each level, drawn with the domain's seed."""
    rng = random.Random(f"card:{domain.spec.seed}")
    for level in range(1, 6):
        tasks = [task for task in domain.tasks("train") if task.difficulty == level]
        if tasks:
            yield _example(rng.choice(tasks))


def _example(task: Task) -> str:
    lookups, calls = _written(task.lookups), _written(task.reference_calls)
    if lookups:
        calls = ["# look-ups", *lookups, "# reference trajectory", *calls]
    phrases = [list(dict.fromkeys(options)) for options in task.communicate]
    facts = "; ".join(" or ".join(options[:3] + ["…"] * (len(options) > 3)) for options in phrases)
    lines = [
        f"**Level {task.difficulty}**, `{task.id}`",
        textwrap.indent(task.instruction.strip(), "> ", lambda line: True),
        "\n".join(["```text", *calls, "```"]) if calls else "No call is needed.",
    ]
    return "\n\n".join([*lines, *([f"Information to communicate: {facts}"] if facts else [])])


def _written(calls: Sequence[Call]) -> list[str]:
    """Return calls as text, one a line; those beyond `_MAX_PATH` are counted."""
    texts = []
    for call in calls[:_MAX_PATH]:
        arguments = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in call.arguments.items())
        texts.append(f"{call.name}({', '.join(arguments)})")
    return [*texts, f"… {len(calls) - _MAX_PATH} more"] if len(calls) > _MAX_PATH else texts


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]], right: int | None = None) -> str:
    """Return a Markdown table; columns from number `right` on are aligned to the right."""
    rule = ["---" if right is None or i < right else "---:" for i in range(len(header))]
    cells = ([" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in (header, rule, *rows))
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)
