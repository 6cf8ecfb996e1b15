from __future__ import annotations

import copy
import pickle
import random
import sqlite3
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from toolorchestra.toolscale.database.database import Changes
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tools.guess import Guesser
from toolorchestra.toolscale.tools.tool import Status, Tool, ToolContext, ToolResult

Call = Callable[..., ToolResult]

TOOLS = (
    "get_order", "list_orders", "count_orders", "make_order", "cancel_order", "move_order", "take_coupon",
    "replace_order", "write_note",
)  # fmt: skip
steps = st.lists(st.tuples(st.sampled_from(TOOLS), st.integers(0, 2**32)), max_size=12)


def tables(session: Session) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows."""
    return {t: session.connection.execute(f"SELECT * FROM {t}").fetchall() for t in session.database.tables}


def play(mini: Domain, session: Session, plan: list[tuple[str, int]]) -> list[ToolResult]:
    """Make plausible calls that the plan's seeds determine."""
    results = []
    for name, seed in plan:
        tool = mini.tools[name]
        results.append(session.call(tool, Guesser(session.database, random.Random(seed)).arguments(tool)))
    return results


def differences(session: Session) -> Changes:
    """Return by comparison of whole tables which rows differ from the initial database."""
    changed: Changes = {}
    now = tables(session)
    for name, rows in now.items():
        width = session.database.access[name].width

        def keyed(rows: list[tuple[Any, ...]], width: int = width) -> dict[Any, tuple[Any, ...]]:
            return {row[:width] if width > 1 else row[0]: row for row in rows}

        before = keyed(session.database.base.execute(f"SELECT * FROM {name}").fetchall())
        after = keyed(rows)
        for key in before.keys() | after.keys():
            if before.get(key) != after.get(key):
                changed.setdefault(name, {})[key] = after.get(key)
    return changed


def net(session: Session) -> Changes:
    """Return the rows that the journal names and that differ from the initial database."""
    found: Changes = {}
    for name, rows in session.touched().items():
        for key, row in rows.items():
            if row != session.database.row(name, key):
                found.setdefault(name, {})[key] = row
    return found


@given(steps)
def test_the_journal_finds_what_a_comparison_of_all_rows_finds(mini: Domain, plan: list[tuple[str, int]]) -> None:
    session = mini.session()
    play(mini, session, plan)
    assert net(session) == differences(session)
    session.close()


@given(steps)
def test_a_reset_undoes_everything(mini: Domain, plan: list[tuple[str, int]]) -> None:
    session = mini.session()
    before = tables(session)
    play(mini, session, plan)
    session.reset()
    assert tables(session) == before
    assert session.touched() == {}
    assert session.operated == set()
    assert not session.wrote
    session.close()


@given(steps, steps)
def test_an_episode_goes_on_the_same_from_a_snapshot(
    mini: Domain, plan: list[tuple[str, int]], later: list[tuple[str, int]]
) -> None:
    session, other = mini.session(), mini.session()
    play(mini, session, plan)
    snapshot, rows, touched = session.snapshot(), tables(session), session.touched()
    expected = play(mini, session, later), tables(session), session.touched(), session.operated.copy()
    play(mini, other, later)
    for one in (session, other, other):
        one.restore(snapshot)
        assert (tables(one), one.touched()) == (rows, touched)
        assert (play(mini, one, later), tables(one), one.touched(), one.operated) == expected
    session.close()
    other.close()


