"""What servers answer: streams say the same as whole answers, and half of one is never taken for it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolorchestra.agents.chat.openai_responses import BrokenOffError, Counts, RefusedError, read_reply

STREAM = "text/event-stream; charset=utf-8"


def events(*pieces: dict[str, Any], end: str = "[DONE]") -> bytes:
    return "".join(
        f"data: {piece if isinstance(piece, str) else json.dumps(piece)}\n\n" for piece in (*pieces, end)
    ).encode()


def chunk(delta: dict[str, Any] | None = None, reason: str | None = None, **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": reason, **choice}], "usage": None}


def call(index: int | None, arguments: Any = None, **first: Any) -> dict[str, Any]:
    """A piece of a tool call; its first one has an id and a name."""
    function = {
        name: value for name, value in {"name": first.get("name"), "arguments": arguments}.items() if value is not None
    }
    return chunk({"tool_calls": [{"index": index, "id": first.get("id"), "type": "function", "function": function}]})


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@given(
    text=st.text(),
    calls=st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), max_size=3),
    places=st.lists(st.integers(0, 1000), max_size=6),
    logprobs=st.none() | st.lists(st.floats(-20, 0), min_size=1, max_size=5),
)
def test_a_streamed_answer_is_that_of_the_whole_wherever_it_is_cut(
    text: str, calls: list[tuple[str, str]], places: list[int], logprobs: list[float] | None
) -> None:
    tokens = None if logprobs is None else [{"token": "x", "logprob": one, "top_logprobs": []} for one in logprobs]
    ids = None if logprobs is None else list(range(len(logprobs)))
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    whole = {
        "choices": [
            {
                "index": 0,
                "message": {
                    "content": text,
                    "tool_calls": [
                        {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
                        for i, (name, arguments) in enumerate(calls)
                    ],
                },
                "finish_reason": "stop",
                "logprobs": tokens and {"content": tokens},
                "token_ids": ids,
            }
        ],
        "usage": usage,
        "prompt_token_ids": [1, 2, 3],
    }
    pieces = [chunk({"role": "assistant", "content": ""}) | {"prompt_token_ids": [1, 2, 3]}]
    pieces += [chunk({"content": part}) for part in cut(text, places)]
    for index, (name, arguments) in enumerate(calls):
        first, *rest = cut(arguments, places)
        pieces += [call(index, first, id=f"c{index}", name=name), *(call(index, part) for part in rest)]
    for token, one in zip(tokens or (), ids or (), strict=True):
        pieces.append(chunk(logprobs={"content": [token]}, token_ids=[one]))
    pieces += [chunk(reason="stop"), {"choices": [], "usage": usage}]
    assert read_reply(events(*pieces), STREAM) == read_reply(json.dumps(whole).encode())


def test_log_probabilities_come_in_the_form_of_openai_and_of_vllm() -> None:
    openai = {"content": [{"token": "Hi", "bytes": [72, 105], "logprob": -0.5, "top_logprobs": []}], "refusal": None}
    vllm = {"content": [{"token": "token_id:7", "bytes": None, "logprob": -9999.0, "top_logprobs": []}]}
    for form, expected in ((openai, [-0.5]), (vllm, [-9999.0])):
        answer = {"choices": [{"message": {"content": "Hi"}, "logprobs": form, "finish_reason": "stop"}]}
        assert read_reply(json.dumps(answer).encode()).logprobs == expected
        stream = events(chunk({"content": ""}, logprobs=None), chunk({"content": "Hi"}, "stop", logprobs=form))
        assert read_reply(stream, STREAM).logprobs == expected


def test_parallel_calls_may_take_turns_or_share_an_index() -> None:
    turns = events(
        call(0, "", id="a", name="f"), call(1, "", id="b", name="g"), call(0, "{}"), call(1, "[]"), chunk(reason="stop")
    )
    shared = events(
        call(0, "{", id="a", name="f"), call(0, "}", id="a"), call(0, "[]", id="b", name="g"), chunk(reason="stop")
    )
    for stream in (turns, shared):
        assert read_reply(stream, STREAM).tool_calls == [
            {"id": "a", "name": "f", "arguments": "{}"},
            {"id": "b", "name": "g", "arguments": "[]"},
        ]


def test_calls_without_an_index_or_an_id_are_whole_and_get_a_number() -> None:
    stream = events(call(None, {"x": 1}, name="f"), call(None, name="g"), chunk(reason="tool_calls"))
    assert read_reply(stream, STREAM).tool_calls == [
        {"id": "call_1", "name": "f", "arguments": '{"x":1}'},
        {"id": "call_2", "name": "g", "arguments": "{}"},
    ]


def test_comments_other_fields_and_line_ends_of_a_stream_are_as_its_standard_says() -> None:
    lines = events(chunk({"content": "Hi "}), chunk({"content": "there"}, "stop")).decode()
    dressed = ": keep-alive\n\nevent: message\nid: 3\n" + lines.replace("data: ", "data:").replace("\n", "\r\n")
    assert read_reply(dressed.encode(), STREAM).text == "Hi there"


def test_counts_may_come_with_any_piece_and_the_last_ones_hold() -> None:
    first = chunk({"content": "Hi"}) | {"usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    last = chunk(reason="stop") | {"usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    assert read_reply(events(first, last), STREAM).usage == Counts(9, 2)


@pytest.mark.parametrize("length", range(0, 300, 7))
def test_the_beginning_of_a_stream_is_never_an_answer(length: int) -> None:
    stream = events(chunk({"content": "Hal"}), call(0, '{"x": 1}', id="a", name="f"), chunk({"content": "f"}, "stop"))
    whole = len(stream) - len(b"data: [DONE]\n\n") - 1  # with the end of the line that has the reason to finish
    assert length < whole
    with pytest.raises(BrokenOffError, match="the stream ended without a finish_reason"):
        read_reply(stream[:length], STREAM)
    assert read_reply(stream[:whole], STREAM) == read_reply(stream, STREAM)


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_the_server_gave_up_is_no_answer(reason: str) -> None:
    with pytest.raises(BrokenOffError, match=f"its finish_reason is '{reason}'"):
        read_reply(events(chunk({"content": "Hal"}), chunk(reason=reason)), STREAM)
    with pytest.raises(BrokenOffError, match=reason):
        read_reply(json.dumps({"choices": [{"message": {"content": "Hal"}, "finish_reason": reason}]}).encode())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"message": "engine died", "type": "InternalServerError", "code": 500}, "engine died"),
        ({"message": "slow down", "code": 429}, "slow down"),
        ({"message": "overloaded", "code": "server_error"}, "overloaded"),
        ("out of memory", "out of memory"),
        ({"type": "odd"}, "odd"),
    ],
)
def test_a_failure_that_a_stream_reports_is_one(error: Any, message: str) -> None:
    with pytest.raises(BrokenOffError, match=f"the server says: .*{message}"):
        read_reply(events(chunk({"content": "Hal"}), {"error": error}), STREAM)


def test_an_error_in_the_request_that_a_stream_reports_is_final() -> None:
    with pytest.raises(RefusedError, match="too long") as caught:
        read_reply(events({"error": {"message": "too long", "code": 400}}), STREAM)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "piece",
    [
        "<html>",
        '{"choices": [{"delta": "Hi"}]}',
        '{"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}',
        '"\udcff"',
    ],
)
def test_a_malformed_piece_is_shown_as_such(piece: str) -> None:
    body = f"data: {piece}\n\n".encode(errors="surrogateescape")
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        read_reply(body + events(chunk(reason="stop")), STREAM)


def test_a_call_needs_a_name() -> None:
    with pytest.raises(msgspec.ValidationError, match="a tool call in it has no name"):
        read_reply(events(call(0, "{}", id="a"), chunk(reason="stop")), STREAM)
