"""The channel to a worker: length-framed JSON over one socket that programs in the sandbox cannot reach.

The worker (`worker.py`) makes every frame itself. A program has none of the channel's descriptors, so it can neither
write a reply nor read another's; and what it did write travels as Base64 text in a field. Never pickle.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from abc import abstractmethod
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.envs.tools.sandbox import seccomp
from toolorchestra.envs.tools.sandbox.program import ProgramLimits, ProgramStatus
from toolorchestra.toolscale.common.errors import SandboxError

GRACE_SECONDS = 30.0
"""Seconds beyond a program's own after which its worker counts as hung; also the time that a worker has to start."""


class WorkerLost(Exception):  # noqa: N818 - an event that the caller judges, not yet an error
    """The worker ended, or `hung`, while it ran a program for `seconds`."""

    def __init__(self, message: str, *, hung: bool = False, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.hung, self.seconds = hung, seconds


class _Ready(msgspec.Struct):
    place: str
    apart: bool = False


class WorkerReply(msgspec.Struct):
    """A worker's report of a program: the fields of `ProgramResult`, and whether the worker can run another one."""

    id: int
    status: ProgramStatus
    reusable: bool
    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None
    seconds: float = 0.0
    files: dict[str, bytes] = {}
    lost: bool = False


def source() -> str:
    """Return the worker's program for `python -c`: `worker_program.py` and `worker.py` in one."""
    files = (Path(__file__).with_name(name) for name in ("worker_program.py", "worker.py"))
    program, worker = (file.read_text(encoding="utf-8") for file in files)
    joined = ("from __future__", "from toolorchestra")  # imports of `worker.py` that the program before it replaces
    return program + "".join(line for line in worker.splitlines(keepends=True) if not line.startswith(joined))


def environment(home: str) -> dict[str, str]:
    """Return the environment variables of a worker, the same on every machine."""
    return {
        "HOME": home,
        "TMPDIR": home,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",  # a program's sets have the same order every time
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
    }


class WorkerClient:
    """A warm interpreter and the socket to its standard input and output.

    Override `_dispose`; `_unwrap` where the socket carries more than the worker's bytes.

    Attributes:
        reusable: Whether it can run another program.
        place: The folder that programs can write to, once `configure` has returned.
        held: `ProgramLimits.held` of its programs, likewise.
        apart: Whether it has a user namespace of its own by the option `apart`, likewise.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()
        self._last_id = 0
        self._closing = threading.Lock()
        self._closed = False
        self.reusable = True
        self.place = ""
        self.held = (0, 0, 0)
        self.apart = False

    @abstractmethod
    def _dispose(self) -> None:
        """Kill the worker and wait until nothing of it is left."""

    def _unwrap(self, data: bytes) -> bytes:
        """Return the worker's own bytes in what the socket gave."""
        return data

    def configure(self, limits: ProgramLimits, *, shared: bool = False, **options: Any) -> None:
        """Send a worker that just started its limits and options (see `worker.py`), and wait until it is ready.

        Raises:
            SandboxError: If it does not get ready.
        """
        self.held = limits.held
        config = {
            "memory_mb": limits.memory_mb,
            "pids": limits.pids,
            "disk_mb": limits.disk_mb,
            "filters": {machine: seccomp.program(machine, shared=shared) for machine in seccomp.MACHINES},
        }
        try:
            self._send(msgspec.json.encode(config | options), time.monotonic() + GRACE_SECONDS)
            ready = self._receive(1 << 16, time.monotonic() + GRACE_SECONDS)
            settings = msgspec.json.decode(ready, type=_Ready)
            self.place, self.apart = settings.place, settings.apart
        except (msgspec.DecodeError, OSError) as error:
            complaint = self._complaint()
            self.close()
            raise SandboxError(f"The sandbox's worker did not start: {error}. {complaint}".strip()) from error

    def _complaint(self) -> str:
        """Return what the worker wrote to standard error, if that is known."""
        return ""

    def ask(self, request: dict[str, Any], limits: ProgramLimits) -> WorkerReply:
        """Send a request and return the reply to it.

        Raises:
            WorkerLost: If the worker ends or hangs.
            SandboxError: If what comes back is no reply to this request.
        """
        self._last_id += 1
        start = time.monotonic()
        # Base64 takes 4 bytes for 3; standard output and error share one bound and files have another.
        max_bytes = (1 << 20) + 4 * limits.output_bytes
        try:
            self._send(msgspec.json.encode(request | {"id": self._last_id}), start + GRACE_SECONDS)
            frame = self._receive(max_bytes, time.monotonic() + limits.seconds + GRACE_SECONDS)
            reply = msgspec.json.decode(frame, type=WorkerReply)
        except TimeoutError:
            raise WorkerLost("it does not answer.", hung=True, seconds=time.monotonic() - start) from None
        except OSError as error:
            raise WorkerLost(f"{error}.", seconds=time.monotonic() - start) from None
        except msgspec.DecodeError as error:
            raise SandboxError(f"The sandbox's worker answered what is no reply: {error}") from None
        if reply.id != self._last_id:
            raise SandboxError(f"The sandbox's worker answered request {reply.id}, not {self._last_id}.")
        self.reusable = reply.reusable
        return reply

    def _send(self, data: bytes, deadline: float) -> None:
        self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
        self._socket.sendall(struct.pack("!I", len(data)) + data)

    def _receive(self, max_bytes: int, deadline: float) -> bytes:
        size: int | None = None
        while True:
            if size is None and len(self._buffer) >= 4:
                (size,) = struct.unpack_from("!I", self._buffer)
                if size > max_bytes:
                    raise SandboxError(f"The sandbox's worker announced {size} bytes; at most {max_bytes} can be true.")
            if size is not None and len(self._buffer) >= 4 + size:
                frame = bytes(self._buffer[4 : 4 + size])
                del self._buffer[: 4 + size]
                return frame
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError("it ended")
            self._buffer += self._unwrap(data)

    def close(self) -> None:
        """Stop the worker and whatever it runs; does nothing if it is closed."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            # A thread that waits for a reply wakes up.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._dispose()
            self._socket.close()

    def disown(self) -> None:
        """Let go of a worker of the process that this one was forked from."""
        self._closed = True
        self._socket.close()
