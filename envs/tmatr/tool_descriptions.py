"""The tool buffer of TMATR: what agents are told of a tool, and how a tool's input in text becomes arguments (§3.1).

A tool with one text to fill takes the input as it is (several texts a line each); any other takes a JSON object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolorchestra.envs.tmatr.actions import FormatFault
from toolorchestra.envs.tools.text_input import arguments_of, fence_parameter
from toolorchestra.toolscale.tool import Tool

_OUTPUTS = {
    "python": "what the program prints",
    "calculator": "the exact value, and a decimal number if it has one",
    "search": "for each query the passages found, with title and text",
    "web_search": "for each query the pages found, with address, title and text",
}
_EXAMPLES = {
    "python": "print(2 + 2)",
    "calculator": "(1/3 + 1/6)^2",
    "search": "founding year of the city",
    "web_search": "founding year of the city",
}


class Descriptor(msgspec.Struct, frozen=True):
    """What there is to know of a tool: f(d_name) of Eq. 9."""

    name: str
    description: str
    input: str
    output: str
    example: str

    def __str__(self) -> str:
        tool = f"Tool: {self.name}. {self.description}"
        return f"{tool}\nInput: {self.input}\nOutput: {self.output}\nExample: {self.example}"


def describe(tool: Tool) -> Descriptor:
    """Return the descriptor of a tool."""
    name = fence_parameter(tool)
    if name is None:
        takes = f"a JSON object, {tool.signature()}"
        example = msgspec.json.encode({key: "…" for key, spec in tool.parameters.items() if spec.required}).decode()
    else:
        spec = tool.parameters[name]
        takes = f"text. {spec.description}" + (" One a line." if spec.type == "array" else "")
        example = _EXAMPLES.get(tool.name, "…")
    output = _OUTPUTS.get(tool.name, "a text, or JSON")
    return Descriptor(tool.name, tool.description, takes, output, example)


def listing(tools: Mapping[str, Tool]) -> str:
    """Return the tools as a planner reads them: names and descriptions."""
    return "\n".join(f"- {name}: {tool.description}" for name, tool in tools.items())


def bind(tool: Tool, text: str) -> dict[str, Any] | FormatFault:
    """Return the arguments that an input gives its tool, or why it gives none."""
    if fence_parameter(tool) is not None:
        return arguments_of(tool, text)
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return FormatFault(
            f"Expected a JSON object as the input of {tool.name}, found another text ({str(error)[:200]}). "
            f"Write {tool.signature()} into <TOOL_INPUT>."
        )
