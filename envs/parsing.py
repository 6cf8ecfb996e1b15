"""Parsing: from a policy's action to the tool calls in it.

A message asks for calls as Hermes/Qwen ``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` blocks, as an
OpenAI assistant message with ``tool_calls``, or as a list of ``{"name": …, "arguments": …}`` objects. Whatever
a policy sends, `parse` returns a `Message` and never raises: a call that cannot be read carries the error that
will be its ``PARSE_ERR`` observation, beside the calls that can. Blocks inside of ``<think>`` are no calls. Arguments
stay raw JSON here; the tool's own decoder validates them.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from toolorchestra.agents.chat.hermes import CLOSE, around_and_blocks
from toolorchestra.agents.messages.history import reasoning_of
from toolorchestra.envs.token_counts import CALL_KEYS, CALL_TAGS, json_size, message_size, text_size, written_size

Action = str | list[dict[str, Any]] | dict[str, Any]
"""What a policy may send: text, a list of calls, or an OpenAI assistant message."""

MAX_CALLS = 64
"""Calls read from one message; those beyond are answered with one error."""
MAX_MESSAGE_CHARACTERS = 1_000_000
"""Characters of one message; a longer one is answered with an error and not read."""
_MAX_NAME = 80

_HINT = 'Write <tool_call>{"name": "…", "arguments": {…}}</tool_call> with valid JSON inside.'
_THOUGHT = re.compile(r"<(think|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL)


class ParsedCall(msgspec.Struct, frozen=True, repr_omit_defaults=True, gc=False):
    """A call as written. When `error` is set, it could not be read; `raw` is then the text of it, if there is one."""

    name: str
    arguments: bytes = b"{}"
    id: str | None = None
    error: str | None = None
    raw: str = ""


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message as read.

    Attributes:
        text: The text around the calls.
        calls: The calls, in order.
        written: The whole message when calls stand in its text; None when they came structured.
        length: Bytes of a message with calls or thoughts; see `size`.
        reasoning: Thoughts that came beside the text, which they are no part of.
    """

    text: str
    calls: tuple[ParsedCall, ...] = ()
    written: str | None = None
    length: int | None = None
    reasoning: str = ""

    @property
    def size(self) -> int:
        """Bytes of the message as text, by which it is priced.

        Calls have the same size in whichever form they came. White space that only lays them out has none, unless there
        is more of it than of all else.
        """
        return written_size(self.text) if self.length is None else self.length

    @property
    def spoken(self) -> str:
        """The text that is for the user: without thoughts (``<think>``, ``<reasoning>``)."""
        return _THOUGHT.sub("", self.text).strip() if "<" in self.text else self.text.strip()


