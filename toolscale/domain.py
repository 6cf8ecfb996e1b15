"""A domain: the world in which tasks are posed.

It is made of a specification (`toolorchestra.toolscale.database.format`), a database, tools and tasks.
`toolorchestra.toolscale.domain_folder` makes domains of folders of YAML.
"""

from __future__ import annotations

import datetime
import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.common.errors import DomainError, UnknownNameError, unknown_name
from toolorchestra.toolscale.database.build import build_database
from toolorchestra.toolscale.database.database import Database
from toolorchestra.toolscale.database.format import DomainSpec, TableSpec
from toolorchestra.toolscale.database.sql import primary_key
from toolorchestra.toolscale.tasks.answer_slots import SlotTable, fact_names
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tasks.verify import Verdict, Verifier
from toolorchestra.toolscale.tools.tool import ArgumentError, Status, Tool, ToolResult
from toolorchestra.toolscale.tools.tool_compiler import compile_tools

SPLITS = ("train", "test", "test_intents")
"""Splits of a domain's tasks: training, new bindings of the same intents, and intents never trained on."""


class Domain:
    """A world in which tasks are posed: specification, database, tools and tasks. It can be pickled and copied.

    Args:
        spec: The domain as written.
        image: Its database as SQLite's bytes; built from the specification if None.
        tools: Its tools by name; compiled from the specification if None.
        tasks: Its tasks.
        dropped: Task candidates dropped when they were made, by reason.
        file: Where it was read from, for error messages.

    Attributes:
        tools: Tools by name, in the order written.
        database: The initial database, from which sessions start.

    Raises:
        DomainError: A table, tool or record is wrong.
    """

    default_answer: ClassVar[Literal["typed", "text"]] = "typed"
    """How its tasks are answered where nothing else is said; see the option `answer` of environments."""

    def __init__(
        self,
        spec: DomainSpec,
        *,
        image: bytes | None = None,
        tools: Mapping[str, Tool] | None = None,
        tasks: Sequence[Task] = (),
        dropped: Mapping[str, int] | None = None,
        file: Path | None = None,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.file = file
        try:
            self._date = datetime.date.fromisoformat(spec.today)
        except ValueError as error:
            raise DomainError(f"{spec.today!r} is no date: {error}.", file=file, path="today") from None
        _check_tables(spec.tables, file)
        self.tools = compile_tools(spec, file) if tools is None else tools
        image = build_database(spec, file) if image is None else image
        self.database = Database(spec.tables, image, spec.today)
        self.verifier = Verifier(self.database, self.tools)
        self._tasks = {task.id: task for task in tasks}
        self._of_split: dict[str, list[Task]] = {}
        self.dropped = Counter(dropped)

    def with_tasks(self, tasks: Sequence[Task], dropped: Mapping[str, int]) -> Domain:
        """Return the domain with these tasks in place of its own; it shares the rest."""
        domain: Domain = object.__new__(type(self))  # a copy by `copy` of a shared domain is the domain itself
        domain.__dict__.update(self.__dict__)
        domain._tasks = {task.id: task for task in tasks}
        domain._of_split = {}
        domain.dropped = Counter(dropped)
        domain.__dict__.pop("slots", None)
        return domain

    @functools.cached_property
    def rules(self) -> str:
        """What an orchestrator must know of the place: title, description and today's date."""
        return f"{self.spec.title}. Today is {self._date:%A}, {self.spec.today}.\n{self.spec.description.strip()}"

    def verify(self, task: Task, session: Session, answer: str, typed: TypedAnswer | None = None) -> Verdict:
        """Judge an episode of `task` by its effects in `session` and its final answer: prose, or `typed`."""
        return self.verifier.verify(task, session, answer, typed)

    @functools.cached_property
    def slots(self) -> SlotTable:
        """The slots of typed answers to the domain's tasks."""
        names = {name: fact_names(intent) for name, intent in self.spec.intents.items()}
        currency = {slot: code for code, slots in self.spec.money.items() for slot in slots}
        return SlotTable(self._tasks.values(), self.verifier.results, self._writes, names, currency)

    def _writes(self, task: Task) -> list[str]:
        tools = self.spec.tools
        writes = (call.name for call in task.reference_calls if self.tools[call.name].effect == "write")
        return [tools[name].deed or name.replace("_", " ") for name in writes]

    def error(self, message: str, path: str, remedy: str = "") -> DomainError:
        """Return an error about a place in the domain's files."""
        return DomainError(message, file=self.file, path=path, remedy=remedy)

    def call(self, call: Call, session: Session) -> ToolResult:
        """Make a call; one whose arguments do not fit the tool has the status PARSE_ERR."""
        tool = self.tools[call.name]
        try:
            return session.call(tool, tool.decode(msgspec.json.encode(call.arguments)))
        except ArgumentError as error:
            return ToolResult(Status.PARSE_ERR, error=str(error))

    def replay(
        self, task: Task, calls: Iterable[Call], answer: str, session: Session, typed: TypedAnswer | None = None
    ) -> Verdict:
        """Judge the episode that makes `calls` (those that err change nothing) and ends with `answer`; see `verify`."""
        self.make(calls, session)
        return self.verify(task, session, answer, typed)

    def make(self, calls: Iterable[Call], session: Session) -> list[ToolResult]:
        """Reset a session, make `calls` and return their results."""
        session.reset()
        return [self.call(call, session) for call in calls]

    def session(self) -> Session:
        """Return a new session in the initial state."""
        return Session(self.database)

    def tasks(self, split: str = "all") -> list[Task]:
        """Return the tasks of a split (one of `SPLITS`, or ``all``)."""
        if split != "all" and split not in SPLITS:
            raise UnknownNameError("split", split, ("all", *SPLITS))
        if split not in self._of_split:  # every environment asks for them
            self._of_split[split] = [task for task in self._tasks.values() if split in ("all", task.split)]
        return self._of_split[split].copy()

    def task(self, task_id: str) -> Task:
        """Return the task with an id."""
        if task_id not in self._tasks:
            raise UnknownNameError(f"task of the domain {self.name}", task_id, self._tasks, limit=3)
        return self._tasks[task_id]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the slots behind: they are found anew when they are asked for."""
        return {name: value for name, value in self.__dict__.items() if name != "slots"}

    def __deepcopy__(self, memo: dict[int, Any]) -> Domain:
        """Return the domain itself: it never changes."""
        return self

    def __repr__(self) -> str:
        entries = self.database.entries()
        return f"<Domain {self.name}: {len(self.tools)} tools, {entries} entries, {len(self._tasks)} tasks>"


def _check_tables(tables: dict[str, TableSpec], file: Path | None) -> None:
    """Check what a table refers to."""

    def check(kind: str, name: str, known: Iterable[str], path: str) -> None:
        if name not in known:
            raise DomainError(unknown_name(kind, name, known), file=file, path=f"tables.{path}")

    earlier: set[str] = set()
    for name, table in tables.items():
        earlier.add(name)
        groups = {"primary_key": primary_key(table)} | {f"indexes[{i}]": c for i, c in enumerate(table.indexes)}
        for where, group in groups.items():
            for column in group:
                check("column", column, table.columns, f"{name}.{where}")
        for i, foreign in enumerate(table.foreign_keys):
            place = f"{name}.foreign_keys[{i}]"
            check("earlier table", foreign.references, earlier - {name}, place)
            for column in foreign.columns:
                check("column", column, table.columns, place)
            if len(foreign.columns) != len(wanted := primary_key(tables[foreign.references])):
                message = f"Expected a column for each of the primary key of {foreign.references}: {', '.join(wanted)}."
                raise DomainError(message, file=file, path=f"tables.{place}")
        for column, spec in table.columns.items():
            recipe = spec.recipe.reference if spec.recipe else None
            for where, reference in ((column, spec.references), (f"{column}.recipe", recipe)):
                if reference is not None:
                    target, key = reference.split(".")
                    check("earlier table", target, earlier, f"{name}.columns.{where}")
                    check("column", key, tables[target].columns, f"{name}.columns.{where}")
