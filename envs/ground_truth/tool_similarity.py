"""How similar a question is to each tool of a world: shared sequences of three characters, rare ones counting more.

Typing errors and forms of words change few of them. A question in another language shares next to none with any tool.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping

from toolorchestra.envs.answer_modes import SUBMIT_TOOL
from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tools.tool import Tool

_OF_NAME = 3  # what the words of a tool's name count beside those of its description
_MAX_WORDS = 400  # of a question that are compared


class ToolSimilarity:
    """Compares texts with tools by name, description and parameters."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        counts = {name: _described(tool) for name, tool in tools.items()}
        found_in = Counter(gram for grams in counts.values() for gram in grams)
        self._rarity = {gram: math.log(1 + len(counts) / count) for gram, count in found_in.items()}
        self._unknown = math.log(1 + len(counts))
        self._tools = {name: self._weighed(grams) for name, grams in counts.items()}

    def of(self, text: str) -> dict[str, float]:
        """Return the cosine of the angle between a text and each tool, from 0 to 1."""
        written = self._weighed(_grams(text))
        return {
            name: math.fsum(weight * grams.get(gram, 0.0) for gram, weight in written.items())
            for name, grams in self._tools.items()
        }

    def _weighed(self, grams: Counter[str]) -> dict[str, float]:
        weights = {gram: (1 + math.log(n)) * self._rarity.get(gram, self._unknown) for gram, n in grams.items()}
        length = math.sqrt(math.fsum(weight * weight for weight in weights.values())) or 1.0
        return {gram: weight / length for gram, weight in weights.items()}


@functools.lru_cache(maxsize=64)
def tool_similarity(world: Domain) -> ToolSimilarity:
    """Return what compares texts with the tools of a world and `submit`."""
    return ToolSimilarity({**world.tools, SUBMIT: SUBMIT_TOOL})


def _described(tool: Tool) -> Counter[str]:
    name = tool.name.replace("_", " ")
    return _grams(" ".join((*[name] * _OF_NAME, tool.description, *tool.parameters)))


def _grams(text: str) -> Counter[str]:
    words = [word for word in tokens(text)[:_MAX_WORDS] if word.isalpha()]
    padded = (f" {word} " for word in words)
    return Counter(word[place : place + 3] for word in padded for place in range(len(word) - 2))
