"""An episode of the bridge for agent frameworks against the real server of transformers, whose fixtures are here."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.envs.bridges.endpoint import play

ENV = "ToolOrchestra-Restaurant-v0"


@pytest.mark.slow
def test_an_episode_with_a_model_of_transformers_serve(served: str, caller_model: Any) -> None:
    task = {"env": ENV, "options": {"tools": ["get_dish"], "max_turns": 2}, "seed": 3}
    episode = play(task, served, str(caller_model), temperature=0.0, max_tokens=100)
    assert episode.seed == 3
    assert [[call.name for call in turn.calls] for turn in episode.turns] == [["get_dish"] * 2] * 2
    assert episode.outcome == "failed"
    assert episode.reward == 0.0
    env = gym.make(ENV, **task["options"])  # type: ignore[arg-type]
    env.reset(seed=3)
    for turn in episode.turns:
        env.step(turn.message)
    again = env.unwrapped.episode  # type: ignore[attr-defined]
    assert (again.task_id, again.reward, again.outcome) == (episode.task_id, episode.reward, episode.outcome)
