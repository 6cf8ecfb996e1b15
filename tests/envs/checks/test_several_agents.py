from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from toolorchestra.agents.messages.model_message import ModelMessage
from toolorchestra.envs import multiagent_ids
from toolorchestra.envs.checks.several_agents import CHECKS, check_multiagent
from toolorchestra.envs.msarl.env import MSARLEnv
from toolorchestra.envs.msarl.play import MSARLPlay
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError


def failed(**options: Any) -> dict[str, str]:
    """Return what the checks that fail say, of an environment of two agents."""
    report = check_multiagent("MSARL-Math-v0", python="simulated", episodes=8, **options)
    assert [result.name for result in report.results] == list(CHECKS)
    return {result.name: result.finding for result in report.results if result.verdict == "fail"}


OPTIONS: dict[str, dict[str, Any]] = {"Dialogue": {"persona": "mixed", "max_cycles": 30}}


@pytest.mark.parametrize("env_id", multiagent_ids())
def test_every_environment_passes(env_id: str) -> None:
    options = OPTIONS.get(env_id.split("-")[0], {"python": "simulated", "noise": 5})
    report = check_multiagent(env_id, episodes=12, **options)
    assert report, str(report)
    findings = {result.name: result.finding for result in report.results}
    assert re.fullmatch(
        r"a secret in one agent's history was in none of [1-9]\d* observations of others", findings.pop("privacy")
    )
    assert findings == {
        "pettingzoo": "api_test and seed_test pass",
        "determinism": "12 episodes are the same bytes in two environments",
        "snapshot": "12 episodes continued from a branch point, not affected by another branch",
        "hostile": "12 episodes with invalid messages ended in a verdict",
    }


def test_an_unknown_environment_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown task source 'Mth'. Did you mean 'Math'"):
        check_multiagent("MSARL-Mth-v0")
    with pytest.raises(UnknownNameError, match=r"check of environments with several agents .*Did you mean 'privacy'"):
        check_multiagent("MSARL-Math-v0", checks=["privcy"])
    with pytest.raises(OptionError, match="`episodes` must be at least 1, got 0"):
        check_multiagent("MSARL-Math-v0", episodes=0)


def test_pettingzoos_tests_find_a_space_that_is_another_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    space = MSARLEnv.action_space
    monkeypatch.setattr(MSARLEnv, "action_space", lambda self, agent: copy.copy(space(self, agent)))
    assert set(found := failed()) == {"pettingzoo"}
    assert "action_space should return the exact same space object (not a copy)" in found["pettingzoo"]


def test_a_leak_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_see_all(self: MSARLPlay, agent: str) -> list[dict[str, Any]]:
        return [message for history in self.histories.values() for message in history]

    monkeypatch.setattr(MSARLPlay, "new_messages", all_see_all)
    assert set(found := failed()) == {"privacy"}
    assert re.fullmatch(
        "AssertionError: (helper observes a secret of reasoner|reasoner observes a secret of helper)", found["privacy"]
    )


def test_a_history_that_is_not_the_agents_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    info = MSARLEnv._info

    def more(self: MSARLEnv, play: Any, agent: str) -> dict[str, Any]:
        found = info(self, play, agent)
        found["messages"] = [*found["messages"], {"role": "user", "content": "a hint"}]
        return found

    monkeypatch.setattr(MSARLEnv, "_info", more)
    found = failed()
    assert set(found) == {"privacy"}
    assert found["privacy"].endswith(" observes messages that are not in its history")


def test_chance_that_does_not_follow_the_seed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(10**9))
    take = MSARLPlay._on_message

    def counting(self: MSARLPlay, agent: str, reply: str) -> None:
        take(self, agent, reply)
        self.episode.cost += next(count)

    monkeypatch.setattr(MSARLPlay, "_on_message", counting)
    found = failed()  # PettingZoo's tests and the check of snapshots play an episode again as well
    assert set(found) == {"pettingzoo", "determinism", "snapshot"}
    assert found["determinism"] == "AssertionError: the records of seed 0 differ"
    assert found["snapshot"].startswith("AssertionError: seed 0, branched after ")


def test_a_restore_that_forgets_the_rewards_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = MSARLEnv.restore

    def forgetful(self: MSARLEnv, snapshot: Any) -> None:
        restore(self, snapshot)
        pay = self.step
        self.step = lambda action: (pay(action), self.rewards.update(dict.fromkeys(self.rewards, 7.0)))  # type: ignore

    monkeypatch.setattr(MSARLEnv, "restore", forgetful)
    assert failed() == {"snapshot": "AssertionError: seed 0: the rewards differ"}


def test_branches_that_share_a_record_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MSARLPlay, "fork", lambda self, session: self)
    found = failed()
    assert set(found) == {"snapshot"}
    assert re.match(
        r"AssertionError: seed \d+, branched after \d+ messages|OptionError: The episode is over", found["snapshot"]
    )


def test_a_message_that_breaks_the_environment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = MSARLPlay._on_message

    def fussy(self: MSARLPlay, agent: str, message: ModelMessage) -> None:
        if not message.text:
            raise ValueError("silence")
        take(self, agent, message)

    monkeypatch.setattr(MSARLPlay, "_on_message", fussy)
    assert failed() == {"hostile": "AssertionError: ValueError: silence"}
