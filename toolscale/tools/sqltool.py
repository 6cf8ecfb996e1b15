"""Tools made of guarded, parameterised SQL.

`toolorchestra.toolscale.tools.tool_compiler` makes them of what a domain's YAML says. Values of a model reach SQL as
bound parameters only.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Set as AbstractSet
from functools import partial
from typing import Any

import msgspec

from toolorchestra.toolscale.common.errors import TaskError
from toolorchestra.toolscale.database.format import ToolSpec
from toolorchestra.toolscale.tools.expressions import lookup
from toolorchestra.toolscale.tools.tool import Entry, Status, Tool, ToolContext, ToolResult

DONE = "done"
"""What a tool without `returns` returns."""


class SqlTool(Tool):
    """A tool made of SQL; `toolorchestra.toolscale.tools.tool_compiler.compile_tool` makes one.

    Attributes:
        spec: What the domain's YAML says of it.
        reads: Tables it reads and does not write.
        writes: Tables it writes.
        statements: The SQL that a successful call runs, in order (the benchmark's floor runs it bare).
    """

    def __init__(
        self,
        name: str,
        spec: ToolSpec,
        *,
        today: str,
        columns: tuple[str, ...],
        reads: AbstractSet[str],
        writes: AbstractSet[str],
        entities: Mapping[str, str],
    ) -> None:
        super().__init__(name, spec.description, spec.parameters, price=spec.price, latency=spec.latency)
        self.spec = spec
        self.reads = frozenset(reads - writes)
        self.writes = frozenset(writes)
        self.effect = "write" if writes else "read" if reads else "pure"
        self.reads_rows = self.effect == "read"
        self._today = today
        self._entities = tuple(entities.items())
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
        value: Any = DONE
        try:
            if self._guard is not None:
                (broken,) = execute(self._guard, parameters).fetchone()
                if broken is not None:
                    refusal = _message(self._errors[broken], arguments)
                    return ToolResult(Status.EXEC_ERR, None, refusal, self._named(arguments))
            for sql, save in self._steps:
                cursor = execute(sql, parameters)
                if save is not None:
                    row = cursor.fetchone()
                    parameters[save] = row[0] if row else None
            if self._query is not None:
                value = self._shaped(execute(self._query, parameters))
                if value is None and self._empty:
                    return ToolResult.failed(_message(self._empty, arguments))
        except sqlite3.Error as error:
            return self._failure(error)
        return ToolResult(Status.OK, value, None, self._operated(arguments, value) if self._operates else ())

    def _row(self, cursor: sqlite3.Cursor) -> dict[str, Any] | None:
        row = cursor.fetchone()
        if row is None:
            return None
        found = dict(zip(self._columns, row))  # noqa: B905 - strict takes longer, and the query has these columns
        if self._json:
            self._decode(found)
        return found

    def _rows(self, cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
        columns = self._columns
        rows = [dict(zip(columns, row)) for row in cursor]  # noqa: B905
        if self._json:
            for found in rows:
                self._decode(found)
        return rows

    def _decode(self, found: dict[str, Any]) -> None:
        for column in self._json:
            if found[column] is not None:
                found[column] = msgspec.json.decode(found[column])

    def _operated(self, arguments: dict[str, Any], value: Any) -> tuple[Entry, ...]:
        entries: list[Entry] = []
        for table, source in self._operates:
            key = source(arguments, value)
            if isinstance(key, list):
                entries += [(table, one) for one in key if one is not None]
            elif key is not None:
                entries.append((table, key))
        return tuple(entries)

    def _named(self, arguments: dict[str, Any]) -> tuple[Entry, ...]:
        """Return the entries that the arguments of a call name."""
        named = ((table, arguments[name]) for name, table in self._entities)
        return tuple((table, one) for table, key in named for one in (key if isinstance(key, list) else [key]) if one)

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
        return partial(_composite, [_key_source(part) for part in source])
    return partial(_argument if source[0] == ":" else _found, source[1:])


def _composite(parts: list[Callable[[dict[str, Any], Any], Any]], arguments: dict[str, Any], value: Any) -> Any:
    return tuple(part(arguments, value) for part in parts)


def _argument(name: str, arguments: dict[str, Any], value: Any) -> Any:
    return arguments[name]


def _found(path: str, arguments: dict[str, Any], value: Any) -> Any:
    if isinstance(value, dict) and path in value:
        return value[path]
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
