"""Tools that take one text: which they are, and the arguments that a text gives them."""

from __future__ import annotations

from typing import Any

import pytest

from toolorchestra.envs.tools.text_input import arguments_of, fence_parameter
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tools.tool import Effect, Tool, ToolContext, ToolResult

TEXT: dict[str, Any] = {"type": "string", "description": "d"}
LINES: dict[str, Any] = {"type": "array", "items": "string", "description": "d"}


class Idle(Tool):
    """A tool that is never run."""

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        raise NotImplementedError


def tool(effect: Effect = "read", **parameters: dict[str, Any]) -> Tool:
    made = Idle("t", "d", {name: ParameterSpec(**spec) for name, spec in parameters.items()})
    made.effect = effect
    return made


@pytest.mark.parametrize(
    ("made", "parameter"),
    [
        (tool(code=TEXT), "code"),
        (tool("pure", queries=LINES), "queries"),
        (tool(most=TEXT | {"required": False}, code=TEXT), "code"),
        (tool(), None),
        (tool(code=TEXT, name=TEXT), None),
        (tool(code=TEXT | {"required": False}), None),
        (tool(count=TEXT | {"type": "integer"}), None),
        (tool(counts=LINES | {"items": "integer"}), None),
        (tool("write", code=TEXT), None),
    ],
)
def test_a_text_fills_the_only_required_parameter_of_a_tool_that_reads(made: Tool, parameter: str | None) -> None:
    assert fence_parameter(made) == parameter


def test_a_text_is_the_argument_or_its_lines_are() -> None:
    text = "  glass of Corrick \n\n Ada Vell\n"
    assert arguments_of(tool(code=TEXT), text) == {"code": text}
    assert arguments_of(tool(queries=LINES), text) == {"queries": ["glass of Corrick", "Ada Vell"]}
