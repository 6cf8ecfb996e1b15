"""SQL that a domain holds beside its tools reads the domain's tables, in bounded work, and does nothing else."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.common.yaml_reader import convert
from toolorchestra.toolscale.database.format import DomainSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import make_domain

WORLD: dict[str, Any] = {
    "name": "world",
    "title": "World",
    "description": "A table.",
    "today": "2025-07-23",
    "tools": {"ask": {"description": "Ask.", "returns": {"shape": "value", "sql": "SELECT 1"}}},
    "tables": {
        "a": {
            "primary_key": "k",
            "columns": {
                "k": {"type": "INTEGER", "recipe": {"sequence": "{}"}},
                "v": {"type": "TEXT", "nullable": True},
            },
            "checks": ["k > 0"],
            "query": "SELECT 1 AS k",
        }
    },
    "consistency": [{"rule": "k is positive", "sql": "SELECT k FROM a WHERE k < 1"}],
    "intents": {
        "ask_k": {
            "description": "Ask.",
            "bindings": "SELECT k FROM a",
            "instructions": ["What is {k}?", "{k}?"],
            "communicate": ["{k}"],
            "answer": "It is {k}.",
        }
    },
}
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
PLACES = {
    "query": ("tables", "a", "query"),
    "recipe": ("tables", "a", "columns", "v", "recipe"),
    "check": ("tables", "a", "checks", 0),
    "rule": ("consistency", 0, "sql"),
    "bindings": ("intents", "ask_k", "bindings"),
}


def build(place: str = "", sql: str = "") -> Domain:
    world: Any = copy.deepcopy(WORLD)
    if place:
        *path, last = PLACES[place]
        target = world
        for key in path:
            target = target[key]
        target[last] = {"sql": sql} if place == "recipe" else sql
    return make_domain(convert(world, DomainSpec))


def test_the_world_itself_is_sound() -> None:
    assert len(build().tasks()) == 1


@pytest.mark.parametrize(
    ("place", "sql"),
    [
        ("query", f"{ENDLESS} SELECT i AS k FROM n"),
        ("query", f"{ENDLESS} SELECT max(i) AS k FROM n"),
        ("query", f"{ENDLESS} SELECT i AS k, printf('%.90000c', 'x') AS v FROM n"),
        ("recipe", f"({ENDLESS} SELECT max(i) FROM n)"),
        ("rule", f"{ENDLESS} SELECT max(i) FROM n"),
        ("bindings", f"{ENDLESS} SELECT i AS k FROM n"),
        ("bindings", f"{ENDLESS} SELECT max(i) AS k FROM n"),
    ],
)
def test_work_without_end_is_stopped(place: str, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolorchestra.toolscale.database.sql._MAX_TICKS", 5_000)
    with pytest.raises(DomainError, match=r"took too long|more than 200,000 rows"):
        build(place, sql)


@pytest.mark.parametrize("place", ["query", "rule", "bindings"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT rowid AS k FROM sqlite_master",
        "SELECT count(*) AS k FROM sqlite_schema",
        "ATTACH 'other.db' AS other",
        "VACUUM INTO 'other.db'",
        "PRAGMA writable_schema = 1",
        "SELECT load_extension('x') AS k",
        "SELECT random() AS k",
        "DELETE FROM a RETURNING k",
        "SELECT 1 AS k; DROP TABLE a",
    ],
)
def test_sql_of_a_domain_reads_its_tables_and_nothing_else(
    place: str, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DomainError, match=r"SQL error"):
        build(place, sql)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("place", "sql", "message"),
    [
        ("check", "load_extension('x') IS NULL", "not authorized"),
        ("check", "random() > 0", "not authorized"),
        ("check", "1); DROP TABLE a; --", "syntax error"),
        ("check", "(SELECT count(*) FROM sqlite_master) > 0", "subqueries prohibited"),
        ("recipe", "(SELECT sql FROM sqlite_master)", "prohibited"),
        ("query", "-- nothing", "no rows|yields no task"),
    ],
)
def test_checks_and_recipes_are_confined_too(place: str, sql: str, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        build(place, sql)


@pytest.mark.parametrize("row", [{"k": 10**30}, {"k": 2, "v": "\ud800"}, {"k": float("inf")}])
def test_values_that_sqlite_cannot_hold_are_errors_of_the_table(row: dict[str, Any]) -> None:
    world = copy.deepcopy(WORLD)
    world["tables"]["a"]["rows"] = [row]
    with pytest.raises(DomainError, match=r"^tables\.a: The rows cannot be inserted"):
        make_domain(convert(world, DomainSpec))
