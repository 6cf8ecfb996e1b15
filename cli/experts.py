"""The command ``toolorchestra experts``: experts, their configurations, evaluations, fits and descriptions.

One dataclass per command, as in `toolorchestra.cli.main`; the work itself is done in `toolorchestra.agents`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from tyro.conf import Positional, arg, subcommand

from toolorchestra.cli.output import print_json, with_folder, write_text
from toolorchestra.toolscale.errors import OptionError

if TYPE_CHECKING:
    from rich.table import Table

    from toolorchestra.agents.chat.base import ChatModel
    from toolorchestra.agents.experts.catalog import Catalog
    from toolorchestra.agents.experts.evaluation import ExpertEvaluation, ExpertTask
    from toolorchestra.agents.experts.fit import Fit
    from toolorchestra.agents.experts.specification import ExpertSpec

Name = Annotated[Positional[str], arg(metavar="NAME")]


@dataclass(kw_only=True)
class _WithCatalog:
    catalog: tuple[Path, ...] = ()
    """Catalogue files of your own, which extend and override the shipped one."""

    def _catalog(self) -> Catalog:
        from toolorchestra.agents.experts.catalog import Catalog

        return Catalog.load(*self.catalog)


@dataclass(kw_only=True)
class ListExperts(_WithCatalog):
    """List the experts: roles, prices, latencies and skills."""

    configuration: str | None = None
    """Only those of this configuration, at its prices."""
    json: bool = False
    """Print a JSON object of entries by name."""

    def run(self) -> int:
        """Print them."""
        catalog = self._catalog()
        specs = catalog.configure(self.configuration).specs if self.configuration else catalog.experts
        if self.json:
            return print_json(specs)
        _print(_spec_table(specs))
        _print(
            f"\n{len(specs)} experts; $: US dollars per million tokens read and written; s: seconds of a typical call; "
            "skills in %.\nOne in full, with the source of each figure:  toolorchestra experts show NAME"
        )
        return 0


@dataclass(kw_only=True)
class ShowExpert(_WithCatalog):
    """Show an expert: every figure and where it is from."""

    name: Name
    """Name of the expert."""
    json: bool = False
    """Print its entry as JSON."""

    def run(self) -> int:
        """Print it."""
        catalog = self._catalog()
        spec = catalog.spec(self.name)
        if self.json:
            return print_json(spec)
        _print(f"{self.name}  {spec.model}\n")
        if spec.description:
            _print(f"{spec.description}\n")
        table = _table("", "value", "source")
        for field, value in _figures(msgspec.to_builtins(spec)):
            table.add_row(field, value, catalog.source(self.name, field))
        _print(table)
        return 0


@dataclass(kw_only=True)
class ShowOffer(_WithCatalog):
    """Show what is on offer: a fixed configuration, or with --seed a random one as in training."""

    configuration: Annotated[Positional[str], arg(metavar="CONFIGURATION")] = "evaluation"
    """Name of the configuration."""
    seed: int | None = None
    """Draw a random subset at random prices."""
    instance: str = ""
    """With --seed: what it is drawn for."""
    tools: tuple[str, ...] = ("web_search", "local_search", "python")
    """Basic tools; of a random offer, those to draw from."""
    json: bool = False
    """Print the offer as JSON."""

    def run(self) -> int:
        """Print it."""
        catalog = self._catalog()
        if self.seed is None:
            offer = catalog.configure(self.configuration, tools=self.tools)
        else:
            offer = catalog.draw(self.seed, self.configuration, instance=self.instance, tools=self.tools)
        if self.json:
            return print_json(offer)
        table = _table("role", "expert", "$ in", "$ out", "s", right=3)
        for role, names in offer.experts.items():
            for name in names:
                spec = offer.specs[name]
                prices = (f"{spec.price.input:g}", f"{spec.price.output:g}")
                table.add_row(role, name, *prices, f"{spec.latency.of(role):g}")
        _print(table)
        factors = ", ".join(f"{name} × {factor:.2f}" for name, factor in offer.schedule.multipliers.items())
        _print(
            f"\ntools: {', '.join(offer.tools) or 'none'}\nprices: {offer.schedule.name}{factors and f' ({factors})'}"
        )
        return 0


@dataclass(kw_only=True)
class _Trying(_WithCatalog):
    name: Name
    """Name of the expert."""
    tasks: Annotated[Path | None, arg(metavar="FILE")] = None
    """JSONL file of tasks: {key, instruction, answer} and, as far as known, subject, steps, difficulty, notes. A
    simulated expert can do without: it is given graded tasks that say no more than what they take."""
    seed: int = 0
    """Seed of the sample of tasks and of the answers."""
    temperature: float = 1.0
    """Sampling temperature."""
    max_tokens: int = 4096
    """Most tokens of a real expert's answer."""
    simulated: bool = False
    """Try the simulated expert although its entry has an endpoint."""
    record: Annotated[Path | None, arg(metavar="FILE")] = None
    """Record the real expert's answers in this file, and do not ask again what it holds."""
    replay: Annotated[Path | None, arg(metavar="FILE")] = None
    """Take the real expert's answers from this file, without asking."""

    def __post_init__(self) -> None:
        if self.record and self.replay:
            raise OptionError("--record and --replay exclude each other: a recording also replays what it holds.")
        if self.simulated and (self.record or self.replay):
            raise OptionError("--record and --replay are for real experts: leave --simulated out.")

    def _given(self) -> list[ExpertTask] | None:
        from toolorchestra.agents.experts.evaluation import read_tasks

        return None if self.tasks is None else read_tasks(self.tasks)

    def _try(self, tasks: Sequence[ExpertTask], samples: int) -> list[ExpertEvaluation]:
        """Have the expert try tasks."""
        from toolorchestra.agents.experts.evaluation import ask, simulate

        catalog = self._catalog()
        spec = catalog.spec(self.name)
        if self.simulated or (spec.endpoint is None and not (self.record or self.replay)):
            return simulate(
                catalog.simulated(self.name), tasks, samples=samples, seed=self.seed, temperature=self.temperature
            )
        if self.tasks is None:
            raise OptionError(f"{self.name} is real: give it tasks with --tasks FILE, or try it --simulated.")
        with self._chat(catalog, spec) as chat:
            return ask(
                chat,
                self.name,
                tasks,
                samples=samples,
                seed=self.seed,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
            )

    @contextmanager
    def _chat(self, catalog: Catalog, spec: ExpertSpec) -> Iterator[ChatModel]:
        from toolorchestra.agents.chat.replay import RecordingChat, ReplayChat

        if self.replay:
            yield ReplayChat(self.replay, spec.model or self.name)
            return
        chat = catalog.chat(self.name)
        try:
            if self.record is None:
                yield chat
            else:
                with RecordingChat(chat, self.record) as recording:
                    yield recording
        finally:
            if close := getattr(chat, "close", None):
                close()


