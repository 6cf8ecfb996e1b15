"""What a turn in the text of a chat template means when it is read again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from toolorchestra.agents.chat.hermes import CLOSE, around_and_blocks
from toolorchestra.agents.messages.call_forms import find_calls
from toolorchestra.agents.messages.written_values import read_object


class ReadBack(NamedTuple):
    """What a text says and asks for.

    Attributes:
        action: For an environment: the text, or a message with calls in another form than Hermes blocks.
        calls: Names and arguments of the calls; arguments that cannot be read are None.
    """

    action: Any
    calls: list[tuple[str, Any]]

    @property
    def readable(self) -> bool:
        """Whether each call could be read."""
        return all(arguments is not None for _, arguments in self.calls)


def read_back(text: str, tools: Sequence[Mapping[str, Any]] = ()) -> ReadBack:
    """Return what a text says and asks for, of which `tools` (OpenAI function schemas) tell the types."""
    text = _FRAME.sub("", text)
    before, thought, said = text.rpartition("</think>")
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    found = None if "<think>" in said else find_calls(said, schemas)
    if found is None:
        blocks = [block.partition(CLOSE) for block in around_and_blocks(text)[1]]
        return ReadBack(
            text, [_read(*read_object(body)) if end else _read("", "", "cut off") for body, end, _ in blocks]
        )
    kept, place, calls = [before, thought], 0, []
    for call in found[1]:
        kept.append(said[place : call.start])
        place = max(place, call.end)
        written = said[call.start : call.end] if call.error else call.arguments
        calls.append({"function": {"name": call.name, "arguments": written}})
    message = {"role": "assistant", "content": "".join((*kept, said[place:])).strip(), "tool_calls": calls}
    return ReadBack(message, [_read(call.name, call.arguments, call.error) for call in found[1]])


_FRAME = re.compile(
    r"\A\s*+(?:<think>\s*+)?</think>\s*+|\A ?to=user<\|message\|>|<\|channel\|>final<\|message\|>"
    r"|<\|(?:START|END)_RESPONSE\|>"
)
"""What some templates write around what is said: an empty thought, and marks."""


def _read(name: str, arguments: str, error: str) -> tuple[str, Any]:
    return name, None if error else json.loads(arguments)
