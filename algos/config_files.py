"""Options of learners from YAML files: `--config FILE`, whose keys are the options of the learner.

    learner: grpo                 # of `toolorchestra train --config FILE`; with `train grpo` it may be left out
    env: ToolOrchestra-All-v0
    env_options: {tools: full}
    learning_rate: 1.0e-6
    about: {…}                    # anything, for readers only

Options on the command line go before those of the file. Every run writes its own to ``config.yaml`` in its folder,
which is such a file. Shipped files are `toolorchestra.algos.recipes`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import inspect
import json
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import tyro
import yaml

from toolorchestra import __version__
from toolorchestra.algos.recipes.shipped import recipe_file
from toolorchestra.toolscale.errors import DomainError, OptionError, unknown_name
from toolorchestra.toolscale.writing import write_whole
from toolorchestra.toolscale.yaml_reader import dump_yaml, parse_yaml

if TYPE_CHECKING:
    from toolorchestra.algos.options import LearnerOptions

LEARNERS = {
    "sft": ("sft", "options_one_agent.TrainSFT"),
    "grpo": ("grpo", "options_one_agent.TrainGRPO"),
    "msarl": ("msarl", "options_several_agents.TrainMSARL"),
    "tmatr": ("tmatr", "options_several_agents.TrainTMATR"),
    "multi-grpo": ("multi_grpo", "options_several_agents.TrainMultiGRPO"),
}
"""Module of each learner, and the class of its options."""
RECORD = "config.yaml"
"""Name of the file in the folder of a run that holds its options."""
_BESIDE = ("learner", "about")

Options = TypeVar("Options", bound="LearnerOptions")


def options_of(learner: str) -> type[LearnerOptions]:
    """Return the class of a learner's options."""
    module, _, name = LEARNERS[learner][1].partition(".")
    kind: type[LearnerOptions] = getattr(importlib.import_module(f"toolorchestra.algos.{module}"), name)
    return kind


def learner_of(kind: type) -> str | None:
    """Return the name of the learner with these options; None for one that is not of this library."""
    return next((name for name, (_, options) in LEARNERS.items() if options.endswith(f".{kind.__name__}")), None)


