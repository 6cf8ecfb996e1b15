"""Tools made of guarded, parameterised SQL, and the confinement under which they run.

`compile_tool` checks a tool against the database schema before any episode: every statement is prepared under
SQLite's authorizer, which tells the tables it touches (hence the tool's effect) and refuses whatever a tool
has no business with. The same authorizer confines the tool at run time (`Session` installs it). Values of a
model reach SQL as bound parameters only.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from toolorchestra.toolscale.errors import DomainError, TaskError, unknown_name
from toolorchestra.toolscale.expressions import lookup
from toolorchestra.toolscale.format import ParameterSpec, TableSpec, ToolSpec
from toolorchestra.toolscale.tool import Entry, Tool, ToolContext, ToolResult, fits

if TYPE_CHECKING:
    pass

_FORBIDDEN_FUNCTIONS = frozenset(
    {
        "random", "randomblob", "load_extension", "readfile", "writefile", "edit", "fts3_tokenizer",
        "current_date", "current_time", "current_timestamp", "changes", "total_changes", "last_insert_rowid",
        "zeroblob", "sqlite_compileoption_get", "sqlite_version", "sqlite_source_id", "sqlite_log",
    }
)  # fmt: skip
_TABLE_FUNCTIONS = frozenset({"json_each", "json_tree"})
_DATE_FUNCTION = re.compile(r"\b(?:date|time|datetime|julianday|unixepoch|strftime|timediff)\s*(?=\()", re.IGNORECASE)
_MACHINE_TIME = re.compile(r"'\s*(?:now|localtime|utc|subsec|subsecond)\s*'|^\(\s*\)$", re.IGNORECASE)
_DATA_STATEMENT = re.compile(r"\s*(?:INSERT|REPLACE|UPDATE|DELETE|SELECT|WITH)\b", re.IGNORECASE)
_VERBS = {
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_DELETE: "DELETE",
    sqlite3.SQLITE_READ: "READ",
}

DONE = "done"
"""What a tool without `returns` returns."""


def primary_key(table: TableSpec) -> tuple[str, ...]:
    """Return the columns of a table's primary key, in order."""
    return (table.primary_key,) if isinstance(table.primary_key, str) else tuple(table.primary_key)


class Confinement:
    """An authorizer for SQLite: tools may read and write the rows of the domain's tables, and nothing else.

    Attributes:
        read: Tables read since the last `clear`.
        written: Tables written since the last `clear`.
        refusal: Why something was refused, or None.
    """

    def __init__(self, tables: Mapping[str, TableSpec]) -> None:
        self._keys = {name: frozenset(primary_key(table)) for name, table in tables.items()}
        self.clear()

    def clear(self) -> None:
        """Forget what was seen."""
        self.read: set[str] = set()
        self.written: set[str] = set()
        self.refusal: str | None = None

    def __call__(
        self, action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
    ) -> int:
        """Allow or deny one action of a statement under preparation (the signature is SQLite's)."""
        # `trigger` names a trigger, but a CTE as well: what happens inside is judged like everything else
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            name = (second or "").lower()
            return self._refuse(f"uses the function {name}()") if name in _FORBIDDEN_FUNCTIONS else 0
        if action in _VERBS:
            if action == sqlite3.SQLITE_READ and (first in _TABLE_FUNCTIONS or not first):
                return sqlite3.SQLITE_OK
            if first not in self._keys:
                return self._refuse(f"reaches for {first!r} ({_VERBS[action]})")
            if action == sqlite3.SQLITE_UPDATE and second in self._keys[first]:
                return self._refuse(f"changes the primary key {first}.{second}")
            (self.read if action == sqlite3.SQLITE_READ else self.written).add(first)
            return sqlite3.SQLITE_OK
        return self._refuse(f"does something that tools may not (SQLite action {action} on {first!r})")

    def _refuse(self, what: str) -> int:
        self.refusal = self.refusal or what
        return sqlite3.SQLITE_DENY


def read_only(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    """Allow reading rows and nothing else: the authorizer for the SQL that a domain holds beside its tools."""
    if action == sqlite3.SQLITE_READ and first is not None and first.startswith("sqlite_"):
        return sqlite3.SQLITE_DENY  # SQLite's own tables
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


SQL_ERRORS = (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeEncodeError)
"""What SQL of a domain, or a value for it, may raise: several statements at once are a warning in Python 3.11."""

_MAX_ROWS = 200_000
_MAX_CHARACTERS = 50_000_000
_MAX_VALUE = 1_000_000
_MAX_BOUNDED = 100_000
_TICK = 2_000  # virtual-machine operations of SQLite between two looks at the bound
_MAX_TICKS = 100_000
_MAX_SECONDS = 20.0


@contextmanager
def bounded(connection: sqlite3.Connection) -> Iterator[None]:
    """Stop SQL that a domain holds beside its tools where it works without end.

    The bound is SQLite's operations, which are the same everywhere; the clock is behind it for the few
    operations that take long (sorting what fills the disk).
    """
    ticks = 0
    end = time.monotonic() + _MAX_SECONDS

    def tick() -> bool:
        nonlocal ticks
        ticks += 1
        return ticks > _MAX_TICKS or time.monotonic() > end

    connection.set_progress_handler(tick, _TICK)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_BOUNDED)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)


