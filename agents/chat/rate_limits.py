"""`RateLimitedChat`: a chat model that keeps to limits of requests and tokens per minute.

It waits instead of being refused: hosted APIs answer requests beyond their limits with status 429, and some charge for
them. Retries are the wrapped model's.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from toolorchestra.agents.chat.base import BatchError, ChatModel, ChatRequest, Completion
from toolorchestra.agents.chat.threaded import ThreadedChat
from toolorchestra.toolscale.common.errors import ExpertError, OptionError

_WINDOW = 60.0
_CHARACTERS_PER_TOKEN = 4


class _Closable(ChatModel, Protocol):
    def close(self) -> None: ...


class _Sent(msgspec.Struct):
    """A request that was sent, and the tokens that it counts with."""

    at: float
    tokens: int


class RateLimitedChat(ThreadedChat):
    """A chat model whose requests are spread so that no minute has too many.

    A request counts with its length and the longest answer allowed until it is answered, then with the tokens read and
    written. One that alone exceeds the tokens of a minute is sent when no other was sent in the last minute.

    Args:
        chat: The model to ask; it is closed with this one.
        requests_per_minute: Maximum number of requests in any 60 seconds.
        tokens_per_minute: Maximum number of tokens in any 60 seconds.
        max_concurrency: Maximum number of requests under way.
        clock: Returns the time in seconds.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        chat: _Closable,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        max_concurrency: int = 16,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        limits = (requests_per_minute, tokens_per_minute, max_concurrency)
        if any(limit is not None and limit < 1 for limit in limits):
            raise OptionError(
                "expected requests_per_minute, tokens_per_minute and max_concurrency of at least 1, got "
                f"{requests_per_minute}, {tokens_per_minute} and {max_concurrency}."
            )
        super().__init__(max_concurrency)
        self._chat = chat
        self.name, self.meter = chat.name, chat.meter
        self._requests, self._tokens = requests_per_minute, tokens_per_minute
        self._clock, self._sleep = clock, sleep
        self._sent: deque[_Sent] = deque()

    def _prepare(self) -> None:
        super()._prepare()
        self._turn = threading.Lock()

    def _one(self, request: ChatRequest) -> Completion | ExpertError:
        length = len(str(request.messages)) + len(str(request.tools or ""))
        sent = self._admit(length // _CHARACTERS_PER_TOKEN + request.max_tokens)
        try:
            (answer,) = self._chat.complete([request])
        except BatchError as error:
            return error.results[0]
        sent.tokens = answer.prompt_tokens + answer.completion_tokens
        return answer

    def _admit(self, tokens: int) -> _Sent:
        """Wait until the limits allow a request of so many tokens, and count it."""
        with self._turn:
            while (wait := self._wait(tokens)) > 0:
                self._sleep(wait)
            sent = _Sent(self._clock(), tokens)
            self._sent.append(sent)
            return sent

    def _wait(self, tokens: int) -> float:
        """Return the seconds until the oldest request in the window leaves it; 0 if there is no need to wait."""
        now = self._clock()
        while self._sent and now - self._sent[0].at >= _WINDOW:
            self._sent.popleft()
        full = self._requests is not None and len(self._sent) >= self._requests
        spent = sum(sent.tokens for sent in self._sent)
        if self._sent and (full or (self._tokens is not None and spent + tokens > self._tokens)):
            return _WINDOW - (now - self._sent[0].at)
        return 0.0

    def close(self) -> None:
        """Wait for requests under way and close the wrapped model."""
        super().close()
        self._chat.close()
