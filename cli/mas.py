"""The command `toolorchestra mas`: designs of multi-agent systems checked, drawn, run and searched for.

Designs are read, run and drawn by `toolorchestra.envs.masorchestra`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from tyro.conf import Positional, arg, subcommand

from toolorchestra.cli.options import Split, require_at_least
from toolorchestra.cli.output import print_json, write_text
from toolorchestra.toolscale.errors import OptionError

if TYPE_CHECKING:
    from toolorchestra.envs.masorchestra.design import Design
    from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
    from toolorchestra.envs.masorchestra.rules import DesignFault
    from toolorchestra.envs.masorchestra.workflow_strategies import WorkflowCandidate

File = Annotated[Positional[str], arg(metavar="FILE|-")]
Degree = Literal["low", "high"]


@dataclass
class CheckDesignCommand:
    """Check designs against the rules; exit status 1 if one is broken."""

    file: File
    """File with the text of a design; - for standard input."""
    dom: Degree = "high"
    """Degree of MAS that it was written for."""
    json: bool = False
    """Print {valid, rule, element, message, agents, length, width}."""

    def run(self) -> int:
        """Read the design, and print whether it is valid."""
        from toolorchestra.envs.masorchestra.figure import text
        from toolorchestra.envs.masorchestra.rules import DesignFault

        found = _parsed(self.file, self.dom)
        if self.json:
            facts: dict[str, Any] = {"valid": not isinstance(found, DesignFault)}
            facts |= msgspec.structs.asdict(found if isinstance(found, DesignFault) else found.shape)
            print_json(facts)
        else:
            print(found if isinstance(found, DesignFault) else f"valid: {text(found).splitlines()[-1]}")
        return int(isinstance(found, DesignFault))


@dataclass
class DrawDesignCommand:
    """Draw a design."""

    file: File
    """File with the text of a design; - for standard input."""
    dom: Degree = "high"
    """Degree of MAS that it was written for."""
    svg: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write an SVG picture instead of printing text."""

    def run(self) -> int:
        """Draw it."""
        from toolorchestra.envs.masorchestra import figure

        design = _design(self.file, self.dom)
        if self.svg is None:
            print(figure.text(design))
        else:
            write_text(self.svg, figure.svg(design))
        return 0


@dataclass(kw_only=True)
class _QuestionOptions:
    """The options that say which questions are asked, and which model is behind the agents."""

    source: str = "Math"
    """Source of questions, as in the ids of environments (Math, MultiHopQA, MASBenchDepth …)."""
    tasks: Annotated[Path | None, arg(metavar="FILE")] = None
    """JSONL file of questions to take instead."""
    split: Split = "test"
    """Split from which questions are drawn."""
    model: str = "gpt-oss-120b"
    """The model behind all agents: a name in the catalogue, simulated; with --endpoint the real one."""
    endpoint: bool = False
    """Query the real model at its endpoint in the catalogue instead of simulating it."""
    catalog: tuple[Path, ...] = ()
    """Catalogue files of your own, which extend and override the shipped one."""
    timeout: float | None = None
    """Seconds after which an agent is stopped."""
    seed: int = 0
    """Seed of the questions drawn, and of the noise of simulated agents."""

    @contextmanager
    def _env(self, dom: Degree) -> Iterator[MASOrchestraEnv]:
        from toolorchestra.agents.chat.base import ChatModel
        from toolorchestra.agents.experts.catalog import Catalog
        from toolorchestra.agents.experts.simulated_chat import SimulatedChat
        from toolorchestra.envs.masorchestra.env import MASOrchestraEnv

        catalog = Catalog.load(*self.catalog)
        model: ChatModel = (
            SimulatedChat(catalog.simulated(self.model)) if not self.endpoint else catalog.chat(self.model)
        )
        source = None if self.tasks else self.source
        try:
            yield MASOrchestraEnv(
                source, tasks=self.tasks, split=self.split, dom=dom, model=model, timeout=self.timeout
            )
        finally:
            if close := getattr(model, "close", None):
                close()


