"""Questions whose answer is a program: LiveCodeBench's, graded by running the program on the set's tests.

The program is what stands in the last fenced block of the final answer. It is right if it passes every test, public and
private: a test gives standard input and what must be printed, or arguments of a method of the class ``Solution`` and
what it must return. Programs are run in a sandbox only (`toolorchestra.envs.tools.sandbox`), and what must come out
never enters it. Whether a program is fast enough depends on the machine: such a verdict is not reproducible to the bit.

Not covered: reference solutions, which the set does not have. Simulated experts therefore cannot play these questions.
"""

from __future__ import annotations

import base64
import io
import pickle
import re
import zlib
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from toolorchestra.envs.sources.questions import QuestionWorld
from toolorchestra.envs.sources.row_files import Row
from toolorchestra.envs.tools.python import shared_sandbox
from toolorchestra.envs.tools.sandbox.base import Sandbox
from toolorchestra.envs.tools.sandbox.program import ProgramLimits, ProgramStatus
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tasks.verify import SOLVED, Failure, Verdict
from toolorchestra.toolscale.tools.tool import Tool

RULES = "Give the whole program as your final answer, in one fenced block: ```python … ```."
LIMITS = ProgramLimits(seconds=6.0, memory_mb=1024, output_bytes=8 << 20)
"""What a program may use on each test; the benchmark's own time limit is six seconds."""

_MAX_TESTS = 1 << 28  # bytes of the tests of one question, unpacked
_BLOCK = re.compile(r"```[^\n`]*\n(.*?)\n[ \t]*```", re.DOTALL)
_STARTED = "Complete this program:\n```python\n{}\n```"
_FROM_INPUT = "The program reads from standard input and prints its result."
_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json", "builtins", "typing"),
)
"""What a program may take as imported, names and modules, as the benchmark has it; builtins after what hides them."""
_RUN = "\n".join(
    [
        *(f"from {name} import *" for name in _MODULES),
        *(f"import {name}" for name in _MODULES),
        "sys.setrecursionlimit(50_000)",
        'exec(compile(open("program.py", encoding="utf-8").read(), "program.py", "exec"))\n',
    ]
)
_CALL = """
def _call():
    import json
    arguments, name = json.load(open("arguments.json", encoding="utf-8"))
    method = getattr(Solution(), name) if "Solution" in globals() else globals()[name]
    returned = method(*arguments)
    with open("returned.json", "w", encoding="utf-8") as file:
        json.dump(returned, file)
_call()
"""


class ProgramTest(msgspec.Struct, frozen=True):
    """One test: what a program reads and must print, or its arguments (JSON, one a line) and what it must return."""

    input: str
    output: str
    testtype: str = "stdin"


class ProgramTests(msgspec.Struct, frozen=True):
    """The tests of a question, packed as the set has them, and the method that they call, if they call one."""

    packed: tuple[str, ...]
    method: str | None = None

    def unpacked(self) -> list[ProgramTest]:
        """Return the tests.

        Raises:
            ValueError: They are not tests.
        """
        return [test for text in self.packed for test in msgspec.json.decode(_plain(text), type=list[ProgramTest])]


def program_question(question: str, row: Row, columns: Sequence[str]) -> tuple[str, ProgramTests]:
    """Return a question with the form that its program must have, and its tests.

    Raises:
        KeyError, ValueError: The row lacks a column, or its tests cannot be read.
    """
    metadata = row.get("metadata") or "{}"
    method = (msgspec.json.decode(metadata) if isinstance(metadata, str) else metadata).get("func_name")
    tests = ProgramTests(tuple(str(row[name]) for name in columns if row[name]), method)
    if not msgspec.json.decode(_plain(tests.packed[0]), type=list[ProgramTest]):
        raise ValueError(f"{columns[0]}: expected at least one test")
    starter = str(row.get("starter_code") or "").strip()
    return f"{question}\n\n{_STARTED.format(starter) if starter else _FROM_INPUT}", tests


