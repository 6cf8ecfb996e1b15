"""A pool of warm workers: as many as may run at a time, started when first needed, replaced when they break."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toolorchestra.envs.tools.sandbox.channel import WorkerClient
from toolorchestra.envs.tools.sandbox.program import ProgramLimits
from toolorchestra.toolscale.errors import SandboxError

Held = tuple[int, int, int]


def held(limits: ProgramLimits) -> Held:
    """Return the limits that a worker is started with; the others can differ from program to program."""
    return limits.memory_mb, limits.pids, limits.disk_mb


class Pool:
    """Hands out workers that `start` makes, each to one caller at a time.

    At most `size` workers of `worker` run at a time; those of sessions are not counted.
    """

    def __init__(self, start: Callable[[ProgramLimits], WorkerClient], size: int) -> None:
        self._start, self._size = start, size
        self._reset()
        _POOLS.add(self)

    def _reset(self) -> None:
        self._slots = threading.BoundedSemaphore(self._size)
        self._lock = threading.Lock()
        self._idle: list[tuple[Held, WorkerClient]] = []
        self._busy: dict[WorkerClient, Held] = {}
        self._closed = threading.Event()

    @contextmanager
    def worker(self, limits: ProgramLimits) -> Iterator[WorkerClient]:
        """Lend a worker; it is not lent again if anything goes wrong meanwhile."""
        with self._slots:
            worker = self.take(limits)
            try:
                yield worker
            except BaseException:
                self.drop(worker)
                raise
            self.give(worker)

    def take(self, limits: ProgramLimits) -> WorkerClient:
        """Return a worker that was idle, or a new one."""
        key = held(limits)
        surplus = None
        with self._lock:
            if self._closed.is_set():
                raise SandboxError("This sandbox is closed; make another one.")
            # The last one used is the likeliest to be in the caches still.
            place = next((i for i in reversed(range(len(self._idle))) if self._idle[i][0] == key), None)
            if place is not None:
                worker = self._idle.pop(place)[1]
                self._busy[worker] = key
                return worker
            if self._idle and len(self._idle) + len(self._busy) >= self._size:
                surplus = self._idle.pop(0)[1]
        if surplus is not None:
            surplus.close()
        worker = self._start(limits)
        with self._lock:
            if not self._closed.is_set():
                self._busy[worker] = key
                return worker
        worker.close()
        raise SandboxError("This sandbox was closed while a program was to start.")

    def give(self, worker: WorkerClient) -> None:
        """Take a worker back."""
        with self._lock:
            key = self._busy.pop(worker, None)
            if key is not None and worker.reusable and len(self._idle) < self._size:
                self._idle.append((key, worker))
                return
        worker.close()

    def adopt(self, worker: WorkerClient, limits: ProgramLimits) -> None:
        """Take in a worker that was started elsewhere."""
        with self._lock:
            self._idle.append((held(limits), worker))

    def drop(self, worker: WorkerClient) -> None:
        """Stop a worker."""
        with self._lock:
            self._busy.pop(worker, None)
        worker.close()

    def close(self) -> None:
        """Stop all workers."""
        with self._lock:
            self._closed.set()
            workers = [*(worker for _, worker in self._idle), *self._busy]
            self._idle, self._busy = [], {}
        for worker in workers:
            worker.close()

    def disown(self) -> None:
        """Let go of the workers of the process that this one was forked from: two owners would mix up the replies."""
        if not hasattr(self, "_busy"):
            return
        workers = [*(worker for _, worker in self._idle), *self._busy]
        closed = self._closed.is_set()
        self._reset()
        if closed:
            self._closed.set()
        for worker in workers:
            worker.disown()


_POOLS: weakref.WeakSet[Pool] = weakref.WeakSet()


def _disown_all() -> None:
    for pool in list(_POOLS):
        pool.disown()


def _close_all() -> None:
    for pool in list(_POOLS):
        pool.close()


os.register_at_fork(after_in_child=_disown_all)
atexit.register(_close_all)
