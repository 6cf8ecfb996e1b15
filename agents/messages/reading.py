"""Reading what a model wrote: its thoughts, its text and its calls.

Whatever a policy, an expert or a sub-agent sends, `read_message` returns a `ModelMessage` and never raises: a call that
cannot be read carries the error that will be its ``PARSE_ERR`` observation, beside the calls that can. Arguments stay
raw JSON here; the tool's own decoder validates them.

A message asks for calls as Hermes/Qwen ``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` blocks, as an OpenAI
assistant message with ``tool_calls``, or as a list of ``{"name": …, "arguments": …}`` objects. Calls in other forms are
read, too, and noted as `repaired`: other names for the arguments, the old ``function_call``, parts of Anthropic's and
OpenAI's newer messages, JSON that stands bare or in a fence, and the forms of other families of models
(`toolorchestra.agents.messages.call_forms`). Thoughts are in `toolorchestra.toolscale.answers.thoughts`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.messages.call_forms import find_calls
from toolorchestra.agents.messages.content import PART_TYPES, REASONING_FIELDS, parts_of, thought_in
from toolorchestra.agents.messages.json_calls import EXPECTED, HINT, asks, bad_call, call_of, call_of_json, objects_in
from toolorchestra.agents.messages.model_message import MAX_CALLS, MAX_MESSAGE_CHARACTERS, ModelMessage, ParsedCall
from toolorchestra.agents.messages.token_counts import (
    CALL_KEYS,
    CALL_TAGS,
    json_size,
    message_size,
    text_size,
    written_size,
)
from toolorchestra.agents.messages.written_values import is_json, json_end, name_in, reason
from toolorchestra.toolscale.answers.thoughts import CLOSE, OPEN, split_thoughts

Tools = Collection[str] | Mapping[str, Any]
"""Names of tools, or tools by name: `Tool` or OpenAI function schemas."""
_MAX_ID = 64
_MAX_TRIES = 8  # places in a text where JSON is looked for in vain

_START = re.compile(r"(?:^|[\n:]|```\w{0,12})[ \t]*(?=[{\[])")  # where JSON may begin in a text
_FENCES = re.compile(r"```\w{0,12}\s*```")


class _Exact(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A call in the form that is asked for."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Schemas(Mapping[str, Mapping[str, Any]]):
    """The schemas of the arguments of tools, made when they are asked for."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools if isinstance(tools, Mapping) else {}

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        tool = self._tools[name]
        function: Mapping[str, Any] = (tool if isinstance(tool, Mapping) else tool.schema)["function"]
        schema: Mapping[str, Any] = function.get("parameters", {})
        return schema

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


_exact = msgspec.json.Decoder(_Exact)


def read_message(action: Any, tools: Tools = (), *, repair: bool = True) -> ModelMessage:
    """Return what `action` thinks, says and asks for; never raises.

    Args:
        action: What a model wrote: see `Action`.
        tools: Names of the tools: JSON in the midst of a text is a call only if it has one of them. Of a mapping the
            values tell a text from a number in forms that do not.
        repair: Whether calls in other forms than those asked for are made; else they are errors.

    >>> read_message('Wait. <tool_call>{"name": "get_dish", "arguments": {"dish_id": "D07"}}</tool_call>').calls
    (ParsedCall(name='get_dish', arguments=b'{"dish_id": "D07"}'),)
    >>> read_message("<think>12 + 0.5</think>That will be $12.50.").text
    'That will be $12.50.'
    """
    if isinstance(action, str):
        message = _read_text(action, tools)
    elif isinstance(action, Mapping):
        message = _read_mapping(action, tools)
    elif isinstance(action, (list, tuple)):
        message = _read_parts(action, *_contents(action), tools) if _are_parts(action) else _read_structured(action)
    else:
        message = _wrong(f"Expected text or a list of calls, found {type(action).__name__}.")
    if repair or not any(call.repaired for call in message.calls):
        return message
    return msgspec.structs.replace(message, calls=tuple(map(_refused, message.calls)))