class CodeWorld(QuestionWorld):
    """A world of questions that are answered by programs, in code blocks.

    Args:
        name: Its unique name.
        tests: The tests of each question, by task id.
        tools: What can be called.
        sandbox: Where programs are graded, as for `toolorchestra.envs.tools.python.PythonTool`.
        limits: What a program may use on each test.
    """

    form = ""

    def __init__(
        self,
        name: str,
        tests: dict[str, ProgramTests],
        tools: Iterable[Tool] = (),
        *,
        sandbox: str = "auto",
        limits: ProgramLimits = LIMITS,
    ) -> None:
        super().__init__(name, RULES, tools)
        self._tests, self._sandbox, self._limits = tests, sandbox, limits

    def verify(self, task: Task, session: object, answer: str) -> Verdict:
        """Run the program of an answer on the tests of a task, until one fails.

        Raises:
            SandboxError: There is no such sandbox on this machine, or it broke down.
        """
        if task.id not in self._tests:
            raise OptionError(f"{task.id}: expected a question of {self.name}, which has its tests.")
        tests = self._tests[task.id]
        code = program_in(answer)
        for number, test in enumerate(tests.unpacked(), 1):
            # even no program is run once: a sandbox that is broken is no fault of the answer
            wrong = _failure(shared_sandbox(self._sandbox), code or "", test, tests.method, self._limits)
            if code is None:
                return Verdict((Failure("answer", "the final answer should have a program in a fenced block"),))
            if wrong:
                return Verdict((Failure("answer", f"test {number}: {wrong}"),))
        return SOLVED


def program_in(answer: str) -> str | None:
    r"""Return the program in an answer: its last fenced block, or None if there is none.

    >>> program_in("First:\n```python\nprint(1)\n```\nBetter:\n```python\nprint(2)\n```")
    'print(2)'
    """
    blocks = _BLOCK.findall(answer)
    return str(blocks[-1]) if blocks else None


def _failure(sandbox: Sandbox, code: str, test: ProgramTest, method: str | None, limits: ProgramLimits) -> str:
    """Return what a program does wrong in a test; nothing if it passes."""
    files = {"program.py": code.encode("utf-8", "replace")}
    if called := test.testtype == "functional":
        arguments = [msgspec.json.decode(line) for line in test.input.splitlines() if line.strip()]
        files["arguments.json"] = msgspec.json.encode([arguments, method])
    result = sandbox.run(
        _RUN + _CALL if called else _RUN,
        "" if called else test.input,
        files,
        limits,
        ["returned.json"] if called else [],
    )
    if result.status is not ProgramStatus.OK:
        return f"the program ended with {result.status}"
    if not called:
        return "" if _same_output(result.stdout, test.output) else "the program prints something else"
    try:
        returned: Any = msgspec.json.decode(result.files["returned.json"])
    except (KeyError, msgspec.DecodeError, UnicodeError, RecursionError):
        return "the program returns nothing that is JSON"
    return "" if returned == msgspec.json.decode(test.output) else "the program returns something else"


def _same_output(printed: str, expected: str) -> bool:
    """Return whether two outputs have the same lines, outer white space aside; numbers are compared as numbers."""
    lines, wanted = (text.strip().split("\n") for text in (printed, expected))
    if len(lines) != len(wanted):
        return False
    return all(
        one.strip() == other.strip() or _numbers(one) == _numbers(other) != None  # noqa: E711 - both are numbers
        for one, other in zip(lines, wanted, strict=True)
    )


def _numbers(line: str) -> list[Decimal] | None:
    try:
        return [Decimal(word) for word in line.split()]
    except InvalidOperation:
        return None


class _TextOnly(pickle.Unpickler):
    """Reads texts and what holds them, and no object that could run anything."""

    def find_class(self, module: str, name: str) -> Any:
        raise ValueError(f"expected packed tests to be a text, found {module}.{name}")


def _plain(text: str) -> str:
    """Return tests as JSON: as they stand, or as the set packs them (base64 of a compressed, pickled text)."""
    if text.lstrip()[:1] == "[":
        return text
    try:
        unzip = zlib.decompressobj()
        data = unzip.decompress(base64.b64decode(text, validate=True), _MAX_TESTS)
        if not unzip.eof:
            raise ValueError(f"expected at most {_MAX_TESTS:,} bytes of tests")
        found = _TextOnly(io.BytesIO(data)).load()
    except (zlib.error, pickle.UnpicklingError, EOFError, IndexError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"tests cannot be unpacked ({type(error).__name__}: {error})") from None
    if not isinstance(found, str):
        raise ValueError(f"expected packed tests to be a text, found {type(found).__name__}")
    return found
