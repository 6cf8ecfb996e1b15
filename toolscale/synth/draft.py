"""The draft of a domain: its parts so far, what a model is shown of them, and its files.

The files are the YAML that a person would write. Each begins with a line that holds a hash of the rest, by which a
file that a person has changed since is known, and left alone.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.writing import write_whole
from toolorchestra.toolscale.common.yaml_reader import dump_yaml
from toolorchestra.toolscale.database.build import build_database
from toolorchestra.toolscale.database.connection import Connection
from toolorchestra.toolscale.database.format import ConsistencySpec, DomainSpec, IntentSpec, TableSpec, ToolSpec
from toolorchestra.toolscale.database.sql import primary_key, quote, read_only
from toolorchestra.toolscale.synth.derived.templates import prompt

_FILES: dict[str, tuple[str, ...]] = {
    "domain.yaml": ("name", "title", "description", "today", "seed", "tables", "consistency"),
    "tools.yaml": ("tools",),
    "intents.yaml": ("intents",),
}
_MARK = "# Written by `toolorchestra synth`; edit it freely. sha256 "
_MAX_CELL = 80


@dataclass
class DomainDraft:
    """The parts of a domain that are settled."""

    title: str
    today: str
    seed: int = 0
    subjects: list[str] = field(default_factory=list)
    description: str = ""
    tables: dict[str, TableSpec] = field(default_factory=dict)
    consistency: list[ConsistencySpec] = field(default_factory=list)
    tools: dict[str, ToolSpec] = field(default_factory=dict)
    intents: dict[str, IntentSpec] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The domain's name: its title in snake_case."""
        words = re.findall(r"[a-z0-9]+", self.title.lower())
        return "_".join(words if words and words[0][0].isalpha() else ["domain", *words])[:64].rstrip("_")

    def spec(self, **parts: Any) -> DomainSpec:
        """Return the domain as it stands, with some `parts` in place of its own."""
        own = {section: getattr(self, section) for sections in _FILES.values() for section in sections}
        return DomainSpec(**(own | parts))

    @property
    def rules(self) -> str:
        """What a model is shown about the place."""
        return f"Today is {self.today}. {self.description.strip()}"

    def prompt(self, name: str, /, **values: Any) -> str:
        """Return a prompt of ``prompts.yaml`` about the domain as it stands."""
        values |= {"subjects": "; ".join(self.subjects), "functions": functions_text(self.tools)}
        return prompt(name, draft=self, tables=tables_text(self.tables), **values)

    def write(self, folder: Path) -> None:
        """Write the files of what is settled; a file is replaced as a whole or not at all."""
        content: dict[str, Any] = msgspec.to_builtins(self.spec())
        for file, sections in _FILES.items():
            part = {section: content[section] for section in sections if content.get(section)}
            if part:
                write_whole(folder / file, marked(dump_yaml(part)))


def marked(body: str) -> str:
    """Return the text of a file with the line that holds its hash."""
    return f"{_MARK}{_hash(body)}\n{body}"


def is_untouched(file: Path) -> bool:
    """Whether a file is as it was written here: no person wrote or changed it."""
    body = file.read_text(encoding="utf-8", errors="replace").partition("\n")[2]
    return file.read_bytes() == marked(body).encode()


def check_untouched(folder: Path) -> None:
    """Refuse a folder whose YAML a person wrote or changed.

    Raises:
        OptionError: Names the file.
    """
    for file in sorted(folder.glob("*.yaml")):
        if not is_untouched(file):
            raise OptionError(
                f"{file} was written or changed by hand, and would be overwritten. To build it as it is, leave out "
                "--llm; to have the domain written anew, remove it or choose another folder."
            )


def _hash(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:32]


# ------------------------------------------------------------------------------------------- what a model is shown


