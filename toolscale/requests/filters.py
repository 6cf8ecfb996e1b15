"""Filters of a set of tasks, and the report of what they dropped.

`apply_filters` runs, in this order:

1. *reference call errs*: a reference trajectory does not run, or its answer does not pass;
2. *solvable without action*: doing and saying nothing passes;
3. *unsolved*: no solver solved it in k attempts (only with solvers);
4. *exact duplicate*: the same instruction;
5. *same intent and bindings*: the same request in other words;
6. *near-duplicate*: the same reference trajectory and the same values, asked in nearly the same words;
7. *leak between splits*: a training task that shares its solution, or its bindings within an intent, with a test
   task, or a task whose parent is in another split.

Tasks that nobody has read (with `guessers`) are dropped also if

8. *request states the answer*, in any spelling;
9. *the usual answer*: it answers more than half of what the intent asks, or of what is then left;
10. *solved by a guesser* in k attempts;
11. *judged wrongly*: the verifier takes a wrong episode of it for right, or a right one for wrong;
12. *solved by guessing*: the best strategy without calls solves it;
13. *few left of the intent*: fewer than three, because others of its tasks were dropped.

Of duplicates the first is kept. A near-duplicate has the same reference calls, information to communicate and values
in the instruction, and at least `NEAR` of its words (multiset Jaccard). Candidates come from an inverted index over the
rarest words, so the work grows with the tasks and not with their pairs. Leaks are dropped from the training split.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.errors import OptionError, TaskError
from toolorchestra.toolscale.common.writing import write_whole
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.entities import scalars
from toolorchestra.toolscale.requests.sense_checks import unread_checks
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Task, solution, solution_key

Solver = Callable[[Domain, Task, int], bool]
"""Plays a task with a seed, and returns whether it solved it."""

NEAR = Fraction(4, 5)
"""Least multiset Jaccard similarity of the words of near-duplicates."""

EXAMPLES = 5
"""Ids of dropped tasks that the report names, for each filter."""


class FilterResult(msgspec.Struct, frozen=True):
    """How many tasks a filter kept and dropped, and some of those dropped: id and reason.

    `solved` is how many tasks each solver solved, where all of them tried.
    """

    name: str
    kept: int
    dropped: int
    examples: list[str] = []
    solved: dict[str, int] | msgspec.UnsetType = msgspec.UNSET


class Stage(msgspec.Struct, frozen=True):
    """A stage of synthesis and its filters, in the order run."""

    name: str
    filters: list[FilterResult]


class NotRun(msgspec.Struct, frozen=True):
    """A filter that did not run, and why."""

    name: str
    why: str


class Report(msgspec.Struct):
    """What synthesis kept and dropped: ``report.json``."""

    domain: str
    stages: list[Stage] = []
    not_run: list[NotRun] = []

    @property
    def dropped(self) -> Counter[str]:
        """What was dropped after the build, by filter, as ``build.json`` lists it."""
        found = [one for stage in self.stages if stage.name != BUILD for one in stage.filters]
        return Counter({f"filter: {one.name}": one.dropped for one in found if one.dropped})

    def save(self, file: Path) -> None:
        """Write the report as JSON."""
        write_whole(file, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


BUILD = "build"
"""Name of the stage in which tasks are made."""


def apply_filters(
    domain: Domain,
    tasks: Sequence[Task],
    *,
    solvers: Mapping[str, Solver] | None = None,
    k: int = 8,
    every: bool = False,
    guessers: Mapping[str, Solver] | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> tuple[list[Task], Report]:
    """Return the tasks of a domain that pass all filters, in their order, and the report.

    Args:
        domain: The domain.
        tasks: Its tasks.
        solvers: Solvers by name; a task that none of them solves in `k` attempts is dropped.
        k: Attempts of each solver, with the seeds 0 to k - 1.
        every: Let every solver try each task, so that the report says how many each solves; otherwise a task that one
            has solved is not tried again.
        guessers: Of a domain that nobody has read: policies without understanding; a task that one solves is dropped.
        progress: Called with a filter's name, the number of tasks it has checked, and how many there are.
    """
    if k < 1:
        raise OptionError(f"Expected at least one attempt of each solver, got k = {k}.")
    report = Report(domain.name, [_build_stage(domain, len(tasks))])
    session = domain.session()
    solved: Counter[str] = Counter()
    checks: dict[str, Callable[[list[Task]], Iterator[str]]] = {
        "reference call errs": lambda left: (_error(domain, task, session) for task in left),
        "solvable without action": lambda left: (
            "solved by doing and saying nothing" if domain.replay(task, (), "", session).solved else "" for task in left
        ),
        f"unsolved in pass@{k}": lambda left: (
            _unsolved(domain, task, solvers or {}, k, solved if every else None) for task in left
        ),
        "exact duplicate": lambda left: _repeated(left, lambda task: " ".join(task.instruction.split())),
        "same intent and bindings": lambda left: _repeated(left, lambda task: (task.intent, _json(task.bindings))),
        "near-duplicate": _near,
        "leak between splits": _leaks,
    }
    checks |= unread_checks(domain, tasks, guessers, k) if guessers is not None else {}
    left, results = list(tasks), []
    for name, check in checks.items():
        if name.startswith("unsolved") and not solvers:
            report.not_run.append(NotRun(name, "no solver was given"))
            continue
        judged = list(zip(left, _watched(name, check(left), len(left), progress), strict=True))
        gone = [f"{task.id}: {reason}" for task, reason in judged if reason]
        left = [task for task, reason in judged if not reason]
        counted = every and name.startswith("unsolved")
        by_solver = {solver: solved[solver] for solver in solvers or ()} if counted else msgspec.UNSET
        results.append(FilterResult(name, len(left), len(gone), gone[:EXAMPLES], by_solver))
    session.close()
    report.stages.append(Stage("filter", results))
    return left, report


def _watched(
    name: str, reasons: Iterable[str], count: int, progress: Callable[[str, int, int], object] | None
) -> Iterator[str]:
    for done, reason in enumerate(reasons, 1):
        if progress is not None:
            progress(name, done, count)
        yield reason


def _build_stage(domain: Domain, made: int) -> Stage:
    """Return what building the domain dropped, by reason, as a stage."""
    found: Counter[str] = Counter()
    where: dict[str, list[str]] = defaultdict(list)
    for entry, count in domain.dropped.items():
        source, _, reason = entry.partition(": ")
        found[reason] += count
        where[reason].append(f"{source}: {count}")
    results = [FilterResult(reason, made, count, where[reason][:EXAMPLES]) for reason, count in found.most_common()]
    return Stage(BUILD, results or [FilterResult("reference trajectory", made, 0)])


def _error(domain: Domain, task: Task, session: Session) -> str:
    try:
        verdict = domain.replay(task, task.reference_calls, task.answer, session)
    except (TaskError, KeyError) as error:
        return f"{error}"
    return "" if verdict.solved else str(verdict)


def _unsolved(
    domain: Domain, task: Task, solvers: Mapping[str, Solver], k: int, counts: Counter[str] | None = None
) -> str:
    """Return why a task is unsolved, or nothing; `counts` gets the solvers that solve it, if all are to try."""
    if counts is None:
        solved = any(solver(domain, task, seed) for seed in range(k) for solver in solvers.values())
    else:
        able = [name for name, solver in solvers.items() if any(solver(domain, task, seed) for seed in range(k))]
        counts.update(able)
        solved = bool(able)
    return "" if solved else f"not solved by {', '.join(solvers)}"


def _repeated(tasks: Iterable[Task], key: Callable[[Task], Any]) -> Iterator[str]:
    first: dict[Any, str] = {}
    for task in tasks:
        found = first.setdefault(key(task), task.id)
        yield "" if found == task.id else f"like {found}"


def _near(tasks: list[Task]) -> Iterator[str]:
    """Yield for each task why it is a near-duplicate of an earlier one that is kept, or "".

    Multisets of n and m words with a Jaccard similarity of at least t share at least a = t (n + m) / (1 + t) words, so
    the rarest word that they share is among the n - a + 1 rarest of the first (prefix filtering; any order of words
    does that is the same for all). Words are therefore looked up by the size of the multisets that hold them.
    """
    bags = [_bag(task) for task in tasks]
    rare = Counter(word for bag in bags for word in bag)
    index: dict[tuple[bytes, int, tuple[str, int]], list[int]] = defaultdict(list)
    for place, (task, bag) in enumerate(zip(tasks, bags, strict=True)):
        words = sorted(bag, key=lambda word: (rare[word], word))
        size, group = len(words), _digest(solution(task), task.operator, _values(task))
        nearby: dict[int, None] = {}
        for other_size in range(math.ceil(NEAR * size), math.floor(size / NEAR) + 1):
            shared = math.ceil(NEAR / (1 + NEAR) * (size + other_size))
            for word in words[: size - shared + 1]:
                nearby.update(dict.fromkeys(index.get((group, other_size, word), ())))
        twin = next((other for other in nearby if _similarity(bag, bags[other]) >= NEAR), None)
        yield "" if twin is None else f"like {tasks[twin].id}"
        if twin is None:
            for word in words[: size - math.ceil(NEAR * size) + 1]:
                index[group, size, word].append(place)


def _bag(task: Task) -> frozenset[tuple[str, int]]:
    """Return the words of an instruction as a multiset: the second "the" is another element than the first."""
    counts = Counter(tokens(task.instruction))
    return frozenset((word, number) for word, count in counts.items() for number in range(1, count + 1))


def _similarity(one: frozenset[Any], other: frozenset[Any]) -> Fraction:
    shared = len(one & other)
    return Fraction(shared, max(1, len(one) + len(other) - shared))


def _values(task: Task) -> list[str]:
    """Return the values of a task that its instruction says."""
    given = scalars([task.bindings, *(call.arguments for call in task.reference_calls)])
    values = {token for value in given for token in tokens(str(value))}
    return sorted(word for word, _ in _bag(task) if word in values or word[0] in "#@~")


def _leaks(tasks: list[Task]) -> Iterator[str]:
    """Yield for each task why it leaks, or nothing."""
    split = {task.id: task.split for task in tasks}
    tested: dict[bytes, str] = {}
    for task in tasks:
        if task.split != "train":
            tested.setdefault(solution_key(task), task.id)
            tested.setdefault(_digest(task.intent, task.bindings), task.id)
    for task in tasks:
        parents = [task.parent, task.bindings.get("evolved", {}).get("with")] if task.operator is not None else []
        strange = next((parent for parent in parents if split.get(parent or "", task.split) != task.split), None)
        twin = None
        if task.split == "train":
            twin = tested.get(solution_key(task)) or tested.get(_digest(task.intent, task.bindings))
        if strange is not None:
            yield f"its parent {strange} is in {split[strange]}"
        else:
            yield f"solved like {twin} of {split[twin]}" if twin is not None else ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _digest(*parts: Any) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(parts, order="sorted"), digest_size=12).digest()
