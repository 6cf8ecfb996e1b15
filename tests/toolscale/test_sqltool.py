from __future__ import annotations

import copy
import random
import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.database.build import create_schema
from toolorchestra.toolscale.database.connection import Connection
from toolorchestra.toolscale.database.format import ToolSpec
from toolorchestra.toolscale.database.sql import prepare_connection
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tools.guess import Guesser
from toolorchestra.toolscale.tools.sqltool import SqlTool
from toolorchestra.toolscale.tools.tool import ArgumentError, Status, ToolResult
from toolorchestra.toolscale.tools.tool_compiler import compile_tool

Compile = Callable[..., SqlTool]

P = {"type": "string", "description": "p"}


@pytest.fixture(scope="module")
def compiled(mini: Domain) -> Compile:
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=Connection)
    create_schema(connection, mini.spec)
    prepare_connection(connection)

    def compile_(**fields: Any) -> SqlTool:
        spec = msgspec.convert({"description": "d", **fields}, ToolSpec)
        return compile_tool(
            "t", spec, connection=connection, tables=mini.spec.tables, today="2025-07-23", file="tools.yaml"
        )

    return compile_


def value(sql: str) -> dict[str, Any]:
    return {"returns": {"shape": "value", "sql": sql}}


def error(compiled: Compile, **fields: Any) -> DomainError:
    with pytest.raises(DomainError) as found:
        compiled(**fields)
    assert str(found.value).startswith(f"tools.yaml: {found.value.path}: ")
    return found.value


@pytest.mark.parametrize(
    ("fields", "effect", "reads", "writes"),
    [
        (value("SELECT 1"), "pure", set(), set()),
        (value("SELECT name FROM customers"), "read", {"customers"}, set()),
        (value("WITH c AS (SELECT name FROM customers) SELECT * FROM c"), "read", {"customers"}, set()),
        (value("SELECT (SELECT count(*) FROM items WHERE order_id = o.order_id) FROM orders o"), "read",
         {"orders", "items"}, set()),
        ({"statements": ["DELETE FROM items"]}, "write", set(), {"items"}),
        ({"statements": ["INSERT INTO items SELECT order_id, 'x', 1 FROM orders"]}, "write", {"orders"}, {"items"}),
        ({"guards": [{"require": "EXISTS (SELECT 1 FROM customers)", "error": "e"}], **value("SELECT 1")}, "read",
         {"customers"}, set()),
    ],
)  # fmt: skip
def test_the_effect_is_derived_from_the_tables_touched(
    compiled: Compile, fields: dict[str, Any], effect: str, reads: set[str], writes: set[str]
) -> None:
    tool = compiled(**fields)
    assert (tool.effect, tool.reads, tool.writes) == (effect, reads, writes)


OUTSIDE = [
    ("SELECT sql FROM sqlite_master", "reaches for 'sqlite_master'"),
    ("SELECT name FROM sqlite_schema", "reaches for 'sqlite_"),
    ("WITH x AS (SELECT sql FROM sqlite_master) SELECT * FROM x", "reaches for 'sqlite_master'"),
    ("SELECT * FROM pragma_table_info('orders')", "pragma_table_info"),
    ("SELECT random()", "uses the function random()"),
    ("SELECT RANDOM() FROM orders", "uses the function random()"),
    ("WITH x AS (SELECT random()) SELECT * FROM x", "uses the function random()"),
    ("SELECT hex(randomblob(16))", "uses the function randomblob()"),
    ("SELECT CURRENT_TIMESTAMP", "uses the function current_timestamp()"),
    ("SELECT load_extension('x')", "uses the function load_extension()"),
    ("SELECT last_insert_rowid()", "uses the function last_insert_rowid()"),
]


@pytest.mark.parametrize(("sql", "reason"), OUTSIDE)
def test_reading_is_confined_when_a_tool_is_compiled(compiled: Compile, sql: str, reason: str) -> None:
    found = error(compiled, **value(sql))
    assert found.path == "tools.t.returns.sql"
    assert reason in str(found)
    assert sql in str(found)


@pytest.mark.parametrize("sql", [sql for sql, _ in OUTSIDE])
def test_reading_is_confined_when_a_session_runs_it(session: Session, sql: str) -> None:
    with pytest.raises(sqlite3.DatabaseError, match=r"not authorized|prohibited"):
        session.connection.execute(sql).fetchall()