@dataclass(kw_only=True)
class AskExpert(_Trying):
    """Try an expert on tasks and write its answers, right and wrong, as `experts fit` reads them."""

    out: Annotated[Path, arg(metavar="FILE")] = Path("answers.jsonl")
    """JSONL file to write."""
    count: int = 200
    """Without --tasks: graded tasks."""
    noted: float = 0.2
    """Without --tasks: share of the graded tasks with an adversarial note."""
    samples: int = 4
    """Answers to each task; more than one tells the luck that they have in common."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 1 or self.samples < 1:
            raise OptionError(f"Expected --count and --samples of at least 1, got {self.count} and {self.samples}.")
        if not 0 <= self.noted <= 1:
            raise OptionError(f"--noted must be from 0 to 1, got {self.noted:g}.")

    def run(self) -> int:
        """Try it, and say how it fared."""
        from toolorchestra.agents.experts.evaluation import graded_tasks
        from toolorchestra.toolscale.jsonl import write_jsonl

        evaluations = self._try(
            self._given() or graded_tasks(self.count, seed=self.seed, noted=self.noted), self.samples
        )
        write_jsonl(self.out, [evaluation.row for evaluation in evaluations])
        right = sum(evaluation.right for evaluation in evaluations)
        _print(
            f"{len(evaluations):,} answers in {self.out}, {right:,} right ({right / len(evaluations):.1%})\n"
            f"Fit it:  toolorchestra experts fit {self.out} --name {self.name}"
        )
        return 0


@dataclass(kw_only=True)
class FitExpert(_WithCatalog):
    """Fit an expert to answers: print the YAML of its entry, and what each figure is worth."""

    answers: Annotated[Positional[Path], arg(metavar="ANSWERS")]
    """JSONL file of answers, of others too: {expert, key, right, sample, subject, steps, difficulty, notes, tokens,
    seconds, prompt_tokens, role}, of which the first three are needed."""
    name: str
    """The expert, as the file calls it."""
    like: str | None = None
    """Entry to take from what the answers do not tell; by default that of the same name, if there is one."""
    shared_noise: float = 0.2
    """Luck that is taken to be shared by all, where no other expert answered the same problems."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the YAML here; it is a catalogue file."""
    plot: Annotated[Path | None, arg(metavar="FILE")] = None
    """Plot observed and predicted accuracy by subject and steps (.png, .pdf or .svg; needs matplotlib)."""
    json: bool = False
    """Print the fit as JSON instead."""

    def __post_init__(self) -> None:
        if not 0 <= self.shared_noise < 1:
            raise OptionError(f"--shared-noise must be at least 0 and below 1, got {self.shared_noise:g}.")
        if self.plot and self.plot.suffix not in (".png", ".pdf", ".svg"):
            raise OptionError(f"--plot writes .png, .pdf or .svg, got {self.plot}.")

    def run(self) -> int:
        """Fit, and print or write the entry."""
        from toolorchestra.agents.experts.answer_rows import read_answers
        from toolorchestra.agents.experts.fit_plots import plot_fit
        from toolorchestra.agents.experts.fitting import fit_expert
        from toolorchestra.toolscale.yaml_reader import dump_yaml

        catalog = self._catalog()
        rows = read_answers(self.answers)
        known = catalog.experts.get(self.name)
        base = catalog.spec(self.like) if self.like else known
        fit = fit_expert(rows, self.name, base, shared_noise=self.shared_noise)
        if self.plot:
            plot_fit(fit).savefig(with_folder(self.plot), dpi=120, metadata=_PLAIN.get(self.plot.suffix))
        entry = dump_yaml({"experts": {self.name: fit.entry(base, new=base is not known)}})
        if self.out:
            write_text(self.out, entry)
        if self.json:
            return print_json(fit)
        if not self.out:
            print(entry, end="")
        _explain(fit)
        return 0


