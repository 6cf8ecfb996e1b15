"""The tool buffer of TMATR: the descriptions of tools, and how the text of a tool's input becomes arguments (§3.1).

A tool with one text parameter takes the input as it is (a list of texts: one a line); any other takes a JSON object.
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
    """The description of a tool: f(d_name) of Eq. 9."""

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
    """Return the list of tools in the planner's prompt: names and descriptions."""
    return "\n".join(f"- {name}: {tool.description}" for name, tool in tools.items())


def bind(tool: Tool, text: str) -> dict[str, Any] | FormatFault:
    """Return the arguments that the text of an input gives, or what is wrong with it."""
    if fence_parameter(tool) is not None:
        return arguments_of(tool, text)
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return FormatFault(
            f"Expected a JSON object as the input of {tool.name}, found another text ({str(error)[:200]}). "
            f"Write {tool.signature()} into <TOOL_INPUT>."
        )
