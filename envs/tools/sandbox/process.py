"""Programs as plain processes of this machine: bounded, but not isolated. For programs that are trusted."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from typing import Unpack

from toolorchestra.envs.tools.sandbox.base import Sandbox, SandboxOptions
from toolorchestra.envs.tools.sandbox.channel import WorkerClient, environment, source
from toolorchestra.envs.tools.sandbox.program import ProgramLimits
from toolorchestra.toolscale.common.errors import SandboxError


class PopenWorker(WorkerClient):
    """A worker that is a child of this process.

    It runs as `user` (and group) and inherits the descriptors `keep`; `cleanups` are called when it has ended.
    """

    def __init__(self, command: Sequence[str], home: str, *, user: int | None = None, keep: Sequence[int] = ()) -> None:
        self.cleanups: list[Callable[[], object]] = []
        ours, theirs = socket.socketpair()
        with theirs, tempfile.TemporaryFile() as complaints:
            super().__init__(ours)
            self._complaints = os.dup(complaints.fileno())
            try:
                self._process = subprocess.Popen(
                    command,
                    env=environment(home),
                    cwd="/",
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=complaints,
                    user=user,
                    group=user,
                    extra_groups=None if user is None else [],
                    pass_fds=keep,
                    start_new_session=True,  # Ctrl-C is for the owner
                )
            except OSError as error:
                ours.close()
                os.close(self._complaints)
                raise SandboxError(f"The sandbox's worker did not start: {error}.") from error

    def _complaint(self) -> str:
        return os.pread(self._complaints, 4096, 0).decode("utf-8", "replace").strip()

    def _dispose(self) -> None:
        try:
            self._process.wait(2)  # it sees that the channel closed, and cleans up
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._complaints)
        for cleanup in self.cleanups:
            cleanup()

    def disown(self) -> None:
        """Also let go of the process, which is not a child of this one and cannot be waited for."""
        super().disown()
        os.close(self._complaints)
        self._process.returncode = 0


class ProcessSandbox(Sandbox):
    """Runs programs as this user, on this machine: **no isolation**. They can read its files and use its network.

    Memory, time, output and the number of processes are bounded, against mistakes and not against attacks. Programs get
    none of this process's environment variables (keys), and where the kernel lets this user make user namespaces, they
    cannot read those of any process from /proc either. Each new one warns of what it does not do.

    Args:
        python: The interpreter, 3.9 or newer. Default: the one that runs this.
        options: `limits`, `workers` and `preload` of `Sandbox`.
    """

    name = "process"
    isolates = False

    def __init__(self, *, python: str = sys.executable, **options: Unpack[SandboxOptions]) -> None:
        super().__init__(**options)
        self.python = python
        warnings.warn(
            "ProcessSandbox does not isolate: programs run as you, with your files and your network. "
            "Install Docker or bubblewrap (see docs/sandboxes.md) before running code that a model wrote.",
            stacklevel=2,
        )

    def start(self, limits: ProgramLimits) -> WorkerClient:
        """Start a worker; see `Sandbox.start`."""
        worker = PopenWorker([self.python, "-s", "-c", source()], tempfile.gettempdir())
        worker.configure(
            limits, shared=True, places=[], preload=self.preload, count_by_user=False, watch=True, apart=True
        )
        if not worker.apart:
            warnings.warn(
                "This kernel lets this user make no user namespace: programs of ProcessSandbox can read the "
                "environment variables, and so the keys, of your processes from /proc.",
                stacklevel=2,
            )
        # Removes what the worker could not remove itself.
        worker.cleanups.append(functools.partial(shutil.rmtree, worker.place, ignore_errors=True))
        return worker

    def describe(self) -> str:
        """Say how programs are isolated; see `Sandbox.describe`."""
        return "resource limits only: programs are NOT isolated from this machine"
