"""The command ``toolorchestra study``: experiments of the papers with simulated experts, beside their figures."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from toolorchestra.toolscale.errors import OptionError


@dataclass
class Study:
    """Play an experiment of a paper with simulated experts, and print its tables beside the paper's as Markdown."""

    name: Positional[Literal["paramanager"]]
    """`paramanager`: parallel and serial orchestration, one model and several, budgets of 4 to 16 cost units."""
    questions: int = 500
    """Most questions of the test split."""
    samples: int = 2
    """Episodes of each question under each condition."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Also write everything, question by question, to this JSON file."""

    def run(self) -> int:
        """Play, and print."""
        import msgspec
        from rich.console import Console
        from rich.progress import Progress

        if min(self.questions, self.samples) < 1:
            raise OptionError(f"Expected at least one question and sample, got {self.questions} and {self.samples}.")
        study = importlib.import_module(f"toolorchestra.algos.studies.{self.name}")
        with Progress(console=Console(stderr=True)) as progress:
            bar = progress.add_task("episodes", total=study.episodes(self.questions, self.samples))
            found = study.run(self.questions, self.samples, tick=lambda: progress.advance(bar))
        print(study.markdown(found), end="")
        if self.out is not None:
            self.out.write_bytes(msgspec.json.encode(found) + b"\n")
        return 0