FORBIDDEN = [
    ("ATTACH DATABASE ':memory:' AS x", "SQLite action 24"),
    ("DETACH DATABASE main", "SQLite action 25"),
    ("PRAGMA foreign_keys = OFF", "SQLite action 19"),
    ("PRAGMA writable_schema = ON", "SQLite action 19"),
    ("DROP TABLE orders", "sqlite_master"),
    ("CREATE TABLE x (a)", "sqlite_master"),
    ("CREATE TEMP TABLE x (a)", "sqlite_temp_master"),
    ("CREATE TRIGGER x AFTER DELETE ON items BEGIN SELECT 1; END", "SQLite action 7"),
    ("ALTER TABLE orders ADD COLUMN x", "SQLite action 26"),
    ("UPDATE orders SET order_id = 'x'", "changes the primary key orders.order_id"),
    ("UPDATE items SET dish = 'x'", "changes the primary key items.dish"),
    ("INSERT INTO items VALUES ('O001', 'x', 1) ON CONFLICT DO UPDATE SET dish = 'y'", "the primary key items.dish"),
    ("DELETE FROM sqlite_master", "sqlite_master"),
    ("INSERT INTO orders SELECT random(), '', '', 1, 1, ''", "uses the function random()"),
    ("VACUUM", "Expected INSERT, UPDATE, DELETE or SELECT, found 'VACUUM'"),
    ("REINDEX", "SQLite action 27"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "reason"), FORBIDDEN)
def test_writing_is_confined_when_a_tool_is_compiled(compiled: Compile, sql: str, reason: str) -> None:
    found = error(compiled, statements=["DELETE FROM items", sql])
    assert found.path == "tools.t.statements[1]"
    assert reason in str(found)


@pytest.mark.parametrize("sql", [sql for sql, _ in FORBIDDEN])
def test_writing_is_confined_when_a_session_runs_it(session: Session, sql: str) -> None:
    with pytest.raises(sqlite3.Error, match=r"authorized|prohibited|VACUUM|may not be modified"):
        session.connection.execute(sql)
    assert session.touched() == {}


@pytest.mark.parametrize(
    "sql", ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT x", "ROLLBACK TO episode", "RELEASE episode"]
)
def test_a_tool_cannot_touch_the_sessions_savepoints(compiled: Compile, sql: str) -> None:
    assert "does something that tools may not" in str(error(compiled, statements=[sql]))


@pytest.mark.parametrize(
    "sql",
    ["SELECT date('now')", "SELECT date()", "SELECT strftime('%Y')", "SELECT strftime('%Y', 'NOW')",
     "SELECT datetime(:today, 'localtime')", "SELECT julianday(:today, 'utc')", "SELECT time ( 'now' )",
     "SELECT date(:p)", "SELECT date(coalesce(:p, :today))", "SELECT strftime('%Y', :p, '+1 day')"],
)  # fmt: skip
def test_the_machines_clock_is_out_of_reach(compiled: Compile, sql: str) -> None:
    found = error(compiled, parameters={"p": P}, **value(sql))
    assert "clock" in str(found)
    assert "Use :today" in found.remedy


