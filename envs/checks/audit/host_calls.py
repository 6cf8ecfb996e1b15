"""What code of this process asks of its host: connections, processes, and files that it writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CONNECTS, STARTS, WRITES = "connects to", "starts", "writes"
"""How the lines begin."""
_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_watching: list[list[str]] = []  # what is being watched, innermost last
_hooked: list[bool] = []  # whether the hook is there: it cannot be taken away


@contextmanager
def host_calls() -> Iterator[list[str]]:
    """Give a list that grows by a line for each such request of this process, in any of its threads.

    >>> import socket
    >>> with host_calls() as asked, socket.socket() as one:
    ...     _ = one.connect_ex(("127.0.0.1", 9))
    >>> asked
    ["connects to ('127.0.0.1', 9)"]
    """
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_see)
    found: list[str] = []
    _watching.append(found)
    try:
        yield found
    finally:
        _watching.remove(found)


def _see(event: str, args: tuple[Any, ...]) -> None:
    if not _watching:
        return
    line = ""
    if event == "socket.connect":
        line = f"{CONNECTS} {args[1]!r}"
    elif event in _PROCESSES:
        line = f"{STARTS} {args[0]!r}"
    elif event == "open" and isinstance(args[2], int) and args[2] & _WRITING and not isinstance(args[0], int):
        path = os.fsdecode(args[0])
        line = "" if path == os.devnull else f"{WRITES} {path}"
    if line:
        for found in _watching:
            found.append(line[:200])
