from __future__ import annotations

import asyncio
import itertools
import json
import os
import pickle
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import msgspec
import pytest
from waiting import until

from toolorchestra.agents.chat import openai_chat
from toolorchestra.agents.chat.base import BatchError, ChatRequest, Completion, Price, Usage
from toolorchestra.agents.chat.openai_chat import NoAnswerWarning, OpenAIChat
from toolorchestra.agents.http_client import HTTPClient, Response
from toolorchestra.toolscale.common.errors import ExpertError, OptionError

TOOL = {
    "type": "function",
    "function": {
        "name": "get_dish",
        "description": "Look up a dish.",
        "parameters": {"type": "object", "properties": {"dish": {"type": "string"}}},
    },
}


CALL = {"id": "a", "type": "function", "function": {"name": "get_dish", "arguments": '{"dish":""}'}}
INVALID_UTF8 = b'{"choices": [{"message": {"content": "\xff"}}]}'


def ask(text: str, **settings: Any) -> ChatRequest:
    return ChatRequest([{"role": "user", "content": text}], **settings)


def reply(text: str | None = "Hello.", *, read: int = 10, written: int = 5, **choice: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "tool_calls": choice.pop("tool_calls", None)}
    return {
        "id": "x",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }


class Server(Protocol):
    """The fake server, as the tests use it."""

    url: str
    respond: Callable[[dict[str, Any]], tuple[int, Any]]
    bodies: list[dict[str, Any]]
    keys: list[str | None]


@pytest.fixture
def server(fake_server: Server) -> Server:
    fake_server.respond = lambda body: (200, reply())
    return fake_server


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., OpenAIChat]]:
    chats: list[OpenAIChat] = []

    def make(**options: Any) -> OpenAIChat:
        chats.append(OpenAIChat(options.pop("url", server.url), "m", **options))
        return chats[-1]

    yield make
    for chat in chats:
        chat.close()


Connect = Callable[..., OpenAIChat]


def failures(error: BatchError) -> list[str | None]:
    return [str(result) if isinstance(result, ExpertError) else None for result in error.results]


def test_answers_come_in_the_order_of_the_requests(server: Server, connect: Connect) -> None:
    answered = [threading.Event() for _ in range(4)]
    answered[3].set()

    def last_first(body: dict[str, Any]) -> tuple[int, Any]:
        number = int(body["messages"][0]["content"])
        assert answered[number + 1].wait(60)
        answered[number].set()
        return 200, reply(f"answer {number}")

    server.respond = last_first
    completions = connect().complete([ask("0"), ask("1"), ask("2")])
    assert [completion.text for completion in completions] == ["answer 0", "answer 1", "answer 2"]


def test_the_latency_is_the_time_from_a_request_to_its_answer(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(openai_chat, "time", SimpleNamespace(perf_counter=lambda: now))

    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        nonlocal now
        now += 2.5
        return 200, reply()

    server.respond = respond
    assert connect().complete([ask("Hi")])[0].latency == 2.5


def test_a_closed_client_connects_again_when_it_is_used(connect: Connect) -> None:
    chat = connect()
    for _ in range(2):
        assert chat.complete([ask("Hi")])[0].text == "Hello."
        chat.close()


def test_a_request_is_sent_as_the_protocol_says(server: Server, connect: Connect) -> None:
    request = ask("Hi", tools=[TOOL], temperature=0.0, top_p=0.9, max_tokens=7, stop=("END",), seed=3)
    connect(extra={"top_p": None, "reasoning_effort": "low"}, max_tokens_field="max_completion_tokens").complete(
        [request]
    )
    assert server.bodies == [
        {
            "model": "m",
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [TOOL],
            "temperature": 0.0,
            "max_completion_tokens": 7,
            "stop": ["END"],
            "seed": 3,
            "reasoning_effort": "low",
        }
    ]


def test_tool_calls_are_handed_on_as_the_server_found_them(server: Server, connect: Connect) -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "get_dish", "arguments": '{"dish": '}},
        {"type": "function", "function": {"name": "get_dish", "arguments": {"dish": "Soup"}}},
    ]
    server.respond = lambda body: (200, reply(None, tool_calls=calls, finish_reason="tool_calls"))
    (completion,) = connect().complete([ask("Soup?", tools=[TOOL])])
    assert completion.tool_calls == [
        {"id": "a", "name": "get_dish", "arguments": '{"dish": '},
        {"id": "call_2", "name": "get_dish", "arguments": '{"dish":"Soup"}'},
    ]
    assert (completion.text, completion.finish_reason) == ("", "tool_calls")
    assert completion.action["tool_calls"][0]["function"]["name"] == "get_dish"  # type: ignore[index]


