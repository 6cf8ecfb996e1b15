"""Habits of servers that speak OpenAI's protocol, each in its own way: what `FakeServer.respond` may be.

All of them are strict about what comes back, as real ones are: one malformed message in the history is status 400. Each
makes calls in its first message, or does what it is known for, and then answers.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

Respond = Callable[[dict[str, Any]], tuple[int, Any]]
FUNCTION = {"name": "list_orders", "arguments": '{"customer_id": "C00"}'}
CALL = {"id": "a", "type": "function", "function": FUNCTION}
ANSWER = "I cannot help with that."
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
NAME = re.compile("[a-zA-Z0-9_-]{1,64}")


def fault(messages: list[dict[str, Any]]) -> str | None:
    """Return what a strict server has against a conversation."""
    ids: set[str] = set()
    waiting: set[str] = set()
    for number, message in enumerate(messages):
        role, content, calls = message["role"], message["content"], message.get("tool_calls", [])
        if not isinstance(content, str):
            return f"message {number}: content must be text"
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                return f"message {number}: no call {message['tool_call_id']!r} waits for a result"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"message {number}: calls {waiting} have no result"
        if role == "assistant" and not content and not calls:
            return f"message {number}: must not be empty"
        for call in calls:
            if not isinstance(call["id"], str) or not call["id"] or call["id"] in ids:
                return f"message {number}: an id must be new, got {call['id']!r}"
            if not NAME.fullmatch(call["function"]["name"]):
                return f"message {number}: not a name: {call['function']['name']!r}"
            try:
                fits = isinstance(json.loads(call["function"]["arguments"]), dict)
            except ValueError:
                fits = False
            if not fits:
                return f"message {number}: function.arguments must be valid JSON"
            ids.add(call["id"])
            waiting.add(call["id"])
    return f"calls {waiting} have no result" if waiting else None


def refused(message: str) -> tuple[int, Any]:
    return 400, {"error": {"message": message, "type": "invalid_request_error"}}


def completion(message: dict[str, Any], usage: Any = USAGE, **choice: Any) -> dict[str, Any]:
    found = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop", **choice}
    return {"id": "x", "object": "chat.completion", "model": "m", "choices": [found], "usage": usage}


def says(*messages: dict[str, Any], usage: Any = USAGE, **choice: Any) -> Respond:
    """A server that says one message after another in each conversation, the last again and again."""

    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        if wrong := fault(body["messages"]):
            return refused(wrong)
        said = sum(message["role"] == "assistant" for message in body["messages"])
        return 200, completion(messages[min(said, len(messages) - 1)], usage, **choice)

    return respond


def calls(*made: dict[str, Any], **message: Any) -> Respond:
    """A server that makes calls, and then answers."""
    return says({"content": None, "tool_calls": list(made), **message}, {"content": ANSWER})


def wants_reasoning(field: str, *, from_all: bool = False) -> Respond:
    """A server that wants its thoughts back with its calls, and takes them in no other field."""
    thoughts: tuple[str, ...] = ("I look it up.", "" if from_all else "And again.")

    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        for message in body["messages"]:
            if {"reasoning_content", "reasoning", "thinking"} & {*message} - {field}:
                return refused("Additional properties are not allowed")
            if message.get("tool_calls") and not message.get(field):
                return refused(f"The {field} in the thinking mode must be passed back to the API.")
        turns = [{"content": "", field: thought, "tool_calls": [CALL]} for thought in thoughts]
        return says(*turns, {"content": ANSWER, field: "That is all."})(body)

    return respond


def without_reasoning() -> Respond:
    """A server that has taken the thoughts out, and refuses them in what comes back."""

    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        if any({"reasoning_content", "reasoning", "thinking"} & {*message} for message in body["messages"]):
            return refused("property 'reasoning_content' is unsupported")
        thought = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "One."}]
        return says({"content": thought, "tool_calls": [CALL]}, {"content": ANSWER})(body)

    return respond


def every_other(garbage: Any) -> Callable[[], Respond]:
    """A server that answers nothing useful every other time that it is asked the same, under status 200."""

    def make() -> Respond:
        answer, times = calls(CALL), Counter[str]()

        def respond(body: dict[str, Any]) -> tuple[int, Any]:
            times[asked := str(body)] += 1
            return (200, garbage) if times[asked] % 2 else answer(body)

        return respond

    return make


def streams(*, newline: str = "\n", index: bool = True, whole: bool = False, dressed: bool = False) -> Respond:
    """A server that streams: thoughts, a call in pieces and its counts at the end, then an answer."""

    def lines(message: dict[str, Any]) -> Iterator[bytes]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": letter} for letter in message.get("reasoning_content", "")]
        deltas += [{"content": letter} for letter in message["content"] or ""]
        for number, call in enumerate(message.get("tool_calls", ())):
            place = {"index": number} if index else {}
            name, arguments = call["function"].values()
            parts = [arguments] if whole else ["", *arguments]
            for first, part in enumerate(parts):
                named = {"id": call["id"], "type": "function"} if not first else {}
                function = {"name": name, "arguments": part} if not first else {"arguments": part}
                deltas.append({"tool_calls": [{**place, **named, "function": function}]})
        pieces: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        pieces += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": USAGE}]
        text = ""
        for number, piece in enumerate(pieces):
            data = json.dumps(piece, indent=1 if dressed and number % 3 == 0 else None)
            text += f": keep-alive\n\nevent: message\nid: {number}\n" if dressed else ""
            text += "".join(f"data: {line}\n" for line in data.splitlines()) + "\n"
        text = f"{text}data: [DONE]\n\n".replace("\n", newline)
        for start in range(0, len(text), 97):  # cut anywhere
            yield text[start : start + 97].encode()

    answer = calls(CALL, CALL | {"id": "b"}, reasoning_content="I look it up.")

    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        status, found = answer(body)
        return (200, lines(found["choices"][0]["message"])) if status == 200 else (status, found)

    return respond


def arguments(written: Any) -> Callable[[], Respond]:
    return lambda: calls(CALL | {"function": FUNCTION | {"arguments": written}})


def counts(usage: Any) -> Callable[[], Respond]:
    return lambda: says({"content": None, "tool_calls": [CALL]}, {"content": ANSWER}, usage=usage)


part = functools.partial(dict, type="text", text=ANSWER)
HABITS: dict[str, Callable[[], Respond]] = {
    "plain": lambda: calls(CALL),
    "content in parts": lambda: says({"content": [part()]}),
    "parts for output": lambda: says({"content": [part(type="output_text"), part(type="output_text")]}),
    "a part of thoughts": lambda: says({"content": [{"type": "thinking", "thinking": "hm"}, part()]}),
    "parts of thoughts, which it does not take back": without_reasoning,
    "a refusal": lambda: says({"content": None, "refusal": "No."}),
    "thoughts wanted back": lambda: wants_reasoning("reasoning_content"),
    "thoughts wanted back by another name": lambda: wants_reasoning("reasoning"),
    "thoughts wanted back where there are none": lambda: wants_reasoning("reasoning_content", from_all=True),
    "counts by other names": counts({"input_tokens": 100, "output_tokens": 10}),
    "counts that are null": counts({"prompt_tokens": None, "completion_tokens": None}),
    "counts as floats": counts({"prompt_tokens": 100.0, "completion_tokens": 10.0}),
    "one count": counts({"prompt_tokens": 100}),
    "no counts": counts(None),
    "no choices every other time": every_other({"choices": [], "usage": USAGE}),
    "choices that are null every other time": every_other({"choices": None}),
    "a page every other time": every_other(b"<html>Back soon.</html>"),
    "half of an answer every other time": every_other(b'{"choices": [{"mess'),
    "an error in a choice every other time": every_other(
        {"choices": [{"error": {"message": "Provider returned error", "code": 502}, "message": {"content": ""}}]}
    ),
    "an error every other time": every_other({"error": {"message": "overloaded", "code": 503}}),
    "ids twice": lambda: calls(CALL, CALL),
    "ids twice in a conversation": lambda: says(*[{"content": None, "tool_calls": [CALL]}] * 3, {"content": ANSWER}),
    "ids missing": lambda: calls(CALL | {"id": "call_2"}, {"function": FUNCTION}),
    "ids empty": lambda: says(*[{"content": None, "tool_calls": [CALL | {"id": ""}] * 2}] * 2, {"content": ANSWER}),
    "ids as numbers": lambda: calls(CALL | {"id": 0}, CALL | {"id": 0}),
    "arguments cut off": arguments('{"customer_id": "C0'),
    "arguments as an object": arguments({"customer_id": "C00"}),
    "arguments that are null": arguments(None),
    "arguments in a list": arguments('["C00"]'),
    "arguments that are no JSON": arguments("customer_id=C00"),
    "arguments empty": arguments(""),
    "the form before tool_calls": lambda: says({"content": None, "function_call": FUNCTION}, {"content": ANSWER}),
    "a name with marks": lambda: calls(CALL | {"function": FUNCTION | {"name": "functions.list_orders<|channel|>"}}),
    "a name that is empty": lambda: calls(CALL | {"function": FUNCTION | {"name": ""}}),
    "no content": lambda: says({"content": None}, {"content": "", "tool_calls": None}, {"content": ANSWER}),
    "a stream": streams,
    "a stream with carriage returns": lambda: streams(newline="\r\n", dressed=True),
    "a stream with other fields and lines": lambda: streams(dressed=True),
    "a stream of calls without an index": lambda: streams(index=False),
    "a stream of whole calls": lambda: streams(index=False, whole=True),
}
"""What servers do, by name: functions that make one."""