class _WrittenCall(msgspec.Struct, gc=False):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _OpenAIFunction(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _OpenAICall(msgspec.Struct):
    id: str | None = None
    function: _OpenAIFunction | None = None
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


_written = msgspec.json.Decoder(_WrittenCall)
_openai = msgspec.json.Decoder(_OpenAICall)
_string = msgspec.json.Decoder(str)


def parse(action: Any) -> Message:
    """Return what `action` says and asks for; never raises.

    >>> parse('Wait. <tool_call>{"name": "get_dish", "arguments": {"dish_id": "D07"}}</tool_call>').calls
    (ParsedCall(name='get_dish', arguments=b'{"dish_id": "D07"}'),)
    >>> parse("That will be $12.50.").calls
    ()
    """
    if isinstance(action, str):
        return _parse_text(action)
    if isinstance(action, dict):
        content = action.get("content")
        text = content if isinstance(content, str) else ""
        calls = action.get("tool_calls") or []
        if not isinstance(calls, (list, tuple)):
            wrong = _bad(f"`tool_calls` must be a list, not {type(calls).__name__}.")
            return Message(_clean(text[:200]), (wrong,), length=len(text))
        if not calls:
            return with_reasoning(_parse_text(text), action)
        found, size = _parse_structured(calls)
        message = Message(_clean(text[:MAX_MESSAGE_CHARACTERS]), found, length=size + _size(text))
        return with_reasoning(message, action)
    if isinstance(action, (list, tuple)):
        if not action:
            return Message("")
        found, size = _parse_structured(action)
        return Message("", found, length=size)
    return Message("", (_bad(f"Expected text or a list of calls, found {type(action).__name__}."),))


def with_reasoning(message: Message, action: dict[str, Any]) -> Message:
    """Return a message with the thoughts that stand beside the text of an action; they count as written."""
    if not (thoughts := reasoning_of(action)):
        return message
    kept = _clean(thoughts[:MAX_MESSAGE_CHARACTERS])
    return msgspec.structs.replace(message, length=message.size + _size(thoughts), reasoning=kept)


def _bad(error: str, name: str = "", call_id: str | None = None, raw: str = "") -> ParsedCall:
    return ParsedCall(name, b"{}", call_id, error, raw)


def _clean(text: str) -> str:
    """Return `text` without lone surrogates, which no database and no file can hold."""
    return text.encode("utf-8", "replace").decode()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _size(text: str) -> int:
    """Return the size of a text, without reading one that is too long."""
    return len(text) if len(text) > MAX_MESSAGE_CHARACTERS else written_size(text)


def _parse_text(text: str) -> Message:
    if len(text) > MAX_MESSAGE_CHARACTERS:
        error = f"The message has {len(text):,} characters; at most {MAX_MESSAGE_CHARACTERS:,} are read. Write less."
        return Message("", (_bad(error),), _clean(text[:200]) + "…", len(text))
    if not text.isascii():
        text = _clean(text)
    around, blocks = around_and_blocks(text)
    if not blocks:
        return Message(text)
    calls = []
    for block in blocks[:MAX_CALLS]:
        body, closed, after = block.partition(CLOSE)
        calls.append(_parse_block(body) if closed else _not_closed(body))
        if after:
            around += after
    if len(blocks) > MAX_CALLS:
        calls.append(_bad(f"The message holds {len(blocks)} calls; the first {MAX_CALLS} were read."))
    return Message(around, tuple(calls), text, message_size(text, around))


def _parse_block(body: str) -> ParsedCall:
    try:
        call = _written.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return _bad(f"The call is not valid: {_reason(error)}. {_HINT}", _guess_name(body), raw=body)
    return _unwrapped(call.name, call.arguments, None)


def _not_closed(body: str) -> ParsedCall:
    return _bad(f"The block is not closed by {CLOSE}. {_HINT}", _guess_name(body), raw=body)


def _unwrapped(name: str, arguments: msgspec.Raw, call_id: str | None) -> ParsedCall:
    """Return a call whose arguments may be an object or, as OpenAI has it, JSON text of an object."""
    raw, name = bytes(arguments), name[:_MAX_NAME]
    if raw[:1] == b'"':
        try:
            raw = _string.decode(raw).encode()
        except (msgspec.DecodeError, UnicodeError) as error:
            return _bad(f"The arguments are not valid JSON: {_reason(error)}.", name, call_id, _text(raw))
    return ParsedCall(name, b"{}" if raw == b"null" or not raw else raw, call_id)


def _parse_structured(calls: list[Any] | tuple[Any, ...]) -> tuple[tuple[ParsedCall, ...], int]:
    """Return structured calls, and their size as text."""
    found = []
    seen: set[str] = set()
    size = CALL_TAGS * len(calls)
    for item in calls[:MAX_CALLS]:
        call, length = _parse_item(item)
        size += length
        if call.id is not None and call.id in seen:
            error = f"The call id {call.id!r} stands twice in one message. Give each call an id of its own."
            call = _bad(error, call.name)
        elif call.id is not None:
            seen.add(call.id)
        found.append(call)
    if len(calls) > MAX_CALLS:
        found.append(_bad(f"The message holds {len(calls)} calls; the first {MAX_CALLS} were read."))
        size += sum(map(_encoded_size, calls[MAX_CALLS:]))
    return tuple(found), size


def _parse_item(item: Any) -> tuple[ParsedCall, int]:
    """Return a structured call, and its size as text without tags: an id is not part of it."""
    encoded = b""
    try:
        encoded = msgspec.json.encode(item)
        if len(encoded) > MAX_MESSAGE_CHARACTERS:
            error = f"The call has {len(encoded):,} bytes; at most {MAX_MESSAGE_CHARACTERS:,} are read. Write less."
            return _bad(error), len(encoded)
        call = _openai.decode(encoded)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, TypeError, ValueError, OverflowError) as error:
        wrong = _bad(f'The call is not valid: {_reason(error)}. Expected {{"name": "…", "arguments": {{…}}}}.')
        return wrong, json_size(encoded)
    call_id = call.id[:64] if call.id else None
    if call.function is not None:
        parsed = _unwrapped(call.function.name, call.function.arguments, call_id)
        written = call.function.arguments if parsed.error else parsed.arguments
        return parsed, CALL_KEYS + text_size(call.function.name) + json_size(bytes(written))
    size = json_size(encoded)
    if call.id is not None:
        size -= json_size(msgspec.json.encode({"id": call.id})) - 1  # the braces stay, and a comma goes
    if call.name is None:
        return _bad('The call has no name. Expected {"name": "…", "arguments": {…}}.', "", call_id), size
    return _unwrapped(call.name, call.arguments, call_id), size


def _encoded_size(item: Any) -> int:
    """Return the size of a structured call that is not read; one that cannot be encoded has none."""
    try:
        return len(msgspec.json.encode(item))
    except Exception:  # of any object that a policy may send
        return 0


def _guess_name(body: str) -> str:
    found = re.search(r'"name"\s*:\s*"(\w{1,64})"', body[:1000])
    return found[1] if found else ""


def _reason(error: Exception) -> str:
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)[:200]
