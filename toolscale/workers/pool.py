"""What pools of workers share: results in order, bounded memory, and units done again whose worker has ended."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Generic, Literal, Self, TypeVar

import msgspec

from toolorchestra.toolscale.errors import OptionError, ResumableError
from toolorchestra.toolscale.workers.units import Unit, failure, outcome, packed

WorkerT = TypeVar("WorkerT")
"""What stands for a worker in the process of the command; hashable."""
Event = tuple[WorkerT, Literal["ready", "done", "ended"], bytes]
"""News of a worker: it has started, it has done its oldest unit (with the outcome), or it has ended."""

_QUEUED = 2  # units given to a worker at a time, so that it need not wait for the next one
_AHEAD = 4  # units for each worker that may be done or under way beyond the oldest result still missing
_PATIENCE = 300.0  # seconds in which at least one worker must have started


class WorkerError(ResumableError):
    """Workers end again and again, over one unit or when they start; what was recorded is kept."""


class _Job(msgspec.Struct, eq=False):
    """A unit under way: its place in the order, and how often its worker has ended over it."""

    place: int
    unit: Unit
    ended: int = 0


class WorkerPool(ABC, Generic[WorkerT]):
    """An executor whose workers are other processes, which stay until the pool is closed.

    A worker that ends is replaced, and what it had under way is done again; each unit has exactly one result. Of the
    units that it was given, only the oldest was being done: it may have ended the worker, and is done again
    `max_retries` times at most.
    Subclasses implement `_start`, `_give`, `_news` and `_stop`.

    Args:
        workers: Maximum number of workers; they are started as units come.
        max_retries: How often a unit is done again after its worker ended over it.

    Raises:
        OptionError: There is no worker.
    """

    def __init__(self, workers: int, *, max_retries: int = 2) -> None:
        if workers < 1 or max_retries < 0:
            raise OptionError(f"Expected workers >= 1 and max_retries >= 0, got {workers} and {max_retries}.")
        self.workers = workers
        self.max_retries = max_retries
        self._jobs: dict[WorkerT, deque[_Job]] = {}
        self._ready: set[WorkerT] = set()
        self._failed_starts = 0

    @abstractmethod
    def _start(self) -> WorkerT:
        """Start a worker; its first news is ``ready``, or ``ended``."""

    @abstractmethod
    def _give(self, worker: WorkerT, payload: bytes) -> None:
        """Give a packed unit to a worker, which does its units in order; one that has ended is no error here."""

    @abstractmethod
    def _news(self, workers: Sequence[WorkerT], timeout: float) -> list[Event[WorkerT]]:
        """Wait until there is news of workers, at most so many seconds, and return it."""

    @abstractmethod
    def _stop(self, worker: WorkerT) -> None:
        """End a worker, whatever it does; nothing happens to one that has ended."""

    def run(self, units: Iterable[Unit]) -> Generator[Any]:
        """Yield the results in the order of the units; an exception of a unit is raised when it is its turn.

        Raises:
            WorkerError: A unit ended its worker more than `max_retries` times, or workers do not start.
        """
        coming = enumerate(units)
        waiting: deque[_Job] = deque()
        done: dict[int, bytes] = {}
        place, taken, exhausted = 0, 0, False
        started = time.monotonic()
        try:
            while True:
                while not exhausted and taken < place + _AHEAD * self.workers:
                    following = next(coming, None)
                    if exhausted := following is None:
                        break
                    waiting.append(_Job(*following))
                    taken += 1
                if place == taken:
                    return
                self._hand_out(waiting, wanted=min(self.workers, taken - place - len(done)))
                for worker, what, content in self._news(list(self._jobs), 0.0 if place in done else 1.0):
                    if what == "done":
                        done[self._jobs[worker].popleft().place] = content
                    elif what == "ready":
                        self._ready.add(worker)
                        self._failed_starts = 0
                    else:
                        waiting.extendleft(reversed(self._ended(worker, done)))
                if place in done:
                    result = outcome(done.pop(place))
                    place += 1
                    yield result
                if self._ready:
                    started = time.monotonic()
                elif time.monotonic() - started > _PATIENCE:
                    raise WorkerError(f"No worker has started within {_PATIENCE:.0f} seconds: {self._why()}.")
        finally:  # of a run that is not played to its end, workers still have units under way
            for worker in [worker for worker, jobs in self._jobs.items() if jobs]:
                self._drop(worker)

    def _hand_out(self, waiting: deque[_Job], wanted: int) -> None:
        """Start workers up to the number that is wanted, and give units to those that are ready, evenly."""
        while len(self._jobs) < wanted:
            self._jobs[self._start()] = deque()
        while waiting and self._ready:
            worker = min(self._ready, key=lambda one: len(self._jobs[one]))
            busy = len(self._jobs[worker])
            if busy >= _QUEUED or (busy and len(waiting) <= self.workers):  # the last units go to who is free first
                return
            job = waiting.popleft()
            self._jobs[worker].append(job)
            self._give(worker, packed(job.unit))

    def _ended(self, worker: WorkerT, done: dict[int, bytes]) -> list[_Job]:
        """Let go of a worker that has ended, and return what is to be done again; `done` gets what has failed."""
        jobs = list(self._jobs[worker])
        started = worker in self._ready
        self._drop(worker)
        if jobs:
            jobs[0].ended += 1
            if jobs[0].ended > self.max_retries:
                failed = jobs.pop(0)
                done[failed.place] = failure(
                    WorkerError(
                        f"The worker that did `{failed.unit}` ended {failed.ended} times ({self._why()}). What was "
                        "recorded is kept. If memory ran out, give fewer --workers.",
                        resumable=True,
                    )
                )
        elif not started:
            self._failed_starts += 1
            if self._failed_starts > self.max_retries:
                raise WorkerError(f"Workers end while they start, {self._failed_starts} in a row: {self._why()}.")
        return jobs

    def _why(self) -> str:
        """Return where to look for the reason why workers end or do not start."""
        return "see what they wrote above"

    def _drop(self, worker: WorkerT) -> None:
        self._jobs.pop(worker, None)
        self._ready.discard(worker)
        self._stop(worker)

    def close(self) -> None:
        """End all workers; nothing happens the second time."""
        for worker in list(self._jobs):
            self._drop(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
