"""The orchestrator's prompt: the design language, the kinds of agent, the rules, and examples of designs.

Its texts and examples are in `prompts.yaml`. Agents are shown by their signatures only (name, arguments, description).
The rules are those of `toolorchestra.envs.masorchestra.rules`, and examples are written as `to_text` writes designs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolorchestra.envs.masorchestra.design import Design, to_text
from toolorchestra.envs.masorchestra.rules import DoM, Rule
from toolorchestra.envs.masorchestra.subagents import Exchange
from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml
from toolorchestra.toolscale.tools.tool import Tool

_TEXTS = read_yaml(Path(__file__).with_suffix(".yaml"))
_EXCHANGED = {"replies": "reply, reasoning and answer,", "answers": "answer"}
_LEFT_OUT = {
    "low": (Rule.PAIRS, Rule.ONE_EDGE, Rule.UNIQUE, *list(Rule)[list(Rule).index(Rule.DECLARED) :]),
    "high": (Rule.DOM,),
}  # rules that cannot be broken with a degree


def orchestrator_prompt(
    dom: DoM,
    agents: Mapping[str, Tool],
    model: str,
    rules: str,
    exchange: Exchange = "replies",
    *,
    lenient: bool = False,
) -> str:
    """Return the system message for a degree of MAS.

    `agents` are the kinds of agent that designs may use, by name, `model` is the name of the model behind them, and
    `rules` is what must be known of the place where the question is from, `exchange` is what agents read of each other.
    If `lenient`, only the rules of the lenient parser are listed.
    """
    kinds = [f"- {agent.name}({', '.join(agent.parameters)}): {agent.description}" for agent in agents.values()]
    arguments = {name: spec for agent in agents.values() for name, spec in agent.parameters.items()}
    explained = [f"- {name} ({spec.type}): {spec.description}" for name, spec in arguments.items()]
    checked = [f"- {rule.text}" for rule in (Rule.lenient() if lenient else Rule) if rule not in _LEFT_OUT[dom]]
    shown = [
        f"Question: {question}\n{to_text(design)}"
        for question, design in examples(dom)
        if all(agent.kind in agents for agent in design.agents)
    ]
    parts = [
        *(_TEXTS["head"], _TEXTS[dom]["form"].replace("{exchanged}", _EXCHANGED[exchange])),
        "\n".join([f"Agents, all of which use the model {model}:", *kinds, "Arguments:", *explained]),
        _TEXTS["inputs"],
        "\n".join(["A design that breaks one of these rules is not run and fails:", *checked]),
        *("Examples:", *shown, rules),
    ]
    return "\n\n".join(parts)


def examples(dom: DoM) -> list[tuple[str, Design]]:
    """Return questions, each with a design of a degree for it."""
    return [(one["question"], convert({"dom": dom, **one["design"]}, Design)) for one in _TEXTS[dom]["examples"]]
