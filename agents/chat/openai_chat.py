"""`OpenAIChat`: any OpenAI-compatible server (vLLM, ``transformers serve``, hosted APIs) as a chat model.

Built on the official `openai` client, which retries. Added here: concurrent requests, streamed answers, deadlines,
accounting, a spending limit and errors with remedies. Answers are read by `toolorchestra.agents.chat.openai_responses`.
Not covered: images, returning answers before they are whole, and starting a server.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolorchestra.agents.chat import bounded_requests
from toolorchestra.agents.chat.base import ChatRequest, Completion, Meter, Price
from toolorchestra.agents.chat.openai_responses import BrokenOffError, Counts, RefusedError, ServerReply, read_reply
from toolorchestra.agents.chat.threaded import ThreadedChat
from toolorchestra.toolscale.errors import ExpertError, OptionError, ToolOrchestraError
from toolorchestra.toolscale.urls import without_credentials

if TYPE_CHECKING:
    import openai


class OpenAIChat(ThreadedChat):
    """A model behind an OpenAI-compatible chat completions endpoint.

    Requests run in threads. Statuses 408, 409, 429 and 5xx, timeouts, broken connections and answers that break off are
    retried with exponential backoff or after the time in ``Retry-After``; every other failure is final. A failure is an
    outage (`ExpertError.outage`), unless a server that has answered before refuses a request for what it holds, by
    status 400, 413 or 422. Close it, or use it in a ``with`` block, to free its connections.

    Args:
        base_url: Root of the server, e.g. ``http://localhost:8000/v1``.
        model: The model's name on that server.
        api_key: The key; a placeholder by default. None is taken from the environment without `api_key_env`.
        api_key_env: Name of the environment variable that holds the key.
        price: Dollars per million tokens.
        timeout: Seconds that each attempt may take in all, however slowly the answer comes; with `stream`, seconds to
            wait for the next piece of the answer.
        deadline: Seconds that a request may take in all, with every attempt, pause and streamed piece; by default ten
            times `timeout`.
        max_retries: Attempts after the first.
        max_concurrency: Maximum number of requests under way, over all callers.
        budget: Dollars after which no further request is sent. Requests under way then are still paid for, so up to
            `max_concurrency` answers can exceed it. Charges for failed attempts are not known here.
        logprobs: Ask for the log-probability of each token.
        token_ids: Ask for token ids (vLLM's ``return_token_ids``).
        stream: Stream answers. They are the same, but `timeout` is for each piece, and a server whose client has
            disconnected can stop writing.
        max_tokens_field: The server's name for the limit of an answer's length; OpenAI's reasoning models know only
            ``max_completion_tokens``.
        extra: Further fields of each request's body; a value of None leaves a field out.

    Raises:
        ImportError: The `openai` client is not installed.
        OptionError: The key's variable is unset, or an option cannot be used.
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
        deadline: float | None = None,
        max_retries: int = 4,
        max_concurrency: int = 16,
        budget: float | None = None,
        logprobs: bool = False,
        token_ids: bool = False,
        stream: bool = False,
        max_tokens_field: str = "max_tokens",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        deadline = 10 * timeout if deadline is None else deadline
        if not (timeout > 0 and deadline > 0) or max_retries < 0 or max_concurrency < 1:
            raise OptionError(
                "expected timeout > 0, deadline > 0, max_retries >= 0 and max_concurrency >= 1, got "
                f"{timeout}, {deadline}, {max_retries} and {max_concurrency}."
            )
        if budget is not None and not (budget >= 0 and price):
            raise OptionError(
                f"budget: expected at least 0 dollars and a price= to count them by, got {budget} and {price}."
            )
        if api_key_env is not None and api_key is not None:
            raise OptionError("expected one of api_key and api_key_env, got both. Leave one out.")
        self._key, self._key_variable = api_key, api_key_env
        super().__init__(max_concurrency)
        self.name = model
        self.meter = Meter()
        self._base_url, self._url = base_url, without_credentials(base_url)  # to be used, and to be shown
        self._price, self._budget = price or Price(), budget
        self._timeout, self._deadline, self._max_retries = timeout, deadline, max_retries
        self._attempt = None if stream else timeout
        self._answered = False
        self._fixed: dict[str, Any] = {
            **({"logprobs": True} if logprobs else {}),
            **({"return_token_ids": True} if token_ids else {}),
            **({"stream": True, "stream_options": {"include_usage": True}} if stream else {}),
            **(extra or {}),
        }
        self._max_tokens_field = max_tokens_field
        self._connection()  # so that a missing key or client is reported now

    def _prepare(self) -> None:
        super()._prepare()
        self._client: openai.AsyncOpenAI | None = None

    def _connection(self) -> openai.AsyncOpenAI:
        """Return the client, made on first use; copies make their own."""
        with self._lock:
            if self._client is None:
                key = self._key
                if self._key_variable is not None and not (key := os.environ.get(self._key_variable)):
                    raise OptionError(
                        f"api_key_env: expected a key in the environment variable {self._key_variable}, which is not "
                        f"set. Run: export {self._key_variable}=…"
                    )
                self._client = _import_openai().AsyncOpenAI(
                    base_url=self._base_url,
                    api_key=key or "none",
                    timeout=self._timeout,
                    max_retries=self._max_retries,
                    http_client=bounded_requests.bounded_client(self._attempt),
                )
            return self._client

    def close(self) -> None:
        """Wait for requests under way and free threads and connections; a later request opens new ones."""
        super().close()
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            bounded_requests.run(client.close())

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
        start = time.perf_counter()
        body = self._body(request)
        try:
            msgspec.json.encode([body["messages"], body.get("tools")])
        except UnicodeEncodeError as error:
            reason = f"{self.name}: expected messages of valid Unicode, got {error}. Clean their text."
            return ExpertError(reason, outage=False)
        try:
            reply = bounded_requests.run(asyncio.wait_for(self._ask(body), self._deadline))
            completion = self._completion(reply, time.perf_counter() - start)
        except TimeoutError:
            return ExpertError(
                f"{self.name}: expected an answer from {self._url} within {self._deadline:g} s in all, none came. "
                "Raise deadline=, or lower max_tokens."
            )
        except openai.OpenAIError as error:
            return self._explain(error)
        except ExpertError as error:
            return error
        except ToolOrchestraError:
            raise
        except Exception as error:  # the client cannot read what the server sent
            found = f"{type(error).__name__}: {error}"[:300].rstrip(".")
            reason = f"{self.name}: expected an answer from {self._url}, got {found}. {_REMEDIES[500]}"
            return ExpertError(reason)
        self._answered = True
        self.meter.add(completion)
        return completion

    async def _ask(self, body: dict[str, Any]) -> ServerReply:
        """Return the server's reply, asked for again when it breaks off.

        The client retries what times out or loses its connection, streams included. Left to retry here are bodies that
        were received in whole but hold only part of an answer.
        """
        model, messages = body.pop("model"), body.pop("messages")
        client, retries = self._connection(), self._max_retries
        while True:
            response = await client.chat.completions.with_raw_response.create(
                model=model, messages=messages, extra_body=body
            )
            try:
                return read_reply(response.content, response.headers.get("content-type", ""))
            except BrokenOffError as error:
                retries -= response.retries_taken + 1
                if retries < 0:
                    raise ExpertError(
                        f"{self.name}: expected a whole answer from {self._url}, it broke off {self._tries}: "
                        f"{str(error).rstrip('.')}. {_REMEDIES[500]}"
                    ) from error
            except RefusedError as error:
                raise self._status(error.status, str(error)) from error
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                text = response.content[:200].decode(errors="replace")
                raise ExpertError(
                    f"{self.name}: expected a chat completion from {self._url}, got {text!r} ({error}). "
                    "Check that base_url= is the server's OpenAI-compatible root, mostly ending in /v1."
                ) from error
            client = self._connection().with_options(max_retries=retries)
            await asyncio.sleep(min(_FIRST_PAUSE * 2 ** (self._max_retries - retries - 1), _MAX_PAUSE))

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

    def _completion(self, reply: ServerReply, latency: float) -> Completion:
        counts = reply.usage or Counts()
        if reply.usage is None and self._price != Price():
            raise ExpertError(
                f"{self.name}: expected token counts in the answer to charge for, {self._url} gave none. Leave "
                "out price= to do without accounting."
            )
        if reply.token_ids and reply.logprobs and len(reply.token_ids) != len(reply.logprobs):
            raise ExpertError(
                f"{self.name}: expected a log-probability of each token, {self._url} gave {len(reply.logprobs)} of "
                f"{len(reply.token_ids)}. Leave out stream= or update the server."
            )
        return Completion(
            text=reply.text,
            tool_calls=reply.tool_calls,
            prompt_tokens=counts.prompt_tokens,
            completion_tokens=counts.completion_tokens,
            cost=self._price.cost(counts.prompt_tokens, counts.completion_tokens),
            latency=latency,
            finish_reason=reply.finish_reason or "stop",
            token_ids=reply.token_ids,
            logprobs=reply.logprobs,
            prompt_token_ids=reply.prompt_token_ids,
        )

    def _explain(self, error: openai.OpenAIError) -> ExpertError:
        """Return an error that names the expectation, the server's response and the remedy."""
        openai = _import_openai()
        if isinstance(error, openai.APITimeoutError):
            text = (
                f"expected an answer from {self._url} within {self._timeout:g} s, none came {self._tries}. "
                "Raise timeout=, lower max_concurrency= or max_tokens, or have long answers sent with stream=True."
            )
        elif isinstance(error, openai.APIConnectionError):
            text = (
                f"expected a server at {self._url}, could not reach it {self._tries} ({error.__cause__ or error}). "
                "Start it or correct base_url=; of one that was running, see the log."
            )
        elif isinstance(error, openai.APIStatusError):
            message = error.message
            if error.body and message == f"Error code: {error.status_code}":  # the server has a form of its own
                message = error.body if isinstance(error.body, str) else msgspec.json.encode(error.body).decode()
            explained = self._status(error.status_code, message)
            explained.__cause__ = error
            return explained
        else:
            text = f"expected an answer from {self._url}, got {type(error).__name__}: {error}."
        explained = ExpertError(without_credentials(f"{self.name}: {text}"))
        explained.__cause__ = error
        return explained

    def _status(self, status: int, message: str) -> ExpertError:
        message = " ".join(message.split())[:300].rstrip(".")
        remedy = _REMEDIES.get(status, _REMEDIES[500] if status >= 500 else "")
        text = f"{self.name}: expected an answer from {self._url}, got status {status}: {message}. {remedy}".strip()
        # a server that has answered nothing yet may be set up wrongly; another refuses what this request holds
        return ExpertError(text, outage=status not in _REFUSED or not self._answered)

    @property
    def _tries(self) -> str:
        return f"in {self._max_retries + 1} attempt{'s' if self._max_retries else ''}"


_FIRST_PAUSE, _MAX_PAUSE = 0.5, 8.0
"""Seconds before another attempt, doubled each time: as the client itself does."""

_REFUSED = (400, 413, 422)
"""Statuses by which a server blames the request."""
_CORRECT = "Correct the request: its messages, tools or sampling settings, or leave fields out with extra=."
_REMEDIES = {
    400: _CORRECT,
    401: "Set api_key= or api_key_env=.",
    403: "Use a key that may ask this model.",
    404: "Correct model= or base_url=.",
    413: _CORRECT,
    422: _CORRECT,
    429: "Lower max_concurrency= or raise max_retries=.",
    500: "Look at the server's log; raise max_retries= if it recovers by itself.",
}


def _import_openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise ImportError(
            "OpenAIChat needs the openai client, which is not installed: pip install 'openai>=3.52'"
        ) from error
    return openai
