from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from toolorchestra.toolscale.database.format import DomainSpec, Recipe, ToolSpec, json_schema
from toolorchestra.toolscale.domain_folder import read_spec


def test_the_json_schema_accepts_what_the_loader_accepts(mini_folder: Path) -> None:
    spec = read_spec(mini_folder)
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(msgspec.json.decode(msgspec.json.encode(spec)), schema)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("tools.spin.descriptoin", "x"),
        ("tools.spin.latency", -1),
        ("tables.orders.columns.day.type", "DATE"),
        ("intents.ask_price.instructions", ["only one"]),
        ("Name", "x"),
        ("today", "yesterday"),
    ],
)
def test_the_json_schema_refuses_what_the_loader_refuses(mini_folder: Path, path: str, value: Any) -> None:
    content: Any = msgspec.json.decode(msgspec.json.encode(read_spec(mini_folder)))
    *parents, last = path.split(".")
    place = content
    for key in parents:
        place = place[key]
    place[last] = value
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(content, DomainSpec)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, json_schema())


def test_a_specification_survives_yaml_and_back(mini_folder: Path) -> None:
    spec = read_spec(mini_folder)
    text = yaml.safe_dump(msgspec.json.decode(msgspec.json.encode(spec)))
    assert msgspec.convert(yaml.safe_load(text), DomainSpec) == spec


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "found none"),
        ({"choice": [1], "range": [1, 2]}, "found choice, range"),
        ({"value": None, "sql": "1"}, "found sql, value"),
        ({"choice": [1, 2], "weights": [1]}, "one weight for each choice"),
        ({"value": 1, "weights": [1]}, "one weight for each choice"),
    ],
)
def test_a_recipe_is_exactly_one_way_to_make_a_cell(given: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(given, Recipe)


def test_a_recipe_may_be_the_value_null() -> None:
    assert msgspec.convert({"value": None}, Recipe).value is None


def test_specifications_are_immutable() -> None:
    with pytest.raises(AttributeError):
        ToolSpec(description="x").description = "y"  # type: ignore[misc]