@pytest.mark.parametrize("sql", ["SELECT date(:today, '+7 days')", "SELECT date(:p, '+1 day')", "SELECT 'now' || :p"])
def test_dates_are_reckoned_from_the_domains_today(compiled: Compile, sql: str) -> None:
    assert compiled(parameters={"p": {**P, "format": "date"}}, **value(sql)).effect == "pure"


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        (value("SELECT nme FROM customers"), "returns.sql", "no such column: nme"),
        (value("SELECT 1; DELETE FROM items"), "returns.sql", 'near ";"'),
        (value("SELECT :tody"), "returns.sql", "Did you mean 'today'"),
        (value("DELETE FROM items"), "returns.sql", "Expected a SELECT, found 'DELETE FROM items'"),
        (value("WITH x AS (SELECT 1) DELETE FROM items"), "returns.sql", "SQL error"),
        (value("SELECT 1 AS a, 2 AS a"), "returns.sql", "The result column 'a' stands twice. Name one with AS."),
        (
            {"returns": {"shape": "row", "sql": "SELECT 1 AS a", "json": ["b"]}},
            "returns.json",
            "Unknown result column 'b'",
        ),
        ({"statements": ["DELETE FROM items; DELETE FROM orders"]}, "statements[0]", "one statement at a time"),
        ({"statements": ["SELECT 1"]}, "statements", "No statement writes. Use `returns` for reading."),
        ({"statements": ["DELETE FROM itms"]}, "statements[0]", "no such table: itms"),
        (
            {"statements": ["DELETE FROM items"], "returns": {"shape": "row", "sql": "SELECT 1", "empty": "e"}},
            "returns.empty",
            "cannot fail after it wrote. Use a guard.",
        ),
        ({"guards": [{"require": "1 +", "error": "e"}], **value("SELECT 1")}, "guards[0].require", "SQL error"),
        ({"guards": [{"require": "1", "error": "no {q}"}], **value("SELECT 1")}, "guards[0].error", "placeholder 'q'"),
        ({"parameters": {"today": P}, **value("SELECT 1")}, "parameters.today", "Choose another name."),
        (
            {"parameters": {"p": {**P, "column": "orders.naem"}}, **value("SELECT 1")},
            "parameters.p.column",
            "column of orders",
        ),
        ({"parameters": {"p": {**P, "column": "order.name"}}, **value("SELECT 1")}, "parameters.p.column", "'orders'"),
        (
            {"parameters": {"p": {**P, "items": "string"}}, **value("SELECT 1")},
            "parameters.p.items",
            "Only arrays have items",
        ),
        (
            {"parameters": {"p": {**P, "default": "x"}}, **value("SELECT 1")},
            "parameters.p.default",
            "Set `required: false`.",
        ),
        (
            {"parameters": {"p": {**P, "type": "integer", "required": False, "default": "x"}}, **value("SELECT 1")},
            "parameters.p.default",
            "found 'x'",
        ),
        (
            {"parameters": {"p": {**P, "type": "array", "enum": ["a"]}}, **value("SELECT 1")},
            "parameters.p.enum",
            "array",
        ),
        ({"operates": {"order": ":p"}, "parameters": {"p": P}, **value("SELECT 1")}, "operates.order", "'orders'"),
        (
            {"operates": {"orders": ":q"}, "parameters": {"p": P}, **value("SELECT 1")},
            "operates.orders",
            "parameter 'q'",
        ),
        ({"operates": {"orders": ".id"}, **value("SELECT 1 AS a")}, "operates.orders", "result column 'id'"),
        (
            {"operates": {"orders": "id"}, **value("SELECT 1 AS a")},
            "operates.orders",
            "Expected ':parameter' or '.column'",
        ),
        (
            {"operates": {"items": ":p"}, "parameters": {"p": P}, **value("SELECT 1")},
            "operates.items",
            "(order_id, dish)",
        ),
    ],
)
def test_compile_errors_name_file_place_and_remedy(
    compiled: Compile, fields: dict[str, Any], path: str, message: str
) -> None:
    found = error(compiled, **fields)
    assert found.path == f"tools.t.{path}"
    assert message in str(found)


def test_what_a_model_sends_reaches_sql_as_values_only(session: Session, call: Callable[..., ToolResult]) -> None:
    for name in ("'; DROP TABLE orders; --", "' OR '1'='1", '"', "%", "\x00", "x" * 200):
        result = call(session, "get_customer", name=name)
        assert result.status is Status.EXEC_ERR
        assert result.error is not None
        assert result.error.startswith("No customer is called ")
    assert session.touched() == {}


def test_results_have_the_shape_that_the_tool_declares(session: Session, call: Callable[..., ToolResult]) -> None:
    row = call(session, "get_order", order_id="O001")
    assert row.value["dishes"] == ["soup"]
    assert row.operated == (("orders", "O001"),)
    assert call(session, "count_orders").value == 40
    assert len(call(session, "list_orders", most=3).value) == 3
    assert set(call(session, "list_orders", most=1).value[0]) == {"order_id", "day", "price"}
    assert call(session, "list_orders", customer_id="nobody").value == []
    assert call(session, "move_order", order_id="O001", customer_id="C02").value == ["C02"]


def test_guards_are_checked_in_order_and_change_nothing(session: Session, call: Callable[..., ToolResult]) -> None:
    unknown = call(session, "make_order", customer_id="C99", dishes=[], price=1)
    assert unknown.error == "No customer C99. Look the id up with get_customer."
    assert call(session, "make_order", customer_id="C02", dishes=[], price=1).error == "Name at least one dish."
    assert call(session, "cancel_order", order_id=" ").error == "No order ' '."
    assert session.touched() == {}


def test_a_broken_constraint_is_the_calls_error(session: Session, call: Callable[..., ToolResult]) -> None:
    result = call(session, "move_order", order_id="O001", customer_id="C99")
    assert result.status is Status.EXEC_ERR
    assert "FOREIGN KEY constraint failed" in str(result.error)
    assert "Check the arguments" in str(result.error)
    assert session.touched() == {}


def test_runaway_sql_times_out(session: Session, call: Callable[..., ToolResult]) -> None:
    result = call(session, "spin")
    assert result.status is Status.TIMEOUT
    assert "took too long" in str(result.error)
    assert call(session, "count_orders").value == 40


