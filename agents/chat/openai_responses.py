"""Reading the answers of OpenAI-compatible servers: one JSON object, or a stream of pieces that is put together.

An answer is the same however it was sent. Servers differ in names, forms and what they leave out: what can be told is
read, and anything else is refused with a sentence that says what came. Not covered: more than one choice, and calls
and thoughts that a server has left in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from toolorchestra.agents.chat.base import ToolCall
from toolorchestra.agents.http_client import BrokenOffError, RefusedError
from toolorchestra.agents.messages.content import parts_of, reasoning_of, thought_in
from toolorchestra.agents.messages.history import unique_id

_CUT_SHORT = ("abort", "error")
"""Finish reasons of answers that are not whole."""
_PASSING = (408, 409, 429)
"""Statuses between 400 and 499 that are retried."""
_MAX_COUNT = 10_000_000
"""Tokens that a request can have: beyond the context of any model, the server's count is wrong."""
_MAX_SHOWN = 100


class Counts(msgspec.Struct):
    """The tokens that a server counted; None where it gave no number."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class ServerReply(msgspec.Struct):
    """An answer as the server gave it; fields that it left out are None, or empty. Each call has an id of its own.

    `reasoning` is what the model thought, where the server has taken it out of the text, and `reasoning_field` the name
    under which it came; None if it came as a part of the content.
    """

    text: str = ""
    tool_calls: list[ToolCall] = []
    finish_reason: str | None = None
    usage: Counts | None = None
    logprobs: list[float] | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    reasoning: str = ""
    reasoning_field: str | None = None


def read_reply(content: bytes, content_type: str = "application/json") -> ServerReply:
    r"""Read an answer's body.

    Raises:
        msgspec.DecodeError: It is not a chat completion.
        UnicodeDecodeError: It is not UTF-8.
        BrokenOffError: It is only the beginning of one, or the server reports a failure of its own.
        RefusedError: The server reports an error in the request.

    >>> read_reply(b'{"choices": [{"message": {"content": "Hello!"}}]}').text
    'Hello!'
    >>> stream = b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n'
    >>> end = b'data: {"choices": [{"delta": {"content": "lo!"}, "finish_reason": "stop"}]}\n\n'
    >>> read_reply(stream + end, "text/event-stream").text
    'Hello!'
    >>> read_reply(stream, "text/event-stream")
    Traceback (most recent call last):
    toolorchestra.agents.http_client.BrokenOffError: the stream ended without a finish_reason
    """
    if content_type.startswith("text/event-stream") or content.startswith((b"data:", b"event:", b": ")):
        return _Reading(streamed=True).read(_events(content))
    return _Reading(streamed=False).read([_decoded(content)])


class _Call(msgspec.Struct):
    """A call, or a piece of one; `arguments` is the text of each piece that came."""

    name: str | None
    arguments: list[str]
    id: Any
    index: Any


class _Reading:
    """An answer in the making."""

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed
        self._reply = ServerReply()
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[_Call] = []
        self._choice: Any = None  # the index of the choice that is read

    def read(self, pieces: Iterator[Any] | list[Any]) -> ServerReply:
        reply, chosen = self._reply, False
        for piece in pieces:
            if not isinstance(piece, dict):
                _fail("an object with choices", piece)
            if piece.get("error"):
                _raise(piece["error"])
            self._count(piece.get("usage"))
            reply.prompt_token_ids = _numbers("prompt_token_ids", piece, int) or reply.prompt_token_ids
            for choice in _list("choices", piece):
                self._add_choice(_object("a choice", choice), first=not chosen)
                chosen = True
        if self._streamed and reply.finish_reason is None:
            raise BrokenOffError("the stream ended without a finish_reason")
        if not chosen:
            _fail("a message", "choices: []")
        if reply.finish_reason in _CUT_SHORT:
            raise BrokenOffError(f"its finish_reason is {reply.finish_reason!r}")
        reply.text, reply.reasoning = "".join(self._texts), "".join(self._thoughts)
        reply.tool_calls = _whole(self._calls)
        return reply

    def _add_choice(self, choice: dict[str, Any], *, first: bool) -> None:
        reply = self._reply
        if choice.get("error"):
            _raise(choice["error"])
        index = choice.get("index") or 0
        if first:
            self._choice = index
        if index != self._choice:
            return
        reply.finish_reason = str(choice.get("finish_reason") or "") or reply.finish_reason
        message = choice.get("delta") or choice.get("message")
        if message is None and not self._streamed and reply.finish_reason not in _CUT_SHORT:
            _fail("a message in the choice", choice)
        self._add_message(_object("a message", message or {}))
        if isinstance(logprobs := choice.get("logprobs"), dict) and logprobs.get("content") is not None:
            found = [_object("the log-probability of a token", token) for token in _list("content", logprobs)]
            reply.logprobs = [*(reply.logprobs or ()), *(_numbers("logprob", token, float)[0] for token in found)]
        if choice.get("token_ids") is not None:
            reply.token_ids = [*(reply.token_ids or ()), *_numbers("token_ids", choice, int)]

    def _add_message(self, message: dict[str, Any]) -> None:
        reply = self._reply
        self._add_content(message.get("content"))
        if isinstance(refusal := message.get("refusal"), str):
            self._texts.append(refusal)
        if reply.reasoning_field:  # some send it twice
            self._thoughts.append(thought_in(message.get(reply.reasoning_field)))
        else:
            reply.reasoning_field, thought = reasoning_of(message)
            self._thoughts.append(thought)
        calls = _list("tool_calls", message)
        if message.get("function_call"):  # the form before `tool_calls`: there is one
            calls = [*calls, {"function": message["function_call"], "index": "function_call"}]
        for call in calls:
            self._add_call(_call(_object("a tool call", call)))

    def _add_content(self, content: Any) -> None:
        for kind, part in parts_of(content):
            match kind:
                case "text":
                    self._texts.append(part)
                case "thought":
                    self._thoughts.append(part)
                case "call":
                    self._add_call(_call({"arguments": part.get("input"), **part, "index": None}))
                case _:
                    _fail("a content of text, or of parts of text and thoughts", part)

    def _add_call(self, piece: _Call) -> None:
        """Add a piece of a call to what came of it before, or a new call.

        Some servers give all calls the same index but different ids. Where there is no index, a piece of a stream
        without a name goes on with the last call.
        """
        for call in reversed(self._calls if self._streamed else ()):
            if piece.index is None and piece.name:
                break
            if piece.index in (None, call.index) and piece.id in (None, "", call.id):
                if piece.name and piece.arguments and len(call.arguments) == 1 and _is_object(call.arguments[0]):
                    break  # a whole call came before, and this is another
                call.name = call.name or piece.name
                call.arguments += piece.arguments
                return
        self._calls.append(piece)

    def _count(self, usage: Any) -> None:
        """Take the server's counts, by the names of either of OpenAI's APIs; the last ones hold."""
        if not isinstance(usage, dict):
            return
        read = _token_count(usage, "prompt_tokens", "input_tokens")
        written = _token_count(usage, "completion_tokens", "output_tokens")
        every = _token_count(usage, "total_tokens")
        if every is not None and (read is None) != (written is None):
            read, written = (every - written, written) if written is not None else (read, every - (read or 0))
        if not read and not written:
            return  # some count nothing
        counts = self._reply.usage or Counts()
        self._reply.usage = Counts(
            counts.prompt_tokens if read is None else max(read, 0),
            counts.completion_tokens if written is None else max(written, 0),
        )


def _events(content: bytes) -> Iterator[Any]:
    """Yield the content of the server-sent events; one that is cut off is left out."""
    content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for event in content[: content.rfind(b"\n") + 1].split(b"\n\n"):
        lines = [line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")]
        if not all(line == b"[DONE]" or (line.startswith(b"{") and line.endswith(b"}")) for line in lines):
            lines = [b"\n".join(lines)]  # one object over several lines, and not one in each
        for line in lines:
            if line != b"[DONE]":
                yield _decoded(line)


def _decoded(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deep") from None


def _raise(error: Any) -> NoReturn:
    found = error if isinstance(error, dict) else {"message": error}
    status, message = found.get("code"), str(found.get("message") or error)
    if isinstance(status, int) and 400 <= status < 500 and status not in _PASSING:
        raise RefusedError(status, message)
    raise BrokenOffError(f"the server says: {message}")


def _fail(expected: str, found: Any) -> NoReturn:
    text = found if isinstance(found, str) else msgspec.json.encode(found).decode()
    shown = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
    raise msgspec.ValidationError(f"expected {expected}, got {shown}")


def _object(what: str, value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else _fail(f"{what} as an object", value)


def _list(name: str, owner: dict[str, Any]) -> list[Any]:
    """Return a list that may be null or missing."""
    value = owner.get(name)
    return [] if value is None else value if isinstance(value, list) else _fail(f"a list of {name}", value)


def _numbers(name: str, owner: dict[str, Any], kind: type) -> list[Any]:
    """Return one number, or a list of them; none where the field is null or missing."""
    value = owner.get(name)
    values = value if isinstance(value, list) else [] if value is None and kind is int else [value]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, int | kind):
            _fail(f"numbers as {name}", value)
    return values


def _token_count(usage: dict[str, Any], *names: str) -> int | None:
    """Return a number of tokens, which some servers write as 1000.0; None where there is none."""
    for name in names:
        if (count := usage.get(name)) is None:
            continue
        whole = isinstance(count, int | float) and not isinstance(count, bool) and count == count // 1
        if not whole or not 0 <= count <= _MAX_COUNT:
            _fail(f"a number of tokens from 0 to {_MAX_COUNT:,} as {name}", count)
        return int(count)
    return None


def _call(written: dict[str, Any]) -> _Call:
    function = written.get("function")
    named = function if isinstance(function, dict) else written
    name, arguments = named.get("name"), named.get("arguments")
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else msgspec.json.encode(arguments).decode()
    pieces = [arguments] if arguments else []
    return _Call(name if isinstance(name, str) else None, pieces, written.get("id"), written.get("index"))


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def _whole(calls: list[_Call]) -> list[ToolCall]:
    """Return the calls, each with an id that no other has."""
    taken = {str(call.id) for call in calls if call.id not in (None, "")}
    found: list[ToolCall] = []
    used: set[str] = set()
    for number, call in enumerate(calls, 1):
        if call.name is None:
            raise msgspec.ValidationError("a tool call in it has no name")
        own = call.id not in (None, "") and str(call.id) not in used
        call_id = str(call.id) if own else unique_id(call.id, taken, number)
        used.add(call_id)
        found.append({"id": call_id, "name": call.name, "arguments": "".join(call.arguments) or "{}"})
    return found
