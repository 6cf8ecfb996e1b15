"""Python as a tool: every end of a program is a status, and nothing depends on how long it really took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest

from toolorchestra.agents.messages.model_message import ParsedCall
from toolorchestra.envs import executor, make_multiagent
from toolorchestra.envs.executor import execute
from toolorchestra.envs.tools import python as module
from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.envs.tools.python import PythonTool, QuickPython, default_python, make_python
from toolorchestra.envs.tools.sandbox import (
    ProcessSandbox,
    ProgramLimits,
    ProgramResult,
    ProgramStatus as Ended,
    Sandbox,
)
from toolorchestra.envs.tools.simulated_python import SimulatedPython
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Status, Tool, ToolContext, ToolResult


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[PythonTool]:
    """The tool, over bounded processes with a short timeout, of which this test's are the only ones."""
    monkeypatch.setattr(module, "_sandboxes", {})
    made: list[Sandbox] = []

    def make(kind: str) -> Sandbox:
        with pytest.warns(UserWarning, match="does not isolate"):
            made.append(ProcessSandbox(limits=ProgramLimits(seconds=1.0, output_bytes=1_000), workers=1))
        return made[-1]

    monkeypatch.setattr(module, "make_sandbox", make)
    monkeypatch.setattr(module.atexit, "register", lambda close: None)
    yield PythonTool("process")
    assert len(made) <= 1
    for sandbox in made:
        sandbox.close()


def run(tool: Tool, code: str) -> ToolResult:
    return tool.run({"code": code}, NO_CONTEXT)


def test_what_a_program_prints_is_the_result(tool: PythonTool) -> None:
    assert run(tool, "print(6 * 7)") == ToolResult.ok("42\n")
    assert run(tool, "x = 1") == ToolResult.ok("")


def test_programs_share_nothing(tool: PythonTool) -> None:
    assert run(tool, "x = 1").status is Status.OK
    result = run(tool, "print(x)")
    assert result.status is Status.EXEC_ERR
    assert str(result.error).endswith("NameError: name 'x' is not defined")


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("1 / 0", Status.EXEC_ERR, "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(3)", Status.EXEC_ERR, "exit code 3"),
        ("print('a' * 5000)", Status.EXEC_ERR, "printed too much"),
        ("while True: pass", Status.TIMEOUT, "ran too long"),
        ("\ud800", Status.EXEC_ERR, "SyntaxError"),
    ],
)
def test_every_other_end_is_an_error_that_says_which(tool: PythonTool, code: str, status: Status, message: str) -> None:
    result = run(tool, code)
    assert result.status is status
    assert message in str(result.error)


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("print('step 1: 42')\n1/0", Status.EXEC_ERR, "ZeroDivisionError: division by zero"),
        ("print('step 1: 42')\nx =", Status.EXEC_ERR, "SyntaxError: invalid syntax"),
        ("import sys\nprint('step 1: 42')\nsys.exit('no')", Status.EXEC_ERR, "no"),
        (
            "import sys\nprint('step 1: 42', end='')\nsys.exit(3)",
            Status.EXEC_ERR,
            "The program ended with exit code 3.",
        ),
        ("import os\nprint('step 1: 42')\nos._exit(1)", Status.EXEC_ERR, "The program ended with exit code 1."),
        ("import os\nprint('step 1: 42')\nos.abort()", Status.EXEC_ERR, "The program ended with exit code -6."),
        ("print('step 1: 42')\nwhile True: pass", Status.TIMEOUT, "ran too long and was stopped. Let it do less."),
        ("print('step 1: 42')\nprint('a' * 5000)", Status.EXEC_ERR, "printed too much. Print only the result."),
    ],
)
def test_what_a_program_printed_before_it_failed_comes_before_the_error(
    tool: PythonTool, code: str, status: Status, error: str
) -> None:
    result = run(tool, code)
    parsed = "SyntaxError" not in error  # else it printed nothing
    assert (result.status, result.value) == (status, None)
    assert str(result.error).startswith("step 1: 42\n") == parsed
    assert str(result.error).endswith(error)


def test_much_output_does_not_push_the_error_out_of_sight() -> None:
    result = module._shown(ProgramResult(Ended.ERROR, stdout="a" * 50_000, stderr="ValueError: no"))
    assert result.error == "a" * 8_000 + "… (42,000 characters more)\nValueError: no"


def test_a_program_that_exceeds_its_memory_gets_an_error_that_says_so() -> None:
    result = module._shown(ProgramResult(Ended.MEMORY, stderr="MemoryError\n"))
    assert (result.status, result.error) == (Status.EXEC_ERR, "The program wanted too much memory.\nMemoryError")


