"""A simulated Python: straight-line arithmetic, parsed and never executed, whose output can be made long and noisy.

For training and tests without a sandbox. It supports numbers, ``+ - * / // % **``, names that were assigned, ``pow``,
``abs``, ``min``, ``max``, ``print``, and ``gcd``, ``lcm``, ``comb``, ``factorial`` and ``isqrt`` of `math`, with the
results of Python; everything else is an error as Python would show it.

Three options make its output as hard to read as that of real programs. `noise` puts what the program prints into lines
that begin with ``result``, among meaningless ones. `stale` puts older values of the same names before it, with nothing
to tell them but their place. With the chance `failures` a program breaks off with a traceback before it prints; run
again, it has the same chance.
"""

from __future__ import annotations

import ast
import math
import operator
import random
import warnings
import zlib
from collections.abc import Callable
from typing import Any

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolOrigin, ToolResult

Number = int | float

MAX_CODE_CHARACTERS = 4_000
_MAX_PRINTED_CHARACTERS = 8_000  # before an error, which is not to be cut off with them
_MAX_BITS = 20_000
_MAX_FACTORIAL = 1_000
_MAX_WORK = 3e10  # of a program, in products of bits: about 50 ms
_NAMES = ("a", "b", "c", "d")  # of values that stand among stale ones beside those that a program prints
_OWN = 0.5  # share of the stale lines before a printed one that have its name
_WORDS = ("partial", "estimate", "residual", "cached", "offset", "carry", "bound", "checksum")


class _ProgramError(Exception):
    """The error message that Python would show."""


