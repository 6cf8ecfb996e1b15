"""The base of all derived tools: parameters, conditions and guards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from toolorchestra.toolscale.common.yaml_reader import convert
from toolorchestra.toolscale.database.format import GuardSpec, ParameterSpec, ToolSpec
from toolorchestra.toolscale.requests.naming import in_words, snake_case
from toolorchestra.toolscale.synth.derived.templates import fill, read_templates
from toolorchestra.toolscale.synth.derived.toolbox import Toolbox
from toolorchestra.toolscale.synth.tables.tables import Column, CompositeReference, Table, bare

MAX_LISTED = 50
"""Rows that a search returns."""


class ToolMaker:
    """Derives tools for one table after another; subclasses are the families of tools.

    Override `tools`. The texts and the SQL of the tools and guards are in ``derived_tools.yaml``.
    """

    def __init__(self, tables: Mapping[str, Table], box: Toolbox) -> None:
        self.tables = tables
        self.box = box
        self._rules: list[str] = []  # of the tool that is being made

    def tools(self, table: Table) -> None:
        """Put the tools of a table that has rows into the box."""
        raise NotImplementedError

    def _tool(
        self,
        template: str,
        table: Table,
        parameters: dict[str, ParameterSpec],
        guards: Sequence[GuardSpec] = (),
        /,
        **values: Any,
    ) -> str:
        """Put a tool written from its template into the box; return its name."""
        shown = [bare(c.name) for c in table.columns.values() if c.kind not in ("note", "json")]  # no long texts
        values |= {"shown": ", ".join(shown[:9]), "all_shown": ", ".join(shown), "limit": MAX_LISTED}
        filled = self._filled(read_templates("derived_tools.yaml")[template], table, values)
        name = snake_case(filled.pop("name"), self.box.tools)
        self.box.tools[name] = replace(convert(filled, ToolSpec), parameters=parameters, guards=list(guards))
        self.box.rules[name], self._rules = self._rules, []
        return name

    def _rule(self, text: str) -> None:
        """Note a rule that the next tool's guards enforce."""
        self._rules.append(text)

    def _guard(self, template: str, table: Table, /, **values: Any) -> GuardSpec:
        """Return a guard written from its template; the rule that it enforces, if it has one, is the next tool's."""
        filled = self._filled(read_templates("derived_tools.yaml")["guards"][template], table, values)
        if rule := filled.pop("rule", None):
            self._rule(rule)
        return GuardSpec(**filled)

    def _filled(self, template: Any, table: Table, values: dict[str, Any]) -> Any:
        values |= {"table": table, "one": in_words(table.one), "many": in_words(table.many), "key": table.key[0]}
        values |= {"row": " ".join(f"{{{part}}}" for part in table.key), "order": ", ".join(map(bare, table.key))}
        return fill(template, where=same((part, part) for part in table.key), **values)

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
            if column.is_plain and column.kind != "coordinate" and values and min(values) >= 0:
                options["minimum"] = 0
        elif column.traits.format:
            options |= {"type": "string", "format": column.traits.format}
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
            parent, stem = in_words(self.tables[target].one), in_words(column.stem)
            return f"{parent} id" if stem in (parent, in_words(to)) else f"{in_words(to)} of the {stem}"
        if column.in_key:
            own_id = len(table.key) == 1 and column.name.endswith("_id")
            return f"{one} id" if own_id else column.words + column.traits.hint
        return f"{column.words} of the {one}{column.traits.hint}"

    def _keys(self, table: Table) -> dict[str, ParameterSpec]:
        return {part: self.parameter(table, table.columns[part], own=True) for part in table.key}

    def _exists(self, table: Table) -> GuardSpec:
        natural = next(iter(table.naturals), None)
        hint = f"; find it with {self.box.find[table.name, natural.name]}" if natural else ""
        return self._guard("exists", table, hint=hint)

    def _refers(self, table: Table, reference: Column | CompositeReference, *, optional: bool = False) -> GuardSpec:
        """Return the guard that there is a row to which a column, or several together, refer."""
        if isinstance(reference, Column):
            target, pairs = reference.target[0], [(reference.target[1], reference.name)]
        else:
            target = reference.target
            pairs = list(zip(self.tables[target].key, reference.columns, strict=True))
        names = [name for _, name in pairs]
        missing = " AND ".join(f":{name} IS NULL" for name in names)
        return self._guard(
            "refers",
            table,
            parent=self.tables[target],
            unless="" if not optional else f"({missing}) OR " if len(names) > 1 else f"{missing} OR ",
            same=same(pairs),
            keys=" ".join(f"{{{name}}}" for name in names),
        )


def same(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the SQL condition that columns are equal to parameters."""
    return " AND ".join(f"{bare(column)} = :{parameter}" for column, parameter in pairs)
