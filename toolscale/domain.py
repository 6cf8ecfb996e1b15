"""Domains: a folder of YAML, and the database, tools and tasks made of it.

A domain's folder holds what a person writes (``domain.yaml`` and further ``*.yaml``) and what `build_domain`
makes of it: ``domain.db``, ``tasks.jsonl`` and ``build.json``, which ties them to the version of the YAML they
were built from. `load_domain` reads a folder, checks it and gives a `Domain`; a folder that has not been built
yet is built in memory.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.toolscale import build
from toolorchestra.toolscale.errors import DomainError, UnknownNameError, unknown_name
from toolorchestra.toolscale.format import DomainSpec, TableSpec
from toolorchestra.toolscale.functions import FUNCTIONS, FunctionTool
from toolorchestra.toolscale.intents import make_tasks
from toolorchestra.toolscale.session import Row, Session, table_access
from toolorchestra.toolscale.sqltool import compile_tool, prepare_connection, primary_key, read_only
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import Tool
from toolorchestra.toolscale.verify import ReferenceEffects, Verdict, reference_effects, verify
from toolorchestra.toolscale.yaml_reader import convert, parse_yaml

BUILTIN = Path(__file__).parent / "domains"
"""Folder of the domains that come with the library."""

SPLITS = ("train", "test", "test_intents")
"""Splits of a domain's tasks: training, new bindings of the same intents, and intents never trained on."""

_MERGED: dict[str, type] = {"tables": dict, "tools": dict, "intents": dict, "attacks": dict, "consistency": list}


class BuildInfo(msgspec.Struct, frozen=True):
    """What ``build.json`` says of a build.

    Attributes:
        spec: SHA-256 of the domain's specification.
        database: SHA-256 of ``domain.db``.
        tasks: SHA-256 of ``tasks.jsonl``.
        faker: Version of Faker, on whose word lists the records depend.
        dropped: Task candidates dropped, by reason.
    """

    spec: str
    database: str
    tasks: str
    faker: str
    dropped: dict[str, int] = {}


