"""What goes back to a server of a conversation: valid, whatever a model wrote, and no more changed than that takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from habits import fault
from hypothesis import given, strategies as st

from toolorchestra.agents.messages.history import history_for_server

USER = {"role": "user", "content": "Hi"}


def called(*arguments: Any, ids: Any = None, name: str = "f", **message: Any) -> dict[str, Any]:
    ids = ids or [f"c{number}" for number, _ in enumerate(arguments)]
    calls = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": written}}
        for one, written in zip(ids, arguments, strict=True)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls, **message}


def result(call_id: Any, content: Any = "done", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [{"role": "system", "content": "Be brief."}, USER, {"role": "assistant", "content": "Hello."}, USER],
        [USER, called('{"x": 1}'), result("c0", name="f")],
        [USER, called("{}", "{}"), result("c1"), result("c0"), {"role": "assistant", "content": "It is 4."}],
        [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    ],
)
def test_what_is_valid_is_left_as_it_is(messages: list[dict[str, Any]]) -> None:
    assert history_for_server(messages) == messages


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"x": 1}', {"x": 1}),
        ({"x": 1}, {"x": 1}),
        (None, {}),
        ("", {}),
        ("null", {}),
        ('{"x": ', {"unreadable": '{"x": '}),
        ("x=1", {"unreadable": "x=1"}),
        ("[1]", {"unreadable": "[1]"}),
        ("NaN", {"unreadable": "NaN"}),
        ('"{}"', {"unreadable": '"{}"'}),
        ([1], {"unreadable": "[1]"}),
        ("[" * 100_000, {"unreadable": "[" * 100_000}),
    ],
)
def test_arguments_are_always_the_json_of_an_object(written: Any, sent: Any) -> None:
    messages = [called(written), result("c0")]
    before = json.dumps(messages)
    history = history_for_server(messages)
    assert json.loads(history[0]["tool_calls"][0]["function"]["arguments"]) == sent
    assert json.dumps(messages) == before


@pytest.mark.parametrize(
    ("turns", "sent"),
    [
        ([["a"], ["a"]], [["a"], ["a_2"]]),
        ([["a", "a"]], [["a", "a_2"]]),
        ([["", ""]], [["call_1", "call_2"]]),
        ([[None], [None]], [["call_1"], ["call_2"]]),
        ([["call_1"], [""], ["call_1"]], [["call_1"], ["call_2"], ["call_1_2"]]),
        ([["a"], ["b", "a"], ["a"]], [["a"], ["b", "a_2"], ["a_3"]]),
    ],
)
def test_results_refer_to_calls_whose_ids_no_other_has(turns: list[list[Any]], sent: list[list[str]]) -> None:
    messages = []
    for ids in turns:
        messages += [called(*("{}" for _ in ids), ids=ids), *(result(one) for one in ids)]
    history = history_for_server(messages)
    assert [[call["id"] for call in one["tool_calls"]] for one in history if "tool_calls" in one] == sent
    assert [one["tool_call_id"] for one in history if one["role"] == "tool"] == [one for ids in sent for one in ids]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([USER, result("c0", "4")], [USER, {"role": "user", "content": "4"}]),
        ([called("{}"), result("other")], [called("{}"), result("c0")]),
        ([called("{}")], [called("{}"), result("c0", "There is no result.")]),
        ([called("{}"), USER], [called("{}"), result("c0", "There is no result."), USER]),
        (
            [called("{}", "{}"), result("c1"), USER],
            [called("{}", "{}"), result("c1"), result("c0", "There is no result."), USER],
        ),
    ],
)
def test_every_call_has_one_result(messages: list[Any], expected: list[Any]) -> None:
    assert history_for_server(messages) == expected


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"role": "assistant", "content": None}, "(no answer)"),
        ({"role": "assistant", "content": ""}, "(no answer)"),
        ({"role": "assistant"}, "(no answer)"),
        ({"role": "assistant", "content": "", "tool_calls": []}, "(no answer)"),
        (called("{}", content=None), ""),
        ({"role": "user", "content": None}, ""),
        ({"role": "system", "content": None}, ""),
    ],
)
def test_no_content_is_null_and_no_answer_empty(message: dict[str, Any], content: str) -> None:
    assert history_for_server([message])[0]["content"] == content


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("get_dish", "get_dish"),
        ("functions.get_dish", "functions_get_dish"),
        ("get_dish<|channel|>commentary", "get_dish__channel__commentary"),
        ("", "unknown"),
        ("Gericht für zwei", "Gericht_f_r_zwei"),
        ("f" * 80, "f" * 64),
        ("server.tool", "server.tool"),
    ],
)
def test_names_are_what_servers_take_unless_they_have_the_tool(name: str, sent: str) -> None:
    said, answer = history_for_server([called("{}", name=name), result("c0", name=name)], tools=["server.tool"])
    assert said["tool_calls"][0]["function"]["name"] == answer["name"] == sent


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking", None])
def test_thoughts_go_by_the_name_of_the_server(name: str, field: str | None) -> None:
    history = history_for_server([USER, called("{}", **{name: "Hm."}), result("c0")], reasoning_field=field)
    assert history == [USER, called("{}", **({field: "Hm."} if field else {})), result("c0")]


def test_of_thoughts_all_messages_with_calls_have_the_field_or_none() -> None:
    first, second = called("{}", ids=["a"]), called("{}", ids=["b"], reasoning_content="Hm.")
    answer = {"role": "assistant", "content": "It is 4."}
    messages = [first, result("a"), second, result("b"), answer]
    history = history_for_server(messages, reasoning_field="reasoning")
    assert [message.get("reasoning") for message in history] == [" ", None, "Hm.", None, None]
    assert history_for_server([first, result("a"), answer], reasoning_field="reasoning") == [first, result("a"), answer]


names = st.none() | st.text(max_size=3)
call = st.fixed_dictionaries({"id": names, "function": st.fixed_dictionaries({"name": names, "arguments": names})})
said = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": names}, optional={"tool_calls": st.lists(call, max_size=3)}
)
answered = st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": names, "content": names})


@given(st.lists(said | answered | st.just(USER), max_size=8))
def test_whatever_was_said_a_strict_server_takes_it(messages: list[dict[str, Any]]) -> None:
    history = history_for_server(messages)
    assert fault(history) is None
    assert history_for_server(history) == history