def test_log_probabilities_and_token_ids_are_kept_when_the_server_gives_them(server: Server, connect: Connect) -> None:
    logprobs = {"content": [{"token": "Hel", "logprob": -0.5}, {"token": "lo", "logprob": -0.25}]}
    answer = {**reply(logprobs=logprobs, token_ids=[7, 8]), "prompt_token_ids": [1, 2, 3]}
    server.respond = lambda body: (200, answer)
    (completion,) = connect(logprobs=True, token_ids=True).complete([ask("Hi")])
    assert server.bodies[0]["logprobs"] is True
    assert server.bodies[0]["return_token_ids"] is True
    assert (completion.logprobs, completion.token_ids) == ([-0.5, -0.25], [7, 8])
    assert completion.prompt_token_ids == [1, 2, 3]


def test_tokens_and_dollars_are_counted(server: Server, connect: Connect) -> None:
    server.respond = lambda body: (200, reply(read=96_000, written=4_000))
    chat = connect(price=Price(input=1.25, output=10.0))
    # each answer: 96,000 * $1.25 / 1e6 + 4,000 * $10 / 1e6 = $0.12 + $0.04
    assert [c.cost for c in chat.complete([ask("a"), ask("b")])] == pytest.approx([0.16, 0.16])
    usage = chat.meter.usage
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (2, 192_000, 8_000)
    assert usage.cost == pytest.approx(0.32)


def test_a_spent_budget_stops_before_the_next_request(server: Server, connect: Connect) -> None:
    server.respond = lambda body: (200, reply(read=0, written=100_000))  # $1 each
    chat = connect(price=Price(output=10.0), budget=2.0, max_concurrency=1)
    with pytest.raises(BatchError) as caught:
        chat.complete([ask("a"), ask("b"), ask("c"), ask("d")])
    assert [isinstance(result, Completion) for result in caught.value.results] == [True, True, False, False]
    assert "expected to spend less than $2, have spent $2; the request was not sent" in str(caught.value)
    assert len(server.bodies) == 2
    chat.meter.reset()
    assert chat.complete([ask("e")])[0].cost == 1.0


def test_too_many_requests_are_retried_and_charged_once(server: Server, connect: Connect) -> None:
    answers = iter([(429, {"error": "slow down"}), (503, b"<html>"), (0, b""), (408, b""), (200, reply())])
    server.respond = lambda body: next(answers)
    chat = connect()
    assert chat.complete([ask("Hi")])[0].text == "Hello."
    assert len(server.bodies) == 5
    assert chat.meter.usage == Usage(1, 10, 5, 0.0)


def test_a_server_that_never_recovers_fails_its_request_only(server: Server, connect: Connect) -> None:
    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        bad = body["messages"][0]["content"] == "bad"
        return (500, {"error": {"message": "out of memory"}}) if bad else (200, reply())

    server.respond = respond
    chat = connect(max_retries=2)
    with pytest.raises(BatchError, match="1 of 3 requests failed") as caught:
        chat.complete([ask("good"), ask("bad"), ask("good")])
    first, second, third = failures(caught.value)
    assert first is third is None
    assert second is not None
    assert "got status 500" in second
    assert "out of memory" in second
    assert "raise max_retries=" in second
    assert len(server.bodies) == 1 + 3 + 1
    assert chat.meter.usage.calls == 2


