"""What an episode has seen of the database: which entries the results of its calls showed, and what of them.

Operation completeness (`toolorchestra.toolscale.tasks.verify`) asks whether what a reference trajectory looked up by
identity was seen. Another call may show the same: a search whose rows have the entry's key beside what is needed of it.
Values are compared, not the names under which results show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from toolorchestra.toolscale.answers.mentions import fact_tokens, mentions, tokens
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.tool import Entry, ToolResult


def named_values(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the plain values within a value, each with the name (key) under which it stands; nothing for null.

    >>> list(named_values({"table": "T10", "guests": [{"age": 7}, {"age": None}]}))
    [('table', 'T10'), ('age', 7)]
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from named_values(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from named_values(item, name)
    elif value is not None:
        yield name, value


def shown_values(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the named values that are no true or false: what a result shows that a text could repeat."""
    return ((key, item) for key, item in named_values(value, name) if not isinstance(item, bool))


def argument_texts(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the arguments of a call name, as text in small letters."""
    return (str(value).casefold() for _, value in shown_values(arguments))


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
    request, told = tokens(task.instruction), [phrase for phrases in task.communicate for phrase in phrases]
    taken = [[*_arguments(call)] for call in calls]
    for position, result in enumerate(results):
        cells = [*named_values(result.value)]
        if looked_up := entries.intersection(result.operated):
            later = [argument for arguments in taken[position + 1 :] for argument in arguments]
            new = [
                (name, value)
                for name, value in cells
                if not ((name, value) in given or value in given or mentions(request, str(value)))
            ]
            used = [(name, value) for name, value in new if _is_taken(value, later) or _is_told(value, told)]
            for entry in looked_up:
                some[entry].update(new)
                for name, value in used:
                    values[entry].setdefault(name, set()).add(value)
        given.update(cells)
        given.update(value for _, value in cells if isinstance(value, str))
    found = {}
    for entry in entries:
        key = _values(entry[1])
        needed = {name: frozenset(group) for name, group in values[entry].items()}
        found[entry] = Needed(needed, frozenset(cell for cell in some[entry] if not needed and cell[1] not in key))
    return found


def _arguments(call: Call) -> Iterator[tuple[Any, Sequence[str]]]:
    """Yield the arguments of a call, and the tokens of those that are texts, as the expression of a calculator."""
    for _, argument in named_values(call.arguments):
        yield argument, fact_tokens(argument) if isinstance(argument, str) else ()


def _is_taken(value: Any, arguments: Iterable[tuple[Any, Sequence[str]]]) -> bool:
    """Return whether a value is among arguments, or within one that is a text."""
    return any(argument == value or mentions(text, str(value)) for argument, text in arguments)


def _is_told(value: Any, told: Iterable[str]) -> bool:
    """Return whether a value, as text, mentions one of the phrases that the answer tells."""
    text = fact_tokens(str(value))
    return any(mentions(text, phrase) for phrase in told)


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
                if not some or not some.isdisjoint(named_values(row)):
                    del left[entry]
    return set(left)


def _values(value: Any) -> frozenset[Any]:
    return frozenset(found for _, found in named_values(value))
