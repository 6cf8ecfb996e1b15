"""Rate limits: no minute has too many requests or tokens, on a clock of our own."""

from __future__ import annotations

import threading

import pytest

from toolorchestra.agents.chat.base import BatchError, ChatRequest, Completion, ScriptedChat
from toolorchestra.agents.chat.rate_limits import RateLimitedChat
from toolorchestra.toolscale.common.errors import ExpertError, OptionError


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


class Timed(ScriptedChat):
    """Notes when each request comes."""

    def __init__(self, clock: Clock, answer: object = "ok") -> None:
        super().__init__(lambda request: answer)  # type: ignore[arg-type, return-value]
        self.clock, self.times, self.closed = clock, [], False  # type: ignore[var-annotated]

    def complete(self, requests):  # type: ignore[no-untyped-def]
        self.times.append(self.clock.now)
        return super().complete(requests)

    def close(self) -> None:
        self.closed = True


def request(max_tokens: int = 100, text: str = "x") -> ChatRequest:
    return ChatRequest([{"role": "user", "content": text}], max_tokens=max_tokens)


def limited(inner: Timed, **limits: int) -> RateLimitedChat:
    return RateLimitedChat(inner, max_concurrency=1, clock=inner.clock, sleep=inner.clock.sleep, **limits)


def test_no_minute_has_more_requests_than_allowed():
    inner = Timed(Clock())
    with limited(inner, requests_per_minute=3) as chat:
        assert [one.text for one in chat.complete([request()] * 8)] == ["ok"] * 8
    assert inner.times == [1000.0] * 3 + [1060.0] * 3 + [1120.0] * 2
    assert inner.closed


def test_no_minute_has_more_tokens_than_allowed():
    inner = Timed(Clock(), Completion("ok", prompt_tokens=50, completion_tokens=350))
    with limited(inner, tokens_per_minute=1000) as chat:
        chat.complete([request(400)] * 5)
    # 400 tokens each once answered; with the 400 that the next may take, two fit into a minute
    assert inner.times == [1000.0, 1000.0, 1060.0, 1060.0, 1120.0]


def test_a_request_larger_than_a_minute_is_sent_alone():
    inner = Timed(Clock(), Completion("ok", prompt_tokens=10, completion_tokens=5000))
    with limited(inner, tokens_per_minute=1000) as chat:
        chat.complete([request(5000)] * 2)
    assert inner.times == [1000.0, 1060.0]


def test_the_length_of_a_request_counts():
    inner = Timed(Clock(), Completion("ok", prompt_tokens=900, completion_tokens=1))
    with limited(inner, tokens_per_minute=1000) as chat:
        chat.complete([request(10, "word " * 700), request(10, "word " * 700)])
    assert inner.times == [1000.0, 1060.0]


def test_failures_keep_the_answers_of_the_others():
    answers = iter(["first", ExpertError("down"), "third"])
    inner = Timed(Clock())
    inner._script = lambda request: next(answers)
    with limited(inner, requests_per_minute=100) as chat, pytest.raises(BatchError) as caught:
        chat.complete([request()] * 3)
    results = caught.value.results
    assert [getattr(result, "text", str(result)) for result in results] == ["first", "down", "third"]


def test_many_callers_share_one_limit():
    inner = Timed(Clock())
    chat = limited(inner, requests_per_minute=5)
    callers = [threading.Thread(target=chat.complete, args=([request()] * 5,)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    chat.close()
    assert sorted(inner.times) == [1000.0 + 60 * minute for minute in range(4) for _ in range(5)]
    assert chat.meter.usage.calls == 20


def test_limits_below_one_are_refused():
    with pytest.raises(OptionError, match="of at least 1, got 0, None and 16"):
        RateLimitedChat(Timed(Clock()), requests_per_minute=0)
