"""Tools in text: a signature and what it does, one line each, for whoever is shown no schemas beside the messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

SchemaForm = Literal["full", "short"]
"""How tools are shown: as JSON schemas beside the messages, or as lines of text in the system message."""

_HEADING = "Tools (an argument with ? may be left out):"
_TYPES = {"string": "text", "boolean": "true | false", "integer": "integer", "number": "number", "object": "object"}
_FORMATS = {"date": "YYYY-MM-DD", "time": "HH:MM"}


def tools_beside(info: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the schemas to give a chat template or a server beside the messages of an ``info``.

    There are none where the system message lists the tools; ``info["tools"]`` has what can be called.
    """
    return () if info.get("schemas") == "short" else info.get("tools") or ()


def tool_lines(tools: Iterable[Mapping[str, Any]]) -> str:
    """Return the lines of tools, given by OpenAI function schemas, under a heading; empty if there are none."""
    lines = [tool_line(tool["function"]) for tool in tools]
    return "\n".join([_HEADING, *lines]) if lines else ""


def tool_line(function: Mapping[str, Any]) -> str:
    """Return one line about a function, whatever its schema says: a server of tools may have written it.

    >>> allergies = {"type": "string", "enum": ["egg", "nuts"]}
    >>> parameters = {"properties": {"customer": {"type": "string"}, "allergy": allergies}, "required": ["customer"]}
    >>> tool_line({"name": "set_allergy", "description": "Note an allergy.", "parameters": parameters})
    'set_allergy(customer: text, allergy?: "egg" | "nuts"): Note an allergy.'
    """
    schema = function.get("parameters") or {}
    required = schema.get("required") or ()
    arguments = (
        f"{name}{'' if name in required else '?'}: {_type(one)}"
        for name, one in (schema.get("properties") or {}).items()
    )
    return " ".join(f"{function['name']}({', '.join(arguments)}): {function.get('description', '')}".split())


def _type(schema: Any) -> str:
    """Return what an argument takes."""
    if not isinstance(schema, Mapping):
        return "any"
    if schema.get("enum"):
        return " | ".join(json.dumps(option, ensure_ascii=False) for option in schema["enum"])
    kind = str(schema.get("type"))
    if kind == "array":
        return f"list of {_type(schema.get('items'))}"
    return _FORMATS.get(str(schema.get("format"))) or _TYPES.get(kind, "any")