def read_text(action: Any, own: Collection[str] = ()) -> ModelMessage:
    """Return what `action` thinks and says, where a message has no calls; never raises.

    What is too long is cut. Tags in `own` are part of a protocol's language: see `split_thoughts`.

    >>> read_text({"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}).text
    'Hi'
    """
    raw, apart = _contents(action)
    raw = _clean(raw[:MAX_MESSAGE_CHARACTERS])
    thought, said = split_thoughts(raw, own)
    length = _size(raw) + _size(apart) if apart else None
    return ModelMessage(said.strip(), (), _joined(apart, thought), raw, apart=_clean(apart), length=length)


def spoken(text: str) -> str:
    """Return what a text says, without thoughts."""
    return split_thoughts(text)[1].strip()


# --- text


def _read_text(text: str, tools: Tools, apart: str = "") -> ModelMessage:
    if len(text) > MAX_MESSAGE_CHARACTERS:
        return _too_long(text)
    if not text.isascii():
        text = _clean(text)
    thought, said = "", text
    calls: list[ParsedCall] | None = None
    around, *blocks = text.split(OPEN)
    if blocks and blocks[0].lstrip()[:1] == "{":
        around, calls = _hermes(around, blocks)
    outside = text if calls is None else around
    if "<" in outside or "[" in outside or "◁" in outside:  # a thought may begin there
        thought, said = split_thoughts(text)
        calls = None
    if calls is None:
        around, calls = _written(said, tools)
    reasoning = _joined(apart, thought) if apart else thought
    length = None
    if calls:
        if len(calls) > MAX_CALLS:
            calls[MAX_CALLS:] = [bad_call(f"The message holds {len(calls)} calls; the first {MAX_CALLS} were read.")]
        length = message_size(text, around + thought if thought else around)
    if apart:
        length = (_size(text) if length is None else length) + _size(apart)
    return ModelMessage(around.strip(), tuple(calls), reasoning, text, False, apart, length)


def _written(said: str, tools: Tools) -> tuple[str, list[ParsedCall]]:
    """Return the text around the calls of a text, and the calls, in whichever form they are written."""
    around, *blocks = said.split(OPEN)
    if blocks and blocks[0].lstrip()[:1] == "{":
        return _hermes(around, blocks)
    found = find_calls(said, _Schemas(tools))
    if found is not None and not (blocks and all(tools and call.name not in tools for call in found[1])):
        form, written = found
        kept, place = [], 0
        for call in written:
            if call.start >= place:
                kept.append(said[place : call.start])
                place = call.end
        calls = [
            bad_call(call.error, call.name, raw=said[call.start : call.end])
            if call.error
            else ParsedCall(call.name, call.arguments.encode(), repaired=f"{form} calls")
            for call in written
        ]
        calls = calls or [bad_call(f"There is no call behind the mark of {form} calls. {HINT}", raw=said)]
        return "".join((*kept, said[place:])), calls
    if blocks:
        return _hermes(around, blocks)
    return _bare(said, tools) if "{" in said else (said, [])


def _hermes(around: str, blocks: list[str]) -> tuple[str, list[ParsedCall]]:
    """Return the text around blocks, given what begins with each, and the calls in them."""
    calls = []
    for block in blocks[:MAX_CALLS]:
        body, closed, after = block.partition(CLOSE)
        if after:
            around += after
        if not closed:
            calls.append(_not_closed(body))
            continue
        try:
            call = _exact.decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            calls.append(call_of_json(body))
        else:
            calls.append(call_of(call.name, call.arguments))
    if len(blocks) > MAX_CALLS:
        calls += [bad_call("")] * (len(blocks) - MAX_CALLS)  # counted, and not read
    return around, calls


def _not_closed(body: str) -> ParsedCall:
    return bad_call(f"The block is not closed by {CLOSE}. {HINT}", name_in(body), raw=body)


