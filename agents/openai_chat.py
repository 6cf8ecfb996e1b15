"""`OpenAIChat`: any OpenAI-compatible server (vLLM, ``transformers serve``, hosted APIs) as a chat model.

Built on the official `openai` client, which retries. Added here: many requests at a time, accounting, a
spending limit and errors that say what to do. Not covered: streaming, images, and starting a server.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from toolorchestra.agents.chat import ChatRequest, Completion, Meter, Price, ToolCall, all_or_raise
from toolorchestra.toolscale.errors import ExpertError, OptionError

if TYPE_CHECKING:
    import openai


class OpenAIChat:
    """A model behind an OpenAI-compatible chat completions endpoint.

    Requests run in threads, at most `max_concurrency` at a time over all callers. Statuses 408, 409, 429
    and 5xx, timeouts and broken connections are retried with exponential backoff (``Retry-After`` is
    heeded); every other failure is final. Close it, or use it in a ``with`` block, to free its connections.

    Args:
        base_url: Where the server is, e.g. ``http://localhost:8000/v1``.
        model: The model's name on that server.
        api_key: The key. Servers that want none are sent a placeholder; no key is taken from the
            environment unless `api_key_env` says so.
        api_key_env: Name of the environment variable that holds the key.
        price: Dollars per million tokens.
        timeout: Seconds to wait for the server to say something, for each attempt.
        max_retries: Attempts after the first.
        max_concurrency: Most requests under way.
        budget: Dollars after which no further request is sent. Requests under way then are still paid
            for, so up to `max_concurrency` answers can come on top.
        logprobs: Ask for the log-probability of each token.
        token_ids: Ask for token ids (vLLM's ``return_token_ids``).
        max_tokens_field: What the server calls the limit; OpenAI's reasoning models know only
            ``max_completion_tokens``.
        extra: Further fields of each request's body; a value of None leaves a field out.

    Raises:
        ImportError: If the `openai` client is not installed.
        OptionError: If the key's variable is unset, or an option cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        api_key_env: str | None = None,
        price: Price | None = None,
        timeout: float = 60.0,
        max_retries: int = 4,
        max_concurrency: int = 16,
        budget: float | None = None,
        logprobs: bool = False,
        token_ids: bool = False,
        max_tokens_field: str = "max_tokens",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if timeout <= 0 or max_retries < 0 or max_concurrency < 1:
            raise OptionError(
                "expected timeout > 0, max_retries >= 0 and max_concurrency >= 1, got "
                f"{timeout}, {max_retries} and {max_concurrency}."
            )
        if budget is not None and not (budget >= 0 and price):
            raise OptionError(
                f"budget: expected at least 0 dollars and a price= to count them by, got {budget} and {price}."
            )
        if api_key_env is not None:
            if api_key is not None:
                raise OptionError("expected one of api_key and api_key_env, got both. Leave one out.")
            api_key = os.environ.get(api_key_env)
            if not api_key:
                raise OptionError(
                    f"api_key_env: expected a key in the environment variable {api_key_env}, which is not set. "
                    f"Run: export {api_key_env}=…"
                )
        self.name = model
        self.meter = Meter()
        self._url, self._price, self._budget = base_url, price or Price(), budget
        self._timeout, self._attempts = timeout, max_retries + 1
        self._fixed: dict[str, Any] = {
            **({"logprobs": True} if logprobs else {}),
            **({"return_token_ids": True} if token_ids else {}),
            **(extra or {}),
        }
        self._max_tokens_field = max_tokens_field
        self._max_concurrency = max_concurrency
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._client = _import_openai().OpenAI(
            base_url=base_url, api_key=api_key or "none", timeout=timeout, max_retries=max_retries
        )

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests, concurrently, in their order.

        Raises:
            BatchError: If any request failed for good or the budget is spent; the others' completions are
                in it.
        """
        with self._lock:  # threads are started late: a model can be made before its process forks
            self._threads = self._threads or ThreadPoolExecutor(self._max_concurrency, "openai-chat")
            futures = [self._threads.submit(self._one, request) for request in requests]
        try:
            return all_or_raise([future.result() for future in futures])
        finally:
            for future in futures:  # after an interrupt, send nothing more
                future.cancel()

    def close(self) -> None:
        """Wait for requests under way and free threads and connections."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads:
            threads.shutdown()
        self._client.close()

    def __enter__(self) -> OpenAIChat:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OpenAIChat({self._url!r}, {self.name!r})"

    def _one(self, request: ChatRequest) -> Completion | ExpertError:
        spent = self.meter.usage.cost
        if self._budget is not None and spent >= self._budget:
            return ExpertError(
                f"{self.name}: expected to spend less than ${self._budget:g}, have spent ${spent:g}; the request "
                "was not sent. Raise budget= or call meter.reset()."
            )
        openai = _import_openai()
        body = self._body(request)
        start = time.perf_counter()
        try:
            response = self._client.chat.completions.with_raw_response.create(
                model=body.pop("model"), messages=body.pop("messages"), extra_body=body
            )
            reply = _REPLY.decode(response.content)
            completion = self._read(reply, time.perf_counter() - start)
        except UnicodeEncodeError as error:
            return ExpertError(f"{self.name}: expected messages of valid Unicode, got {error}. Clean their text.")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            text = response.content[:200].decode(errors="replace")
            return ExpertError(
                f"{self.name}: expected a chat completion from {self._url}, got {text!r} ({error}). "
                "Check that base_url= is the server's OpenAI-compatible root, mostly ending in /v1."
            )
        except openai.OpenAIError as error:
            return self._explain(error)
        except ExpertError as error:
            return error
        self.meter.add(completion)
        return completion

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": list(request.messages),
            "tools": list(request.tools) or None,
            "temperature": request.temperature,
            "top_p": request.top_p,
            self._max_tokens_field: request.max_tokens,
            "stop": list(request.stop) or None,
            "seed": request.seed,
            **self._fixed,
        }
        return {name: value for name, value in body.items() if value is not None}

    def _read(self, reply: _Reply, latency: float) -> Completion:
        choice, usage = reply.choices[0], reply.usage
        if usage is None:
            if self._price != Price():
                raise ExpertError(
                    f"{self.name}: expected token counts in the answer to charge for, {self._url} gave none. Leave "
                    "out price= to do without accounting."
                )
            usage = _Usage()
        calls: list[ToolCall] = [
            {
                "id": call.id or f"call_{number}",
                "name": call.function.name,
                "arguments": _json_text(call.function.arguments),
            }
            for number, call in enumerate(choice.message.tool_calls or (), 1)
        ]
        tokens = choice.logprobs.content if choice.logprobs else None
        return Completion(
            text=choice.message.content or "",
            tool_calls=calls,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost=self._price.cost(usage.prompt_tokens, usage.completion_tokens),
            latency=latency,
            finish_reason=choice.finish_reason or "stop",
            token_ids=choice.token_ids,
            logprobs=None if tokens is None else [token.logprob for token in tokens],
            prompt_token_ids=reply.prompt_token_ids,
        )

    def _explain(self, error: openai.OpenAIError) -> ExpertError:
        """Return the error that says what was expected of the server, what it did, and what to do."""
        openai = _import_openai()
        tries = f"in {self._attempts} attempt{'s' if self._attempts > 1 else ''}"
        if isinstance(error, openai.APITimeoutError):
            text = (
                f"expected an answer from {self._url} within {self._timeout:g} s, none came {tries}. "
                "Raise timeout= or lower max_concurrency= or max_tokens."
            )
        elif isinstance(error, openai.APIConnectionError):
            text = (
                f"expected a server at {self._url}, could not talk to it {tries} ({error.__cause__ or error}). "
                "Start it or correct base_url=."
            )
        elif isinstance(error, openai.APIStatusError):
            said = " ".join(str(error.message).split())[:300]
            remedy = _REMEDIES.get(error.status_code, _REMEDIES[500] if error.status_code >= 500 else "")
            text = f"expected an answer from {self._url}, got status {error.status_code}: {said}. {remedy}".strip()
        else:
            text = f"expected an answer from {self._url}, got {type(error).__name__}: {error}."
        explained = ExpertError(f"{self.name}: {text}")
        explained.__cause__ = error
        return explained


_REMEDIES = {
    400: "Correct the request: its messages, tools or sampling settings, or leave fields out with extra=.",
    401: "Set api_key= or api_key_env=.",
    403: "Use a key that may ask this model.",
    404: "Correct model= or base_url=.",
    422: "Correct the request: its messages, tools or sampling settings, or leave fields out with extra=.",
    429: "Lower max_concurrency= or raise max_retries=.",
    500: "Look at the server's log; raise max_retries= if it recovers by itself.",
}


def _import_openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise ImportError(
            "OpenAIChat needs the openai client, which is not installed: pip install 'toolorchestra[openai]'"
        ) from error
    return openai


def _json_text(arguments: str | dict[str, Any] | None) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()


# What of a chat completion is read. Servers differ in the rest and leave out what they do not know.


class _Function(msgspec.Struct):
    name: str
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct):
    function: _Function
    id: str | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_Call] | None = None


class _Token(msgspec.Struct):
    logprob: float


class _Logprobs(msgspec.Struct):
    content: list[_Token] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Reply(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    usage: _Usage | None = None
    prompt_token_ids: list[int] | None = None


_REPLY = msgspec.json.Decoder(_Reply)
"""Made here, not in the threads: msgspec 0.22 crashes when two of them use a type for the first time."""
