"""Episodes that take a detour, on the mini domain."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.validation.detours import Detours


@pytest.fixture
def detours(mini: Domain) -> Iterator[Detours]:
    session = mini.session()
    yield Detours(mini, session)
    session.close()


def task_of(mini: Domain, intent: str) -> Task:
    return next(task for task in mini.tasks() if task.intent == intent)


def test_detours_are_made_of_the_reference_calls(mini: Domain, detours: Detours) -> None:
    task = task_of(mini, "order_twice")
    other = next(one for one in mini.tasks() if one.intent == "order_twice" and one is not task)
    found = {kind: [call.name for call in calls] for kind, calls in detours.of(task, [task, other])}
    assert found["nothing done"] == []
    assert found["every write twice"] == ["get_customer", *["make_order"] * 4, "get_order"]
    assert found["reads only"] == ["get_customer", "get_order"]
    assert found["writes in reverse"] == ["get_customer", "make_order", "make_order", "get_order"]
    assert found["another entity"] == [call.name for call in other.reference_calls]


def test_a_write_is_undone_by_a_call_made_of_its_results(mini: Domain, detours: Detours) -> None:
    make = Call("make_order", {"customer_id": "C02", "dishes": ["soup"], "price": 9})
    task = msgspec.structs.replace(task_of(mini, "order_twice"), reference_calls=(make,))
    undone = dict(detours.of(task, []))["write and undo"]
    assert [call.name for call in undone] == ["make_order", "cancel_order"]
    look = task_of(mini, "ask_price")
    found = dict(detours.of(look, []))
    assert found["extra writes that cancel"] == [*look.reference_calls, *undone]


def test_states_differ_by_the_rows_changed(mini: Domain, detours: Detours) -> None:
    task = task_of(mini, "order_twice")
    assert not detours.differs(task, task.reference_calls)
    assert detours.differs(task, [*task.reference_calls, task.reference_calls[1]])
    assert detours.differs(task, ())