class SimulatedPython(Tool):
    r"""Computes the arithmetic of a program without executing the program.

    Args:
        noise: Lines of noise among the output.
        stale: Lines of stale values before and among the output, of about three tokens each. A printed line is the last
            one that begins with its first word.
        failures: Probability that a program fails.

    >>> from toolorchestra.toolscale.tools.tool import NO_CONTEXT
    >>> SimulatedPython().run({"code": "n = pow(7, 100, 13)\nprint('rest', n)"}, NO_CONTEXT).value
    'rest 9'
    """

    uses_episode = True
    effect = "pure"
    origin = ToolOrigin("interpreter")

    def __init__(
        self, *, noise: int = 0, stale: int = 0, failures: float = 0.0, price: float = 0.0, latency: float = 0.2
    ) -> None:
        if noise < 0 or stale < 0:
            raise OptionError(f"`noise` and `stale` must be at least 0, got {noise!r} and {stale!r}.")
        if noise and stale:
            raise OptionError("`noise` marks what a program prints and `stale` hides it: leave one of them at 0.")
        if not 0 <= failures < 1:
            raise OptionError(f"`failures` must lie in [0, 1), got {failures!r}.")
        description = "Run a Python program (arithmetic only) and return what it prints."
        code = ParameterSpec(type="string", max_length=MAX_CODE_CHARACTERS, description="The program.")
        super().__init__("python", description, {"code": code}, price=price, latency=latency)
        self.noise, self.stale, self.failures = noise, stale, failures

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Return what the program prints.

        Noise and stale values follow from the context's seed and the program; whether it fails, from the seed alone.
        """
        code = arguments["code"]
        program, error = _Program(), ""
        try:
            _run(program, code)
        except _ProgramError as found:
            error = str(found)
        lines = program.lines
        if error and not lines:
            return ToolResult.failed(error)
        if self.noise:
            lines = _noisy(lines, self.noise, zlib.crc32(f"{context.seed}/{code}".encode()))
        failed = self.failures > 0 and random.Random(f"failure/{context.seed}").random() < self.failures
        if self.stale:
            lines = _among_stale(lines, self.stale, zlib.crc32(f"{context.seed}/{code}".encode()), shown=not failed)
        if error and not failed:
            return ToolResult.failed(after_printed("\n".join(lines), error))
        if failed:
            return ToolResult.failed("\n".join([*(lines if self.stale else ()), *_TRACEBACK]))
        return ToolResult.ok("\n".join(lines))


def result_lines(output: str) -> list[str]:
    r"""Return the lines of the program in a noisy output.

    >>> result_lines("partial 3\nresult 81\ncarry 7")
    ['81']
    """
    return [line.removeprefix("result ") for line in output.splitlines() if line.startswith("result ")]


def _noisy(printed: list[str], lines: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    near = [int(line) for line in printed if line.lstrip("-").isdigit() and len(line) < 10] or [0]
    noise = [f"{rng.choice(_WORDS)} {abs(rng.choice(near)) + rng.randint(0, 99)}" for _ in range(lines)]
    places = sorted(rng.randint(0, lines) for _ in printed)
    for before, (place, line) in enumerate(zip(places, printed, strict=True)):
        noise.insert(place + before, f"result {line}")
    return noise


def last_value(output: str, name: str) -> str | None:
    r"""Return what the last line of an output that begins with a name has after it; None without one.

    >>> last_value("a 17\nb 30\na 42\nb 31", "a")
    '42'
    """
    found = (line.removeprefix(f"{name} ") for line in reversed(output.splitlines()) if line.startswith(f"{name} "))
    return next(found, None)


_TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "program.py", line 1, in <module>',
    "RuntimeError: the interpreter was restarted",
)


def _among_stale(printed: list[str], lines: int, seed: int, *, shown: bool) -> list[str]:
    """Return the lines of a program among stale ones: those of its own names stand before it.

    If the program is not `shown`, because it failed, there are stale lines only.
    """
    rng = random.Random(seed)
    printed = [" ".join(line.split()) for line in printed]  # a model may write the name with spaces around it
    own = sorted({line.rpartition(" ")[0] for line in printed})
    others = [name for name in _NAMES if name not in own]
    place = rng.randint(lines // 2, lines) if shown else lines
    found: list[str] = []
    for number in range(lines):
        name = rng.choice(own if own and number < place and rng.random() < _OWN else others)
        found.append(f"{name} {rng.randint(10, 99)}".strip())
    return [*found[:place], *printed, *found[place:]] if shown else found


def after_printed(printed: str, error: str) -> str:
    r"""Return the error of a program after what the program had printed, of which the first characters are shown.

    >>> after_printed("42\n", "ZeroDivisionError: division by zero")
    '42\nZeroDivisionError: division by zero'
    """
    if len(printed) > _MAX_PRINTED_CHARACTERS:
        printed = f"{printed[:_MAX_PRINTED_CHARACTERS]}… ({len(printed) - _MAX_PRINTED_CHARACTERS:,} characters more)"
    printed = printed.rstrip("\n")
    return f"{printed}\n{error}" if printed else error


def _run(program: _Program, code: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the program
            tree = ast.parse(code)
        program.run(tree)
    except (SyntaxError, ValueError, MemoryError) as error:  # of the parser
        raise _ProgramError(f"SyntaxError: {getattr(error, 'msg', error)}") from None
    except RecursionError:
        raise _ProgramError("RecursionError: the program is nested too deeply") from None


class _Program:
    """The names of a program and the lines that it has printed."""

    def __init__(self) -> None:
        self.names: dict[str, Number] = {}
        self.lines: list[str] = []
        self.work = 0.0

    def run(self, tree: ast.Module) -> None:
        for statement in tree.body:
            match statement:
                case ast.Import(names=names) if all(name.name == "math" and not name.asname for name in names):
                    pass
                case ast.ImportFrom(module="math", names=names) if all(not name.asname for name in names):
                    pass
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names[name] = self.value(value)
                case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=arguments, keywords=[])):
                    self.lines.append(" ".join(map(self.shown, arguments)))
                case ast.Expr(value=value):
                    self.value(value)
                case _:
                    raise _ProgramError(f"NotImplementedError: line {statement.lineno}: only arithmetic is simulated")

    def shown(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        return str(self.value(node))

    def value(self, node: ast.expr) -> Number:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as number):
                return _bounded(number)
            case ast.Name(id=name):
                if name not in self.names:
                    raise _ProgramError(f"NameError: name {name!r} is not defined")
                return self.names[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.value(operand)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
                return _applied(_OPERATORS[type(sign)], self.value(left), self.value(right))
            case ast.Call(func=function, args=arguments, keywords=[]):
                name = _function_name(function)
                if name in _FUNCTIONS:
                    values = [self.value(argument) for argument in arguments]
                    self.work += _work(name, values)
                    if self.work > _MAX_WORK:
                        raise _ProgramError("TimeoutError: the program computes too much")
                    return _applied(_FUNCTIONS[name], *values)
                raise _ProgramError(f"NameError: name {name!r} is not defined")
        raise _ProgramError(f"NotImplementedError: line {node.lineno}: only arithmetic is simulated")


def _function_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="math"), attr=name):
            return name
    raise _ProgramError(f"NotImplementedError: line {node.lineno}: only arithmetic is simulated")


def _applied(function: Callable[..., Number], *values: Number) -> Number:
    try:
        return _bounded(function(*values))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise _ProgramError(f"{type(error).__name__}: {error}") from None


def _work(name: str, values: list[Number]) -> float:
    """Return about how many products of bits a function takes."""
    bits = [value.bit_length() if isinstance(value, int) else 64 for value in values]
    match name, bits:
        case "pow", [_, exponent, modulus]:
            return float(exponent) * modulus**2
        case (("comb" | "factorial"), [_, *_]) if 0 < values[0] <= 10 * _MAX_FACTORIAL:
            return 20.0 * values[0] ** 2
    return float(sum(bits)) ** 2


def _bounded(number: Number) -> Number:
    if isinstance(number, complex):
        raise _ProgramError("ValueError: complex numbers are not simulated")
    if isinstance(number, int) and number.bit_length() > _MAX_BITS:
        raise _ProgramError("OverflowError: the number is too large")
    return number


def _power(base: Number, exponent: Number, modulus: Number | None = None) -> Number:
    if modulus is not None:
        return pow(base, exponent, modulus)  # type: ignore[arg-type]  # Python says what is wrong
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > _MAX_BITS:
        raise OverflowError("the number is too large")
    return base**exponent


def _factorial(n: Number) -> Number:
    if n > _MAX_FACTORIAL:
        raise OverflowError("the number is too large")
    return math.factorial(n)  # type: ignore[arg-type]  # Python says what is wrong


def _comb(n: Number, k: Number) -> Number:
    if n > 10 * _MAX_FACTORIAL:
        raise OverflowError("the number is too large")
    return math.comb(n, k)  # type: ignore[arg-type]  # Python says what is wrong


_OPERATORS: dict[type[ast.operator], Callable[..., Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    **{function.__name__: function for function in (abs, min, max, math.gcd, math.lcm, math.isqrt)},
    "pow": _power,
    "comb": _comb,
    "factorial": _factorial,
}
