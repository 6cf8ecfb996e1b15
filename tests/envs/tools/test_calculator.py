"""The calculator: values are exact, and what cannot be computed is an error that says why."""

from __future__ import annotations

import pytest

from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Status


@pytest.mark.parametrize(
    ("expression", "exact", "decimal"),
    [
        ("1/3 + 1/6", r"\frac{1}{2}", 0.5),
        ("(1/3 + 1/6)^2 * sqrt(8)", r"\frac{1}{2}\sqrt{2}", 0.7071067812),
        (r"\frac{1}{3} + 2", r"\frac{7}{3}", 2.3333333333),
        ("5!", "120", 120.0),
        ("pi", r"\pi", 3.1415926536),
        ("x^2 + 2*x", "x^{2}+2x", None),
        ("sqrt(-1)", r"\sqrt{-1}", None),  # no real number
    ],
)
def test_values_are_exact_and_have_a_decimal_number_if_they_are_real(
    expression: str, exact: str, decimal: float | None
) -> None:
    result = Calculator().run({"expression": expression}, NO_CONTEXT)
    assert (result.status, result.value) == (Status.OK, {"exact": exact, "decimal": decimal})


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("1/0", "'1/0' cannot be computed: It divides by zero."),
        ("import os", "'import os' cannot be computed: Unexpected 'import'."),
        ("", "'' cannot be computed: It ends too early."),
        ("1, 2", "'1, 2' cannot be computed: It is several expressions, not one."),
    ],
)
def test_what_cannot_be_computed_is_an_error_that_says_why(expression: str, error: str) -> None:
    result = Calculator().run({"expression": expression}, NO_CONTEXT)
    assert (result.status, result.value, result.error) == (Status.EXEC_ERR, None, error)
