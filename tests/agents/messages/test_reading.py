from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolorchestra.agents.chat.base import tool_calls_in
from toolorchestra.agents.messages.model_message import MAX_CALLS, MAX_MESSAGE_CHARACTERS, ModelMessage, ParsedCall
from toolorchestra.agents.messages.reading import read_message, read_text

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
        assert [found["name"] for found in tool_calls_in(text)] == names
        assert all(found.error is None for found in message.calls)
        assert message.raw == text
    assert read_message(f"<think>{call}</think>It is done.").text == "It is done."


ARGUMENTS = {"kind": "opera", "stars": 4}
WRITTEN = json.dumps({"name": "find_productions", "arguments": ARGUMENTS})
OTHER = json.dumps({"name": "find_productions", "parameters": ARGUMENTS})
REPAIRED = {
    "the arguments have another name": [
        [{"name": "find_productions", "parameters": ARGUMENTS}],
        [{"name": "find_productions", "input": ARGUMENTS}],
        [{"name": "find_productions", "args": ARGUMENTS, "arguments": {}}],
        [{"name": "find_productions", "parameters": json.dumps(ARGUMENTS)}],
        f"<tool_call>{OTHER}</tool_call>",
        {"tool_calls": [{"id": "a", "function": {"name": "find_productions", "input": ARGUMENTS}}]},
    ],
    "the tool has another name": [
        [{"tool": "find_productions", "args": ARGUMENTS}],
        [{"tool_name": "find_productions", "parameters": ARGUMENTS}],
        [{"function": "find_productions", "arguments": ARGUMENTS}],
        f"<tool_call>{json.dumps({'function': 'find_productions', 'arguments': ARGUMENTS})}</tool_call>",
        f"<tool_call>{json.dumps({'type': 'function', 'function': json.loads(OTHER)})}</tool_call>",
    ],
    "the message has another form": [
        {"role": "assistant", "content": None, "function_call": json.loads(WRITTEN)},
        {"function_call": {"name": "find_productions", "arguments": json.dumps(ARGUMENTS)}},
        {"content": [{"type": "tool_use", "id": "t", "name": "find_productions", "input": ARGUMENTS}]},
        [{"type": "text", "text": ""}, {"type": "tool_use", "name": "find_productions", "input": ARGUMENTS}],
        [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "c", "name": "find_productions", "arguments": json.dumps(ARGUMENTS)},
        ],
    ],
    "JSON stands bare or in a fence": [
        WRITTEN,
        OTHER,
        f"```json\n{OTHER}\n```",
        f"```\n{WRITTEN}\n```",
        f"[{OTHER}]",
        f'{{"tool_calls": [{WRITTEN}]}}',
        f'{{"type": "function", "function": {OTHER}}}',
        f"I look for operas.\n```json\n{json.dumps(json.loads(OTHER), indent=2)}\n```",
        f"I look for operas: {WRITTEN}",
        f"I look for operas.\n\n{OTHER}\nThat is it.",
        f"<think>Which?</think>{WRITTEN}",
        f"Set {{x}}.\n{WRITTEN}",
        f"I call:\n[{WRITTEN}]\nThen I answer.",
    ],
    "the form is another model's": [
        "<tool_call>\n<function=find_productions>\n<parameter=kind>\nopera\n</parameter>\n<parameter=stars>\n4\n"
        "</parameter>\n</function>\n</tool_call>",
        f"<|python_tag|>{OTHER}<|eom_id|>",
        f"[TOOL_CALLS]find_productions[ARGS]{json.dumps(ARGUMENTS)}",
        "<tool_call>find_productions\n<arg_key>kind</arg_key>\n<arg_value>opera</arg_value>\n"
        "<arg_key>stars</arg_key>\n<arg_value>4</arg_value>\n</tool_call>",
        '<|tool_call>call:find_productions{kind:<|"|>opera<|"|>,stars:4}<tool_call|>',
        f"<think>Hm.</think><|START_ACTION|>[{OTHER}]<|END_ACTION|>",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.find_productions"
        f" <|constrain|>json<|message|>{json.dumps(ARGUMENTS)}<|call|>",
    ],
}


