"""Tools as Python functions, for libraries that make schemas of functions: names, types, defaults and docstrings.

What a function does when it is called is said by the bridge that makes it.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_TYPES: dict[Any, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "object": dict}


class ToolSignature(NamedTuple):
    """The parameters of a tool as Python has them.

    Attributes:
        about: The docstring: what the tool does, and its parameters.
        parameters: The parameters, to be given by name. One called like a keyword of Python has a ``_`` at the end.
        own_names: The tool's own name of each of them.
    """

    about: str
    parameters: tuple[inspect.Parameter, ...]
    own_names: dict[str, str]

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> ToolSignature:
        """Return that of an OpenAI function schema, of which it takes ``description`` and ``parameters``."""
        required = set(schema["parameters"].get("required", ()))
        parameters, described, own_names = [], [], {}
        for own_name, about in schema["parameters"]["properties"].items():
            name = f"{own_name}_" if keyword.iskeyword(own_name) else own_name
            own_names[name] = own_name
            kind, default = _hint_of(about), inspect.Parameter.empty
            if own_name not in required:
                kind, default = kind | None, about.get("default")
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
            described.append(f"    {name}: {_line(about.get('description') or name)}")
        about = "\n".join([_line(schema["description"]), *(["", "Args:", *described] if described else [])])
        return cls(about, tuple(parameters), own_names)

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a function was given by the tool's own names."""
        return {self.own_names.get(name, name): value for name, value in given.items()}


def described(function: F, name: str, about: str, parameters: Sequence[inspect.Parameter], owner: str = "") -> F:
    """Return a function with the name, docstring and signature from which other libraries make a schema.

    Args:
        function: It takes its arguments by name, and returns text.
        name: Its name.
        about: Its docstring.
        parameters: Its parameters.
        owner: Name of a class, of which it is then a method: ``self`` comes first.
    """
    own = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)] if owner else []
    function.__name__, function.__qualname__ = name, f"{owner}.{name}" if owner else name
    function.__doc__ = about
    function.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": str}
    function.__signature__ = inspect.Signature([*own, *parameters], return_annotation=str)  # type: ignore[attr-defined]
    return function


def _hint_of(schema: Mapping[str, Any]) -> Any:
    """Return the type hint of a parameter."""
    if schema.get("enum"):
        return Literal[tuple(schema["enum"])]
    if schema.get("type") == "array":
        return list[_TYPES.get(schema.get("items", {}).get("type", "string"), Any)]  # type: ignore[misc]
    return _TYPES.get(schema.get("type"), Any)  # a server of tools may say more than one type


def _line(text: str) -> str:
    """Return a text in one line: docstrings are read line by line."""
    return " ".join(text.split())
