"""`ThreadedChat`: the base class of chat models that answer each request in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

from toolorchestra.agents.chat.base import ChatRequest, Completion, all_or_raise, completions_of
from toolorchestra.toolscale.common.errors import ExpertError

_chats: weakref.WeakSet[ThreadedChat] = weakref.WeakSet()
_of_the_parent: list[Any] = []
"""What forked processes must not use: threads that they do not have, and connections that are not theirs to close."""


class ThreadedChat(ABC):
    """A chat model that answers each request by itself, in at most `max_concurrency` threads over all callers.

    Subclasses implement `_one`, and free their other resources in `close`. Close it, or use it in a ``with`` block.
    Copies, pickles and processes forked from this one have threads and connections of their own, which are made when
    they are needed.
    """

    _NOT_COPIED: ClassVar[frozenset[str]] = frozenset(("_lock", "_threads", "_turn", "_client"))

    def __init__(self, max_concurrency: int) -> None:
        self._max_concurrency = max_concurrency
        self._prepare()

    def _prepare(self) -> None:
        """Make the locks, threads and connections, which copies do not share."""
        _chats.add(self)
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what `_prepare` makes."""
        return {name: value for name, value in self.__dict__.items() if name not in self._NOT_COPIED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    @abstractmethod
    def _one(self, request: ChatRequest) -> Completion | ExpertError:
        """Return the answer to a request, or the error that ended it; called in a thread."""

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests, concurrently, in their order."""
        with self._lock:  # threads are started late: a model can be made before its process forks
            self._threads = self._threads or ThreadPoolExecutor(self._max_concurrency, type(self).__name__)
            futures = [self._threads.submit(self._one, request) for request in requests]
        return completions_of(futures)

    async def ask(self, request: ChatRequest) -> Completion:
        """Answer one request, and let the event loop go on meanwhile; an `ExpertError` if it failed for good."""
        with self._lock:
            self._threads = self._threads or ThreadPoolExecutor(self._max_concurrency, type(self).__name__)
            future = self._threads.submit(self._one, request)
        return all_or_raise([await asyncio.wrap_future(future)])[0]

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


def _begin_anew() -> None:
    """Let the models of a forked process make their own threads and connections."""
    for chat in list(_chats):
        _of_the_parent.extend(chat.__dict__.get(name) for name in chat._NOT_COPIED)
        chat._prepare()


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=_begin_anew)
