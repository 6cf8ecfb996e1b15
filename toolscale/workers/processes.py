"""Worker processes on this machine, started anew (``spawn``) and connected by pipes.

Each worker has a pipe of its own, which ends when it does: a pool of the standard library has one pipe for the results
of all, and waits for ever for the rest of a result whose worker was killed while it sent it. Workers ignore Ctrl-C,
which the command handles by closing the pool, and end with the process that started them, however that ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import secrets
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable
from multiprocessing.connection import Client, Connection, Listener, wait
from typing import Any

import msgspec

from toolorchestra.toolscale.workers import driver_calls
from toolorchestra.toolscale.workers.units import (
    AHEAD,
    Unit,
    WorkerError,
    WorkerPool,
    failure,
    outcome,
    packed,
    perform,
)

_READY = b"ready"
_QUEUED = 2  # units given to a worker at a time, so that it need not wait for the next one
_PATIENCE = 300.0  # seconds in which at least one worker must have started
_WHERE = "see what they wrote above; if memory ran out, give fewer --workers"


class _Job(msgspec.Struct, eq=False):
    """A unit under way: its place in the order, and how often its worker has ended over it."""

    place: int
    unit: Unit
    ended: int = 0


class _Process:
    """A worker process, the pipe to it, and the units that it was given, of which it does the oldest."""

    def __init__(self, address: Any, key: bytes) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(
            target=_work, args=(theirs, address, key), daemon=True, name="toolorchestra worker"
        )
        self.process.start()
        theirs.close()  # so that the pipe ends when the worker does
        self.ready = False
        self.jobs: deque[_Job] = deque()

    def give(self, job: _Job) -> None:
        """Give it a unit."""
        self.jobs.append(job)
        with contextlib.suppress(OSError):  # its end is news soon
            self.pipe.send_bytes(packed(job.unit))

    def read(self) -> bytes | None:
        """Return what it has sent; None if it has ended."""
        try:
            return self.pipe.recv_bytes()
        except (EOFError, OSError):
            return None

    def stop(self) -> None:
        """End it, whatever it does; nothing happens if it has ended."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()


class ProcessExecutor(WorkerPool):
    """An executor with worker processes on this machine, which stay until it is closed; see `Executor`.

    A worker that ends is replaced, and what it had under way is done again; each unit has exactly one result. Of the
    units that it was given, only the oldest was being done: it may have ended the worker, and is done again
    `max_retries` times at most.

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
        self._processes: list[_Process] = []
        self._failed_starts = 0

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
                while not exhausted and taken < place + AHEAD * self.workers:
                    following = next(coming, None)
                    if exhausted := following is None:
                        break
                    waiting.append(_Job(*following))
                    taken += 1
                if place == taken:
                    return
                self._hand_out(waiting, wanted=min(self.workers, taken - place - len(done)))
                self._listen(waiting, done, 0.0 if place in done else 1.0)
                if place in done:
                    result = outcome(done.pop(place))
                    place += 1
                    yield result
                if any(process.ready for process in self._processes):
                    started = time.monotonic()
                elif time.monotonic() - started > _PATIENCE:
                    raise WorkerError(f"No worker has started within {_PATIENCE:.0f} seconds: {_WHERE}.")
        finally:  # of a run that is not played to its end, workers still have units under way
            for process in [process for process in self._processes if process.jobs]:
                self._drop(process)

    def _hand_out(self, waiting: deque[_Job], wanted: int) -> None:
        """Start workers up to the number that is wanted, and give units to those that are ready, evenly."""
        while len(self._processes) < wanted:
            self._processes.append(_Process(self._central.address, self._central.key))
        ready = [process for process in self._processes if process.ready]
        while waiting and ready:
            process = min(ready, key=lambda one: len(one.jobs))
            busy = len(process.jobs)
            if busy >= _QUEUED or (busy and len(waiting) <= self.workers):  # the last units go to who is free first
                return
            process.give(waiting.popleft())

    def _listen(self, waiting: deque[_Job], done: dict[int, bytes], timeout: float) -> None:
        """Wait until there is news of workers, at most so many seconds, and note what is done and what waits again."""
        by_pipe = {process.pipe: process for process in self._processes}
        for pipe in wait(list(by_pipe), timeout):
            assert isinstance(pipe, Connection)
            process = by_pipe[pipe]
            content = process.read()
            if content is None:
                waiting.extendleft(reversed(self._ended(process, done)))
            elif process.ready:
                done[process.jobs.popleft().place] = content
            else:
                process.ready = True
                self._failed_starts = 0

    def _ended(self, process: _Process, done: dict[int, bytes]) -> list[_Job]:
        """Let go of a worker that has ended, and return what is to be done again; `done` gets what has failed."""
        jobs = list(process.jobs)
        self._drop(process)
        if jobs:
            jobs[0].ended += 1
            if jobs[0].ended > self.max_retries:
                failed = jobs.pop(0)
                done[failed.place] = failure(self._ended_again(failed.unit, _WHERE))
        elif not process.ready:
            self._failed_starts += 1
            if self._failed_starts > self.max_retries:
                raise WorkerError(f"Workers end while they start, {self._failed_starts} in a row: {_WHERE}.")
        return jobs

    def _drop(self, process: _Process) -> None:
        self._processes.remove(process)
        process.stop()

    def close(self) -> None:
        """End all workers; nothing happens the second time."""
        for process in list(self._processes):
            self._drop(process)
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


def _work(pipe: Connection, address: Any, key: bytes) -> None:
    """Do the units that come through a pipe until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def call(payload: bytes) -> bytes:
        with Client(address, authkey=key) as connection:
            connection.send_bytes(payload)
            return connection.recv_bytes()

    driver_calls.connect(call)
    payloads: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(pipe, payloads), daemon=True).start()
    with contextlib.suppress(OSError):
        pipe.send_bytes(_READY)
        while True:
            pipe.send_bytes(perform(payloads.get()))


def _read(pipe: Connection, payloads: queue.SimpleQueue[bytes]) -> None:
    """Read units ahead; end the process when the one that sends them has ended or closed the pipe."""
    while True:
        try:
            payloads.put(pipe.recv_bytes())
        except (EOFError, OSError):
            sys.stderr.flush()
            os._exit(1)
