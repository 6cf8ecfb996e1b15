"""The protocol of chat models, its data types, and a scripted fake.

Policies, experts, sub-agents and domain synthesis all ask models through `ChatModel`. Real models are in `openai_chat`
and `transformers_chat`. Not covered: how a policy turns an episode into requests (`policies`), and checking calls
against tools, which environments do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypedDict

import msgspec

from toolorchestra.agents.messages.content import tool_call
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.problems import GroundTruth
from toolorchestra.toolscale.common.errors import ExpertError, OptionError


class ToolCall(TypedDict):
    """A tool call as a model wrote it; `arguments` is unchecked JSON text."""

    id: str
    name: str
    arguments: str


class ChatRequest(msgspec.Struct, frozen=True):
    """One request to a model: a conversation and how to sample the next message.

    Attributes:
        messages: OpenAI-style messages.
        tools: OpenAI function schemas that the model may call.
        temperature: 0 is greedy.
        top_p: Share of the probability mass to sample from.
        max_tokens: Maximum number of tokens to generate.
        stop: Texts that end the answer; they are cut off it.
        seed: Makes sampling repeatable where the model supports it.
        ground_truth: For simulated models; real ones never see it, and no record keeps it.

    Raises:
        OptionError: A setting is out of its range, or there is no message.
    """

    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]] = ()
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 1024
    stop: tuple[str, ...] = ()
    seed: int | None = None
    ground_truth: GroundTruth | None = None

    def __post_init__(self) -> None:
        if not self.messages:
            raise OptionError("messages: expected at least one message, got none.")
        if not self.temperature >= 0:
            raise OptionError(f"temperature: expected 0 (greedy) or more, got {self.temperature}.")
        if not 0 < self.top_p <= 1:
            raise OptionError(f"top_p: expected more than 0 and at most 1, got {self.top_p}.")
        if self.max_tokens < 1:
            raise OptionError(f"max_tokens: expected at least 1, got {self.max_tokens}.")


class Completion(msgspec.Struct, frozen=True):
    """One answer of a model.

    Attributes:
        text: The text of the answer; of a local model unparsed.
        tool_calls: The calls in it, as the server (or `tool_calls_in`) found them.
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written.
        cost: US dollars.
        latency: Seconds: wall-clock, retries included; of simulated models on the virtual clock.
        finish_reason: ``stop``, ``length``, ``tool_calls``, or another of the server's.
        token_ids: The tokens written, including the end-of-turn token; None where the model does not give them.
        logprobs: The log-probability of each of `token_ids`, or None.
        prompt_token_ids: The tokens read, or None.
        reasoning: What the model thought, where a server has taken it out of the text.
    """

    text: str
    tool_calls: list[ToolCall] = []
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    latency: float = 0.0
    finish_reason: str = "stop"
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    prompt_token_ids: list[int] | None = None
    reasoning: str = ""

    @property
    def message(self) -> dict[str, Any]:
        """The answer as an OpenAI assistant message."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [tool_call(call["id"], call["name"], call["arguments"]) for call in self.tool_calls]
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        return message

    @property
    def action(self) -> str | dict[str, Any]:
        """The answer as an environment's action.

        It is the text, or an assistant message where a server has taken calls or thoughts out of the text.

        >>> Completion("It is 42.").action
        'It is 42.'
        """
        message = self.message
        if read_message(self.text).calls:  # the environment reads the text, and reports what is wrong in it
            message.pop("tool_calls", None)
        return self.text if message.keys() == {"role", "content"} else message


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens.

    >>> Price(input=1.25, output=10.0).cost(prompt_tokens=2_000, completion_tokens=300)
    0.0055
    """

    input: float = 0.0
    output: float = 0.0

    def __post_init__(self) -> None:
        if not (self.input >= 0 and self.output >= 0):
            raise OptionError(f"price: expected dollars of at least 0, got {self.input} and {self.output}.")

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the dollars for numbers of tokens read and written."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6


class Usage(msgspec.Struct, frozen=True):
    """Totals of a model's completions: their number, tokens read and written, US dollars."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


class Meter:
    """Adds up the completions of one model; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """The totals since the start or the last `reset`."""
        return self._usage

    def add(self, completion: Completion) -> None:
        """Count one more completion."""
        with self._lock:
            total = self._usage
            self._usage = Usage(
                total.calls + 1,
                total.prompt_tokens + completion.prompt_tokens,
                total.completion_tokens + completion.completion_tokens,
                total.cost + completion.cost,
            )

    def reset(self) -> Usage:
        """Start again from zero, and return the totals up to now."""
        with self._lock:
            total, self._usage = self._usage, Usage()
            return total

    def __getstate__(self) -> Usage:
        return self._usage

    def __setstate__(self, usage: Usage) -> None:
        self._lock = threading.Lock()
        self._usage = usage


class ChatModel(Protocol):
    """The contract of all chat models.

    Attributes:
        name: Its name in records and reports.
        meter: The totals of all its completions.
    """

    @property
    def name(self) -> str: ...  # noqa: D102  (documented above, as is `meter`)

    @property
    def meter(self) -> Meter: ...  # noqa: D102

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests, in their order, concurrently where possible.

        Raises:
            BatchError: A request failed for good; the error holds the completions of the others.
        """
        ...


