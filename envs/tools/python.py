"""Python as a tool: it runs each program of a model in a sandbox.

How programs are isolated is in `toolorchestra.envs.tools.sandbox`. Sessions that keep their variables are not covered.
"""

from __future__ import annotations

import ast
import atexit
import os
import re
import threading
from typing import Any

from toolorchestra.envs.tools.sandbox.base import Sandbox
from toolorchestra.envs.tools.sandbox.choice import BACKENDS, make_sandbox
from toolorchestra.envs.tools.sandbox.program import ProgramResult, ProgramStatus
from toolorchestra.envs.tools.simulated_python import SimulatedPython, after_printed
from toolorchestra.envs.tools.text_input import fence_parameter
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolOrigin, ToolResult

MAX_CODE_CHARACTERS = 100_000
"""Characters of a program."""
_CODE = {
    "code": ParameterSpec(
        type="string", description="The program; it must print its result.", max_length=MAX_CODE_CHARACTERS
    )
}
_MAX_ERROR_CHARACTERS = 2_000  # of an error, the last ones: a traceback ends with what went wrong


class PythonTool(Tool):
    """Runs a Python program and returns what it prints. Programs share nothing.

    The error of a program that fails, or is stopped, begins with what it had printed.

    The sandbox is made at the first call, is shared by all such tools of the process, and closes when the process ends.

    Args:
        sandbox: A name that `make_sandbox` takes; ``auto`` is the strongest that this machine has.
        name: Name of the tool.
        price: US dollars per call.
        latency: Seconds per call on the virtual clock, however long the program really takes.
    """

    uses_episode = True
    effect = "pure"
    origin = ToolOrigin("interpreter")
    blocking = True  # programs of one turn run at the same time; the sandbox bounds how long

    def __init__(
        self, sandbox: str = "auto", *, name: str = "python", price: float = 0.0, latency: float = 1.0
    ) -> None:
        if sandbox not in (*BACKENDS, "auto"):
            raise UnknownNameError("sandbox", str(sandbox), (*BACKENDS, "auto"))
        description = "Run a Python program on its own and return what it prints."
        super().__init__(name, description, _CODE, price=price, latency=latency)
        self._sandbox = sandbox

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run the program.

        Raises:
            SandboxError: There is no such sandbox on this machine, or it broke down.
        """
        return _shown(shared_sandbox(self._sandbox).run(arguments["code"], deadline=context.deadline))


class QuickPython(Tool):
    """Python for simulated experts: programs that only print an answer are parsed; `python` runs all others."""

    def __init__(self, python: Tool) -> None:
        super().__init__(python.name, python.description, python.parameters, price=python.price, latency=python.latency)
        self._python = python

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Return what the program prints."""
        if found := _PRINTS.fullmatch(arguments["code"]):
            if found[2] == "result":
                return ToolResult.ok(f"{ast.literal_eval(found[1])}\n")
            return ToolResult.failed(f"NameError: name {found[2]!r} is not defined")
        return self._python.run(arguments, context)


_PRINTS = re.compile(r"""result = ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\nprint\((\w+)\)""")  # a string, and no code


def make_python(kind: str | Tool, noise: int = 0) -> Tool | None:
    """Return the tool that runs Python, or None.

    Args:
        kind: A sandbox that `PythonTool` takes, ``simulated``, ``none``, or a tool named ``python``.
        noise: Lines of noise in the output of the simulated one.
    """
    if isinstance(kind, Tool):
        if kind.name != "python" or fence_parameter(kind) is None:
            raise OptionError(f"Expected a tool named 'python' that takes one text, got {kind.name!r}.")
        return kind
    if kind == "none":
        return None
    return SimulatedPython(noise=noise) if kind == "simulated" else PythonTool(sandbox=kind)


def default_python(sandbox: str | None, simulated: bool) -> Tool:
    """Return the tool that runs Python in a sandbox, or simulates it.

    Args:
        sandbox: ``simulated``, or a name that `PythonTool` takes; None: ``simulated`` if that suffices, else ``auto``.
        simulated: Whether it suffices, because the experts are simulated too.

    Raises:
        UnknownNameError: There is no such sandbox.
    """
    kind = ("simulated" if simulated else "auto") if sandbox is None else sandbox
    if kind not in (*BACKENDS, "auto", "simulated"):
        raise UnknownNameError("sandbox", str(kind), (*BACKENDS, "auto", "simulated"))
    return SimulatedPython(latency=1.0) if kind == "simulated" else PythonTool(kind)


def _shown(result: ProgramResult) -> ToolResult:
    if result.status is ProgramStatus.OK:
        return ToolResult.ok(result.stdout)
    message = result.stderr.strip()[-_MAX_ERROR_CHARACTERS:]
    match result.status:
        case ProgramStatus.TIMEOUT if not result.seconds:
            message = "The program was not run: others took all the time. Run fewer at once."
        case ProgramStatus.TIMEOUT:
            message = "The program ran too long and was stopped. Let it do less."
        case ProgramStatus.MEMORY:
            message = f"The program wanted too much memory.\n{message}".strip()
        case ProgramStatus.OUTPUT:
            message = "The program printed too much. Print only the result."
        case _:
            message = message or f"The program ended with exit code {result.exit_code}."
    error = after_printed(result.stdout, message)
    return ToolResult.timed_out(error) if result.status is ProgramStatus.TIMEOUT else ToolResult.failed(error)


_sandboxes: dict[tuple[int, str], Sandbox] = {}
_lock = threading.Lock()


def shared_sandbox(kind: str) -> Sandbox:
    """Return the sandbox of this process; one that another process made before it forked is that one's."""
    key = (os.getpid(), kind)
    with _lock:
        if key not in _sandboxes:
            sandbox = _sandboxes[key] = make_sandbox(kind)
            atexit.register(sandbox.close)
        return _sandboxes[key]
