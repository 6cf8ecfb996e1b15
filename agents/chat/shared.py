"""`SharedChat`: one chat model for all workers, so that its limits and its budget hold over all of them.

The model itself is in the one place that workers share (`toolorchestra.toolscale.workers.driver_calls`), which has
one of each. Where there are no workers that place is this process, and `driver_calls.close` closes the models.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from toolorchestra.agents.chat.base import BatchError, ChatModel, ChatRequest, Completion, Meter
from toolorchestra.toolscale.workers.driver_calls import at_close, call_in_driver

_models: dict[bytes, ChatModel] = {}
_lock = threading.Lock()


class SharedChat:
    """A chat model that lives in the one place of all workers; it can be sent to workers.

    Args:
        name: Its name in records.
        key: What makes the model the same as that of another `SharedChat`: all that `make` depends on.
        make: A picklable function that makes the model.

    Attributes:
        meter: What was asked through this object, by this process.
    """

    def __init__(self, name: str, key: bytes, make: Callable[[], ChatModel]) -> None:
        self.name = name
        self.meter = Meter()
        self._key, self._make = key, make

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests.

        Raises:
            BatchError: A request failed for good; the error holds the completions of the others.
        """
        try:
            completions: list[Completion] = call_in_driver(_complete, self._key, self._make, list(requests))
        except BatchError as error:
            self._count(one for one in error.results if isinstance(one, Completion))
            raise
        self._count(completions)
        return completions

    def _count(self, completions: Iterable[Completion]) -> None:
        for completion in completions:
            self.meter.add(completion)


def _complete(key: bytes, make: Callable[[], ChatModel], requests: Sequence[ChatRequest]) -> list[Completion]:
    """Ask the model that `make` makes, in the one place; it is made for the first request and stays."""
    with _lock:
        if not _models:
            at_close(_close)
        model = _models.get(key)
        if model is None:
            model = _models[key] = make()
    return model.complete(requests)


def _close() -> None:
    """Close the models that live in this process."""
    with _lock:
        models = list(_models.values())
        _models.clear()
    for model in models:
        if close := getattr(model, "close", None):
            close()
