"""Verification: are the effects and the answer of an episode right? (ToolOrchestra §3.3).

An episode is solved if and only if all three criteria hold against one of the task's reference trajectories:

1. *execution correctness*: the net change of the database equals the reference one; keys that tools generated
   are compared up to renaming, so that independent inserts may come in another order;
2. *process fidelity*: the answer has every piece of information to communicate in its slots
   (`toolorchestra.toolscale.answers.typed_answers`), or as prose mentions it
   (`toolorchestra.toolscale.answers.prose_answers`);
3. *operation completeness*: every entry that the reference trajectory wrote was written, and every one that it looked
   up by identity was looked up so too, or a result showed what the trajectory needs of it (see
   `toolorchestra.toolscale.tasks.observed`); where the right answer is a refusal, being refused by a guard counts too,
   and where it is one because a look-up finds nothing, something of that must have been looked for.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Literal

import msgspec

from toolorchestra.toolscale.answers.prose_answers import judge_mentions
from toolorchestra.toolscale.answers.typed_answers import TypedAnswer, judge_typed
from toolorchestra.toolscale.common.errors import TaskError
from toolorchestra.toolscale.database.database import Changes, Database, Row
from toolorchestra.toolscale.database.format import TableSpec
from toolorchestra.toolscale.tasks.net_changes import canonical, net_changes
from toolorchestra.toolscale.tasks.observed import Needed, Shown, argument_texts, needed_values, not_shown
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.tool import Entry, Status, Tool, ToolResult

ProseJudge = Callable[[str, Sequence[Sequence[str]]], list[str]]
"""Says what is wrong with an answer in prose: of the text, and the accepted phrases of each fact."""
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
        return "; ".join(dict.fromkeys(f"{failure.criterion}: {failure.message}" for failure in self.failures))


SOLVED = Verdict()
_MAX_JUDGED = 8  # answers to a task whose judgement is kept
_MAX_JUDGED_CHARACTERS = 2_000  # of one of them


class Reference(msgspec.Struct, frozen=True):
    """What a task's reference trajectories do, that of `reference_calls` first, and what is wrong in some answers.

    Rollouts of one task often end with the same answer, which is read once.
    """

    task: Task
    effects: tuple[ReferenceEffects, ...]
    judge_prose: ProseJudge = judge_mentions
    judged: dict[str, tuple[TypedAnswer | None, tuple[Failure, ...]]] = {}

    def fidelity(self, answer: str, typed: TypedAnswer | None) -> tuple[Failure, ...]:
        """Return what is wrong with an answer."""
        known = self.judged.get(answer)
        if known is not None and known[0] is typed:
            return known[1]
        wrong = self.judge_prose(answer, self.task.communicate) if typed is None else judge_typed(answer, typed)
        found = tuple(Failure("fidelity", message) for message in wrong)
        if len(self.judged) < _MAX_JUDGED and len(answer) <= _MAX_JUDGED_CHARACTERS:
            self.judged[answer] = typed, found
        return found


class ReferenceEffects(msgspec.Struct):
    """What a reference trajectory does.

    Attributes:
        touched: The rows that it touches.
        changes: What it changes, all in all.
        operated: The existing entries that it operates on.
        read: Those of them that it only looks up, with what it needs of each.
        sought: If it operates on nothing, the values that its look-ups take.
        canonical: What it changes in the form of `canonical`, once that was asked for.
    """

    touched: Changes
    changes: Changes
    operated: frozenset[Entry]
    read: Mapping[Entry, Needed]
    sought: frozenset[str] = frozenset()
    canonical: Counter[tuple[Any, ...]] | None = None


class Verifier:
    """Judges episodes of tasks against what their reference trajectories do.

    A reference trajectory is run once, on a session of the verifier's own, and what it does is remembered.

    Args:
        database: The initial database of the episodes.
        tools: The tools that reference trajectories call, by name.
        judge_prose: Says what is wrong with an answer in prose, given what must be communicated.
    """

    def __init__(self, database: Database, tools: Mapping[str, Tool], judge_prose: ProseJudge = judge_mentions) -> None:
        self.database = database
        self.tools = tools
        self.judge_prose = judge_prose
        self._session: Session | None = None
        self._references: dict[str, Reference] = {}

    def __getstate__(self) -> tuple[Database, Mapping[str, Tool], ProseJudge]:
        return self.database, self.tools, self.judge_prose

    def __setstate__(self, state: tuple[Database, Mapping[str, Tool], ProseJudge]) -> None:
        Verifier.__init__(self, *state)

    def verify(self, task: Task, session: Session, answer: str, typed: TypedAnswer | None = None) -> Verdict:
        """Judge an episode of `task` that ended with `answer`, its effects being in `session`.

        The answer is judged as prose, or slot by slot where it is `typed`.
        """
        known = self.reference(task)
        fidelity = known.fidelity(answer, typed)
        touched = session.touched()
        # a call that was refused has found out what a refusal reports
        operated = session.operated | session.refused if task.refuses else session.operated
        first: tuple[Failure, ...] | None = None
        for reference in known.effects:
            failures = self._execution(reference, touched) + _completeness(reference, operated, touched, session.shown)
            if task.refuses and reference.sought and not _is_sought(reference.sought, session):
                failures += (Failure("completeness", "nothing was looked up that shows that it cannot be done"),)
            if not failures:
                return Verdict(fidelity) if fidelity else SOLVED
            first = first or failures
        return Verdict((first or ()) + fidelity)

    def effects(self, task: Task) -> tuple[ReferenceEffects, ...]:
        """Return what each reference trajectory of a task does, that of `reference_calls` first."""
        return self.reference(task).effects

    def reference(self, task: Task) -> Reference:
        """Return what a task's reference trajectories do: they are run when first asked for."""
        known = self._references.get(task.id)
        if known is None or (known.task is not task and known.task != task):
            effects = tuple(self._effects(task, calls) for calls in (task.reference_calls, *task.alternatives))
            known = self._references[task.id] = Reference(task, effects, self.judge_prose)
        return known

    def results(self, task: Task) -> list[Any]:
        """Return the values of the results of a task's reference trajectory.

        Raises:
            TaskError: A call errs.
        """
        return [result.value for result in self._run(task.reference_calls)[1]]

    def _run(self, calls: Sequence[Call]) -> tuple[Session, list[ToolResult]]:
        """Run a reference trajectory and return the session as it leaves it, and the results of its calls.

        Raises:
            TaskError: A call errs.
        """
        if self._session is None:
            self._session = Session(self.database)
        session = self._session
        session.reset()
        results: list[ToolResult] = []
        for call in calls:
            tool = self.tools[call.name]
            result = session.call(tool, tool.decode(msgspec.json.encode(call.arguments)))
            if result.status is not Status.OK:
                raise TaskError(f"The reference call {call.name}({call.arguments}) errs: {result.error}")
            results.append(result)
        return session, results

    def _effects(self, task: Task, calls: Sequence[Call]) -> ReferenceEffects:
        """Run a reference trajectory of a task and return what it does.

        Raises:
            TaskError: A call errs.
        """
        session, results = self._run(calls)
        touched = session.touched()
        written = _entries(touched)
        existing = frozenset(entry for entry in session.operated | written if self.database.row(*entry) is not None)
        pairs = zip(calls, results, strict=True)
        by_writes = {e for call, result in pairs if self.tools[call.name].effect == "write" for e in result.operated}
        read = needed_values(task, calls, results, existing - written - by_writes)
        sought = frozenset[str]()
        if not existing and not touched:
            looks = (call.arguments for call in calls if self.tools[call.name].reads_rows)
            sought = frozenset(value for arguments in looks for value in argument_texts(arguments))
        return ReferenceEffects(touched, net_changes(self.database, touched), existing, read, sought)

    def forget(self) -> None:
        """Forget what reference trajectories do, which takes memory for every task; they are run again when needed."""
        self._references.clear()

    def _execution(self, reference: ReferenceEffects, touched: Changes) -> tuple[Failure, ...]:
        if touched == reference.touched:
            return ()
        changes = net_changes(self.database, touched)
        if changes == reference.changes:
            return ()
        expected = reference.canonical
        if expected is None:
            expected = reference.canonical = canonical(self.database, reference.changes)
        found = canonical(self.database, changes)
        if expected == found:
            return ()
        return _wrong_rows(self.database.tables, expected, found)


