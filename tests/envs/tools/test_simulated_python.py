from __future__ import annotations

import contextlib
import io
import math

import pytest
from hypothesis import given, strategies as st

from toolorchestra.envs.tools.simulated_python import SimulatedPython, result_lines
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Status, ToolResult

ONLY = "NotImplementedError: line {}: only arithmetic is simulated"


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
        ("print(1 / 0)", "ZeroDivisionError: division by zero"),
        ("print(x)", "NameError: name 'x' is not defined"),
        ("print(", "SyntaxError: '(' was never closed"),
        ("print(\x00)", "SyntaxError: source code string cannot contain null bytes"),
        ("print(open('/etc/passwd'))", "NameError: name 'open' is not defined"),
        ("__import__('os').system('true')", ONLY.format(1)),
        ("import os", ONLY.format(1)),
        ("x = 1\nfor i in range(3): print(i)", ONLY.format(2)),
        ("print(9 ** 9 ** 9 ** 9)", "OverflowError: the number is too large"),
        ("print(math.factorial(10 ** 9))", "OverflowError: the number is too large"),
        ("x = 2 ** 9998\na = x * x - 1\npow(a, a - 2, a - 8)", "TimeoutError: the program computes too much"),
        ("comb(10000, 5000)\n" * 200, "TimeoutError: the program computes too much"),
        ("print((-1) ** 0.5)", "ValueError: complex numbers are not simulated"),
        ("print(math.comb(2, 0.5))", "TypeError: 'float' object cannot be interpreted as an integer"),
        ("print(" + "-" * 3_000 + "1)", "RecursionError: the program is nested too deeply|SyntaxError"),
        ("print(" + "(" * 500 + ")", "SyntaxError: too many nested parentheses"),
        ("print(True)", ONLY.format(1)),
        ("print(1, end='')", ONLY.format(1)),
    ],
)
def test_everything_else_is_an_error(code: str, error: str) -> None:
    result = run(code)
    assert result.status is Status.EXEC_ERR
    assert str(result.error).startswith(tuple(error.split("|")))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("print('a', 42)\n1 / 0", "a 42\nZeroDivisionError: division by zero"),
        ("print(42)\nprint(x)", "42\nNameError: name 'x' is not defined"),
        ("print(1)\nprint(2)\nopen('f')", "1\n2\nNameError: name 'open' is not defined"),
        ("print(42)\nfor i in []: pass", "42\nNotImplementedError: line 2: only arithmetic is simulated"),
        ("print(42)\nprint(9 ** 9 ** 9 ** 9)", "42\nOverflowError: the number is too large"),
        ("print()\n1 / 0", "ZeroDivisionError: division by zero"),
        ("print(42)\nx =", "SyntaxError: invalid syntax"),  # it is not begun
    ],
)
def test_what_a_program_printed_before_it_failed_comes_before_the_error(code: str, error: str) -> None:
    assert (run(code).status, run(code).error) == (Status.EXEC_ERR, error)
    lines = str(run(code, noise=5).error).splitlines()
    assert lines[-1] == error.splitlines()[-1]
    assert [line for line in lines if line.startswith("result ")] == [
        f"result {line}" for line in error.splitlines()[:-1] or ([""] if code.startswith("print()") else [])
    ]


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
    with pytest.raises(OptionError, match="`noise` and `stale` must be at least 0, got -1 and 0"):
        SimulatedPython(noise=-1)
