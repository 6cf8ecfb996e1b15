"""The attack on experts that are told nothing: it finds those that know what nobody has told them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.envs.checks.asked import MAX_PAID, ask_uninformed, uninformed_finding
from toolorchestra.envs.ground_truth.given import Given
from toolorchestra.envs.tools import experts
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.domain import Domain

Make = Callable[..., Any]


def test_experts_that_know_what_they_are_told_withstand_it(make_env: Make, mini: Domain) -> None:
    found = uninformed_finding(make_env(tools="full"), mini.tasks()[::3])
    assert (found.verdict, found.counts["paid"]) == ("pass", 0)
    assert found.counts["tries"] == len(mini.tasks()[::3])


@pytest.mark.parametrize("source", ["Restaurant", "Math"])
def test_sub_agents_that_know_what_they_are_told_withstand_it(source: str) -> None:
    env = gym.make(f"ParaManager-{source}-v0")
    found = uninformed_finding(env, env.unwrapped.source.tasks("test")[::20])
    assert (found.verdict, found.counts["paid"]) == ("pass", 0)
    env.close()


def test_experts_that_know_more_are_found(make_env: Make, mini: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = experts.problem_for

    def knowing(context: Any, given: Given, **more: Any) -> Any:
        return asked(context, Given("", experts.request_of(context), experts.shown_results(context)), **more)

    monkeypatch.setattr(experts, "problem_for", knowing)
    env, tasks = make_env(tools="full"), mini.tasks()[::3]
    found = uninformed_finding(env, tasks)
    assert found.verdict == "fail"
    assert found.counts["paid"] > MAX_PAID * found.counts["tries"]
    assert len(found.details) == found.counts["paid"]
    few = ask_uninformed(env, tasks[:4], questions=["help"])
    assert few.share == len(few.paid) / 4 > 0
    assert few.paid[0][1] == "help"


def test_without_experts_or_tasks_there_is_nothing_to_attack(make_env: Make, mini: Domain) -> None:
    assert uninformed_finding(make_env(), mini.tasks()).verdict == "note"
    with pytest.raises(OptionError, match="at least one task"):
        uninformed_finding(make_env(tools="full"), [])
