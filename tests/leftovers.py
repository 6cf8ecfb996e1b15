"""What a test leaves behind in this process: threads, children, and open descriptors, of sockets, pipes and files.

Of what is asked before and after every test, all that costs more than microseconds is asked only where something
differs. Not covered: children that a child leaves, and sessions, whose databases are in memory and which are freed with
the last reference to them (`test_session.py`); the verifier of a domain keeps one.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from waiting import until

from toolorchestra.envs.tools import python
from toolorchestra.toolscale.answers import math_verifier

PROC = Path("/proc/self")
KEPT_THREADS = {
    "tqdm_monitor": "one for all bars of a process",
    "rollout-trace-logger": "of TRL's asynchronous trainer, which does not end it",
}
KEPT_FILES = {
    "/site-packages/matplotlib/mpl-data/fonts/": "fonts are opened once in a process",
    "/inspect_ai/traces/": "inspect's log of a process",
    "/logs/attempt_1/eval.log": "of verifiers, which does not close it",
    "/dev/shm/pym-": "the heap of `multiprocessing`, which goes on to use what was given back",
}


class Held(NamedTuple):
    """What this process holds: its threads, its open descriptors and its children, which only Linux tells."""

    threads: set[threading.Thread]
    descriptors: set[str]
    children: set[str]


def held() -> Held:
    """Return what this process holds now."""
    return Held(set(threading.enumerate()), _descriptors(), _children())


def _descriptors() -> set[str]:
    if not PROC.exists():
        return set()
    found = set(os.listdir("/proc/self/fd"))
    spare = os.open("/", os.O_RDONLY)  # the lowest free number, which was that of the listing
    os.close(spare)
    return found - {str(spare)}


def _children() -> set[str]:
    if not PROC.exists():
        return set()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # there is none
        return set()
    found: set[str] = set()
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError):  # the thread has ended
            found.update(Path(f"/proc/self/task/{task}/children").read_text().split())
    return found


def _kept() -> tuple[set[str], set[str]]:
    """Return descriptors and children that are kept until the process ends, by whichever test needed them first."""
    tracker: Any = resource_tracker._resource_tracker  # of Python, for workers
    kept: list[tuple[int | None, ...]] = [(tracker._pid, tracker._fd)]
    if (verifier := math_verifier._VERIFIER._process) is not None:  # imports sympy, which takes seconds
        assert verifier.stdin is not None
        assert verifier.stdout is not None
        kept.append((verifier.pid, verifier.stdin.fileno(), verifier.stdout.fileno()))
    return {str(number) for _, *numbers in kept for number in numbers}, {str(child) for child, *_ in kept}


def _since(before: Held) -> list[str]:
    """Return what is held that was not, in words."""
    now = held()
    if now.threads <= before.threads and now.descriptors <= before.descriptors and now.children <= before.children:
        return []
    descriptors, children = _kept()
    found = [f"{one}" for one in now.threads - before.threads if one.name not in KEPT_THREADS]
    for number in now.descriptors - before.descriptors - descriptors:
        with contextlib.suppress(FileNotFoundError):  # another thread has closed it
            target = os.readlink(f"/proc/self/fd/{number}")
            if not any(kept in target for kept in KEPT_FILES):
                found.append(f"descriptor {number}: {target}")
    for child in now.children - before.children - children:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            command = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ").strip()
            found.append(f"process {child}: {command or 'ended, but nobody has waited for it'}")
    return sorted(found)


@contextlib.contextmanager
def nothing_left(request: pytest.FixtureRequest, *, seconds: float = 20) -> Iterator[None]:
    """Fail if more is held afterwards than before: not at once, since what ends needs a moment.

    A test that has failed already is not asked.
    """
    before, failures = held(), request.session.testsfailed
    yield
    while python._sandboxes:  # of all `PythonTool`s, kept until the process ends
        python._sandboxes.popitem()[1].close()
    if not _since(before) or request.session.testsfailed > failures:
        return
    with contextlib.suppress(AssertionError):
        until(lambda: not _since(before), "all ends that was started", seconds=0.1)
        return
    gc.collect()  # which takes seconds in a large process
    with contextlib.suppress(AssertionError):
        until(lambda: not _since(before), "all ends that was started", seconds=seconds)
    if found := _since(before):
        pytest.fail("It leaves behind:\n" + "\n".join(found))


@pytest.fixture(name="nothing_is_left", scope="module", autouse=True)
def nothing_is_left_by_the_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ask after all tests of a module, which imports this since its tests replace what they share."""
    with nothing_left(request):
        yield
