"""Tools whose input can be written as one text, such as Python's program or a search's queries."""

from __future__ import annotations

from toolorchestra.toolscale.tool import Tool


def fence_parameter(tool: Tool) -> str | None:
    """Return the parameter that a text can fill, or None: the tool's only required one, if it reads and takes text."""
    required = [name for name, parameter in tool.parameters.items() if parameter.required]
    if len(required) != 1:
        return None
    parameter = tool.parameters[required[0]]
    is_text = parameter.type == "string" or (parameter.type == "array" and parameter.items in (None, "string"))
    return required[0] if is_text and tool.effect != "write" else None
