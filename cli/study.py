"""The command `toolorchestra study`: experiments of the papers with simulated experts and built-in models."""

import importlib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from toolorchestra.cli.options import WorkerOptions, real_model
from toolorchestra.toolscale.claim import Claim
from toolorchestra.toolscale.errors import OptionError


@dataclass
class StudyCommand(WorkerOptions):
    """Run an experiment of a paper with simulated experts or built-in models, and print its tables as Markdown."""

    name: Positional[Literal["paramanager", "masbench", "tmatr"]]
    """`paramanager`: parallel and serial orchestration, one model and several, budgets of 4 to 16 cost units.
    `masbench`: one agent and several, axis by axis, with a weak and a strong model and with adversarial notes.
    `tmatr`: a team trained by online DPO, its agents in turns, one of them alone, or both at once, stage by stage."""
    questions: int | None = None
    """Questions of the test split (`paramanager`: 500), problems of each value (`masbench`: 400), or questions of
    a batch of rollouts (`tmatr`: 16)."""
    samples: int | None = None
    """Episodes of each question under each condition (`paramanager`: 2, `masbench`: 1, `tmatr`: 4)."""
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """Also write everything to this JSON file (`paramanager`), or a CSV, figures and a page to this folder
    (`masbench`, `tmatr`)."""
    runs: Annotated[Path | None, arg(metavar="PATH")] = None
    """Folder of the trainings; those already in it are read instead of run again (`tmatr`)."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the trainings (`tmatr`)."""
    catalog: tuple[Path, ...] = ()
    """Query the real models, at the endpoints that these catalogue files give them (`masbench`)."""

    def run(self) -> int:
        """Play the episodes, and print the tables."""
        from rich.progress import Progress

        from toolorchestra.envs.render import VisibleConsole

        study = importlib.import_module(f"toolorchestra.algos.studies.{self.name}")
        questions = study.QUESTIONS if self.questions is None else self.questions
        samples = study.SAMPLES if self.samples is None else self.samples
        if min(questions, samples) < 1:
            raise OptionError(f"Expected at least one question and sample, got {questions} and {samples}.")
        with ExitStack() as stack:
            if self.out is not None:
                stack.enter_context(Claim(self.out))
            options = self._options(study, stack)
            progress = stack.enter_context(Progress(console=VisibleConsole(stderr=True)))
            bar = progress.add_task(self.name, total=study.episodes(questions, samples) * len(self.seeds))
            executor = stack.enter_context(self._executor())
            found = study.run(questions, samples, tick=lambda: progress.advance(bar), executor=executor, **options)
            progress.stop()
            print(study.markdown(found), end="")
            if self.out is not None:
                study.write(found, self.out)
        return 0

    def _options(self, study: Any, stack: ExitStack) -> dict[str, Any]:
        """Return the options of this study alone: trainings, or real models, which are closed with `stack`."""
        trains = self.name == "tmatr"
        if not trains and (self.runs or self.seeds != (0,)):
            raise OptionError(f"The study {self.name!r} trains nothing. Leave out --runs and --seeds.")
        if self.catalog and self.name != "masbench":
            raise OptionError(f"The study {self.name!r} is of simulated models alone. Leave out --catalog.")
        if trains and self.executor == "ray" and self.runs is None:
            raise OptionError("Trainings on several machines need a folder that all of them have: give --runs.")
        if trains:
            return {"seeds": self.seeds, "runs": self.runs}
        if not self.catalog:
            return {}
        from toolorchestra.agents.experts.catalog import Catalog

        catalog = Catalog.load(*self.catalog)
        models = study.MODELS.items()
        if self._fans_out:
            return {"models": {kind: catalog.shared_chat(name) for kind, name in models}}
        return {"models": {kind: stack.enter_context(real_model(catalog, name)) for kind, name in models}}
