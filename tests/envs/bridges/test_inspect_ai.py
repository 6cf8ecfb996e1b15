from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("inspect_ai", reason="in an environment of its own: pip install 'toolorchestra[inspect,test]'")

from inspect_ai import eval as evaluate
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.tool import ToolCall

from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.policies.reference import OraclePolicy
from toolorchestra.envs.bridges.inspect_ai import toolorchestra
from toolorchestra.toolscale.common.errors import OptionError

pytestmark = pytest.mark.filterwarnings("ignore")  # of inspect_ai and what it brings
ENV = "ToolOrchestra-Restaurant-v0"
END = '<tool_call>{"name": "submit", "arguments": {"answer": {}}}</tool_call>'
"""A message that ends an episode, with a wrong answer."""


def outputs(texts: list[str]) -> list[ModelOutput]:
    """Return messages as a model's API gives them, calls apart from the text."""
    found = []
    for text in texts:
        message = read_message(text)
        output = ModelOutput.from_content("mockllm/model", message.text if message.calls else text)
        output.message.tool_calls = [
            ToolCall(id=f"c{n}", function=call.name, arguments=json.loads(call.arguments))
            for n, call in enumerate(message.calls)
        ] or None
        output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)  # else a tokenizer is loaded
        found.append(output)
    return found


@pytest.mark.slow
def test_an_evaluation_of_inspect_finds_the_rewards_of_gymnasium(tmp_path: Path) -> None:
    env = gym.make(ENV)
    tasks = [one for one in env.unwrapped.source.tasks("test") if one.difficulty == 2][:2]  # type: ignore[attr-defined]
    written: list[str] = []
    for number, task in enumerate(tasks):
        observation, info = env.reset(seed=number, options={"task_id": task.id})
        policy, over = OraclePolicy(), False
        policy.reset(env, observation, info)
        while number == 0 and not over:
            written.append(str(policy.act(observation, info)))
            observation, _, terminated, truncated, info = env.step(written[-1])
            over = terminated or truncated
    written.append(END)
    model = get_model("mockllm/model", custom_outputs=outputs(written))
    (log,) = evaluate(
        toolorchestra(ENV, difficulty=2), model=model, limit=2, max_samples=1, log_dir=str(tmp_path), display="none"
    )
    assert log.status == "success", log.error
    read = read_eval_log(log.location)
    samples = {sample.id: sample for sample in read.samples or ()}
    assert {name: sample.scores["reward"].value for name, sample in samples.items() if sample.scores} == {
        tasks[0].id: 1.0,
        tasks[1].id: 0.0,
    }
    assert read.results is not None
    assert read.results.scores[0].metrics["mean"].value == 0.5
    first = samples[tasks[0].id]
    calls = [call.id for one in first.messages if one.role == "assistant" for call in one.tool_calls or ()]
    assert [one.tool_call_id for one in first.messages if one.role == "tool"] == calls
    assert calls
    record: dict[str, Any] = first.store["episode"]
    assert (record["task_id"], record["outcome"]) == (tasks[0].id, "solved")


def test_an_environment_of_several_agents_is_refused() -> None:
    with pytest.raises(OptionError, match="has several agents"):
        toolorchestra("MSARL-Math-v0")
