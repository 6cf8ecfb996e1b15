"""The commands `toolorchestra experts ask`, `fit` and `describe`: evaluate an expert on tasks, and use its answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from toolorchestra.cli.files import print_json, with_folder
from toolorchestra.cli.options import CatalogOptions, UsageError, WorkerOptions, real_model, require_at_least
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.svg_themes import svg_of
from toolorchestra.toolscale.common.writing import whole_file, write_whole

if TYPE_CHECKING:
    from toolorchestra.agents.chat.base import ChatModel
    from toolorchestra.agents.experts.evaluation import ExpertEvaluation, ExpertTask
    from toolorchestra.agents.experts.fit import Fit

Name = Annotated[Positional[str], arg(metavar="NAME")]

_PLAIN: dict[str, dict[str, None]] = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {}}
"""Formats of plots, each with the metadata left out, so that the same fit gives the same file."""


@dataclass(kw_only=True)
class _EvaluationOptions(CatalogOptions, WorkerOptions):
    """The options that say which expert is evaluated, and on what."""

    name: Name
    """Name of the expert."""
    tasks: Annotated[Path | None, arg(metavar="FILE")] = None
    """JSONL file of tasks: {key, instruction, answer} and, as far as known, subject, steps, difficulty, notes. A
    simulated expert needs none: it is given graded tasks, which state only subject, steps and difficulty."""
    seed: int = 0
    """Seed of the sample of tasks and of the answers."""
    temperature: float = 1.0
    """Sampling temperature."""
    max_tokens: int = 4096
    """Maximum number of tokens of a real expert's answer."""
    simulated: bool = False
    """Evaluate the simulated expert although its entry has an endpoint."""
    record: Annotated[Path | None, arg(metavar="FILE")] = None
    """Record the real expert's answers in this file; those already in it are not asked for again."""
    replay: Annotated[Path | None, arg(metavar="FILE")] = None
    """Take the real expert's answers from this file, without any request."""

    def __post_init__(self) -> None:
        if self.record and self.replay:
            raise UsageError("--record and --replay exclude each other: a recording also replays what it holds.")
        if self.simulated and (self.record or self.replay):
            raise UsageError("--record and --replay are for real experts: leave --simulated out.")

    def _evaluate(self, tasks: Sequence[ExpertTask], samples: int, kept: Path | None = None) -> list[ExpertEvaluation]:
        """Have the expert answer tasks; the answers of a real one are kept in a file, so that none is paid twice."""
        from toolorchestra.agents.chat.replay import RecordingChat, ReplayChat
        from toolorchestra.agents.experts.evaluation import ask, simulate_parts

        catalog = self._catalog()
        if self.simulated or not (catalog.spec(self.name).endpoint or self.record or self.replay):
            expert = catalog.simulated(self.name)
            sampled = {"samples": samples, "seed": self.seed, "temperature": self.temperature}
            with self._executor() as executor:
                return simulate_parts(executor, expert, tasks, **sampled)
        if self._fans_out:
            raise UsageError(
                f"{self.name} is real, and is asked for all answers at once by one process: leave --workers and "
                "--executor out. How many requests are under way is `max_concurrency` of its endpoint."
            )
        if self.tasks is None:
            raise OptionError(f"{self.name} is real: give it tasks with --tasks FILE, or evaluate it --simulated.")
        sampling: dict[str, Any] = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        with ExitStack() as stack:
            if self.replay:
                chat: ChatModel = ReplayChat(self.replay, catalog.spec(self.name).model or self.name)
            else:
                chat = stack.enter_context(real_model(catalog, self.name))
                if record := self.record or kept:
                    chat = stack.enter_context(RecordingChat(chat, record))
            return ask(chat, self.name, tasks, samples=samples, seed=self.seed, **sampling)


