"""The command ``toolorchestra study``: experiments of the papers with simulated experts, beside their figures."""

from __future__ import annotations

import importlib
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from toolorchestra.toolscale.errors import OptionError


@dataclass
class Study:
    """Play an experiment of a paper with simulated experts, and print its tables as Markdown."""

    name: Positional[Literal["paramanager", "masbench"]]
    """`paramanager`: parallel and serial orchestration, one model and several, budgets of 4 to 16 cost units.
    `masbench`: one agent and several, axis by axis, with a weak and a strong model and with notes that deceive."""
    questions: int | None = None
    """Most questions of the test split (`paramanager`: 500), or problems of each value (`masbench`: 200)."""
    samples: int | None = None
    """Episodes of each question under each condition (`paramanager`: 2, `masbench`: 1)."""
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """Also write everything to this JSON file (`paramanager`), or a CSV, figures and a page to this folder
    (`masbench`)."""
    catalog: tuple[Path, ...] = ()
    """Ask the real models, at the endpoints that these catalogue files give them (`masbench`)."""

    def run(self) -> int:
        """Play, and print."""
        from rich.console import Console
        from rich.progress import Progress

        study = importlib.import_module(f"toolorchestra.algos.studies.{self.name}")
        questions = study.QUESTIONS if self.questions is None else self.questions
        samples = study.SAMPLES if self.samples is None else self.samples
        if min(questions, samples) < 1:
            raise OptionError(f"Expected at least one question and sample, got {questions} and {samples}.")
        with ExitStack() as stack:
            more = self._real(study, stack)
            progress = stack.enter_context(Progress(console=Console(stderr=True)))
            bar = progress.add_task("episodes", total=study.episodes(questions, samples))
            found = study.run(questions, samples, tick=lambda: progress.advance(bar), **more)
        print(study.markdown(found), end="")
        if self.out is not None:
            study.write(found, self.out)
        return 0

    def _real(self, study: Any, stack: ExitStack) -> dict[str, Any]:
        """Return the real models as an argument of the study, if they are asked for; they are closed with `stack`."""
        if not self.catalog:
            return {}
        if self.name != "masbench":
            raise OptionError(f"The study {self.name!r} is of simulated models alone. Leave out --catalog.")
        from toolorchestra.agents.catalog import Catalog

        catalog = Catalog.load(*self.catalog)
        chats: dict[str, Any] = {kind: catalog.chat(name) for kind, name in study.MODELS.items()}
        return {"models": {kind: stack.enter_context(closing(chat)) for kind, chat in chats.items()}}
