"""An agent of smolagents, which runs in a thread, without coroutines. Needs ``pip install 'smolagents[openai]'``."""

from __future__ import annotations

import asyncio

from smolagents import OpenAIModel, ToolCallingAgent, tool

from toolorchestra.envs.bridges.any_agent import AgentSession, play_agent


async def agent(session: AgentSession) -> str | None:
    """Play one episode."""
    system, request = (message["content"] for message in session.messages)
    model = OpenAIModel(session.model, api_base=session.base_url, api_key=session.api_key)
    tools = [tool(function) for function in session.functions(blocking=True)]
    player = ToolCallingAgent(tools, model, instructions=system, max_tool_threads=1, verbosity_level=0)
    return str(await asyncio.to_thread(player.run, request))


if __name__ == "__main__":
    task = {"env": "ToolOrchestra-Restaurant-v0", "split": "test", "index": 0, "seed": 0}
    episode = asyncio.run(play_agent(task, agent, "http://localhost:8000/v1", "Qwen/Qwen3-8B"))
    print(episode.outcome, episode.reward, episode.cost)
