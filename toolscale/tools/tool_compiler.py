"""Compiling tools: a domain's tools, checked against the database's schema before any episode.

Every statement is prepared under an authorizer of SQLite, which reports the tables it touches (hence the tool's
effect) and refuses everything that tools may not do. `toolorchestra.toolscale.tasks.session` confines them likewise.
"""

from __future__ import annotations

import datetime
import re
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from toolorchestra.toolscale.common.errors import DomainError, unknown_name
from toolorchestra.toolscale.database.build import create_schema
from toolorchestra.toolscale.database.connection import Connection
from toolorchestra.toolscale.database.format import DomainSpec, TableSpec, ToolSpec
from toolorchestra.toolscale.database.sql import Confinement, prepare_connection, primary_key
from toolorchestra.toolscale.tools.functions import FUNCTIONS, FunctionTool
from toolorchestra.toolscale.tools.sqltool import SqlTool
from toolorchestra.toolscale.tools.tool import Tool, fits

_DATE_FUNCTION = re.compile(r"\b(?:date|time|datetime|julianday|unixepoch|strftime|timediff)\s*(?=\()", re.IGNORECASE)
_MACHINE_TIME = re.compile(r"'\s*(?:now|localtime|utc|subsec|subsecond)\s*'|^\(\s*\)$", re.IGNORECASE)
_DATA_STATEMENT = re.compile(r"\s*(?:INSERT|REPLACE|UPDATE|DELETE|SELECT|WITH)\b", re.IGNORECASE)


