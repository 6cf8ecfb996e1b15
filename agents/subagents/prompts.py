r"""The prompts of sub-agents, by role: ParaManager's (App. F) and MAS-Orchestra's (App. H.3), in words of our own.

The texts are in ``prompts.yaml``. Every role answers in tags: ``<reasoning>`` first, then ``<answer>`` with the final
answer in ``\boxed{}`` (or, for others to read, without it), or ``<code>``, or ``<query>``.
"""

from __future__ import annotations

import functools
from pathlib import Path

from toolorchestra.agents.subagents.question import SubAgentQuestion
from toolorchestra.toolscale.common.yaml_reader import read_yaml


@functools.cache
def prompt(role: str, *, boxed: bool = True) -> str:
    """Return the prompt of a role, a key of ``prompts.yaml``, which asks for a box about the answer if `boxed`."""
    texts = _texts()
    return texts[role].replace("{form}", texts["form" if boxed else "open_form"])


@functools.cache
def _texts() -> dict[str, str]:
    texts: dict[str, str] = read_yaml(Path(__file__).with_suffix(".yaml"))
    return texts


def user_prompt(question: SubAgentQuestion, **blocks: str) -> str:
    """Return a user message with the question, after the rules of the place and other texts in blocks by name."""
    blocks = {"rules": question.rules, **blocks}
    before = "".join(f"<{name}>\n{text}\n</{name}>\n\n" for name, text in blocks.items() if text)
    return f"{before}<user_query>\n{question.text}\n</user_query>"
