"""Verification: is what an episode did and said right? (ToolOrchestra §3.3).

An episode is solved if and only if all three criteria hold against one of the task's reference trajectories:

1. *execution correctness*: the net change of the database equals the reference one; keys that tools generated
   are compared up to renaming, so that independent inserts may come in another order;
2. *process fidelity*: what the user was told mentions every piece of information to communicate;
3. *operation completeness*: every entry that the reference trajectory wrote or looked up by identity was written or
   looked up by identity.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toolorchestra.toolscale.errors import TaskError
from toolorchestra.toolscale.format import TableSpec
from toolorchestra.toolscale.mentions import mentions, tokens
from toolorchestra.toolscale.session import Changes, Row, Session
from toolorchestra.toolscale.sqltool import primary_key
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import Entry, Status

if TYPE_CHECKING:
    from toolorchestra.toolscale.domain import Domain

Criterion = Literal["execution", "fidelity", "completeness", "answer"]
"""What may not hold. The last is that of questions, which have only an answer to be right."""


class Failure(msgspec.Struct, frozen=True):
    """One thing that is not right: the criterion, what was found, and the entry it was found on."""

    criterion: Criterion
    message: str
    entry: Entry | None = None


class Verdict(msgspec.Struct, frozen=True):
    """The judgement of an episode. It is solved when nothing failed."""

    failures: tuple[Failure, ...] = ()

    @property
    def solved(self) -> bool:
        """Whether all three criteria hold."""
        return not self.failures

    def __str__(self) -> str:
        if self.solved:
            return "solved"
        return "; ".join(f"{failure.criterion}: {failure.message}" for failure in self.failures)


SOLVED = Verdict()


class ReferenceEffects(msgspec.Struct, frozen=True):
    """What a reference trajectory does: rows touched, net changes, and existing entries operated on."""

    touched: Changes
    changes: Changes
    operated: frozenset[Entry]


def reference_effects(domain: Domain, calls: Iterable[Call]) -> ReferenceEffects:
    """Run a reference trajectory on a session of its own and return what it does.

    Raises:
        TaskError: A call errs.
    """
    session = domain.scratch
    session.reset()
    for call in calls:
        tool = domain.tools[call.name]
        result = session.call(tool, tool.decode(msgspec.json.encode(call.arguments)))
        if result.status is not Status.OK:
            raise TaskError(f"The reference call {call.name}({call.arguments}) errs: {result.error}")
    touched = session.touched()
    operated = session.operated | _entries(touched)
    existing = frozenset(entry for entry in operated if domain.base_row(*entry) is not None)
    return ReferenceEffects(touched, net_changes(domain, touched), existing)


def verify(domain: Domain, task: Task, session: Session, answer: str) -> Verdict:
    """Judge an episode of `task` that ended with `answer`, its effects being in `session`."""
    told = tokens(answer) if task.communicate else []
    unsaid = [options for options in task.communicate if not any(map(mentions, repeat(told), options))]
    touched = session.touched()
    fidelity = tuple(Failure("fidelity", f"the user was not told {_any_of(options)}") for options in unsaid)
    first: tuple[Failure, ...] | None = None
    for path in domain.reference_effects_of(task):
        failures = _execution(domain, path, touched) + _completeness(path, session.operated, touched)
        if not failures:
            return Verdict(fidelity) if fidelity else SOLVED
        first = first or failures
    return Verdict((first or ()) + fidelity)


def _any_of(options: tuple[str, ...]) -> str:
    return " or ".join(map(repr, options))


def _entries(changes: Changes) -> set[Entry]:
    return {(table, key) for table, rows in changes.items() for key in rows}


def _completeness(path: ReferenceEffects, operated: set[Entry], touched: Changes) -> tuple[Failure, ...]:
    missing = path.operated - operated
    if not missing:
        return ()
    missing -= _entries(touched)
    return tuple(
        Failure("completeness", f"the entry {table}[{key!r}] was not operated on", (table, key))
        for table, key in sorted(missing, key=repr)
    )


def _execution(domain: Domain, path: ReferenceEffects, touched: Changes) -> tuple[Failure, ...]:
    if touched == path.touched:
        return ()
    changes = net_changes(domain, touched)
    if changes == path.changes:
        return ()
    expected, found = _canonical(domain, path.changes), _canonical(domain, changes)
    if expected == found:
        return ()
    missing = {(entry, row) for entry, row, *_ in expected - found}
    surplus = {(entry, row) for entry, row, *_ in found - expected}
    tables = domain.spec.tables
    failures = [_wrong_row(tables[entry[0]], entry, row, dict(surplus)) for entry, row in missing]
    named = {entry for entry, _ in missing if entry[1] is not None}
    for entry, row in surplus:
        if entry not in named:
            text = f"{_at(entry)} should not {'be there' if entry[1] is None else 'have become'}: "
            failures.append(Failure("execution", text + _shown(tables[entry[0]], row), entry))
    return tuple(sorted(failures, key=lambda failure: failure.message))


def _wrong_row(table: TableSpec, entry: Entry, row: Row | None, found: dict[Entry, Row | None]) -> Failure:
    """Return the failure of a reference row change that is not there; `found` has what changed instead."""
    if entry[1] is None:
        text = f"{_at(entry)} is missing: {_shown(table, row)}"
    elif entry not in found:
        text = f"{_at(entry)} was left as it was, and should be {_shown(table, row)}"
    else:
        text = f"{_at(entry)} is {_shown(table, found[entry])}, and should be {_shown(table, row)}"
    return Failure("execution", text, entry)


def _at(entry: Entry) -> str:
    table, key = entry
    return f"a new row of {table}" if key is None else f"{table}[{key!r}]"


def _shown(table: TableSpec, row: Row | None) -> str:
    """Return a row as ``column=value`` pairs; blank cells (ignored, or made by a tool) are left out."""
    if row is None:
        return "deleted"
    cells = zip(table.columns, row, strict=True)
    return "(" + ", ".join(f"{name}={value!r}" for name, value in cells if value is not None) + ")"


def net_changes(domain: Domain, touched: Changes) -> Changes:
    """Return the rows of `touched` that differ from the initial database, normalised for comparison."""
    changes: Changes = {}
    for table, rows in touched.items():
        spec = domain.spec.tables[table]
        for key, row in rows.items():
            before = domain.base_row(table, key)
            now = _normal(spec, row)
            if now != _normal(spec, before):
                changes.setdefault(table, {})[key] = now
    return changes


def _normal(spec: TableSpec, row: Row | None) -> Row | None:
    """Return a row as verification compares it: ignored columns blank, free text as words, floats rounded."""
    if row is None:
        return None
    cells: list[Any] = []
    for value, column in zip(row, spec.columns.values(), strict=True):
        if column.compare == "ignore":
            cells.append(None)
        elif column.compare == "text" and isinstance(value, str):
            cells.append(" ".join(tokens(value)))
        else:
            cells.append(round(value, 6) if isinstance(value, float) else value)
    return tuple(cells)


def _canonical(domain: Domain, changes: Changes) -> Counter[tuple[Any, ...]]:
    """Return changes as a multiset that does not depend on the names of generated keys.

    Inserted rows are nodes of a graph whose edges are their references to one another. Each gets a colour from
    its values and, round by round, from the colours of the rows it refers to and is referred to by
    (Weisfeiler-Leman refinement, exact for the trees that references between new rows form). Each element is
    ``((table, key), row, colour)``, with the key None and generated cells blank for an inserted row.
    """
    tables = domain.spec.tables
    new = {
        (table, key)
        for table, rows in changes.items()
        for key, row in rows.items()
        if row is not None and domain.base_row(table, key) is None
    }
    blank: dict[Entry, Row | None] = {}
    edges: dict[Entry, list[tuple[str, Entry]]] = defaultdict(list)
    for table, rows in changes.items():
        spec = tables[table]
        generated = set(primary_key(spec)) if spec.generated_key else set()
        for key, row in rows.items():
            if row is None:
                blank[table, key] = None
                continue
            cells: list[Any] = []
            for value, (name, column) in zip(row, spec.columns.items(), strict=True):
                target = (column.references.split(".")[0], value) if column.references else None
                if target in new and target is not None:
                    edges[table, key].append((name, target))
                    cells.append(None)
                else:
                    cells.append(None if name in generated and (table, key) in new else value)
            blank[table, key] = tuple(cells)
    colours = {entry: _digest(entry[0], blank[entry]) for entry in new}
    for _ in range(min(len(new), 8)):
        back: dict[Entry, list[tuple[str, str, str]]] = defaultdict(list)
        for source, targets in edges.items():
            for name, target in targets:
                back[target].append((source[0], name, colours.get(source, repr(source))))
        colours = {
            entry: _digest(colours[entry], [(name, colours[to]) for name, to in edges[entry]], sorted(back[entry]))
            for entry in new
        }
    found: Counter[tuple[Any, ...]] = Counter()
    for (table, key), row in blank.items():
        refers = tuple((name, colours[target]) for name, target in edges[table, key])
        is_new = (table, key) in new and (tables[table].generated_key or bool(refers))
        colour = colours[table, key] if is_new else ""
        found[(table, None if is_new else key), row, colour, refers] += 1
    return found


def _digest(*parts: Any) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()
