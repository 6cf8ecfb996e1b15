"""The parts of a message: text, thoughts and calls, in the forms of several interfaces.

The content of a message is text, or a list of parts, as OpenAI and Anthropic have them; thoughts may also stand in a
field of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""Names by which servers give the thoughts of a model beside its text."""
_TEXTS = {"text": "text", "output_text": "text", "refusal": "refusal"}
_THOUGHTS = ("thinking", "reasoning", "reasoning_text", "summary_text", "redacted_thinking")
_CALLS = ("tool_use", "function_call")
PART_TYPES = frozenset((*_TEXTS, *_THOUGHTS, *_CALLS, "message"))
"""Types of parts that are read."""

Part = tuple[Literal["text", "thought", "call", "unknown"], Any]


def tool_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    """Return a call as OpenAI has it; its arguments are unchecked JSON text, or an object where a template wants one.

    >>> tool_call("call_1", "get_dish", "{}")
    {'id': 'call_1', 'type': 'function', 'function': {'name': 'get_dish', 'arguments': '{}'}}
    """
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def parts_of(content: Any) -> Iterator[Part]:
    """Yield the parts of a content, each with what it is: texts and thoughts as text, others as they are.

    >>> list(parts_of([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Hi"}, 7]))
    [('thought', 'Hm.'), ('text', 'Hi'), ('unknown', 7)]
    """
    for part in content if isinstance(content, (list, tuple)) else () if content is None else (content,):
        kind = part.get("type", "text") if isinstance(part, Mapping) else None
        if isinstance(part, str):
            yield "text", part
        elif not isinstance(part, Mapping) or kind not in PART_TYPES:
            yield "unknown", part
        elif kind == "message" and not isinstance(part.get("content"), Mapping):
            yield from parts_of(part.get("content"))
        elif kind in _THOUGHTS:
            yield "thought", thought_in(part)
        elif kind in _CALLS:
            yield "call", part
        elif isinstance(text := part.get(_TEXTS.get(kind, "")), str):
            yield "text", text
        else:
            yield "unknown", part


def thought_in(value: Any, depth: int = 8) -> str:
    """Return thoughts as text: they come as text, as a part, or as a list of parts."""
    if isinstance(value, (list, tuple)):
        return "".join(thought_in(one, depth - 1) for one in value) if depth else ""
    if isinstance(value, Mapping) and depth:
        names = ("thinking", "text", "reasoning", "content", "summary")
        return next((text for name in names if (text := thought_in(value.get(name), depth - 1))), "")
    return value if isinstance(value, str) else ""


def reasoning_of(message: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the field in which a message has its thoughts, and the thoughts; None and nothing if it has none."""
    for field in REASONING_FIELDS:
        if thought := thought_in(message.get(field)):
            return field, thought
    return None, ""
