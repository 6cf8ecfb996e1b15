"""The command `toolorchestra synth tasks`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from toolorchestra.cli.options import WorkerOptions
from toolorchestra.cli.synth.model_options import domain_name


@dataclass
class SynthTasksCommand(WorkerOptions):
    """Generate tasks at scale: verified, without a model, the same for the same seed."""

    domains: Annotated[Positional[tuple[str, ...]], arg(metavar="DOMAIN")] = ("all",)
    """Names or folders of domains; "all" is all shipped ones."""
    count: int = 20_000
    """Number of tasks in all; each domain gives an equal share."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("tasks.jsonl")
    """File to write; it is written when all tasks are made."""
    seed: int = 0
    """Seed of the tasks."""
    workers: int = 2
    """Number of processes that make tasks. The file is the same for any number."""

    def run(self) -> int:
        """Generate the tasks and print how many were made."""
        from toolorchestra.cli.display.console import progress_bars, stdout_console
        from toolorchestra.cli.display.synthesis import generated_table
        from toolorchestra.toolscale.domain_folder import builtin_domains
        from toolorchestra.toolscale.generate import generate

        names = builtin_domains() if self.domains == ("all",) else [domain_name(name) for name in self.domains]
        began = time.perf_counter()
        with self._executor() as executor, progress_bars() as progress:
            bar = progress.add_task("tasks", total=self.count, note="")

            def update(made: int) -> None:
                progress.update(bar, completed=made)

            found = generate(names, self.count, self.out, seed=self.seed, executor=executor, progress=update)
        console = stdout_console()
        console.print(generated_table(found))
        seconds = time.perf_counter() - began
        console.print(f"\n{found.made:,} verified tasks in {self.out} ({seconds:.1f} s)", markup=False)
        if found.made < found.requested:
            console.print(
                f"{found.requested - found.made:,} fewer than asked for: these domains give no more.", style="yellow"
            )
        return 0 if found.made == found.requested else 1
