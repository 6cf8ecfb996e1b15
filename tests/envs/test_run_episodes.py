"""Many episodes played at the same time: what waits, and what fails, concerns its own episode only."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.agents.chat.base import ChatRequest, Completion, Meter, ScriptedChat
from toolorchestra.agents.policies.base import Policy
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.run_episodes import EnvPool, run_all, run_episodes, run_policies
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.envs.tool_calling import ToolCallingPlay
from toolorchestra.toolscale.common.errors import ExpertError

Make = Callable[..., Any]


@pytest.fixture
def make_env(make_env: Callable[..., Any]) -> Callable[..., Any]:
    """Make an environment in which any message without calls is the answer."""
    return functools.partial(make_env, answer="text")


def starts(count: int) -> list[EpisodeStart]:
    return [EpisodeStart(seed, {"split": "all"}) for seed in range(count)]


def test_how_many_are_in_progress_changes_no_episode(make_env: Make) -> None:
    def played(in_flight: int) -> dict[int | None, bytes]:
        found = run_episodes(make_env, lambda: make_policy("oracle"), starts(7), in_flight=in_flight)
        return {one.seed: one.to_json() for one in found if isinstance(one, Episode)}

    alone = played(1)
    assert [*alone] == [*range(7)]
    assert played(3) == alone
    assert played(99) == alone


def test_an_episode_that_was_not_judged_is_played_again(make_env: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    take, faults = ToolCallingPlay._on_message, iter([True, True, False, False, *[True] * 3])

    def fails_at_first(self: ToolCallingPlay, agent: str, message: Any) -> None:
        if next(faults):
            raise OSError("no disk")
        take(self, agent, message)

    monkeypatch.setattr(ToolCallingPlay, "_on_message", fails_at_first)
    found = list(run_episodes(make_env, lambda: make_policy("null"), starts(2)))
    assert [one.outcome for one in found] == ["failed", "infra_error"]
    assert next(faults, None) is None


def test_chat_models_are_asked_for_all_episodes_in_progress_together(
    make_env: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, batches = ScriptedChat(lambda request: "I do not know."), []
    complete = chat.complete
    monkeypatch.setattr(chat, "complete", lambda requests: batches.append(len(requests)) or complete(requests))
    found = list(run_episodes(make_env, lambda: ChatPolicy(chat), starts(5), in_flight=3))
    assert batches == [3, 2]
    assert [(one.seed, one.answer) for one in found] == [(seed, "I do not know.") for seed in range(5)]


def test_an_episode_whose_model_fails_is_given_up_and_the_others_go_on(make_env: Make) -> None:
    asked = iter(range(99))

    def answer(request: ChatRequest) -> Any:
        return ExpertError("too busy") if next(asked) == 1 else "I do not know."

    found = list(run_episodes(make_env, lambda: ChatPolicy(ScriptedChat(answer)), starts(1)))
    assert [(one.seed, one.outcome) for one in found] == [(0, "failed")]
    asked = iter(range(99))
    chat = ScriptedChat(answer)
    found = list(run_episodes(make_env, lambda: ChatPolicy(chat), starts(3), in_flight=3))
    assert [(one.seed, one.outcome) for one in found] == [(0, "failed"), (1, "infra_error"), (2, "failed")]
    assert (found[1].why, found[1].reward, found[1].answer) == ("ExpertError: too busy", None, None)


def test_a_model_that_fails_for_all_is_an_error(make_env: Make) -> None:
    chat = ScriptedChat(lambda request: ExpertError("no such host"))
    with pytest.raises(ExpertError, match="2 of 2 requests failed; the first: no such host"):
        list(run_episodes(make_env, lambda: ChatPolicy(chat), starts(2), in_flight=2))


class Replying:
    """A server, asked for one episode at a time, that fails some requests, and answers the first one last of all."""

    name = "replying"

    def __init__(self, count: int, failing: tuple[int, ...] = ()) -> None:
        self.meter, self.count, self.failing = Meter(), count, failing
        self.asked, self.order = 0, list[int]()

    def complete(self, requests: Any) -> Any:
        raise AssertionError("a server is asked for each episode by itself")

    async def ask(self, request: ChatRequest) -> Completion:
        number, self.asked = self.asked, self.asked + 1
        while number == 0 and len(self.order) < self.count - 1:
            await asyncio.sleep(0)
        self.order.append(number)
        if number in self.failing:
            raise ExpertError("too busy")
        return Completion("I do not know.")


def test_a_slow_reply_holds_up_no_other_episode(make_env: Make) -> None:
    model = Replying(6)
    found = list(run_episodes(make_env, lambda: ChatPolicy(model), starts(6), in_flight=2))
    assert [one.seed for one in found] == [1, 2, 3, 4, 5, 0]
    model = Replying(6)
    found = run_all(make_env, lambda: ChatPolicy(model), starts(6), in_flight=2)
    assert [one.seed for one in found] == [0, 1, 2, 3, 4, 5]


def test_failures_between_replies_do_not_end_a_rollout(make_env: Make) -> None:
    model = Replying(6, failing=(2, 4))
    found = list(run_episodes(make_env, lambda: ChatPolicy(model), starts(6), in_flight=2))
    assert [one.seed for one in found if one.outcome == "infra_error"] == [2, 4]
    assert len(found) == 6


def test_a_server_that_fails_as_many_requests_as_are_in_flight_is_an_error(make_env: Make) -> None:
    model = Replying(6, failing=(2, 3))
    with pytest.raises(ExpertError, match="2 of 2 requests failed; the first: too busy"):
        list(run_episodes(make_env, lambda: ChatPolicy(model), starts(6), in_flight=2))


def test_what_has_ended_is_handed_out_before_another_episode_begins(make_env: Make) -> None:
    begun = []

    class Counting(Policy):
        def act(self, observation: str, info: Any) -> str:
            begun.append(info["task_id"])
            return "I do not know."

    for number, _ in enumerate(run_episodes(make_env, Counting, starts(5), in_flight=3), 1):
        assert len(begun) == number


def test_a_rollout_that_is_given_up_leaves_nothing_running(make_env: Make) -> None:
    model = Replying(6)
    played = run_episodes(make_env, lambda: ChatPolicy(model), starts(6), in_flight=2)
    next(played)
    played.close()
    asked = model.asked
    assert asked < 6
    assert list(played) == []
    assert model.asked == asked


def test_an_error_of_the_environment_is_raised_and_no_record(make_env: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: OrchestrationEnv, action: Any) -> Any:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(OrchestrationEnv, "step", broken)
    with pytest.raises(ZeroDivisionError):
        list(run_episodes(make_env, lambda: make_policy("null"), starts(2)))


def test_environments_that_are_lent_stay_open(make_env: Make) -> None:
    env = make_env()
    (run,) = run_policies(EnvPool(lambda: env), lambda: make_policy("null"), starts(1))
    assert run.game.outcome == "failed"
    assert env.unwrapped.episode is run.episode  # a closed environment has none
