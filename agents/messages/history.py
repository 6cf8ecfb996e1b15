"""A conversation as OpenAI-compatible servers accept it.

What a model wrote stays in the record as it was. Servers check what comes back: one malformed call in the history is
status 400 for the whole request. Not covered: templates, which the renderers fill in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.messages.content import REASONING_FIELDS, reasoning_of, tool_call

UNREADABLE = "unreadable"
"""The key of an object that stands for arguments that are none: its value is what the model wrote."""
_NOT_IN_NAMES = re.compile("[^a-zA-Z0-9_-]")
_MAX_NAME = 64
_NO_ANSWER = "(no answer)"
_NO_RESULT = "There is no result."
_UNSEEN = " "  # in place of thoughts that there are none of: some servers take an empty text for a missing one


def history_for_server(
    messages: Sequence[Mapping[str, Any]], *, reasoning_field: str | None = None, tools: Collection[str] = ()
) -> list[dict[str, Any]]:
    r"""Return a conversation that servers accept.

    Every call has an id that no other has, a name of letters, digits, ``_`` and ``-``, and arguments that are the JSON
    of an object; it is followed by its result, which refers to it. Nothing has the content null, and no assistant
    message is empty.

    Args:
        messages: OpenAI-style messages; they are not changed.
        reasoning_field: The name by which the server takes thoughts back; None: it does not. If one message has
            thoughts, all that make calls have the field.
        tools: Names that are left as they are.

    >>> call = {"id": "", "type": "function", "function": {"name": "get_dish", "arguments": '{"dish": '}}
    >>> said = {"role": "assistant", "content": None, "tool_calls": [call]}
    >>> history_for_server([said, {"role": "tool", "tool_call_id": "", "content": "PARSE_ERR"}])
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'role': 'assistant', 'content': '', 'tool_calls': [{'id': 'call_1', 'type': 'function',
      'function': {'name': 'get_dish', 'arguments': '{"unreadable":"{\\"dish\\": "}'}}]},
     {'role': 'tool', 'tool_call_id': 'call_1', 'content': 'PARSE_ERR'}]
    """
    if reasoning_field and not any(reasoning_of(message)[1] for message in messages):
        reasoning_field = None
    history: list[dict[str, Any]] = []
    taken: set[str] = set()
    waiting: list[tuple[Any, dict[str, Any]]] = []  # calls without a result: the id as written, and the call as sent
    for message in messages:
        sent = {**message, "content": "" if message.get("content") is None else message["content"]}
        if sent.get("role") == "tool":
            history.append(_result(sent, waiting))
            continue
        history += _unanswered(waiting)
        waiting = []
        if sent.get("role") == "assistant":
            _, thought = reasoning_of(sent)
            for field in REASONING_FIELDS:
                sent.pop(field, None)
            if calls := sent.pop("tool_calls", None):
                waiting = [(call.get("id"), _call(call, taken, tools)) for call in calls]
                sent["tool_calls"] = [call for _, call in waiting]
            elif not sent["content"]:
                sent["content"] = _NO_ANSWER
            if reasoning_field and (thought or calls):
                sent[reasoning_field] = thought or _UNSEEN
        history.append(sent)
    return history + _unanswered(waiting)


def unique_id(wanted: Any, taken: set[str], number: int) -> str:
    """Return an id that is not yet taken, the wanted one if possible, and take it."""
    name = f"call_{number}" if wanted in (None, "") else str(wanted)
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    taken.add(found)
    return found


def _call(call: Mapping[str, Any], taken: set[str], tools: Collection[str]) -> dict[str, Any]:
    function = call.get("function") or {}
    name = str(function.get("name") or "")
    if name not in tools:
        name = _NOT_IN_NAMES.sub("_", name)[:_MAX_NAME] or "unknown"
    return tool_call(unique_id(call.get("id"), taken, len(taken) + 1), name, _arguments(function.get("arguments")))


def _arguments(written: Any) -> str:
    """Return the JSON of an object."""
    text = written if isinstance(written, str) else msgspec.json.encode(written).decode()
    try:
        found = msgspec.json.decode(text or "null")
    except (msgspec.DecodeError, RecursionError):
        found = ...
    if isinstance(found, dict):
        return text
    return "{}" if found is None else msgspec.json.encode({UNREADABLE: text}).decode()


def _result(sent: dict[str, Any], waiting: list[tuple[Any, dict[str, Any]]]) -> dict[str, Any]:
    """Return a tool message that refers to its call; without a call it is a user's message."""
    if not waiting:
        return {"role": "user", "content": sent["content"]}
    wanted = sent.get("tool_call_id")
    place = next((place for place, (written, _) in enumerate(waiting) if written == wanted), 0)
    _, call = waiting.pop(place)
    if "name" in sent:
        sent["name"] = call["function"]["name"]
    return {**sent, "tool_call_id": call["id"]}


def _unanswered(waiting: list[tuple[Any, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": call["id"], "content": _NO_RESULT} for _, call in waiting]
