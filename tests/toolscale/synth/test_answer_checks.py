from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.database.format import IntentSpec, Recipe, TableSpec, ToolSpec
from toolorchestra.toolscale.synth.answer_checks import FAKER, check_intent, check_recipes, read_answer, refusing
from toolorchestra.toolscale.synth.model_queries import InvalidError

LAUGHS = "a: &a [x, x]\n" + "\n".join(
    f"{c}: &{c} [*{p}, *{p}, *{p}]" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        "- Loans\n- Members",
        "```yaml\n- Loans\n- Members\n```",
        "Here you are:\n```\n- Loans\n- Members\n```\nAnything else?",
        "```yaml\n- Loans\n- Members",  # cut off
        "<think>```yaml\n- nonsense\n```</think>\n```yml\n- Loans\n- Members\n```",
    ],
)
def test_yaml_is_read_in_a_fenced_block_or_bare(text: str) -> None:
    assert read_answer(text, list[str]) == ["Loans", "Members"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expected `array`, got `null`"),
        ("```\n- a\n```\n```\n- b\n```", "Expected one fenced block of YAML, found 2"),
        ("- [", "Not valid YAML"),
        ("- a\n---\n- b", "Not valid YAML"),
        ("[" * 100_000, "at most 24 levels"),
        ("- " * 100_000, "Not valid YAML|at most 24 levels"),
        (LAUGHS, "an anchor or alias"),
        ("- !!python/object/apply:os.system [ls]", "found the tag"),
        ("- !!binary aGVsbG8=", "found the tag"),
        ("- " + "9" * 5000, "Not valid YAML: Exceeds the limit"),
        ("[" + "a, " * 60_000 + "a]", "at most 40,000 values"),
        ("x" * 300_000, "at most 200,000 characters"),
        ("- " + "x" * 9_000, "at most 8,000 characters"),
        ('- "\\0"', "without NUL"),
        ("- \ud800", "Not valid YAML"),
        ("1: 2", "expected a text as key"),
        ("a: 1\na: 2", "the key 'a' stands twice"),
    ],
)
def test_text_that_is_not_plain_data_of_bounded_size_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        read_answer(text, list[str])


@pytest.mark.parametrize("number", [".inf", "-.inf", ".nan", "1" + "0" * 30, "-9007199254740993000"])
def test_numbers_that_no_domain_needs_are_refused(number: str) -> None:
    with pytest.raises(InvalidError, match=r"columns\.a\.x: expected a number of at most"):
        read_answer(f"columns: {{a: {{x: {number}}}}}", dict[str, Any])


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "description: 3\nanswer: x\nbindings: x\ninstructions: [a, b]",
            IntentSpec,
            r"^description: Expected text, got `int`",
        ),
        (
            "description: x\nguards: [{require: 'true', error: x, then: y}]",
            ToolSpec,
            r"^guards\[0\]: Unknown key 'then'",
        ),
        ("columns: {a: {type: VARCHAR}}\nprimary_key: a", TableSpec, r"^columns\.a\.type: Expected one of 'TEXT'"),
        ("columns: {A: {type: TEXT}}\nprimary_key: A", TableSpec, r"^columns\.A: "),
    ],
)
def test_the_error_of_a_wrong_type_names_its_place(text: str, kind: type[Any], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        read_answer(text, kind)


@given(st.text(max_size=200))
def test_no_text_raises_anything_else(text: str) -> None:
    for kind in (list[str], dict[str, str], ToolSpec, IntentSpec, TableSpec):
        with contextlib.suppress(InvalidError):
            read_answer(text, kind)


@pytest.mark.parametrize(
    "name", ["add_provider", "binary", "date_this_year", "json", "past_date", "pyobject", "seed_instance", "tar"]
)
def test_only_providers_that_are_known_to_be_harmless_are_taken(name: str) -> None:
    with pytest.raises(InvalidError, match=r"recipes\.a\.faker: Unknown provider"):
        check_recipes({"a": Recipe(faker=name)})


def test_every_provider_that_is_taken_exists_and_gives_a_short_text() -> None:
    from faker import Faker

    faker = Faker("en_US")
    faker.seed_instance(0)
    for name in FAKER:
        assert 0 < len(str(getattr(faker, name)())) < 1000


@pytest.mark.parametrize("args", [{"nb": 10**9}, {"text": "#" * 1000}, {"elements": ["a"] * 10}, {"x": {"y": 1}}])
def test_arguments_of_a_provider_are_small(args: dict[str, Any]) -> None:
    with pytest.raises(InvalidError, match=r"recipes\.a\.args\."):
        check_recipes({"a": Recipe(faker="word", args=args)})


@pytest.mark.parametrize(
    "changes",
    [
        {"instructions": ["{a}" * 41, "b"]},
        {"answer": "x" * 1501},
        {"communicate": ["x"] * 41},
        {"reference_calls": [{"call": "t"}] * 41},
        {"alternatives": [[{"call": "t"}]] * 5},
    ],
)
def test_an_intent_is_no_longer_than_a_task_can_be(changes: dict[str, Any]) -> None:
    intent = {"description": "d", "bindings": "SELECT 1", "instructions": ["a", "b"], "answer": "x"}
    check_intent(msgspec.convert(intent, IntentSpec))
    with pytest.raises(InvalidError, match="Expected"):
        check_intent(msgspec.convert(intent | changes, IntentSpec))


@pytest.mark.parametrize("error", [RecursionError("deep"), MemoryError(), ZeroDivisionError("x"), KeyError("y")])
def test_every_error_that_a_text_causes_is_an_invalid_error(error: Exception) -> None:
    def explode() -> None:
        raise error

    run: Callable[[], None] = explode
    with pytest.raises(InvalidError, match=type(error).__name__), refusing():
        run()