def test_a_refused_key_is_final_and_names_the_option(server: Server, connect: Connect) -> None:
    server.respond = lambda body: (401, {"error": {"message": "no such key"}})
    with pytest.raises(ExpertError, match=r"status 401: .*no such key.*Set api_key= or api_key_env=\.$"):
        connect().complete([ask("Hi")])
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("body", "detail"),
    [({"detail": "pinned to 'a'"}, "pinned to 'a'"), ({"error": "no 'b' here"}, "no 'b' here"), (["c"], r'\["c"\]')],
)
def test_an_error_in_a_servers_own_form_is_shown(server: Server, connect: Connect, body: object, detail: str) -> None:
    server.respond = lambda request: (400, body)
    with pytest.raises(ExpertError, match=rf"got status 400: .*{detail}.*\. Correct the request"):
        connect().complete([ask("Hi")])


def test_a_silent_server_times_out(server: Server, connect: Connect, put_forward: Callable[[float], None]) -> None:
    release = threading.Event()

    def silent(body: dict[str, Any]) -> tuple[int, Any]:
        put_forward(61)
        release.wait(60)
        return 200, reply()

    server.respond = silent
    with pytest.raises(ExpertError, match=r"within 60 s, none came in 1 attempt\. Raise timeout="):
        connect(timeout=60, max_retries=0).complete([ask("Hi")])
    release.set()


def test_no_server_at_all_says_where_one_was_expected(connect: Connect) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        with pytest.raises(ExpertError, match=rf"expected a server at {url}.*Start it or correct base_url="):
            connect(url=url, max_retries=0).complete([ask("Hi")])


@pytest.mark.parametrize(
    "answer",
    [
        b'{"choices": [',
        b"<html>welcome</html>",
        b"\xff\xfe",
        b"",
        INVALID_UTF8,
        {"choices": []},
        {"choices": [{"message": "Hi"}]},
        [],
    ],
)
def test_a_malformed_answer_is_asked_for_again_and_then_shown(server: Server, connect: Connect, answer: Any) -> None:
    answers = [(200, answer), (200, answer), (200, reply())]
    server.respond = lambda body: answers.pop(0)
    assert connect(max_retries=2).complete([ask("Hi")])[0].text == "Hello."
    server.respond = lambda body: (200, answer)
    with pytest.raises(ExpertError, match=r"expected a chat completion from .* in 2 attempts .* Check that base_url="):
        connect(max_retries=1).complete([ask("Hi")])
    assert len(server.bodies) == 3 + 2


def test_a_server_that_has_answered_before_is_asked_again_for_longer(server: Server, connect: Connect) -> None:
    chat = connect(max_retries=2)
    chat.complete([ask("Hi")])
    answers = [*[(200, {"choices": []})] * 6, (200, reply("At last."))]
    server.respond = lambda body: answers.pop(0)
    assert chat.complete([ask("Hi")])[0].text == "At last."
    server.respond = lambda body: (200, {"choices": []})
    with pytest.raises(ExpertError, match=r"in 7 attempts \(expected a message, got choices: \[\]\)"):
        chat.complete([ask("Hi")])
    server.respond = lambda body: (500, b"")
    with pytest.raises(ExpertError, match="status 500"):
        chat.complete([ask("Hi")])
    assert len(server.bodies) == 1 + 7 + 7 + 3


def test_text_that_cannot_be_sent_fails_its_request_only(connect: Connect) -> None:
    with pytest.raises(BatchError, match=r"^1 of 2 requests failed.*expected messages of valid Unicode"):
        connect().complete([ask("Hi"), ask("lone surrogate \ud800")])


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": None, "completion_tokens": None},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"total_tokens": 0},
        {"output_tokens": 0},
        "many",
    ],
)
def test_what_a_server_does_not_count_is_counted_from_the_text_and_charged(
    server: Server, connect: Connect, usage: Any
) -> None:
    server.respond = lambda body: (200, {**reply("x" * 400), "usage": usage})
    (short, long) = connect(price=Price(1, 10)).complete([ask("Hi"), ask("y" * 4000)])
    assert short.completion_tokens == long.completion_tokens == 100
    assert long.prompt_tokens == pytest.approx(short.prompt_tokens + 1000, abs=1)
    assert short.cost == (short.prompt_tokens + 1000) / 1e6


