"""Trades: which work suits which role."""

from __future__ import annotations

from typing import get_args

from toolorchestra.agents.experts.specialties import MISTAKES, UNSUITED, WorkKind, outside_specialty
from toolorchestra.agents.experts.specification import Role


def test_every_role_has_work_that_suits_it_and_a_way_to_go_wrong() -> None:
    assert set(UNSUITED) == set(MISTAKES) == set(get_args(Role))
    for role, unsuited in UNSUITED.items():
        assert unsuited < set(get_args(WorkKind))
        assert not outside_specialty(role, "answer")


def test_a_query_writer_is_no_calculator_and_a_programmer_no_librarian() -> None:
    assert outside_specialty("query", "computation")
    assert outside_specialty("code", "lookup")
    assert not outside_specialty("query", "lookup")
    assert not outside_specialty("code", "computation")
    assert not any(outside_specialty("generalist", work) for work in get_args(WorkKind))


def test_no_mistake_makes_a_call() -> None:
    assert not any("<tool_call>" in text for text in MISTAKES.values())
