"""The command `toolorchestra experts`: the catalogue of experts, their evaluation, fits and descriptions.

`list`, `show` and `tool-config` are here; `ask`, `fit` and `describe` in `experts_evaluation`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from tyro.conf import Positional, arg

from toolorchestra.cli.experts_evaluation import AskExpertCommand, DescribeExpertCommand, FitExpertCommand, Name
from toolorchestra.cli.files import print_json
from toolorchestra.cli.options import CatalogOptions, subcommands

_HEADS = {"humanities": "human.", "reasoning": "reason.", "function_calling": "calls"}
"""Heads of columns that are shorter than the subject's name."""


@dataclass(kw_only=True)
class ListExpertsCommand(CatalogOptions):
    """List the experts: roles, prices, latencies and skills."""

    configuration: str | None = None
    """Only those of this configuration, at its prices."""
    json: bool = False
    """Print a JSON object of entries by name."""

    def run(self) -> int:
        """Print them."""
        from toolorchestra.agents.experts.catalog import SUBJECTS
        from toolorchestra.cli.display.console import key, numbers, plain_table, show

        catalog = self._catalog()
        specs = catalog.configure(self.configuration).specs if self.configuration else catalog.experts
        if self.json:
            return print_json(specs)
        subjects = [subject for subject in SUBJECTS if subject != "other"]
        heads = [_HEADS.get(subject, subject) for subject in subjects]
        table = plain_table(key("expert"), "roles", *numbers("$ in", "$ out", "s", *heads))
        for name, spec in specs.items():
            figures = (f"{figure:g}" for figure in (spec.price.input, spec.price.output, spec.latency.mean))
            skills = (f"{spec.skill(subject):.1%}".rstrip("%") for subject in subjects)
            table.add_row(name, " ".join(spec.roles), *figures, *skills)
        show(
            table,
            f"\n{len(specs)} experts; $: US dollars per million tokens read and written; s: seconds of a typical call; "
            "skills in %.\nOne in full, with the source of each figure:  toolorchestra experts show NAME",
        )
        return 0


@dataclass(kw_only=True)
class ShowExpertCommand(CatalogOptions):
    """Show an expert: every figure and where it is from."""

    name: Name
    """Name of the expert."""
    json: bool = False
    """Print its entry as JSON."""

    def run(self) -> int:
        """Print it."""
        from toolorchestra.cli.display.console import key, plain_table, show

        catalog = self._catalog()
        spec = catalog.spec(self.name)
        if self.json:
            return print_json(spec)
        figures = _figures(msgspec.to_builtins(spec))
        rows = ((field, value, catalog.source(self.name, field)) for field, value in figures)
        description = [f"{spec.description}\n"] if spec.description else []
        show(f"{self.name}  {spec.model}\n", *description, plain_table(key(""), "value", "source", rows=rows))
        return 0


@dataclass(kw_only=True)
class ShowToolConfigCommand(CatalogOptions):
    """Show a tool configuration: experts, prices and tools; a fixed one, or with --seed a random one as in training."""

    configuration: Annotated[Positional[str], arg(metavar="CONFIGURATION")] = "evaluation"
    """Name of the configuration."""
    seed: int | None = None
    """Draw a random subset at random prices."""
    instance: str = ""
    """With --seed: text from which the draw is seeded too, such as the id of a task."""
    tools: tuple[str, ...] | None = None
    """Basic tools, by default those of the configuration; with --seed, those to draw from."""
    json: bool = False
    """Print the configuration as JSON."""

    def run(self) -> int:
        """Print it."""
        from toolorchestra.cli.display.console import key, numbers, plain_table, show

        catalog = self._catalog()
        tools = catalog.basic_tools(self.configuration) if self.tools is None else self.tools
        if self.seed is None:
            configured = catalog.configure(self.configuration, tools=tools)
        else:
            configured = catalog.draw(self.seed, self.configuration, instance=self.instance, tools=tools)
        if self.json:
            return print_json(configured)
        table = plain_table(key("role"), "expert", *numbers("$ in", "$ out", "s"))
        for role, names in configured.experts.items():
            for name in names:
                spec = configured.specs[name]
                figures = (spec.price.input, spec.price.output, spec.latency.of(role))
                table.add_row(role, name, *(f"{figure:g}" for figure in figures))
        factors = ", ".join(f"{name} × {factor:.2f}" for name, factor in configured.schedule.multipliers.items())
        priced = (f"{name} (${basic.price:g}, {basic.latency:g} s)" for name, basic in configured.tool_specs.items())
        offered = ", ".join(priced) or "none"
        show(table, f"\ntools: {offered}\nprices: {configured.schedule.name}{factors and f' ({factors})'}")
        return 0


ExpertsCommand = subcommands(
    {
        "list": ListExpertsCommand,
        "show": ShowExpertCommand,
        "tool-config": ShowToolConfigCommand,
        "ask": AskExpertCommand,
        "fit": FitExpertCommand,
        "describe": DescribeExpertCommand,
    }
)


def _figures(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each figure of an entry with its key path."""
    for key, child in value.items():
        if (not path and key in ("model", "description", "sources")) or child in (None, {}):
            continue
        if isinstance(child, dict):
            yield from _figures(child, f"{path}{key}.")
        else:
            yield f"{path}{key}", ", ".join(child) if isinstance(child, list | tuple) else f"{child}"