def test_thoughts_and_calls_that_are_not_counted_are_charged_too(server: Server, connect: Connect) -> None:
    message = {"content": "", "reasoning_content": "x" * 400, "tool_calls": [CALL]}
    server.respond = lambda body: (200, {"choices": [{"message": message}], "usage": {"prompt_tokens": 7}})
    (completion,) = connect(price=Price(1, 10)).complete([ask("Hi")])
    assert completion.prompt_tokens == 7
    assert completion.completion_tokens == 100 + len('get_dish{"dish":""}') // 4 + 1
    assert completion.message == {"role": "assistant", **message, "tool_calls": [CALL], "content": ""}
    assert completion.action == completion.message


@pytest.mark.parametrize("read", [-1, 10_000_001, 1e30, "many"])
@pytest.mark.parametrize("field", ["prompt_tokens", "completion_tokens"])
def test_counts_that_cannot_be_are_the_servers_fault(server: Server, connect: Connect, field: str, read: Any) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, field: read}
    server.respond = lambda body: (200, {**reply(), "usage": usage})
    chat = connect(price=Price(1, 1))
    with pytest.raises(ExpertError, match=rf"expected a chat completion from .*{field}") as caught:
        chat.complete([ask("Hi")])
    assert caught.value.outage
    assert chat.meter.usage == Usage()


def test_what_a_working_server_refuses_is_the_requests_fault(server: Server, connect: Connect) -> None:
    refusal: tuple[int, Any] = (400, {"error": {"message": "the context is too long"}})
    server.respond = lambda body: refusal if body["messages"][0]["content"] == "long" else (200, reply())
    chat = connect()

    def outage(text: str) -> bool:
        with pytest.raises(ExpertError, match=r"status (400|401|413): |valid Unicode") as caught:
            chat.complete([ask(text)])
        return caught.value.outage

    assert not outage("lone surrogate \ud800")
    assert outage("long")  # it may refuse everything
    chat.complete([ask("Hi")])
    assert not outage("long")
    refusal = (413, b"")
    assert not outage("long")
    refusal = (401, b"")
    assert outage("long")


def test_no_more_requests_than_allowed_are_under_way(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, put_forward: Callable[[float], None]
) -> None:
    under_way, most, go_on = 0, 0, Future[None]()
    request = HTTPClient.request

    async def counted(client: HTTPClient, path: str = "", body: bytes | None = None) -> Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.wrap_future(go_on)
        found = await request(client, path, body)
        under_way -= 1
        return found

    monkeypatch.setattr(HTTPClient, "request", counted)
    chat = connect(max_concurrency=3)
    callers = [threading.Thread(target=chat.complete, args=([ask("Hi")] * 6,)) for _ in range(2)]
    for caller in callers:
        caller.start()
    until(lambda: len(chat._client._under_way) == 12, "all requests to be asked for")
    put_forward(0)  # the event loop has begun all that may begin
    held = under_way
    go_on.set_result(None)
    for caller in callers:
        caller.join()
    assert held == most == 3
    assert chat.meter.usage.calls == 12