def tables_text(tables: Mapping[str, TableSpec]) -> str:
    """Return the tables as a model is shown them: a line for each column."""
    lines = []
    for name, table in tables.items():
        key = ", ".join(primary_key(table))
        generated = ", made by tools" if table.generated_key else ""
        lines.append(f"{name} (key: {key}{generated})" + (f" – {table.description}" if table.description else ""))
        for column, spec in table.columns.items():
            facts: list[str] = [spec.type]
            facts += ["null allowed"] if spec.nullable else []
            facts += ["unique"] if spec.unique else []
            facts += [f"refers to {spec.references}"] if spec.references else []
            facts += [spec.description] if spec.description else []
            lines.append(f"  {column}: {', '.join(facts)}")
        lines += [f"  check: {check}" for check in table.checks]
    return "\n".join(lines)


def functions_text(tools: Mapping[str, ToolSpec]) -> str:
    """Return the tools as a model is shown them: signature, description and what each returns."""
    lines = []
    for name, tool in tools.items():
        parameters = []
        for parameter, spec in tool.parameters.items():
            kind = spec.type + (f" {spec.format}" if spec.format else "")
            kind += f" of {spec.enum}" if spec.enum else ""
            parameters.append(f"{parameter}: {kind}" + ("" if spec.required else f" = {spec.default!r}"))
        lines.append(f"{name}({', '.join(parameters)})")
        lines.append(f"  {' '.join(tool.description.split())}")
        if tool.returns:
            lines.append(f"  returns {tool.returns.shape}: {' '.join(tool.returns.sql.split())}")
        lines += [f"  refuses unless {' '.join(guard.require.split())}" for guard in tool.guards]
    return "\n".join(lines)


def records_text(spec: DomainSpec, image: bytes, names: Iterable[str], limit: int) -> str:
    """Return some records of tables, evenly over each, as YAML."""
    parts = []
    with _opened(image) as connection:
        for name in names:
            key = ", ".join(map(quote, primary_key(spec.tables[name])))
            cursor = connection.execute(f"SELECT * FROM {quote(name)} ORDER BY {key}")
            columns, rows = [column[0] for column in cursor.description], cursor.fetchall()
            parts.append(f"{name}: # {len(rows)} rows\n" + rows_text(columns, rows, limit))
    return "".join(parts)


def rows_text(columns: Sequence[str], rows: Sequence[Sequence[Any]], limit: int) -> str:
    """Return at most `limit` of the rows, evenly, one a line; long cells are cut."""
    lines = ""
    shown = min(limit, len(rows))
    for row in (rows[i * len(rows) // shown] for i in range(shown)):
        cells = [f"{cell[:_MAX_CELL]}…" if isinstance(cell, str) and len(cell) > _MAX_CELL else cell for cell in row]
        lines += f"- {msgspec.json.encode(dict(zip(columns, cells, strict=True))).decode()}\n"
    return lines


@contextmanager
def _opened(image: bytes) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", factory=Connection)
    connection.deserialize(image)
    try:
        yield connection
    finally:
        connection.close()


# --------------------------------------------------------------------------------------------- order of the tables


def fill_order(spec: DomainSpec) -> list[list[str]]:
    """Return the tables in groups: those of a group can be filled side by side, after all groups before.

    A table comes after those that it refers to, and the last table of a rule after the rule's others, so that the
    rule can be checked when it is filled.
    """
    order = list(spec.tables)
    needs = {
        name: {c.references.split(".")[0] for c in table.columns.values() if c.references} - {name}
        for name, table in spec.tables.items()
    }
    for tables in rule_tables(spec):
        if tables:
            last = max(tables, key=order.index)
            needs[last] |= tables - {last}
    sorter = TopologicalSorter(needs)
    sorter.prepare()
    groups: list[list[str]] = []
    while sorter.is_active():
        groups.append(sorted(sorter.get_ready(), key=order.index))
        sorter.done(*groups[-1])
    return groups


def rule_tables(spec: DomainSpec) -> list[set[str]]:
    """Return the tables that each consistency rule reads."""
    seen: set[str] = set()

    def authorize(action: int, first: str | None, *rest: Any) -> int:
        if action == sqlite3.SQLITE_READ and first in spec.tables:
            seen.add(first)
        return read_only(action, first, *rest)

    found = []
    with _opened(build_database(spec)) as connection:
        connection.set_authorizer(authorize)
        for rule in spec.consistency:
            seen.clear()
            connection.execute(f"EXPLAIN {rule.sql}", {"today": spec.today}).close()
            found.append(set(seen))
    return found