@dataclass(kw_only=True)
class RunDesignCommand(_QuestionOptions):
    """Run a design, or those of a scripted orchestrator, on questions."""

    design: Annotated[str | None, arg(metavar="FILE|-")] = None
    """File with the text of a design; - for standard input."""
    orchestrator: Literal["chain", "components", "moderator", "oracle", "random", "single"] = "single"
    """Who designs when no --design is given."""
    dom: Degree = "high"
    """Degree of MAS."""
    task: str | None = None
    """Id of the question to ask; by default they are drawn."""
    episodes: int = 1
    """How many questions to ask."""
    svg: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write a picture of the last run."""
    record: Annotated[Path | None, arg(metavar="FILE")] = None
    """Append the episodes to this JSONL file."""
    json: bool = False
    """Print the summary as JSON."""

    def __post_init__(self) -> None:
        require_at_least(self, episodes=1)

    def run(self) -> int:
        """Ask the questions and sum up; exit status 1 if a design broke a rule or a model could not be reached."""
        with self._env(self.dom) as env:
            return self._run(env)

    def _run(self, env: MASOrchestraEnv) -> int:
        from toolorchestra.cli.display import progress_bars
        from toolorchestra.envs.episode import write_episodes
        from toolorchestra.envs.masorchestra import figure
        from toolorchestra.envs.masorchestra.design import Design
        from toolorchestra.envs.masorchestra.orchestrators import make_orchestrator
        from toolorchestra.envs.masorchestra.play import DesignPlay

        written = _read(self.design) if self.design is not None else None
        policy = make_orchestrator(self.orchestrator, seed=self.seed)
        outcomes: dict[str, int] = {}
        usd = seconds = 0.0
        with progress_bars() as progress:
            bar = progress.add_task("design" if written else self.orchestrator, total=self.episodes, note="")
            for number in range(self.episodes):
                observation, info = env.reset(seed=self.seed + number, options={"task_id": self.task})
                policy.reset(env, observation, info)
                *_, info = env.step(written if written is not None else policy.act(observation, info))
                if self.record is not None:
                    write_episodes(self.record, [env.episode])
                outcome = "invalid" if info["rule"] else str(info["outcome"])
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
                usd, seconds = usd + info["cost"], seconds + info["clock"]
                progress.update(bar, advance=1, note=f"{outcomes.get('solved', 0)} solved · ${usd:.2f}")
        play = env.play
        assert isinstance(play, DesignPlay)
        if self.svg is not None and isinstance(play.design, Design):
            write_text(self.svg, figure.svg(play.design, play.run))
        count = self.episodes
        if self.json:
            means = {"usd": usd / count, "seconds": seconds / count}
            print_json({"episodes": count, "outcomes": outcomes, **means, "last": env.episode.why})
        else:
            if count == 1:
                print(f"{env.task.id}: {env.task.instruction}\n")
                print(figure.text(play.design, play.run) if isinstance(play.design, Design) else play.design)
                print(f"{env.episode.outcome}: {env.episode.why}")
            else:
                counted = ", ".join(f"{found} {outcome}" for outcome, found in sorted(outcomes.items()))
                print(f"{count} questions: {counted}; each ${usd / count:.4f} and {seconds / count:.1f} s")
        return int(any(outcome not in ("solved", "failed") for outcome in outcomes))


@dataclass(kw_only=True)
class SearchDesignCommand(_QuestionOptions):
    """Search for a workflow that answers the questions of a validation set."""

    split: Split = "train"
    """Split from which the validation set is drawn."""
    method: Literal["evolution", "random", "tree"] = "evolution"
    """Evolution with niches, random workflows, or Monte Carlo tree search over edits."""
    questions: int = 30
    """Size of the validation set."""
    candidates: int = 50
    """Maximum number of workflows evaluated."""
    budget: Annotated[float | None, arg(metavar="USD")] = None
    """US dollars after which no further workflow is evaluated."""
    max_agents: int = 8
    """Maximum number of agents of a workflow."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("mas_search.jsonl")
    """JSONL file of every candidate; the same command continues it."""
    best: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the best workflow's text here."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        """Search, and report the best."""
        with self._env("high") as env:
            return self._run(env)

    def _run(self, env: MASOrchestraEnv) -> int:
        from toolorchestra.cli.display import progress_bars
        from toolorchestra.envs.masorchestra import figure
        from toolorchestra.envs.masorchestra.design import to_text
        from toolorchestra.envs.masorchestra.workflow_search import SearchBudget, Validation, best, search

        budget = SearchBudget(self.candidates, self.budget)
        validation = Validation.drawn(env, self.questions, self.seed, self.split)
        with progress_bars() as progress:
            bar = progress.add_task(self.method, total=self.candidates, note="")
            highest = 0.0

            def watch(candidate: WorkflowCandidate) -> None:
                nonlocal highest
                highest = max(highest, candidate.score)
                progress.update(bar, advance=1, note=f"best {highest:.0%}")

            history = search(
                self.method, validation, budget, seed=self.seed, max_agents=self.max_agents, file=self.out, watch=watch
            )
        found = best(history)
        if self.best is not None:
            write_text(self.best, to_text(found.design) + "\n")
        if self.json:
            facts = msgspec.to_builtins(found) | {"measured": len(history), "single": history[0].score}
            return print_json(facts)
        low, high = found.interval
        print(figure.text(found.design))
        print(
            f"best of {len(history)} workflows: {found.score:.0%} ({low:.0%} to {high:.0%}) of {found.episodes} "
            f"questions, ${found.usd:.4f} and {found.seconds:.1f} s each; a single agent: {history[0].score:.0%}. "
            "Measure it on other questions before you believe it."
        )
        return 0


MASCommand = (
    Annotated[CheckDesignCommand, subcommand("check")]
    | Annotated[DrawDesignCommand, subcommand("draw")]
    | Annotated[RunDesignCommand, subcommand("run")]
    | Annotated[SearchDesignCommand, subcommand("search")]
)


def _parsed(file: str, dom: Degree) -> Design | DesignFault:
    from toolorchestra.envs.masorchestra.parser import parse_design

    return parse_design(_read(file), dom)


def _design(file: str, dom: Degree) -> Design:
    from toolorchestra.envs.masorchestra.rules import DesignError, DesignFault

    found = _parsed(file, dom)
    if isinstance(found, DesignFault):
        raise DesignError(found)
    return found


def _read(file: str) -> str:
    """Return the text of a file, or of standard input."""
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise OptionError(f"{file} cannot be read: {error.strerror}.") from None
    return content.decode("utf-8", "replace")
