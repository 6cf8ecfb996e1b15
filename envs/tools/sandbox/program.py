"""The limits of a program in a sandbox, and its result."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from toolorchestra.toolscale.common.errors import OptionError

_WORKER_MB = 32  # what the worker itself may use beside its programs


class ProgramLimits(msgspec.Struct, frozen=True):
    """What one program may use.

    Attributes:
        seconds: Wall-clock time.
        memory_mb: Memory of each of its processes, in MiB. Docker, and bubblewrap run by root, also bound the memory of
            all its processes and its files together: to `total_mb`.
        pids: Processes and threads at a time. `ProcessSandbox` counts every tenth of a second.
        output_bytes: Standard output and standard error together, and as much again in files handed back.
        disk_mb: Files in its temporary directory, in MiB. `ProcessSandbox` bounds each file, not their sum.

    Raises:
        OptionError: If a limit is not positive.
    """

    seconds: float = 10.0
    memory_mb: int = 256
    pids: int = 32
    output_bytes: int = 1 << 20
    disk_mb: int = 64

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise OptionError(f"limits.{name}: expected a positive number, got {value}.")

    @property
    def held(self) -> tuple[int, int, int]:
        """The limits that a worker is started with; the others can differ from program to program."""
        return self.memory_mb, self.pids, self.disk_mb

    @property
    def total_mb(self) -> int:
        """MiB of memory of its processes, its files and the worker together."""
        return self.memory_mb + self.disk_mb + _WORKER_MB


class ProgramStatus(StrEnum):
    """How a program ended."""

    OK = "ok"
    """It ran to its end with exit code 0."""
    ERROR = "error"
    """It raised, exited with another code, or was killed by a signal."""
    TIMEOUT = "timeout"
    """It ran beyond its seconds and was stopped."""
    MEMORY = "memory"
    """It wanted more memory than it may have."""
    OUTPUT = "output"
    """It wrote more than it may, and was stopped; what came before is kept."""


class ProgramResult(msgspec.Struct, frozen=True):
    """What a program did. That it failed is a result; that it could not be run is a `SandboxError`.

    Attributes:
        status: How it ended.
        stdout: What it wrote to standard output, decoded as UTF-8; bytes that are not become U+FFFD.
        stderr: The same of standard error, tracebacks included.
        exit_code: Its exit code; negative for a signal; None if the sandbox stopped it.
        seconds: Wall-clock seconds that it ran.
        files: Files asked for with `collect` that it left, by name.
        lost: In a session: its process is gone, and variables with it. The next call starts anew.
    """

    status: ProgramStatus
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    files: dict[str, bytes] = {}
    lost: bool = False
