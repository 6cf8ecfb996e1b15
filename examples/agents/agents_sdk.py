"""An agent of OpenAI's Agents SDK. Needs ``pip install openai-agents``."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from openai import AsyncOpenAI

from agents import Agent, FunctionTool, OpenAIChatCompletionsModel, RunConfig, Runner, ToolsToFinalOutputResult
from toolorchestra.envs.bridges.any_agent import AgentSession, play_agent


async def agent(session: AgentSession) -> str | None:
    """Play one episode."""

    async def call(name: str, context: Any, arguments: str) -> str:
        return await session.call(name, arguments)

    def finish(context: Any, results: Any) -> ToolsToFinalOutputResult:
        return ToolsToFinalOutputResult(is_final_output=session.over, final_output="")

    functions = [tool["function"] for tool in session.tools]
    tools = [
        FunctionTool(one["name"], one["description"], one["parameters"], partial(call, one["name"]), False)
        for one in functions
    ]
    system, request = (message["content"] for message in session.messages)
    async with AsyncOpenAI(base_url=session.base_url, api_key=session.api_key) as client:
        model = OpenAIChatCompletionsModel(session.model, client)
        player = Agent("orchestrator", instructions=system, tools=tools, model=model, tool_use_behavior=finish)
        result = await Runner.run(player, request, max_turns=100, run_config=RunConfig(tracing_disabled=True))
    return str(result.final_output)


if __name__ == "__main__":
    task = {"env": "ToolOrchestra-Restaurant-v0", "split": "test", "index": 0, "seed": 0}
    episode = asyncio.run(play_agent(task, agent, "http://localhost:8000/v1", "Qwen/Qwen3-8B"))
    print(episode.outcome, episode.reward, episode.cost)
