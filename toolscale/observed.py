"""What an episode has seen of the database: which entries the results of its calls showed, and what of them.

Operation completeness (`toolorchestra.toolscale.verify`) asks whether what a reference trajectory looked up by identity
was seen. Another call may show the same: a search whose rows have the entry's key beside what is needed of it. Values
are compared, not the names under which results show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from toolorchestra.toolscale.mentions import mentions, tokens
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import Entry, ToolResult


class Shown(NamedTuple):
    """What a call that read has shown: its arguments and its result."""

    arguments: Mapping[str, Any]
    value: Any


class Needed(NamedTuple):
    """What is needed of an entry that was looked up.

    Attributes:
        values: The values that the answer tells or later calls take, by the names under which the result shows them.
        some: Where there are none, since something was derived: what the result shows, any of which is enough. Pairs of
            names and values, as a 0 may stand for anything.
    """

    values: Mapping[str, frozenset[Any]]
    some: frozenset[tuple[str, Any]]

    def __str__(self) -> str:
        return f"it with its {' and '.join(sorted(self.values))}" if self.values else "anything of it"


def needed_values(
    task: Task, calls: Sequence[Call], results: Sequence[ToolResult], entries: frozenset[Entry]
) -> dict[Entry, Needed]:
    """Return what a reference trajectory needs of entries that it looks up.

    What the request or an earlier result has given need not be shown again.

    Args:
        task: The task.
        calls: The calls of the trajectory.
        results: Their results.
        entries: The entries.
    """
    if not entries:
        return {}
    values: dict[Entry, dict[str, set[Any]]] = {entry: {} for entry in entries}
    some: dict[Entry, set[tuple[str, Any]]] = {entry: set() for entry in entries}
    given: set[Any] = set()
    for position, result in enumerate(results):
        cells = [*_cells(result.value)]
        for entry in entries.intersection(result.operated):
            new = [cell for cell in cells if not (cell in given or cell[1] in given or _is_said(cell[1], task))]
            some[entry].update(new)
            for name, value in new:
                if _is_taken(value, calls[position + 1 :]) or _is_told(value, task):
                    values[entry].setdefault(name, set()).add(value)
        given.update(cells)
        given.update(value for _, value in cells if isinstance(value, str))
    return {
        entry: Needed(
            {name: frozenset(found) for name, found in values[entry].items()},
            frozenset(cell for cell in some[entry] if not values[entry] and cell[1] not in _values(entry[1])),
        )
        for entry in entries
    }


def _is_said(value: Any, task: Task) -> bool:
    """Return whether the request has a value."""
    return mentions(tokens(task.instruction), str(value))


def _is_taken(value: Any, calls: Sequence[Call]) -> bool:
    """Return whether a call has a value among its arguments, or within a text, as the expression of a calculator."""
    return any(
        argument == value or (isinstance(argument, str) and mentions(tokens(argument), str(value)))
        for call in calls
        for _, argument in _cells(call.arguments)
    )


def _is_told(value: Any, task: Task) -> bool:
    text = tokens(str(value))
    return any(mentions(text, phrase) for phrases in task.communicate for phrase in phrases)


def not_shown(entries: Mapping[Entry, Needed], shown: Iterable[Shown]) -> set[Entry]:
    """Return those of `entries` of which no row of a result has the key and what is needed.

    The arguments of a call hold for each row: a search by customer need not repeat the customer.
    """
    left = {entry: _values(entry[1]).union(*needed.values.values()) for entry, needed in entries.items()}
    for arguments, value in shown:
        if not left:
            break
        known = _values(arguments)
        for row in value if isinstance(value, list) else (value,):
            found = known | _values(row)
            for entry in [entry for entry, wanted in left.items() if wanted <= found]:
                some = entries[entry].some
                if not some or not some.isdisjoint(_cells(row)):
                    del left[entry]
    return set(left)


def _values(value: Any) -> frozenset[Any]:
    return frozenset(cell for _, cell in _cells(value))


def _cells(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the plain values within a value, each with the name under which it stands."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _cells(item, key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _cells(item, name)
    elif value is not None:
        yield name, value
