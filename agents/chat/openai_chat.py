"""`OpenAIChat`: any OpenAI-compatible server (vLLM, ``transformers serve``, hosted APIs) as a chat model.

Requests are sent by `toolorchestra.agents.http_client`, and answers are read by
`toolorchestra.agents.chat.openai_responses`; here are what is asked, accounting, a spending limit, and remedies. Not
covered: images, returning answers before they are whole, and starting a server.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from toolorchestra.agents.chat.base import ChatRequest, Completion, Meter, Price, all_or_raise, completions_of
from toolorchestra.agents.chat.openai_responses import Counts, ServerReply, read_reply
from toolorchestra.agents.chat.remedies import option_name, remedy
from toolorchestra.agents.http_client import HTTPClient, RateLimits, RequestError, Response, key_in
from toolorchestra.agents.messages.history import history_for_server
from toolorchestra.agents.messages.token_counts import text_size, tokens_of
from toolorchestra.toolscale.common.errors import ExpertError, OptionError


class NoAnswerWarning(UserWarning):
    """A model has used up the tokens of an answer before it gave one."""


class OpenAIChat:
    """A model behind an OpenAI-compatible chat completions endpoint.

    What may pass is tried again (`HTTPClient`); every other failure is final. What the server does not count is counted
    from the text, a token for four bytes. A failure is an outage (`ExpertError.outage`), unless a server that has
    answered before refuses a request for what it holds, by status 400, 413 or 422. Close it, or use it in a ``with``
    block, to free its connections. Copies and pickles have connections of their own.

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
        requests_per_minute: Maximum number of requests in any 60 seconds; others wait instead of being refused.
        tokens_per_minute: Maximum number of tokens in any 60 seconds. A request counts with its length and the longest
            answer allowed until it is answered, then with the tokens read and written.
        budget: Dollars after which no further request is sent. Requests under way then are still paid for, so up to
            `max_concurrency` answers can exceed it. Charges for failed attempts are not known here.
        logprobs: Ask for the log-probability of each token.
        token_ids: Ask for token ids (vLLM's ``return_token_ids``).
        stream: Stream answers. They are the same, but `timeout` is for each piece, and a server whose client has
            disconnected can stop writing.
        max_tokens_field: The server's name for the limit of an answer's length; OpenAI's reasoning models know only
            ``max_completion_tokens``.
        reasoning_field: The server's name for what a model thought, under which its earlier thoughts go back to it with
            their messages. By default the field in which this server sends them, if it does; ``""``: they do not go
            back.
        option_names: How errors call options of this class, e.g. as flags of a command line; by default as they are
            here. Remedies by options without a name are left out.
        extra: Further fields of each request's body; a value of None leaves a field out.

    Raises:
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
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        budget: float | None = None,
        logprobs: bool = False,
        token_ids: bool = False,
        stream: bool = False,
        max_tokens_field: str = "max_tokens",
        reasoning_field: str | None = None,
        option_names: Mapping[str, str] | None = None,
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
        self._key, self._key_variable, self._base_url, self._option_names = api_key, api_key_env, base_url, option_names
        self._client = HTTPClient(
            base_url.rstrip("/"),
            self._headers,
            timeout=timeout,
            whole=not stream,
            deadline=deadline,
            retries=max_retries,
            patience=_GARBLED,
            concurrency=max_concurrency,
            limits=RateLimits(requests_per_minute, tokens_per_minute),
        )
        self.name = model
        self.meter = Meter()
        self._price, self._budget = price or Price(), budget
        self._fixed: dict[str, Any] = {
            **({"logprobs": True} if logprobs else {}),
            **({"return_token_ids": True} if token_ids else {}),
            **({"stream": True, "stream_options": {"include_usage": True}} if stream else {}),
            **(extra or {}),
        }
        self._max_tokens_field = max_tokens_field
        self._reasoning_field = reasoning_field
        self._warned = False
        self._headers()  # so that a missing key is reported now

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests, concurrently, in their order."""
        return completions_of([self._client.submit(self._one, request) for request in requests])

    async def ask(self, request: ChatRequest) -> Completion:
        """Answer one request, and let the event loop go on meanwhile; an `ExpertError` if it failed for good."""
        return all_or_raise([await asyncio.wrap_future(self._client.submit(self._one, request))])[0]

    def _headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        key = key_in(self._key_variable, self._option("api_key_env")) if self._key_variable is not None else self._key
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if not urlsplit(self._base_url).username:  # a name and password in the address are sent instead of a key
            headers["Authorization"] = f"Bearer {key or 'none'}"
        return headers

    def close(self) -> None:
        """Wait for requests under way and free the connections; a later request opens new ones."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OpenAIChat({self._client.url!r}, {self.name!r})"

    async def _one(self, request: ChatRequest) -> Completion | ExpertError:
        """Return the answer to a request, or the error that ended it."""
        try:
            body = msgspec.json.encode(self._body(request))
        except UnicodeEncodeError as error:
            return self._error(f"expected messages of valid Unicode, got {error}. Clean their text", outage=False)
        sent = await self._client.admitted(tokens_of(len(body)) + request.max_tokens)
        spent = self.meter.usage.cost
        if self._budget is not None and spent >= self._budget:
            return self._error(
                f"expected to spend less than ${self._budget:g}, have spent ${spent:g}; the request was not sent",
                "budget",
            )
        start = time.perf_counter()
        try:
            reply = await self._client.ask(_read, "/chat/completions", body, "a chat completion")
            completion = self._completion(request, reply, len(body), time.perf_counter() - start)
        except RequestError as error:
            # a server that has answered nothing yet may be set up wrongly; another refuses what this request holds
            outage = not (error.blames_request and self._client.answered)
            return self._error(str(error), error.about, outage=outage, cause=error)
        except ExpertError as error:
            return error
        sent.tokens = completion.prompt_tokens + completion.completion_tokens
        self.meter.add(completion)
        return completion

    def _error(
        self, text: str, about: int | str = "", *, outage: bool = True, cause: Exception | None = None
    ) -> ExpertError:
        """Return an error that names the model, and the remedy for what it is about."""
        error = ExpertError(f"{self.name}: {text}. {remedy(about, self._option_names)}".strip(), outage=outage)
        error.__cause__ = cause
        return error

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": history_for_server(
                request.messages,
                reasoning_field=self._reasoning_field,
                tools={tool.get("function", tool).get("name") for tool in request.tools},
            ),
            "tools": list(request.tools) or None,
            "temperature": request.temperature,
            "top_p": request.top_p,
            self._max_tokens_field: request.max_tokens,
            "stop": list(request.stop) or None,
            "seed": request.seed,
            **self._fixed,
        }
        return {name: value for name, value in body.items() if value is not None}

    def _completion(self, request: ChatRequest, reply: ServerReply, size: int, latency: float) -> Completion:
        """Return a reply to a request, whose body had so many bytes, as a completion."""
        if self._reasoning_field is None:
            self._reasoning_field = reply.reasoning_field
        if not reply.text.strip() and not reply.tool_calls and reply.finish_reason == "length":
            self._warn(request)
        counts = reply.usage or Counts()
        read, written = counts.prompt_tokens, counts.completion_tokens
        if not read:  # every request has tokens
            read = len(reply.prompt_token_ids or ()) or tokens_of(size)
        if not written:
            said = f"{reply.reasoning}{reply.text}{''.join(c['name'] + c['arguments'] for c in reply.tool_calls)}"
            written = len(reply.token_ids or ()) or tokens_of(text_size(said))
        if reply.token_ids and reply.logprobs and len(reply.token_ids) != len(reply.logprobs):
            raise self._error(
                f"expected a log-probability of each token, {self._client.url} gave {len(reply.logprobs)} of "
                f"{len(reply.token_ids)}",
                "logprobs",
            )
        return Completion(
            text=reply.text,
            tool_calls=reply.tool_calls,
            prompt_tokens=read,
            completion_tokens=written,
            cost=self._price.cost(read, written),
            latency=latency,
            finish_reason=reply.finish_reason or "stop",
            token_ids=reply.token_ids,
            logprobs=reply.logprobs,
            prompt_token_ids=reply.prompt_token_ids,
            reasoning=reply.reasoning,
        )

    def _warn(self, request: ChatRequest) -> None:
        """Say once that the limit of an answer's length is used up before there is one."""
        if not self._warned:  # on the event loop of requests, where nothing comes between
            self._warned = True
            warnings.warn(
                f"{self.name}: expected an answer, got none within {request.max_tokens:,} tokens: the model thinks for "
                f"longer than that. {remedy('length', self._option_names)}",
                NoAnswerWarning,
                stacklevel=1,
            )

    def _option(self, option: str) -> str:
        return (option_name(option, self._option_names) or option).rstrip("=")


_GARBLED = 3
"""How many times as many retries an answer has that is no chat completion, of a server that gave others."""


def _read(response: Response) -> ServerReply:
    return read_reply(response.content, response.headers.get("content-type", ""))
