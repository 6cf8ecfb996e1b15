"""A user who makes several requests makes the next one when the present one is answered."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs import reverify
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, StatelessSession
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tasks.verify import SOLVED, Failure, Verdict
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolResult

REQUESTS = ("Open the door.", "Close it again.", "Thank you.")
TASK = Task(
    id="house/door",
    domain="house",
    intent="door",
    split="train",
    difficulty=2,
    instruction=REQUESTS[0],
    reference_calls=(Call("turn", {}, 0), Call("turn", {}, 1)),
    answer="Done.",
)


class Turn(Tool):
    effect = "write"

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        context.session.turned[-1] += 1
        return ToolResult.ok(context.session.turned[-1])


class House(StatelessSession):
    """Counts how often the key was turned for each request."""

    def __init__(self) -> None:
        self.turned = [0]

    @property
    def asked(self) -> int:
        return len(self.turned)

    def follow_up(self) -> str | None:
        if self.asked == len(REQUESTS):
            return None
        self.turned.append(0)
        return REQUESTS[self.asked - 1]

    def reset(self) -> None:
        self.turned = [0]

    def call(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        return tool.run(arguments, ToolContext(self))

    def snapshot(self) -> Any:
        return tuple(self.turned)

    def restore(self, snapshot: Any) -> None:
        self.turned = list(snapshot)


class HouseWorld(QuestionWorld):
    def session(self) -> House:
        return House()

    def verify(self, task: Task, session: Any, answer: str) -> Verdict:
        return SOLVED if session.turned == [1, 1, 0] else Verdict((Failure("execution", f"turned {session.turned}"),))


@pytest.fixture
def env() -> Any:
    source = QuestionSource("House", HouseWorld("house", "", [Turn("turn", "Turn the key.", {})]), [TASK])
    return gym.make("ToolOrchestra-Custom-v0", source=source, answer="text").unwrapped


def test_an_answer_brings_the_next_request_and_the_last_one_ends_the_episode(env: Any) -> None:
    env.reset(seed=0)
    assert env.step([{"name": "turn", "arguments": {}}])[2] is False
    assert env.step("It is open.")[:3] == (REQUESTS[1], 0.0, False)
    branch = env.snapshot()
    assert env.step("I will not.")[0] == REQUESTS[2]
    _, reward, terminated, _, info = env.step("Goodbye.")
    assert (reward, terminated, info["verdict"]) == (0.0, True, "execution: turned [1, 0, 0]")
    env.restore(branch)
    env.step([{"name": "turn", "arguments": {}}])
    env.step("It is closed.")
    assert env.step("You are welcome.")[1:3] == (1.0, True)


def test_an_empty_message_is_no_answer(env: Any) -> None:
    env.reset(seed=0)
    env.step("I will not.")
    observation, _, terminated, _, _ = env.step("")
    assert "neither a call nor an answer" in observation
    assert not terminated
    assert env.step("")[2]


def test_submit_answers_each_request_too(env: Any) -> None:
    env = gym.make("ToolOrchestra-Custom-v0", source=env.source, answer="typed").unwrapped
    env.reset(seed=0)
    observation, _, terminated, _, info = env.step([{"name": "submit", "arguments": {"answer": "no"}}])
    assert observation.endswith(REQUESTS[1])
    assert [message["role"] for message in info["messages"][-2:]] == ["tool", "user"]
    assert not terminated


def test_the_oracle_waits_for_each_request_and_its_record_is_judged_anew(env: Any) -> None:
    play_episode(env, make_policy("oracle"), seed=0)
    assert [len(turn.calls) for turn in env.episode.turns] == [1, 0, 1, 0, 0]
    (judged,) = reverify([env.episode], options={"source": env.source})
    assert (judged.episode.outcome, judged.drift, judged.unjudged) == ("solved", "", "")
