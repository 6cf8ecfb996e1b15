"""Rate limits: no minute has too many requests or tokens, on a clock of our own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from waiting import until

from toolorchestra.agents.chat.base import BatchError, ChatRequest
from toolorchestra.agents.chat.openai_chat import OpenAIChat
from toolorchestra.agents.http_client import RateLimits
from toolorchestra.toolscale.common.errors import ExpertError, OptionError


def times(limits: RateLimits, *requests: tuple[int, int]) -> list[float]:
    """Send requests as soon as they may be, by the tokens that each may take and that it took; return when."""
    now, found = 1000.0, []
    for expected, taken in requests:
        while wait := limits.wait(expected, now):
            assert wait > 0
            now += wait
        limits.add(expected, now).tokens = taken
        found.append(now)
    return found


def test_no_minute_has_more_requests_than_allowed() -> None:
    assert times(RateLimits(requests=3), *[(500, 500)] * 8) == [1000.0] * 3 + [1060.0] * 3 + [1120.0] * 2


def test_no_minute_has_more_tokens_than_allowed() -> None:
    # 400 tokens each once answered; with the 450 that the next may take, two fit into a minute
    assert times(RateLimits(tokens=1000), *[(450, 400)] * 5) == [1000.0, 1000.0, 1060.0, 1060.0, 1120.0]


def test_a_request_larger_than_a_minute_is_sent_alone() -> None:
    assert times(RateLimits(tokens=1000), *[(5000, 5010)] * 2) == [1000.0, 1060.0]


@pytest.fixture
def connect(fake_server: Any) -> Iterator[Callable[..., OpenAIChat]]:
    chats: list[OpenAIChat] = []

    def make(**options: Any) -> OpenAIChat:
        chats.append(OpenAIChat(fake_server.url, "m", max_retries=0, **options))
        return chats[-1]

    yield make
    for chat in chats:
        chat.close()


def ask(text: str = "x", max_tokens: int = 100) -> ChatRequest:
    return ChatRequest([{"role": "user", "content": text}], max_tokens=max_tokens)


def reply(text: str = "ok", tokens: int = 10) -> tuple[int, Any]:
    usage = {"prompt_tokens": tokens, "completion_tokens": 1}
    return 200, {"choices": [{"message": {"content": text}}], "usage": usage}


def test_many_callers_share_one_limit(
    fake_server: Any, connect: Callable[..., OpenAIChat], put_forward: Callable[[float], None]
) -> None:
    fake_server.respond = lambda body: reply()
    chat = connect(requests_per_minute=5, max_concurrency=3)
    callers = [threading.Thread(target=chat.complete, args=([ask()] * 5,)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for minute in range(1, 5):
        until(lambda sent=5 * minute: chat.meter.usage.calls == sent, "the requests of a minute to be answered")
        put_forward(0)
        assert len(fake_server.bodies) == 5 * minute
        put_forward(60)
    for caller in callers:
        caller.join()


def test_the_length_of_a_request_counts_until_its_tokens_are_known(
    fake_server: Any, connect: Callable[..., OpenAIChat], put_forward: Callable[[float], None]
) -> None:
    fake_server.respond = lambda body: reply(tokens=10)
    chat = connect(tokens_per_minute=1000)
    chat.complete([ask("word " * 700, 10)] * 1)
    chat.complete([ask("word " * 700, 10)])  # 875 tokens, but the first took 11
    fake_server.respond = lambda body: reply(tokens=900)
    chat.complete([ask()])
    caller = threading.Thread(target=chat.complete, args=([ask("word " * 700, 10)],))
    caller.start()
    until(lambda: chat._client._admission.locked(), "the request to wait")
    assert len(fake_server.bodies) == 3
    put_forward(60)
    caller.join()
    assert len(fake_server.bodies) == 4


def test_failures_keep_the_answers_of_the_others(fake_server: Any, connect: Callable[..., OpenAIChat]) -> None:
    answers = iter([reply("first"), (400, b"down"), reply("third")])
    fake_server.respond = lambda body: next(answers)
    with pytest.raises(BatchError) as caught:
        connect(requests_per_minute=100, max_concurrency=1).complete([ask()] * 3)
    first, second, third = caught.value.results
    assert (first.text, third.text) == ("first", "third")  # type: ignore[union-attr]
    assert isinstance(second, ExpertError)


def test_limits_below_one_are_refused() -> None:
    with pytest.raises(OptionError, match="of at least 1, got 0 and None"):
        OpenAIChat("http://127.0.0.1:1/v1", "m", requests_per_minute=0)
