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

    name: Positional[Literal["paramanager", "masbench", "tmatr", "msarl"]]
    """`paramanager`: parallel and serial orchestration, one model and several, budgets of 4 to 16 cost units.
    `masbench`: one agent and several, axis by axis, with a weak and a strong model, with adversarial notes, and by
    difficulty, orchestrator, effort, limit of tokens and number of searches.
    `tmatr`: a team that cannot use its tools yet, trained by online DPO: inferencer first, planner first, or both.
    `msarl`: a reasoner with a helper, one agent, and one whose old outputs are deleted, on chains of programs with ever
    longer outputs."""
    questions: int | None = None
    """Questions of the test split (`paramanager`: 500), problems of each value (`masbench`: 400), or questions of
    a batch of rollouts (`tmatr`: 16, `msarl`: 8)."""
    samples: int | None = None
    """Episodes of each question under each condition (`paramanager`: 8, `masbench`: 1, `tmatr` and `msarl`: 4)."""
    quick: bool = False
    """Fewer questions and samples (`msarl`: fewer settings, seeds, tasks and steps), for a run of minutes; --questions
    and --samples take precedence."""
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """Also write everything to this JSON file (`paramanager`), or a CSV, figures and a page to this folder
    (`masbench`, `tmatr`, `msarl`)."""
    runs: Annotated[Path | None, arg(metavar="PATH")] = None
    """Folder of the trainings; those already in it are read instead of run again (`tmatr`, `msarl`)."""
    seeds: tuple[int, ...] | None = None
    """Seeds of the trainings (`tmatr` and `msarl`: 0 to 4, or 0 with --quick)."""
    outputs: tuple[int, ...] = ()
    """Tokens of an output (`msarl`: 25, 100, 400; with --quick 25, 100)."""
    chains: tuple[int, ...] = ()
    """Programs that need each other's values (`msarl`: 1 to 4; with --quick 2)."""
    catalog: tuple[Path, ...] = ()
    """Query the real models, at the endpoints that these catalogue files give them (`masbench`)."""

    def run(self) -> int:
        """Play the episodes, and print the tables."""
        from rich.progress import Progress

        from toolorchestra.envs.render import VisibleConsole

        study = importlib.import_module(f"toolorchestra.algos.studies.{self.name}")
        if self.quick and not hasattr(study, "QUICK"):
            raise OptionError(f"The study {self.name!r} has no quick run. Give --questions and --samples.")
        usual = study.QUICK if self.quick else (study.QUESTIONS, study.SAMPLES)
        questions = usual[0] if self.questions is None else self.questions
        samples = usual[1] if self.samples is None else self.samples
        if min(questions, samples) < 1:
            raise OptionError(f"Expected at least one question and sample, got {questions} and {samples}.")
        with ExitStack() as stack:
            if self.out is not None:
                stack.enter_context(Claim(self.out))
            options = self._options(study, stack)
            progress = stack.enter_context(Progress(console=VisibleConsole(stderr=True)))
            bar = progress.add_task(self.name, total=self._steps(study, questions, samples, options))
            executor = stack.enter_context(self._executor())
            found = study.run(questions, samples, tick=lambda: progress.advance(bar), executor=executor, **options)
            progress.stop()
            print(study.markdown(found), end="")
            if self.out is not None:
                study.write(found, self.out)
        return 0

    @staticmethod
    def _steps(study: Any, questions: int, samples: int, options: dict[str, Any]) -> int:
        """Return the number of steps of the progress bar."""
        plan = {"plan": options["plan"]} if "plan" in options else {}
        return int(study.episodes(questions, samples, **plan)) * len(options.get("seeds", (0,)))

    def _options(self, study: Any, stack: ExitStack) -> dict[str, Any]:
        """Return the options of this study alone: trainings, or real models, which are closed with `stack`."""
        trains = self.name in ("tmatr", "msarl")
        if not trains and (self.runs or self.seeds is not None):
            raise OptionError(f"The study {self.name!r} trains nothing. Leave out --runs and --seeds.")
        if self.catalog and self.name != "masbench":
            raise OptionError(f"The study {self.name!r} is of simulated models alone. Leave out --catalog.")
        if trains and self.executor == "ray" and self.runs is None:
            raise OptionError("Trainings on several machines need a folder that all of them have: give --runs.")
        if self.name != "msarl" and (self.outputs or self.chains):
            raise OptionError(f"The study {self.name!r} has no outputs of programs. Leave out --outputs and --chains.")
        if self.name == "msarl":
            plan = (study.QUICK_PLAN if self.quick else study.FULL).of(self.outputs, self.chains)
            return {"seeds": self.seeds or plan.seeds, "runs": self.runs, "plan": plan}
        if trains:
            usual = study.QUICK_SEEDS if self.quick else study.SEEDS
            return {"seeds": self.seeds or usual, "runs": self.runs}
        if not self.catalog:
            return {}
        from toolorchestra.agents.experts.catalog import Catalog

        catalog = Catalog.load(*self.catalog)
        models = study.MODELS.items()
        if self._fans_out:
            return {"models": {kind: catalog.shared_chat(name) for kind, name in models}}
        return {"models": {kind: stack.enter_context(real_model(catalog, name)) for kind, name in models}}
