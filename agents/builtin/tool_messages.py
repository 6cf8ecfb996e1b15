"""Reading tool messages: results, conclusions and proposed steps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from toolorchestra.agents.messages.model_message import Message
from toolorchestra.agents.messages.text_parts import answer_in
from toolorchestra.toolscale.answers.answers import answers, in_form

_OPEN, _CLOSE = "<tool_response>", "</tool_response>"


def conclusion(result: Any) -> Any:
    """Return the answer in an expert's reply, and any other result as it is."""
    if isinstance(result, dict) and list(result) == ["answer"]:
        result = result["answer"]
    return (answer_in(result) or result) if isinstance(result, str) else result


def proposed_call(result: Any) -> Mapping[str, Any] | None:
    """Return the call that an expert proposes as the next step, if there is one."""
    call = result.get("call") if isinstance(result, dict) and len(result) == 1 else None
    return call if isinstance(call, dict) and {"name", "arguments"} <= set(call) else None


def proposed_step(messages: Sequence[Message]) -> dict[str, Any] | str | None:
    """Return the last call or answer that an expert proposed since the policy's last message; None without one.

    An answer to a question, which stands in a box or tag, is given in a box.
    """
    for message in reversed(messages):
        if message["role"] == "assistant":
            break
        if message["role"] == "tool" and (record := read_result(message)).get("status", "OK") == "OK":
            result = record.get("result")
            if call := proposed_call(result):
                return {"name": call["name"], "arguments": call["arguments"]}
            if (answer := conclusion(result)) is not result:
                given = result["answer"] if isinstance(result, dict) else result
                return in_form(str(answer)) if isinstance(given, str) and answers(given) else str(answer)
    return None


def calls_in(message: Message) -> list[dict[str, Any]]:
    """Return the calls of an assistant message, each with ``name`` and ``arguments``."""
    return [read_call(call.get("function", call)) for call in message.get("tool_calls") or ()]


def read_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name and arguments of a call, whose arguments may be JSON text."""
    arguments = call["arguments"]
    return {"name": call["name"], "arguments": json.loads(arguments) if isinstance(arguments, str) else arguments}


def read_result(message: Message) -> dict[str, Any]:
    """Return a tool message's record: a dict with ``status`` and ``result`` or ``error``."""
    content = message.get("content") or ""
    start = content.find(_OPEN)
    end = content.find(_CLOSE, start) if start >= 0 else -1
    try:
        record = json.loads(content[start + len(_OPEN) : end] if end >= 0 else content)
    except (ValueError, RecursionError):
        return {"status": "OK", "result": content}
    return record if isinstance(record, dict) and "status" in record else {"status": "OK", "result": record}
