from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.toolscale.common.errors import DomainError, UnknownNameError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import builtin_domains, load_domain, read_spec

P = {"type": "string", "description": "p"}


def written(tmp_path: Path, text: str, name: str = "domain.yaml") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "Not valid YAML"),
        ("- a", "Expected an object, found list."),
        ("", "Expected an object, found NoneType."),
        ("name: x\nname: y", "the key 'name' stands twice in the object at line 1"),
        ("{[a]: b}", "Not valid YAML"),
        ("a: \x00", "Not valid YAML"),
        ("!!python/object:os.system {}", "Not valid YAML"),
    ],
)
def test_a_file_that_is_no_yaml_object_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DomainError) as error:
        read_spec(written(tmp_path, text))
    assert str(error.value).startswith(f"{tmp_path / 'domain.yaml'}: ")
    assert message in str(error.value)


def test_a_folder_without_a_domain_is_an_error_that_names_domains(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match=r"Expected a folder with a domain\.yaml.*Give the folder of a domain"):
        load_domain(tmp_path)


def test_an_unknown_domain_is_an_error_that_suggests_one() -> None:
    with pytest.raises(UnknownNameError, match="Unknown domain 'restaurnt'"):
        load_domain("restaurnt")


def test_dates_and_words_stay_text(tmp_path: Path) -> None:
    text = "{name: x, title: yes, description: no, today: 2025-01-02, tables: {}, tools: {}}"
    spec = read_spec(written(tmp_path, text))
    assert (spec.title, spec.description, spec.today) == ("yes", "no", "2025-01-02")


@pytest.mark.parametrize(
    ("file", "path", "value", "where", "message"),
    [
        ("domain.yaml", "today", ..., "", "missing required field `today`"),
        ("domain.yaml", "today", "2025-02-30", "today", "'2025-02-30' is no date"),
        ("domain.yaml", "toolz", {}, "", "Unknown key 'toolz'. Did you mean 'tools'?"),
        ("domain.yaml", "tables", [], "tables", "Expected an object, found list."),
        (
            "domain.yaml",
            "tables.orders.columns.day.type",
            "DATE",
            "tables.orders.columns.day.type",
            "Expected one of 'TEXT', 'INTEGER', 'REAL'; found 'DATE'.",
        ),
        (
            "domain.yaml",
            "tables.orders.columns.day.recipe.dates",
            ["2025-07-01"],
            "tables.orders.columns.day.recipe.dates",
            "length 2, got 1",
        ),
        (
            "domain.yaml",
            "tables.orders.columns.day.recipe.unik",
            True,
            "tables.orders.columns.day.recipe",
            "Unknown key 'unik'. Did you mean 'unique'?",
        ),
        ("domain.yaml", "tables.orders.columns.Day", {"type": "TEXT"}, "tables.orders.columns.Day", "matching regex"),
        ("domain.yaml", "tables.orders.primary_key", ["order_id", 3], "tables.orders.primary_key[1]", "Expected text"),
        (
            "domain.yaml",
            "tables.orders.primary_key",
            "oder_id",
            "tables.orders.primary_key",
            "Did you mean 'order_id'?",
        ),
        ("domain.yaml", "tables.orders.indexes", [["day"], ["dya"]], "tables.orders.indexes[1]", "Did you mean 'day'?"),
        (
            "domain.yaml",
            "tables.orders.columns.customer_id.references",
            "items.dish",
            "tables.orders.columns.customer_id",
            "Unknown earlier table 'items'",
        ),
        (
            "domain.yaml",
            "tables.orders.columns.customer_id.recipe.reference",
            "customers.id",
            "tables.orders.columns.customer_id.recipe",
            "Unknown column 'id'",
        ),
        ("domain.yaml", "consistency.1", {"rule": "x"}, "consistency[1]", "missing required field `sql`"),
        (
            "domain.yaml",
            "intents.order_twice.reference_calls.2.argument",
            {},
            "intents.order_twice.reference_calls[2]",
            "Did you mean 'arguments'? Known: any, arguments, call, each, item, parallel, save, when.",
        ),
        (
            "domain.yaml",
            "intents.order_twice.reference_calls.2.call",
            "make_ordr",
            "intents.order_twice.reference_calls[2].call",
            "Did you mean 'make_order'?",
        ),
        (
            "domain.yaml",
            "intents.order_twice.reference_calls.1.arguments.prize",
            1,
            "intents.order_twice.reference_calls[1].arguments",
            "Unknown argument of make_order 'prize'. Did you mean 'price'?",
        ),
        (
            "domain.yaml",
            "intents.drop_order.alternatives.0.0.arguments",
            {},
            "intents.drop_order.alternatives[0][0].arguments",
            "move_order needs the argument 'customer_id'.",
        ),
        ("domain.yaml", "intents.ask_price.communicate.0", 3, "intents.ask_price.communicate[0]", "got `int`"),
        ("tools.yaml", "title", "x", "title", "Unknown section beside domain.yaml 'title'"),
        ("tools.yaml", "tables", {"orders": {}}, "tables.orders", "Defined in domain.yaml already. Remove one."),
        ("tools.yaml", "tools", [], "tools", "Expected an object, found list."),
        ("tools.yaml", "consistency", [{"rule": "r", "sqll": "s"}], "consistency[2]", "Did you mean 'sql'?"),
        (
            "tools.yaml",
            "tools.make_order.statements.1",
            {"sq": "x"},
            "tools.make_order.statements[1]",
            "Unknown key 'sq'. Did you mean 'sql'? Known: save, sql.",
        ),
        (
            "tools.yaml",
            "tools.get_order.parameters.order_id.type",
            "text",
            "tools.get_order.parameters.order_id.type",
            "found 'text'",
        ),
        ("tools.yaml", "tools.get_order.parameters.Order", P, "tools.get_order.parameters.Order", "matching regex"),
        ("tools.yaml", "tools.get_order.latency", -1, "tools.get_order.latency", ">= 0"),
        ("tools.yaml", "tools.get_order.returns.shape", "rwo", "tools.get_order.returns.shape", "found 'rwo'"),
        ("tools.yaml", "tools.spin.returns", ..., "tools.spin", "The tool does nothing. Give it `statements`"),
        (
            "tools.yaml",
            "tools.calculator.function",
            "calculate",
            "tools.calculator.function",
            "Did you mean 'calculator'?",
        ),
        ("tools.yaml", "tools.get_order.returns.sql", "SELECT 1 FROM oders", "tools.get_order.returns.sql", "oders"),
    ],
)
def test_the_error_of_a_broken_domain_names_file_place_and_remedy(
    edited: Callable[..., Path], file: str, path: str, value: Any, where: str, message: str
) -> None:
    folder = edited()
    edited(path, value, file=file)
    with pytest.raises(DomainError) as error:
        load_domain(folder)
    assert error.value.path == where
    assert message in str(error.value)
    assert error.value.file == folder / file
    assert str(error.value).startswith(f"{folder / file}: ")


