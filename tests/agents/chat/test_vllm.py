"""`OpenAIChat` against vLLM's server on a CPU: what only a real one shows. Opt in: ``bash .ci/vllm``."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import until

from toolorchestra.agents.chat.base import BatchError, ChatRequest, Completion, Price
from toolorchestra.agents.chat.openai_chat import OpenAIChat
from toolorchestra.toolscale.common.errors import ExpertError

VARIABLE = "TOOLORCHESTRA_VLLM_PYTHON"
PYTHON = os.environ.get(VARIABLE)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason=f"needs vLLM: bash .ci/vllm makes it ready, or set {VARIABLE} to its Python"),
]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_dish",
        "description": "Look up a dish.",
        "parameters": {"type": "object", "properties": {"dish": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def run_vllm(start: Callable[..., Any], caller_model: Path) -> Callable[[], Any]:
    """Start vLLM's server with the model that calls tools."""
    options = f"--model {caller_model} --served-model-name m --host 127.0.0.1 --port {{port}} --dtype float32"
    options += " --max-model-len 32768 --enforce-eager --enable-auto-tool-choice --tool-call-parser hermes"
    command = ["nice", "-n", "15", str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", *options.split()]
    return lambda: start(command, timeout=600, VLLM_CPU_KVCACHE_SPACE="1", VLLM_NO_USAGE_STATS="1")


@pytest.fixture(scope="module")
def vllm(run_vllm: Callable[[], Any]) -> str:
    """The address of one that all tests share that leave it alive."""
    return str(run_vllm().url)


def ask(text: str, **settings: Any) -> ChatRequest:
    return ChatRequest([{"role": "user", "content": text}], **({"max_tokens": 24, "temperature": 0.0} | settings))


def nameless(completion: Completion) -> Completion:
    """The completion without what differs each time."""
    calls = [{**call, "id": ""} for call in completion.tool_calls]
    return msgspec.structs.replace(completion, latency=0.0, tool_calls=calls)


@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls_are_found_by_the_hermes_parser(vllm: str, stream: bool) -> None:
    with OpenAIChat(vllm, "m", stream=stream) as chat:
        (completion,) = chat.complete([ask("Soup?", tools=[TOOL])])
    assert completion.text.strip() == ""
    assert [(call["name"], json.loads(call["arguments"])) for call in completion.tool_calls] == [
        ("get_dish", {"dish": "Soup"}),
        ("get_dish", {"dish": "Crème brûlée"}),
    ]
    assert len({call["id"] for call in completion.tool_calls}) == 2
    assert (completion.finish_reason, completion.completion_tokens) == ("tool_calls", 11)


@pytest.mark.parametrize("stream", [False, True])
def test_tokens_and_log_probabilities_are_those_of_the_model(vllm: str, stream: bool, caller_model: Path) -> None:
    from toolorchestra.agents.chat.transformers_chat import TransformersChat

    requests = [ask("Soup?"), ask("Soup?", tools=[TOOL])]
    local = TransformersChat(caller_model, device="cpu").complete(requests)
    with OpenAIChat(vllm, "m", stream=stream, logprobs=True, token_ids=True) as chat:
        served = chat.complete(requests)
    for ours, theirs in zip(local, served, strict=True):
        assert ours.prompt_token_ids == theirs.prompt_token_ids
        assert ours.token_ids == theirs.token_ids
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-3)
        assert (ours.prompt_tokens, ours.completion_tokens) == (theirs.prompt_tokens, theirs.completion_tokens)
        assert ours.finish_reason == theirs.finish_reason
    assert local[0].text == served[0].text


def test_a_streamed_answer_is_the_same(vllm: str) -> None:
    requests = [ask(f"Question {i}", max_tokens=10 + i, seed=i) for i in range(8)]
    requests += [ask("Warm", temperature=1.0, seed=3), ask("Soup?", tools=[TOOL])]
    requests.append(ask("Stop", stop=("a", "e", "9")))
    answers = []
    for stream in (False, True):
        options = {"logprobs": True, "token_ids": True, "price": Price(1, 2), "max_concurrency": 1}
        with OpenAIChat(vllm, "m", stream=stream, **options) as chat:  # type: ignore[arg-type]
            answers.append([nameless(completion) for completion in chat.complete(requests)])
    for whole, streamed in zip(*answers, strict=True):
        assert msgspec.structs.replace(whole, logprobs=None) == msgspec.structs.replace(streamed, logprobs=None)
        assert whole.logprobs == pytest.approx(streamed.logprobs, abs=1e-3)
    assert {completion.finish_reason for completion in answers[0]} == {"length", "tool_calls", "stop"}


@pytest.mark.parametrize("stream", [False, True])
def test_many_at_a_time_are_answered_in_their_order(vllm: str, stream: bool) -> None:
    with OpenAIChat(vllm, "m", stream=stream, max_concurrency=32) as chat:
        answers = chat.complete([ask(f"Question {i}", max_tokens=1 + i) for i in range(32)])
    assert [completion.completion_tokens for completion in answers] == list(range(1, 33))


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_is_at_fault_is_final(vllm: str, stream: bool) -> None:
    with OpenAIChat(vllm, "m", stream=stream) as chat, pytest.raises(BatchError, match="1 of 2 requests") as caught:
        chat.complete([ask("Too long", max_tokens=40_000), ask("Hi")])
    first, second = caught.value.results
    assert "got status 400" in str(first)
    assert "Correct the request" in str(first)
    assert isinstance(second, Completion)


def engine(process: int) -> int:
    """The process of a server that computes."""
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        if "EngineCore" in Path(f"/proc/{child}/cmdline").read_text():
            return int(child)
    raise LookupError("the server has no engine")


@pytest.mark.parametrize("dying", ["server", "engine"])
def test_a_server_that_dies_fails_what_it_has_not_answered(run_vllm: Callable[[], Any], dying: str) -> None:
    server = run_vllm()
    chats = [OpenAIChat(server.url, "m", stream=stream, max_retries=0, timeout=300) for stream in (False, True)]
    failed: list[BatchError] = []

    def batch(chat: OpenAIChat) -> None:
        with pytest.raises(BatchError, match="1 of 2 requests failed") as caught:
            chat.complete([ask("Short", max_tokens=4), ask("Long", max_tokens=32_000)])
        failed.append(caught.value)

    callers = [threading.Thread(target=batch, args=(chat,)) for chat in chats]
    for caller in callers:
        caller.start()
    until(lambda: all(chat.meter.usage.calls for chat in chats), "the first answers")
    if dying == "server":
        server.kill()
    else:
        os.kill(engine(server.pid), 9)
    for caller in callers:
        caller.join()
    for chat in chats:
        chat.close()
    assert len(failed) == 2
    for error in failed:
        first, second = error.results
        assert isinstance(first, Completion)
        assert first.completion_tokens == 4
        assert isinstance(second, ExpertError)
        if dying == "server":
            assert "could not reach it in 1 attempt (" in str(second)
        else:  # the status of a whole answer, a piece of a streamed one
            assert "got status 500" in str(second) or "it broke off in 1 attempt: the server says: " in str(second)
        assert "log" in str(second)
