"""The command `toolorchestra synth domain`."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from toolorchestra.cli.options import UsageError, require_at_least
from toolorchestra.cli.synth.model_options import ModelOptions, QuestionModel
from toolorchestra.cli.synth.solvers import SolverName
from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import ExpertError, SynthesisError
from toolorchestra.toolscale.synth.sizes import Sizes

if TYPE_CHECKING:
    from toolorchestra.toolscale.requests.filters import Solver, Stage
    from toolorchestra.toolscale.synth.model_queries import ModelQueries


@dataclass(kw_only=True)
class SynthDomainCommand(ModelOptions):
    """Make a domain: from the YAML in FOLDER, from a SQLite file, or from a title with a language model."""

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Folder of the domain: with a domain.yaml written by hand, or to be filled."""
    from_sqlite: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the domain's YAML from this SQLite file first."""
    records: Literal["keep", "sample"] = "keep"
    """With --from-sqlite: keep the file's records, or sample new ones like them."""
    names: Annotated[Path | None, arg(metavar="FILE")] = None
    """With --from-sqlite: YAML file that says what tables, columns and texts are called, e.g. in English."""
    references: Annotated[Path | None, arg(metavar="FILE")] = None
    """With --from-sqlite: YAML file that says which columns refer to which, where the file does not."""
    rows: int = 4_500
    """With --from-sqlite: about how many rows of all tables together are kept."""
    title: Annotated[str | None, arg(metavar="TEXT")] = None
    """What the domain is, e.g. "Public library"; with --from-sqlite by default from the file's name."""
    today: Annotated[str | None, arg(metavar="DATE")] = None
    """Date on which the tasks take place (YYYY-MM-DD); with --llm by default 2025-07-23, with --from-sqlite the last
    day in the records."""
    seed: int = 0
    """Seed of the domain made here, of the model's sampling, and of the validation."""
    sizes: Sizes = field(default_factory=Sizes)
    solver: tuple[SolverName | Literal["llm"], ...] = ()
    """Drop tasks that none of these solves in --k attempts: the model of --llm, an oracle with injected errors, or
    what a strong or a weak simulated expert proposes."""
    k: int = 8
    """Attempts of each solver."""
    random_episodes: int = 200
    """Episodes of the random policy when the domain is validated."""
    hostile: int = 300
    """Hostile actions sent when it is validated."""
    verbose: Annotated[bool, arg(aliases=["-v"])] = False
    """List also what checks that passed tried and found, and all of what is only noted; failures are always listed."""

    def __post_init__(self) -> None:
        if self.llm is not None and self.from_sqlite is None and (self.model is None or self.title is None):
            raise UsageError('--llm needs a model and a title: --model NAME --title "Public library".')
        if self.llm is None:
            if "llm" in self.solver:
                raise UsageError("--solver llm needs a model: --llm BASE_URL --model NAME.")
            if self.from_sqlite is None and (self.title is not None or self.today is not None):
                raise UsageError(
                    "--title and --today are for a domain made here: give --llm BASE_URL or --from-sqlite FILE, or "
                    "write them into domain.yaml."
                )
        for option in ("names", "references"):
            if getattr(self, option) is not None and self.from_sqlite is None:
                raise UsageError(f"--{option} is for --from-sqlite FILE: give that as well.")
        super().__post_init__()
        require_at_least(self.sizes, subjects=1, entries=10, tools=1, intents=1, tasks_per_intent=1, evolved=0)
        require_at_least(self, rows=50, k=1, random_episodes=1, hostile=1)

    def _run(self) -> int:
        """Write, build, filter and validate; return 1 when a check failed."""
        from toolorchestra.cli.display.console import stdout_console
        from toolorchestra.cli.display.synthesis import print_suggestion

        fills = self.llm is not None or self.from_sqlite is not None
        try:
            with Claim.of_folder(self.folder) if fills or self.folder.is_dir() else nullcontext():
                code = self._build(self._synthesise())
        except KeyboardInterrupt:
            saved = f"What was answered is saved in {self.folder}; the same command goes on."
            print(f"\nInterrupted. {saved}", file=sys.stderr)
            return 130
        if self.from_sqlite is not None:
            print_suggestion(stdout_console(), self.folder / "names.yaml")
        return code

    def _synthesise(self) -> list[Stage]:
        """Write the domain's YAML if --llm or --from-sqlite is given; return the stages of the report."""
        if self.llm is None and self.from_sqlite is None:
            return []
        from toolorchestra.cli.display.console import stdout_console
        from toolorchestra.cli.display.synthesis import print_notes, synthesis_progress
        from toolorchestra.toolscale.synth.from_sqlite import domain_from_sqlite
        from toolorchestra.toolscale.synth.pipeline import report_stages, synthesise

        if self.from_sqlite is not None:
            with ExitStack() as stack:
                found = domain_from_sqlite(
                    self.from_sqlite,
                    self.folder,
                    title=self.title,
                    today=self.today,
                    records=self.records,
                    names=self.names,
                    references=self.references,
                    rows=self.rows,
                    seed=self.seed,
                    queries=self._queries(stack) if self.llm is not None else None,
                )
            print_notes(stdout_console(), found.notes)
            return found.stages
        with self._chat() as chat, synthesis_progress() as update:
            record = synthesise(
                self.folder,
                str(self.title),
                QuestionModel(chat),
                today=self.today or "2025-07-23",
                sizes=self.sizes,
                settings=self._settings(self.seed),
                watch=update,
            )
        return report_stages(record)

    def _queries(self, stack: ExitStack) -> ModelQueries:
        """Return what asks the model of --llm for names, open until the stack is closed."""
        from toolorchestra.cli.display.synthesis import synthesis_progress
        from toolorchestra.toolscale.synth.answer_store import AnswerStore
        from toolorchestra.toolscale.synth.model_queries import ModelQueries
        from toolorchestra.toolscale.synth.pipeline import ANSWERS

        model = QuestionModel(stack.enter_context(self._chat()))
        store = stack.enter_context(AnswerStore(self.folder / ANSWERS))
        update = stack.enter_context(synthesis_progress())
        return stack.enter_context(ModelQueries(model, store, self._settings(self.seed), update))

    def _build(self, synthesis: list[Stage]) -> int:
        """Build, filter, report and validate."""
        from toolorchestra.cli.display.console import stdout_console
        from toolorchestra.cli.display.domains import print_build
        from toolorchestra.cli.display.synthesis import filter_table
        from toolorchestra.cli.synth.solvers import filtered
        from toolorchestra.toolscale.domain_folder import build_domain, save_tasks

        console = stdout_console()
        began = time.perf_counter()
        domain = build_domain(self.folder)
        try:
            solvers = ((name, self._solver(name)) for name in self.solver)
            unread = None if self.llm is None and self.from_sqlite is None else self.folder
            tasks, report = filtered(domain, solvers, self.k, unread=unread)
        except ExpertError as error:
            raise SynthesisError(f"The solver failed: {error} The same command goes on.", resumable=True) from None
        if not tasks:
            report.save(self.folder / "report.json")
            raise SynthesisError(f"No task is left after the filters; {self.folder / 'report.json'} says why.")
        report.stages[:0] = synthesis
        save_tasks(self.folder, domain, tasks, domain.dropped + report.dropped, report)
        report.save(self.folder / "report.json")
        print_build(console, domain, time.perf_counter() - began)
        console.print()
        console.print(filter_table(report))
        return self._validate()

    @contextmanager
    def _solver(self, name: SolverName | Literal["llm"]) -> Iterator[Solver]:
        """Yield what plays a task of the domain just built, and returns whether that solved it."""
        from toolorchestra.agents.policies.chat_policy import ChatPolicy
        from toolorchestra.cli.synth.solvers import solving, task_solver

        with ExitStack() as stack:
            if name == "llm":
                chat = stack.enter_context(self._chat(self._left()))
                made = solving(self.folder, lambda seed: ChatPolicy(chat, seed, self.temperature, self.max_tokens))
            else:
                made = task_solver(name, self.folder)
            yield stack.enter_context(made)

    def _left(self) -> float | None:
        """Return what is left of the budget."""
        from toolorchestra.toolscale.synth.answer_store import AnswerStore
        from toolorchestra.toolscale.synth.pipeline import ANSWERS

        if self.budget is None:
            return None
        with AnswerStore(self.folder / ANSWERS) as store:
            return max(0.0, self.budget - store.spent)

    def _validate(self) -> int:
        from toolorchestra.cli.display.console import stdout_console
        from toolorchestra.cli.display.episodes import print_report
        from toolorchestra.envs.checks.environment import check_environment

        console = stdout_console()
        report = check_environment(
            "ToolOrchestra-Custom-v0",
            random_episodes=self.random_episodes,
            hostile=self.hostile,
            seed=self.seed,
            domain=str(self.folder),
        )
        console.print()
        print_report(console, report, verbose=self.verbose)
        if report.passed:
            folder = shlex.quote(str(self.folder))
            then = f"Play it:      toolorchestra play {folder}\nTrain on it:  toolorchestra train grpo --env {folder}"
            console.print(f"\n{then}", style="dim", markup=False, soft_wrap=True)
        return 0 if report.passed else 1