@pytest.mark.parametrize(("kind", "action"), [(kind, action) for kind, found in REPAIRED.items() for action in found])
def test_a_call_in_another_form_is_read_noted_and_refused_if_asked(kind: str, action: Any) -> None:
    message = read_message(action, ["find_productions"])
    (call,) = message.calls
    assert (call.name, json.loads(call.arguments), call.error) == ("find_productions", ARGUMENTS, None)
    assert message.repaired == call.repaired != ""
    (refused,) = read_message(action, ["find_productions"], repair=False).calls
    assert (refused.name, refused.arguments) == ("find_productions", b"{}")
    assert refused.error is not None
    assert refused.error.startswith(f"The call is written as {call.repaired}.")


def test_of_a_list_of_calls_in_a_text_none_is_lost() -> None:
    message = read_message(f'I call:\n[{WRITTEN}, {{"name": "f", "arguments": {{}}}}, 7]\nWait.', ["find_productions"])
    assert message.text == "I call:\n\nWait."
    assert [(call.name, call.error is None) for call in message.calls] == [
        ("find_productions", True),
        ("f", True),
        ("", False),
    ]


@pytest.mark.parametrize("action", [f"<tool_call>{WRITTEN}</tool_call>", [json.loads(WRITTEN)], json.loads(WRITTEN)])
def test_a_call_in_a_form_that_is_asked_for_is_not_noted(action: Any) -> None:
    assert read_message(action, repair=False) == read_message(action)
    assert not read_message(action).repaired


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ('{"name": "find_productions", "kind": "opera"}', "The call has no `arguments`, but `kind` beside its name."),
        ([{"name": "find_productions", "filter": {}}], "but `filter` beside its name."),
        ({"name": "find_productions", "kind": "opera"}, "but `kind` beside its name."),
        ('<tool_call>{"name": "find_productions", "kind": "opera"}</tool_call>', "but `kind` beside its name."),
        ([{"name": "f", "input": {"a": 1}, "args": {"a": 2}}], "The call has both `input` and `args`."),
        ('{"name": "find_productions", "arguments": {', "The call is not valid: Input data was truncated."),
        ('```json\n{"name": "f", "arguments": {"a": }}\n```', "The call is not valid: JSON is malformed"),
        ({"content": 7}, "`content` must be text or a list of parts, not int."),
        ({"content": [{"type": "image_url", "image_url": "x"}]}, "A part of the message is of type 'image_url'."),
        ({}, "The call has no name."),
        ({"kind": "opera"}, "The call has no name."),
        ("[TOOL_CALLS]find_productions[ARGS]{", "The call is cut off, or its JSON is not closed."),
        (
            'I call:\n{"name": "find_productions", "arguments": {"kind": "op',
            "The call is not valid: Input data was truncated.",
        ),
        (
            'I call:\n```json\n{"name": "find_productions", "arguments": {"a": 1\n```',
            "The call is not valid: Input data",
        ),
        ('I call:\n{"name": "find_productions", "arguments": {"a": 1,}}\nThat is it.', "trailing comma"),
        (
            'I call:\n[{"name": "find_productions", "arguments": {}}, {"name": "find_pro',
            "The list is not valid: Input data",
        ),
        ('I call:\n{"name": "find_productions", "arguments": {}, "args": {"a": }}', "The call is not valid: JSON is"),
    ],
)
def test_what_is_not_understood_is_an_error_and_never_an_answer(action: Any, error: str) -> None:
    calls = read_message(action, ["find_productions"]).calls
    assert [error in (call.error or "") for call in calls] == [True]


@pytest.mark.parametrize(
    "text",
    [
        'The result was {"id": "call_2", "name": "find_productions", "status": "OK"}.',
        'I got this:\n{"name": "find_productions", "status": "OK", "result": []}',
        'A production has the form {"name": "…", "kind": "opera"}.',
        '{"answer": 4}',
        '[{"name": "Aida", "kind": "opera"}]',
        "{not JSON} at all",
        "Set {a, b} and [1, 2].",
        'Call it with\n{"name": "unknown", "arguments": {}}',
    ],
)
def test_json_that_is_no_call_stays_text(text: str) -> None:
    message = read_message(text, ["find_productions"])
    assert (message.text, message.calls) == (text.strip(), ())