@dataclass(kw_only=True)
class AskExpertCommand(_EvaluationOptions):
    """Evaluate an expert on tasks and write its answers, right and wrong, as `experts fit` reads them."""

    out: Annotated[Path, arg(metavar="FILE")] = Path("answers.jsonl")
    """JSONL file to write."""
    count: int = 200
    """Without --tasks: number of graded tasks."""
    noted: float = 0.2
    """Without --tasks: share of the graded tasks with an adversarial note."""
    samples: int = 4
    """Answers to each task; more than one shows the noise that they have in common."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, count=1, samples=1)
        if not 0 <= self.noted <= 1:
            raise UsageError(f"--noted must be from 0 to 1, got {self.noted:g}.")

    def run(self) -> int:
        """Evaluate it, and print how often it was right."""
        from toolorchestra.agents.experts.evaluation import graded_tasks, read_tasks
        from toolorchestra.cli.display.console import show
        from toolorchestra.toolscale.common.jsonl import write_jsonl

        with_folder(self.out)  # before anything is asked
        tasks = read_tasks(self.tasks) if self.tasks else graded_tasks(self.count, seed=self.seed, noted=self.noted)
        special = self.out.exists() and not self.out.is_file()  # a device or a pipe, with no file beside it
        kept = None if special else self.out.with_name(f"{self.out.name}.part")
        try:
            evaluations = self._evaluate(tasks, self.samples, kept)
        except BaseException:
            if kept and kept.exists():
                print(f"The answers so far are in {kept}: the same command goes on from there.", file=sys.stderr)
            raise
        write_jsonl(self.out, [evaluation.row for evaluation in evaluations])
        if kept:
            kept.unlink(missing_ok=True)
        right = sum(evaluation.right for evaluation in evaluations)
        show(
            f"{len(evaluations):,} answers in {self.out}, {right:,} right ({right / len(evaluations):.1%})\n"
            f"Fit it:  toolorchestra experts fit {self.out} --name {self.name}"
        )
        return 0


@dataclass(kw_only=True)
class DescribeExpertCommand(_EvaluationOptions):
    """Describe an expert from its answers: by rule, or with --llm by a model that reads them, as in the paper."""

    count: int = 10
    """Number of tasks that it is evaluated on (10 in the paper)."""
    llm: Annotated[str | None, arg(metavar="BASE_URL")] = None
    """Have it written by a model at this OpenAI-compatible server."""
    model: Annotated[str | None, arg(metavar="NAME")] = None
    """With --llm: the model's name on that server."""
    api_key_env: Annotated[str | None, arg(metavar="NAME")] = None
    """With --llm: environment variable that holds the server's key, if it needs one."""
    yaml: bool = False
    """Print the YAML of a catalogue file with the description."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.llm is None) != (self.model is None):
            raise UsageError("--llm and --model go together: --llm BASE_URL --model NAME.")
        require_at_least(self, count=1)

    def run(self) -> int:
        """Evaluate it, and print the description."""
        from toolorchestra.agents.experts.descriptions import describe_by_model, describe_by_rule, sample_tasks
        from toolorchestra.agents.experts.evaluation import graded_tasks, read_tasks
        from toolorchestra.toolscale.common.yaml_reader import dump_yaml

        tasks = read_tasks(self.tasks) if self.tasks else graded_tasks(self.count, seed=self.seed)
        if self.tasks:
            tasks = sample_tasks(tasks, min(self.count, len(tasks)), seed=self.seed)
        evaluations = self._evaluate(tasks, samples=1)
        if self.llm is None:
            text = describe_by_rule(evaluations)
        else:
            from toolorchestra.agents.chat.openai_chat import OpenAIChat

            flags = {"api_key_env": "--api-key-env", "base_url": "--llm", "model": "--model"}
            with OpenAIChat(self.llm, str(self.model), api_key_env=self.api_key_env, option_names=flags) as chat:
                text = describe_by_model(evaluations, chat, seed=self.seed)
        source = f"written by {self.model or 'rule'} from {len(evaluations)} evaluations"
        entry = {"description": text, "sources": {"description": source}}
        print(dump_yaml({"experts": {self.name: entry}}) if self.yaml else f"{text}\n", end="")
        return 0


@dataclass(kw_only=True)
class FitExpertCommand(CatalogOptions):
    """Fit an expert to answers: print the YAML of its entry, and how certain each figure is."""

    answers: Annotated[Positional[Path], arg(metavar="ANSWERS")]
    """JSONL file of answers, of other experts too: {expert, key, right, sample, subject, steps, difficulty, notes,
    tokens, seconds, prompt_tokens, role}, of which the first three are needed."""
    name: str
    """The expert, as the file calls it."""
    like: str | None = None
    """Entry with the figures that the answers do not give; by default that of the same name, if there is one."""
    shared_noise: float = 0.2
    """Share of the noise common to all experts, assumed where no other expert answered the same problems."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the YAML here; it is a catalogue file."""
    plot: Annotated[Path | None, arg(metavar="FILE")] = None
    """Plot observed and predicted accuracy by subject and steps (.png, .pdf or .svg; needs matplotlib)."""
    json: bool = False
    """Print the fit as JSON instead."""

    def __post_init__(self) -> None:
        if not 0 <= self.shared_noise < 1:
            raise UsageError(f"--shared-noise must be at least 0 and below 1, got {self.shared_noise:g}.")
        if self.plot and self.plot.suffix not in _PLAIN:
            raise UsageError(f"--plot writes .png, .pdf or .svg, got {self.plot}.")

    def run(self) -> int:
        """Fit, and print or write the entry."""
        from toolorchestra.agents.experts.evaluation import read_answers
        from toolorchestra.agents.experts.fit import plot_fit
        from toolorchestra.agents.experts.fitting import fit_expert
        from toolorchestra.toolscale.common.yaml_reader import dump_yaml

        catalog = self._catalog()
        rows = read_answers(self.answers)
        known = catalog.experts.get(self.name)
        base = catalog.spec(self.like) if self.like else known
        fit = fit_expert(rows, self.name, base, shared_noise=self.shared_noise)
        if self.plot:
            drawn, kind = plot_fit(fit), self.plot.suffix.removeprefix(".")
            if kind == "svg":
                write_whole(self.plot, svg_of(drawn, "fit"))
            else:
                with whole_file(self.plot) as stream:
                    drawn.savefig(stream, format=kind, dpi=120, metadata=_PLAIN[self.plot.suffix])
        entry = dump_yaml({"experts": {self.name: fit.entry(base, new=base is not known)}})
        if self.out:
            write_whole(self.out, entry)
        if self.json:
            return print_json(fit)
        if not self.out:
            print(entry, end="")
        _explain(fit)
        return 0


def _explain(fit: Fit) -> None:
    """Print on standard error how certain each figure is."""
    from toolorchestra.cli.display.console import key, numbers, plain_table
    from toolorchestra.envs.records.render import VisibleConsole

    fitted = ((path, one) for path, one in fit.estimates.items() if one.fitted)
    rows = ((path, f"{one.value:.4g}", f"{one.low:.4g} – {one.high:.4g}") for path, one in fitted)
    console = VisibleConsole(stderr=True, highlight=False)
    console.print(plain_table(key("figure"), *numbers("fitted", "95 % interval"), rows=rows))
    within = sum(cell.interval[0] <= cell.predicted <= cell.interval[1] for cell in fit.cells)
    console.print(
        f"\n{fit.answers:,} answers to {fit.problems:,} problems; what is predicted lies in the 95 % interval of what "
        f"was observed for {within} of {len(fit.cells)} subjects and lengths.",
        markup=False,
    )
    for remark in fit.remarks:
        console.print(remark, style="yellow", markup=False)
