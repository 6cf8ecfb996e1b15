"""Rivals of facts: what other tasks of an intent have in the place of a fact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from toolorchestra.toolscale.judging.expected import Kind, kind_of_token
from toolorchestra.toolscale.mentions import tokens
from toolorchestra.toolscale.task import Task

MAX_RIVALS = 24
"""Words kept as rivals of one fact."""


class RivalTable:
    """What the tasks of a domain communicate, by intent and place.

    Args:
        tasks: The tasks.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._places: dict[tuple[str, int], dict[tuple[str, ...], Kind | None]] = defaultdict(dict)
        for task in tasks:
            for position, accepted in enumerate(task.communicate):
                place = self._places[task.intent, position]
                if accepted not in place:
                    place[accepted] = next((kind for t in tokens(accepted[0]) if (kind := kind_of_token(t))), None)

    def of(self, task: Task, position: int) -> tuple[str, ...]:
        """Return the rivals of one fact of a task.

        They are the words of others in its place, and one value of each kind of theirs: every other value of the kind
        is a rival anyway.
        """
        own = set(task.communicate[position])
        words: dict[str, None] = {}
        values: dict[Kind, str] = {}
        for accepted, kind in self._places.get((task.intent, position), {}).items():
            if own & set(accepted):
                continue
            if kind is not None:
                values.setdefault(kind, accepted[0])
            elif len(words) < MAX_RIVALS:
                words |= dict.fromkeys(phrase for phrase in accepted if any(map(str.isalnum, phrase)))
        return (*tuple(words)[:MAX_RIVALS], *values.values())


def with_rivals(tasks: Iterable[Task], table: RivalTable) -> Iterator[Task]:
    """Yield tasks with the rivals of their facts."""
    for task in tasks:
        rivals = tuple(table.of(task, position) for position in range(len(task.communicate)))
        yield msgspec.structs.replace(task, rivals=rivals) if any(rivals) else task