class Domain:
    """A world in which tasks are posed: specification, database, tools and tasks.

    Args:
        spec: The domain as written.
        image: Its database; built from the specification if None.
        tasks: Its tasks; made from the intents if None.
        file: Where it was read from, for error messages.

    Attributes:
        name: Its name.
        image: The database as SQLite's bytes; sessions start from it.
        tools: Tools by name, in the order written.
        base: A connection to the initial database, to read from.
        dropped: Task candidates dropped when it was built, by reason.

    Raises:
        DomainError: A table, tool, record or intent is wrong.
    """

    def __init__(
        self,
        spec: DomainSpec,
        *,
        image: bytes | None = None,
        tasks: Sequence[Task] | None = None,
        file: Path | None = None,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.file = file
        _check_today(spec.today, file)
        _check_tables(spec.tables, file)
        self.access = table_access(spec.tables)
        self.tools = _compile_tools(spec, file)
        self.image = build.build_database(spec, file) if image is None else image
        self.base = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.base.deserialize(self.image)
        self.base.execute("PRAGMA query_only = ON")
        prepare_connection(self.base)
        self.base.set_authorizer(read_only)
        self.dropped: Counter[str] = Counter()
        self._reference_effects: dict[str, tuple[Task, tuple[ReferenceEffects, ...]]] = {}
        if tasks is None:
            tasks, self.dropped = make_tasks(self)
            if spec.evolution:
                from toolorchestra.toolscale.evolution import evolve  # it works on domains, as this module makes them

                evolved, dropped = evolve(self, tasks, spec.evolution, spec.seed)
                tasks, self.dropped = tasks + evolved, self.dropped + dropped
        self._tasks = {task.id: task for task in tasks}

    @functools.cached_property
    def rules(self) -> str:
        """What an orchestrator must know of the place: title, description and today's date."""
        day = datetime.date.fromisoformat(self.spec.today)
        return f"{self.spec.title}. Today is {day:%A}, {self.spec.today}.\n{self.spec.description.strip()}"

    def verify(self, task: Task, session: Session, answer: str) -> Verdict:
        """Judge an episode of `task` by its effects in `session` and its final answer."""
        return verify(self, task, session, answer)

    def tasks(self, split: str = "all") -> list[Task]:
        """Return the tasks of a split (one of `SPLITS`, or ``all``)."""
        if split != "all" and split not in SPLITS:
            raise UnknownNameError("split", split, ("all", *SPLITS))
        return [task for task in self._tasks.values() if split in ("all", task.split)]

    def task(self, task_id: str) -> Task:
        """Return the task with an id."""
        if task_id not in self._tasks:
            raise UnknownNameError(f"task of the domain {self.name}", task_id, self._tasks, limit=3)
        return self._tasks[task_id]

    def session(self) -> Session:
        """Return a new session in the initial state."""
        return Session(self)

    @functools.cached_property
    def scratch(self) -> Session:
        """The session on which reference trajectories are run; whoever takes it resets it first."""
        return Session(self)

    def reference_effects_of(self, task: Task) -> Iterator[ReferenceEffects]:
        """Yield what each reference trajectory of a task does, the first one first (run once, then remembered)."""
        known = self._reference_effects.get(task.id)
        if known is None or (known[0] is not task and known[0] != task):
            known = task, tuple(reference_effects(self, calls) for calls in (task.reference_calls, *task.alternatives))
            self._reference_effects[task.id] = known
        return iter(known[1])

    def forget(self) -> None:
        """Forget what reference trajectories do, which takes memory for every task; they are run again when needed."""
        self._reference_effects.clear()

    def base_row(self, table: str, key: Any) -> Row | None:
        """Return a row of the initial database by primary key, or None."""
        access = self.access[table]
        row: Row | None = self.base.execute(access.one, access.parts(key)).fetchone()
        return row

    def entries(self) -> int:
        """Return the number of rows of the initial database."""
        tables = " + ".join(f"(SELECT count(*) FROM {build.quote(name)})" for name in self.spec.tables)
        return int(self.base.execute(f"SELECT {tables}").fetchone()[0])

    def __repr__(self) -> str:
        return f"<Domain {self.name}: {len(self.tools)} tools, {self.entries()} entries, {len(self._tasks)} tasks>"


def builtin_domains() -> list[str]:
    """Return the names of the domains that come with the library."""
    return sorted(path.parent.name for path in BUILTIN.glob("*/domain.yaml"))


_loaded: dict[Path, Domain] = {}


def _load(folder: Path) -> Domain:
    """Return the domain of a folder, read once per process."""
    if folder not in _loaded:
        _loaded[folder] = _opened(folder)
    return _loaded[folder]


def _opened(folder: Path) -> Domain:
    spec, origin = _read(folder)
    if not (folder / "build.json").exists():
        return _made(spec, origin, folder)
    info = msgspec.json.decode((folder / "build.json").read_bytes(), type=BuildInfo)
    image = (folder / "domain.db").read_bytes()
    lines = (folder / "tasks.jsonl").read_bytes()
    found = (_sha(msgspec.json.encode(spec)), _sha(image), _sha(lines))
    if found != (info.spec, info.database, info.tasks):
        wrong = next(
            name
            for name, a, b in zip(
                ("*.yaml", "domain.db", "tasks.jsonl"),
                found,
                (info.spec, info.database, info.tasks),
                strict=True,
            )
            if a != b
        )
        raise DomainError(
            f"{wrong} is not the one that build.json was made with.",
            file=folder,
            remedy=f"Run: toolorchestra build {folder}",
        )
    decoder = msgspec.json.Decoder(Task)
    tasks = [decoder.decode(line) for line in lines.splitlines()]
    domain = _made(spec, origin, folder, image, tasks)
    domain.dropped.update(info.dropped)
    return domain


def _made(
    spec: DomainSpec,
    origin: Mapping[str, Path],
    folder: Path,
    image: bytes | None = None,
    tasks: Sequence[Task] | None = None,
) -> Domain:
    """Return the domain that stands in `folder`; its errors name the file at fault."""
    first = folder / "domain.yaml"
    try:
        return Domain(spec, image=image, tasks=tasks, file=first)
    except DomainError as error:
        file = _home(origin, error.path, first)
        raise DomainError(error.message, file=file, path=error.path, remedy=error.remedy) from None


def load_domain(domain: str | Path) -> Domain:
    """Return a domain by name (one of `builtin_domains`) or from a folder; each is loaded once per process.

    >>> load_domain("restaurant").name
    'restaurant'

    Raises:
        UnknownNameError: There is no such domain.
        DomainError: The folder does not hold a valid domain.
    """
    if isinstance(domain, str) and domain in builtin_domains():  # whatever stands in the working directory
        return _load(BUILTIN / domain)
    if isinstance(domain, str) and re.fullmatch(r"[a-z][a-z0-9_]*", domain) and not Path(domain).is_dir():
        raise UnknownNameError("domain", domain, builtin_domains())
    return _load(Path(domain).resolve())


def build_domain(folder: Path) -> Domain:
    """Build the domain in `folder`: write ``domain.db``, ``tasks.jsonl`` and ``build.json``, and return it.

    Raises:
        DomainError: The folder does not hold a valid domain.
    """
    spec, origin = _read(folder)
    domain = _made(spec, origin, folder)
    save_tasks(folder, domain, domain.tasks(), domain.dropped)
    return domain


def save_tasks(folder: Path, domain: Domain, tasks: Sequence[Task], dropped: Mapping[str, int]) -> None:
    """Write the built domain of a folder with these tasks: all that it made, or those that filters kept.

    Args:
        folder: Folder with the YAML that the domain was made of.
        domain: The domain; its specification and database are written as they are.
        tasks: The tasks that the domain has from now on.
        dropped: How many were dropped for each reason, for ``build.json``.
    """
    import faker

    lines = b"".join(msgspec.json.encode(task) + b"\n" for task in tasks)
    info = BuildInfo(
        spec=_sha(msgspec.json.encode(domain.spec)),
        database=_sha(domain.image),
        tasks=_sha(lines),
        faker=faker.VERSION,
        dropped=dict(dropped),
    )
    (folder / "domain.db").write_bytes(domain.image)
    (folder / "tasks.jsonl").write_bytes(lines)
    (folder / "build.json").write_bytes(msgspec.json.format(msgspec.json.encode(info), indent=1) + b"\n")
    _loaded.pop(folder.resolve(), None)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_spec(folder: Path) -> DomainSpec:
    """Read and validate the YAML files of a domain's folder.

    Raises:
        DomainError: Names the file, the key path, what was expected and what was found.
    """
    return _read(folder)[0]


def _read(folder: Path) -> tuple[DomainSpec, dict[str, Path]]:
    """Return what stands in a domain's YAML files, and the file of each entry by its path."""
    first = folder / "domain.yaml"
    if not first.is_file():
        raise DomainError(
            "Expected a folder with a domain.yaml; there is none.",
            file=folder,
            remedy="Give the folder of a domain, or the name of one: " + ", ".join(builtin_domains()) + ".",
        )
    merged: dict[str, Any] = {}
    origin: dict[str, Path] = {}
    for file in [first, *sorted(path for path in folder.glob("*.yaml") if path != first)]:
        content = _read_yaml(file)
        for section, value in content.items():
            kind: Any = _MERGED.get(section)
            if kind is None:
                if file != first:
                    message = unknown_name("section beside domain.yaml", str(section), _MERGED)
                    raise DomainError(message, file=file, path=str(section))
                merged[section] = value
                continue
            if not isinstance(value, kind):
                expected = "an object" if kind is dict else "a list"
                found = type(value).__name__
                raise DomainError(f"Expected {expected}, found {found}.", file=file, path=section)
            if kind is list:
                before = merged.setdefault(section, [])
                origin |= {f"{section}[{i}]": file for i in range(len(before), len(before) + len(value))}
                before += value
                continue
            for name in value:
                entry = f"{section}.{name}"
                if entry in origin:
                    message = f"Defined in {origin[entry].name} already."
                    raise DomainError(message, file=file, path=entry, remedy="Remove one.")
                origin[entry] = file
            merged[section] = merged.get(section, {}) | value
    try:
        return convert(merged, DomainSpec), origin
    except DomainError as error:
        raise DomainError(error.message, file=_home(origin, error.path, first), path=error.path) from None


def _home(origin: Mapping[str, Path], path: str, first: Path) -> Path:
    """Return the file in which the entry that a path leads into is defined."""
    return next(
        (file for entry, file in origin.items() if path == entry or path.startswith((f"{entry}.", f"{entry}["))), first
    )


def _read_yaml(file: Path) -> dict[Any, Any]:
    try:
        content = parse_yaml(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise DomainError(f"Not valid YAML: {error}", file=file) from None
    except DomainError as error:
        raise DomainError(error.message, file=file) from None
    if not isinstance(content, dict):
        raise DomainError(f"Expected an object, found {type(content).__name__}.", file=file)
    return content


def _check_today(today: str, file: Path | None) -> None:
    try:
        datetime.date.fromisoformat(today)
    except ValueError as error:
        raise DomainError(f"{today!r} is no date: {error}.", file=file, path="today") from None


def _check_tables(tables: dict[str, TableSpec], file: Path | None) -> None:
    """Check what a table refers to."""

    def fail(path: str, message: str) -> DomainError:
        return DomainError(message, file=file, path=f"tables.{path}")

    earlier: set[str] = set()
    for name, table in tables.items():
        earlier.add(name)
        groups = {"primary_key": primary_key(table)} | {f"indexes[{i}]": c for i, c in enumerate(table.indexes)}
        for where, group in groups.items():
            for column in group:
                if column not in table.columns:
                    raise fail(f"{name}.{where}", unknown_name("column", column, table.columns))
        for column, spec in table.columns.items():
            recipe = spec.recipe.reference if spec.recipe else None
            for where, reference in ((column, spec.references), (f"{column}.recipe", recipe)):
                if reference is None:
                    continue
                target, key = reference.split(".")
                if target not in earlier:
                    raise fail(f"{name}.columns.{where}", unknown_name("earlier table", target, earlier))
                if key not in tables[target].columns:
                    raise fail(f"{name}.columns.{where}", unknown_name("column", key, tables[target].columns))


def _compile_tools(spec: DomainSpec, file: Path | None) -> dict[str, Tool]:
    """Compile the tools against the domain's empty tables."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    build.create_schema(connection, spec, file)
    prepare_connection(connection)
    today = datetime.date.fromisoformat(spec.today)
    tools: dict[str, Tool] = {}
    for name, tool in spec.tools.items():
        if tool.function is None:
            if not (tool.statements or tool.returns):
                raise DomainError(
                    "The tool does nothing.",
                    file=file,
                    path=f"tools.{name}",
                    remedy="Give it `statements`, `returns` or a `function`.",
                )
            tools[name] = compile_tool(
                name, tool, connection=connection, tables=spec.tables, today=spec.today, file=file
            )
            continue
        if tool.function not in FUNCTIONS:
            message = unknown_name("function", tool.function, FUNCTIONS)
            raise DomainError(message, file=file, path=f"tools.{name}.function")
        tools[name] = FunctionTool(
            name,
            tool.description,
            tool.parameters,
            function=tool.function,
            today=today,
            price=tool.price,
            latency=tool.latency,
        )
    connection.close()
    return tools
