"""The attack by nonsense: it finds experts that answer whatever they are asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.envs.checks.asked import MAX_PAID, ask_nonsense, nonsense_finding
from toolorchestra.envs.tools import experts
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.errors import OptionError

Make = Callable[..., Any]


def test_experts_that_answer_what_they_are_asked_withstand_it(make_env: Make, mini: Domain) -> None:
    found = nonsense_finding(make_env(tools="full"), mini.tasks()[::3])
    assert (found.verdict, found.counts["paid"]) == ("pass", 0)
    assert found.counts["tries"] == len(mini.tasks()[::3])


def test_experts_that_do_not_listen_are_found(make_env: Make, mini: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    listening = experts.problem_for
    monkeypatch.setattr(experts, "problem_for", lambda context, asked, **more: listening(context, None))
    found = nonsense_finding(make_env(tools="full"), mini.tasks()[::3])
    assert found.verdict == "fail"
    assert found.counts["paid"] > MAX_PAID * found.counts["tries"]
    assert len(found.details) == found.counts["paid"]


def test_its_share_is_that_of_the_tasks_solved(make_env: Make, mini: Domain) -> None:
    plain = ask_nonsense(make_env(tools="full"), mini.tasks()[:4], questions=["What should I do next?"])
    assert plain.share == len(plain.paid) / 4 > 0
    assert plain.paid[0][1] == "What should I do next?"


def test_without_experts_or_tasks_there_is_nothing_to_attack(make_env: Make, mini: Domain) -> None:
    assert nonsense_finding(make_env(), mini.tasks()).verdict == "note"
    with pytest.raises(OptionError, match="at least one task"):
        nonsense_finding(make_env(tools="full"), [])
