"""The base class of sandboxes, which is the contract of every backend, and sessions.

Not covered: where programs run (`docker`, `bubblewrap`, `process`), how they are sent there (`channel`), and what runs
them there (`worker`).
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, ClassVar, Self, TypedDict

import msgspec

from toolorchestra.envs.tools.sandbox.channel import WorkerClient, WorkerLost, WorkerReply
from toolorchestra.envs.tools.sandbox.pool import Pool
from toolorchestra.envs.tools.sandbox.program import ProgramLimits, ProgramResult, ProgramStatus
from toolorchestra.toolscale.common.errors import OptionError

Files = Mapping[str, str | bytes]
"""The contents of files that a program may read, by name."""

NOBODY = 65534
"""User and group id of programs in backends that isolate."""
SHARED_MB = 16
"""Size of their /dev/shm, which multiprocessing needs, in MiB."""


class SandboxOptions(TypedDict, total=False):
    """Options of every backend; see `Sandbox`."""

    limits: ProgramLimits | None
    workers: int | None
    preload: Sequence[str]


class Sandbox(ABC):
    """Runs untrusted Python programs, many at a time; safe to call from many threads.

    Every program runs in a process forked from a warm interpreter, in a temporary directory of its own, and nothing of
    it is left for the next one: no process, no file, no variable.

    Override `name`, `isolates`, `start` and `describe`; everything else is machinery.

    Args:
        limits: What a program may use unless `run` says otherwise.
        workers: Programs that run at a time; further ones wait. Default: the number of cores.
        preload: Modules that the warm interpreter imports, so that programs get them at once. A module that is not
            installed there is skipped.

    Attributes:
        name: What `make_sandbox` calls the backend.
        isolates: Whether programs are kept from this machine's files, processes and network.
        choice: Which backend this is and, if ``auto`` chose it, why not a stronger one.

    Raises:
        OptionError: If an option has a wrong value.
        SandboxError: If the backend is not available; the message says how to install it.
    """

    name: ClassVar[str]
    isolates: ClassVar[bool]

    def __init__(
        self, *, limits: ProgramLimits | None = None, workers: int | None = None, preload: Sequence[str] = ()
    ) -> None:
        self.limits = limits or ProgramLimits()
        self.workers = workers or os.cpu_count() or 1
        if self.workers < 1:
            raise OptionError(f"workers: expected at least 1, got {workers}.")
        self.preload = tuple(preload)
        self.choice = self.name
        self._pool = Pool(self.start, self.workers)

    @abstractmethod
    def start(self, limits: ProgramLimits) -> WorkerClient:
        """Return a new worker, warm and held to `limits`."""

    @abstractmethod
    def describe(self) -> str:
        """Return one sentence on how programs are isolated."""

    def run(
        self,
        code: str,
        stdin: str = "",
        files: Files | None = None,
        limits: ProgramLimits | None = None,
        collect: Sequence[str] = (),
        deadline: float | None = None,
    ) -> ProgramResult:
        """Run one program in a process of its own.

        Args:
            code: Python source.
            stdin: What it reads from standard input.
            files: Files in its working directory, by relative name.
            limits: What it may use, if not what the sandbox's programs may.
            collect: Relative names of files to hand back; those that are not there are left out.
            deadline: A program that still waits for others to end when `time.monotonic` reaches it is not run, and ends
                in a TIMEOUT of 0 seconds; None: it waits as long as it must.

        Raises:
            OptionError: If a name leads out of the working directory.
            SandboxError: If the program could not be run.
        """
        limits = limits or self.limits
        request = _request(code, stdin, files, limits, collect)
        for _ in range(2):  # a worker can die for another reason than the program: a new one tries it again
            try:
                with self._pool.worker(limits, deadline) as worker:
                    if worker is None:
                        return ProgramResult(ProgramStatus.TIMEOUT)
                    return _result(worker.ask(request, limits))
            except WorkerLost as lost:
                blame = _blame(lost)
        return blame

    def session(self, limits: ProgramLimits | None = None) -> InterpreterSession:
        """Return a session, whose calls see the variables, files and threads of earlier ones."""
        return InterpreterSession(self._pool, limits or self.limits)

    def close(self) -> None:
        """Stop every worker; programs that are running end with a `SandboxError`."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InterpreterSession:
    """A Python process that keeps its variables between calls; close it, or use it as a context manager.

    A call that is stopped (time, memory, output) or that ends its process takes the variables with it; its result says
    so in `lost`, and the next call starts anew. One call at a time.
    """

    def __init__(self, pool: Pool, limits: ProgramLimits) -> None:
        self._pool, self.limits = pool, limits
        self._worker: WorkerClient | None = None

    def run(self, code: str, stdin: str = "", files: Files | None = None, collect: Sequence[str] = ()) -> ProgramResult:
        """Run a piece of a program; see `Sandbox.run`."""
        try:
            return _result(self._ask(_request(code, stdin, files, self.limits, collect) | {"keep": True}))
        except WorkerLost as lost:
            return msgspec.structs.replace(_blame(lost), lost=True)

    def close(self) -> None:
        """End the session and everything that it left running."""
        if self._worker is not None:
            with contextlib.suppress(WorkerLost):
                self._ask({"end": True})
                self._pool.give(self._worker)
            self._worker = None

    def _ask(self, request: dict[str, Any]) -> WorkerReply:
        """Ask the session's worker, or a new one; a worker that does not reply is dropped."""
        worker, self._worker = self._worker or self._pool.take(self.limits), None
        try:
            reply = worker.ask(request, self.limits)
        except BaseException:
            self._pool.drop(worker)
            raise
        self._worker = worker
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _request(
    code: str, stdin: str, files: Files | None, limits: ProgramLimits, collect: Sequence[str]
) -> dict[str, Any]:
    given = {_inside(name): data.encode() if isinstance(data, str) else data for name, data in (files or {}).items()}
    return {
        # Half of a surrogate pair is no UTF-8; Python itself refuses such a source.
        "code": code.encode("utf-8", "replace").decode(),
        "stdin": stdin.encode("utf-8", "replace"),
        "files": given,
        "seconds": limits.seconds,
        "output_bytes": limits.output_bytes,
        "collect": [_inside(name) for name in collect],
    }


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
        raise OptionError(f"files: expected a relative name inside the working directory, got {name!r}.")
    return str(path)


def _result(reply: WorkerReply) -> ProgramResult:
    return ProgramResult(
        reply.status,
        reply.stdout.decode("utf-8", "replace"),
        reply.stderr.decode("utf-8", "replace"),
        reply.exit_code,
        reply.seconds,
        reply.files,
        reply.lost,
    )


def _blame(lost: WorkerLost) -> ProgramResult:
    """Return the result of a program that took its worker down with it."""
    status = ProgramStatus.TIMEOUT if lost.hung else ProgramStatus.ERROR
    return ProgramResult(status, stderr=f"The program brought its sandbox down: {lost}\n", seconds=lost.seconds)
