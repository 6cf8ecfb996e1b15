from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolorchestra.agents.chat.base import calls_in
from toolorchestra.agents.messages.model_message import ModelMessage, ParsedCall
from toolorchestra.agents.messages.reading import MAX_CALLS, MAX_MESSAGE_CHARACTERS, read_message

CALL = '<tool_call>{"name": "get_dish", "arguments": {"dish_id": "D07"}}</tool_call>'

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.none(), inner) | st.tuples(inner),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


def names(message: ModelMessage) -> list[str]:
    return [call.name for call in message.calls]


def errors(action: Any) -> list[str]:
    return [call.error for call in read_message(action).calls if call.error is not None]


def test_text_without_calls_is_an_answer() -> None:
    assert read_message("That will be $12.50.") == ModelMessage("That will be $12.50.", raw="That will be $12.50.")


def test_calls_are_read_in_order_with_the_text_around_them() -> None:
    message = read_message(f"One. {CALL} Two. {CALL.replace('get_dish', 'get_menu')} Three.")
    assert names(message) == ["get_dish", "get_menu"]
    assert json.loads(message.calls[0].arguments) == {"dish_id": "D07"}
    assert message.text == "One.  Two.  Three."
    assert message.raw.count(CALL) == 1


@pytest.mark.parametrize(
    "action",
    [
        [{"name": "get_dish", "arguments": {"dish_id": "D07"}}],
        ({"name": "get_dish", "arguments": '{"dish_id": "D07"}'},),
        {
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "get_dish", "arguments": '{"dish_id": "D07"}'}}
            ]
        },
        {"role": "assistant", "content": None, "tool_calls": [{"name": "get_dish", "arguments": {"dish_id": "D07"}}]},
        {"role": "assistant", "content": CALL},
        '<tool_call>\n{"arguments": "{\\"dish_id\\": \\"D07\\"}", "name": "get_dish"}\n</tool_call>',
    ],
)
def test_every_syntax_gives_the_same_call(action: Any) -> None:
    (call,) = read_message(action).calls
    assert (call.name, json.loads(call.arguments), call.error) == ("get_dish", {"dish_id": "D07"}, None)


@pytest.mark.parametrize("arguments", ["", "null", '""', '"null"', "{}"])
def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    field = f', "arguments": {arguments}' if arguments else ""
    assert read_message(f'<tool_call>{{"name": "count"{field}}}</tool_call>').calls == (ParsedCall("count"),)


def test_ids_are_kept() -> None:
    calls = [{"id": "x1", "name": "a"}, {"name": "b"}]
    assert [call.id for call in read_message(calls).calls] == ["x1", None]


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ("<tool_call>{'name': 'x'}</tool_call>", "The call is not valid: JSON is malformed"),
        ('<tool_call>{"name": "x", "arguments": {}', "not closed by </tool_call>"),
        ("<tool_call></tool_call>", 'Write <tool_call>{"name"'),
        ("<tool_call>[]</tool_call>", "Expected `object`, got `array`"),
        ('<tool_call>{"arguments": {}}</tool_call>', "The call has no name."),
        ('<tool_call>{"name": 7}</tool_call>', "The call has no name. `name` is 7."),
        ('<tool_call>{"name": "x", "arguments": ' + "[" * 10_000 + "]" * 10_000 + "}</tool_call>", "nested too deep"),
        (3, "Expected text or a list of calls, found int."),
        (None, "found NoneType"),
        (b"<tool_call>", "found bytes"),
        ({"tool_calls": 3}, "`tool_calls` must be a list, not int."),
        ([7], 'Expected {"name": "…", "arguments": {…}}.'),
        ([{}], "The call has no name."),
        ([{"name": float("nan")}], "The call has no name."),
        ([{"name": "x", "arguments": {"a": "\ud800"}}], "The call is not valid"),
        ([{"name": "x", "arguments": {"a": object()}}], "The call is not valid"),
        ("x" * (MAX_MESSAGE_CHARACTERS + 1), "The message has 1,000,001 characters; at most 1,000,000 are read."),
        ([{"name": "x", "arguments": {"a": "x" * MAX_MESSAGE_CHARACTERS}}], "The call has 1,000,"),
    ],
)
def test_a_malformed_call_is_an_error_that_says_what_to_write(action: Any, error: str) -> None:
    (found,) = errors(action)
    assert error in found