@pytest.mark.parametrize(
    ("tool", "raw", "message"),
    [
        ("get_order", b"", "not a valid JSON object"),
        ("get_order", b"[1]", "Expected object, got array"),
        ("get_order", b"{", "not a valid JSON object"),
        ("get_order", b'{"order_id": "O001", "x": 1}', "Unknown argument of get_order 'x'"),
        ("get_order", b'{"orderid": "O001"}', "Did you mean 'order_id'?"),
        ("get_order", b"{}", "get_order needs the argument 'order_id'. Expected arguments: {\"order_id\": string}."),
        ("get_order", b'{"order_id": null}', "Argument 'order_id' of get_order: Expected string, got null."),
        ("get_order", b'{"order_id": "' + b"x" * 201 + b'"}', "length <= 200"),
        ("get_order", b'{"order_id": "\xff"}', "not a valid JSON object"),
        ("get_order", b'{"order_id": "\\ud800"}', "not a valid JSON object"),
        ("list_orders", b'{"most": 0}', "It is an integer, at least 1, at most 20 (Most orders listed)."),
        ("list_orders", b'{"most": 1.5}', "Expected integer"),
        ("list_orders", b'{"most": true}', "Expected integer"),
        ("list_orders", b'{"day": "23.07.2025"}', "a date as YYYY-MM-DD"),
        ("make_order", b'{"customer_id": "C01", "dishes": "soup", "price": 1}', "It is an array of strings (Dishes)."),
        ("make_order", b'{"customer_id": "C01", "dishes": [1], "price": 1}', "Argument 'dishes' of make_order"),
        ("make_order", b'{"customer_id": "C01", "dishes": [], "price": NaN}', "not a valid JSON object"),
        ("make_order", b'{"customer_id": "C01", "dishes": [], "price": 1e999}', "Number out of range"),
        ("write_note", b'{"order_id": "O001", "body": "x", "reply_to": 9007199254740993}', "9007199254740992"),
    ],
)
def test_wrong_arguments_are_explained(mini: Domain, tool: str, raw: bytes, message: str) -> None:
    with pytest.raises(ArgumentError) as found:
        mini.tools[tool].decode(raw)
    assert message in str(found.value)


def test_arguments_left_out_take_their_defaults(mini: Domain) -> None:
    assert mini.tools["list_orders"].decode(b'{"day": "2025-07-01"}') == {
        "customer_id": None,
        "day": "2025-07-01",
        "most": 5,
    }


def test_the_schema_is_the_openai_function_schema(mini: Domain) -> None:
    schema = mini.tools["list_orders"].schema
    assert schema["type"] == "function"
    function = schema["function"]
    assert function["name"] == "list_orders"
    assert function["parameters"]["required"] == []
    assert function["parameters"]["additionalProperties"] is False
    assert function["parameters"]["properties"]["most"] == {
        "type": "integer", "description": "Most orders listed.", "minimum": 1, "maximum": 20, "default": 5,
    }  # fmt: skip
    assert mini.tools["make_order"].schema["function"]["parameters"]["properties"]["dishes"]["items"] == {
        "type": "string"
    }


def test_an_array_holds_objects_with_fields(compiled: Compile, mini: Domain) -> None:
    fields = {"name": P, "seats": {**P, "type": "integer"}, "note": {**P, "required": False}}
    people = {"type": "array", "description": "people", "items": "object", "fields": fields}
    sql = "SELECT sum(value ->> 'seats') FROM json_each(:people)"
    tool = compiled(parameters={"people": people}, **value(sql))
    arguments = tool.decode(b'{"people": [{"name": "Ada", "seats": 2, "else": 1}, {"name": "Bo", "seats": 3}]}')
    assert arguments == {"people": [{"name": "Ada", "seats": 2}, {"name": "Bo", "seats": 3}]}
    assert Session(mini.database).call(tool, arguments).value == 5
    items = tool.schema["function"]["parameters"]["properties"]["people"]["items"]
    assert items["required"] == ["name", "seats"]
    with pytest.raises(ArgumentError, match="'people' of t: Object missing required field `seats`"):
        tool.decode(b'{"people": [{"name": "Ada"}]}')
    guessed = Guesser(mini.database, random.Random(0)).arguments(tool)
    assert tool.decode(msgspec.json.encode(guessed)) == guessed
    assert "has fields" in error(compiled, parameters={"p": {**people, "fields": {}}}, **value("SELECT 1")).message


def test_a_copy_of_a_tool_reads_arguments_alike_and_has_a_price_of_its_own(mini: Domain) -> None:
    tool = mini.tools["get_order"]
    twin = copy.copy(tool)
    twin.price = 9.0
    assert tool.price != 9.0
    assert twin.decode(b'{"order_id": "O001"}') == tool.decode(b'{"order_id": "O001"}') == {"order_id": "O001"}
    with pytest.raises(ArgumentError):
        twin.decode(b'{"order": "O001"}')
