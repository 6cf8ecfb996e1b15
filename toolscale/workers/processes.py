"""Worker processes on this machine, started anew (``spawn``), in a pool of the standard library.

Workers ignore Ctrl-C, which the command handles by closing the pool, and end with the process that started them,
however that ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import signal
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from itertools import islice
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import msgspec

from toolorchestra.toolscale.workers import driver_calls
from toolorchestra.toolscale.workers.units import AHEAD, Unit, WorkerPool, outcome, packed, perform

_SPAWN = multiprocessing.get_context("spawn")


class _Job(msgspec.Struct, eq=False):
    """A unit under way, and how often a worker has ended over it."""

    unit: Unit
    future: Future[bytes] | None = None
    ended: int = 0


class ProcessExecutor(WorkerPool):
    """An executor with worker processes on this machine, which stay until it is closed; see `Executor`.

    When a worker ends, all are replaced, and what has no result is done again: the units that were under way one at a
    time, so that one that ends its worker is told from the others.

    Args:
        workers: Maximum number of workers; they are started as units come.
        max_retries: How often a unit is done again after its worker ended over it.

    Raises:
        OptionError: There is no worker.

    >>> from toolorchestra.toolscale.workers.units import Unit
    >>> with ProcessExecutor(1) as executor:
    ...     list(executor.run(Unit(("power", n), pow, (2, n)) for n in range(4)))
    [1, 2, 4, 8]
    """

    def __init__(self, workers: int, *, max_retries: int = 2) -> None:
        super().__init__(workers, max_retries)
        self._central = _CentralPlace()
        self._pool: ProcessPoolExecutor | None = None
        self._life: Connection | None = None  # workers end when its other side does

    def run(self, units: Iterable[Unit]) -> Generator[Any]:
        """Yield the results in the order of the units; an exception of a unit is raised when it is its turn.

        Raises:
            WorkerError: A unit ended its worker more than `max_retries` times.
        """
        coming = iter(units)
        jobs: deque[_Job] = deque()
        try:
            while True:
                jobs.extend(map(_Job, islice(coming, AHEAD * self.workers - len(jobs))))
                if not jobs:
                    return
                alone = any(job.ended for job in jobs)
                try:
                    for job in islice(jobs, 1 if alone else None):
                        if job.future is None:
                            job.future = self._started().submit(perform, packed(job.unit))
                    assert jobs[0].future is not None
                    content = jobs[0].future.result()
                except BrokenExecutor:
                    self._ended(list(jobs))
                else:
                    jobs.popleft()
                    yield outcome(content)
        finally:
            if jobs:  # of a run that is not played to its end, workers still have units under way
                self._stop()

    def _ended(self, jobs: Sequence[_Job]) -> None:
        """Note which units may have ended a worker, the oldest that have no result, and that these have none."""
        self._stop()
        lost = [job for job in jobs if job.future and (job.future.cancelled() or job.future.exception())]
        for job in jobs[:1] if any(job.ended for job in jobs) else lost[: self.workers]:
            job.ended += 1
        for job in lost:
            job.future = None
        if jobs[0].ended > self.max_retries:
            raise self._ended_again(jobs[0].unit, "see what it wrote above; if memory ran out, give fewer --workers")

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            theirs, self._life = _SPAWN.Pipe(duplex=False)
            arguments = (theirs, self._central.address, self._central.key)
            self._pool = ProcessPoolExecutor(self.workers, _SPAWN, initializer=_begin, initargs=arguments)
        return self._pool

    def _stop(self) -> None:
        """End the workers at once, whatever they do."""
        if self._pool is not None and self._life is not None:
            self._life.close()
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def close(self) -> None:
        """End all workers; nothing happens the second time."""
        self._stop()
        self._central.close()
        driver_calls.close()


class _CentralPlace:
    """Performs packed units that workers send, in threads of this process; the socket is open to this user's processes.

    A worker opens a connection for each call, and proves by `key` that it is one.
    """

    def __init__(self) -> None:
        self.key = secrets.token_bytes(32)
        self._listener = Listener(authkey=self.key)
        self.address = self._listener.address
        self._closed = False
        self._thread = threading.Thread(target=self._listen, name="calls of workers", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while not self._closed:
            try:
                connection = self._listener.accept()
            except multiprocessing.AuthenticationError:
                continue
            except (EOFError, ConnectionError):  # a worker was ended while it connected
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    @staticmethod
    def _answer(connection: Connection) -> None:
        with connection, contextlib.suppress(EOFError, OSError):
            connection.send_bytes(perform(connection.recv_bytes()))

    def close(self) -> None:
        """Take no further calls; nothing happens the second time."""
        self._closed = True
        with contextlib.suppress(OSError):  # closed before
            Client(self.address).close()  # wakes the thread, which would wait for ever for a socket that is closed
        self._thread.join()
        self._listener.close()


def _begin(life: Connection, address: Any, key: bytes) -> None:
    """Make this process a worker, which ends when the other side of `life` does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def call(payload: bytes) -> bytes:
        with Client(address, authkey=key) as connection:
            connection.send_bytes(payload)
            return connection.recv_bytes()

    driver_calls.connect(call)
    threading.Thread(target=_end_with, args=(life,), daemon=True).start()


def _end_with(life: Connection) -> None:
    with contextlib.suppress(OSError):
        life.poll(None)
    sys.stderr.flush()
    os._exit(1)
