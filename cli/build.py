"""The command `toolorchestra build`."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from toolorchestra.cli.files import print_json
from toolorchestra.cli.options import UsageError, require_at_least
from toolorchestra.cli.synth.solvers import SolverName
from toolorchestra.toolscale.common.claim import Claim

if TYPE_CHECKING:
    from toolorchestra.toolscale.domain import Domain


@dataclass
class BuildCommand:
    """Build a domain's folder: database and tasks from its YAML."""

    folder: Annotated[Positional[Path | None], arg(metavar="FOLDER")] = None
    """Folder with a domain.yaml."""
    solver: tuple[SolverName, ...] = ()
    """Run the filters, and drop tasks that none of these solves in --k attempts: an oracle with injected errors, or
    what a strong or a weak simulated expert proposes. build.json says what was dropped."""
    k: int = 8
    """Attempts of each solver."""
    schema: bool = False
    """Print the JSON Schema of domain files, for editors, instead."""

    def __post_init__(self) -> None:
        require_at_least(self, k=1)

    def run(self) -> int:
        """Build, filter if asked to, and print what was made and what was dropped."""
        from toolorchestra.cli.display.console import stdout_console
        from toolorchestra.cli.display.domains import print_build
        from toolorchestra.toolscale.database.format import json_schema
        from toolorchestra.toolscale.domain_folder import build_domain

        if self.schema:
            return print_json(json_schema())
        if self.folder is None:
            raise UsageError("Expected a FOLDER with a domain.yaml.")
        began = time.perf_counter()
        with Claim.of_folder(self.folder) if self.folder.is_dir() else nullcontext():
            domain = build_domain(self.folder)
            if self.solver:
                return self._filter(self.folder, domain, began)
        print_build(stdout_console(), domain, time.perf_counter() - began)
        return 0

    def _filter(self, folder: Path, domain: Domain, began: float) -> int:
        """Filter the tasks of the domain just built, and save those that are left."""
        from toolorchestra.cli.display.console import stdout_console
        from toolorchestra.cli.display.domains import print_build
        from toolorchestra.cli.display.synthesis import filter_table
        from toolorchestra.cli.synth.solvers import filtered, task_solver
        from toolorchestra.toolscale.domain_folder import save_tasks

        solvers = ((name, task_solver(name, folder)) for name in self.solver)
        tasks, report = filtered(domain, solvers, self.k, every=True)
        if not tasks:
            print("failed: no task is left after the filters; the folder holds all that were made.", file=sys.stderr)
            return 1
        dropped = domain.dropped + report.dropped
        save_tasks(folder, domain, tasks, dropped, report)
        console = stdout_console()
        print_build(console, domain.with_tasks(tasks, dropped), time.perf_counter() - began)
        console.print()
        console.print(filter_table(report))
        for one in report.stages[-1].filters:
            for solver, count in (one.solved or {}).items():
                console.print(f"  {solver} solves {count:,} in {self.k} attempts", style="dim", markup=False)
        return 0
