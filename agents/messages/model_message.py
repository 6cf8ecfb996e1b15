"""A message of a model as it was read: what it thinks, says and asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.messages.token_counts import written_size
from toolorchestra.toolscale.answers.thoughts import thoughts_in

MAX_CALLS = 64
"""Calls read from one message; those beyond are answered with one error."""
MAX_MESSAGE_CHARACTERS = 1_000_000
"""Characters of one message; a longer one is answered with an error and not read."""
Action = str | list[dict[str, Any]] | dict[str, Any]
"""What a policy may send: text, a list of calls, a call, or an OpenAI assistant message."""
Message = Mapping[str, Any]
"""An OpenAI-style message: role, content, and for assistants perhaps `tool_calls`."""


class ParsedCall(msgspec.Struct, frozen=True, repr_omit_defaults=True, gc=False):
    """A call as written. When `error` is set, it could not be read; `raw` is then the text of it, if there is one.

    `repaired` names the form in which it was written, if that is not the one asked for.
    """

    name: str
    arguments: bytes = b"{}"
    id: str | None = None
    error: str | None = None
    raw: str = ""
    repaired: str = ""


class ModelMessage(msgspec.Struct, frozen=True, repr_omit_defaults=True, gc=False):
    """A message as read.

    Attributes:
        text: What is said: without thoughts and calls.
        calls: The calls, in order.
        reasoning: What is thought.
        raw: The text as it was written, thoughts and calls included.
        structured: Whether the calls came apart from the text.
        apart: The thoughts that came in a field of their own.
        length: Bytes of the message, unless they are those of `raw`; see `size`.
    """

    text: str
    calls: tuple[ParsedCall, ...] = ()
    reasoning: str = ""
    raw: str = ""
    structured: bool = False
    apart: str = ""
    length: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the message as text, by which it is priced.

        Calls have the same size in whichever form they came. White space that only lays them out has none, unless there
        is more of it than of all else.
        """
        return written_size(self.raw) if self.length is None else self.length

    @property
    def repaired(self) -> str:
        """The forms of calls that were read although another form was asked for; empty if there are none."""
        for call in self.calls:
            if call.repaired:
                return ", ".join(dict.fromkeys(call.repaired for call in self.calls if call.repaired))
        return ""

    @property
    def asked(self) -> list[tuple[str, Any]]:
        """Names and arguments of the calls; arguments that cannot be read are None."""
        found: list[tuple[str, Any]] = []
        for call in self.calls:
            try:
                found.append((call.name, msgspec.json.decode(call.arguments) if call.error is None else None))
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                found.append((call.name, None))
        return found

    @property
    def beside(self) -> str:
        """The text beside the calls, with the thoughts in tags that are not empty.

        >>> ModelMessage("Well.", raw="<think>Hm.</think>Well.").beside
        '<think>Hm.</think>Well.'
        """
        thoughts, _ = thoughts_in(self.raw)
        return "".join(thought.written for thought in thoughts if thought.tagged and thought.text.strip()) + self.text

    def with_calls(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the message with its calls apart from the text, and thoughts in a model's own marks as well."""
        thoughts, _ = thoughts_in(self.raw)
        marked = (thought.text for thought in thoughts if not thought.tagged)
        apart = "\n".join(text for text in (self.apart, *marked) if text.strip())
        own = {"reasoning_content": apart} if apart else {}
        return {"role": "assistant", "content": self.beside, **own, "tool_calls": list(calls)}

    @property
    def recorded(self) -> dict[str, Any]:
        """The message as a record keeps it: its text as it was written, and the thoughts that came apart from it."""
        message: dict[str, Any] = {"role": "assistant", "content": self.raw}
        if self.apart:
            message["reasoning_content"] = self.apart
        return message
