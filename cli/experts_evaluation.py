"""The commands `toolorchestra experts ask` and `experts describe`, which evaluate an expert on tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from toolorchestra.cli.experts_options import CatalogOptions, Name
from toolorchestra.cli.options import UsageError, require_at_least
from toolorchestra.toolscale.errors import OptionError

if TYPE_CHECKING:
    from toolorchestra.agents.chat.base import ChatModel
    from toolorchestra.agents.experts.catalog import Catalog
    from toolorchestra.agents.experts.evaluation import ExpertEvaluation, ExpertTask
    from toolorchestra.agents.experts.specification import ExpertSpec


@dataclass(kw_only=True)
class _EvaluationOptions(CatalogOptions):
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

    def _read_tasks(self) -> list[ExpertTask] | None:
        from toolorchestra.agents.experts.evaluation import read_tasks

        return None if self.tasks is None else read_tasks(self.tasks)

    def _evaluate(self, tasks: Sequence[ExpertTask], samples: int) -> list[ExpertEvaluation]:
        """Have the expert answer tasks."""
        from toolorchestra.agents.experts.evaluation import ask, simulate

        catalog = self._catalog()
        spec = catalog.spec(self.name)
        if self.simulated or (spec.endpoint is None and not (self.record or self.replay)):
            return simulate(
                catalog.simulated(self.name), tasks, samples=samples, seed=self.seed, temperature=self.temperature
            )
        if self.tasks is None:
            raise OptionError(f"{self.name} is real: give it tasks with --tasks FILE, or evaluate it --simulated.")
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
        from toolorchestra.agents.experts.evaluation import graded_tasks
        from toolorchestra.cli.display import show
        from toolorchestra.toolscale.jsonl import write_jsonl

        trials = self._evaluate(
            self._read_tasks() or graded_tasks(self.count, seed=self.seed, noted=self.noted), self.samples
        )
        write_jsonl(self.out, [trial.row for trial in trials])
        right = sum(trial.right for trial in trials)
        show(
            f"{len(trials):,} answers in {self.out}, {right:,} right ({right / len(trials):.1%})\n"
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
        from toolorchestra.agents.experts.evaluation import graded_tasks
        from toolorchestra.toolscale.yaml_reader import dump_yaml

        given = self._read_tasks()
        if given is None:
            tasks = graded_tasks(self.count, seed=self.seed)
        else:
            tasks = sample_tasks(given, min(self.count, len(given)), seed=self.seed)
        trials = self._evaluate(tasks, samples=1)
        if self.llm is None:
            text = describe_by_rule(trials)
        else:
            from toolorchestra.agents.chat.openai_chat import OpenAIChat

            with OpenAIChat(self.llm, str(self.model), api_key_env=self.api_key_env) as chat:
                text = describe_by_model(trials, chat, seed=self.seed)
        source = f"written by {self.model or 'rule'} from {len(trials)} trials"
        entry = {"description": text, "sources": {"description": source}}
        print(dump_yaml({"experts": {self.name: entry}}) if self.yaml else f"{text}\n", end="")
        return 0
