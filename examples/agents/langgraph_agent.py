"""An agent of LangGraph. Needs ``pip install langgraph langchain-openai``."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from toolorchestra.envs.bridges.any_agent import AgentSession, play_agent


async def agent(session: AgentSession) -> str | None:
    """Play one episode."""
    model = ChatOpenAI(base_url=session.base_url, api_key=session.api_key, model=session.model)
    asked = model.bind_tools(session.tools)

    async def ask(state: MessagesState) -> dict[str, list[Any]]:
        return {"messages": [await asked.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode(session.functions()))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_conditional_edges("tools", lambda state: END if session.over else "ask")
    async with model.root_async_client:
        state = await graph.compile().ainvoke({"messages": session.messages}, {"recursion_limit": 200})
    return str(state["messages"][-1].content)


if __name__ == "__main__":
    task = {"env": "ToolOrchestra-Restaurant-v0", "split": "test", "index": 0, "seed": 0}
    episode = asyncio.run(play_agent(task, agent, "http://localhost:8000/v1", "Qwen/Qwen3-8B"))
    print(episode.outcome, episode.reward, episode.cost)
