"""A pool of warm workers: as many as may run at a time, started when first needed, replaced when they break."""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toolorchestra.envs.tools.sandbox.channel import WorkerClient
from toolorchestra.envs.tools.sandbox.program import ProgramLimits
from toolorchestra.toolscale.common.errors import SandboxError


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
        self._idle: list[WorkerClient] = []
        self._busy: set[WorkerClient] = set()
        self._closed = threading.Event()

    @contextmanager
    def worker(self, limits: ProgramLimits, deadline: float | None = None) -> Iterator[WorkerClient | None]:
        """Lend a worker, or None if none is free by a time of `time.monotonic`.

        It is not lent again if anything goes wrong meanwhile.
        """
        slots = self._slots
        if not slots.acquire(timeout=None if deadline is None else max(0.0, deadline - time.monotonic())):
            yield None
            return
        try:
            worker = self.take(limits)
            try:
                yield worker
            except BaseException:
                self.drop(worker)
                raise
            self.give(worker)
        finally:
            slots.release()

    def take(self, limits: ProgramLimits) -> WorkerClient:
        """Return a worker that was idle, or a new one."""
        surplus = None
        with self._lock:
            if self._closed.is_set():
                raise SandboxError("This sandbox is closed; make another one.")
            for worker in reversed(self._idle):  # the last one used is the most likely to be in the caches still
                if worker.held == limits.held:
                    self._idle.remove(worker)
                    self._busy.add(worker)
                    return worker
            if self._idle and len(self._idle) + len(self._busy) >= self._size:
                surplus = self._idle.pop(0)
        if surplus is not None:
            surplus.close()
        worker = self._start(limits)
        with self._lock:
            if not self._closed.is_set():
                self._busy.add(worker)
                return worker
        worker.close()
        raise SandboxError("This sandbox was closed while a program was to start.")

    def give(self, worker: WorkerClient) -> None:
        """Take a worker back."""
        with self._lock:
            keep = worker in self._busy and worker.reusable and len(self._idle) < self._size
            self._busy.discard(worker)
            if keep:
                self._idle.append(worker)
                return
        worker.close()

    def adopt(self, worker: WorkerClient) -> None:
        """Take in a worker that was started elsewhere."""
        with self._lock:
            self._idle.append(worker)

    def drop(self, worker: WorkerClient) -> None:
        """Stop a worker."""
        with self._lock:
            self._busy.discard(worker)
        worker.close()

    def close(self) -> None:
        """Stop all workers."""
        with self._lock:
            self._closed.set()
            workers = [*self._idle, *self._busy]
            self._idle, self._busy = [], set()
        for worker in workers:
            worker.close()

    def disown(self) -> None:
        """Let go of the workers of the process that this one was forked from: two owners would mix up the replies."""
        if not hasattr(self, "_busy"):
            return
        workers = [*self._idle, *self._busy]
        closed = self._closed.is_set()
        self._reset()
        if closed:
            self._closed.set()
        for worker in workers:
            worker.disown()


_POOLS: weakref.WeakSet[Pool] = weakref.WeakSet()


def _for_all(action: Callable[[Pool], None]) -> None:
    for pool in list(_POOLS):
        action(pool)


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=functools.partial(_for_all, Pool.disown))
atexit.register(_for_all, Pool.close)