@dataclass(kw_only=True)
class DescribeExpert(_Trying):
    """Describe an expert from its evaluations: by rule, or with --llm by a model that reads them, as in the paper."""

    count: int = 10
    """Tasks that it is tried on (10 in the paper)."""
    llm: Annotated[str | None, arg(metavar="BASE_URL")] = None
    """Have it written by a model at this OpenAI-compatible server."""
    model: Annotated[str | None, arg(metavar="NAME")] = None
    """With --llm: the model's name on that server."""
    api_key_env: Annotated[str | None, arg(metavar="NAME")] = None
    """With --llm: environment variable that holds the server's key, if it wants one."""
    yaml: bool = False
    """Print the YAML of a catalogue file with the description."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.llm is None) != (self.model is None):
            raise OptionError("--llm and --model go together: --llm BASE_URL --model NAME.")
        if self.count < 1:
            raise OptionError(f"--count must be at least 1, got {self.count}.")

    def run(self) -> int:
        """Try it, and print the description."""
        from toolorchestra.agents.experts.descriptions import describe_by_model, describe_by_rule, sample_tasks
        from toolorchestra.agents.experts.evaluation import graded_tasks
        from toolorchestra.toolscale.yaml_reader import dump_yaml

        given = self._given()
        if given is None:
            tasks = graded_tasks(self.count, seed=self.seed)
        else:
            tasks = sample_tasks(given, min(self.count, len(given)), seed=self.seed)
        evaluations = self._try(tasks, samples=1)
        if self.llm is None:
            text = describe_by_rule(evaluations)
        else:
            from toolorchestra.agents.chat.openai_chat import OpenAIChat

            with OpenAIChat(self.llm, str(self.model), api_key_env=self.api_key_env) as chat:
                text = describe_by_model(evaluations, chat, seed=self.seed)
        source = f"written by {self.model or 'rule'} from {len(evaluations)} trials"
        entry = {"description": text, "sources": {"description": source}}
        print(dump_yaml({"experts": {self.name: entry}}) if self.yaml else f"{text}\n", end="")
        return 0


ExpertsCommand = (
    Annotated[ListExperts, subcommand("list")]
    | Annotated[ShowExpert, subcommand("show")]
    | Annotated[ShowOffer, subcommand("offer")]
    | Annotated[AskExpert, subcommand("ask")]
    | Annotated[FitExpert, subcommand("fit")]
    | Annotated[DescribeExpert, subcommand("describe")]
)


@dataclass
class Experts:
    """Look at experts (`list`, `show`, `offer`), try them (`ask`), fit and describe them."""

    command: ExpertsCommand

    def run(self) -> int:
        """Run the subcommand."""
        return self.command.run()


# -------------------------------------------------------------------------------------------------------- showing

_PLAIN: dict[str, dict[str, None]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
"""The same fit is the same file."""


def _print(what: str | Table) -> None:
    from toolorchestra.cli.display import stdout_console

    if isinstance(what, str):
        stdout_console().print(what, markup=False, highlight=False, soft_wrap=True)
    else:
        stdout_console().print(what)


def _table(*names: str, right: int = 0) -> Table:
    """Return a table whose last columns are numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, name in enumerate(names):
        number = at >= len(names) - right
        table.add_column(name, justify="right" if number else "left", style=None if at else "cyan", no_wrap=not at)
    return table


