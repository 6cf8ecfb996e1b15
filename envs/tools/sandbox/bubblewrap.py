"""Programs in bubblewrap: namespaces without an engine, for machines that have no Docker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Unpack

import msgspec

from toolorchestra.envs.tools.sandbox import process_tags
from toolorchestra.envs.tools.sandbox.base import NOBODY, SHARED_MB, Sandbox, SandboxOptions
from toolorchestra.envs.tools.sandbox.channel import WorkerClient, source
from toolorchestra.envs.tools.sandbox.process import PopenWorker
from toolorchestra.envs.tools.sandbox.program import ProgramLimits
from toolorchestra.toolscale.common.errors import SandboxError

CGROUPS = Path("/sys/fs/cgroup")


class BubblewrapSandbox(Sandbox):
    """Runs programs in their own namespaces, without network, processes, users or files of this machine.

    Programs see /usr and the interpreter's folders, read-only, and a small tmpfs. If root runs this, they run as
    ``nobody``, and control groups bound memory and processes. Other users can seldom make control groups: then the
    memory of each process is bounded, and the sum is checked every tenth of a second.

    Args:
        python: The interpreter, 3.9 or newer; that of a virtual environment gives programs its packages. Default: the
            one that runs this, without its packages, or Debian's.
        control_groups: Use control groups where they can be made.
        options: `limits`, `workers` and `preload` of `Sandbox`.

    Raises:
        SandboxError: If bubblewrap is missing or cannot make namespaces here.
    """

    name = "bubblewrap"
    isolates = True

    def __init__(
        self, *, python: str | None = None, control_groups: bool = True, **options: Unpack[SandboxOptions]
    ) -> None:
        super().__init__(**options)
        found = shutil.which("bwrap")
        if found is None:
            raise SandboxError("The program bwrap is missing: apt-get install bubblewrap.")
        self._bwrap = found
        # A program whose user is root outside of the namespace could write to files of root.
        self._user = NOBODY if os.geteuid() == 0 else None
        self.python, self._prefixes = self._find(python)
        if control_groups:
            ControlGroup.reap()
        self.control_groups = control_groups and ControlGroup.works()
        # --die-with-parent means the *thread* that started bubblewrap, so one thread starts all and lasts.
        self._starter = ThreadPoolExecutor(1, "toolorchestra-bubblewrap")
        self._starter_of = os.getpid()
        self._pool.adopt(self.start(self.limits))  # raises if namespaces cannot be made

    def _find(self, python: str | None) -> tuple[str, list[str]]:
        """Return an interpreter that the programs' user can run, and the folders that it needs."""
        tried = [python] if python else [os.path.realpath(sys.executable), "/usr/bin/python3"]
        for candidate in tried:
            command = [candidate, "-s", "-c", "import sys; print(sys.prefix, sys.base_prefix, sep='\\n')"]
            with suppress(OSError, subprocess.CalledProcessError):
                done = subprocess.run(
                    command, capture_output=True, text=True, check=True, cwd="/", user=self._user, group=self._user
                )
                return candidate, sorted(set(done.stdout.split("\n")[:2]))
        who = "the user nobody" if self._user else "this user"
        raise SandboxError(f"Expected a Python that {who} can execute; tried {', '.join(tried)}.")

    def _command(self, limits: ProgramLimits, group: ControlGroup | None, info: int) -> list[str]:
        command = [self._bwrap, "--unshare-all", "--die-with-parent", "--as-pid-1", "--new-session"]
        command += ["--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox", "--info-fd", str(info)]
        for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
            if os.path.islink(name):
                command += ["--symlink", os.readlink(name), name]
            elif os.path.isdir(name):
                command += ["--ro-bind", name, name]
        for prefix in ("/usr", *(prefix for prefix in self._prefixes if not f"{prefix}/".startswith("/usr/"))):
            command += ["--ro-bind", prefix, prefix]
        for name in ("/etc/ld.so.cache", "/etc/alternatives"):
            command += ["--ro-bind-try", name, name]
        command += ["--proc", "/proc", "--dev", "/dev"]
        command += ["--size", str(limits.disk_mb << 20), "--tmpfs", "/tmp"]
        command += ["--size", str(SHARED_MB << 20), "--tmpfs", "/dev/shm"]
        if group is not None:
            command += ["--ro-bind", str(group.folders[0]), "/run/cgroup"]
        # Both are tmpfs too, of unbounded size.
        command += ["--remount-ro", "/dev", "--remount-ro", "/"]
        return [*command, "--chdir", "/", "--", self.python, "-s", "-c", source()]

    def start(self, limits: ProgramLimits) -> WorkerClient:
        """Start a worker; see `Sandbox.start`."""
        if self._starter_of != os.getpid():  # a forked process has none of its parent's threads
            self._starter, self._starter_of = ThreadPoolExecutor(1, "toolorchestra-bubblewrap"), os.getpid()
        group = ControlGroup(limits) if self.control_groups else None
        reading, writing = os.pipe()
        with open(reading, "rb") as info_file:
            try:
                command = self._command(limits, group, writing)
                started = self._starter.submit(PopenWorker, command, "/tmp", user=self._user, keep=[writing])
                worker = started.result()
            finally:
                os.close(writing)
            info = info_file.read()
        if group is not None:
            worker.cleanups.append(group.remove)
            if info:
                group.add(msgspec.json.decode(info)["child-pid"])
        bounded = group is not None
        places = ["/tmp", "/dev/shm"]
        by_user = not bounded and _counts_per_namespace()
        worker.configure(limits, places=places, preload=self.preload, count_by_user=by_user, watch=not bounded)
        return worker

    def describe(self) -> str:
        """Say how programs are isolated; see `Sandbox.describe`."""
        by = "control groups" if self.control_groups else "limits per process"
        return f"bubblewrap (no network, read-only, unprivileged, bounded by {by})"

    def close(self) -> None:
        """Stop every worker; see `Sandbox.close`."""
        super().close()
        self._starter.shutdown()


