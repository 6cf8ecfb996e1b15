"""Messages of the library in the words of a command line.

What the library refuses it names as Python has it: `max_ids`, `helpers='none'`. On a command line the same is called
``--max-ids``, or ``--env-options helpers none``. `in_flags` is the one place that translates.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from toolorchestra.toolscale.common.errors import DomainError, ToolOrchestraError

_NAME = "[a-z][a-z0-9_]*"
_TEXT = r"""'[^'`]*'|"[^"`]*"|[^\s'"`,;()\]]*[^\s'"`,;.()\]]"""  # a value, quoted or not
_NAMED = re.compile(rf"`({_NAME})(?:=({_TEXT}))?`|(?<![\w.`-])({_NAME})=({_TEXT})")
_PLACE = re.compile(r"\S*[./]\S*: ")  # a message about what stands in a file, which has names of its own


def in_flags(message: str, options: Collection[str], words: Sequence[str] = (), inner: Collection[str] = ()) -> str:
    """Return a message with the arguments that it names as a command line has them.

    Args:
        message: The message; one that begins with a file stays as it is.
        options: Names of the options of the command, as fields: ``max_ids`` for ``--max-ids``.
        words: The command line: a name that stands there behind an option such as ``--env-options`` is one of its.
        inner: Further names that ``--env-options`` takes, if the command has it.

    >>> in_flags("`max_ids` must be at least 1, got 0.", ["max_ids", "env"])
    '--max-ids must be at least 1, got 0.'
    >>> words = ["rollout", "MSARL-Math-v0", "--env-options", "old_outputs", "deleted"]
    >>> in_flags("`old_outputs` needs helpers='none'.", ["env_options"], words)
    '`--env-options old_outputs` needs `--env-options helpers none`.'
    """
    if _PLACE.match(message):
        return message

    groups: list[str] = []

    def flag(name: str, value: str | None) -> str:
        if name in options:
            return f"--{name.replace('_', '-')}"
        if name in words:
            before = reversed(words[: list(words).index(name)])
            groups.extend(word for word in before if word.endswith("-options"))
            return f"{groups[0]} {name}" if groups else ""
        if name in inner and "env_options" in options:
            return f"--env-options {name}"
        return f"{groups[0]} {name}" if groups and value is not None else ""  # beside one of these

    def translated(match: re.Match[str]) -> str:
        name, value = match[1] or match[3], match[2] or match[4]
        shown = flag(name, value)
        if not shown:
            return match[0]
        if value is not None and value != "True":
            shown += f" {value.strip(chr(34) + chr(39))}"
        return f"`{shown}`" if " " in shown else shown

    return _NAMED.sub(translated, message)


def error_in_flags(
    error: ToolOrchestraError, options: Collection[str], words: Sequence[str] = (), inner: Collection[str] = ()
) -> str:
    """Return the message of an error; see `in_flags`. That about a domain's files has their words, and keeps them."""
    return str(error) if isinstance(error, DomainError) else in_flags(str(error), options, words, inner)