def fetch(cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
    """Return the rows of a query that a domain holds, if they are no more than a domain can need.

    Raises:
        sqlite3.DataError: They are.
    """
    rows: list[tuple[Any, ...]] = []
    characters = 0
    for row in cursor:
        rows.append(row)
        characters += sum(len(cell) for cell in row if isinstance(cell, (str, bytes)))
        if len(rows) > _MAX_ROWS or characters > _MAX_CHARACTERS:
            raise sqlite3.DataError(f"more than {_MAX_ROWS:,} rows or {_MAX_CHARACTERS:,} characters")
    return rows


def sql_error(error: Exception) -> str:
    """Return what is wrong with SQL of a domain, in a sentence."""
    if str(error) == "interrupted":
        return "The SQL was stopped: it took too long."
    if "authorized" in str(error) or "prohibited" in str(error):
        return f"SQL error: {error}. Here it may only read tables, and nothing that depends on luck or the machine."
    return f"SQL error: {error}."


def prepare_connection(connection: sqlite3.Connection) -> None:
    """Make a connection ready for the SQL of a domain.

    Values are of bounded length, and SQLite sets up the table-valued functions before a confinement forbids it
    what that takes.
    """
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
    for function in sorted(_TABLE_FUNCTIONS):
        connection.execute(f"SELECT * FROM {function}('[]')").close()


class SqlTool(Tool):
    """A tool made of SQL; `compile_tool` makes one.

    Attributes:
        reads: Tables it reads.
        writes: Tables it writes.
        statements: The SQL that a successful call runs, in order (the benchmark's floor runs it bare).
    """

    def __init__(self, name: str, spec: ToolSpec, *, today: str, columns: tuple[str, ...]) -> None:
        super().__init__(name, spec.description, spec.parameters, price=spec.price, latency=spec.latency)
        self.reads: frozenset[str] = frozenset()
        self.writes: frozenset[str] = frozenset()
        self._today = today
        self._arrays = tuple(n for n, p in spec.parameters.items() if p.type == "array")
        self._guard = _combined(guard.require for guard in spec.guards) if spec.guards else None
        self._errors = tuple(guard.error for guard in spec.guards)
        self._steps = tuple(
            (step, None) if isinstance(step, str) else (step.sql, step.save) for step in spec.statements
        )
        self._columns = columns
        self._json = tuple(spec.returns.json) if spec.returns else ()
        self._query = spec.returns.sql if spec.returns else None
        self._empty = spec.returns.empty if spec.returns else None
        shapes: dict[str, Callable[[sqlite3.Cursor], Any]] = {
            "row": self._row,
            "rows": self._rows,
            "value": _first,
            "list": _column,
        }
        self._shaped = shapes[spec.returns.shape if spec.returns else "value"]
        self._operates = tuple((table, _key_source(source)) for table, source in spec.operates.items())

    @property
    def statements(self) -> tuple[str, ...]:
        """The SQL that a successful call runs, in order."""
        return tuple(sql for sql in (self._guard, *(sql for sql, _ in self._steps), self._query) if sql)

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the SQL parameters of a call: arrays as JSON text, and the domain's date as ``today``."""
        parameters = {**arguments, "today": self._today}
        for name in self._arrays:
            if parameters[name] is not None:
                parameters[name] = msgspec.json.encode(parameters[name]).decode()
        return parameters

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Check the guards, run the statements and return the result."""
        execute = context.session.execute
        parameters = self.bind(arguments)
        try:
            if self._guard is not None:
                (broken,) = execute(self._guard, parameters).fetchone()
                if broken is not None:
                    return ToolResult.failed(_message(self._errors[broken], arguments))
            for sql, save in self._steps:
                cursor = execute(sql, parameters)
                if save is not None:
                    row = cursor.fetchone()
                    parameters[save] = row[0] if row else None
            value = self._shaped(execute(self._query, parameters)) if self._query else DONE
        except sqlite3.Error as error:
            return self._failure(error)
        if value is None and self._empty:
            return ToolResult.failed(_message(self._empty, arguments))
        return ToolResult.ok(value, self._operated(arguments, value) if self._operates else ())

    def _row(self, cursor: sqlite3.Cursor) -> dict[str, Any] | None:
        row = cursor.fetchone()
        return None if row is None else self._object(row)

    def _rows(self, cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
        return [self._object(row) for row in cursor]

    def _object(self, row: tuple[Any, ...]) -> dict[str, Any]:
        found = dict(zip(self._columns, row, strict=True))
        for column in self._json:
            if found[column] is not None:
                found[column] = msgspec.json.decode(found[column])
        return found

    def _operated(self, arguments: dict[str, Any], value: Any) -> tuple[Entry, ...]:
        entries: list[Entry] = []
        for table, source in self._operates:
            key = source(arguments, value)
            if isinstance(key, list):
                entries.extend((table, one) for one in key if one is not None)
            elif key is not None:
                entries.append((table, key))
        return tuple(entries)

    def _failure(self, error: sqlite3.Error) -> ToolResult:
        if str(error) == "interrupted":
            return ToolResult.timed_out(f"{self.name} was stopped: it took too long. Ask for less at once.")
        return ToolResult.failed(f"{self.name} cannot do this: {error}. Check the arguments.")


def _first(cursor: sqlite3.Cursor) -> Any:
    row = cursor.fetchone()
    return None if row is None else row[0]


def _column(cursor: sqlite3.Cursor) -> list[Any]:
    return [row[0] for row in cursor]


def _key_source(source: str | list[str]) -> Callable[[dict[str, Any], Any], Any]:
    """Return the function of a call's arguments and value that gives the key, or the list of keys, operated on."""
    if isinstance(source, list):  # a composite key, part by part
        parts = [_key_source(part) for part in source]
        return lambda arguments, value: tuple(part(arguments, value) for part in parts)
    name = source[1:]
    if source[0] == ":":
        return lambda arguments, value: arguments[name]
    if "." not in name and name != "*":
        return lambda arguments, value: value.get(name) if isinstance(value, dict) else _found(name, value)
    return lambda arguments, value: _found(name, value)


def _found(path: str, value: Any) -> Any:
    try:
        return lookup(path, value)
    except TaskError:
        return None


def _combined(conditions: Iterable[str]) -> str:
    """Return one SELECT that gives the number of the first broken condition, or NULL."""
    cases = " ".join(f"WHEN ({sql}) IS NOT TRUE THEN {i}" for i, sql in enumerate(conditions))
    return f"SELECT CASE {cases} END"


def _message(template: str, arguments: Mapping[str, Any]) -> str:
    """Fill ``{parameter}`` placeholders; the values are shown short, blank ones in quotes."""

    def shown(found: re.Match[str]) -> str:
        text = str(arguments.get(found[1], found[0]))[:100]
        return text if text.strip() else repr(text)

    return re.sub(r"\{([a-z0-9_]+)\}", shown, template)


def compile_tool(
    name: str,
    spec: ToolSpec,
    *,
    connection: sqlite3.Connection,
    tables: Mapping[str, TableSpec],
    today: str,
    file: Any = None,
) -> SqlTool:
    """Check a tool against the schema of `connection` and return it, its effect and tables derived.

    Raises:
        DomainError: A statement does not compile, names an unknown parameter, or does what tools may not.
    """
    path = f"tools.{name}"
    confinement = Confinement(tables)

    def fail(where: str, message: str, remedy: str = "") -> DomainError:
        return DomainError(message, file=file, path=f"{path}.{where}", remedy=remedy)

    _check_parameters(spec.parameters, tables, fail)
    known = {*spec.parameters, "today"}
    free_texts = {n for n, p in spec.parameters.items() if p.type in ("string", "array") and not (p.format or p.enum)}
    reads: set[str] = set()
    writes: set[str] = set()
    columns: tuple[str, ...] = ()

    def prepare(where: str, sql: str, *, select: bool) -> tuple[str, ...]:
        if unknown := set(re.findall(r"[:@$]([A-Za-z_]\w*)", _without_strings(sql))) - known:
            raise fail(where, unknown_name("SQL parameter", min(unknown), known))
        if reason := _reads_clock(sql, free_texts):
            raise fail(where, reason, "Use :today, or give the parameter a `format`.")
        if select and not re.match(r"\s*(SELECT|WITH)\b", sql, re.IGNORECASE):
            raise fail(where, f"Expected a SELECT, found {sql.strip()[:40]!r}.")
        confinement.clear()
        connection.set_authorizer(confinement)
        try:
            # compiled, never run: a statement may be without end, and NULL arguments may break constraints
            probe = f"SELECT * FROM ({sql.strip().rstrip(';')}) LIMIT 0" if select else f"EXPLAIN {sql}"
            cursor = connection.execute(probe, dict.fromkeys(known))
            names = tuple(column[0] for column in cursor.description or ())
            cursor.close()
        except (sqlite3.Error, sqlite3.Warning) as error:
            reason = f"The SQL {confinement.refusal}" if confinement.refusal else f"SQL error: {error}"
            raise fail(where, f"{reason}. In: {' '.join(sql.split())[:200]}") from None
        finally:
            connection.set_authorizer(None)
        if not (select or _DATA_STATEMENT.match(sql)):
            raise fail(where, f"Expected INSERT, UPDATE, DELETE or SELECT, found {sql.strip()[:40]!r}.")
        reads.update(confinement.read)
        writes.update(confinement.written)
        if select and confinement.written:
            raise fail(where, "Expected a SELECT, found a statement that writes.", "Move it to `statements`.")
        return names

    for i, guard in enumerate(spec.guards):
        prepare(f"guards[{i}].require", f"SELECT ({guard.require})", select=True)
        if unknown := set(re.findall(r"\{([a-z0-9_]+)\}", guard.error)) - set(spec.parameters):
            raise fail(f"guards[{i}].error", unknown_name("placeholder", min(unknown), spec.parameters))
    for i, step in enumerate(spec.statements):
        sql, save = (step, None) if isinstance(step, str) else (step.sql, step.save)
        prepare(f"statements[{i}]", sql, select=False)
        if save is not None:
            known.add(save)
    if spec.returns:
        columns = prepare("returns.sql", spec.returns.sql, select=True)
        if missing := set(spec.returns.json) - set(columns):
            raise fail("returns.json", unknown_name("result column", min(missing), columns))
        if repeated := [column for column in columns if re.search(r":\d+$", column)]:  # SQLite renames them so
            message = f"The result column {repeated[0].split(':')[0]!r} stands twice."
            raise fail("returns.sql", message, "Name one with AS.")
    if spec.statements and not writes:
        raise fail("statements", "No statement writes.", "Use `returns` for reading.")
    if writes and spec.returns and spec.returns.empty:
        raise fail("returns.empty", "A tool that writes cannot fail after it wrote.", "Use a guard.")
    _check_operates(spec, tables, columns, fail)
    tool = SqlTool(name, spec, today=today, columns=columns)
    tool.reads, tool.writes = frozenset(reads - writes), frozenset(writes)
    tool.effect = "write" if writes else "read" if reads else "pure"
    return tool


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


def _without_strings(sql: str) -> str:
    return re.sub(r"'(?:[^']|'')*'", "''", sql)


def _check_parameters(parameters: Mapping[str, ParameterSpec], tables: Mapping[str, TableSpec], fail: Any) -> None:
    for name, parameter in parameters.items():
        where = f"parameters.{name}"
        if name == "today":
            raise fail(where, "`today` is the domain's date.", "Choose another name.")
        if parameter.column:
            table, column = parameter.column.split(".")
            if table not in tables:
                raise fail(f"{where}.column", unknown_name("table", table, tables))
            if column not in tables[table].columns:
                raise fail(f"{where}.column", unknown_name(f"column of {table}", column, tables[table].columns))
        if parameter.enum and parameter.type not in ("string", "integer"):
            raise fail(f"{where}.enum", f"Only strings and integers have an enum; the type is {parameter.type}.")
        if not parameter.required and not fits(parameter.default, parameter):
            raise fail(f"{where}.default", f"Expected a value that the parameter takes, found {parameter.default!r}.")
        if parameter.items and parameter.type != "array":
            raise fail(f"{where}.items", f"Only arrays have items; the type is {parameter.type}.")
        if parameter.required and parameter.default is not None:
            raise fail(f"{where}.default", "A required parameter has no default.", "Set `required: false`.")


def _check_operates(spec: ToolSpec, tables: Mapping[str, TableSpec], columns: tuple[str, ...], fail: Any) -> None:
    for table, source in spec.operates.items():
        where = f"operates.{table}"
        if table not in tables:
            raise fail(where, unknown_name("table", table, tables))
        key = primary_key(tables[table])
        parts = source if isinstance(source, list) else [source]
        if len(parts) != len(key):
            raise fail(where, f"The key of {table} is ({', '.join(key)}); found {len(parts)} part(s).")
        for part in parts:
            if part[:1] == ":" and part[1:] not in spec.parameters:
                raise fail(where, unknown_name("parameter", part[1:], spec.parameters))
            if part[:1] == "." and part[1:].split(".")[0] not in columns and part[1:2] != "*":
                raise fail(where, unknown_name("result column", part[1:], columns))
            if part[:1] not in (":", "."):
                raise fail(where, f"Expected ':parameter' or '.column', found {part!r}.")