@pytest.mark.parametrize(
    ("text", "reasoning", "said"),
    [
        ("<think>a</think>b", "a", "b"),
        ("<thinking>a</thinking>b", "a", "b"),
        ("<THINK>a</THINK>b", "a", "b"),
        ('<reasoning effort="high">a</reasoning>b', "a", "b"),
        ("a</think>b", "a", "b"),
        ("a</thinking>\n\nb", "a", "b"),
        ("<think>a", "a", ""),
        ("<think>a <thinking>b</thinking> c</think>d", "a <thinking>b</thinking> c", "d"),
        ("x<think>a</think>y<think>b</think>z", "a\nb", "xyz"),
        ("x<think>a</think>y</think>z", "a", "xyz"),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("◁think▷a◁/think▷b", "a", "b"),
        ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "a", "b"),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>", "a", "b"),
        ("<|channel>thought\na<channel|>b", "\na", "b"),
        ("1 < 2, I think > so", "", "1 < 2, I think > so"),
    ],
)
def test_thoughts_are_told_from_what_is_said(text: str, reasoning: str, said: str) -> None:
    message = read_message(text)
    assert (message.reasoning, message.text, message.raw) == (reasoning, said, text)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_thoughts_in_fields_and_parts_are_recorded_and_paid_for(key: str) -> None:
    for action in (
        {"content": "Hi", key: "because"},
        {"content": "Hi", key: "because", "tool_calls": []},
        {"content": [{"type": "thinking", "thinking": "because"}, {"type": "text", "text": "Hi"}]},
        {"content": [{"type": "text", "text": "Hi"}], key: "because"},
        [{"type": "reasoning", "summary": [{"text": "because"}]}, {"type": "message", "content": "Hi"}],
    ):
        message = read_message(action)
        assert (message.text, message.reasoning, message.size) == ("Hi", "because", 9)
        assert message.recorded == {"role": "assistant", "content": "Hi", "reasoning_content": "because"}
        assert read_text(action).recorded == message.recorded


def test_marks_of_thoughts_in_arguments_are_arguments() -> None:
    for mark in ("<think>", "</think>", "<REASONING>", "[THINK]", "◁think▷"):
        for text in (
            f'<tool_call>{{"name": "say", "arguments": {{"x": "{mark}"}}}}</tool_call>',
            f'[TOOL_CALLS]say[ARGS]{{"x": "{mark}"}}',
            f'<think>Hm.</think><|python_tag|>{{"name": "say", "parameters": {{"x": "{mark}"}}}}',
            f"<function=say><parameter=x>{mark}</parameter></function>",
        ):
            (call,) = read_message(text).calls
            assert (call.name, json.loads(call.arguments)) == ("say", {"x": mark})


def test_latex_in_arguments_keeps_its_backslashes() -> None:
    latex = r"\frac{1}{2} \times \sqrt{2} \beta"
    for text in (
        f'<tool_call>{{"name": "solve", "arguments": {{"x": "{latex}"}}}}</tool_call>',
        f'{{"name": "solve", "arguments": {{"x": "{latex}"}}}}',
        f'I call:\n{{"name": "solve", "arguments": {{"x": "{latex}"}}}}\nThat is it.',
        f'I call:\n[{{"name": "solve", "arguments": {{"x": "{latex}"}}}}]',
        f'[TOOL_CALLS]solve[ARGS]{{"x": "{latex}"}}',
        [{"name": "solve", "arguments": f'{{"x": "{latex}"}}'}],
        {"tool_calls": [{"function": {"name": "solve", "arguments": f'{{"x": "{latex}"}}'}}]},
    ):
        (call,) = read_message(text, ["solve"]).calls
        assert json.loads(call.arguments) == {"x": latex}
        assert any(form in call.repaired for form in ("backslashes", "mistral", "bare JSON"))
    (call,) = read_message([{"name": "say", "arguments": {"x": "a\notin\times \f"}}]).calls
    assert (json.loads(call.arguments), call.repaired) == ({"x": "a\notin\times \f"}, "")


@pytest.mark.parametrize("text", ['{"a":\n', "{\n", "[\n", "```json\n", "<think>", "</think>", "[THINK]", ":{", '"{'])
def test_long_texts_take_linear_time(text: str) -> None:
    message = read_message(text * (MAX_MESSAGE_CHARACTERS // len(text)), ["a"])  # quadratic: hours
    assert len(message.calls) <= MAX_CALLS + 1
