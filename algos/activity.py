"""What a run does at the moment, shown while it lasts longer than two seconds.

Not here: what a run records (`toolorchestra.algos.reporting.report`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

FIRST = 2.0
"""Seconds after which something is shown for the first time."""
TOKENS: Counter[str] = Counter()
"""Ids that the models of this process have ``read`` and ``written`` so far, those of turns under way included."""

Count = Callable[[int], None]
"""Called with the number of things done so far."""


class Watch(Protocol):
    """Shows how far something is while the context lasts."""

    def __call__(self, what: str, total: int, first: float = FIRST) -> AbstractContextManager[Count]:
        """Return the context, given the name of the things, how many are to be done, and when they are first shown.

        0 things: they cannot be counted.
        """


@contextmanager
def unwatched(what: str, total: int, first: float = FIRST) -> Iterator[Count]:
    """Show nothing."""
    del what, total, first
    yield lambda done: None


class Activity:
    """Something that may take long; while it lasts, a thread calls `show` with how many things are done and a text.

    Args:
        show: Shows it.
        slowest: Seconds between two calls of `show`, which come less and less often.
        first: Seconds before the first.
    """

    def __init__(self, show: Callable[[int, str], None], slowest: float = 10.0, first: float = FIRST) -> None:
        self.done = 0
        self._show, self._slowest, self._first = show, slowest, first
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def count(self, done: int) -> None:
        """Take note of how many things are done."""
        self.done = done

    def __enter__(self) -> Activity:
        self._begun, self._tokens = time.monotonic(), Counter(TOKENS)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = self._first
        while not self._ended.wait(pause):
            self._show(self.done, self._text())
            pause = min(self._slowest, 2 * pause)

    def _text(self) -> str:
        seconds = time.monotonic() - self._begun
        new = {name: TOKENS[name] - self._tokens[name] for name in ("read", "written")}
        return ", ".join([f"{seconds:.0f} s", *(f"{count:,} tokens {name}" for name, count in new.items() if count)])
