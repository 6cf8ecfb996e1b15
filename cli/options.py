"""Options that several commands have: their types, their bounds, and values given as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from tyro.conf import Positional, arg

from toolorchestra.toolscale.errors import ToolOrchestraError

Env = Annotated[Positional[str], arg(metavar="ENV")]
NamedValues = Annotated[dict[str, str], arg(metavar="NAME VALUE …")]
Split = Literal["train", "test", "test_intents", "all"]


class UsageError(ToolOrchestraError):
    """Options that cannot be used, alone or together.

    It is printed in one line. `OptionError` is a ValueError, of which tyro makes a box that names its own classes.
    """


def option_values(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of options: decoded where they are JSON (numbers, lists, …), else the text itself."""

    def value(text: str) -> Any:
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return text

    return {name: value(text) for name, text in options.items()}


def require_at_least(command: object, **bounds: float) -> None:
    """Check options of a command against lower bounds.

    Raises:
        UsageError: A value is below its bound.
    """
    for name, bound in bounds.items():
        if (value := getattr(command, name)) < bound:
            raise UsageError(f"--{name.replace('_', '-')} must be at least {bound:g}, got {value}.")
