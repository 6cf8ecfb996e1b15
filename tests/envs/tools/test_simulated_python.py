from __future__ import annotations

import contextlib
import io
import math

import pytest
from hypothesis import given, strategies as st

from toolorchestra.envs.tools.simulated_python import SimulatedPython, result_lines
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.tool import NO_CONTEXT, Status, ToolResult


def run(code: str, noise: int = 0) -> ToolResult:
    return SimulatedPython(noise=noise).run({"code": code}, NO_CONTEXT)


@pytest.mark.parametrize(
    "code",
    [
        "print(7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 / 2, 2 ** 10, 2 ** -1)",
        "x = 3\ny = x * x + 1\nprint('y is', y)\nprint(-y)",
        "import math\nprint(math.gcd(12, 18), math.lcm(4, 6), math.comb(9, 4), math.factorial(20), math.isqrt(50))",
        "from math import gcd\nprint(gcd(12, 18))",
        "print(pow(3, 1000, 17), pow(2, 5), abs(-3), min(3, 1, 2), max(3, 1, 2))",
        "print()\n1 + 1\nprint(0.1 + 0.2)",
    ],
)
def test_what_it_knows_it_does_as_python_does(code: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"gcd": math.gcd})  # of this test, not of a model
    assert run(code).value == printed.getvalue().removesuffix("\n")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("print(1 / 0)", "ZeroDivisionError"),
        ("print(x)", "NameError: name 'x' is not defined"),
        ("print(", "SyntaxError"),
        ("print(\x00)", "SyntaxError"),
        ("print(open('/etc/passwd'))", "NameError"),
        ("__import__('os').system('true')", "NotImplementedError"),
        ("import os", "NotImplementedError"),
        ("for i in range(3): print(i)", "NotImplementedError: line 1"),
        ("print(9 ** 9 ** 9 ** 9)", "OverflowError"),
        ("print(math.factorial(10 ** 9))", "OverflowError"),
        ("print((-1) ** 0.5)", "complex"),
        ("print(math.comb(2, 0.5))", "TypeError"),
        ("print(" + "-" * 3_000 + "1)", "RecursionError|SyntaxError"),
        ("print(" + "(" * 500 + ")", "SyntaxError"),
        ("print(True)", "NotImplementedError"),
        ("print(1, end='')", "NotImplementedError"),
    ],
)
def test_everything_else_is_an_error(code: str, error: str) -> None:
    result = run(code)
    assert result.status is Status.EXEC_ERR
    assert any(part in str(result.error) for part in error.split("|"))


@given(st.text(alphabet="print()+-*/%= 0123456789xy,'\n.e_", max_size=60))
def test_no_program_breaks_it(code: str) -> None:
    assert run(code).status in (Status.OK, Status.EXEC_ERR)


def test_noise_hides_the_result_and_follows_from_program_and_seed() -> None:
    noisy = run("print(81)\nprint(7)", noise=40).value
    assert noisy == run("print(81)\nprint(7)", noise=40).value
    assert len(noisy.splitlines()) == 42
    assert result_lines(noisy) == ["81", "7"]
    assert noisy != run("print(81) \nprint(7)", noise=40).value


def test_noise_cannot_be_negative() -> None:
    with pytest.raises(OptionError):
        SimulatedPython(noise=-1)
