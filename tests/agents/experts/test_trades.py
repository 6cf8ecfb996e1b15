"""Trades: which work suits which role."""

from __future__ import annotations

from typing import get_args

from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.experts.trades import MISTAKES, UNSUITED, WorkKind, is_misplaced


def test_every_role_has_work_that_suits_it_and_a_way_to_go_wrong() -> None:
    assert set(UNSUITED) == set(MISTAKES) == set(get_args(Role))
    for role, unsuited in UNSUITED.items():
        assert unsuited < set(get_args(WorkKind))
        assert not is_misplaced(role, "answer")


def test_a_query_writer_is_no_calculator_and_a_programmer_no_librarian() -> None:
    assert is_misplaced("query", "computation")
    assert is_misplaced("code", "lookup")
    assert not is_misplaced("query", "lookup")
    assert not is_misplaced("code", "computation")
    assert not any(is_misplaced("generalist", work) for work in get_args(WorkKind))


def test_no_mistake_makes_a_call() -> None:
    assert not any("<tool_call>" in text for text in MISTAKES.values())