def _bare(said: str, tools: Tools) -> tuple[str, list[ParsedCall]]:
    """Return the text around JSON that is a call, and the calls: it may stand in a fence, or at the start of a line."""
    whole = said.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    calls: list[ParsedCall] = []
    kept, place, tries = [], 0, 0
    while (start := _START.search(said, place)) and tries < _MAX_TRIES and len(calls) <= MAX_CALLS:
        begin = start.end()
        end = json_end(said, begin)
        text = said[begin:end] if end > 0 else said[begin:].rstrip().removesuffix("```").rstrip()
        found = _calls_in_json(text, tools, only=text == whole)
        if found and text == whole:
            return "", found
        calls += found
        tries += not found
        until = begin + (len(text) if found or (end > 0 and is_json(text)) else 1)
        kept.append(said[place : begin if found else until])
        place = until
    return (_FENCES.sub("", "".join((*kept, said[place:]))), calls) if calls else (said, [])


def _calls_in_json(text: str, tools: Tools, *, only: bool) -> list[ParsedCall]:
    """Return the calls that JSON in a text is, with the form noted; none if no object of it is a call."""
    try:
        objects = objects_in(text)
    except ValueError as error:
        begun = asks(text.lstrip("[ \n"), tools, only=only)
        return [bad_call(f"{error} {HINT}", name_in(text), raw=text)] if begun else []
    if not any(asks(item, tools, only=only) for item in objects):
        return []
    return [_bare_call(item) for item in objects]


def _bare_call(text: str) -> ParsedCall:
    call = call_of_json(text)
    form = f"bare JSON, {call.repaired}" if call.repaired else "bare JSON"
    return msgspec.structs.replace(call, repaired=form) if call.error is None else call


# --- messages of other forms than text


def _read_mapping(action: Mapping[str, Any], tools: Tools) -> ModelMessage:
    if not any(key in action for key in ("role", "content", "tool_calls", "function_call", *REASONING_FIELDS)):
        return _read_structured([action])
    raw, apart = _contents(action)
    content = action.get("content")
    if isinstance(content, (list, tuple)):
        return _read_parts(content, raw, apart, tools)
    if content is not None and not isinstance(content, str):
        return _wrong(f"`content` must be text or a list of parts, not {type(content).__name__}.")
    calls = action.get("tool_calls") or []
    if not isinstance(calls, (list, tuple)):
        return _wrong(f"`tool_calls` must be a list, not {type(calls).__name__}.", raw)
    if not calls and (old := action.get("function_call")):
        return _structured([old], raw, apart, "`function_call`")
    return _structured(calls, raw, apart) if calls else _read_text(raw, tools, apart)


def _read_structured(calls: Sequence[Any]) -> ModelMessage:
    return _structured(calls, "", "") if calls else ModelMessage("")


def _structured(calls: Sequence[Any], text: str, apart: str, form: str = "") -> ModelMessage:
    """Return the message of calls that came apart from a text."""
    if len(text) > MAX_MESSAGE_CHARACTERS:
        return _too_long(text)
    found, size = _read_items(calls, form)
    raw = _clean(text)
    thought, said = split_thoughts(raw)
    length = size + _size(text) + (_size(apart) if apart else 0)
    return ModelMessage(said.strip(), found, _joined(apart, thought), raw, True, apart, length)


def _are_parts(items: Sequence[Any]) -> bool:
    """Return whether a list holds the parts of a message, and not calls."""
    return any(isinstance(item, Mapping) and item.get("type") in PART_TYPES for item in items)


def _read_parts(parts: Sequence[Any], raw: str, apart: str, tools: Tools) -> ModelMessage:
    found = list(parts_of(parts))
    calls = [part for kind, part in found if kind == "call"]
    message = _structured(calls, raw, apart, f"`{calls[0]['type']}`") if calls else _read_text(raw, tools, apart)
    unknown = next((part for kind, part in found if kind == "unknown"), None)
    if unknown is None:
        return message
    form = repr(unknown.get("type")) if isinstance(unknown, Mapping) else type(unknown).__name__
    wrong = bad_call(f"A part of the message is of type {form[:80]}. Expected text, thinking or calls.")
    return msgspec.structs.replace(message, calls=(*message.calls, wrong))


