"""What all derived tools share: parameters, conditions, guards and prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolorchestra.toolscale.format import GuardSpec, ParameterSpec, ToolSpec
from toolorchestra.toolscale.synth.derived_tools import Toolbox
from toolorchestra.toolscale.synth.naming import in_words, snake_case
from toolorchestra.toolscale.synth.tables import Column, Table, bare

READ: dict[str, Any] = {"price": 0.0005, "latency": 0.1}
SEARCH: dict[str, Any] = {"price": 0.001, "latency": 0.15}
WRITE: dict[str, Any] = {"price": 0.002, "latency": 0.25}


class ToolMaker:
    """Derives tools for one table after another; subclasses are the families of tools.

    Override `tools`.
    """

    def __init__(self, tables: Mapping[str, Table], box: Toolbox) -> None:
        self.tables = tables
        self.box = box

    def tools(self, table: Table) -> None:
        """Put the tools of a table that has rows into the box."""
        raise NotImplementedError

    def _add(self, name: str, spec: ToolSpec) -> str:
        name = snake_case(name, self.box.tools)
        self.box.tools[name] = spec
        return name

    def parameter(
        self, table: Table, column: Column, description: str = "", *, own: bool = False, **changes: Any
    ) -> ParameterSpec:
        """Return the parameter that takes a value of a column."""
        words = description or self._words(table, column)
        options: dict[str, Any] = {"description": words}
        if column.references and not own:
            options["column"] = ".".join(column.references)
        elif column.kind not in ("note", "json", "date", "datetime"):
            options["column"] = f"{table.name}.{column.name}"
        if column.kind == "flag":
            return ParameterSpec(type="boolean", description=words, **changes)
        if column.type != "TEXT":
            options["type"] = "integer" if column.type == "INTEGER" else "number"
            values = [value for value in table.data[column.name] if value is not None]
            if column.kind in ("money", "number") and values and min(values) >= 0:
                options["minimum"] = 0
        elif column.kind in ("date", "datetime"):
            options |= {"type": "string", "format": "date"}
        elif column.kind == "category":
            options |= {"type": "string", "enum": list(column.choices)}
            del options["column"]
        else:
            longest = max((len(str(value)) for value in table.data[column.name] if value is not None), default=0)
            options |= {"type": "string", "max_length": max(60, min(2000, 2 * longest))}
        return ParameterSpec(**(options | changes))

    def _words(self, table: Table, column: Column) -> str:
        if column.references:
            parent = self.tables[column.references[0]]
            to = in_words(column.references[1])
            stem = in_words(column.name.removesuffix("_id"))
            return f"{to} of the {stem}" if stem not in (in_words(parent.one), to) else f"{in_words(parent.one)} id"
        if column.name in table.key:
            return f"{in_words(table.one)} id" if len(table.key) == 1 and column.name.endswith("_id") else column.words
        ends = {"money": "", "date": ", YYYY-MM-DD", "datetime": ", YYYY-MM-DD"}.get(column.kind, "")
        return f"{column.words} of the {in_words(table.one)}{ends}"

    def _keys(self, table: Table) -> dict[str, ParameterSpec]:
        return {part: self.parameter(table, table.columns[part], own=True) for part in table.key}

    def _operates(self, table: Table, mark: str = ":") -> dict[str, str | list[str]]:
        parts = [f"{mark}{part}" for part in table.key]
        return {table.name: parts[0] if len(parts) == 1 else parts}

    def _where(self, table: Table) -> str:
        return " AND ".join(f"{bare(part)} = :{part}" for part in table.key)

    def _name_of(self, table: Table) -> str:
        return " ".join(f"{{{part}}}" for part in table.key)

    def _exists(self, table: Table) -> GuardSpec:
        hint = f"; find it with {self.box.find[table.name, n.name]}" if (n := next(iter(table.naturals), None)) else ""
        return GuardSpec(
            require=f"EXISTS (SELECT 1 FROM {bare(table.name)} WHERE {self._where(table)})",
            error=f"There is no {in_words(table.one)} {self._name_of(table)}{hint}.",
        )

    def _shown(self, table: Table, limit: int = 9) -> str:
        """Return the columns that lists show: keys and references first, no long texts."""
        columns = [c for c in table.columns.values() if c.kind not in ("note", "json")]
        return ", ".join(bare(column.name) for column in columns[:limit])

    def _order(self, table: Table) -> str:
        return ", ".join(map(bare, table.key))

    def _refers(self, table: Table, column: Column, *, optional: bool = False) -> GuardSpec:
        assert column.references is not None
        target, to = column.references
        found = f"EXISTS (SELECT 1 FROM {bare(target)} WHERE {bare(to)} = :{column.name})"
        return GuardSpec(
            require=f":{column.name} IS NULL OR {found}" if optional else found,
            error=f"There is no {in_words(self.tables[target].one)} {{{column.name}}}.",
        )
