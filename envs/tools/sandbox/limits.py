"""What a program in a sandbox may use."""

from __future__ import annotations

import msgspec

from toolorchestra.toolscale.errors import OptionError


class ProgramLimits(msgspec.Struct, frozen=True):
    """What one program may use.

    Attributes:
        seconds: Wall-clock time.
        memory_mb: Memory of each of its processes, in MiB; where control groups are at hand (Docker, and bubblewrap
            run by root) all of them together get no more than this and what lies in their files.
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