_HEADS = {"humanities": "human.", "reasoning": "reason.", "function_calling": "calls"}


def _spec_table(specs: Mapping[str, ExpertSpec]) -> Table:
    from toolorchestra.agents.experts.catalog import SUBJECTS

    subjects = [subject for subject in SUBJECTS if subject != "other"]
    heads = [_HEADS.get(subject, subject) for subject in subjects]
    table = _table("expert", "roles", "$ in", "$ out", "s", *heads, right=3 + len(heads))
    for name, spec in specs.items():
        skills = [f"{spec.skill(subject):.1%}".rstrip("%") for subject in subjects]
        figures = (f"{spec.price.input:g}", f"{spec.price.output:g}", f"{spec.latency.mean:g}")
        table.add_row(name, " ".join(spec.roles), *figures, *skills)
    return table


def _figures(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each figure of an entry with its key path."""
    for key, child in value.items():
        if (not path and key in ("model", "description", "sources")) or child in (None, {}):
            continue
        if isinstance(child, dict):
            yield from _figures(child, f"{path}{key}.")
        else:
            yield f"{path}{key}", ", ".join(child) if isinstance(child, list | tuple) else f"{child}"


def _explain(fit: Fit) -> None:
    """Print beside the YAML what each figure is worth, on the other stream."""
    from rich.console import Console

    table = _table("figure", "fitted", "95 % interval", right=2)
    for path, one in fit.estimates.items():
        if one.fitted:
            table.add_row(path, f"{one.value:.4g}", f"{one.low:.4g} – {one.high:.4g}")
    console = Console(stderr=True, highlight=False)
    console.print(table)
    within = sum(cell.interval[0] <= cell.predicted <= cell.interval[1] for cell in fit.cells)
    console.print(
        f"\n{fit.answers:,} answers to {fit.problems:,} problems; what is predicted lies in the 95 % interval of what "
        f"was observed for {within} of {len(fit.cells)} subjects and lengths.",
        markup=False,
    )
    for remark in fit.remarks:
        console.print(remark, style="yellow", markup=False)