def test_only_the_end_of_a_long_traceback_is_shown(tool: PythonTool) -> None:
    result = module._shown(ProgramResult(Ended.ERROR, stderr="x" * 5_000 + "ValueError: no"))
    assert str(result.error).endswith("ValueError: no")
    assert len(str(result.error)) == 2_000


def test_time_on_the_virtual_clock_does_not_depend_on_the_machine(tool: PythonTool) -> None:
    assert run(tool, "import time; time.sleep(0.2)").seconds == 0
    assert tool.latency == 1.0


def test_an_unknown_sandbox_is_refused_when_the_tool_is_made() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown sandbox 'dokcer'\. Did you mean 'docker'\?"):
        PythonTool("dokcer")


class NoPython(Tool):
    """Runs nothing, and says so."""

    def __init__(self) -> None:
        super().__init__("python", "d", PythonTool("process").parameters, latency=2.0)

    def run(self, arguments: object, session: object) -> ToolResult:
        return ToolResult.timed_out("asked")


def test_programs_of_simulated_programmers_are_read() -> None:
    quick = QuickPython(NoPython())
    assert quick.latency == 2.0
    assert run(quick, "result = '12'\nprint(result)") == ToolResult.ok("12\n")
    assert run(quick, 'result = "it\'s \\\\frac{1}{2}"\nprint(result)') == ToolResult.ok("it's \\frac{1}{2}\n")
    wrong = run(quick, "result = '12'\nprint(results)")
    assert (wrong.status, wrong.error) == (Status.EXEC_ERR, "NameError: name 'results' is not defined")


@pytest.mark.parametrize("code", ["print(12)", "result = '1' + '2'\nprint(result)", "result = f'{1}'\nprint(result)"])
def test_all_other_programs_are_run(code: str) -> None:
    assert run(QuickPython(NoPython()), code) == ToolResult.timed_out("asked")


def test_python_is_simulated_where_that_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: str) -> Sandbox:
        raise AssertionError(f"{kind} was asked for.")

    monkeypatch.setattr(module, "shared_sandbox", refuse)
    call = '<tool_call>{"name": "python", "arguments": {"code": "print(6 * 7)"}}</tool_call>'
    for env in (gymnasium.make("ToolOrchestra-Math-v0", tools="basic"), gymnasium.make("ParaManager-Math-v0")):
        env.reset(seed=0)
        assert "42" in env.step(call if "Tool" in str(env) else f"<reasoning>6 times 7.</reasoning>{call}")[0]
    several: Any = make_multiagent("MSARL-Math-v0")
    several.reset(seed=0)
    several.step("```python\nprint(6 * 7)\n```")
    assert several.observe("helper").endswith("42")
    assert isinstance(make_multiagent("TMATR-Math-v0").unwrapped._tools[0], SimulatedPython)
    assert isinstance(default_python(None, simulated=False), PythonTool)
    assert isinstance(default_python("bubblewrap", simulated=True), PythonTool)
    with pytest.raises(UnknownNameError, match=r"Did you mean 'simulated'\?"):
        gymnasium.make("ParaManager-Math-v0", sandbox="simulatd")


def test_python_is_made_by_its_kind() -> None:
    own, made = NoPython(), make_python("bubblewrap")
    assert make_python("none") is None
    assert make_python(own) is own
    assert isinstance(made, PythonTool)
    assert made._sandbox == "bubblewrap"
    simulated = make_python("simulated", noise=2)
    assert simulated is not None
    assert len(run(simulated, "print(7)").value.splitlines()) == 3
    with pytest.raises(OptionError, match="Expected a tool named 'python' that takes one text, got 'calculator'"):
        make_python(Calculator())


def test_programs_without_end_in_one_message_take_a_bounded_time_and_hold_up_nothing(
    tool: PythonTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [ParsedCall("python", b'{"code": "while True: pass"}')] * 64
    with monkeypatch.context() as short:
        short.setattr(executor, "MESSAGE_SECONDS", 1.0)
        records = execute(calls, ToolContext(tools={"python": tool}), clock=0.0, first=1)
    assert {record.status for record in records} == {Status.TIMEOUT}
    late = ("when the time for one message was over", "was not run: others took all the time")
    assert any(text in str(records[-1].error) for text in late)
    calls = [ParsedCall("python", b'{"code": "print(6 * 7)"}')]
    (record,) = execute(calls, ToolContext(tools={"python": tool}), clock=0.0, first=65)
    assert record.value == "42\n"
