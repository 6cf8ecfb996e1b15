"""Look-ups: how a solver comes by the ids that calls take, where a request says names.

An id is known once the request or an earlier result shows it. Some ids are shown by the calls of the reference
trajectory itself; `Task.lookups` finds the others. Here stands which call shows which id, so that look-ups that nothing
needs can be left out of a task, and a solver knows which are still needed. Not covered: how look-ups are found
(`toolorchestra.toolscale.requests.wording`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from toolorchestra.toolscale.database.sql import quote
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.entities import is_code, is_date
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call, Task, after_lookups

_PUBLIC = 3  # letters of codes that everyone knows, DUB or EUR
_ID_WORDS = re.compile(r"[A-Za-z0-9]\w*(?:[-_/]\w+)*")
_PARTS = re.compile(r"[A-Za-z0-9]+")


class UnshownId(NamedTuple):
    """An id that a call takes although nothing before has shown it."""

    call: Call
    id: str


@functools.lru_cache(maxsize=64)
def raw_ids(domain: Domain) -> frozenset[str]:
    """Return the ids of a domain: keys that are codes, like ``O1126`` or ``PARSLEY``.

    Up to three capitals are none: codes of airports, countries and currencies are known to everyone.
    """
    found: set[str] = set()
    for name, table in domain.spec.tables.items():
        keys = [table.primary_key] if isinstance(table.primary_key, str) else table.primary_key
        for column in keys:
            if table.columns[column].type == "TEXT":
                rows = domain.database.base.execute(f"SELECT DISTINCT {quote(column)} FROM {quote(name)}")
                found.update(value for (value,) in rows if isinstance(value, str) and is_id(value))
    return frozenset(found)


def is_id(value: str) -> bool:
    """Return whether a key is a code that only the database tells; see `raw_ids`."""
    if len(value) <= _PUBLIC and value.isalpha():
        return False
    letters = any(character.isalpha() for character in value)
    return is_code(value) and letters and not is_date(value) and _ID_WORDS.fullmatch(value) is not None


def ids_in(text: str, ids: frozenset[str]) -> set[str]:
    """Return the ids that a text contains, parts of other ids included: "P03-MOSS-L" contains the id P03."""
    return set(ids.intersection(_ID_WORDS.findall(text))) | set(ids.intersection(_PARTS.findall(text)))


def ids_of_result(value: Any, ids: frozenset[str]) -> set[str]:
    """Return the ids that the result of a call contains."""
    return ids_in(msgspec.json.encode(value).decode(), ids)


def ids_taken(call: Call, ids: frozenset[str]) -> list[str]:
    """Return the ids among the arguments of a call."""
    return list(_ids_of(call.arguments, ids))


def _ids_of(value: Any, ids: frozenset[str]) -> Iterator[str]:
    if isinstance(value, dict | list):
        items: Callable[[], Iterable[Any]] = value.values if isinstance(value, dict) else lambda: value
        for item in items():
            yield from _ids_of(item, ids)
    elif isinstance(value, str) and value in ids:
        yield value


@functools.lru_cache(maxsize=64)
def _ids_of_rules(domain: Domain) -> frozenset[str]:
    return frozenset(ids_in(domain.rules, raw_ids(domain)))


def ids_known(domain: Domain, instruction: str, results: Iterable[Any] = ()) -> set[str]:
    """Return the ids that a request, the rules of the place and results of calls show."""
    ids = raw_ids(domain)
    known = ids_in(instruction, ids) | _ids_of_rules(domain)
    for value in results:
        known |= ids_of_result(value, ids)
    return known


def unshown_ids(domain: Domain, task: Task, path: Sequence[Call], session: Session) -> list[UnshownId]:
    """Return the ids that calls of a path take before the request or an earlier stage shows them, each once.

    `session` is used and reset.
    """
    ids, known = raw_ids(domain), ids_known(domain, task.instruction)
    found = []
    shown: set[str] = set()
    stage = -1
    for call, result in zip(path, _results(domain, path, session), strict=True):
        if call.stage != stage:
            known, stage = known | shown, call.stage
        for taken in ids_taken(call, ids):
            if taken not in known:
                found.append(UnshownId(call, taken))
                known.add(taken)
        shown |= ids_of_result(result, ids)
    return found


def finds(
    domain: Domain, instruction: str, lookups: Sequence[Call], calls: Sequence[Call], session: Session
) -> tuple[frozenset[str], ...]:
    """Return for each look-up of a request the ids that it is needed for, if `calls` are what is done.

    They are taken by calls, or by look-ups that are needed, and are shown neither by the request, nor by an earlier
    look-up, nor by those of `calls` that come before. `session` is used and reset.
    """
    ids, known = raw_ids(domain), ids_known(domain, instruction)
    path = after_lookups(lookups, calls)
    shown = [ids_of_result(result, ids) for result in _results(domain, path, session)]
    count = len(lookups)
    needed: set[str] = set()
    for call in path[count:]:
        before = (shown[i] for i in range(count, len(path)) if path[i].stage < call.stage)
        needed |= set(ids_taken(call, ids)) - known.union(*before)
    found: list[frozenset[str]] = []
    for place in reversed(range(count)):
        new = (shown[place] & needed) - known.union(*shown[:place])
        if new:
            needed |= set(ids_taken(lookups[place], ids)) - known
        found.append(frozenset(new))
    return tuple(reversed(found))


def with_needed_lookups(domain: Domain, task: Task, session: Session) -> Task:
    """Return a task without the look-ups that none of its reference trajectories needs; `session` is used and reset."""
    if not task.lookups:
        return task
    trajectories = (task.reference_calls, *task.alternatives)
    paths = [finds(domain, task.instruction, task.lookups, calls, session) for calls in trajectories]
    needed = [any(found) for found in zip(*paths, strict=True)]
    kept = (call for call, is_needed in zip(task.lookups, needed, strict=True) if is_needed)
    return msgspec.structs.replace(task, lookups=joined(kept))


def with_later_stages(domain: Domain, task: Task, session: Session) -> Task:
    """Return a task in which no call stands in a stage whose other calls show an id that it takes, but in a later one.

    Steps of an intent may be `parallel` in a domain where a request states an id, and need each other's results where
    it states a name. `session` is used and reset.
    """
    first, *others = (_later(domain, task, calls, session) for calls in (task.reference_calls, *task.alternatives))
    return msgspec.structs.replace(task, reference_calls=first, alternatives=tuple(others))


def _later(domain: Domain, task: Task, calls: Sequence[Call], session: Session) -> tuple[Call, ...]:
    ids, known = raw_ids(domain), ids_known(domain, task.instruction)
    results = _results(domain, (*task.lookups, *calls), session)
    count = len(task.lookups)
    known.update(*(ids_of_result(result, ids) for result in results[:count]))
    staged: list[Call] = []
    shown: set[str] = set()
    added = 0
    for call, result in zip(calls, results[count:], strict=True):
        begins = bool(staged) and staged[-1].stage < call.stage + added
        if not begins and not shown.isdisjoint(set(ids_taken(call, ids)) - known):
            added += 1
            begins = True
        if begins:
            known, shown = known | shown, set()
        shown |= ids_of_result(result, ids)
        staged.append(msgspec.structs.replace(call, stage=call.stage + added))
    return tuple(staged)


def joined(lookups: Iterable[Call]) -> tuple[Call, ...]:
    """Return look-ups for several things as one list: in the order of their stages, each once, no stage empty."""
    calls: dict[bytes, Call] = {}
    for call in lookups:
        key = msgspec.json.encode((call.name, call.arguments), order="sorted")
        known = calls.get(key)
        if known is None or call.stage < known.stage:
            calls[key] = call
    stages = sorted({call.stage for call in calls.values()})
    ordered = sorted(calls.values(), key=lambda call: call.stage)
    return tuple(msgspec.structs.replace(call, stage=stages.index(call.stage)) for call in ordered)


def _results(domain: Domain, path: Sequence[Call], session: Session) -> list[Any]:
    """Return what the calls of a path return from the initial state on; None for one that errs."""
    session.reset()
    values = [domain.call(call, session).value for call in path]
    session.reset()
    return values
