"""Options that several commands share: their types, bounds and values given as text; and groups of commands."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import msgspec
from tyro.conf import Positional, arg, subcommand

from toolorchestra.toolscale.common.errors import ToolOrchestraError

if TYPE_CHECKING:
    from toolorchestra.agents.chat.base import ChatModel
    from toolorchestra.agents.experts.catalog import Catalog
    from toolorchestra.toolscale.workers.units import Executor

Env = Annotated[Positional[str], arg(metavar="ENV")]
NamedValues = Annotated[dict[str, str], arg(metavar="NAME VALUE …")]
Split = Literal["train", "test", "test_intents", "all"]
ExecutorName = Literal["process", "ray"]


class UsageError(ToolOrchestraError):
    """Options that cannot be used, alone or together.

    It is printed in one line. `OptionError` is a ValueError, of which tyro makes a box that names its own classes.
    """


@dataclass(kw_only=True)
class SourceOptions:
    """The options that say where the tasks of an environment come from whose id leaves that open."""

    source: str | None = None
    """For an id with `Custom` as its source: the name of a source, such as a public data set (`gsm8k`)."""
    source_options: NamedValues = field(default_factory=dict)
    """Options of a public data set: `files PATH`, `limit N`, `revision COMMIT`, `held_out SHARE`."""

    def _source(self, env_id: str) -> dict[str, Any]:
        """Return the argument that gives an environment its source, if one is named."""
        from toolorchestra.envs.task_source import source_argument

        return source_argument(env_id, self.source, option_values(self.source_options))


@dataclass(kw_only=True)
class CatalogOptions:
    """The option that says which catalogue of experts is meant."""

    catalog: tuple[Path, ...] = ()
    """Catalogue files of your own, which extend and override the shipped one."""

    def _catalog(self) -> Catalog:
        from toolorchestra.agents.experts.catalog import Catalog

        return Catalog.load(*self.catalog)


@dataclass(kw_only=True)
class WorkerOptions:
    """The options that say how many processes do the work, and where."""

    workers: int = 1
    """Number of processes that do the work. What is written is the same for any number."""
    executor: ExecutorName = "process"
    """`process`: on this machine. `ray`: actors on a Ray cluster (extra `ray`)."""
    ray_address: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """With --executor ray: a running cluster (`auto`, HOST:PORT or ray://HOST:PORT); by default that in RAY_ADDRESS, or
    else Ray is started on this machine."""

    @property
    def _fans_out(self) -> bool:
        """Whether other processes do the work."""
        return self.workers > 1 or self.executor == "ray"

    def _executor(self) -> Executor:
        """Return the executor; use it in a ``with`` block."""
        from toolorchestra.toolscale.workers.executors import make_executor

        if self.ray_address is not None and self.executor != "ray":
            raise UsageError("--ray-address is for --executor ray: give that as well.")
        require_at_least(self, workers=1)
        return make_executor(self.executor, self.workers, self.ray_address)


@contextmanager
def real_model(catalog: Catalog, name: str) -> Iterator[ChatModel]:
    """Yield the real model behind an entry of a catalogue, and close its connection at the end."""
    model = catalog.chat(name)
    try:
        yield model
    finally:
        if close := getattr(model, "close", None):
            close()


def subcommands(commands: Mapping[str, Any], descriptions: Mapping[str, str] | None = None) -> Any:
    """Return the union of commands, by name, that tyro reads; a group among them needs a description."""
    given = descriptions or {}
    named = (Annotated[command, subcommand(name, description=given.get(name))] for name, command in commands.items())
    return reduce(operator.or_, named)


def command_names(union: Any) -> dict[str, Any]:
    """Return what `subcommands` made a union of, by name; nothing for a single command."""
    found: dict[str, Any] = {}
    for part in get_args(union):
        command, named = get_args(part)
        found[named.name] = command
    return found


def option_values(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of options: decoded where they are JSON (numbers, lists, …), else the text itself."""

    def value(text: str) -> Any:
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return text

    return {name: value(text) for name, text in options.items()}


def require_at_least(command: object, **bounds: float) -> None:
    """Raise a `UsageError` if an option of a command is below its bound."""
    for name, bound in bounds.items():
        if (value := getattr(command, name)) < bound:
            raise UsageError(f"--{name.replace('_', '-')} must be at least {bound:g}, got {value}.")
