"""Statistics of domains: their sizes and the variety of their tasks, for domain cards and the statistics page.

Text measures are over words in lower case, numbers and ids included. Not covered: how hard the tasks are for a
given model, which only playing them shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from toolorchestra.toolscale.database.format import IntentSpec
from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.export.text_statistics import TextStatistics, text_statistics, trigrams, type_token, words
from toolorchestra.toolscale.requests.lookups import raw_ids
from toolorchestra.toolscale.requests.wording import phrasings
from toolorchestra.toolscale.requests.wording_checks import is_sentence, share_with_ids
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.sqltool import SqlTool

PAPER_SIZES: dict[str, tuple[int, int, int]] = {
    "finance": (22, 686, 396), "sport": (19, 423, 247), "ecommerce": (15, 577, 343), "medicine": (19, 920, 622),
    "entertainment": (24, 852, 561), "railway": (25, 790, 414), "restaurant": (23, 683, 348),
    "education": (21, 816, 426), "travel": (15, 752, 331), "weather": (14, 549, 375),
}  # fmt: skip
"""Tools, database entries and tasks of each domain of ToolScale (ToolOrchestra, Table 6)."""

LONG = 8
"""Reference calls from which a task counts as long."""


class Statistics(msgspec.Struct, frozen=True):
    """The figures of one domain, as `figures` names them: numbers of its parts, shares of its tasks, means over them.

    `long` tasks have at least `LONG` reference calls; `sequences` are distinct sequences of tools on reference
    trajectories; `repeated` tasks share intent and bindings with an earlier one. `type_token` is the share of distinct
    words in all instructions, `type_token_1000` its mean over stretches of 1,000 words (tasks in seeded random order),
    `nearest` the mean similarity of an instruction to the one most like it (Jaccard of their sets of words).
    `templates` are the phrasings that intents write out, `trigrams` the distinct sequences of three words in all
    instructions, `ids` the share of instructions that contain an id, `sentences` that of answers in whole sentences.
    """

    domain: str
    tools: int
    entries: int
    tables: int
    references: int
    rules: int
    intents: int
    tasks: int
    splits: dict[str, int]
    levels: dict[int, int]
    long: float
    branches: float
    refuses: float
    evolved: float
    writes: float
    sequences: int
    two_tables: float
    repeated: int
    type_token: float
    type_token_1000: float
    nearest: float
    words: float
    calls: float
    templates: int
    trigrams: int
    trigrams_1000: float
    ids: float
    reading_ease: float
    sentences: float


def request_statistics(domain: Domain, tasks: Sequence[Task] | None = None) -> TextStatistics:
    """Return the figures of the requests of a domain's tasks as texts, or of those of `tasks`.

    Raises:
        ValueError: There is no task.
    """
    tasks = domain.tasks() if tasks is None else tasks
    if not tasks:
        raise ValueError(f"Expected at least one task of {domain.name}, got none.")
    return text_statistics(domain.name, [task.instruction for task in tasks])


def statistics(
    domain: Domain, tasks: Sequence[Task] | None = None, requests: TextStatistics | None = None
) -> Statistics:
    """Return the figures of `domain`, and of `tasks` if given in place of its own.

    Args:
        domain: The domain.
        tasks: The tasks; by default those of the domain.
        requests: Their `request_statistics`, if they are known already.

    Raises:
        ValueError: There is no task.
    """
    tasks = domain.tasks() if tasks is None else tasks
    requests = requests or request_statistics(domain, tasks)
    columns = [column for table in domain.spec.tables.values() for column in table.columns.values()]
    texts = [words(task.instruction) for task in tasks]
    splits = Counter(task.split for task in tasks)
    levels = Counter(task.difficulty for task in tasks)
    bindings = Counter((task.intent, msgspec.json.encode(task.bindings, order="sorted")) for task in tasks)

    def share(of: Iterable[bool]) -> float:
        return sum(of) / len(tasks)

    return Statistics(
        domain=domain.name,
        tools=len(domain.tools),
        entries=domain.database.entries(),
        tables=len(domain.spec.tables),
        references=sum(column.references is not None for column in columns),
        rules=len(domain.spec.consistency),
        intents=len({task.intent for task in tasks}),
        tasks=len(tasks),
        splits={split: splits[split] for split in SPLITS},
        levels={level: levels[level] for level in range(1, 6)},
        long=share(len(task.reference_calls) >= LONG for task in tasks),
        branches=share(task.branches for task in tasks),
        refuses=share(task.refuses for task in tasks),
        evolved=share(task.operator is not None for task in tasks),
        writes=share(any(domain.tools[call.name].effect == "write" for call in task.reference_calls) for task in tasks),
        sequences=len({tuple(call.name for call in task.reference_calls) for task in tasks}),
        two_tables=share(len(tables_touched(domain, task)) >= 2 for task in tasks),
        repeated=len(tasks) - len(bindings),
        type_token=type_token(list(chain(*texts))),
        type_token_1000=requests.type_token_1000,
        nearest=requests.nearest,
        words=requests.words,
        calls=sum(len(task.reference_calls) for task in tasks) / len(tasks),
        templates=sum(_templates(intent) for intent in domain.spec.intents.values()),
        trigrams=len(set(chain.from_iterable(map(trigrams, texts)))),
        trigrams_1000=requests.trigrams_1000,
        ids=share_with_ids(tasks, raw_ids(domain)),
        reading_ease=requests.reading_ease,
        sentences=share(is_sentence(task.answer) for task in tasks),
    )


def _templates(intent: IntentSpec) -> int:
    spec = intent.instructions
    return len(spec) if isinstance(spec, list) else len(phrasings(spec, "test_intents"))


def figures(fact: Statistics) -> dict[str, str]:
    """Return the figures as people read them, by their names in tables."""
    return {
        "tools": f"{fact.tools:,}",
        "database entries": f"{fact.entries:,}",
        "tables": f"{fact.tables}",
        "references between tables": f"{fact.references}",
        "consistency rules": f"{fact.rules}",
        "tasks": f"{fact.tasks:,}",
        "train / test / test_intents": " / ".join(f"{count:,}" for count in fact.splits.values()),
        "levels 1 / 2 / 3 / 4 / 5": " / ".join(f"{count:,}" for count in fact.levels.values()),
        "long tasks": f"{fact.long:.1%}",
        "branching tasks": f"{fact.branches:.1%}",
        "refusals": f"{fact.refuses:.1%}",
        "evolved tasks": f"{fact.evolved:.1%}",
        "tasks that write": f"{fact.writes:.1%}",
        "tasks that touch two tables or more": f"{fact.two_tables:.1%}",
        "distinct intents": f"{fact.intents}",
        "distinct tool sequences": f"{fact.sequences}",
        "tasks with the intent and bindings of another": f"{fact.repeated}",
        "reference calls, mean": f"{fact.calls:.2f}",
        "words of an instruction, mean": f"{fact.words:.1f}",
        "type-token ratio": f"{fact.type_token:.3f}",
        "type-token ratio of 1,000 words": f"{fact.type_token_1000:.3f}",
        "nearest neighbour, mean similarity": f"{fact.nearest:.3f}",
        "phrasings written out": f"{fact.templates:,}",
        "distinct trigrams": f"{fact.trigrams:,}",
        "distinct trigrams of 1,000 words": f"{fact.trigrams_1000:.1%}",
        "requests with ids": f"{fact.ids:.1%}",
        "reading ease (Flesch), mean": f"{fact.reading_ease:.1f}",
        "answers in whole sentences": f"{fact.sentences:.1%}",
    }


def tables_touched(domain: Domain, task: Task) -> set[str]:
    """Return the tables that the tools of a task's reference trajectory read or write."""
    tools = (domain.tools[call.name] for call in task.reference_calls)
    return {table for tool in tools if isinstance(tool, SqlTool) for table in tool.reads | tool.writes}
