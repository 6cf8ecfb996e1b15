"""Shells complete `toolorchestra`: a function for bash, and for zsh, that knows all commands, options and their values.

It is made of the commands' dataclasses, and needs no Python when it runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

from tyro.conf import Positional

from toolorchestra.algos.options.config_files import LEARNERS, options_of
from toolorchestra.algos.options.options import CommandLine
from toolorchestra.cli.options import command_names
from toolorchestra.envs.registration import environment_ids, multiagent_ids
from toolorchestra.toolscale.common.errors import UnknownNameError

SHELLS = ("bash", "zsh")
_POSITIONAL = get_args(Positional[str])[1]
_SCRIPT = """\
_toolorchestra() {{
    local word place= words=
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$place $word" in
            {places}) place="$place $word" ;;
        esac
    done
    case "$place ${{COMP_WORDS[COMP_CWORD-1]}}" in
        {values}
        *) case "$place" in
            {words}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _toolorchestra toolorchestra
"""


def completion(shell: str, commands: Any) -> str:
    """Return the script by which a shell completes commands (see `subcommands`); where nothing fits, it takes files.

    Raises:
        UnknownNameError: There is none for this shell.
    """
    if shell not in SHELLS:
        raise UnknownNameError("shell", shell, SHELLS)
    words = dict(_places(commands))
    words |= {f" train {name}": _values(options_of(name)) | _values(CommandLine) for name in LEARNERS}
    script = _SCRIPT.format(
        places="|".join(f'"{place}"' for place in words if place),
        values="\n        ".join(
            f'"{place} {option}") words="{" ".join(values)}" ;;'
            for place, options in words.items()
            for option, values in options.items()
            if option.startswith("-") and values
        ),
        words="\n            ".join(f'"{place}") words="{" ".join(options)}" ;;' for place, options in words.items()),
    )
    return script if shell == "bash" else f"autoload -Uz bashcompinit && bashcompinit\n{script}"


def _places(union: Any, place: str = "") -> Iterator[tuple[str, dict[str, tuple[str, ...]]]]:
    """Yield what may stand behind the words of each command, the empty one first: see `_values`."""
    inner = command_names(union)
    yield place, dict.fromkeys([*inner, "--help"], ()) if inner else _values(union)
    for name, command in inner.items():
        yield from _places(command, f"{place} {name}")


def _values(kind: type) -> dict[str, tuple[str, ...]]:
    """Return the options of a command or learner, each with its values, and the words that may stand without option."""
    found: dict[str, tuple[str, ...]] = {"--help": ()}
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        values = _choices(hint)
        if field.name == "env":
            values = (*environment_ids(), *multiagent_ids())
        if dataclasses.is_dataclass(hint):
            found |= _values(hint)  # type: ignore[arg-type]  # a class
        elif _POSITIONAL in get_args(hint):
            found |= dict.fromkeys(values, ())
        else:
            found[f"--{field.name.replace('_', '-')}"] = values
    return found


def _choices(hint: Any) -> tuple[str, ...]:
    """Return the texts that a type admits, if it names any."""
    if get_origin(hint) is Literal:
        return tuple(map(str, get_args(hint)))
    return tuple(choice for part in get_args(hint) for choice in _choices(part))
