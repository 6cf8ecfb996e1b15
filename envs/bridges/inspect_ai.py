"""inspect_ai: an environment as a task, whose log has the conversations, the rewards and the records of the episodes.

    inspect_ai.eval(toolorchestra("ToolOrchestra-Restaurant-v0"), model="vllm/Qwen/Qwen3-8B")

inspect_ai asks the model and writes the log; tools are run by the environment. Environments of one agent only.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    get_model,
)
from inspect_ai.scorer import Score, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, TaskState, solver
from inspect_ai.tool import ToolInfo

from toolorchestra.agents.messages.content import tool_call
from toolorchestra.envs.bridges.served import Served, served_environment
from toolorchestra.envs.registration import is_multiagent
from toolorchestra.envs.step_threads import StepThreads
from toolorchestra.toolscale.common.errors import OptionError

_THREADS = StepThreads(32)
_EPISODE = "episode"  # where the record is in the store of a sample


@task  # type: ignore[untyped-decorator,unused-ignore]  # there are no types where it is not installed
def toolorchestra(
    env: str = "ToolOrchestra-Restaurant-v0",
    split: str = "test",
    difficulty: int | None = None,
    seed: int = 0,
    options: dict[str, Any] | None = None,
) -> Any:
    """Return the tasks of a split as a task of inspect_ai, a sample each.

    Args:
        env: Id of an environment of one agent, folder of a domain, or JSONL file of tasks.
        split: Split of the tasks.
        difficulty: Level of the tasks; None for all.
        seed: Seed of the first sample's reset; that of each further one is one more.
        options: Arguments of the environment.

    Raises:
        OptionError: The environment has several agents, or cannot be made.
    """
    if is_multiagent(env):
        raise OptionError(
            f"{env} has several agents, and a sample of inspect_ai has one conversation. Evaluate it with "
            "`toolorchestra rollout --policy llm`."
        )
    made = served_environment(env, options or {})
    tasks = [one for one in made.unwrapped.source.tasks(split) if difficulty in (None, one.difficulty)]
    made.close()
    samples = [
        Sample(
            id=one.id,
            input=one.instruction,
            metadata={"seed": seed + number, "split": one.split, "difficulty": one.difficulty},
        )
        for number, one in enumerate(tasks)
    ]
    name = f"{env} {split}"
    return Task(dataset=MemoryDataset(samples, name=name), solver=orchestrate(env, options or {}), scorer=reward())


@solver  # type: ignore[untyped-decorator,unused-ignore]
def orchestrate(env: str, options: dict[str, Any]) -> Any:
    """Return the solver that plays a sample's episode with the model that is evaluated."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        game = Served(env, options)
        try:
            seed, chosen = state.metadata["seed"], str(state.sample_id)
            observed = await _THREADS.run(game.env, lambda: game.reset(seed, task_id=chosen))
            state.messages = [_message(one) for one in observed.messages]
            tools = [ToolInfo.model_validate(tool["function"]) for tool in observed.tools]
            while not observed.done:
                state.output = await get_model().generate(state.messages, tools=tools)
                written = state.output.message
                state.messages.append(written)
                observed = await _THREADS.run(game.env, lambda: game.step(_action(written)))  # noqa: B023 - run at once
                ids = iter([call.id for call in written.tool_calls or ()])
                state.messages += [_message(one, next(ids, None)) for one in observed.messages]
        finally:  # a limit of inspect_ai may have ended the conversation
            if game.env.unwrapped.play is not None:
                state.store.set(_EPISODE, msgspec.json.decode(game.episode.to_json()))
            game.close()
        episode = state.store.get(_EPISODE)
        if episode["outcome"] in ("infra_error", "judge_error"):
            raise RuntimeError(f"The episode ended by an {episode['outcome']}: {episode.get('why')}")
        return state

    return solve


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator,unused-ignore]
def reward() -> Any:
    """Return the scorer: the episode's reward, that of `gymnasium.make`; 0 if a limit ended it before its end."""

    async def score(state: TaskState, target: Target) -> Score:
        episode = state.store.get(_EPISODE) or {}
        facts = {name: episode.get(name) for name in ("outcome", "cost", "clock")}
        return Score(
            value=float(episode.get("reward") or 0.0),
            answer=episode.get("answer"),
            explanation=episode.get("why"),
            metadata=facts,
        )

    return score


def _action(message: ChatMessageAssistant) -> Any:
    """Return what the model wrote as an OpenAI message; arguments that could not be read stay so."""
    if not message.tool_calls:
        return message.text
    calls = [
        tool_call(call.id, call.function, call.parse_error if call.parse_error else json.dumps(call.arguments))
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.text, "tool_calls": calls}


def _message(one: dict[str, Any], call: str | None = None) -> ChatMessage:
    """Return an OpenAI message; results of calls that the model wrote as text are a user's message."""
    content = str(one["content"])
    if one["role"] == "system":
        return ChatMessageSystem(content=content)
    if one["role"] == "tool" and call is not None:
        return ChatMessageTool(content=content, tool_call_id=call, function=one.get("name"))
    if one["role"] == "tool":
        content = f"<tool_response>\n{content}\n</tool_response>"
    return ChatMessageUser(content=content)
