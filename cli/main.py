"""The command `toolorchestra`: all its subcommands, and how their errors are reported.

One dataclass per command: its fields are the options, the text below each is its help, and `run` does the work and
returns the exit status. Heavy modules are imported in `run`, so that ``--help`` is quick.
"""

import dataclasses
import difflib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_type_hints

import tyro

from toolorchestra.algos.hardware.launch import processes
from toolorchestra.algos.options.config_files import LEARNERS, ConfigFile, config_argument, options_of
from toolorchestra.cli.build import BuildCommand
from toolorchestra.cli.compare import CompareCommand
from toolorchestra.cli.envs import EnvsCommand
from toolorchestra.cli.experts import ExpertsCommand
from toolorchestra.cli.init import InitCommand
from toolorchestra.cli.options import UsageError, command_names, subcommands
from toolorchestra.cli.play import PlayCommand
from toolorchestra.cli.quickstart import QuickstartCommand
from toolorchestra.cli.reverify import ReverifyCommand
from toolorchestra.cli.rollout import RolloutCommand
from toolorchestra.cli.serve import ServeCommand
from toolorchestra.cli.show import ShowCommand
from toolorchestra.cli.synth.commands import SUBCOMMANDS, SynthCommand
from toolorchestra.cli.train import TrainCommand
from toolorchestra.cli.validate import ValidateCommand
from toolorchestra.cli.view import ViewCommand
from toolorchestra.toolscale.common.errors import OptionError, ToolOrchestraError, UnknownNameError, exit_status
from toolorchestra.toolscale.common.flags import error_in_flags
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.common.writing import check_place, out_of_room

_DESCRIPTION = """\
The Gymnasium for LLM orchestration: play, record, check and train on tasks with tools, databases and costs.

Beside the commands: `--version`, and `--print-completion bash` (or zsh), whose output lets the shell complete."""
_GROUPS = {
    "synth": "Make a domain (`synth FOLDER`), tasks, and data to learn from.",
    "experts": "Look at experts (`list`, `show`, `tool-config`), evaluate them (`ask`), fit and describe them.",
}
"""Commands that have commands of their own."""
_OUTPUTS = ("out", "record", "mermaid", "plot", "best", "runs", "export")
"""Options of commands that name what they write; whether that is possible is found before any work is done."""
_MOVED = {
    "tasks": "toolorchestra envs ENV",
    "card": "toolorchestra envs ENV --card",
    "stats": "toolorchestra envs --stats",
    "schema": "toolorchestra build --schema",
    "recipes": "toolorchestra train recipes",
    "robustness": "toolorchestra compare EPISODES… --robustness TASKS",
    "export": "python -m examples.exchange export",
    "import": "python -m examples.exchange import",
    "mas": "python -m examples.designs",
    "masbench": "toolorchestra synth masbench",
    "select": "toolorchestra synth select",
}
"""Commands that were there once, each with what does the same."""
COMMAND_CONFIG = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
"""How tyro reads a command line."""

