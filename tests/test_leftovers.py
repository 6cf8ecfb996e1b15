"""What a test leaves behind fails it and is named; what only needs a moment to end does not."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from leftovers import nothing_left


def thread(stack: contextlib.ExitStack) -> str:
    go_on = threading.Event()
    left = threading.Thread(target=go_on.wait, name="left")
    left.start()
    stack.callback(left.join)
    stack.callback(go_on.set)
    return r"<Thread\(left, started"


def process(stack: contextlib.ExitStack) -> str:
    left = stack.enter_context(subprocess.Popen(["sleep", "600"]))
    stack.callback(left.kill)
    return f"process {left.pid}: sleep 600"


def process_that_nobody_waited_for(stack: contextlib.ExitStack) -> str:
    left = stack.enter_context(subprocess.Popen(["true"]))
    return f"process {left.pid}: ended, but nobody has waited for it"


def listening_socket(stack: contextlib.ExitStack) -> str:
    left = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    return rf"descriptor {left.fileno()}: socket:"


def pipe(stack: contextlib.ExitStack) -> str:
    for end in (ends := os.pipe()):
        stack.callback(os.close, end)
    return rf"descriptor {ends[0]}: pipe:"


def file(stack: contextlib.ExitStack) -> str:
    left = os.open(__file__, os.O_RDONLY)
    stack.callback(os.close, left)
    return f"descriptor {left}: {__file__}"


@pytest.mark.parametrize("leave", [thread, process, process_that_nobody_waited_for, listening_socket, pipe, file])
def test_what_is_left_is_named(
    request: pytest.FixtureRequest, leave: Callable[[contextlib.ExitStack], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "collect", lambda: 0)  # it would find nothing, in seconds
    if leave is not thread and not Path("/proc/self/fd").exists():
        pytest.skip("only Linux tells what a process holds")
    with contextlib.ExitStack() as stack:
        with pytest.raises(pytest.fail.Exception) as failure, nothing_left(request, seconds=0):
            told = leave(stack)
        failure.match("It leaves behind:\n" + told)


def test_what_ends_in_a_moment_and_what_was_there_is_no_matter(request: pytest.FixtureRequest) -> None:
    before = threading.Thread(target=(over := threading.Event()).wait)
    before.start()
    with nothing_left(request):
        with socket.socket(), Path(__file__).open():
            subprocess.run(["true"], check=True)
        read, write = os.pipe()

        def end() -> None:
            os.read(read, 1)
            os.close(read)

        ending = threading.Thread(target=end)
        ending.start()
        os.close(write)
    assert not ending.is_alive()
    over.set()
    before.join()
