"""Statistics of domains: their sizes and the variety of their tasks, for domain cards and the statistics page.

Text measures are over words in lower case, numbers and ids included. Not covered: how hard the tasks are for a
given model, which only playing them shows.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
import numpy as np

from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.sqltool import SqlTool
from toolorchestra.toolscale.task import Task

PAPER_SIZES: dict[str, tuple[int, int, int]] = {
    "finance": (22, 686, 396), "sport": (19, 423, 247), "ecommerce": (15, 577, 343), "medicine": (19, 920, 622),
    "entertainment": (24, 852, 561), "railway": (25, 790, 414), "restaurant": (23, 683, 348),
    "education": (21, 816, 426), "travel": (15, 752, 331), "weather": (14, 549, 375),
}  # fmt: skip
"""Tools, database entries and tasks of each domain of ToolScale (ToolOrchestra, Table 6)."""

LONG = 8
"""Reference calls from which a task counts as long."""

SEGMENT = 1000
"""Words of a stretch over which the type-token ratio is taken, so that texts of any length compare."""

_NEIGHBOURS = 2000
_WORD = re.compile(r"\w+(?:[.:'-]\w+)*")


class Statistics(msgspec.Struct, frozen=True):
    """The figures of one domain, as `figures` names them: numbers of its parts, shares of its tasks, means over them.

    `long` tasks have at least `LONG` reference calls; `sequences` are distinct sequences of tools on reference
    trajectories; `repeated` tasks share intent and bindings with an earlier one. `type_token` is the share of distinct
    words in all instructions, `type_token_1000` its mean over stretches of 1,000 words (tasks in seeded random order),
    `nearest` the mean similarity of an instruction to the one most like it (Jaccard of their sets of words).
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


def statistics(domain: Domain, tasks: Sequence[Task] | None = None) -> Statistics:
    """Return the figures of `domain`, and of `tasks` if given in place of its own.

    Raises:
        ValueError: There is no task.
    """
    tasks = domain.tasks() if tasks is None else tasks
    if not tasks:
        raise ValueError(f"Expected at least one task of {domain.name}, got none.")
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
        type_token=_type_token(list(chain(*texts))),
        type_token_1000=_segment_type_token(texts),
        nearest=nearest_similarity(texts),
        words=sum(map(len, texts)) / len(tasks),
        calls=sum(len(task.reference_calls) for task in tasks) / len(tasks),
    )


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
    }


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; times, decimals and hyphenated words are one each.

    >>> words("Move Ada's order O12 to 18:30, please.")
    ['move', "ada's", 'order', 'o12', 'to', '18:30', 'please']
    """
    return _WORD.findall(text.casefold())


def tables_touched(domain: Domain, task: Task) -> set[str]:
    """Return the tables that the tools of a task's reference trajectory read or write."""
    tools = (domain.tools[call.name] for call in task.reference_calls)
    return {table for tool in tools if isinstance(tool, SqlTool) for table in tool.reads | tool.writes}


def nearest_similarity(texts: Sequence[Sequence[str]]) -> float:
    """Return the mean Jaccard similarity of a text's set of words to that of the text most like it.

    Of more than 2,000 texts, 2,000 are drawn (seeded) and compared with each other.

    >>> nearest_similarity([["pay", "bill"], ["pay", "bill", "now"], ["cancel"]])  # (2/3 + 2/3 + 0) / 3
    0.4444444444444444
    """
    if len(texts) < 2:
        return 0.0
    if len(texts) > _NEIGHBOURS:
        texts = random.Random(0).sample(list(texts), _NEIGHBOURS)
    number: dict[str, int] = {}
    sets = [{number.setdefault(word, len(number)) for word in text} for text in texts]
    present = np.zeros((len(sets), max(1, len(number))), dtype=np.float32)
    for row, members in enumerate(sets):
        present[row, list(members)] = 1
    shared = (present @ present.T).astype(np.float64)  # whole numbers, so exact whatever the order of summation
    sizes = present.sum(axis=1, dtype=np.float64)
    union = sizes[:, None] + sizes[None, :] - shared
    similarity = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    np.fill_diagonal(similarity, 0)
    return float(similarity.max(axis=1).mean())


def _type_token(tokens: Sequence[str]) -> float:
    return len(set(tokens)) / max(1, len(tokens))


def _segment_type_token(texts: Sequence[Sequence[str]]) -> float:
    tokens = list(chain(*random.Random(0).sample(texts, len(texts))))
    shares = [_type_token(tokens[start : start + SEGMENT]) for start in range(0, len(tokens) - SEGMENT + 1, SEGMENT)]
    return sum(shares) / len(shares) if shares else _type_token(tokens)