@settings(max_examples=25)
@given(steps, steps)
def test_an_interrupted_write_leaves_nothing_behind_and_takes_nothing_along(
    mini: Domain, plan: list[tuple[str, int]], later: list[tuple[str, int]]
) -> None:
    session = mini.session()
    play(mini, session, plan)
    session.restore(session.snapshot())
    play(mini, session, later)
    before = tables(session), session.touched(), session.operated.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolorchestra.toolscale.tasks.session._MAX_TICKS", 10)
        assert session.call(mini.tools["spin_writing"], {}).status is Status.TIMEOUT
    assert (tables(session), session.touched(), session.operated) == before
    session.reset()
    assert differences(session) == {}
    session.close()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("move_order", {"order_id": "O001", "customer_id": "C99"}),
        ("make_order", {"customer_id": "C99", "dishes": ["soup"], "price": 1.0}),
        ("make_order", {"customer_id": "C02", "dishes": ["soup", "soup"], "price": 1.0}),
        ("make_order", {"customer_id": "C02", "dishes": ["soup"], "price": -1.0}),
        ("write_note", {"order_id": "O001", "body": "x", "reply_to": 99}),
    ],
)
def test_a_call_that_errs_leaves_nothing_behind(
    session: Session, mini: Domain, name: str, arguments: dict[str, Any]
) -> None:
    session.call(mini.tools["move_order"], {"order_id": "O002", "customer_id": "C03"})
    before = tables(session), session.touched()
    result = session.call(mini.tools[name], {"reply_to": None} | arguments if name == "write_note" else arguments)
    assert result.status is Status.EXEC_ERR
    assert (tables(session), session.touched()) == before


class Crashing(Tool):
    effect = "write"

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        context.session.execute("DELETE FROM items")
        raise ZeroDivisionError


def test_a_tool_that_crashes_leaves_nothing_behind(session: Session) -> None:
    before = tables(session)
    with pytest.raises(ZeroDivisionError):
        session.call(Crashing("crash", "d", {}), {})
    assert tables(session) == before
    session.reset()
    assert tables(session) == before


def test_rows_that_replace_removes_are_in_the_journal(session: Session, call: Call) -> None:
    coupon, victim = session.connection.execute(
        "SELECT coupon, order_id FROM orders WHERE coupon IS NOT NULL LIMIT 1"
    ).fetchone()
    assert call(session, "replace_order", order_id="O999", coupon=coupon).status is Status.OK
    assert session.touched()["orders"][victim] is None
    assert net(session) == differences(session)


def test_unique_values_may_have_changed_hands_in_a_snapshot(session: Session, mini: Domain, call: Call) -> None:
    first, second = session.connection.execute(
        "SELECT order_id, coupon FROM orders WHERE coupon IS NOT NULL LIMIT 2"
    ).fetchall()
    assert call(session, "take_coupon", order_id=first[0], coupon=second[1]).status is Status.OK
    assert call(session, "take_coupon", order_id=second[0], coupon=first[1]).status is Status.OK
    rows, other = tables(session), mini.session()
    other.restore(session.snapshot())
    assert tables(other) == rows
    other.close()


def test_written_twice_or_back_counts_once(session: Session, call: Call) -> None:
    home = session.database.row("orders", "O001")
    assert home is not None
    for customer in ("C02", "C03", home[1]):
        call(session, "move_order", order_id="O001", customer_id=customer)
    assert session.touched() == {"orders": {"O001": home}}
    assert net(session) == {}


def test_entries_operated_on_are_those_looked_up_by_identity(session: Session, call: Call) -> None:
    call(session, "get_order", order_id="O001")
    call(session, "get_customer", name="Zoe")
    call(session, "get_order", order_id="O999")
    call(session, "list_orders")
    assert session.operated == {("orders", "O001"), ("customers", "C00")}


def pickled(session: Session) -> Session:
    """Return a session that went through bytes."""
    found = pickle.loads(pickle.dumps(session))
    assert isinstance(found, Session)
    return found


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy])
@settings(max_examples=25)
@given(plan=steps, later=steps)
def test_a_copy_of_a_session_goes_on_the_same(
    mini: Domain, copied: Callable[[Session], Session], plan: list[tuple[str, int]], later: list[tuple[str, int]]
) -> None:
    session = mini.session()
    play(mini, session, plan)
    other = copied(session)
    assert other.connection is not session.connection
    assert (other.snapshot(), other.wrote, tables(other)) == (session.snapshot(), session.wrote, tables(session))
    before = tables(session)
    results = play(mini, other, later)
    assert tables(session) == before
    assert play(mini, session, later) == results
    assert (other.snapshot(), tables(other)) == (session.snapshot(), tables(session))
    for one in (session, other):
        one.reset()
        assert differences(one) == {}
        one.close()


