"""Templates: what is filled in where, and the two files of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from toolorchestra.toolscale.synth.derived.templates import fill, prompt, read_templates


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("<one> {id}", "open loan {id}"),
        ("<One>!", "Open loan!"),
        ("find <an one> or <an table.name>", "find an open loan or an order"),
        ("SELECT * FROM <sql table.name> WHERE n <> <literal title>", "SELECT * FROM \"order\" WHERE n <> 'it''s'"),
        ("<words key>: <size>", "due date: 3"),
        ("a < b and <a b> stay", "a < b and <a b> stay"),
    ],
)
def test_places_are_filled_in(template: str, text: str) -> None:
    values = {"one": "open loan", "table": SimpleNamespace(name="order"), "title": "it's", "key": "due_date", "size": 3}
    assert fill(template, **values) == text


def test_objects_and_lists_are_filled_in_and_values_are_not_read_as_templates() -> None:
    template = {"call": "<tool>", "arguments": {"<key>": "$id"}, "when": ["<x>"], "refuses": True}
    filled = {"call": "get", "arguments": {"loan_id": "$id"}, "when": ["<key>"], "refuses": True}
    assert fill(template, tool="get", key="loan_id", x="<key>") == filled


def test_a_place_without_a_value_is_an_error() -> None:
    with pytest.raises(AttributeError, match="draft"):
        prompt("subjects", count=3)


def test_a_backslash_joins_lines_of_a_prompt() -> None:
    assert "tools over it, and requests to carry out." in prompt("system")
    assert not any("\\\n" in str(text) for text in read_templates("prompts.yaml").values())


def test_prompts_hold_their_examples() -> None:
    example = str(read_templates("prompts.yaml")["records_example"])
    assert example in prompt("first_records")
    assert "station_id: {reference: stations.station_id}" in example
