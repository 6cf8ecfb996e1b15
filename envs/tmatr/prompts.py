"""The prompts of TMATR, from `prompts.yaml`: system messages and descriptions of tools (§3.1, Eq. 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from toolorchestra.envs.tmatr.actions import Action
from toolorchestra.envs.tools.text_input import fence_parameter
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.tools.tool import Tool

_TEXTS = read_yaml(Path(__file__).with_suffix(".yaml"))


def system_prompt(agent: str, actions: Sequence[Action], tools: Mapping[str, Tool], max_turns: int, rules: str) -> str:
    """Return the system message of an agent: what its actions ask of it, and the tools if it decides or selects."""
    tasks = [f"- {_TEXTS['actions'][action]}" for action in actions]
    if Action.DECIDE in actions or Action.SELECT in actions:
        tasks += ["The tools:", *(f"- {name}: {tool.description}" for name, tool in tools.items())]
    prompt: str = _TEXTS["system"]
    return prompt.format(agent=agent, turns=max_turns, tasks="\n".join(tasks), rules=rules)


def description(tool: Tool) -> str:
    """Return what the agent that writes a tool's input reads of it: its input, its output, and an example."""
    texts = _TEXTS["tools"].get(tool.name, {})
    name = fence_parameter(tool)
    if name is None:
        takes = f"a JSON object, {tool.signature()}"
        example = msgspec.json.encode({key: "…" for key, spec in tool.parameters.items() if spec.required}).decode()
    else:
        spec = tool.parameters[name]
        takes = f"text. {spec.description}{' One a line.' if spec.type == 'array' else ''}"
        example = texts.get("example", "…")
    output = texts.get("output", "a text, or JSON")
    return f"Tool: {tool.name}. {tool.description}\nInput: {takes}\nOutput: {output}\nExample: {example}"
