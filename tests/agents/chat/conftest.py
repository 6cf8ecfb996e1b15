"""The clock of the event loop that requests run on, to be put forward: nobody waits for a timeout of a minute."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from toolorchestra.agents.chat import bounded_requests


@pytest.fixture
def put_forward(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let seconds pass for all requests, after they have read what they were sent until now."""
    loop = bounded_requests._loop(os.getpid())
    clock, passed = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: clock() + passed)

    def put(seconds: float) -> None:
        nonlocal passed
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
        passed += seconds
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()

    return put
