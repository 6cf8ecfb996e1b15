from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest

from toolorchestra.agents.chat.base import (
    BatchError,
    ChatModel,
    ChatRequest,
    Completion,
    Meter,
    Price,
    ScriptedChat,
    Usage,
    tool_calls_in,
)
from toolorchestra.toolscale.common.errors import ExpertError, OptionError

CALL = '<tool_call>\n{"name": "get_dish", "arguments": {"dish": "Crème brûlée"}}\n</tool_call>'


def ask(text: str) -> ChatRequest:
    return ChatRequest([{"role": "user", "content": text}])


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"messages": []}, "messages"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
)
def test_a_request_with_an_impossible_setting_names_it(settings: dict, name: str) -> None:
    with pytest.raises(OptionError, match=f"^{name}: expected"):
        ChatRequest(**{"messages": [{"role": "user", "content": "?"}], **settings})


def test_a_price_is_dollars_per_million_tokens() -> None:
    # 96,000 read at $1.25 and 4,000 written at $10 per million: 0.12 + 0.04
    assert Price(input=1.25, output=10).cost(96_000, 4_000) == pytest.approx(0.16)
    with pytest.raises(OptionError, match="at least 0"):
        Price(input=-1)


def test_an_answer_without_calls_acts_as_its_text() -> None:
    assert Completion("Done.").action == "Done."
    assert Completion("Done.").message == {"role": "assistant", "content": "Done."}


def test_calls_taken_out_of_the_text_act_as_an_assistant_message() -> None:
    completion = Completion("", [{"id": "c1", "name": "get_dish", "arguments": '{"dish": "Soup"}'}])
    function = {"name": "get_dish", "arguments": '{"dish": "Soup"}'}
    assert completion.action == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


def test_calls_spelled_out_in_the_text_act_as_that_text() -> None:
    assert Completion(CALL, tool_calls_in(CALL)).action == CALL


def test_calls_in_are_found_and_malformed_ones_left_out() -> None:
    deep = "[" * 100_000
    text = f'{CALL}<tool_call>{{"name": </tool_call><tool_call>[1]</tool_call><tool_call>{deep}</tool_call>'
    calls = tool_calls_in(text + '<tool_call>{"name": "today"}</tool_call>')
    assert [(call["id"], call["name"]) for call in calls] == [("call_1", "get_dish"), ("call_2", "today")]
    assert json.loads(calls[0]["arguments"]) == {"dish": "Crème brûlée"}
    assert calls[1]["arguments"] == "{}"


def test_a_meter_adds_up_and_starts_again() -> None:
    meter = Meter()
    meter.add(Completion("a", prompt_tokens=3, completion_tokens=1, cost=0.5))
    meter.add(Completion("b", prompt_tokens=4, completion_tokens=2, cost=0.25))
    assert meter.reset() == Usage(calls=2, prompt_tokens=7, completion_tokens=3, cost=0.75)
    assert meter.usage == Usage()


def test_a_meter_counts_right_from_many_threads() -> None:
    meter = Meter()
    one = Completion("a", prompt_tokens=1, completion_tokens=2, cost=0.25)
    threads = [threading.Thread(target=lambda: [meter.add(one) for _ in range(500)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.usage == Usage(4_000, 4_000, 8_000, 1_000.0)


def test_a_script_answers_in_order_and_records_the_requests() -> None:
    chat: ChatModel = ScriptedChat(["one", CALL, Completion("three", finish_reason="length")])
    requests = [ask("a"), ask("b"), ask("c")]
    first, *rest = chat.complete(requests[:1]) + chat.complete(requests[1:])
    assert first.text == "one"
    assert [call["name"] for call in rest[0].tool_calls] == ["get_dish"]
    assert rest[1].finish_reason == "length"
    assert chat.requests == requests


def test_a_script_can_be_a_function_of_the_request() -> None:
    chat = ScriptedChat(lambda request: request.messages[-1]["content"].upper())
    assert [completion.text for completion in chat.complete([ask("a"), ask("b")])] == ["A", "B"]


def test_a_script_charges_its_price_per_word() -> None:
    chat = ScriptedChat(["four words of answer"], price=Price(input=1_000_000, output=2_000_000))
    assert chat.complete([ask("three words asked")])[0].cost == 3 * 1 + 4 * 2
    assert chat.meter.usage == Usage(1, 3, 4, 11.0)


def test_a_spent_script_says_how_many_answers_were_needed() -> None:
    chat = ScriptedChat(["only one"])
    with pytest.raises(OptionError, match=r"at least 2 answers, got 1, of which 1 are left for 2 requests"):
        chat.complete([ask("a"), ask("b")])
    assert chat.requests == []


def test_a_failed_request_keeps_the_answers_of_its_batch() -> None:
    chat = ScriptedChat(["one", ExpertError("overloaded"), "three"])
    with pytest.raises(BatchError, match=r"^1 of 3 requests failed; the first: overloaded$") as caught:
        chat.complete([ask("a"), ask("b"), ask("c")])
    texts = [r.text if isinstance(r, Completion) else str(r) for r in caught.value.results]
    assert texts == ["one", "overloaded", "three"]
    assert chat.meter.usage.calls == 2


def test_importing_the_protocol_brings_no_heavy_library_along() -> None:
    heavy = "{'torch', 'transformers', 'openai', 'httpx', 'trl'}"
    code = f"import sys, toolorchestra.agents.chat.base; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
