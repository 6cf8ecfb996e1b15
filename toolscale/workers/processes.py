"""Worker processes on this machine, started anew (``spawn``) and connected by pipes.

Workers ignore Ctrl-C, which the command handles by closing the pool, and end with the process that started them,
however that ends.
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
from collections.abc import Sequence
from multiprocessing.connection import Client, Connection, Listener, wait
from typing import Any

from toolorchestra.toolscale.workers import central
from toolorchestra.toolscale.workers.pool import Event, WorkerPool
from toolorchestra.toolscale.workers.units import perform

_READY = b"ready"


class _Process:
    """A worker process and the pipe to it."""

    def __init__(self, address: Any, key: bytes) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(
            target=_work, args=(theirs, address, key), daemon=True, name="toolorchestra worker"
        )
        self.process.start()
        theirs.close()  # so that the pipe ends when the worker does
        self.ready = False


class ProcessExecutor(WorkerPool[_Process]):
    """An executor with worker processes on this machine; see `WorkerPool`.

    >>> from toolorchestra.toolscale.workers.units import Unit
    >>> with ProcessExecutor(1) as executor:
    ...     list(executor.run(Unit(("power", n), pow, (2, n)) for n in range(4)))
    [1, 2, 4, 8]
    """

    def __init__(self, workers: int, *, max_retries: int = 2) -> None:
        super().__init__(workers, max_retries=max_retries)
        self._central = _CentralPlace()

    def _start(self) -> _Process:
        return _Process(self._central.address, self._central.key)

    def _give(self, worker: _Process, payload: bytes) -> None:
        with contextlib.suppress(OSError):  # its end is news soon
            worker.pipe.send_bytes(payload)

    def _news(self, workers: Sequence[_Process], timeout: float) -> list[Event[_Process]]:
        by_pipe = {worker.pipe: worker for worker in workers}
        return [self._read(by_pipe[pipe]) for pipe in wait(list(by_pipe), timeout) if isinstance(pipe, Connection)]

    def _read(self, worker: _Process) -> Event[_Process]:
        try:
            content = worker.pipe.recv_bytes()
        except (EOFError, OSError):
            return worker, "ended", b""
        if worker.ready:
            return worker, "done", content
        worker.ready = True
        return worker, "ready", b""

    def _stop(self, worker: _Process) -> None:
        worker.process.kill()
        worker.process.join()
        worker.process.close()
        worker.pipe.close()

    def close(self) -> None:
        """End all workers; nothing happens the second time."""
        super().close()
        self._central.close()
        central.close()


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

    central.connect(call)
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
