"""Parsing and checking a model's answers: from text to data of the domain format.

The text is not trusted: it is read as plain YAML of bounded size, its numbers must be finite and its texts short, it
may name only the Faker providers listed here, and every error becomes an `InvalidError` whose message says where and
why.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from toolorchestra.toolscale.answers.thoughts import split_thoughts
from toolorchestra.toolscale.common.errors import ToolOrchestraError, unknown_name
from toolorchestra.toolscale.common.yaml_reader import MAX_CHARACTERS, convert, parse_yaml
from toolorchestra.toolscale.database.format import ConsistencySpec, IntentSpec, Name, Recipe, TableSpec
from toolorchestra.toolscale.synth.model_queries import InvalidError

MAX_ROWS = 3_000
"""Rows of a table."""
_MAX_TABLES, _MAX_COLUMNS, _MAX_RULES = 20, 30, 20
_MAX_NUMBER = 1e12
_MAX_TEXT = 8_000
_MAX_TEMPLATE = 1_500
_MAX_PLACEHOLDERS = 40
_MAX_STEPS = 40
_FENCE = re.compile(r"^```[\w+-]*[ \t]*\r?\n(.*?)(?:^```[ \t]*\r?$|\Z)", re.MULTILINE | re.DOTALL)

FAKER = (
    "first_name", "first_name_female", "first_name_male", "last_name", "name", "user_name", "email", "phone_number",
    "street_address", "street_name", "building_number", "city", "state", "state_abbr", "postcode", "country",
    "company", "job", "catch_phrase", "color_name", "domain_name", "license_plate", "word", "sentence", "paragraph",
    "isbn13", "ean13", "iban", "bothify", "numerify", "lexify",
)  # fmt: skip
"""Faker's providers that a model may name: they read no clock and make no more than a cell holds."""

T = TypeVar("T")


@contextmanager
def refusing() -> Iterator[None]:
    """Turn every error that a model's text causes into an `InvalidError`."""
    try:
        yield
    except InvalidError:
        raise
    except ToolOrchestraError as error:
        raise InvalidError(str(error)) from None
    except Exception as error:  # not known to happen; a run of hours must not end by it
        raise InvalidError(f"{type(error).__name__}: {error}"[:500]) from None


def read_answer(text: str, kind: type[T]) -> T:
    r"""Return the YAML of an answer, in a fenced block or bare, as a `kind`.

    >>> read_answer("Here it is:\n```yaml\n- Loans\n- Members\n```", list[str])
    ['Loans', 'Members']

    Raises:
        InvalidError: It is no YAML, no plain data, or no `kind`; the message has the key path.
    """
    with refusing():
        if len(text) > MAX_CHARACTERS:
            raise InvalidError(f"Expected at most {MAX_CHARACTERS:,} characters, found {len(text):,}.")
        answer = split_thoughts(text)[1]
        blocks = _FENCE.findall(answer)
        if len(blocks) > 1:
            raise InvalidError(f"Expected one fenced block of YAML, found {len(blocks)}. Put everything into one.")
        value = parse_yaml(blocks[0] if blocks else answer, strict=True)
        _check_plain(value, "")
        return convert(value, kind)


def _check_plain(value: Any, path: str) -> None:
    """Refuse numbers and texts beyond what a domain can hold."""
    if isinstance(value, dict):
        for key, child in value.items():
            if not isinstance(key, str):
                raise InvalidError(f"{path or 'top level'}: expected a text as key, found {key!r:.40}. Quote it.")
            _check_plain(child, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for i, child in enumerate(value):
            _check_plain(child, f"{path}[{i}]")
    elif isinstance(value, (int, float)) and not (math.isfinite(value) and abs(value) <= _MAX_NUMBER):
        raise InvalidError(f"{path}: expected a number of at most {_MAX_NUMBER:.0e}, found {value!r:.40}.")
    elif isinstance(value, str) and (len(value) > _MAX_TEXT or "\0" in value):
        raise InvalidError(f"{path}: expected a text of at most {_MAX_TEXT:,} characters, without NUL.")


def check_recipes(recipes: Mapping[str, Recipe]) -> None:
    """Refuse recipes that a model may not write."""
    for column, recipe in recipes.items():
        if recipe.faker is not None and recipe.faker not in FAKER:
            raise InvalidError(f"recipes.{column}.faker: {unknown_name('provider', recipe.faker, FAKER, limit=60)}")
        for name, value in recipe.args.items():
            wrong = isinstance(value, (list, dict)) or (isinstance(value, str) and len(value) > 60)
            if wrong or (isinstance(value, (int, float)) and abs(value) > 100):
                raise InvalidError(f"recipes.{column}.args.{name}: expected a short text or a number up to 100.")


def check_intent(intent: IntentSpec) -> None:
    """Refuse what would make the texts or the reference trajectory of a task longer than a task can be."""
    if not isinstance(intent.instructions, list) or intent.names or intent.terms or intent.speaker is not None:
        raise InvalidError("Expected `instructions` as a list of texts, and no `names`, `terms` or `speaker`.")
    facts = [fact for item in intent.communicate for fact in ([item] if isinstance(item, str) else item)]
    for template in (*intent.instructions, intent.answer, *facts):
        if len(template) > _MAX_TEMPLATE or template.count("{") > _MAX_PLACEHOLDERS:
            raise InvalidError(
                f"Expected texts of at most {_MAX_TEMPLATE:,} characters and {_MAX_PLACEHOLDERS} placeholders, "
                f"found {template[:60]!r}…"
            )
    if len(facts) > _MAX_STEPS or len(intent.instructions) > _MAX_STEPS or len(intent.alternatives) > 4:
        raise InvalidError(f"Expected at most {_MAX_STEPS} phrasings and facts, and 4 alternatives.")
    for steps in (intent.reference_calls, *intent.alternatives):
        if len(steps) > _MAX_STEPS:
            raise InvalidError(f"Expected at most {_MAX_STEPS} reference steps, found {len(steps)}.")


class SchemaAnswer(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A model's answer to the prompt for a schema."""

    description: Annotated[str, Meta(min_length=20)]
    tables: dict[Name, TableSpec]
    consistency: list[ConsistencySpec] = []


def check_schema(answer: SchemaAnswer) -> None:
    """Refuse a schema that is not one, or no world to live in."""
    if not 2 <= len(answer.tables) <= _MAX_TABLES:
        raise InvalidError(f"tables: expected 2 to {_MAX_TABLES}, found {len(answer.tables)}.")
    if len(answer.consistency) > _MAX_RULES:
        raise InvalidError(f"consistency: expected at most {_MAX_RULES} rules, found {len(answer.consistency)}.")
    for name, table in answer.tables.items():
        if not 1 <= len(table.columns) <= _MAX_COLUMNS:
            raise InvalidError(f"tables.{name}.columns: expected 1 to {_MAX_COLUMNS}, found {len(table.columns)}.")
        if table.rows or table.query or any(column.recipe for column in table.columns.values()):
            raise InvalidError(f"tables.{name}: expected no rows, query or recipes yet; they are asked for next.")
        if table.count > MAX_ROWS:
            raise InvalidError(f"tables.{name}.count: expected at most {MAX_ROWS}, found {table.count}.")
    if not any(column.references for table in answer.tables.values() for column in table.columns.values()):
        raise InvalidError("tables: expected tables that refer to each other; no column has `references`.")


def without_rows(table: TableSpec) -> TableSpec:
    """Return a table without rows."""
    columns = {name: replace(column, recipe=None) for name, column in table.columns.items()}
    return replace(table, columns=columns, rows=[], query=None, count=0)
