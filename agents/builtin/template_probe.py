"""A conversation on which a renderer is tried: what it renders must be read back as the same calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.agents.messages.content import tool_call
from toolorchestra.agents.messages.model_message import Message, ModelMessage

PROBE = "Zq7"
"""A word that no template has."""
USER: Message = {"role": "user", "content": "?"}


class LostError(ValueError):
    """What a template loses of a conversation."""


class ReadingRenderer(Renderer, Protocol):
    """A renderer that also says what ids mean."""

    tokenizer: Any

    def read_ids(self, ids: Sequence[int], tools: Sequence[Mapping[str, Any]] = ()) -> ModelMessage:
        """Return what the ids say and ask for."""


_PROPERTIES = {
    "text": {"type": "string"},
    "number": {"type": "integer"},
    "yes": {"type": "boolean"},
    "list": {"type": "array", "items": {"type": "string"}},
    "object": {"type": "object"},
}
_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Looks.",
            "parameters": {"type": "object", "properties": _PROPERTIES, "required": ["text"]},
        },
    }
    for name in ("find_probe", "set_probe")
]
_ARGUMENTS: list[dict[str, Any]] = [
    {
        "text": 'Crème "brûlée", 1/2\nor it\'s \\frac',
        "number": 7,
        "yes": True,
        "list": ["a", "b"],
        "object": {"n": None},
    },
    {"text": "12"},
]


def _message(*numbers: int) -> Message:
    calls = [tool_call(f"call_{n + 1}", _TOOLS[n]["function"]["name"], json.dumps(_ARGUMENTS[n])) for n in numbers]
    return {"role": "assistant", "content": f"{PROBE}." if len(numbers) > 1 else "", "tool_calls": calls}


def probe(renderer: ReadingRenderer) -> None:
    """Raise `LostError` with what a renderer loses of tools, calls, results and answers."""
    opening: list[Message] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROBE}]
    prompt = renderer.tokenizer.decode(renderer.encode_prompt(opening, _TOOLS))
    for name in (*(tool["function"]["name"] for tool in _TOOLS), *_PROPERTIES, PROBE):
        if name not in prompt:
            raise LostError("it leaves out tools" if name != PROBE else "it leaves out what a user says")
    results: list[Message] = [
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "name": "find_probe",
            "content": f'{{"status": "OK", "n": "{PROBE}"}}',
        },
        {"role": "tool", "tool_call_id": "call_2", "name": "set_probe", "content": f"{PROBE}{PROBE}"},
    ]
    for numbers in ((0,), (1,), (0, 1)):
        message = _message(*numbers)
        for before in (opening, [*opening, message, *(results[n] for n in numbers)]):
            written = renderer.encode_action(message, before)
            wanted = [(_TOOLS[n]["function"]["name"], _ARGUMENTS[n]) for n in numbers]
            if (got := renderer.read_ids(written, _TOOLS).asked) != wanted:
                lost = "calls" if not got else "all but the first of several calls" if len(numbers) > len(got) else ""
                raise LostError(f"it leaves out {lost}" if lost else "arguments are read back as others")
            if len(numbers) > 1 and f"{PROBE}." not in renderer.tokenizer.decode(written):
                raise LostError("it leaves out what is said beside calls")
            if not renderer.decode_action(written, _TOOLS).well_formed:
                raise LostError("a turn with calls has no end")
        shown = renderer.tokenizer.decode(renderer.encode_results([results[n] for n in numbers], written))
        if not all(PROBE * (n + 1) in shown for n in numbers):
            raise LostError("it leaves out results")
    answer: Message = {"role": "assistant", "content": f"It is {PROBE}."}
    found = renderer.decode_action(renderer.encode_action(answer), _TOOLS)
    if PROBE not in str(found.action) or not found.well_formed:
        raise LostError("it leaves out answers, or gives them no end")
