"""Tags that name the process that made a container or control group.

With them, a later process can remove what a killed one has left.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path


def tag(pid: int | None = None) -> str:
    """Return the tag of a process: its id and start time, its machine, boot and namespace."""
    pid = pid or os.getpid()
    return f"{pid}-{_started(pid)}-{_where()}"


def is_gone(tagged: str) -> bool:
    """Whether the process of a tag is one of this machine and has ended.

    >>> is_gone(tag()), is_gone("1-0-elsewhere")
    (False, False)
    """
    pid, _, rest = tagged.partition("-")
    started, _, where = rest.partition("-")
    return where == _where() and pid.isdigit() and _started(int(pid)) != started


def _started(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; "" if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _where() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}-{boot}-{os.stat('/proc/self/ns/pid').st_ino}"
