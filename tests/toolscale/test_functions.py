from __future__ import annotations

import contextlib
import datetime
import warnings

import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.common.errors import UnknownNameError
from toolorchestra.toolscale.database.format import ToolSpec
from toolorchestra.toolscale.tools.functions import FunctionTool, calculator, look_calendar
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Status

TODAY = datetime.date(2025, 7, 23)  # a Wednesday

numbers = st.integers(0, 10**6).map(str) | st.floats(0, 1e6).map("{:.3f}".format)
expressions = st.recursive(
    numbers,
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(
        lambda p: f"({p[0]} {p[1]} {p[2]})"
    ),
    max_leaves=8,
)


@given(expressions)
def test_the_calculator_agrees_with_python(expression: str) -> None:
    try:
        expected = round(float(eval(expression)), 6)
    except ZeroDivisionError:
        with pytest.raises(ValueError, match="divides by zero"):
            calculator(expression, TODAY)
    else:
        assert calculator(expression, TODAY) == expected


@pytest.mark.parametrize(
    "expression",
    ["", "1 +", "a", "2 ** 9", "__import__('os')", "'a' * 9", "True", "[1]", "1 if 1 else 2", "9" * 400, "1e308 * 10",
     "(" * 250 + "1" + ")" * 240, "-" * 400 + "1" + "(", "1 / 0", "1 % 0", "1\x00", "1" * 501, "f'{1}'", "1;2", "x:=1"],
)  # fmt: skip
def test_the_calculator_refuses_what_is_not_finite_arithmetic(expression: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        calculator(expression, TODAY)


def test_the_calculator_keeps_what_python_thinks_of_an_expression_to_itself(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(ValueError, match="is not arithmetic"):
        calculator("3or 4", TODAY)
    assert not recwarn.list


@given(st.text(max_size=600))
def test_functions_raise_nothing_but_value_errors(text: str) -> None:
    for function in (calculator, look_calendar):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            with contextlib.suppress(ValueError):
                function(text, TODAY)


@pytest.mark.parametrize(
    ("phrase", "date"),
    [
        ("today", "2025-07-23"),
        ("Tomorrow ", "2025-07-24"),
        ("yesterday", "2025-07-22"),
        ("the day after  tomorrow", "2025-07-25"),
        ("last Monday", "2025-07-21"),
        ("last Wednesday", "2025-07-16"),
        ("this Monday", "2025-07-21"),
        ("this sunday", "2025-07-27"),
        ("next Wednesday", "2025-07-30"),
        ("next Thursday", "2025-07-24"),
        ("in 3 days", "2025-07-26"),
        ("in 1 week", "2025-07-30"),
        ("2 weeks ago", "2025-07-09"),
        ("2025-12-24", "2025-12-24"),
    ],
)
def test_the_calendar_reads_phrases(phrase: str, date: str) -> None:
    found = look_calendar(phrase, TODAY)
    assert found == {"date": date, "weekday": f"{datetime.date.fromisoformat(date):%A}"}


@pytest.mark.parametrize("phrase", ["", "someday", "2025-02-30", "last moonday", "in 9999 weeks ago", "in -1 days"])
def test_the_calendar_says_what_it_can_read(phrase: str) -> None:
    with pytest.raises(ValueError, match=r"names no date\. Use e.g. 'today'"):
        look_calendar(phrase, TODAY)


def test_an_unknown_function_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'calculator'"):
        FunctionTool("t", ToolSpec(description="d", function="calculatr"), today=TODAY)


@pytest.mark.parametrize("error", [RecursionError, OverflowError, MemoryError, KeyError, AssertionError])
def test_whatever_arguments_make_a_function_do_is_the_error_of_the_call(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**arguments: object) -> None:
        raise error("too much")

    tool = FunctionTool("sum", ToolSpec(description="d", function="calculator"), today=TODAY)
    monkeypatch.setattr(tool, "_function", fail)
    result = tool.run({"expression": "1"}, NO_CONTEXT)
    assert result.status is Status.EXEC_ERR
    assert result.error == (
        f"{error.__name__}: these arguments are beyond what sum can do. Use smaller or simpler ones."
    )
