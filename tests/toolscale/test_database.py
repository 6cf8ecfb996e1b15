"""Tests of the initial database, and of copies of it and of what stands on it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.database.database import Database
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Status


def pickled(value: Any) -> Any:
    """Return what comes back from bytes."""
    return pickle.loads(pickle.dumps(value))


copies = pytest.mark.parametrize("copied", [pickled, copy.deepcopy])


def dump(database: Database) -> list[str]:
    """Return the content as SQL."""
    return [str(database.base.execute(f"SELECT * FROM {name}").fetchall()) for name in database.tables]


def test_rows_are_read_by_key_and_values_by_column(mini: Domain) -> None:
    found = mini.database.row("orders", "O001")
    assert found is not None
    assert found[0] == "O001"
    assert mini.database.row("orders", "O999") is None
    assert mini.database.values("orders.order_id") == [f"O{number:03d}" for number in range(1, 41)]
    assert sum(map(mini.database.count, mini.database.tables)) == mini.database.entries()


@copies
def test_a_copy_of_a_database_holds_the_same_and_is_read_only(mini: Domain, copied: Callable[[Any], Any]) -> None:
    database = copied(mini.database)
    assert (database.image, database.today, dump(database)) == (
        mini.database.image,
        mini.database.today,
        dump(mini.database),
    )
    with pytest.raises(Exception, match="not authorized"):
        database.base.execute("DELETE FROM items")


@copies
@pytest.mark.parametrize("name", ["mini", "restaurant"])
def test_a_copy_of_a_domain_plays_the_same(mini: Domain, name: str, copied: Callable[[Any], Any]) -> None:
    domain = mini if name == "mini" else load_domain(name)
    other = copied(domain)
    assert (other.name, other.rules, other.tasks(), other.dropped) == (
        domain.name,
        domain.rules,
        domain.tasks(),
        domain.dropped,
    )
    session, twin = domain.session(), other.session()
    for task in domain.tasks()[:40]:
        session.reset()
        twin.reset()
        for call in task.reference_calls:
            raw = msgspec.json.encode(call.arguments)
            mine, theirs = domain.tools[call.name], other.tools[call.name]
            assert session.call(mine, mine.decode(raw)) == twin.call(theirs, theirs.decode(raw))
        assert session.snapshot() == twin.snapshot()
        assert domain.verify(task, session, task.answer) == other.verify(task, twin, task.answer)
        assert other.verify(task, twin, task.answer).solved
    session.close()
    twin.close()


@copies
def test_a_copy_of_a_domain_is_right_after_writes(mini: Domain, copied: Callable[[Any], Any]) -> None:
    session = mini.session()
    task = next(t for t in mini.tasks() if any(mini.tools[c.name].effect == "write" for c in t.reference_calls))
    for call in task.reference_calls:
        session.call(mini.tools[call.name], mini.tools[call.name].decode(msgspec.json.encode(call.arguments)))
    assert mini.verify(task, session, task.answer).solved
    other = copied(mini)
    assert dump(other.database) == dump(mini.database)
    moved: Session = copied(session)
    assert moved.wrote
    assert other.verify(task, moved, task.answer).solved
    session.close()
    moved.close()


@copies
def test_a_copy_of_a_tool_says_and_takes_the_same(mini: Domain, copied: Callable[[Any], Any]) -> None:
    for tool in mini.tools.values():
        other = copied(tool)
        assert type(other) is type(tool)
        assert (other.schema, other.effect, other.price, other.latency) == (
            tool.schema,
            tool.effect,
            tool.price,
            tool.latency,
        )
        with pytest.raises(Exception, match="colour"):
            other.decode(b'{"colour": "blue"}')


@copies
def test_a_copy_of_a_function_tool_runs(copied: Callable[[Any], Any]) -> None:
    calculator = copied(load_domain("restaurant").tools["calculator"])
    result = calculator.run(calculator.decode(b'{"expression": "6 * 7"}'), NO_CONTEXT)
    assert (result.status, result.value) == (Status.OK, 42)