class WrappedModel:
    """A chat model in front of another one, with its name and meter. Override `complete`."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name, self.meter = model.name, model.meter

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests."""
        return self._model.complete(requests)


class LimitedModel(WrappedModel):
    """A chat model whose replies have a maximum of tokens."""

    def __init__(self, model: ChatModel, max_tokens: int) -> None:
        super().__init__(model)
        if max_tokens < 1:
            raise OptionError(f"Expected at least one token of a reply, got {max_tokens}.")
        self._max_tokens = max_tokens

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests, within the maximum."""
        limit = self._max_tokens
        return self._model.complete(
            [msgspec.structs.replace(one, max_tokens=min(one.max_tokens, limit)) for one in requests]
        )


class BatchError(ExpertError):
    """Some requests of a batch failed for good; `results` has each request's completion or error, in order."""

    def __init__(self, results: Sequence[Completion | ExpertError]) -> None:
        errors = [result for result in results if isinstance(result, ExpertError)]
        count = f"{len(errors)} of {len(results)} requests failed; the first: " if len(results) > 1 else ""
        super().__init__(f"{count}{errors[0]}", outage=any(error.outage for error in errors))
        self.results = list(results)


def all_or_raise(results: Sequence[Completion | ExpertError]) -> list[Completion]:
    """Return the completions, or raise the `BatchError` that keeps them beside the failures."""
    completions = [result for result in results if isinstance(result, Completion)]
    if len(completions) < len(results):
        raise BatchError(results)
    return completions


def completions_of(futures: Sequence[Future[Completion | ExpertError]]) -> list[Completion]:
    """Wait for the answers to all requests of a batch, and return them in order, or raise as `all_or_raise` does."""
    try:
        return all_or_raise([future.result() for future in futures])
    finally:
        for future in futures:  # after an interrupt, send nothing more
            future.cancel()


def tool_calls_in(text: str) -> list[ToolCall]:
    """Return the calls in a text that can be read.

    Others are left out: the environment reads the text itself and reports the error to the model.

    >>> tool_calls_in('<tool_call>{"name": "get_dish", "arguments": {"dish": "Soup"}}</tool_call>')
    [{'id': 'call_1', 'name': 'get_dish', 'arguments': '{"dish": "Soup"}'}]
    """
    calls = (call for call in read_message(text).calls if call.error is None)
    return [
        {"id": f"call_{number}", "name": call.name, "arguments": call.arguments.decode("utf-8", "replace")}
        for number, call in enumerate(calls, 1)
    ]


Answer = str | Completion | ExpertError
"""An entry of a script: a text, a whole completion, or an error to fail with."""


class ScriptedChat:
    """A chat model that follows a script: the fake for tests and examples.

    A text becomes a completion that counts a token per word, in the request and in the answer; a `Completion` is
    returned as it is; an `ExpertError` makes its request fail for good.

    Args:
        script: The answers in order, or a function that answers a request.
        name: Its name in records.
        price: Dollars per million words, to test accounting.

    Attributes:
        requests: Every request so far, in order.

    >>> chat = ScriptedChat(["Hello!"])
    >>> chat.complete([ChatRequest([{"role": "user", "content": "Say hello."}])])[0].text
    'Hello!'
    >>> chat.meter.usage
    Usage(calls=1, prompt_tokens=2, completion_tokens=1, cost=0.0)
    """

    def __init__(
        self,
        script: Iterable[Answer] | Callable[[ChatRequest], Answer],
        *,
        name: str = "scripted",
        price: Price | None = None,
    ) -> None:
        self._script = script if callable(script) else list(script)
        self._given = 0
        self._price = price or Price()
        self.name = name
        self.meter = Meter()
        self.requests: list[ChatRequest] = []

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer the requests with the next entries of the script; too few left raise `OptionError`."""
        if not callable(self._script) and len(requests) > (left := len(self._script) - self._given):
            raise OptionError(
                f"ScriptedChat {self.name!r}: expected a script of at least {self._given + len(requests)} "
                f"answers, got {len(self._script)}, of which {left} are left for {len(requests)} requests. "
                "Lengthen the script or give a function."
            )
        return all_or_raise([self._one(request) for request in requests])

    def _one(self, request: ChatRequest) -> Completion | ExpertError:
        self.requests.append(request)
        answer = self._script(request) if callable(self._script) else self._script[self._given]
        self._given += 1
        if isinstance(answer, str):
            read = sum(len(str(message.get("content") or "").split()) for message in request.messages)
            written = len(answer.split())
            answer = Completion(answer, tool_calls_in(answer), read, written, self._price.cost(read, written))
        if isinstance(answer, Completion):
            self.meter.add(answer)
        return answer
