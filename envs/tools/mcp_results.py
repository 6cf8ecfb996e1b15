"""What an MCP server sends, made harmless: bounded in size, and without marks that are not its own to write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from toolorchestra.toolscale.common.errors import OptionError

if TYPE_CHECKING:
    from mcp import types

MAX_DESCRIPTION, MAX_SCHEMA, MAX_RESULT = 4_000, 32_000, 65_536
"""Maximum characters of what a server says of a tool, bytes of the schema of its arguments, characters of a result."""
_MARKS = re.compile(r"<(?=/?(?:tool_call|tool_response|tools)\b)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


def arguments_schema(server: str, listed: types.Tool) -> dict[str, Any]:
    """Return the schema of a tool's arguments; `OptionError` if it is beyond the bounds."""
    try:
        text = msgspec.json.encode(listed.input_schema)
    except (TypeError, ValueError, RecursionError):
        text = b""
    if not text or len(text) > MAX_SCHEMA:
        raise OptionError(
            f"The MCP server {server} lists {plain(listed.name)[:64]!r} with arguments whose schema is not JSON of at "
            f"most {MAX_SCHEMA} bytes. Take others only, by naming them in `tools`."
        )
    schema: dict[str, Any] = _plain_json(msgspec.json.decode(text))
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, dict) else {}
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return {**schema, "type": "object", "properties": known, "required": names}


def result_value(found: types.CallToolResult) -> Any:
    """Return the result of a call: what is structured if that is not too large, or else text."""
    if found.structured_content is not None:
        try:
            text = msgspec.json.encode(found.structured_content).decode()
            if len(text) <= MAX_RESULT:
                return _plain_json(msgspec.json.decode(text))
        except (TypeError, ValueError, RecursionError):
            pass
    return cut(result_text(found), MAX_RESULT)


def _plain_json(value: Any) -> Any:
    """Return a JSON value with plain texts in it."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_plain_json(one) for one in value]
    if isinstance(value, dict):
        return {plain(name): _plain_json(one) for name, one in value.items()}
    return value


def result_text(found: types.CallToolResult) -> str:
    """Return the texts of a result; of what is no text it says that it was there."""
    parts, length = [], 0
    for block in found.content:
        text = getattr(block, "text", None)
        parts.append(text if isinstance(text, str) else f"({block.type}, not shown)")
        length += len(parts[-1])
        if length > MAX_RESULT:
            break
    return plain("\n".join(parts)[: MAX_RESULT + 1])


def plain(text: str) -> str:
    """Return a text without characters that control what shows it, and without the environment's own marks."""
    return _MARKS.sub("&lt;", _CONTROL.sub(" ", text.encode("utf-8", "replace").decode()))


def cut(text: str, most: int) -> str:
    """Return a text of at most about this many characters."""
    return text if len(text) <= most else f"{text[:most]}… (cut)"
