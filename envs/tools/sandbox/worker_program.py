"""Code that the worker runs in the process that it forks for a program; see `worker.py`."""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import linecache
import os
import struct
import sys
import threading
import traceback
import types
from typing import Any, TextIO

NAME = "<program>"
REQUESTS, REPORT = 3, 4  # descriptors in a session's process


def framed(frame: dict[str, Any]) -> bytes:
    """Return JSON behind its length."""
    data = json.dumps(frame).encode()
    return struct.pack("!I", len(data)) + data


def run_once(request: dict[str, Any]) -> int:
    """Run a whole program as ``python program.py`` would; return its exit code."""
    os.close(REQUESTS)
    os.close(REPORT)
    code = run_call(request, new_main())
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as Python does before it exits
    atexit._run_exitfuncs()
    flush()
    return code


def run_session(request: dict[str, Any]) -> int:
    """Run call after call in one module, until no more come."""
    module = new_main()
    with open(REQUESTS, "rb") as requests:
        while True:
            code = run_call(request, module)
            flush()
            os.write(REPORT, bytes([code]))
            header = requests.read(4)
            if len(header) < 4:
                return 0
            request = json.loads(requests.read(struct.unpack("!I", header)[0]))


def new_main() -> types.ModuleType:
    """Make the process look like an interpreter that just started a program."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, __file__=NAME)
    sys.modules["__main__"] = module
    sys.argv = [NAME]
    sys.stdout = sys.__stdout__ = open_text(1)  # type: ignore[misc, assignment]
    sys.stderr = sys.__stderr__ = open_text(2)  # type: ignore[misc, assignment]
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # else every fork would draw the same numbers
    return module


def open_text(fd: int) -> TextIO:
    """Open one of the three standard streams."""
    mode, errors = ("w", "backslashreplace") if fd else ("r", "replace")
    return open(fd, mode, encoding="utf-8", errors=errors, buffering=1, closefd=False)  # type: ignore[return-value]


def flush() -> None:
    """Write out what the streams hold, whatever the program made of them."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def run_call(request: dict[str, Any], module: types.ModuleType) -> int:
    """Run source as a module's; return the exit code that Python would."""
    try:
        give_input(base64.b64decode(request["stdin"]))
        for name, data in request["files"].items():
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            with open(name, "wb") as file:
                file.write(base64.b64decode(data))
        code = request["code"]
        linecache.cache[NAME] = (len(code), None, code.splitlines(True), NAME)  # tracebacks show the lines
        exec(compile(code, NAME, "exec", dont_inherit=True), module.__dict__)
        return 0
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return (leaving.code or 0) & 255
        with contextlib.suppress(BaseException):
            print(leaving.code, file=sys.stderr)
        return 1
    except BaseException as error:
        try:
            trace = error.__traceback__ and error.__traceback__.tb_next
            traceback.print_exception(type(error), error, trace)
        except BaseException:  # no memory for it, or an exception made to break this
            os.write(2, type(error).__name__.encode() + b"\n")
        return 1


def give_input(data: bytes) -> None:
    """Make these bytes the standard input."""
    fd = os.memfd_create("stdin")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    os.close(fd)
    sys.stdin = sys.__stdin__ = open_text(0)  # type: ignore[misc, assignment]
