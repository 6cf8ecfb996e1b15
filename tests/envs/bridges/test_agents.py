"""Episodes that agents of frameworks play: the programs of examples/agents."""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("langgraph", reason="in an environment of its own: bash .ci/bridges agents")

from toolorchestra.envs.bridges.any_agent import play_agent

pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks and what they bring
ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "agents"
FRAMEWORKS = ("agents_sdk", "langgraph_agent", "smolagents_agent")
TASK = {"env": "ToolOrchestra-Restaurant-v0", "seed": 3}


@pytest.fixture
def agent_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Return the agent of a program, which finds OpenAI's `agents` and not our folder of that name."""
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if Path(folder).resolve() != ROOT])
    return lambda name: runpy.run_path(str(EXAMPLES / f"{name}.py"))["agent"]


def test_every_program_is_tested() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {"openai_loop", *FRAMEWORKS}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_episode_has_the_reward_and_the_turns_of_gymnasium(
    name: str, agent_of: Callable[[str], Any], answer_by_reference: Callable[..., float], fake_server: Any
) -> None:
    reward = answer_by_reference(3, last="final_answer" if name == "smolagents_agent" else "")
    episode = asyncio.run(play_agent(TASK, agent_of(name), fake_server.url, "m", api_key="K"))
    assert (episode.outcome, episode.reward) == ("solved", reward)
    env = gym.make(episode.env_id)
    env.reset(seed=3)
    for turn in episode.turns:
        env.step(turn.message)
    assert episode.turns == env.unwrapped.episode.turns  # type: ignore[attr-defined]
    assert set(fake_server.keys) == {"Bearer K"}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_calls_of_one_completion_are_made_in_its_order(
    name: str, agent_of: Callable[[str], Any], fake_server: Any
) -> None:
    made = [("get_order", {"customer": "Jonas", "date": "2025-07-09"}), ("get_bill", {"order": "O1007"})]
    last = "final_answer" if name == "smolagents_agent" else ""

    def answer(body: Any) -> Any:
        calls = [(call, json.dumps(arguments)) for call, arguments in made]
        if any(message["role"] == "assistant" for message in body["messages"]):
            calls = [(last, '{"answer": "Done."}')] if last else []
        return fake_server.completion("" if calls else "Done.", calls)

    fake_server.respond = answer
    episode = asyncio.run(play_agent(TASK, agent_of(name), fake_server.url, "m"))
    assert [(call.name, call.arguments) for call in episode.calls] == made
    together = [["get_order", "get_bill"]] if name != "smolagents_agent" else [["get_order"], ["get_bill"]]
    assert [[call.name for call in turn.calls] for turn in episode.turns if turn.calls] == together