_LAST_PROCESS = 10.0
"""Seconds to wait for the processes of a control group to end, which takes a busy machine a while after their kill."""


class ControlGroup:
    """A control group of version 1 or 2 that bounds memory and processes; its name holds the tag of its owner.

    Args:
        limits: The bounds.
    """

    _number = 0
    _lock = threading.Lock()

    def __init__(self, limits: ProgramLimits) -> None:
        with ControlGroup._lock:
            ControlGroup._number += 1
            name = f"toolorchestra-{process_tags.tag()}-{ControlGroup._number}"
        memory = limits.total_mb << 20
        processes = limits.pids + 1
        if (CGROUPS / "cgroup.controllers").exists():
            bounds = {"": {"memory.max": memory, "memory.swap.max": 0, "pids.max": processes}}
        else:
            bounds = {
                "memory": {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory},
                "pids": {"pids.max": processes},
            }
        self.folders = [CGROUPS / part / name for part in bounds]
        try:
            for folder, files in zip(self.folders, bounds.values(), strict=True):
                folder.mkdir()
                for file, bound in files.items():
                    if "sw" not in file or (folder / file).exists():  # a kernel may not account swap
                        (folder / file).write_text(str(bound))
        except OSError as error:
            self.remove()
            raise SandboxError(f"The control group could not be made: {error}.") from error

    @classmethod
    def works(cls) -> bool:
        """Whether this process may make control groups."""
        try:
            cls(ProgramLimits()).remove()
        except SandboxError:
            return False
        return True

    @staticmethod
    def reap() -> None:
        """Remove the groups of owners that are gone."""
        for place in (CGROUPS, CGROUPS / "memory", CGROUPS / "pids"):
            for folder in place.glob("toolorchestra-*"):
                if process_tags.is_gone(folder.name.removeprefix("toolorchestra-").rpartition("-")[0]):
                    with suppress(OSError):
                        folder.rmdir()

    def add(self, pid: int) -> None:
        """Put a process, and so all that it starts from now on, into the group."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Remove the group, once its processes have ended."""
        for folder in self.folders:
            end = time.monotonic() + _LAST_PROCESS
            while folder.exists() and time.monotonic() < end:
                try:
                    folder.rmdir()
                except OSError:
                    time.sleep(0.005)


def _counts_per_namespace() -> bool:
    """Whether RLIMIT_NPROC counts the processes of a user namespace, not all of the user's (Linux 5.14)."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor.split("-")[0])) >= (5, 14)