def test_a_domain_shows_its_rules_and_size(mini: Domain) -> None:
    assert mini.rules.startswith("Mini Kitchen. Today is Wednesday, 2025-07-23.\nA kitchen")
    assert mini.database.entries() == 20 + 40 + 40 + 3
    assert repr(mini) == f"<Domain mini: {len(mini.tools)} tools, 103 entries, {len(mini.tasks())} tasks>"


def test_tasks_are_found_by_split_and_id(mini: Domain) -> None:
    splits = {split: mini.tasks(split) for split in ("train", "test", "test_intents")}
    assert sum(map(len, splits.values())) == len(mini.tasks())
    task = splits["test"][0]
    assert mini.task(task.id) is task
    with pytest.raises(UnknownNameError, match=r"Unknown split 'tets'\. Did you mean 'test'"):
        mini.tasks("tets")
    with pytest.raises(UnknownNameError, match="Unknown task of the domain mini"):
        mini.task("mini/none/000")


def test_a_domain_with_other_tasks_leaves_the_loaded_one_as_it_is() -> None:
    domain = load_domain("weather")
    count = len(domain.tasks())
    other = domain.with_tasks(domain.tasks()[:3], {})
    assert (len(other.tasks()), len(domain.tasks())) == (3, count)
    assert other.database is domain.database


def test_a_domain_is_loaded_once(mini_folder: Path) -> None:
    assert load_domain(mini_folder) is load_domain(str(mini_folder))


@pytest.mark.parametrize("name", builtin_domains())
def test_a_shipped_domain_is_built_and_right(name: str) -> None:
    domain = load_domain(name)
    assert domain.name == name
    assert domain.tools
    assert domain.database.entries()
