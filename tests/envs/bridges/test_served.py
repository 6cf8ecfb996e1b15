from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from answering import wrong

from toolorchestra.envs.bridges.served import OVER, Served
from toolorchestra.toolscale.common.errors import OptionError

ENV = "ToolOrchestra-Restaurant-v0"


@pytest.fixture(scope="module")
def game() -> Served:
    return Served(ENV, {})


@pytest.mark.parametrize(
    "env_id", [ENV, "ParaManager-Math-v0", "MASOrchestra-Low-Math-v0", "Dialogue-Restaurant-v0", "MSARL-Math-v0"]
)
def test_rewards_sum_to_the_episodes(env_id: str) -> None:
    game = Served(env_id, {})
    game.reset(seed=3)
    told = [game.step("I do not know.")]
    while not told[-1].done:
        told.append(game.step("I do not know."))
    assert sum(one.reward or 0.0 for one in told) == game.episode.reward
    assert told[-1].info["outcome"] == game.episode.outcome


def test_a_reference_trajectory_is_rewarded_as_by_gymnasium(game: Served, reference: Any) -> None:
    for seed in range(8):
        messages, reward = reference(seed)
        game.reset(seed=seed)
        assert sum(game.step(message).reward or 0.0 for message in messages) == reward == 1.0


def test_messages_are_the_conversation(game: Served, reference: Any) -> None:
    messages, _ = reference(3)
    told = [game.reset(seed=3)]
    assert [one["role"] for one in told[0].messages] == ["system", "user"]
    told += [game.step(message) for message in messages]
    assert all(one["role"] == "tool" for part in told[1:] for one in part.messages)
    history = [one for one in game.env.unwrapped.play.messages if one["role"] != "assistant"]
    assert [one for part in told for one in part.messages] == history


def test_nothing_happens_before_a_reset_and_after_the_end() -> None:
    game = Served(ENV, {})
    with pytest.raises(OptionError, match="Reset before"):
        game.step("Hello.")
    game.reset(seed=0)
    assert game.step(wrong(game.env)).done
    told = game.step('<tool_call>{"name": "list_menu", "arguments": {}}</tool_call>')
    assert (told.text, told.done, told.reward, len(game.episode.turns)) == (OVER, True, 0.0, 1)


def test_an_infrastructure_error_is_no_reward(game: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    game.reset(seed=0)

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(game.env.unwrapped.play, "_on_message", fail)
    told = game.step("Hello.")
    assert (told.done, told.reward, told.info["outcome"]) == (True, None, "infra_error")
    assert "disk" not in str(told)


def test_a_task_is_chosen_by_its_number_or_id(game: Served) -> None:
    task = gym.make(ENV).unwrapped.source.tasks("test")[5]  # type: ignore[attr-defined]
    for chosen in ({"split": "test", "index": 5}, {"task_id": task.id}):
        assert game.reset(**chosen).info["task_id"] == task.id  # type: ignore[arg-type]
    assert game.reset(seed=1, difficulty=[2]).info["difficulty"] == 2


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"preference": "pairs.jsonl"}, "an object of weights"),
        ({"tools": "full"}, "Unknown choice at a reset 'tools'"),
        ({"split": "test", "index": 10**6}, "has tasks 0 to"),
        ({"index": -1}, "has tasks 0 to"),
        ({"split": ["train"]}, "`split` must be"),
        ({"task_id": {}}, "`task_id` must be"),
        ({"difficulty": [None]}, "a level or a list of levels"),
        ({"seed": "0"}, "`seed` must be"),
        ({"seed": -1}, "at least 0"),
    ],
)
def test_what_comes_from_outside_is_checked(game: Served, chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        game.reset(**chosen)
