"""Options of learners from the command line and from YAML files: `--config FILE`, whose keys are those options.

    learner: grpo                 # of `toolorchestra train --config FILE`; with `train grpo` it may be left out
    env: ToolOrchestra-All-v0
    env_options: {tools: full}
    learning_rate: 1.0e-6
    about: {…}                    # anything, for readers only

Options on the command line go before those of the file. Every run writes its own to ``config.yaml`` in its folder,
which is such a file. The recipes, trainings of the papers, are shipped files (`algos/recipes`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import json
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import tyro
import yaml

from toolorchestra import __version__
from toolorchestra.toolscale.common.errors import DomainError, OptionError, UnknownNameError, unknown_name
from toolorchestra.toolscale.common.writing import write_whole
from toolorchestra.toolscale.common.yaml_reader import dump_yaml, parse_yaml

if TYPE_CHECKING:
    from toolorchestra.algos.options.options import LearnerOptions

LEARNERS = {
    "sft": ("sft", "one_agent.TrainSFT"),
    "grpo": ("grpo", "one_agent.TrainGRPO"),
    "msarl": ("msarl", "several_agents.TrainMSARL"),
    "tmatr": ("tmatr", "several_agents.TrainTMATR"),
    "multi-grpo": ("multi_grpo", "several_agents.TrainMultiGRPO"),
}
"""Module of each learner, and the class of its options."""
RECORD = "config.yaml"
"""Name of the file in the folder of a run that holds its options."""
_BESIDE = ("learner", "about")
_RECIPES = Path(__file__).parents[1] / "recipes"

Options = TypeVar("Options", bound="LearnerOptions")


def options_of(learner: str) -> type[LearnerOptions]:
    """Return the class of a learner's options."""
    module, _, name = LEARNERS[learner][1].partition(".")
    kind: type[LearnerOptions] = getattr(importlib.import_module(f"toolorchestra.algos.options.{module}"), name)
    return kind


def learner_of(kind: type) -> str | None:
    """Return the name of the learner with these options; None for one that is not of this library."""
    return next((name for name, (_, options) in LEARNERS.items() if options.endswith(f".{kind.__name__}")), None)


def recipe_names() -> list[str]:
    """Return the names of the shipped recipes.

    >>> recipe_names()[-1]
    'toolorchestra-8b'
    """
    return sorted(file.stem for file in _RECIPES.glob("*.yaml"))


def recipe_file(name: str) -> Path:
    """Return the file of a shipped recipe.

    Raises:
        UnknownNameError: There is none of this name.
    """
    if name not in recipe_names():
        raise UnknownNameError("recipe or file", name, recipe_names())
    return _RECIPES / f"{name}.yaml"


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
            raise OptionError(f"{path}: expected the options of a learner by name, found {repr(values)[:80]}.")
        root: Any = yaml.compose(text, yaml.SafeLoader)
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

    def words(self, kind: type[LearnerOptions]) -> Iterator[str]:
        """Yield the options as words of a command line.

        Raises:
            OptionError: A key is no option of the learner, or a value is not of its type; it names file, line and key.
        """
        learner = learner_of(kind)
        if learner and "learner" in self.values and self.learner != learner:
            raise OptionError(
                f"{self.path} holds options of the learner {self.learner!r}, not of {learner!r}. "
                f"Run `toolorchestra train --config {self.path}`."
            )
        types = typing.get_type_hints(kind)
        known = [field.name for field in dataclasses.fields(kind)]
        for key, given in self.values.items():
            if key in _BESIDE:
                continue
            if key not in known:
                raise self._wrong(key, unknown_name(f"option of {learner or kind.__name__}", key, [*known, *_BESIDE]))
            value, flag = self._converted(key, given, types[key]), key.replace("_", "-")
            if types[key] is bool:
                yield f"--{flag}" if value else f"--no-{flag}"
            elif isinstance(value, tuple | dict):
                pairs = value.items() if isinstance(value, dict) else ((one,) for one in value)
                members = [str(word) for pair in pairs for word in pair]
                if wrong := [word for word in members if word.startswith("--")]:
                    raise self._wrong(key, f"Expected a value that does not begin with two dashes, found {wrong[0]!r}.")
                yield from (f"--{flag}", *members)
            else:
                yield f"--{flag}={value}"

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
            raise self._wrong(key, f"{str(error).rstrip('.')}, found {repr(value)[:80]}.") from None

    def _wrong(self, key: str, message: str) -> OptionError:
        return OptionError(f"{self.path}:{self.lines[key]}: `{key}`: {message}")


def config_argument(arguments: Sequence[str]) -> str | None:
    """Return the value of `--config` among the words of a command line; None without.

    >>> config_argument(["--seed", "1", "--config", "mine.yaml"])
    'mine.yaml'
    """
    for word, value in zip_longest(arguments, arguments[1:]):
        if word == "--config" or word.startswith("--config="):
            return word.partition("=")[2] or value
    return None


def parse_options(
    kind: type[Options], arguments: Sequence[str] | None, prog: str | None = None, *, shown: bool = True
) -> Options:
    """Return the options of a learner from a command line, which may name a file of them by `--config`.

    Help and mistakes are printed only where they are `shown`, of several processes in one.

    Raises:
        OptionError: The file holds what is no option, or a value of another type; or the options cannot be used.
        SystemExit: The command line holds such a thing, or asks for help.
    """
    from toolorchestra.algos.options.help_groups import grouped
    from toolorchestra.algos.options.options import RARE, CommandLine

    words = list(sys.argv[1:] if arguments is None else arguments)
    file = config_argument(words)
    given: Iterable[str] = ConfigFile.read(file).words(kind) if file else ()
    # Checked when all is read, and not by tyro, which would name the class of wrong options.
    made: Any = type(
        kind.__name__, (kind, CommandLine), {"__post_init__": lambda _: None, "__module__": kind.__module__}
    )
    dataclass(made)
    if not {"-h", "--help", "--help-all"}.isdisjoint(words):
        hints = {} if "--help-all" in words else typing.get_type_hints(kind, include_extras=True)
        rare = {name for name, hint in hints.items() if RARE in getattr(hint, "__metadata__", ())}
        made, given, words = grouped(made, rare), (), ["--help"]
    read = tyro.cli(made, prog=prog, description=inspect.getdoc(kind), args=[*given, *words], console_outputs=shown)
    options = kind(**{one.name: getattr(read, one.name) for one in dataclasses.fields(kind) if one.init})
    if read.smoke:
        from toolorchestra.algos.hardware import distributed
        from toolorchestra.algos.options.smoke import shrink

        return distributed.from_main(lambda: shrink(options))  # which writes a model
    return options


def config_text(config: LearnerOptions) -> str:
    """Return the options of a run as a file that `--config` takes.

    >>> from toolorchestra.algos.options.one_agent import TrainSFT
    >>> print("".join(config_text(TrainSFT(steps=5)).splitlines(True)[1:4]), end="")
    learner: sft
    env: ToolOrchestra-Restaurant-v0
    output: runs/sft
    """
    learner = learner_of(type(config))
    values: dict[str, Any] = {"learner": learner} if learner else {}
    values |= {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    plain = msgspec.to_builtins(values, enc_hook=str)
    return f"# Made with toolorchestra {__version__}.\n{dump_yaml(plain)}"


def write_config(config: LearnerOptions) -> None:
    """Write the options of a run into its folder."""
    write_whole(config.output / RECORD, config_text(config))