def test_sessions_do_not_share_anything(mini: Domain, call: Call) -> None:
    one, other = mini.session(), mini.session()
    call(one, "cancel_order", order_id="O001")
    assert differences(other) == {}
    one.close()
    other.close()


def test_the_initial_database_is_read_only(mini: Domain) -> None:
    with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
        mini.database.base.execute("DELETE FROM items")


def reads(session: Session, mini: Domain, name: str, **arguments: Any) -> ToolResult:
    return session.call(mini.tools[name], arguments)


@given(steps)
def test_what_is_known_of_the_initial_rows_changes_no_result(mini: Domain, plan: list[tuple[str, int]]) -> None:
    session = mini.session()
    known = mini.database.known_reads
    known.clear()
    first = play(mini, session, plan), session.operated.copy(), session.refused.copy(), tables(session)
    session.reset()
    assert (play(mini, session, plan), session.operated, session.refused, tables(session)) == first
    session.reset()
    known.clear()
    assert (play(mini, session, plan), session.operated, session.refused, tables(session)) == first
    session.close()


def test_a_result_that_is_known_is_an_object_of_its_own(mini: Domain) -> None:
    session, other = mini.session(), mini.session()
    found = reads(session, mini, "get_order", order_id="O001").value
    expected = copy.deepcopy(found)
    found.clear()
    assert reads(session, mini, "get_order", order_id="O001").value == expected
    assert reads(other, mini, "get_order", order_id="O001").value == expected
    assert other.operated == session.operated != set()


def test_rows_are_read_anew_after_a_write_and_known_again_after_a_reset(
    mini: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, tool = mini.session(), mini.tools["get_order"]
    before = reads(session, mini, "get_order", order_id="O002").value
    session.call(mini.tools["move_order"], {"order_id": "O002", "customer_id": "C03"})
    assert reads(session, mini, "get_order", order_id="O002").value == before | {"customer_id": "C03"}
    session.reset()
    monkeypatch.setattr(tool, "run", lambda arguments, context: pytest.fail("it is known"))
    assert reads(session, mini, "get_order", order_id="O002").value == before
    assert mini.tools["get_order"].reads_rows
    assert not mini.tools["move_order"].reads_rows


def test_no_more_is_known_than_memory_is_meant_for(mini: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    session, known = mini.session(), mini.database.known_reads
    monkeypatch.setattr("toolorchestra.toolscale.tasks.session._MAX_KNOWN_READS", 3)
    known.clear()
    for number in range(8):
        reads(session, mini, "get_order", order_id=f"O00{number}")
        assert len(known) <= 3
    monkeypatch.setattr("toolorchestra.toolscale.tasks.session._MAX_KNOWN_BYTES", 5)
    known.clear()
    assert reads(session, mini, "get_order", order_id="O001").status is Status.OK
    assert not known


class Inexact(Tool):
    reads_rows = True

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult.ok(float("inf"))


def test_a_value_that_json_cannot_hold_is_read_each_time(session: Session) -> None:
    tool = Inexact("inexact", "", {})
    assert [session.call(tool, {}).value for _ in range(2)] == [float("inf")] * 2


def test_a_session_that_nothing_refers_to_is_freed_at_once_whether_it_was_closed_or_not(mini: Domain) -> None:
    sessions = [mini.session(), mini.session()]
    sessions[0].close()
    left = [weakref.ref(session) for session in sessions]
    sessions.clear()
    assert [session() for session in left] == [None, None]