def compile_tools(spec: DomainSpec, file: Path | None = None) -> dict[str, Tool]:
    """Return the tools of a domain by name, compiled against its empty tables.

    Raises:
        DomainError: A table cannot be created, or a tool is wrong.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=Connection)
    create_schema(connection, spec, file)
    prepare_connection(connection)
    tools: dict[str, Tool] = {}
    for name, tool in spec.tools.items():
        if tool.function is None:
            tools[name] = compile_tool(
                name, tool, connection=connection, tables=spec.tables, today=spec.today, file=file
            )
        elif tool.function in FUNCTIONS:
            tools[name] = FunctionTool(name, tool, today=datetime.date.fromisoformat(spec.today))
        else:
            message = unknown_name("function", tool.function, FUNCTIONS)
            raise DomainError(message, file=file, path=f"tools.{name}.function")
    connection.close()
    return tools


def compile_tool(
    name: str,
    spec: ToolSpec,
    *,
    connection: sqlite3.Connection,
    tables: Mapping[str, TableSpec],
    today: str,
    file: Path | None = None,
) -> SqlTool:
    """Check a tool against the schema of `connection` and return it, its effect and tables derived.

    Raises:
        DomainError: A statement does not compile, names an unknown parameter, or does what tools may not.
    """
    if not (spec.statements or spec.returns):
        remedy = "Give it `statements`, `returns` or a `function`."
        raise DomainError("The tool does nothing.", file=file, path=f"tools.{name}", remedy=remedy)
    compiler = _Compiler(name, spec, connection, tables, file)
    columns = compiler.check()
    keys = {f"{table}.{key[0]}": table for table in tables if len(key := primary_key(tables[table])) == 1}
    return SqlTool(
        name,
        spec,
        today=today,
        columns=columns,
        reads=compiler.reads,
        writes=compiler.writes,
        entities={parameter: keys[p.column] for parameter, p in spec.parameters.items() if p.column in keys},
    )


class _Compiler:
    """Checks one tool, and notes the tables that it reads and writes."""

    def __init__(
        self,
        name: str,
        spec: ToolSpec,
        connection: sqlite3.Connection,
        tables: Mapping[str, TableSpec],
        file: Path | None,
    ) -> None:
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self._name, self._spec, self._file = name, spec, file
        self._connection, self._tables = connection, tables
        self._confinement = Confinement(tables)
        self._known = {*spec.parameters, "today"}
        self._free_texts = {
            n for n, p in spec.parameters.items() if p.type in ("string", "array") and not (p.format or p.enum)
        }

    def check(self) -> tuple[str, ...]:
        """Check everything and return the columns of the result."""
        self._check_parameters()
        self._check_guards()
        self._check_statements()
        columns = self._check_returns()
        self._check_operates(columns)
        return columns

    def _fail(self, where: str, message: str, remedy: str = "") -> DomainError:
        return DomainError(message, file=self._file, path=f"tools.{self._name}.{where}", remedy=remedy)

    def _require(self, names: Iterable[str], known: Iterable[str], where: str, kind: str) -> None:
        """Raise an error about the first of `names` that is not known."""
        if unknown := set(names) - set(known):
            raise self._fail(where, unknown_name(kind, min(unknown), known))

    def _check_guards(self) -> None:
        for i, guard in enumerate(self._spec.guards):
            self._prepare(f"guards[{i}].require", f"SELECT ({guard.require})", select=True)
            placeholders = re.findall(r"\{([a-z0-9_]+)\}", guard.error)
            self._require(placeholders, self._spec.parameters, f"guards[{i}].error", "placeholder")

    def _check_statements(self) -> None:
        for i, step in enumerate(self._spec.statements):
            sql, save = (step, None) if isinstance(step, str) else (step.sql, step.save)
            self._prepare(f"statements[{i}]", sql, select=False)
            if save is not None:
                self._known.add(save)

    def _check_returns(self) -> tuple[str, ...]:
        returns = self._spec.returns
        columns: tuple[str, ...] = ()
        if returns:
            columns = self._prepare("returns.sql", returns.sql, select=True)
            self._require(returns.json, columns, "returns.json", "result column")
            if repeated := [column for column in columns if re.search(r":\d+$", column)]:  # SQLite renames them so
                message = f"The result column {repeated[0].split(':')[0]!r} stands twice."
                raise self._fail("returns.sql", message, "Name one with AS.")
        if self._spec.statements and not self.writes:
            raise self._fail("statements", "No statement writes.", "Use `returns` for reading.")
        if self.writes and returns and returns.empty:
            raise self._fail("returns.empty", "A tool that writes cannot fail after it wrote.", "Use a guard.")
        return columns

    def _prepare(self, where: str, sql: str, *, select: bool) -> tuple[str, ...]:
        """Compile a statement, note the tables it touches, and return the names of its columns."""
        without_strings = re.sub(r"'(?:[^']|'')*'", "''", sql)
        self._require(re.findall(r"[:@$]([A-Za-z_]\w*)", without_strings), self._known, where, "SQL parameter")
        if reason := _reads_clock(sql, self._free_texts):
            raise self._fail(where, reason, "Use :today, or give the parameter a `format`.")
        if select and not re.match(r"\s*(SELECT|WITH)\b", sql, re.IGNORECASE):
            raise self._fail(where, f"Expected a SELECT, found {sql.strip()[:40]!r}.")
        names = self._columns(where, sql, select=select)
        if not (select or _DATA_STATEMENT.match(sql)):
            raise self._fail(where, f"Expected INSERT, UPDATE, DELETE or SELECT, found {sql.strip()[:40]!r}.")
        self.reads.update(self._confinement.read)
        self.writes.update(self._confinement.written)
        if select and self._confinement.written:
            raise self._fail(where, "Expected a SELECT, found a statement that writes.", "Move it to `statements`.")
        return names

    def _columns(self, where: str, sql: str, *, select: bool) -> tuple[str, ...]:
        # compiled, never run: a statement may be without end, and NULL arguments may break constraints
        probe = f"SELECT * FROM ({sql.strip().rstrip(';')}) LIMIT 0" if select else f"EXPLAIN {sql}"
        self._confinement.clear()
        self._connection.set_authorizer(self._confinement)
        try:
            cursor = self._connection.execute(probe, dict.fromkeys(self._known))
            names = tuple(column[0] for column in cursor.description or ())
            cursor.close()
        except (sqlite3.Error, sqlite3.Warning) as error:
            refusal = self._confinement.refusal
            reason = f"The SQL {refusal}" if refusal else f"SQL error: {error}"
            raise self._fail(where, f"{reason}. In: {' '.join(sql.split())[:200]}") from None
        finally:
            self._connection.set_authorizer(None)
        return names

    def _check_parameters(self) -> None:
        tables, fail = self._tables, self._fail
        for name, parameter in self._spec.parameters.items():
            where = f"parameters.{name}"
            if name == "today":
                raise fail(where, "`today` is the domain's date.", "Choose another name.")
            if parameter.column:
                table, column = parameter.column.split(".")
                self._require([table], tables, f"{where}.column", "table")
                self._require([column], tables[table].columns, f"{where}.column", f"column of {table}")
            if parameter.enum and parameter.type not in ("string", "integer"):
                raise fail(f"{where}.enum", f"Only strings and integers have an enum; the type is {parameter.type}.")
            if not parameter.required and not fits(parameter.default, parameter):
                message = f"Expected a value that the parameter takes, found {parameter.default!r}."
                raise fail(f"{where}.default", message)
            if parameter.items and parameter.type != "array":
                raise fail(f"{where}.items", f"Only arrays have items; the type is {parameter.type}.")
            if bool(parameter.fields) != (parameter.items == "object"):
                raise fail(f"{where}.fields", "An array of objects has fields, and nothing else has.")
            if parameter.required and parameter.default is not None:
                raise fail(f"{where}.default", "A required parameter has no default.", "Set `required: false`.")

    def _check_operates(self, columns: tuple[str, ...]) -> None:
        tables, fail, spec = self._tables, self._fail, self._spec
        for table, source in spec.operates.items():
            where = f"operates.{table}"
            self._require([table], tables, where, "table")
            key = primary_key(tables[table])
            parts = source if isinstance(source, list) else [source]
            if len(parts) != len(key):
                raise fail(where, f"The key of {table} is ({', '.join(key)}); found {len(parts)} part(s).")
            for part in parts:
                if part[:1] == ":":
                    self._require([part[1:]], spec.parameters, where, "parameter")
                elif part[:1] == ".":
                    if part[1:].split(".")[0] not in columns and part[1:2] != "*":
                        raise fail(where, unknown_name("result column", part[1:], columns))
                else:
                    raise fail(where, f"Expected ':parameter' or '.column', found {part!r}.")


def _reads_clock(sql: str, free_texts: set[str]) -> str | None:
    """Return why a date function of `sql` may read the machine's clock or time zone, or None.

    SQLite does so for ``'now'`` and a few modifiers; a model could pass them in a parameter of free text.
    """
    for found in _DATE_FUNCTION.finditer(sql):
        arguments = _bracketed(sql[found.end() :])
        if _MACHINE_TIME.search(arguments) or (found[0].lower() == "strftime" and "," not in arguments):
            return f"{found[0]}{arguments} depends on the machine's clock or time zone."
        if free := {name for name in re.findall(r"[:@$](\w+)", arguments) if name in free_texts}:
            return f"{found[0]}{arguments} reads the machine's clock when :{min(free)} is 'now'."
    return None


def _bracketed(text: str) -> str:
    """Return the start of `text` up to the bracket that closes its first one."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return text[: position + 1]
    return text
