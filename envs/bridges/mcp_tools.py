"""The tools of an environment as MCP lists them, and what calls return; for `toolorchestra.envs.bridges.mcp`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcp.types import CallToolResult, TextContent, Tool

from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.bridges.served import OVER, Observed, Served, require_full_schemas
from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.common.errors import OptionError

RESET, ANSWER = "reset", "answer"
_META = "toolorchestra/episode"
_CHOICES: dict[str, Any] = {
    "seed": {"type": "integer", "minimum": 0, "description": "Seed of the episode; it draws the task."},
    "task_id": {"type": "string", "description": "Id of the task, in place of drawing one."},
    "split": {"type": "string", "description": "Split to draw from: train, test, test_intents or all."},
    "difficulty": {"type": "array", "items": {"type": "integer"}, "description": "Levels to draw from, 1 to 5."},
}


def episode_tools(env: str, options: Mapping[str, Any]) -> list[Tool]:
    """Return the tools of an environment as MCP lists them, and the two of the episode."""
    require_full_schemas(options, "a client of MCP")
    game = Served(env, options)
    try:
        if not isinstance(game.env.unwrapped, OrchestrationEnv):
            raise OptionError(
                f"{env} is no environment of one agent that calls tools. Serve it by OpenEnv's protocol instead."
            )
        schemas = [tool["function"] for tool in game.reset(seed=0).tools]
    finally:
        game.close()
    if names := {RESET, ANSWER} & {schema["name"] for schema in schemas}:
        raise OptionError(f"{env} has a tool called {names.pop()!r}, a name that the server needs. Rename it.")
    return listed(schemas)


def listed(schemas: Sequence[Mapping[str, Any]]) -> list[Tool]:
    """Return tools as MCP lists them: those of the environment, given as schemas, and those of the episode."""
    begin = {"type": "object", "properties": _CHOICES, "additionalProperties": False}
    text = {"type": "string", "description": "The whole answer."}
    final = {"type": "object", "properties": {"text": text}, "required": ["text"], "additionalProperties": False}
    tools = [
        Tool(name=RESET, description="Begin an episode. It returns the request and the rules.", input_schema=begin),
        *(Tool(name=one["name"], description=one["description"], input_schema=one["parameters"]) for one in schemas),
    ]
    if any(one["name"] == SUBMIT for one in schemas):
        return tools
    return [*tools, Tool(name=ANSWER, description="Give the final answer, which ends the episode.", input_schema=final)]


def taken(game: Served, name: str, arguments: Mapping[str, Any]) -> Observed:
    """Begin an episode, end it, or call one of its tools."""
    if name == RESET:
        return game.reset(**arguments)
    if name != ANSWER:
        return game.step([{"name": name, "arguments": dict(arguments)}])
    text = arguments.get("text")
    if not isinstance(text, str) or len(arguments) > 1:
        raise OptionError(f"`{ANSWER}` needs one argument, `text`, which is a string.")
    env = game.env.unwrapped
    return game.step(env.final(text) if env.schemas_read else text)


def shown(observed: Observed) -> CallToolResult:
    """Return what a client is told of a call."""
    texts = [str(message["content"]) for message in observed.messages] or [observed.text]
    if observed.done and observed.info:
        texts.append(json.dumps({"outcome": observed.info.get("outcome"), "reward": observed.reward}))
    failed = observed.text == OVER or _failed(observed)
    return result("\n".join(filter(None, texts)), about(observed), failed=failed)


def about(observed: Observed) -> dict[str, Any]:
    """Return what a client may know of the episode."""
    return {"reward": observed.reward, "done": observed.done, **observed.info}


def _failed(observed: Observed) -> bool:
    """Return whether a tool did not do what it was called for."""
    for message in observed.messages:
        if message["role"] == "tool" and json.loads(message["content"]).get("status") != "OK":
            return True
    return False


def result(text: str, about: Mapping[str, Any] | None = None, *, failed: bool = False) -> CallToolResult:
    """Return a text as the result of a call, with what the client may know of the episode beside it."""
    meta = None if about is None else {_META: dict(about)}
    return CallToolResult(content=[TextContent(text=text)], is_error=failed, _meta=meta)