@dataclass(frozen=True)
class ConfigFile:
    """The content of a configuration.

    Attributes:
        path: The file.
        values: What it holds, by key.
        lines: The line of each key.
    """

    path: Path
    values: Mapping[str, Any]
    lines: Mapping[str, int]

    @classmethod
    def read(cls, name: str | Path) -> ConfigFile:
        """Return the content of a file, or of the shipped recipe of this name.

        Raises:
            OptionError: There is no such file, or it is not YAML with keys.
        """
        path = Path(name) if Path(name).is_file() else recipe_file(str(name))
        try:
            text = path.read_text(encoding="utf-8")
            values = parse_yaml(text, strict=True)
        except (DomainError, UnicodeError) as error:
            raise OptionError(f"{path}: {error}") from None
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise OptionError(f"{path}: expected the options of a learner by name, found {_shown(values)}.")
        root = yaml.compose(text, yaml.SafeLoader)
        assert isinstance(root, yaml.MappingNode), "it has keys"
        lines = {key.value: key.start_mark.line + 1 for key, _ in root.value}
        return cls(path, values, lines)

    @property
    def learner(self) -> str:
        """The learner that the file names.

        Raises:
            OptionError: It names none, or one that there is not.
        """
        if "learner" not in self.values:
            raise OptionError(f"{self.path} does not name its `learner`: add it, or give it as `train LEARNER`.")
        if (name := self.values["learner"]) not in LEARNERS:
            raise self._wrong("learner", unknown_name("learner", str(name), LEARNERS))
        return str(name)

    def arguments(self, kind: type[LearnerOptions]) -> list[str]:
        """Return the options as words of a command line.

        Raises:
            OptionError: A key is no option of the learner, or a value is not of its type; it names file, line and key.
        """
        learner = learner_of(kind)
        if learner and "learner" in self.values and self.learner != learner:
            raise OptionError(
                f"{self.path} holds options of the learner {self.learner!r}, not of {learner!r}. "
                f"Run `toolorchestra train --config {self.path}`."
            )
        types = typing.get_type_hints(kind, include_extras=True)
        known = [field.name for field in dataclasses.fields(kind)]
        words: list[str] = []
        for key, value in self.values.items():
            if key in _BESIDE:
                continue
            if key not in known:
                raise self._wrong(key, unknown_name(f"option of {learner or kind.__name__}", key, [*known, *_BESIDE]))
            words += self._words(key, self._converted(key, value, types[key]), flag=types[key] is bool)
        return words

    def _converted(self, key: str, value: Any, kind: Any) -> Any:
        """Return a value of the file as an option has it; texts are admitted for numbers such as 1e-6."""
        if kind == dict[str, str] and isinstance(value, dict):
            value = {name: given if isinstance(given, str) else json.dumps(given) for name, given in value.items()}
        if isinstance(value, str) and float in (kind, *typing.get_args(kind)):
            with contextlib.suppress(ValueError):  # YAML reads 1e-6, without a point, as text
                value = float(value)
        try:
            return msgspec.convert(value, kind, dec_hook=lambda of, given: of(given))
        except (msgspec.ValidationError, TypeError) as error:
            raise self._wrong(key, f"{str(error).rstrip('.')}, found {_shown(value)}.") from None

    def _words(self, key: str, value: Any, *, flag: bool) -> Iterator[str]:
        name = key.replace("_", "-")
        if flag:
            yield f"--{name}" if value else f"--no-{name}"
            return
        if not isinstance(value, (tuple, dict)):
            yield f"--{name}={value}"
            return
        members = [word for pair in value.items() for word in pair] if isinstance(value, dict) else value
        yield f"--{name}"
        for member in map(str, members):
            if member.startswith("--"):
                raise self._wrong(key, f"Expected a value that does not begin with two dashes, found {member!r}.")
            yield member

    def _wrong(self, key: str, message: str) -> OptionError:
        return OptionError(f"{self.path}:{self.lines[key]}: `{key}`: {message}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def config_argument(arguments: Sequence[str]) -> str | None:
    """Return the value of `--config` among the words of a command line; None without.

    >>> config_argument(["--seed", "1", "--config", "mine.yaml"])
    'mine.yaml'
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config")
    try:
        found: str | None = parser.parse_known_args(arguments)[0].config
    except argparse.ArgumentError:  # without a value: tyro says so
        return None
    return found


def parse_options(
    kind: type[Options], arguments: Sequence[str] | None, prog: str | None = None, *, shown: bool = True
) -> Options:
    """Return the options of a learner from a command line, which may name a file of them by `--config`.

    Help and mistakes are printed only where they are `shown`, of several processes in one.

    Raises:
        OptionError: The file holds what is no option, or a value of another type; or the options cannot be used.
        SystemExit: The command line holds such a thing, or asks for help.
    """
    unchecked: Any = type(kind.__name__, (kind,), {"__post_init__": _not_checked, "__module__": kind.__module__})
    words = list(sys.argv[1:] if arguments is None else arguments)
    file = config_argument(words)
    given = ConfigFile.read(file).arguments(kind) if file else []

    def command(options: Any, config: str | None = None, smoke: bool = False) -> tuple[Any, bool]:
        return options, smoke

    command.__annotations__ = {
        "options": Annotated[unchecked, tyro.conf.arg(name="")],
        "config": Annotated[str | None, tyro.conf.arg(help=_CONFIG_HELP, metavar="FILE")],
        "smoke": Annotated[bool, tyro.conf.arg(help=_SMOKE_HELP), tyro.conf.FlagCreatePairsOff],
    }
    read, smoke = tyro.cli(
        command, prog=prog, description=inspect.getdoc(kind), args=[*given, *words], console_outputs=shown
    )
    options = kind(**{one.name: getattr(read, one.name) for one in dataclasses.fields(kind) if one.init})
    if smoke:
        from toolorchestra.algos import ranks
        from toolorchestra.algos.smoke import toy

        return ranks.from_main(lambda: toy(options))  # which writes a model
    return options


def _not_checked(options: LearnerOptions) -> None:
    """Check nothing: tyro would name the class of wrong options where the command is meant."""


_CONFIG_HELP = "YAML file whose keys are these options, or the name of a recipe (`toolorchestra recipes`). Options on \
the command line go first."
_SMOKE_HELP = (
    "Run at toy size: a tiny random model instead of those given, two steps, small batches. All else stays as \
it is; the folder is that of `output` with -smoke."
)


def config_text(config: LearnerOptions) -> str:
    """Return the options of a run as a file that `--config` takes.

    >>> from toolorchestra.algos.options_one_agent import TrainSFT
    >>> print("".join(config_text(TrainSFT(steps=5)).splitlines(True)[1:4]), end="")
    learner: sft
    env: ToolOrchestra-Restaurant-v0
    output: runs/sft
    """
    learner = learner_of(type(config))
    values: dict[str, Any] = {"learner": learner} if learner else {}
    values |= {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}
    return f"# Made with toolorchestra {__version__}.\n{dump_yaml(values)}"


def write_config(config: LearnerOptions) -> None:
    """Write the options of a run into its folder."""
    write_whole(config.output / RECORD, config_text(config))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(child) for name, child in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(child) for child in value]
    return str(value) if isinstance(value, Path) else value
