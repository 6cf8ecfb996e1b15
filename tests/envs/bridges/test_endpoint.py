"""Episodes against servers that speak OpenAI's protocol."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.policies.reference import OraclePolicy
from toolorchestra.envs.bridges.endpoint import play
from toolorchestra.toolscale.common.errors import ExpertError, OptionError

ENV = "ToolOrchestra-Restaurant-v0"


def test_several_at_a_time_have_the_rewards_of_gymnasium(fake_server: Any) -> None:
    env = gym.make(ENV)
    ids = [task.id for task in env.unwrapped.source.tasks("test")[:3]]  # type: ignore[attr-defined]
    replies = {}
    for task_id in ids:
        policy, texts, over = OraclePolicy(), [], False
        observation, info = env.reset(seed=0, options={"task_id": task_id})
        policy.reset(env, observation, info)
        while not over:
            texts.append(str(policy.act(observation, info)))
            observation, _, terminated, truncated, info = env.step(texts[-1])
            over = terminated or truncated
        replies[env.unwrapped.episode.instruction] = texts  # type: ignore[attr-defined]

    together = threading.Barrier(3, timeout=60)  # no episode goes on before all three have begun

    def answer(request: Any) -> Any:
        messages = request["messages"]
        said = sum(message["role"] == "assistant" for message in messages)
        if not said:
            together.wait()
        return fake_server.completion(replies[messages[1]["content"]][said])

    fake_server.respond = answer
    with ThreadPoolExecutor(3) as threads:
        chosen: list[dict[str, Any]] = [{"task_id": ids[0]}, {"task_id": ids[1]}, {"split": "test", "index": 2}]
        tasks = [{"env": ENV, "seed": 0} | one for one in chosen]
        episodes = list(threads.map(lambda task: play(task, fake_server.url, "m", api_key="K"), tasks))
    assert [one.task_id for one in episodes] == ids
    assert [one.reward for one in episodes] == [1.0] * 3
    assert set(fake_server.keys) == {"Bearer K"}


def test_one_model_plays_all_agents_of_an_environment_of_several(fake_server: Any) -> None:
    fake_server.respond = lambda _: fake_server.completion("```python\nprint(2 ** 10)\n```")
    episode = play({"env": "MSARL-Math-v0", "options": {"max_cycles": 2}, "seed": 0}, fake_server.url, "m")
    assert {turn.agent for turn in episode.turns} == {"reasoner", "helper"}
    assert episode.outcome == "failed"


def test_a_model_that_cannot_be_reached_is_no_episode(fake_server: Any) -> None:
    fake_server.respond = lambda _: (404, b"")
    with pytest.raises(ExpertError, match="404"):
        play({"env": ENV, "seed": 0}, fake_server.url, "m")


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({}, "needs `env`"),
        ({"env": "ToolOrchestra-Restaurent-v0"}, "Did you mean"),
        ({"env": ENV, "sead": 3}, "Did you mean 'seed'"),
        ({"env": ENV, "seed": -1}, "at least 0"),
        ({"env": ENV, "index": "first"}, "`index` must be"),
    ],
)
def test_a_task_that_cannot_be_played_is_refused(task: Any, expected: str) -> None:
    from toolorchestra.toolscale.common.errors import ToolOrchestraError

    with pytest.raises(ToolOrchestraError, match=expected) as caught:
        play(task, "http://127.0.0.1:9/v1", "m")
    assert isinstance(caught.value, OptionError) or "environment" in str(caught.value)


def test_the_python_of_the_page_plays_episodes(fake_server: Any) -> None:
    page = Path(__file__).parents[3] / "docs" / "bridges" / "agents.md"
    text = page.read_text(encoding="utf-8").replace("http://localhost:8000/v1", fake_server.url)
    blocks = re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    fake_server.respond = lambda _: fake_server.completion("I cannot help you.")
    for name in ("play", "play_agent"):
        if name == "play_agent":
            pytest.importorskip("openai", reason="pip install openai")
        (code,) = (block for block in blocks if re.search(rf"import {name}$", block, re.MULTILINE))
        scope: dict[str, Any] = {}
        exec(compile(code, str(page), "exec"), scope)
        episode = scope["episode"]
        assert (episode.outcome, episode.split, episode.seed) == ("failed", "train", 0)
        assert episode.cost > 0
