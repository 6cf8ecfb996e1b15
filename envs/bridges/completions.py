"""The answers of a model that an agent got while it played an episode, and which of them asked for which call."""

from __future__ import annotations

from typing import Any

import msgspec

from toolorchestra.agents.chat.base import ToolCall
from toolorchestra.agents.chat.openai_responses import ServerReply


class RecordedCompletion:
    """An answer.

    Attributes:
        reply: The answer as it was read.
        open_calls: Its calls that the agent has not made yet.
        turns: Numbers of the turns of the episode that came of it.
    """

    def __init__(self, reply: ServerReply) -> None:
        self.reply = reply
        self.open_calls: list[ToolCall] = list(reply.tool_calls)
        self.turns: list[int] = []

    @property
    def message(self) -> dict[str, Any]:
        """Its text and thoughts, as an assistant message without calls."""
        thought = {"reasoning_content": self.reply.reasoning} if self.reply.reasoning else {}
        return {"role": "assistant", "content": self.reply.text, **thought}

    @property
    def token_logprobs(self) -> tuple[list[int], list[float]] | None:
        """Its token ids and their log-probabilities, where the server has given both."""
        ids, logprobs = self.reply.token_ids, self.reply.logprobs
        return (ids, logprobs) if ids and logprobs and len(ids) == len(logprobs) else None

    @property
    def recorded(self) -> dict[str, Any]:
        """What a record keeps of it beside its turns; all of it, where there are none."""
        reply, counts = self.reply, self.reply.usage
        kept: dict[str, Any] = {"prompt_token_ids": reply.prompt_token_ids}
        if counts is not None:
            kept["tokens"] = (counts.prompt_tokens, counts.completion_tokens)
        if not self.turns:
            kept |= {"text": reply.text, "reasoning": reply.reasoning, "tool_calls": reply.tool_calls}
        if not self.turns or self.token_logprobs is None:
            kept |= {"token_ids": reply.token_ids, "logprobs": reply.logprobs}
        return {"turns": self.turns, **{name: value for name, value in kept.items() if value}}


class AskedCall:
    """A call that an agent makes.

    Attributes:
        name: Name of the tool.
        arguments: The arguments as they are to be recorded, as JSON.
        completion: The answer that asked for it, if one did.
        call_id: The id of the call there; empty where it is no call of the answer's, but perhaps code in its text.
        result: What the agent is shown; None until the call was made.
    """

    def __init__(self, name: str, arguments: str, completion: RecordedCompletion | None, call_id: str = "") -> None:
        self.name, self.arguments, self.completion, self.call_id = name, arguments, completion, call_id
        self.result: str | None = None

    def together(self, other: AskedCall) -> bool:
        """Return whether another one may be made in the same message: it is this one, or a call of the same answer."""
        both = bool(self.call_id and other.call_id) and self.completion is other.completion
        return self is other or (both and other.result is None)


class Completions:
    """The answers in the order in which they came."""

    def __init__(self) -> None:
        self._all: list[RecordedCompletion] = []

    def add(self, reply: ServerReply) -> None:
        """Keep an answer."""
        self._all.append(RecordedCompletion(reply))

    def asked(self, name: str, arguments: str) -> AskedCall:
        """Return a call with the answer that asked for it, where it is no longer open.

        The newest answer that has the same call has asked for it, or the newest that has one of this name: frameworks
        add defaults to arguments. Failing these it is the newest answer of all, if that has no calls.
        """
        value = _decoded(arguments)
        for exact in (True, False):
            for completion in reversed(self._all):
                for call in completion.open_calls:
                    if call["name"] == name and (not exact or _decoded(call["arguments"]) == value):
                        completion.open_calls.remove(call)
                        return AskedCall(name, call["arguments"] if exact else arguments, completion, call["id"])
        newest = self._all[-1] if self._all else None
        return AskedCall(name, arguments, None if newest is None or newest.reply.tool_calls else newest)

    def saying(self, text: str) -> RecordedCompletion | None:
        """Return the newest answer that is a text and of which nothing came yet, if there is one."""
        for completion in reversed(self._all):
            reply = completion.reply
            if not (completion.turns or reply.tool_calls) and reply.text.strip() == text.strip():
                return completion
        return None

    @property
    def recorded(self) -> list[dict[str, Any]]:
        """What a record keeps of all of them."""
        return [completion.recorded for completion in self._all]


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text
