"""The command ``toolorchestra synth``: domains made rather than written.

One dataclass per command, as in `toolorchestra.cli`; the work itself is done in `toolorchestra.toolscale`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg, subcommand

from toolorchestra.toolscale.errors import OptionError


@dataclass
class SynthDomain:
    """Make a domain of what FOLDER holds: its own YAML, or a SQLite file."""

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Folder of the domain: with a domain.yaml written by hand, or to be filled."""
    from_sqlite: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the domain's YAML from this SQLite file first."""
    title: Annotated[str | None, arg(metavar="TEXT")] = None
    """What the domain is, e.g. "Public library" (with --from-sqlite; by default from the file's name)."""
    seed: int = 0
    """Seed of the domain, where it is made here."""
    random_episodes: int = 200
    """Episodes of the random policy when the domain is validated."""
    hostile: int = 300
    """Hostile actions sent when it is validated."""

    def __post_init__(self) -> None:
        if self.title is not None and self.from_sqlite is None:
            raise OptionError("--title is for a domain made here: give --from-sqlite FILE as well.")

    def run(self) -> int:
        """Write, build, filter and validate; return 1 when a check failed."""
        from toolorchestra.envs import display
        from toolorchestra.toolscale.domain import build_domain

        console = display.stdout_console()
        began = time.perf_counter()
        if self.from_sqlite is not None:
            from toolorchestra.toolscale.synth.from_sqlite import domain_from_sqlite

            domain_from_sqlite(self.from_sqlite, self.folder, title=self.title, seed=self.seed)
        domain = build_domain(self.folder)
        display.print_build(console, domain, time.perf_counter() - began)
        return self._validate()

    def _validate(self) -> int:
        from toolorchestra.envs import display
        from toolorchestra.envs.checks import check_environment

        console = display.stdout_console()
        report = check_environment(
            "ToolOrchestra-Custom-v0",
            random_episodes=self.random_episodes,
            hostile=self.hostile,
            seed=self.seed,
            domain=str(self.folder),
        )
        console.print()
        display.print_report(console, report)
        if report.passed:
            console.print(
                f"\nPlay it:  toolorchestra play {self.folder}\nTrain on it:  import toolorchestra; "
                f'gymnasium.make("ToolOrchestra-Custom-v0", domain="{self.folder}")',
                style="dim",
                markup=False,
            )
        return 0 if report.passed else 1


SynthCommand = Annotated[SynthDomain, subcommand("domain")]
"""What `synth` can make; `domain` where none is named."""
SUBCOMMANDS = ("domain",)


@dataclass
class Synth:
    """Make a domain (`synth FOLDER`), and what else can be made of domains."""

    command: SynthCommand

    def run(self) -> int:
        """Run the subcommand."""
        return self.command.run()


def with_subcommand(arguments: list[str]) -> list[str]:
    """Return the arguments after ``synth`` with the subcommand `domain` where none is named."""
    named = not arguments or arguments[0] in (*SUBCOMMANDS, "-h", "--help")
    return arguments if named or len(SUBCOMMANDS) == 1 else ["domain", *arguments]
