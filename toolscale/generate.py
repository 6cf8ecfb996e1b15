"""Tasks at scale: tens of thousands of verified tasks of any domains, without a model, streamed to a file.

Workers make *blocks* of tasks: all bindings of an intent, or some tasks by one operator of evolution with a
seed of their own. The blocks are taken in a fixed order, repeated tasks dropped and new ones numbered, so the
result depends on the seed and not on the number of workers. Of a training task and a test task with the same solution
the first is kept. Memory grows by some bytes a task, and an operator that makes few new tasks in a domain is dropped.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count as count_from, islice, product
from pathlib import Path
from typing import Literal, NamedTuple, cast

import msgspec

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.database.format import Operator
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.evolution.evolution import Evolver, numbered
from toolorchestra.toolscale.evolution.operators import OPERATORS
from toolorchestra.toolscale.requests.intents import intent_tasks
from toolorchestra.toolscale.tasks.task import Task, solution_key, write_tasks
from toolorchestra.toolscale.workers.units import Executor, InProcess, Unit

BLOCK = 50
"""Evolved tasks wanted in one block."""

BASE_SHARE = 0.5
"""Largest share of a domain's tasks that are not evolved."""

_MIN_NEW_SHARE = 0.2  # share of a block that must be new, or its operator is retired


class TaskBlock(NamedTuple):
    """The tasks of an intent, or tasks by an operator."""

    domain: str
    kind: Literal["intent", "evolve"]
    name: str
    number: int
    size: int


class Generated(msgspec.Struct, frozen=True):
    """Tasks requested and made (fewer when the domains give no more), tasks by kind, and candidates dropped by reason.

    Tasks that are not evolved are counted under the operator "none".
    """

    requested: int
    made: int
    domains: dict[str, int]
    operators: dict[str, int]
    splits: dict[str, int]
    dropped: dict[str, int]


def generate(
    domains: Sequence[str],
    count: int,
    file: Path,
    *,
    seed: int = 0,
    executor: Executor | None = None,
    progress: Callable[[int], object] | None = None,
) -> Generated:
    """Generate verified tasks into a JSONL file, which appears whole or not at all.

    Args:
        domains: Names or folders of domains; each gives an equal share.
        count: Tasks to make.
        file: File to write.
        seed: The same seed gives the same file.
        executor: Makes blocks with its workers; by default they are made in this process.
        progress: Called with the number of tasks made, now and then.

    Raises:
        OptionError: An option has a wrong value, or no task can be made.
        OutputError: The file cannot be written, or another process writes it.
    """
    if count < 1:
        raise OptionError(f"Expected at least one task, got {count}.")
    if not domains or len(set(domains)) < len(domains):
        raise OptionError(f"Expected different domains, got {', '.join(domains) or 'none'}.")
    taker = _Taker({name: len(range(i, count, len(domains))) for i, name in enumerate(domains)})
    write_tasks(file, _watched(taker.tasks(seed, executor or InProcess()), progress))
    return Generated(
        requested=count,
        made=taker.made.total(),
        domains=dict(taker.made),
        operators=dict(taker.operators),
        splits=dict(taker.splits),
        dropped=dict(taker.dropped),
    )


def _watched(tasks: Iterator[Task], progress: Callable[[int], object] | None) -> Iterator[Task]:
    for number, task in enumerate(tasks, 1):
        yield task
        if progress is not None and number % BLOCK == 0:
            progress(number)


class _Taker:
    """Takes the tasks of blocks in order until every domain has its share; `shares` are numbers of tasks by domain."""

    def __init__(self, shares: Mapping[str, int]) -> None:
        self.made: Counter[str] = Counter(dict.fromkeys(shares, 0))
        self.operators: Counter[str] = Counter()
        self.splits: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self._shares = shares
        self._retired: set[tuple[str, str]] = set()
        self._numbers: Counter[str] = Counter()
        self._seen: set[bytes] = set()
        self._solutions: dict[bool, set[bytes]] = {True: set(), False: set()}  # by whether they are trained on

    def tasks(self, seed: int, executor: Executor) -> Iterator[Task]:
        """Yield the tasks."""
        ahead: deque[TaskBlock] = deque()  # handed out, their tasks not yet taken

        def units() -> Iterator[Unit]:
            for block in self._blocks():
                if self._wanted(block):  # what was taken since it was listed may have been enough
                    ahead.append(block)
                    yield Unit(("tasks", *block), _made, (block, seed))

        with contextlib.closing(executor.run(units())) as made:
            for content in made:
                block = ahead.popleft()
                if self._wanted(block):
                    yield from self._new(block, content)

    def _blocks(self) -> Iterator[TaskBlock]:
        """Yield the blocks that are wanted, out of a sequence that is always the same."""
        intents = {name: list(load_domain(name).spec.intents) for name in self._shares}
        for name, share in self._shares.items():
            size = math.ceil(share * BASE_SHARE / max(1, len(intents[name])))
            for intent in intents[name] if share else ():
                yield TaskBlock(name, "intent", intent, 0, size)
        for number in count_from():
            pairs = product(self._shares, OPERATORS)
            blocks = [TaskBlock(name, "evolve", operator, number, BLOCK) for name, operator in pairs]
            wanted = [block for block in blocks if self._wanted(block)]
            if not wanted:
                return
            yield from wanted

    def _wanted(self, block: TaskBlock) -> bool:
        missing = self.made[block.domain] < self._shares[block.domain]
        return missing and (block.domain, block.name) not in self._retired

    def _new(self, block: TaskBlock, content: bytes) -> Iterator[Task]:
        """Yield the new tasks of a block, numbered, as far as they are wanted."""
        found, dropped = msgspec.json.decode(content, type=tuple[dict[str, Task], dict[str, int]])
        self.dropped.update(dropped)
        new = 0
        for key, task in found.items():
            digests = {_digest(task.domain, task.instruction), _digest(task.domain, block.name, key)}
            if digests & self._seen:
                self.dropped[f"{block.name}: made before"] += 1
                continue
            solution = solution_key(task)
            if solution in self._solutions[task.split != "train"]:
                self.dropped[f"{block.name}: solved like a task of another split"] += 1
                continue
            new += 1
            self._seen |= digests
            self._solutions[task.split == "train"].add(solution)
            if self.made[block.domain] == self._shares[block.domain]:
                break
            task = numbered(task, self._numbers) if block.kind == "evolve" else task
            self.made[block.domain] += 1
            self.operators[task.operator or "none"] += 1
            self.splits[task.split] += 1
            yield task
        if block.kind == "evolve" and new < block.size * _MIN_NEW_SHARE:
            self._retired.add((block.domain, block.name))


def _digest(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()


def _made(block: TaskBlock, seed: int) -> bytes:
    """Return the tasks of a block by their keys, and what was dropped, as JSON."""
    domain = load_domain(block.domain)
    if block.kind == "intent":
        dropped: Counter[str] = Counter()
        with contextlib.closing(domain.session()) as session:
            tasks = islice(intent_tasks(domain, block.name, session, set(), dropped), block.size)
            found = {msgspec.json.encode(task.bindings, order="sorted").decode(): task for task in tasks}
    else:
        operator = cast("Operator", block.name)
        key = f"{seed}:{domain.name}:{operator}:{block.number}"
        found, dropped = _evolver(domain).tasks(operator, key, block.size)
    domain.verifier.forget()
    return msgspec.json.encode((found, dropped))


@functools.cache
def _evolver(domain: Domain) -> Evolver:
    """Return the evolver of a domain; there is one in each process."""
    return Evolver(domain, domain.tasks())