def test_a_call_that_cannot_be_read_does_not_spoil_the_others() -> None:
    message = read_message(f'{CALL}<tool_call>{{"name": "broken", </tool_call>{CALL}')
    assert [call.error is None for call in message.calls] == [True, False, True]
    assert names(message)[1] == "broken"


def test_an_id_used_twice_is_an_error() -> None:
    first, second = read_message([{"id": "a", "name": "x"}, {"id": "a", "name": "y"}]).calls
    assert first.error is None
    assert second.error == "The call id 'a' stands twice in one message. Give each call an id of its own."
    assert second.id is None


@pytest.mark.parametrize("action", [CALL * 100, [{"name": "x"}] * 100])
def test_calls_beyond_the_most_are_answered_with_one_error(action: Any) -> None:
    calls = read_message(action).calls
    assert len(calls) == MAX_CALLS + 1
    assert calls[-1].error == f"The message holds 100 calls; the first {MAX_CALLS} were read."


def test_names_and_ids_are_bounded() -> None:
    (call,) = read_message([{"id": "i" * 1000, "name": "n" * 1000}]).calls
    assert (len(call.id or ""), len(call.name)) == (64, 80)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        (" It is 5. ", "It is 5."),
        ("<think>It is 4?</think>It is 5.", "It is 5."),
        ("<reasoning>a</reasoning> b <think>c</think> d", "b  d"),
        ("<think>never closed", ""),
        ("1 < 2", "1 < 2"),
    ],
)
def test_thoughts_are_not_said(text: str, spoken: str) -> None:
    assert read_message(text).text == spoken


@given(anything)
def test_parsing_never_raises(action: Any) -> None:
    message = read_message(action)
    message.text.encode()
    message.reasoning.encode()
    message.raw.encode()
    assert message.size >= 0
    for call in message.calls:
        call.name.encode()
        assert call.error is None or len(call.error) > 10


@given(st.text(st.characters(exclude_categories=())), st.text())
def test_parsing_never_raises_inside_a_block(body: str, around: str) -> None:
    message = read_message(f"{around}<tool_call>{body}</tool_call>")
    assert message.calls
    message.raw.encode()


@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=80), st.dictionaries(st.text(), json_values)), min_size=1, max_size=3
    )
)
def test_calls_survive_being_written(calls: list[tuple[str, dict[str, Any]]]) -> None:
    structured = [{"name": name, "arguments": arguments} for name, arguments in calls]
    text = "".join(f"<tool_call>{json.dumps(call).replace('<', chr(92) + 'u003c')}</tool_call>" for call in structured)
    for action in (structured, text, {"content": "", "tool_calls": structured}):
        found = [(call.name, json.loads(call.arguments), call.error) for call in read_message(action).calls]
        assert found == [(name, arguments, None) for name, arguments in calls]


def test_a_call_in_a_thought_is_none() -> None:
    call = '<tool_call>{"name": "stop"}</tool_call>'
    for text, names in (
        (f"<think>Maybe {call}.</think>It is done.", []),
        (f"<think>Maybe {call}.</think>{call}", ["stop"]),
        (f"<think>Maybe {call} and on", []),
        (f"Maybe {call}.</think>It is done.", []),  # the prompt ended with <think>
        (f"{call} and {call}", ["stop", "stop"]),
        ('<tool_call>{"name": "say", "arguments": {"x": "<think>"}}</tool_call>' + call, ["say", "stop"]),
        ('<tool_call>{"name": "say", "arguments": {"x": "</think>"}}</tool_call>', ["say"]),
    ):
        message = read_message(text)
        assert [found.name for found in message.calls] == names
        assert [found["name"] for found in calls_in(text)] == names
        assert all(found.error is None for found in message.calls)
        assert message.raw == text
    assert read_message(f"<think>{call}</think>It is done.").text == "It is done."
