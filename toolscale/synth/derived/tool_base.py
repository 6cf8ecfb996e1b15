"""The base of all derived tools: parameters, conditions and guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from toolorchestra.toolscale.common.yaml_reader import convert
from toolorchestra.toolscale.database.format import GuardSpec, ParameterSpec, ToolSpec
from toolorchestra.toolscale.requests.naming import in_words, snake_case
from toolorchestra.toolscale.synth.derived.derived_tools import Toolbox
from toolorchestra.toolscale.synth.derived.templates import fill, read_templates
from toolorchestra.toolscale.synth.tables.tables import Column, CompositeReference, Table, bare

MAX_LISTED = 50
"""Rows that a search returns."""


class ToolMaker:
    """Derives tools for one table after another; subclasses are the families of tools.

    Override `tools`. The texts and the SQL of the tools are in ``derived_tools.yaml``.
    """

    def __init__(self, tables: Mapping[str, Table], box: Toolbox) -> None:
        self.tables = tables
        self.box = box

    def tools(self, table: Table) -> None:
        """Put the tools of a table that has rows into the box."""
        raise NotImplementedError

    def _tool(
        self,
        name: str,
        template: str,
        table: Table,
        parameters: dict[str, ParameterSpec],
        guards: Sequence[GuardSpec] = (),
        /,
        **values: Any,
    ) -> str:
        """Put a tool written from its template into the box; return its name."""
        values |= {"table": table, "one": in_words(table.one), "many": in_words(table.many), "key": table.key[0]}
        values |= {"row": self._row(table), "where": self._where(table), "shown": self._shown(table)}
        values |= {"order": ", ".join(map(bare, table.key)), "limit": MAX_LISTED}
        spec = convert(fill(read_templates("derived_tools.yaml")[template], **values), ToolSpec)
        name = snake_case(name, self.box.tools)
        self.box.tools[name] = replace(spec, parameters=parameters, guards=list(guards))
        return name

    def parameter(
        self, table: Table, column: Column, description: str = "", *, own: bool = False, **changes: Any
    ) -> ParameterSpec:
        """Return the parameter that takes a value of a column."""
        words = description or self._words(table, column)
        options: dict[str, Any] = {"description": words}
        if column.references and not own:
            options["column"] = ".".join(column.references)
        elif column.kind not in ("note", "json") and not column.is_date:
            options["column"] = f"{table.name}.{column.name}"
        if column.kind == "flag":
            return ParameterSpec(type="boolean", description=words, **changes)
        if column.type != "TEXT":
            options["type"] = "integer" if column.type == "INTEGER" else "number"
            values = table.present(column.name)
            if column.kind in ("money", "number") and values and min(values) >= 0:
                options["minimum"] = 0
        elif column.is_date:
            options |= {"type": "string", "format": "date"}
        elif column.kind == "category":
            options |= {"type": "string", "enum": list(column.choices)}
            del options["column"]
        else:
            longest = max((len(str(value)) for value in table.present(column.name)), default=0)
            options |= {"type": "string", "max_length": max(60, min(2000, 2 * longest))}
        return ParameterSpec(**(options | changes))

    def _words(self, table: Table, column: Column) -> str:
        """Return what a parameter is that takes a value of a column."""
        one = in_words(table.one)
        if column.references:
            target, to = column.target
            parent, stem = in_words(self.tables[target].one), in_words(column.name.removesuffix("_id"))
            return f"{parent} id" if stem in (parent, in_words(to)) else f"{in_words(to)} of the {stem}"
        if column.name in table.key:
            return f"{one} id" if len(table.key) == 1 and column.name.endswith("_id") else column.words
        return f"{column.words} of the {one}{', YYYY-MM-DD' if column.is_date else ''}"

    def _keys(self, table: Table) -> dict[str, ParameterSpec]:
        return {part: self.parameter(table, table.columns[part], own=True) for part in table.key}

    def _operates(self, table: Table, mark: str = ":") -> dict[str, str | list[str]]:
        parts = [f"{mark}{part}" for part in table.key]
        return {table.name: parts[0] if len(parts) == 1 else parts}

    def _where(self, table: Table) -> str:
        return " AND ".join(f"{bare(part)} = :{part}" for part in table.key)

    def _row(self, table: Table) -> str:
        return " ".join(f"{{{part}}}" for part in table.key)

    def _exists(self, table: Table) -> GuardSpec:
        natural = next(iter(table.naturals), None)
        hint = f"; find it with {self.box.find[table.name, natural.name]}" if natural else ""
        error = f"There is no {in_words(table.one)} {self._row(table)}{hint}."
        return GuardSpec(require=exists(table.name, self._where(table)), error=error)

    def _shown(self, table: Table, limit: int | None = 9) -> str:
        """Return the columns that lists show: keys and references first, no long texts."""
        columns = [c for c in table.columns.values() if c.kind not in ("note", "json")]
        return ", ".join(bare(column.name) for column in columns[:limit])

    def _refers_paired(self, composite: CompositeReference, *, optional: bool = False) -> GuardSpec:
        parent = self.tables[composite.target]
        pairs = zip(parent.key, composite.columns, strict=True)
        found = exists(parent.name, " AND ".join(f"{bare(part)} = :{name}" for part, name in pairs))
        missing = " AND ".join(f":{name} IS NULL" for name in composite.columns)
        return GuardSpec(
            require=f"({missing}) OR {found}" if optional else found,
            error=f"There is no {in_words(parent.one)} {' '.join(f'{{{name}}}' for name in composite.columns)}.",
        )

    def _refers(self, column: Column, *, optional: bool = False) -> GuardSpec:
        target, to = column.target
        found = exists(target, f"{bare(to)} = :{column.name}")
        return GuardSpec(
            require=f":{column.name} IS NULL OR {found}" if optional else found,
            error=f"There is no {in_words(self.tables[target].one)} {{{column.name}}}.",
        )


def exists(table: str, condition: str) -> str:
    """Return the SQL condition that a table has a row of some kind."""
    return f"EXISTS (SELECT 1 FROM {bare(table)} WHERE {condition})"
