"""Tools whose input can be one text, such as a Python program or the queries of a search."""

from __future__ import annotations

from typing import Any

from toolorchestra.toolscale.tools.tool import Tool


def fence_parameter(tool: Tool) -> str | None:
    """Return the parameter that a text can fill, or None: the tool's only required one, if it reads and takes text."""
    required = [name for name, parameter in tool.parameters.items() if parameter.required]
    if len(required) != 1:
        return None
    parameter = tool.parameters[required[0]]
    is_text = parameter.type == "string" or (parameter.type == "array" and parameter.items in (None, "string"))
    return required[0] if is_text and tool.effect != "write" else None


def arguments_of(tool: Tool, text: str) -> dict[str, Any]:
    """Return the arguments that a text gives its tool: the text, or its lines where the tool takes several."""
    name = fence_parameter(tool)
    assert name is not None, "only tools with such a parameter are available"
    if tool.parameters[name].type == "array":
        return {name: [line.strip() for line in text.splitlines() if line.strip()]}
    return {name: text}
