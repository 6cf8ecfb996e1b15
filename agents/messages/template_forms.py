"""In which form a chat template is given a conversation: what it renders itself, and what is written for it.

Some templates want a call's arguments as an object, others as JSON text; many render no tools, calls or results, and
some refuse system messages. What a template does not render is written as text that it does: tools into the system
message, calls as ``<tool_call>`` blocks (Hermes), results as ``<tool_response>`` blocks of a user.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolorchestra.agents.messages.content import tool_call
from toolorchestra.agents.messages.model_message import Message

CallFormat = Literal["native", "hermes"]
"""Calls as the chat template writes them, or as text in ``<tool_call>`` blocks."""

_TOOLS = """\
# Tools

You may call functions, whose signatures stand within <tools></tools>:
<tools>
{tools}
</tools>

For each call, write a JSON object with its name and arguments within <tool_call></tool_call>:
<tool_call>
{{"name": <name>, "arguments": <object>}}
</tool_call>"""


@dataclass(frozen=True)
class TemplateForm:
    """What a chat template renders itself.

    Attributes:
        calls: Calls with their arguments as ``objects`` or as ``strings``; with ``text`` they are written.
        tools: Tools.
        results: Messages of the role ``tool``.
        system: Messages of the role ``system``; else they stand before the first message of the user.
        parts: Whether it wants the content of a message as a list of parts.
    """

    calls: Literal["objects", "strings", "text"] = "objects"
    tools: bool = True
    results: bool = True
    system: bool = True
    parts: bool = False

    def __str__(self) -> str:
        own = "hermes" if self.calls == "text" else f"native, arguments as {self.calls}"
        return own + ", tools as text" * (self.calls != "text" and not self.tools)

    @property
    def format(self) -> CallFormat:
        """How calls stand in the text."""
        return "hermes" if self.calls == "text" else "native"

    def messages(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages to give to the template."""
        shown: list[dict[str, Any]] = []
        for message in self._with_tools(messages, tools):
            new = self._message(message)
            if new["role"] == "system" and not self.system:
                new["role"] = "user"
            merged = not (self.system and self.results)
            if merged and shown and new["role"] == shown[-1]["role"] == "user":
                shown[-1]["content"] += ("\n" if message["role"] == "tool" else "\n\n") + new["content"]
            else:
                shown.append(new)
        if self.parts:
            for new in shown:
                new["content"] = [{"type": "text", "text": new["content"]}]
        return shown

    def _with_tools(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
        if self.tools or not tools:
            yield from messages
            return
        text = _TOOLS.format(tools="\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools))
        first = messages[0] if messages and messages[0]["role"] == "system" else None
        content = f"{first['content']}\n\n{text}" if first else text
        yield {"role": "system", "content": content}
        yield from messages[1:] if first else messages

    def _message(self, message: Message) -> dict[str, Any]:
        calls = () if self.calls == "text" else message.get("tool_calls") or ()
        new = calls_as_text({**message, "tool_calls": ()} if calls else message)
        if calls:
            new["tool_calls"] = [self._call(call) for call in calls]
        content = new["content"]
        if message["role"] == "tool" and not self.results:
            wrapped = content if "<tool_response>" in content else f"<tool_response>\n{content}\n</tool_response>"
            return {"role": "user", "content": wrapped}
        return new

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = call.get("function", call)
        arguments = _object(function["arguments"])
        written: Any = json.dumps(arguments, ensure_ascii=False) if self.calls == "strings" else arguments
        return tool_call(call.get("id") or "call_1", function["name"], written)


def _object(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments  # broken, as the model wrote it


def calls_as_text(message: Message) -> dict[str, Any]:
    """Return a message whose calls stand in its text, in ``<tool_call>`` blocks."""
    said = message.get("content") or ""
    blocks = [_block(call.get("function", call)) for call in message.get("tool_calls") or ()]
    content = "\n".join([said] * bool(said) + blocks) if blocks else said
    return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": content}


def _block(function: Mapping[str, Any]) -> str:
    call = {"name": function["name"], "arguments": _object(function["arguments"])}
    return f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


def candidates(call_format: CallFormat | None) -> Iterator[TemplateForm]:
    """Yield the forms to try with a template, the one that leaves most to it first."""
    shown = ((True, True), (False, True), (False, False))
    own: tuple[Literal["objects"], Literal["strings"]] = ("objects", "strings")
    native = [TemplateForm(calls, tools, results) for tools, results in shown for calls in own]
    written = [TemplateForm("text", tools=False, results=results) for results in (True, False)]
    for form in [*native * (call_format != "hermes"), *written * (call_format != "native")]:
        for parts in (False, True):
            for system in (True, False):
                yield TemplateForm(form.calls, form.tools, form.results, system, parts)
