"""Calls that are written as JSON, whichever names their fields have."""

from __future__ import annotations

import re
from collections.abc import Container

import msgspec

from toolorchestra.agents.messages.model_message import ParsedCall
from toolorchestra.agents.messages.written_values import name_in, reason, repair_json

HINT = 'Write <tool_call>{"name": "…", "arguments": {…}}</tool_call> with valid JSON inside.'
"""What to write instead of a call in a text that cannot be read."""
EXPECTED = 'Expected {"name": "…", "arguments": {…}}.'
"""Likewise, of a call that came apart from a text."""
NAME_KEYS = ("name", "tool_name", "tool", "function")
"""Fields that may hold the name of a call's tool."""
ARGUMENT_KEYS = ("arguments", "parameters", "input", "args")
"""Fields that may hold a call's arguments."""
_CALL_START = re.compile(rf'\{{\s*"(?:{"|".join(NAME_KEYS)})"\s*:')
_BESIDE = frozenset(("id", "call_id", "tool_call_id", "type", "index", "status", "cache_control"))
_MAX_NAME = 80
_REPAIRED = "JSON with stray backslashes"

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])
_string = msgspec.json.Decoder(str)


def objects_in(text: str) -> list[str]:
    """Return the objects of JSON text: those of a list, or of the list in ``tool_calls``; else the text as it is.

    Raises:
        ValueError: It is a list that cannot be read.

    >>> objects_in('[{"name": "get_dish"}, {"name": "get_bill"}]')
    ['{"name": "get_dish"}', '{"name": "get_bill"}']
    """
    whole = text
    try:
        if text[:1] == "{":
            text = bytes(_fields.decode(repair_json(text)).get("tool_calls", b"")).decode()
        return [bytes(item).decode() for item in _list.decode(repair_json(text))] if text[:1] == "[" else [whole]
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        if text[:1] == "{":
            return [whole]
        raise ValueError(f"The list is not valid: {reason(error)}.") from None


def asks(text: str, tools: Container[str], *, only: bool) -> bool:
    """Return whether JSON in a text is a call: it names a tool and gives arguments; one of both if it is all of a text.

    JSON that is broken or cut off is a call if it begins as one.
    """
    try:
        fields = _fields.decode(repair_json(text))
        if bytes(fields.get("function", b""))[:1] == b"{":
            fields = _fields.decode(fields["function"])
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return (only or name_in(text) in tools) and _CALL_START.match(text) is not None
    name = next(filter(None, (_text(fields.get(key)) for key in NAME_KEYS)), "")
    called = any(key in fields for key in ARGUMENT_KEYS)
    return bool(name) and ((called and (only or name in tools)) or (name in tools and (only or len(fields) == 1)))


def call_of_json(text: str | bytes) -> ParsedCall:
    """Return the call that a JSON object is; bytes are of a call that came apart from a text.

    >>> call_of_json('{"tool_name": "get_dish", "parameters": {"n": 1}}')
    ParsedCall(name='get_dish', arguments=b'{"n": 1}', repaired='`parameters`')
    >>> call_of_json('{"name": "get_dish", "n": 1}').error
    'The call has no `arguments`, but `n` beside its name. Expected {"name": "…", "arguments": {…}}.'
    """
    written = isinstance(text, str)
    repaired = ""
    try:
        try:
            fields = _fields.decode(text)
        except msgspec.DecodeError:
            if not isinstance(text, str) or (mended := repair_json(text)) == text:
                raise
            fields, repaired = _fields.decode(mended), _REPAIRED
        call_id = _text(fields.get("id") or fields.get("call_id")) or None
        if bytes(fields.get("function", b""))[:1] == b"{":
            fields = _fields.decode(fields["function"])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raw = text if isinstance(text, str) else text.decode("utf-8", "replace")
        return bad_call(
            f"The call is not valid: {reason(error)}. {HINT if written else EXPECTED}", name_in(raw), raw=raw
        )
    key = next((key for key in NAME_KEYS if bytes(fields.get(key, b"null")) != b"null"), None)
    name = _text(fields[key]) if key else ""
    if not name:
        found = "" if key is None else f" `{key}` is {bytes(fields[key])[:40].decode('utf-8', 'replace')}."
        return bad_call(f"The call has no name.{found} {EXPECTED}", "", call_id)
    given = [key for key in ARGUMENT_KEYS if bytes(fields.get(key, b"null")) not in (b"null", b"{}", b'""')]
    if len(given) > 1:
        return bad_call(f"The call has both `{given[0]}` and `{given[1]}`. {EXPECTED}", name, call_id)
    named = given[0] if given else next((key for key in ARGUMENT_KEYS if key in fields), None)
    if named is None and (others := sorted(fields.keys() - _BESIDE - {key})):
        return bad_call(
            f"The call has no `arguments`, but `{others[0][:_MAX_NAME]}` beside its name. {EXPECTED}", name, call_id
        )
    call = call_of(name, fields[named] if named else msgspec.Raw(b"{}"), call_id, written=written)
    other = named if named not in (None, "arguments") else key if key != "name" else ""
    forms = ", ".join(filter(None, (f"`{other}`" if other else "", repaired or call.repaired)))
    return msgspec.structs.replace(call, repaired=forms) if forms and call.error is None else call


def call_of(name: str, arguments: msgspec.Raw, call_id: str | None = None, *, written: bool = True) -> ParsedCall:
    """Return a call whose arguments may be an object or, as OpenAI has it, JSON text of an object.

    Args:
        name: The tool.
        arguments: The arguments, as JSON.
        call_id: The id of the call, if it has one.
        written: Whether a model wrote the JSON: of it, backslashes are mended that would become control characters.
    """
    raw, name = bytes(arguments), name[:_MAX_NAME]
    if raw[:1] == b'"':
        written = True
        try:
            raw = _string.decode(raw).encode()
        except (msgspec.DecodeError, UnicodeError) as error:
            text = raw.decode("utf-8", "replace")
            return bad_call(f"The arguments are not valid JSON: {reason(error)}.", name, call_id, text)
    if written and b"\\" in raw:
        text = raw.decode("utf-8", "replace")
        if (mended := repair_json(text)) != text:
            return ParsedCall(name, mended.encode(), call_id, repaired=_REPAIRED)
    return ParsedCall(name, b"{}" if raw == b"null" or not raw else raw, call_id)


def bad_call(error: str, name: str = "", call_id: str | None = None, raw: str = "") -> ParsedCall:
    """Return a call that could not be read."""
    return ParsedCall(name[:_MAX_NAME], b"{}", call_id, error, raw)


def _text(raw: msgspec.Raw | None) -> str:
    """Return the text that JSON is, or nothing if it is none."""
    try:
        return "" if raw is None else _string.decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        return ""