Command = subcommands(
    {
        "quickstart": QuickstartCommand,
        "envs": EnvsCommand,
        "play": PlayCommand,
        "rollout": RolloutCommand,
        "serve": ServeCommand,
        "show": ShowCommand,
        "view": ViewCommand,
        "compare": CompareCommand,
        "reverify": ReverifyCommand,
        "validate": ValidateCommand,
        "build": BuildCommand,
        "synth": SynthCommand,
        "experts": ExpertsCommand,
        "train": TrainCommand,
        "init": InitCommand,
    },
    _GROUPS,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    It is 0, 1 (a check or an episode failed), 2 (a mistake), 3 (stopped; the same command goes on) or 4 (something
    cannot be written).
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        from toolorchestra import __version__

        print(f"toolorchestra {__version__}")
        return 0
    if given[:1] == ["--print-completion"]:
        return _print_completion(*given[1:2])
    return run_command(Command, given, "toolorchestra", _DESCRIPTION)


def _print_completion(shell: str = "") -> int:
    """Print by what a shell completes the command; return the exit status."""
    from toolorchestra.cli.completion import completion

    try:
        print(completion(shell, Command), end="")
    except UnknownNameError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def run_command(commands: Any, given: Sequence[str], prog: str, description: str) -> int:
    """Run one of some commands (see `subcommands`) with these arguments; return the exit status, as `main` does."""
    command: object = None
    try:
        check_command(given, commands)
        check_processes(given, prog)
        command = tyro.cli(
            commands, prog=prog, description=description, args=expand(given) or ["--help"], config=COMMAND_CONFIG
        )
        for name in _OUTPUTS:
            if path := getattr(command, name, None):
                check_place(path)
        code: int = command.run()  # type: ignore[attr-defined]  # all commands have it
        sys.stdout.flush()
        return code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except ToolOrchestraError as error:
        print(f"error: {visible(error_text(error, command, given))}", file=sys.stderr)
        return exit_status(error)
    except ImportError as error:
        if "pip install" not in str(error):  # a fault of ours, not an extra that is missing
            raise
        print(f"error: {str(error).rstrip('.')}.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        _drop_output()
        return 141
    except RecursionError:  # what is read is refused where it is read; this is for what is only just not too deep
        print("error: What was given is nested too deeply to be worked with. Expected a few levels.", file=sys.stderr)
        return 2
    except OSError as error:
        if error.filename is not None:
            print(f"error: {error.filename}: {error.strerror}.", file=sys.stderr)
            return 2
        if not out_of_room(error):
            raise
        print(f"error: the output cannot be written: {error.strerror}.", file=sys.stderr)
        _drop_output()
        return 4


def error_text(error: ToolOrchestraError, command: object, words: Sequence[str]) -> str:
    """Return what is printed of an error: what the library calls by its arguments is named by the command's flags."""
    learner = command.algorithm if isinstance(command, TrainCommand) else None
    kind = options_of(learner) if learner in LEARNERS else type(command)
    options = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    inner: list[str] = []
    if "env_options" in options:
        from toolorchestra.envs.base import OrchestrationOptions

        inner = [*get_type_hints(OrchestrationOptions)]
    return error_in_flags(error, options, words, inner)


def _drop_output() -> None:
    """Write no more to standard output, also not what is still to be flushed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_command(arguments: Sequence[str], commands: Any = Command) -> None:
    """Raise an `UnknownNameError`, which suggests the nearest, if there is no command of this name.

    >>> check_command(["rolout", "ToolOrchestra-Restaurant-v0"])
    Traceback (most recent call last):
        ...
    toolorchestra.toolscale.common.errors.UnknownNameError: Unknown command 'rolout'. Did you mean 'rollout'? Known: ...
    """
    union, path = commands, "command"
    for word in arguments:
        known = command_names(union)
        if not known or word.startswith("-") or (word not in known and _is_folder(path, word, arguments)):
            return
        if union is Command and word in _MOVED:
            raise UsageError(f"There is no command `{word}`; the same is done by `{_MOVED[word]}`.")
        if word not in known:
            raise UnknownNameError(path, word, known)
        learners = (*LEARNERS, "recipes")
        if word == "train" and arguments[1:2] and not arguments[1].startswith("-") and arguments[1] not in learners:
            raise UnknownNameError("algorithm", arguments[1], learners)
        union, path = known[word], f"command of {word}"


def check_processes(arguments: Sequence[str], prog: str = "toolorchestra") -> None:
    """Raise an `OptionError` if several processes were started for a command that is not for several."""
    if processes() > 1 and arguments[:1] and arguments[0] != "train" and not arguments[0].startswith("-"):
        raise OptionError(
            f"`{prog} {arguments[0]}` is one process, and {processes()} were started together, which would all "
            "do the same. Start it without `torchrun` or `accelerate launch`; commands that divide their work have "
            "`--workers`."
        )


def _is_folder(path: str, word: str, arguments: Sequence[str]) -> bool:
    """Return whether a word after `synth` is meant as the folder of a domain, and not as a command misspelt."""
    if path != "command of synth":
        return False
    meant = difflib.get_close_matches(word, SUBCOMMANDS, n=1, cutoff=0.75)
    return not meant or Path(word).exists() or not {"--llm", "--from-sqlite", "--title"}.isdisjoint(arguments)


def expand(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with what may be left out.

    >>> expand(["synth", "my_domain"])  # the subcommand `domain`
    ['synth', 'domain', 'my_domain']
    >>> expand(["train", "grpo", "--seed", "1"])  # the mark before options of another parser
    ['train', 'grpo', '--', '--seed', '1']
    """
    match list(arguments):
        case ["synth", first, *rest] if first not in (*SUBCOMMANDS, "-h", "--help"):
            return ["synth", "domain", first, *rest]
        case ["train", *options] if options and options[0].startswith("-") and (file := config_argument(options)):
            return ["train", ConfigFile.read(file).learner, "--", *options]
        case ["train", algorithm, first, *rest] if not algorithm.startswith("-"):
            return ["train", algorithm, "--", first, *rest]
        case unchanged:
            return unchanged


if __name__ == "__main__":
    sys.exit(main())
