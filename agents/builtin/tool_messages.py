"""Reading tool messages: results, conclusions and proposed steps."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolorchestra.agents.builtin.renderer import Message
from toolorchestra.agents.subagents.reading import answer_in

_RESPONSE = re.compile(r"<tool_response>\s*(.*?)\s*</tool_response>", re.DOTALL)


def conclusion(result: Any) -> Any:
    """Return the answer of an expert's reply without its reasoning, and any other result as it is."""
    if isinstance(result, dict) and list(result) == ["answer"]:
        result = result["answer"]
    return (answer_in(result) or result) if isinstance(result, str) else result


def proposed_call(result: Any) -> Mapping[str, Any] | None:
    """Return the call that an expert proposes as the next step, if it does."""
    call = result.get("call") if isinstance(result, dict) and len(result) == 1 else None
    return call if isinstance(call, dict) and {"name", "arguments"} <= set(call) else None


def proposed_step(messages: Sequence[Message]) -> dict[str, Any] | str | None:
    """Return the last call or answer that an expert proposed since the policy last wrote; None if there is none."""
    for message in reversed(messages):
        if message["role"] == "assistant":
            break
        if message["role"] == "tool" and (record := read_result(message)).get("status", "OK") == "OK":
            result = record.get("result")
            if call := proposed_call(result):
                return {"name": call["name"], "arguments": call["arguments"]}
            if conclusion(result) is not result:
                return str(conclusion(result))
    return None


def _step(message: Message) -> dict[str, Any] | str | None:
    """Return what an assistant message does: its one call, or its answer; None if it makes several calls."""
    calls = [call.get("function", call) for call in message.get("tool_calls") or ()]
    if not calls:
        return str(message.get("content") or "")
    if len(calls) > 1:
        return None
    arguments = calls[0]["arguments"]
    return {"name": calls[0]["name"], "arguments": json.loads(arguments) if isinstance(arguments, str) else arguments}


def read_result(message: Message) -> dict[str, Any]:
    """Return a tool message's record: a dict with ``status`` and ``result`` or ``error``."""
    content = message.get("content") or ""
    match = _RESPONSE.search(content)
    try:
        record = json.loads(match.group(1) if match else content)
    except ValueError:
        return {"status": "OK", "result": content}
    return record if isinstance(record, dict) and "status" in record else {"status": "OK", "result": record}
