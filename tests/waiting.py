"""Waiting in tests for what another thread or process does. It looks at the clock only to give up at last.

No other place in the tests sleeps or measures time (`test_structure.py`), so that no verdict hangs on how fast a
machine is. Where there is an event, a barrier or a thread to join, wait for that instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, *, seconds: float = 120) -> T:
    """Wait until a condition holds, and return what it then gave: something true.

    Args:
        condition: Asked about every hundredth of a second; what it raises goes to the caller.
        what: What is waited for, for the message.
        seconds: When to give up: many times what the slowest machine needs. The condition is asked once more then.

    Raises:
        AssertionError: It never came to hold.
    """
    deadline = time.monotonic() + seconds
    while not (held := condition()):
        if time.monotonic() > deadline:
            if held := condition():
                return held
            raise AssertionError(f"waited {seconds:g} s in vain: {what}")
        time.sleep(0.01)
    return held
