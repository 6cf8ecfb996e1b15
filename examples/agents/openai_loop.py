"""An agent without a framework: ask, call the tools that are asked for, and ask again. Needs ``pip install openai``."""

from __future__ import annotations

import asyncio
from typing import Any

from openai import AsyncOpenAI

from toolorchestra.envs.bridges.any_agent import AgentSession, play_agent


async def agent(session: AgentSession) -> str | None:
    """Play one episode."""
    messages: list[Any] = list(session.messages)
    async with AsyncOpenAI(base_url=session.base_url, api_key=session.api_key) as client:
        while not session.over:
            reply = await client.chat.completions.create(
                model=session.model, messages=messages, tools=session.tools or None
            )
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content
            calls = [
                (call.id, session.call(call.function.name, call.function.arguments)) for call in message.tool_calls
            ]
            for (call_id, _), result in zip(calls, await asyncio.gather(*(call for _, call in calls)), strict=True):
                messages.append({"role": "tool", "tool_call_id": call_id, "content": result})
    return None


if __name__ == "__main__":
    task = {"env": "ToolOrchestra-Restaurant-v0", "split": "test", "index": 0, "seed": 0}
    episode = asyncio.run(play_agent(task, agent, "http://localhost:8000/v1", "Qwen/Qwen3-8B"))
    print(episode.outcome, episode.reward, episode.cost)
