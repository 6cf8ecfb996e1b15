"""What servers answer: streams say the same as whole answers, and half of one is never taken for it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolorchestra.agents.chat.openai_responses import Counts, ServerReply, read_reply
from toolorchestra.agents.http_client import BrokenOffError, RefusedError

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


# what servers differ in


def read(message: Any = None, **reply: Any) -> ServerReply:
    return read_reply(json.dumps({"choices": [{"message": message or {"content": "Hi"}}], **reply}).encode())


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ("Hi", "Hi", ""),
        (None, "", ""),
        ([], "", ""),
        ([{"type": "text", "text": "H"}, {"type": "text", "text": "i"}], "Hi", ""),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}], "Hi", "hm"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, "Hi"], "Hi", "hm"),
        ([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}], "", "hm"),
        ([{"type": "redacted_thinking", "data": "x"}, {"type": "output_text", "text": "Hi"}], "Hi", ""),
        ([{"type": "refusal", "refusal": "No."}], "No.", ""),
        ([{"text": "Hi"}], "Hi", ""),
        ({"type": "text", "text": "Hi"}, "Hi", ""),
    ],
)
def test_a_content_is_text_or_parts(content: Any, text: str, reasoning: str) -> None:
    reply = read({"content": content})
    assert (reply.text, reply.reasoning, reply.reasoning_field) == (text, reasoning, None)
    assert read_reply(events(chunk({"content": content}, "stop")), STREAM).text == text


@pytest.mark.parametrize(
    ("content", "came"),
    [
        (42, "got 42"),
        ([{"type": "image_url", "image_url": {"url": "x" * 500}}], r'got {"type":"image_url".*…$'),
        ([{"type": "text", "text": None}], '"text":null'),
        ([None], "got null"),
        (True, "got true"),
        ([["Hi"]], r'got \["Hi"\]'),
    ],
)
def test_a_content_of_another_kind_is_refused_and_shown(content: Any, came: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=f"expected a content of text, or of parts .*{came}"):
        read({"content": content})


@pytest.mark.parametrize(
    ("fields", "reasoning", "field"),
    [
        ({"reasoning_content": "hm"}, "hm", "reasoning_content"),
        ({"reasoning": "hm"}, "hm", "reasoning"),
        ({"thinking": "hm"}, "hm", "thinking"),
        ({"reasoning": "hm", "reasoning_content": "hm"}, "hm", "reasoning_content"),
        ({"reasoning_content": None, "reasoning": "hm"}, "hm", "reasoning"),
        ({"reasoning": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]}, "hm", "reasoning"),
        ({"reasoning": {"effort": "low"}}, "", None),
        ({"reasoning_content": ""}, "", None),
    ],
)
def test_thoughts_have_several_names(fields: Any, reasoning: str, field: str | None) -> None:
    whole = read({"content": "Hi", **fields})
    assert (whole.text, whole.reasoning, whole.reasoning_field) == ("Hi", reasoning, field)
    streamed = read_reply(events(chunk(fields), chunk({"content": "Hi"}), chunk(fields, "stop")), STREAM)
    assert (streamed.text, streamed.reasoning, streamed.reasoning_field) == ("Hi", 2 * reasoning, field)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 1000, "completion_tokens": 200}, Counts(1000, 200)),
        ({"input_tokens": 1000, "output_tokens": 200}, Counts(1000, 200)),
        ({"prompt_tokens": 1000.0, "completion_tokens": 200.0}, Counts(1000, 200)),
        ({"prompt_tokens": 1000, "completion_tokens": None}, Counts(1000)),
        ({"prompt_tokens": 1000, "total_tokens": 1200}, Counts(1000, 200)),
        ({"output_tokens": 200, "total_tokens": 1200}, Counts(1000, 200)),
        ({"prompt_tokens": None, "input_tokens": 1000}, Counts(1000)),
        ({"completion_tokens": 200, "prompt_tokens_details": {"cached_tokens": 3}}, Counts(None, 200)),
        ({"prompt_tokens": None, "completion_tokens": None}, None),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({}, None),
        (None, None),
        ("1000", None),
    ],
)
def test_counts_have_several_names_and_forms(usage: Any, counts: Counts | None) -> None:
    assert read(usage=usage).usage == counts
    stream = events(chunk({"content": "Hi"}, "stop"), {"choices": [], "usage": usage}, {"choices": [], "usage": None})
    assert read_reply(stream, STREAM).usage == counts


@pytest.mark.parametrize("count", [-1, 12.5, "many", True, 1e30, [3]])
def test_a_count_that_cannot_be_is_shown(count: Any) -> None:
    with pytest.raises(msgspec.ValidationError, match="as output_tokens, got"):
        read(usage={"input_tokens": 5, "output_tokens": count})


F = {"name": "f", "arguments": "{}"}


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["call_2", None], ["call_2", "call_2_2"]),
        ([None, "call_1"], ["call_1_2", "call_1"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a_2", "a"], ["a", "a_2", "a_3"]),
        (["", "", "call_1"], ["call_1_2", "call_2", "call_1"]),
        ([0, 0, "0"], ["0", "0_2", "0_3"]),
    ],
)
def test_every_call_has_an_id_of_its_own(ids: list[Any], expected: list[str]) -> None:
    calls = [{"id": one, "function": F} if one is not None else {"function": F} for one in ids]
    assert [one["id"] for one in read({"content": None, "tool_calls": calls}).tool_calls] == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"x": 1}', '{"x": 1}'),
        ({"x": 1}, '{"x":1}'),
        (None, "{}"),
        ("", "{}"),
        ('{"x": ', '{"x": '),
        ([1], "[1]"),
        (3, "3"),
    ],
)
def test_arguments_are_the_text_that_came(arguments: Any, expected: str) -> None:
    for message in (
        {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": arguments}}]},
        {"tool_calls": [{"id": "a", "name": "f", "arguments": arguments}]},
        {"function_call": {"name": "f", "arguments": arguments}},
        {"content": [{"type": "tool_use", "id": "a", "name": "f", "input": arguments}]},
    ):
        (found,) = read(message).tool_calls
        assert (found["name"], found["arguments"]) == ("f", expected)
        (streamed,) = read_reply(events(chunk(message, "stop")), STREAM).tool_calls
        assert streamed == found
    assert read({"tool_calls": [{"id": "a", "function": {"name": "f"}}]}).tool_calls[0]["arguments"] == "{}"


def piece(arguments: str, **first: Any) -> dict[str, Any]:
    """A piece of a call, with nothing that is not given."""
    function = {"arguments": arguments, **({"name": first.pop("name")} if "name" in first else {})}
    return chunk({"tool_calls": [{**first, "function": function}]})


@pytest.mark.parametrize(
    "pieces",
    [
        [piece("", id="a", name="f"), piece('{"x":'), piece(" 1}")],
        [piece('{"x":', id="a", name="f"), piece(" 1}", id="a"), piece("", id="")],
        [piece("", id="a", name="f", index=0), piece('{"x": 1}', index=0), piece("", index=0, name="f")],
        [piece('{"x": 1}', id="a", name="f")],
        [piece('{"x"', id="a", name="f", index=3), piece(": 1}", index=3)],
        [
            chunk({"function_call": {"name": "f"}}),
            *(chunk({"function_call": {"arguments": p}}) for p in ('{"x":', " 1}")),
        ],
    ],
)
def test_a_call_comes_in_pieces_with_an_index_or_without(pieces: list[Any]) -> None:
    def arguments(*more: Any) -> list[str]:
        reply = read_reply(events(chunk({"content": "Hi"}), *pieces, *more, chunk(reason="stop")), STREAM)
        return [one["arguments"] for one in reply.tool_calls]

    assert arguments() == ['{"x": 1}']
    assert arguments(piece("{}", id="b", name="g")) == ['{"x": 1}', "{}"]


def test_whole_calls_of_one_index_without_ids_are_kept_apart() -> None:
    stream = events(call(0, '{"x": 1}', name="f"), call(0, '{"x": 2}', name="f"), chunk(reason="stop"))
    assert [one["arguments"] for one in read_reply(stream, STREAM).tool_calls] == ['{"x": 1}', '{"x": 2}']


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("comment", ["", ": keep-alive\n\n", "event: message\nid: 3\nretry: 10\n"])
@pytest.mark.parametrize("kind", [STREAM, "application/json"])
def test_a_stream_may_be_laid_out_as_its_standard_says(
    newline: str, indent: int | None, comment: str, kind: str
) -> None:
    pieces = [chunk({"reasoning": "hm"}), chunk({"content": "Hi"}), chunk(reason="stop"), {"choices": [], "usage": {}}]
    texts = [json.dumps(one, indent=indent) for one in pieces]
    lines = "".join(comment + "".join(f"data: {line}\n" for line in text.splitlines()) + "\n" for text in texts)
    reply = read_reply(f"{lines}data: [DONE]\n\n".replace("\n", newline).encode(), kind)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("Hi", "hm", "stop")


def test_events_need_no_empty_line_between_them() -> None:
    stream = events(chunk({"content": "H"}), chunk({"content": "i"}, "stop")).replace(b"\n\n", b"\n")
    assert read_reply(stream, STREAM).text == "Hi"


@pytest.mark.parametrize("choices", [[], None, "none", {}, [None], [{}], [{"message": None}]])
def test_an_answer_without_a_message_is_refused(choices: Any) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"expected .*, got"):
        read_reply(json.dumps({"choices": choices}).encode())


@pytest.mark.parametrize("code", [502, 429, "server_error", None, 408])
def test_an_error_in_a_choice_is_one(code: Any) -> None:
    choice = {"error": {"code": code, "message": "Provider gone"}, "finish_reason": "stop", "message": {"content": ""}}
    with pytest.raises(BrokenOffError, match="Provider gone"):
        read_reply(json.dumps({"choices": [choice]}).encode())
    with pytest.raises(BrokenOffError, match="Provider gone"):
        read_reply(events(chunk({"content": "Hal"}), {"choices": [choice]}), STREAM)


def test_of_several_choices_the_first_is_read_whatever_its_number() -> None:
    choices = [{"index": 1, "message": {"content": "Hi"}}, {"index": 2, "message": {"content": "Ho"}}]
    assert read_reply(json.dumps({"choices": choices}).encode()).text == "Hi"


def test_an_answer_nested_too_deeply_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError, match="too deep"):
        read_reply(b'{"choices": ' + b"[" * 100_000)
