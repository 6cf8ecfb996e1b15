from __future__ import annotations

import hashlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.database.build import build_database
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import build_domain, load_domain, make_domain, read_spec

Broken = Callable[..., Domain]


def test_the_database_is_built_to_the_byte(mini: Domain) -> None:
    assert build_database(mini.spec) == build_database(mini.spec) == mini.database.image


def test_the_database_and_the_tasks_do_not_depend_on_the_process(mini: Domain, mini_folder: Path) -> None:
    program = (
        "import hashlib, sys; from toolorchestra.toolscale.domain_folder import load_domain; "
        "d = load_domain(sys.argv[1]); "
        "print(hashlib.sha256(d.database.image + repr(d.tasks()).encode()).hexdigest()); "
        "assert 'pandas' not in sys.modules"  # takes most of a second
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}  # this process has another
    command = [sys.executable, "-c", program, str(mini_folder)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    assert found == hashlib.sha256(mini.database.image + repr(mini.tasks()).encode()).hexdigest()


def test_another_seed_makes_other_records(mini_folder: Path, edited: Callable[..., Path], mini: Domain) -> None:
    assert make_domain(read_spec(edited("seed", 1))).database.image != mini.database.image


def test_a_built_domain_is_loaded_as_it_was_built(mini_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "built"
    shutil.copytree(mini_folder, folder)
    built = build_domain(folder)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    loaded = load_domain(folder)
    assert loaded is not built
    assert (loaded.database.image, loaded.tasks()) == (built.database.image, built.tasks())
    build_domain(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first


@pytest.mark.parametrize("name", ["domain.db", "tasks.jsonl", "tools.yaml"])
def test_a_built_domain_that_was_changed_is_refused(mini_folder: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "built"
    shutil.copytree(mini_folder, folder)
    build_domain(folder)
    file = folder / name
    file.write_bytes(file.read_bytes().replace(b"C00", b"C000", 1).replace(b"Cancel an order.", b"Cancel it."))
    shown = "*.yaml" if name == "tools.yaml" else name
    with pytest.raises(DomainError) as error:
        load_domain(folder)
    assert f"{shown} is not the one that build.json was made with. Run: toolorchestra build" in str(error.value)


def rows(domain: Domain, sql: str) -> list[Any]:
    return [row[0] for row in domain.database.base.execute(sql)]


@pytest.mark.parametrize(
    ("recipe", "stored"),
    [
        ({"faker": "words", "args": {"nb": 2}}, r'\["\w+", "\w+"\]'),
        ({"faker": "pydict", "args": {"nb_elements": 1, "value_types": ["date"]}}, r'\{"\w+": ".+"\}'),
        ({"faker": "date_object"}, r"\d{4}-\d\d-\d\d"),
        ({"faker": "pydecimal", "args": {"left_digits": 1, "right_digits": 1, "positive": True}}, r"\d\.\d"),
        ({"faker": "uuid4", "args": {"cast_to": None}}, r"[\da-f-]{36}"),
    ],
)
def test_what_faker_makes_of_other_types_is_stored_as_text_or_a_number(
    edited: Callable[..., Path], recipe: dict[str, Any], stored: str
) -> None:
    spec = read_spec(edited("tables.orders.columns.day", {"type": "TEXT", "recipe": recipe}))
    found = rows(Domain(spec), "SELECT day FROM orders")
    assert all(re.fullmatch(stored, one) for one in found), found[:3]


def test_recipes_make_what_they_say(mini: Domain) -> None:
    assert rows(mini, "SELECT order_id FROM orders ORDER BY 1") == [f"O{i:03d}" for i in range(1, 41)]
    assert len(set(rows(mini, "SELECT name FROM customers"))) == 20
    assert set(rows(mini, "SELECT customer_id FROM orders")) <= set(rows(mini, "SELECT customer_id FROM customers"))
    assert all("2025-07-01" <= day <= "2025-07-22" for day in rows(mini, "SELECT day FROM orders"))
    prices = rows(mini, "SELECT price FROM orders ORDER BY order_id")
    assert all(5 <= price <= 50 and price * 2 == int(price * 2) for price in prices)
    assert rows(mini, "SELECT double FROM orders ORDER BY order_id") == [2 * price for price in prices]
    missing = rows(mini, "SELECT count(*) FROM orders WHERE coupon IS NULL")[0]
    assert 8 <= missing <= 32
    assert rows(mini, "SELECT name FROM customers WHERE customer_id = 'C00'") == ["Zoe"]
    assert len(rows(mini, "SELECT dish FROM items")) == 40
    assert len(set(rows(mini, "SELECT order_id FROM notes"))) == 3


def test_tables_are_strict_and_constrained(mini: Domain) -> None:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(mini.database.image)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.isolation_level = None
    for sql, message in [
        ("INSERT INTO orders VALUES ('O1', 'C00', '2025-01-01', 'dear', 1, NULL)", "cannot store TEXT value in REAL"),
        ("INSERT INTO orders VALUES ('O1', 'C99', '2025-01-01', 1, 2, NULL)", "FOREIGN KEY"),
        ("INSERT INTO orders VALUES ('O1', 'C00', NULL, 1, 2, NULL)", "NOT NULL"),
        ("INSERT INTO orders VALUES ('O1', 'C00', '2025-01-01', -1, 2, NULL)", "CHECK"),
        ("INSERT INTO customers VALUES ('C98', 'Zoe', 0)", "UNIQUE"),
        ("INSERT INTO items VALUES ('O001', 'soup', 1)", "UNIQUE"),
    ]:
        with pytest.raises(sqlite3.IntegrityError, match=message):
            connection.execute(sql)
    connection.close()


C = "tables.orders.columns."


@pytest.mark.parametrize(
    ("path", "value", "where", "message"),
    [
        (f"{C}day.recipe", {"faker": "frist_name"}, f"{C}day.recipe", "Did you mean 'first_name'"),
        (f"{C}day.recipe", {"faker": "first_name", "args": {"x": 1}}, f"{C}day.recipe", "cannot be carried out"),
        (f"{C}day.recipe", {"choice": ["a", "b"], "unique": True}, f"{C}day.recipe", "too few distinct values"),
        (f"{C}price.recipe", {"range": [5, 1]}, f"{C}price.recipe", "cannot be carried out"),
        (f"{C}price.recipe", {"range": [1, 5], "step": 0}, f"{C}price.recipe", "cannot be carried out"),
        (f"{C}day.recipe", {"dates": ["2025-02-30", "2025-03-01"]}, f"{C}day.recipe", "day is out of range"),
        (f"{C}order_id.recipe", {"sequence": "{x}"}, f"{C}order_id.recipe.sequence", "matching regex"),
        (f"{C}order_id.recipe", {"sequence": "{0.real}"}, f"{C}order_id.recipe.sequence", "matching regex"),
        (f"{C}order_id.recipe", {"sequence": "O{:09999d}"}, f"{C}order_id.recipe.sequence", "matching regex"),
        (f"{C}day.recipe", {"faker": "seed_instance"}, f"{C}day.recipe", "Unknown Faker provider"),
        (f"{C}day.recipe", {"faker": "__class__"}, f"{C}day.recipe.faker", "matching regex"),
        (f"{C}double.recipe", {"sql": "random()"}, f"{C}double.recipe.sql", "not authorized"),
        ("tables.items.query", "ATTACH 'evil.db' AS evil", "tables.items.query", "may only read"),
        ("tables.items.query", "DELETE FROM orders RETURNING order_id", "tables.items.query", "may only read"),
        ("tables.items.query", "PRAGMA table_info(orders)", "tables.items.query", "may only read"),
        ("consistency", [{"rule": "r", "sql": "SELECT load_extension('x')"}], "consistency[0].sql", "not authorized"),
        (
            "intents.ask_price.bindings",
            "SELECT order_id FROM orders ORDER BY random()",
            "intents.ask_price.bindings",
            "not authorized",
        ),
        (f"{C}double.recipe", {"sql": "price * tow"}, f"{C}double.recipe.sql", "no such column: tow"),
        (f"{C}double.recipe", {"sql": "'dear'"}, "tables.orders", "cannot store TEXT value in REAL column"),
        (f"{C}order_id.recipe", {"value": "O1"}, "tables.orders", "UNIQUE constraint failed"),
        (f"{C}customer_id.recipe", {"value": "C99"}, "tables.orders", "FOREIGN KEY constraint failed"),
        ("tables.orders.checks", ["price > 20"], "tables.orders", "CHECK constraint failed"),
        ("tables.orders.checks", ["prize > 20"], "tables.orders", "no such column: prize"),
        ("tables.items.query", "SELECT order_id AS oder FROM orders", "tables.items.query", "Did you mean 'order_id'"),
        ("tables.items.query", "SELECT order_id FROM oders", "tables.items.query", "no such table: oders"),
        ("tables.customers.rows", [{"customer_id": "C00"}, {"nme": "x"}], "tables.customers.rows[1]", "'name'"),
        (
            "consistency",
            [{"rule": "all cheap", "sql": "SELECT * FROM orders WHERE price > 40"}],
            "consistency[0].sql",
            "Records break the rule 'all cheap', e.g. ('O",
        ),
        (
            "consistency",
            [{"rule": "r", "sql": "SELECT 1 WHERE 0"}, {"rule": "s", "sql": "SELEC"}],
            "consistency[1].sql",
            "SQL error",
        ),
    ],
)
def test_records_that_cannot_be_made_are_errors_at_their_place(
    broken: Broken, path: str, value: Any, where: str, message: str
) -> None:
    with pytest.raises(DomainError) as error:
        broken(path, value)
    assert error.value.path == where
    assert message in str(error.value)
