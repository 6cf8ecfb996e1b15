from __future__ import annotations

from typing import Any

import pytest

from toolorchestra.envs import multiagent_ids
from toolorchestra.envs.checks.several_agents import CHECKS, check_multiagent
from toolorchestra.envs.msarl.env import MSARLEnv
from toolorchestra.envs.msarl.play import MSARLPlay
from toolorchestra.envs.parsing import Message
from toolorchestra.toolscale.errors import UnknownNameError


def failed(**options: Any) -> set[str]:
    report = check_multiagent("MSARL-Math-v0", python="simulated", episodes=8, **options)
    return {result.name for result in report.results if result.verdict == "fail"}


OPTIONS: dict[str, dict[str, Any]] = {"Dialogue": {"persona": "mixed", "max_cycles": 30}}


@pytest.mark.parametrize("env_id", multiagent_ids())
def test_every_environment_passes(env_id: str) -> None:
    options = OPTIONS.get(env_id.split("-")[0], {"python": "simulated", "noise": 5})
    report = check_multiagent(env_id, episodes=12, **options)
    assert report, str(report)
    assert [result.name for result in report.results] == list(CHECKS)


def test_an_unknown_environment_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean"):
        check_multiagent("MSARL-Mth-v0")


def test_a_leak_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_see_all(self: MSARLPlay, agent: str) -> list[dict[str, Any]]:
        return [message for history in self.histories.values() for message in history]

    monkeypatch.setattr(MSARLPlay, "new_messages", all_see_all)
    assert failed() == {"privacy"}


def test_a_history_that_is_not_the_agents_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    info = MSARLEnv._info

    def more(self: MSARLEnv, play: Any, agent: str) -> dict[str, Any]:
        found = info(self, play, agent)
        found["messages"] = [*found["messages"], {"role": "user", "content": "a hint"}]
        return found

    monkeypatch.setattr(MSARLEnv, "_info", more)
    assert failed() == {"privacy"}


def test_chance_that_does_not_follow_the_seed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(10**9))
    take = MSARLPlay._take

    def counting(self: MSARLPlay, agent: str, reply: str) -> None:
        take(self, agent, reply)
        self.episode.cost += next(count)

    monkeypatch.setattr(MSARLPlay, "_take", counting)
    assert {"determinism", "snapshot"} <= failed()


def test_branches_that_share_a_record_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MSARLPlay, "fork", lambda self, session: self)
    assert "snapshot" in failed()


def test_a_message_that_breaks_the_environment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = MSARLPlay._take

    def fussy(self: MSARLPlay, agent: str, message: Message) -> None:
        if not message.text:
            raise ValueError("silence")
        take(self, agent, message)

    monkeypatch.setattr(MSARLPlay, "_take", fussy)
    assert "hostile" in failed()