def test_a_key_is_sent_only_where_it_is_named(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OTHER_KEY", "other")
    connect().complete([ask("Hi")])
    connect(api_key_env="OTHER_KEY").complete([ask("Hi")])
    connect(api_key="given").complete([ask("Hi")])
    assert server.keys == ["Bearer none", "Bearer other", "Bearer given"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api_key_env": "TOOLORCHESTRA_UNSET"}, "export TOOLORCHESTRA_UNSET="),
        ({"api_key_env": "HOME", "api_key": "k"}, "one of api_key and api_key_env"),
        ({"budget": 1.0}, "a price= to count them by"),
        ({"timeout": 0}, "timeout > 0"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        OpenAIChat("http://127.0.0.1:1/v1", "m", **options)


# thoughts


def thinking(**message: Any) -> list[dict[str, Any]]:
    """A conversation whose first message has thoughts, by the name of our own."""
    said = {"role": "assistant", "content": "", "tool_calls": [CALL], **message}
    result = {"role": "tool", "tool_call_id": "a", "content": "Soup"}
    return [{"role": "user", "content": "Hi"}, said, result]


@pytest.mark.parametrize(
    ("option", "sent_by_server", "back"),
    [
        (None, "reasoning_content", "reasoning_content"),
        (None, "reasoning", "reasoning"),
        (None, "thinking", "thinking"),
        (None, None, None),
        ("", "reasoning_content", None),
        ("reasoning", None, "reasoning"),
        ("reasoning", "reasoning_content", "reasoning"),
    ],
)
def test_thoughts_go_back_by_the_name_that_the_server_gives_them_or_the_one_chosen(
    server: Server, connect: Connect, option: str | None, sent_by_server: str | None, back: str | None
) -> None:
    message = {"content": "Hello.", **({sent_by_server: "Hm."} if sent_by_server else {})}
    server.respond = lambda body: (200, {"choices": [{"message": message}]})
    chat = connect(reasoning_field=option)
    (first,) = chat.complete([ask("Hi")])
    assert first.reasoning == ("Hm." if sent_by_server else "")
    pickle.loads(pickle.dumps(chat)).complete([ChatRequest(thinking(reasoning_content="Soup?"))])
    (said,) = (one for one in server.bodies[-1]["messages"] if one["role"] == "assistant")
    assert {name: text for name, text in said.items() if text == "Soup?"} == ({back: "Soup?"} if back else {})


def test_thoughts_are_not_sent_to_a_server_that_has_shown_none(server: Server, connect: Connect) -> None:
    connect().complete([ChatRequest(thinking(reasoning="Soup?"))])
    assert server.bodies[0]["messages"] == thinking()


@pytest.mark.parametrize("names", [None, {"base_url": "--llm", "max_tokens": "--max-tokens"}, {}])
def test_an_answer_of_thoughts_alone_is_warned_of_once(server: Server, connect: Connect, names: Any) -> None:
    message = {"content": None, "reasoning_content": "Long thought"}
    server.respond = lambda body: (200, {"choices": [{"message": message, "finish_reason": "length"}]})
    chat = connect(option_names=names)
    raised = "" if names == {} else "Raise --max-tokens; " if names else "Raise max_tokens=; "
    with pytest.warns(NoAnswerWarning, match=f"none within 9 tokens.*{raised}") as warned:
        completion = chat.complete([ask("Hi", max_tokens=9)] * 3)[-1]
    assert (completion.text, completion.reasoning, completion.finish_reason) == ("", "Long thought", "length")
    assert len(warned) == 1


# streamed


def pieces(text: str, reason: str | None = "stop", **last: Any) -> Iterator[bytes]:
    """A stream that says a text, a character at a time."""
    for letter in text:
        yield event({"choices": [{"index": 0, "delta": {"content": letter}, "finish_reason": None}]})
    yield event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason, **last}]})
    yield event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": len(text)}})
    yield b"data: [DONE]\n\n"


