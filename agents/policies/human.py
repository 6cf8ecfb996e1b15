"""A person at the terminal as a policy."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import msgspec

from toolorchestra.agents.policies.base import Info, Policy
from toolorchestra.toolscale.answers.typed_answers import AnswerSlot
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tools.tool import Tool

_HELP = """\
  TOOL name=value …    call a tool; several calls with ';' between them run together
  answer TEXT          give the final answer
  ?  or  ? TOOL        show the tools, or what one takes
  quit                 leave"""
_PARTS = re.compile(r"""(?:[^;"']|"[^"]*"|'[^']*'|["'])+""")  # what stands between ';' that are not quoted


class HumanPolicy(Policy):
    """A person at the terminal; `read` returns a line, given a prompt, and `show` shows a text."""

    def __init__(self, seed: int = 0, read: Callable[[str], str] = input, show: Callable[[str], None] = print) -> None:
        super().__init__(seed)
        self._read, self._show = read, show
        self._env: Any = None
        self._tools: dict[str, Tool] = {}
        self._greeted = False

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode; before the first, show how to play."""
        super().reset(env, observation, info)
        self._env = env.unwrapped
        self._tools = self._env.play.tools
        if not self._greeted:
            self._show(_HELP)
        self._greeted = True

    def act(self, observation: str, info: Info) -> Any:
        """Ask until the person enters an action."""
        while True:
            line = self._read("> ").strip()
            command, _, rest = line.partition(" ")
            if command in ("?", "help"):
                self._show(self._describe(rest.strip()))
            elif command == "quit":
                raise KeyboardInterrupt
            elif command == "answer":
                return self._env.final(rest if "slots" not in info else self._filled(info["slots"], rest))
            elif line:
                try:
                    return [self._call(part) for part in _PARTS.findall(line) if part.strip()]
                except (ValueError, UnknownNameError) as error:
                    self._show(str(error))

    def _filled(self, slots: Sequence[AnswerSlot], message: str) -> str:
        """Ask for the value of each slot and return them with a message, as JSON; nothing entered is null."""
        values: dict[str, Any] = {}
        for slot in slots:
            written = self._read(f"{slot}: ").strip()
            try:
                values[slot.name] = msgspec.json.decode(written) if written else None
            except (msgspec.DecodeError, RecursionError):
                values[slot.name] = [part.strip() for part in written.split(",")] if slot.several else written
        return msgspec.json.encode({"answer": values, "message": message}).decode()

    def _describe(self, name: str) -> str:
        if not name:
            return "\n".join([*(f"  {tool.name:26} {tool.description}" for tool in self._tools.values()), "", _HELP])
        if name not in self._tools:
            return str(UnknownNameError("tool", name, self._tools))
        tool = self._tools[name]
        lines = [f"{name}: {tool.description}"]
        for key, spec in tool.parameters.items():
            kind = f"one of {', '.join(map(str, spec.enum))}" if spec.enum else spec.type
            lines.append(f"  {key} ({kind}{'' if spec.required else ', optional'}): {spec.description}")
        return "\n".join(lines)

    def _call(self, text: str) -> dict[str, Any]:
        """Return the call that ``tool name=value …`` names; values become the parameter's type.

        A value without a name is that of the parameter in its place, as in ``get_dish D07``.
        """
        name, *values = shlex.split(text)
        if name not in self._tools:
            raise UnknownNameError("tool", name, self._tools)
        parameters = self._tools[name].parameters
        arguments: dict[str, Any] = {}
        for place, written in enumerate(values):
            key, equals, value = written.partition("=")
            if not equals or not key.isidentifier():
                if place >= len(parameters):
                    raise OptionError(f"{name} takes {', '.join(parameters) or 'nothing'}; found {written!r} as well.")
                key, value = list(parameters)[place], written
            arguments[key] = _typed(value, parameters.get(key))
        return {"name": name, "arguments": arguments}


def _typed(value: str, spec: ParameterSpec | None) -> Any:
    """Return a typed value as the parameter's type, or unchanged when it is not of this type."""
    if spec is None or spec.type == "string":
        return value
    if spec.type == "array" and not value.startswith("["):
        item = ParameterSpec(
            type="string" if spec.items is None or spec.items == "object" else spec.items, description=""
        )
        return [_typed(part.strip(), item) for part in value.split(",")]
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
