"""`OpenAIChat`: any OpenAI-compatible server (vLLM, ``transformers serve``, hosted APIs) as a chat model.

Requests run on one event loop, thousands at a time if need be, with retries, deadlines, accounting, a spending limit
and errors with remedies. Answers are read by `toolorchestra.agents.chat.openai_responses`. Not covered: images,
returning answers before they are whole, and starting a server.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import os
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import msgspec

from toolorchestra.agents.chat import bounded_requests, retries
from toolorchestra.agents.chat.base import ChatRequest, Completion, Meter, Price, all_or_raise, completions_of
from toolorchestra.agents.chat.openai_responses import BrokenOffError, Counts, RefusedError, ServerReply, read_reply
from toolorchestra.agents.chat.remedies import option_name, remedy
from toolorchestra.agents.messages.history import history_for_server
from toolorchestra.agents.messages.token_counts import text_size, tokens_of
from toolorchestra.toolscale.common.errors import ExpertError, OptionError, ToolOrchestraError
from toolorchestra.toolscale.common.urls import without_credentials


class NoAnswerWarning(UserWarning):
    """A model has used up the tokens of an answer before it gave one."""


class OpenAIChat:
    """A model behind an OpenAI-compatible chat completions endpoint.

    Statuses 408, 409, 429 and 5xx, timeouts, broken connections, answers that break off and those that are no chat
    completion are retried with exponential backoff or after the time in ``Retry-After``; every other failure is final.
    What the server does not count is counted from the text, a token for four bytes. A failure is an
    outage (`ExpertError.outage`), unless a server that has answered before refuses a request for what it holds, by
    status 400, 413 or 422. Close it, or use it in a ``with`` block, to free its connections. Copies and
    pickles have connections of their own. Proxies are those that the environment names.

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
        reasoning_field: The server's name for what a model thought, under which its earlier thoughts go back to it with
            their messages. By default the field in which this server sends them, if it does; ``""``: they do not go
            back.
        option_names: How errors call options of this class, e.g. as flags of a command line; by default as they are
            here. Remedies by options without a name are left out.
        extra: Further fields of each request's body; a value of None leaves a field out.

    Raises:
        OptionError: The key's variable is unset, or an option cannot be used.
    """

    _NOT_COPIED: ClassVar[frozenset[str]] = frozenset(("_lock", "_client", "_turns", "_under_way", "_process"))

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
        self._key, self._key_variable, self._max_concurrency = api_key, api_key_env, max_concurrency
        self._prepare()
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
        self._reasoning_field = reasoning_field
        self._option_names = option_names
        self._warned = False
        self._headers()  # so that a missing key is reported now

    def _prepare(self) -> None:
        """Make what belongs to one process, and to one copy."""
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._client: bounded_requests.BoundedClient | None = None
        self._turns = asyncio.Semaphore(self._max_concurrency)
        self._under_way: set[concurrent.futures.Future[Completion | ExpertError]] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._NOT_COPIED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests, concurrently, in their order."""
        return completions_of([self._submit(request) for request in requests])

    async def ask(self, request: ChatRequest) -> Completion:
        """Answer one request, and let the event loop go on meanwhile; an `ExpertError` if it failed for good."""
        return all_or_raise([await asyncio.wrap_future(self._submit(request))])[0]

    def _submit(self, request: ChatRequest) -> concurrent.futures.Future[Completion | ExpertError]:
        with self._lock:
            if self._process != os.getpid():  # forked: event loop and connections are the parent's
                self._prepare()
            future = bounded_requests.submit(self._in_turn(request))
            self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def _headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        key = self._key
        if self._key_variable is not None and not (key := os.environ.get(self._key_variable)):
            raise OptionError(
                f"{self._option('api_key_env')}: expected a key in the environment variable {self._key_variable}, "
                f"which is not set. Run: export {self._key_variable}=…"
            )
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if not urlsplit(self._base_url).username:  # a name and password in the address are sent instead of a key
            headers["Authorization"] = f"Bearer {key or 'none'}"
        return headers

    def _connection(self) -> bounded_requests.BoundedClient:
        """Return the client, made on first use; called on the event loop of requests only."""
        if self._client is None:
            url = f"{self._base_url.rstrip('/')}/chat/completions"
            self._client = bounded_requests.BoundedClient(url, self._headers(), self._timeout, self._attempt)
        return self._client

    def close(self) -> None:
        """Wait for requests under way and free the connections; a later request opens new ones."""
        concurrent.futures.wait(tuple(self._under_way))
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._process == os.getpid():
            bounded_requests.submit(client.close()).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OpenAIChat({self._url!r}, {self.name!r})"

    async def _in_turn(self, request: ChatRequest) -> Completion | ExpertError:
        async with self._turns:
            return await self._one(request)

    async def _one(self, request: ChatRequest) -> Completion | ExpertError:
        """Return the answer to a request, or the error that ended it."""
        spent = self.meter.usage.cost
        if self._budget is not None and spent >= self._budget:
            return ExpertError(
                f"{self.name}: expected to spend less than ${self._budget:g}, have spent ${spent:g}; the request "
                f"was not sent. {self._remedy('budget')}"
            )
        start = time.perf_counter()
        try:
            body = msgspec.json.encode(self._body(request))
        except UnicodeEncodeError as error:
            reason = f"{self.name}: expected messages of valid Unicode, got {error}. Clean their text."
            return ExpertError(reason, outage=False)
        try:
            reply = await asyncio.wait_for(self._asked(body), self._deadline)
            completion = self._completion(request, reply, len(body), time.perf_counter() - start)
        except TimeoutError:
            return ExpertError(
                f"{self.name}: expected an answer from {self._url} within {self._deadline:g} s in all, none came. "
                + self._remedy("deadline")
            )
        except ExpertError as error:
            return error
        except ToolOrchestraError:
            raise
        except Exception as error:  # the client cannot read what the server sent
            found = f"{type(error).__name__}: {error}"[:300].rstrip(".")
            reason = f"{self.name}: expected an answer from {self._url}, got {found}. {self._remedy(500)}"
            return ExpertError(without_credentials(reason))
        self._answered = True
        self.meter.add(completion)
        return completion

    async def _asked(self, body: bytes) -> ServerReply:
        """Return the server's reply to a body, sent again as long as that may help."""
        for attempt in itertools.count():
            headers: Mapping[str, str] = {}
            limit, waits = self._max_retries, attempt
            tries = f"in {attempt + 1} attempt{'s' if attempt else ''}"
            try:
                response = await self._connection().post(body)
                headers = response.headers
                if response.status < 400:
                    return read_reply(response.content, headers.get("content-type", ""))
                failure = self._status(response.status, retries.message(response))
                if not retries.may_pass(response):
                    raise failure
            except BrokenOffError as error:
                failure = ExpertError(
                    f"{self.name}: expected a whole answer from {self._url}, it broke off {tries}: "
                    f"{str(error).rstrip('.')}. {self._remedy(500)}"
                )
            except RefusedError as error:
                raise self._status(error.status, str(error)) from error
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                text = response.content[:200].decode(errors="replace")
                failure = ExpertError(
                    f"{self.name}: expected a chat completion from {self._url}, got {text!r} {tries} ({error}). "
                    + self._remedy("no completion")
                )
                failure.__cause__ = error
                if self._answered:  # it is the right address, and a server with a fault that comes and goes
                    limit, waits = _GARBLED * limit, 0
            except (TimeoutError, OSError, _client_errors()) as error:
                failure = self._explain(error, tries)
            if attempt >= limit:
                raise failure
            await asyncio.sleep(retries.pause(waits, headers))
        raise AssertionError("the last attempt ends in an answer or an error")

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
            raise ExpertError(
                f"{self.name}: expected a log-probability of each token, {self._url} gave {len(reply.logprobs)} of "
                f"{len(reply.token_ids)}. {self._remedy('logprobs')}"
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
        with self._lock:
            warned, self._warned = self._warned, True
        if not warned:
            warnings.warn(
                f"{self.name}: expected an answer, got none within {request.max_tokens:,} tokens: the model thinks for "
                f"longer than that. {self._remedy('length')}",
                NoAnswerWarning,
                stacklevel=1,
            )

    def _explain(self, error: Exception, tries: str) -> ExpertError:
        """Return an error that names the expectation, what the connection did and the remedy."""
        if isinstance(error, TimeoutError):
            text = (
                f"expected an answer from {self._url} within {self._timeout:g} s, none came {tries}. "
                + self._remedy("timeout")
            )
        else:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            text = f"expected a server at {self._url}, could not reach it {tries} ({reason}). " + self._remedy(
                "unreachable"
            )
        explained = ExpertError(without_credentials(f"{self.name}: {text}"))
        explained.__cause__ = error
        return explained

    def _status(self, status: int, message: str) -> ExpertError:
        message = " ".join(message.split())[:300].rstrip(".")
        text = f"{self.name}: expected an answer from {self._url}, got status {status}: {message}. "
        text = f"{text}{self._remedy(status)}".strip()
        # a server that has answered nothing yet may be set up wrongly; another refuses what this request holds
        return ExpertError(text, outage=status not in _REFUSED or not self._answered)

    def _remedy(self, about: int | str) -> str:
        return remedy(about, self._option_names)

    def _option(self, option: str) -> str:
        return (option_name(option, self._option_names) or option).rstrip("=")


_REFUSED = (400, 413, 422)
"""Statuses by which a server blames the request."""
_GARBLED = 3
"""How many times as many retries an answer has that is no chat completion, of a server that gave others."""


def _client_errors() -> type[Exception]:
    """Return the errors of the HTTP client, which is imported when it is used."""
    import aiohttp

    return aiohttp.ClientError
