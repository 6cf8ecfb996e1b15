"""Random arguments that are valid for a tool: for the random policy and the mutation test of verification."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping
from typing import Any

import msgspec

from toolorchestra.toolscale.database.database import Database
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tools.tool import Tool

_ATTEMPTS = 40
_TODAY = "2026-01-01"  # of tools without a database


class Guesser:
    """Draws valid arguments with `rng`; values of a `ParameterSpec.column` come from `database`, if there is one."""

    def __init__(self, database: Database | None, rng: random.Random) -> None:
        self._database = database
        self._values: dict[str, list[Any]] = {}
        self.rng = rng

    def arguments(self, tool: Tool) -> dict[str, Any]:
        """Return valid arguments for `tool`; optional ones are given half of the time."""
        return self._values_of(tool.parameters)

    def _values_of(self, specs: Mapping[str, ParameterSpec]) -> dict[str, Any]:
        return {name: self.value(spec) for name, spec in specs.items() if spec.required or self.rng.random() < 0.5}

    def value(self, spec: ParameterSpec) -> Any:
        """Return a valid value of a parameter."""
        if spec.type == "array":
            count = range(self.rng.randint(1, min(3, spec.max_length)))
            if spec.items == "object":
                return [self._values_of(spec.fields) for _ in count]
            item = msgspec.structs.replace(spec, type=spec.items or "string", items=None)
            return [self.value(item) for _ in count]
        if spec.enum:
            return self.rng.choice(spec.enum)
        if spec.column and self._database is not None:
            if spec.column not in self._values:
                self._values[spec.column] = self._database.values(spec.column)
            if values := self._values[spec.column]:
                return self.rng.choice(values)
        low = 0.0 if spec.minimum is None else spec.minimum
        high = low + 20.0 if spec.maximum is None else spec.maximum
        match spec.type:
            case "integer":
                return self.rng.randint(int(low), int(high))
            case "number":
                return round(self.rng.uniform(low, high), 2)
            case "boolean":
                return self.rng.random() < 0.5
        if spec.format == "date":
            today = datetime.date.fromisoformat(self._database.today if self._database else _TODAY)
            return (today + datetime.timedelta(self.rng.randint(-30, 30))).isoformat()
        if spec.format == "time":
            return f"{self.rng.randint(0, 23):02d}:{self.rng.choice((0, 15, 30, 45)):02d}"
        return self.rng.choice(("today", "1 + 1", "yes", "note"))

    def other(self, spec: ParameterSpec, value: Any) -> Any:
        """Return a valid value that is not `value`, or `value` itself when there is none."""
        for _ in range(_ATTEMPTS):
            if (found := self.value(spec)) != value:
                return found
        return value