def event(piece: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % json.dumps(piece).encode()


def broken(text: str) -> Iterator[bytes]:
    """A stream whose connection breaks."""
    yield from itertools.islice(pieces(text), len(text))
    raise ConnectionError


def test_a_streamed_answer_is_the_same(server: Server, connect: Connect) -> None:
    server.respond = lambda body: (200, pieces("Hello.") if body.get("stream") else reply("Hello.", written=6))
    (whole,), (streamed,) = (connect(stream=on, price=Price(1, 1)).complete([ask("Hi")]) for on in (False, True))
    assert msgspec.structs.replace(whole, latency=streamed.latency) == streamed
    assert (streamed.completion_tokens, streamed.cost) == (6, 16e-6)


def test_a_stream_is_asked_for_with_its_counts_where_that_is_wanted(server: Server, connect: Connect) -> None:
    server.respond = lambda body: (200, pieces("Hello.") if body.get("stream") else reply())
    for options in ({}, {"stream": True}, {"stream": True, "extra": {"stream_options": None}}):
        connect(**options).complete([ask("Hi")])
    fields = [{name: body[name] for name in body if name.startswith("stream")} for body in server.bodies]
    assert fields == [{}, {"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}]


def test_a_server_that_streams_or_not_as_it_likes_is_understood(server: Server, connect: Connect) -> None:
    assert connect(stream=True).complete([ask("Hi")])[0].text == "Hello."
    server.respond = lambda body: (200, pieces("Hello!"))
    assert connect().complete([ask("Hi")])[0].text == "Hello!"


def test_a_stream_that_breaks_off_is_asked_for_again(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolorchestra.agents.http_client._FIRST_PAUSE", 0.001)
    streams = [
        broken("Hal"),
        itertools.islice(pieces("Half"), 4),  # ends in good order, but before its end
        iter([event({"error": {"message": "engine died", "code": 500}}), b"data: [DONE]\n\n"]),
        pieces("Half", "abort"),
        pieces("Whole."),
    ]
    server.respond = lambda body: (200, streams.pop(0))
    chat = connect(stream=True)
    assert chat.complete([ask("Hi")])[0].text == "Whole."
    assert len(server.bodies) == 5
    assert chat.meter.usage == Usage(1, 10, 6, 0.0)


def test_all_attempts_count_however_they_failed(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolorchestra.agents.http_client._FIRST_PAUSE", 0.001)

    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        if body["messages"][0]["content"] == "good":
            return 200, pieces("Whole.")
        return (503, b"") if len(server.bodies) % 2 else (200, itertools.islice(pieces("Half"), 4))

    server.respond = respond
    chat = connect(stream=True, max_retries=3, max_concurrency=1)
    with pytest.raises(BatchError, match="1 of 2 requests failed") as caught:
        chat.complete([ask("bad"), ask("good")])
    first, second = failures(caught.value)
    assert first is not None
    assert "expected a whole answer" in first
    assert "it broke off in 4 attempts: the stream ended without a finish_reason. Look at the server's log" in first
    assert second is None
    assert len(server.bodies) == 4 + 1
    assert chat.meter.usage.calls == 1


def test_an_error_in_the_request_that_a_stream_reports_is_final(server: Server, connect: Connect) -> None:
    server.respond = lambda body: (200, iter([event({"error": {"message": "too long.", "code": 400}})]))
    with pytest.raises(ExpertError, match=r"got status 400: too long\. Correct the request"):
        connect(stream=True).complete([ask("Hi")])
    assert len(server.bodies) == 1


def test_a_stream_may_take_longer_than_the_timeout_but_not_stall(
    server: Server, connect: Connect, put_forward: Callable[[float], None]
) -> None:
    release = threading.Event()

    def slow(text: str) -> Iterator[bytes]:
        for piece in pieces(text):
            put_forward(50)
            yield piece

    def stalled() -> Iterator[bytes]:
        yield next(pieces("Hi"))
        put_forward(101)
        release.wait(60)

    chat = connect(stream=True, timeout=100, deadline=10_000, max_retries=0)
    server.respond = lambda body: (200, slow("x" * 40))
    assert chat.complete([ask("Hi")])[0].text == "x" * 40
    server.respond = lambda body: (200, stalled())
    with pytest.raises(ExpertError, match=r"within 100 s, none came in 1 attempt\. Raise timeout="):
        chat.complete([ask("Hi")])
    release.set()


def test_log_probabilities_that_do_not_match_the_tokens_are_refused(server: Server, connect: Connect) -> None:
    server.respond = lambda body: (
        200,
        pieces("ab", logprobs={"content": [{"token": "a", "logprob": -0.5}]}, token_ids=[7, 8]),
    )
    with pytest.raises(ExpertError, match=r"expected a log-probability of each token, .* gave 1 of 2\. Leave out"):
        connect(stream=True, logprobs=True, token_ids=True).complete([ask("Hi")])


# real servers


@pytest.mark.slow
def test_a_real_server_answers_a_batch(served: str, caller_model: Path) -> None:
    with OpenAIChat(served, str(caller_model), price=Price(1, 2), max_concurrency=4) as chat:
        requests = [ask(f"Question {i}", max_tokens=8, temperature=0.0) for i in range(4)]
        first, second = chat.complete(requests), chat.complete(requests)
        assert [completion.text for completion in first] == [completion.text for completion in second]
        for completion in first:
            assert completion.prompt_tokens > len("Question 0")
            assert completion.completion_tokens == 8
            assert completion.finish_reason == "length"
            assert completion.cost == (completion.prompt_tokens + 2 * completion.completion_tokens) / 1e6
        assert chat.meter.usage.calls == 8
    other = OpenAIChat(served, "no-such-model", max_retries=0)
    with other as chat, pytest.raises(ExpertError, match=r"got status 4.*: .*no-such-model"):
        chat.complete([ask("Hi")])


@pytest.mark.slow
def test_a_real_server_streams_the_same_answer(served: str, caller_model: Path) -> None:
    requests = [ask(f"Question {i}", temperature=0.0, max_tokens=20) for i in range(3)]
    requests.append(ask("Soup?", temperature=0.0, max_tokens=20, tools=[TOOL]))
    answers = []
    for stream in (False, True):
        with OpenAIChat(served, str(caller_model), stream=stream) as chat:
            answers.append([nameless(completion) for completion in chat.complete(requests)])
    assert answers[0] == answers[1]
    *texts, called = answers[0]
    assert all(len(completion.text) >= 20 for completion in texts)
    assert called.text == ""
    assert [(one["name"], json.loads(one["arguments"])) for one in called.tool_calls] == [
        ("get_dish", {"dish": "Soup"}),
        ("get_dish", {"dish": "Crème brûlée"}),
    ]
    assert (called.finish_reason, called.completion_tokens) == ("tool_calls", 11)


def nameless(completion: Completion) -> Completion:
    """The completion without what differs each time."""
    calls = [{**call, "id": ""} for call in completion.tool_calls]
    return msgspec.structs.replace(completion, latency=0.0, tool_calls=calls)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("stream", [False, True])
def test_a_real_server_that_dies_fails_what_it_has_not_answered(
    stream: bool, serve: Callable[[Path], Any], caller_model: Path
) -> None:
    server = serve(caller_model)
    options = {
        "timeout": 600,
        "max_retries": 0,
        "max_concurrency": 1,
    }  # this server takes one after another, in any order
    with OpenAIChat(server.url, str(caller_model), stream=stream, **options) as chat:

        def kill() -> None:
            until(
                lambda: chat.meter.usage.calls and server.log.read_text().count("Request received") == 2,
                "the second request to be under way",
            )
            server.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(BatchError, match="1 of 2 requests failed") as caught:
            chat.complete([ask("Short", max_tokens=4), ask("Long", max_tokens=30_000, temperature=0.0)])
        killer.join()
        first, second = caught.value.results
        assert isinstance(first, Completion)
        assert first.completion_tokens == 4
        assert "could not reach it in 1 attempt (" in str(second)
        assert "Start it or correct base_url=; of one that was running, see the log." in str(second)
        with pytest.raises(ExpertError, match="could not reach it"):
            chat.complete([ask("Anybody there?")])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_that_forks_after_a_request_asks_by_itself(server: Server, tmp_path: Path) -> None:
    chat = OpenAIChat(server.url, "m")
    assert chat.complete([ask("before")])[0].text == "Hello."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the test has by intention
        child = os.fork()
    if not child:
        try:
            signal.alarm(120)
            text = chat.complete([ask("in the child")])[0].text
            os._exit(0 if text == "Hello." else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert chat.complete([ask("after")])[0].text == "Hello."
    assert [body["messages"][-1]["content"] for body in server.bodies] == ["before", "in the child", "after"]
    chat.close()
