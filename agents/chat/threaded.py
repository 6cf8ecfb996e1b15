"""`ThreadedChat`: what chat models have in common that ask for each answer in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from toolorchestra.agents.chat.base import ChatRequest, Completion, all_or_raise
from toolorchestra.toolscale.errors import ExpertError


class ThreadedChat(ABC):
    """A chat model that answers each request by itself, in threads.

    Subclasses say how, and free in `close` what else they hold. Close it, or use it in a ``with`` block.

    Args:
        max_concurrency: Most requests under way, over all callers.
    """

    def __init__(self, max_concurrency: int) -> None:
        self._max_concurrency = max_concurrency
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    @abstractmethod
    def _one(self, request: ChatRequest) -> Completion | ExpertError:
        """Return the answer to a request, or the error that ended it; called in a thread."""

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests, concurrently, in their order.

        Raises:
            BatchError: If any request failed for good; the others' completions are in it.
        """
        with self._lock:  # threads are started late: a model can be made before its process forks
            self._threads = self._threads or ThreadPoolExecutor(self._max_concurrency, type(self).__name__)
            futures = [self._threads.submit(self._one, request) for request in requests]
        try:
            return all_or_raise([future.result() for future in futures])
        finally:
            for future in futures:  # after an interrupt, send nothing more
                future.cancel()

    def close(self) -> None:
        """Wait for requests under way and free the threads."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads:
            threads.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
