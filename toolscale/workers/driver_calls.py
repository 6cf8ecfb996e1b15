"""Functions that run in one place for all workers.

What must be counted over all workers (requests per minute, dollars of a budget) is kept in one process: that of the
command, or with Ray an actor beside it. `call_in_driver` runs a function there. Called in that process itself, or where
there are no workers, it is a plain call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolorchestra.toolscale.workers.units import Unit, outcome, packed

_place: Callable[[bytes], bytes] | None = None
_callbacks: list[Callable[[], object]] = []


def connect(place: Callable[[bytes], bytes]) -> None:
    """Make this process a worker: `place` performs packed units in the one place."""
    global _place
    _place = place


def is_worker() -> bool:
    """Return whether this process is a worker, whose central calls go elsewhere."""
    return _place is not None


def call_in_driver(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function of a module in the one place and return its result, or raise its exception."""
    if _place is None:
        return function(*arguments)
    return outcome(_place(packed(Unit(("central",), function, arguments))))


def at_close(callback: Callable[[], object]) -> None:
    """Have a function called, in the one place, when its workers have ended: to close what it holds for them."""
    _callbacks.append(callback)


def close() -> None:
    """Call what `at_close` was given."""
    while _callbacks:
        _callbacks.pop()()
