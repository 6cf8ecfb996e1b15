"""Episodes that do something else than a reference trajectory and then give the right answer: what `validate` tries.

What is done may lead to the same state by chance, or because it was undone; such an episode is right, since what counts
is the net change of the world. `differs` tells them apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from toolorchestra.toolscale.database.database import Changes
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.net_changes import net_changes
from toolorchestra.toolscale.tasks.observed import shown_values
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.tool import Status

_MAX_UNDONE = 40  # pairs of a write and what undoes it that are kept for other tasks


class Detours:
    """Makes the episodes of a domain's tasks that take a detour.

    Args:
        domain: The domain.
        session: A session in it.
    """

    def __init__(self, domain: Domain, session: Session) -> None:
        self.domain = domain
        self.session = session
        self._undone: list[tuple[Call, ...]] = []

    def of(self, task: Task, siblings: Sequence[Task]) -> Iterator[tuple[str, Sequence[Call]]]:
        """Yield detours: their name, and the calls. `siblings` are other tasks of the intent."""
        calls, tools = task.reference_calls, self.domain.tools
        if all(effects.operated or effects.touched for effects in self.domain.verifier.effects(task)):
            yield "nothing done", ()
        writes = [position for position, call in enumerate(calls) if tools[call.name].effect == "write"]
        if pair := next((pair for pair in self._undone if not set(_named(pair)) & set(_named(calls))), None):
            yield "extra writes that cancel", [*calls, *pair]
        other = next((one for one in siblings if one.reference_calls != calls), None)
        if other is not None:
            yield "another entity", other.reference_calls
        if not writes:
            return
        yield "every write twice", [c for i, call in enumerate(calls) for c in [call] * (1 + (i in writes))]
        if len(writes) > 1:
            yield "writes in reverse", _reversed(calls, writes)
        yield "reads only", [call for i, call in enumerate(calls) if i not in writes]
        if undoing := self._undo(calls):
            yield "write and undo", [*calls, undoing]

    def differs(self, task: Task, calls: Sequence[Call]) -> bool:
        """Return whether calls insert, delete or change another number of rows than all reference trajectories do.

        The numbers are counted here, apart from the comparison by which the verifier judges.
        """
        self.session.reset()
        for call in calls:
            self.domain.call(call, self.session)
        count = self._count(self.session.touched())
        return all(count != self._count(effects.touched) for effects in self.domain.verifier.effects(task))

    def _count(self, touched: Changes) -> Counter[tuple[str, bool, bool]]:
        """Return how many rows of each table differ from the initial ones; whether these were and are there."""
        found: Counter[tuple[str, bool, bool]] = Counter()
        for table, rows in touched.items():
            for key, row in rows.items():
                before = self.domain.database.row(table, key)
                found[table, before is not None, row is not None] += before != row
        return +found

    def _undo(self, calls: Sequence[Call]) -> Call | None:
        """Return a call after which the calls have changed nothing, made of their own arguments and results."""
        values: dict[str, list[Any]] = defaultdict(list)
        results = self._state(calls, values)
        if results is None:
            return None
        for name, tool in self.domain.tools.items():
            needed = [key for key, parameter in tool.parameters.items() if parameter.required]
            if tool.effect != "write" or not needed or not all(values[key] for key in needed):
                continue
            undoing = Call(name, {key: values[key][-1] for key in needed})
            if self._changes_nothing([*calls, undoing]):
                if len(self._undone) < _MAX_UNDONE:
                    self._undone.append((*calls, undoing))
                return undoing
        return None

    def _state(self, calls: Sequence[Call], values: dict[str, list[Any]]) -> bool | None:
        """Make calls and collect arguments and results by name; None if one errs or if they change nothing."""
        domain, session = self.domain, self.session
        session.reset()
        for call in calls:
            result = domain.call(call, session)
            if result.status is not Status.OK:
                return None
            for name, value in (*call.arguments.items(), *shown_values(result.value)):
                values[name].append(value)
        return True if net_changes(domain.database, session.touched()) else None

    def _changes_nothing(self, calls: Sequence[Call]) -> bool:
        domain, session = self.domain, self.session
        session.reset()
        if any(domain.call(call, session).status is not Status.OK for call in calls):
            return False
        return not net_changes(domain.database, session.touched())


def _named(calls: Sequence[Call]) -> list[str]:
    """Return the values that calls name."""
    return [msgspec.json.encode(value).decode() for call in calls for value in call.arguments.values()]


def _reversed(calls: Sequence[Call], writes: Sequence[int]) -> list[Call]:
    """Return the calls with those that write in the reverse order."""
    order = dict(zip(writes, reversed(writes), strict=True))
    return [calls[order.get(position, position)] for position in range(len(calls))]
