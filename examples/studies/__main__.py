"""The papers' comparisons, with simulated experts and built-in models, as commands in the root of a clone.

    python -m examples.studies paramanager --quick        its tables, as Markdown
    python -m examples.studies --help                     the others

A study is a module of its own with `run`, `episodes`, `markdown` and `write`, and the defaults `QUESTIONS`, `SAMPLES`
and `QUICK`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from rich.progress import Progress
from tyro.conf import arg

from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.cli.main import run_command
from toolorchestra.cli.options import CatalogOptions, WorkerOptions, real_model, subcommands
from toolorchestra.envs.records.render import VisibleConsole
from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import OptionError


@dataclass(kw_only=True)
class StudyOptions(WorkerOptions):
    """The options that all studies have."""

    name: ClassVar[str]
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

    def run(self) -> int:
        """Play the episodes, and print the tables."""
        study = importlib.import_module(f"examples.studies.{self.name}")
        usual = study.QUICK if self.quick else (study.QUESTIONS, study.SAMPLES)
        questions = usual[0] if self.questions is None else self.questions
        samples = usual[1] if self.samples is None else self.samples
        if min(questions, samples) < 1:
            raise OptionError(f"Expected at least one question and sample, got {questions} and {samples}.")
        with ExitStack() as stack:
            if self.out is not None:
                stack.enter_context(Claim(self.out))
            options = self._options(study, stack)
            plan = {"plan": options["plan"]} if "plan" in options else {}
            steps = study.episodes(questions, samples, **plan) * len(options.get("seeds", (0,)))
            progress = stack.enter_context(Progress(console=VisibleConsole(stderr=True)))
            bar = progress.add_task(self.name, total=steps)
            executor = stack.enter_context(self._executor())
            found = study.run(questions, samples, tick=lambda: progress.advance(bar), executor=executor, **options)
            progress.stop()
            print(study.markdown(found), end="")
            if self.out is not None:
                study.write(found, self.out)
        return 0

    def _options(self, study: Any, stack: ExitStack) -> dict[str, Any]:
        """Return the options of this study alone; models among them are closed with `stack`."""
        return {}


class ParaManagerCommand(StudyOptions):
    """Parallel and serial orchestration, one model and several, budgets of 4 to 16 cost units."""

    name = "paramanager"


@dataclass(kw_only=True)
class MASBenchCommand(StudyOptions, CatalogOptions):
    """One agent and several, axis by axis.

    With a weak and a strong model, with adversarial notes, and by difficulty, orchestrator, effort, limit of tokens
    and number of searches. --catalog: query the real models, at the endpoints that these files give them.
    """

    name = "masbench"

    def _options(self, study: Any, stack: ExitStack) -> dict[str, Any]:
        if not self.catalog:
            return {}
        catalog = Catalog.load(*self.catalog)
        models = study.MODELS.items()
        if self._fans_out:
            return {"models": {kind: catalog.shared_chat(name) for kind, name in models}}
        return {"models": {kind: stack.enter_context(real_model(catalog, name)) for kind, name in models}}


@dataclass(kw_only=True)
class TMATRCommand(StudyOptions):
    """A team that cannot use its tools yet, trained by online DPO: inferencer first, planner first, or both."""

    name = "tmatr"
    runs: Annotated[Path | None, arg(metavar="PATH")] = None
    """Folder of the trainings; those already in it are read instead of run again."""
    seeds: tuple[int, ...] | None = None
    """Seeds of the trainings (0 to 4, or 0 with --quick)."""

    def _options(self, study: Any, stack: ExitStack) -> dict[str, Any]:
        if self.executor == "ray" and self.runs is None:
            raise OptionError("Trainings on several machines need a folder that all of them have: give --runs.")
        return {"seeds": self.seeds or (study.QUICK_SEEDS if self.quick else study.SEEDS), "runs": self.runs}


@dataclass(kw_only=True)
class MSARLCommand(TMATRCommand):
    """A reasoner with a helper, one agent, and one whose old outputs are deleted.

    They work on chains of programs with ever longer outputs.
    """

    name = "msarl"
    outputs: tuple[int, ...] = ()
    """Tokens of an output (25, 100, 400; with --quick 25, 100)."""
    chains: tuple[int, ...] = ()
    """Programs that need each other's values (1 to 4; with --quick 2)."""

    def _options(self, study: Any, stack: ExitStack) -> dict[str, Any]:
        plan = (study.QUICK_PLAN if self.quick else study.FULL).of(self.outputs, self.chains)
        return super()._options(study, stack) | {"seeds": self.seeds or plan.seeds, "plan": plan}


Command = subcommands({kind.name: kind for kind in (ParaManagerCommand, MASBenchCommand, TMATRCommand, MSARLCommand)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return run_command(Command, given, "python -m examples.studies", "Repeat an experiment of a paper.")


if __name__ == "__main__":
    sys.exit(main())
