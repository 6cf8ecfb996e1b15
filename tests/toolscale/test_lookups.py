"""Ids that a request does not state are shown by a look-up before a call takes them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import builtin_domains, load_domain
from toolorchestra.toolscale.requests.lookups import (
    finds,
    joined,
    raw_ids,
    unshown_ids,
    with_later_stages,
    with_needed_lookups,
)
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call, Task, after_lookups

SAMPLE = 6
"""Of so many tasks one is tried."""


@pytest.fixture
def session(named: Domain) -> Iterator[Session]:
    session = named.session()
    yield session
    session.close()


@pytest.fixture
def task(named: Domain) -> Task:
    return next(task for task in named.tasks() if task.lookups)


@pytest.mark.parametrize("name", builtin_domains())
def test_every_id_is_in_the_request_or_in_an_earlier_result(name: str) -> None:
    domain = load_domain(name)
    session = domain.session()
    unshown = {
        f"{task.id}: {call.name} takes {taken}"
        for task in domain.tasks()[::SAMPLE]
        for calls in (task.reference_calls, *task.alternatives)
        for call, taken in unshown_ids(domain, task, after_lookups(task.lookups, calls), session)
    }
    session.close()
    assert not unshown


def test_an_id_that_nothing_shows_is_reported_once(named: Domain, task: Task, session: Session) -> None:
    assert not unshown_ids(named, task, task.whole_path, session)
    twice = (*task.reference_calls, *task.reference_calls)
    assert unshown_ids(named, task, twice, session) == [(task.reference_calls[0], task.bindings["order_id"])]


def test_results_of_the_same_stage_come_too_late(named: Domain, task: Task, session: Session) -> None:
    at_once = [msgspec.structs.replace(call, stage=0) for call in task.whole_path]
    assert [taken for _, taken in unshown_ids(named, task, at_once, session)][-1] == task.bindings["order_id"]


def test_a_look_up_is_needed_for_the_ids_that_it_shows_first(named: Domain, task: Task, session: Session) -> None:
    customer = task.lookups[1].arguments["customer_id"]
    found = finds(named, task.instruction, task.lookups, task.reference_calls, session)
    assert found == ({customer}, {task.bindings["order_id"]})
    stated = f"{task.instruction} ({task.bindings['order_id']})"
    assert not any(finds(named, stated, task.lookups, task.reference_calls, session))
    nothing_to_do = finds(named, task.instruction, task.lookups, (), session)
    assert not any(nothing_to_do)


def test_what_the_reference_trajectory_shows_in_time_needs_no_look_up(
    named: Domain, task: Task, session: Session
) -> None:
    calls = (task.lookups[1], msgspec.structs.replace(task.reference_calls[0], stage=2))
    found = finds(named, task.instruction, task.lookups, calls, session)
    assert found == ({task.lookups[1].arguments["customer_id"]}, frozenset())
    changed = msgspec.structs.replace(task, reference_calls=calls)
    assert with_needed_lookups(named, changed, session).lookups == task.lookups[:1]


def test_look_ups_that_an_alternative_needs_are_kept(named: Domain, task: Task, session: Session) -> None:
    stated = msgspec.structs.replace(task, reference_calls=(Call("count_orders", {}),))
    assert with_needed_lookups(named, stated, session).lookups == ()
    other = msgspec.structs.replace(stated, alternatives=(task.reference_calls,))
    assert with_needed_lookups(named, other, session) == other


def test_a_call_waits_for_the_stage_that_shows_its_id(named: Domain, task: Task, session: Session) -> None:
    at_once = tuple(msgspec.structs.replace(call, stage=0) for call in task.whole_path)
    later = with_later_stages(named, msgspec.structs.replace(task, lookups=(), reference_calls=at_once), session)
    assert [call.stage for call in later.reference_calls] == [0, 1, 2]
    assert not unshown_ids(named, later, later.whole_path, session)
    assert with_later_stages(named, later, session) == later
    assert with_later_stages(named, task, session) == task


def test_look_ups_for_several_things_are_made_at_once() -> None:
    one, two, three = Call("find", {"name": "Ada"}), Call("find", {"name": "Bo"}), Call("list", {"of": "C01"}, 1)
    assert joined([one, three, two, three]) == (one, two, three)
    late = Call("find", {"name": "Ada"}, 1)
    assert joined([late, one, three]) == (one, three)
    assert joined([msgspec.structs.replace(three, stage=4)]) == (msgspec.structs.replace(three, stage=0),)


def test_ids_are_the_codes_among_the_keys(named: Domain) -> None:
    ids = raw_ids(named)
    assert "O001" in ids
    assert "soup" not in ids