def _wrong_rows(
    tables: Mapping[str, TableSpec], expected: Counter[tuple[Any, ...]], found: Counter[tuple[Any, ...]]
) -> tuple[Failure, ...]:
    """Return what differs between canonical changes."""
    missing = {(entry, row) for entry, row, *_ in expected - found}
    surplus = {(entry, row) for entry, row, *_ in found - expected}
    failures = [_wrong_row(tables[entry[0]], entry, row, dict(surplus)) for entry, row in missing]
    named = {entry for entry, _ in missing if entry[1] is not None}
    for entry, row in surplus:
        if entry not in named:
            text = f"{_at(entry)} should not {'be there' if entry[1] is None else 'have become'}: "
            failures.append(Failure("execution", text + _shown(tables[entry[0]], row), entry))
    return tuple(sorted(failures, key=lambda failure: failure.message))


def _entries(changes: Changes) -> set[Entry]:
    return {(table, key) for table, rows in changes.items() for key in rows}


def _completeness(
    reference: ReferenceEffects, operated: Set[Entry], touched: Changes, shown: Sequence[Shown]
) -> tuple[Failure, ...]:
    missing = reference.operated - operated
    if missing:
        missing -= _entries(touched)
    if not missing:
        return ()
    read = {entry: needed for entry, needed in reference.read.items() if entry in missing}
    unseen = not_shown(read, shown)
    return tuple(
        Failure("completeness", _left_out(entry, read.get(entry)), entry)
        for entry in sorted(missing, key=repr)
        if entry not in read or entry in unseen
    )


def _is_sought(sought: frozenset[str], session: Session) -> bool:
    """Return whether a call of an episode took one of some values, whatever came of it."""
    taken = itertools.chain((shown.arguments for shown in session.shown), session.failed)
    return any(not sought.isdisjoint(argument_texts(arguments)) for arguments in taken)


def _left_out(entry: Entry, needed: Needed | None) -> str:
    """Return in words what was not seen of an entry, or where nothing is `needed`, that it was not written."""
    return (
        f"no call was for {_at(entry)}"
        if needed is None
        else f"{_at(entry)} was not looked up, and no result shows {needed}"
    )


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
