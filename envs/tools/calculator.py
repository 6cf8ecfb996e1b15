"""A symbolic calculator as a tool: fractions stay fractions and roots stay roots.

It reads what `toolorchestra.toolscale.answers.symbolic_reader` reads, LaTeX or plain, and evaluates nothing as code.
The calculator of domains, in decimal numbers, is `toolorchestra.toolscale.tools.functions.calculator`.
"""

from __future__ import annotations

from typing import Any

from toolorchestra.toolscale.answers.symbolic import MAX_DIGITS, UnreadableError
from toolorchestra.toolscale.answers.symbolic_reader import FUNCTIONS, read
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolResult


class Calculator(Tool):
    """Gives the exact value of an expression, and a decimal number where it has one."""

    effect = "pure"

    def __init__(self, *, price: float = 0.0, latency: float = 0.05) -> None:
        names = ", ".join(sorted(FUNCTIONS))
        description = f"Compute exactly with fractions, roots, π and letters: + - * / ^ !, parentheses, {names}."
        example = "What to compute, e.g. '(1/3 + 1/6)^2 * sqrt(8)'."
        parameters = {"expression": ParameterSpec(type="string", max_length=500, description=example)}
        super().__init__("calculator", description, parameters, price=price, latency=latency)

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Return ``{"exact": …, "decimal": …}``; the decimal number is None for what is no real number."""
        expression = arguments["expression"]
        try:
            value = read(expression)
        except UnreadableError as error:
            return ToolResult.failed(f"{expression[:100]!r} cannot be computed: {error}")
        if value.digits > MAX_DIGITS:
            reason = f"the value may have {value.digits:,} digits, and at most {MAX_DIGITS:,} are written"
            return ToolResult.failed(f"{expression[:100]!r} cannot be shown: {reason}. Compute a part of it.")
        try:
            decimal = round(value.number(), 10)
        except UnreadableError:
            decimal = None
        return ToolResult.ok({"exact": str(value), "decimal": decimal})