def _contents(message: Any) -> tuple[str, str]:
    """Return the text of a message in any form, and the thoughts in fields and parts of their own."""
    if not isinstance(message, Mapping):
        message = {"content": message}
    thoughts = [thought_in(message.get(field)) for field in REASONING_FIELDS]
    parts = list(parts_of(message.get("content")))
    thoughts += [part for kind, part in parts if kind == "thought"]
    apart = "\n".join(filter(None, dict.fromkeys(thoughts)))
    return "".join(part for kind, part in parts if kind == "text"), _clean(apart[:MAX_MESSAGE_CHARACTERS])


def _read_items(calls: Sequence[Any], form: str) -> tuple[tuple[ParsedCall, ...], int]:
    """Return structured calls, and their size as text."""
    found = []
    seen: set[str] = set()
    size = CALL_TAGS * len(calls)
    for item in calls[:MAX_CALLS]:
        call, length = _read_item(item)
        size += length
        if call.id is not None and call.id in seen:
            error = f"The call id {call.id!r} stands twice in one message. Give each call an id of its own."
            call = bad_call(error, call.name)
        elif call.id is not None:
            seen.add(call.id)
        found.append(msgspec.structs.replace(call, repaired=form) if form and call.error is None else call)
    if len(calls) > MAX_CALLS:
        found.append(bad_call(f"The message holds {len(calls)} calls; the first {MAX_CALLS} were read."))
        size += sum(map(_encoded_size, calls[MAX_CALLS:]))
    return tuple(found), size


def _read_item(item: Any) -> tuple[ParsedCall, int]:
    """Return a structured call, and its size as text without tags: an id is not part of it."""
    encoded = b""
    try:
        encoded = msgspec.json.encode(item)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, TypeError, ValueError, OverflowError) as error:
        return bad_call(f"The call is not valid: {reason(error)}. {EXPECTED}"), 0
    if len(encoded) > MAX_MESSAGE_CHARACTERS:
        too_long = f"The call has {len(encoded):,} bytes; at most {MAX_MESSAGE_CHARACTERS:,} are read. Write less."
        return bad_call(too_long), len(encoded)
    call = call_of_json(encoded)
    if call.error is None and isinstance(item, Mapping) and isinstance(inner := item.get("function"), Mapping):
        return call, CALL_KEYS + text_size(str(inner.get("name", ""))) + json_size(call.arguments)
    size = json_size(encoded)
    if call.id is not None:
        size -= json_size(msgspec.json.encode({"id": call.id})) - 1  # the braces stay, and a comma goes
        call = msgspec.structs.replace(call, id=call.id[:_MAX_ID])
    return call, size


# --- small parts


def _refused(call: ParsedCall) -> ParsedCall:
    """Return an error instead of a call in another form than those asked for."""
    return bad_call(f"The call is written as {call.repaired}. {HINT}", call.name, call.id) if call.repaired else call


def _wrong(error: str, text: str = "") -> ModelMessage:
    raw = _clean(text[:200])
    return ModelMessage(raw.strip(), (bad_call(error),), "", raw, length=len(text))


def _too_long(text: str) -> ModelMessage:
    error = f"The message has {len(text):,} characters; at most {MAX_MESSAGE_CHARACTERS:,} are read. Write less."
    return ModelMessage("", (bad_call(error),), "", _clean(text[:200]) + "…", length=len(text))


def _joined(*texts: str) -> str:
    return "\n".join(filter(None, texts))


def _clean(text: str) -> str:
    """Return `text` without lone surrogates, which no database and no file can hold."""
    return text.encode("utf-8", "replace").decode()


def _size(text: str) -> int:
    """Return the size of a text, without reading one that is too long."""
    return len(text) if len(text) > MAX_MESSAGE_CHARACTERS else written_size(text)


def _encoded_size(item: Any) -> int:
    """Return the size of a structured call that is not read; one that cannot be encoded has none."""
    try:
        return len(msgspec.json.encode(item))
    except Exception:  # of any object that a policy may send
        return 0
