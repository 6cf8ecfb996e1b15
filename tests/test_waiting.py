"""Tests of the helper that waits."""

from __future__ import annotations

import pytest
from waiting import until


def test_waiting_ends_with_what_the_condition_gives() -> None:
    answers = iter([0, None, [], [3]])
    assert until(lambda: next(answers), "an answer") == [3]


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(AssertionError, match=r"waited 0 s in vain: the moon to turn green"):
        until(lambda: False, "the moon to turn green", seconds=0)
