"""Check, draw and run designs of multi-agent systems (MAS-Orchestra), as commands in the root of a clone.

::

    python -m examples.designs check design.txt
    python -m examples.designs run --orchestrator oracle --episodes 100 --model qwen2.5-7b
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from tyro.conf import Positional, arg

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.cli.display.console import progress_bars
from toolorchestra.cli.files import print_json
from toolorchestra.cli.main import run_command
from toolorchestra.cli.options import CatalogOptions, Split, real_model, require_at_least, subcommands
from toolorchestra.envs.masorchestra import figure
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.orchestrators import make_orchestrator
from toolorchestra.envs.masorchestra.play import PARSERS, DesignPlay
from toolorchestra.envs.masorchestra.rules import DesignFault
from toolorchestra.envs.records.episode import Episode
from toolorchestra.toolscale.common.append_only import AppendOnly
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.common.writing import write_whole

Degree = Literal["low", "high"]
Parser = Literal["strict", "paper"]


@dataclass(kw_only=True)
class CheckDesignCommand:
    """Check a design against the rules, and draw it; exit status 1 if a rule is broken."""

    file: Annotated[Positional[str], arg(metavar="FILE|-")]
    """File with the text of a design; - for standard input."""
    dom: Degree = "high"
    """Degree of MAS that it was written for."""
    parser: Parser = "strict"
    """The design language, or what the paper's authors read (`paper`)."""
    mermaid: Annotated[Path | None, arg(metavar="FILE")] = None
    """Also write it as a Mermaid flowchart."""
    json: bool = False
    """Print {valid, rule, element, message, agents, length, width}."""

    def run(self) -> int:
        """Read the design, and print it, or the rule that it breaks."""
        found = PARSERS[self.parser](_read(self.file), self.dom)
        if isinstance(found, DesignFault):
            valid, facts, shown = False, msgspec.structs.asdict(found), str(found)
        else:
            valid, facts, shown = True, msgspec.structs.asdict(found.shape), figure.text(found)
            if self.mermaid is not None:
                write_whole(self.mermaid, figure.mermaid(found))
        if self.json:
            print_json({"valid": valid} | facts)
        else:
            print(shown)
        return int(not valid)


@dataclass(kw_only=True)
class QuestionOptions(CatalogOptions):
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
    timeout: float | None = None
    """Seconds after which an agent is stopped."""
    seed: int = 0
    """Seed of the questions drawn, and of the noise of simulated agents."""

    @contextmanager
    def env(self, dom: Degree, **options: Any) -> Iterator[MASOrchestraEnv]:
        """Yield the environment of the questions."""
        catalog = self._catalog()
        source = None if self.tasks else self.source
        with ExitStack() as stack:
            if self.endpoint:
                model: ChatModel = stack.enter_context(real_model(catalog, self.model))
            else:
                model = SimulatedChat(catalog.simulated(self.model))
            yield MASOrchestraEnv(
                source, tasks=self.tasks, split=self.split, dom=dom, model=model, timeout=self.timeout, **options
            )


@dataclass(kw_only=True)
class RunDesignCommand(QuestionOptions):
    """Run a design, or those of a scripted orchestrator, on questions."""

    design: Annotated[str | None, arg(metavar="FILE|-")] = None
    """File with the text of a design; - for standard input."""
    orchestrator: Literal["chain", "components", "moderator", "oracle", "random", "single"] = "single"
    """Who designs when no --design is given."""
    dom: Degree = "high"
    """Degree of MAS."""
    parser: Parser = "strict"
    """What reads the design: the design language, or what the paper's authors read (`paper`)."""
    task: str | None = None
    """Id of the question to ask; by default they are drawn."""
    episodes: int = 1
    """How many questions to ask."""
    mermaid: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write a Mermaid flowchart of the last run."""
    record: Annotated[Path | None, arg(metavar="FILE")] = None
    """Append the episodes to this JSONL file."""
    json: bool = False
    """Print the summary as JSON."""

    def __post_init__(self) -> None:
        require_at_least(self, episodes=1)

    def run(self) -> int:
        """Ask the questions and sum up; exit status 1 if a design broke a rule or a model could not be reached."""
        with self.env(self.dom, parser=self.parser) as env:
            infos = self._play(env)
            play, last, task = env.play, env.episode, env.task
        assert isinstance(play, DesignPlay)
        if self.mermaid is not None and isinstance(play.design, Design):
            write_whole(self.mermaid, figure.mermaid(play.design, play.run))
        outcomes = Counter("invalid" if info["rule"] else str(info["outcome"]) for info in infos)
        usd, seconds = (sum(info[key] for info in infos) / self.episodes for key in ("cost", "clock"))
        if self.json:
            facts = {"episodes": self.episodes, "outcomes": outcomes, "usd": usd, "seconds": seconds}
            print_json(facts | {"last": last.why})
        elif self.episodes == 1:
            print(visible(f"{task.id}: {task.instruction}\n"))
            print(figure.text(play.design, play.run) if isinstance(play.design, Design) else visible(str(play.design)))
            print(visible(f"{last.outcome}: {last.why}"))
        else:
            counted = ", ".join(f"{found} {outcome}" for outcome, found in sorted(outcomes.items()))
            print(f"{self.episodes} questions: {counted}; each ${usd:.4f} and {seconds:.1f} s")
        return int(not outcomes.keys() <= {"solved", "failed"})

    def _play(self, env: MASOrchestraEnv) -> list[dict[str, Any]]:
        """Run a design on each question; return the last `info` of each episode."""
        written = None if self.design is None else _read(self.design)
        policy = make_orchestrator(self.orchestrator, seed=self.seed)
        infos: list[dict[str, Any]] = []
        with ExitStack() as stack:
            record = self.record and AppendOnly(self.record, Episode, "an episode", sync=False)
            if record:
                stack.enter_context(closing(record))
            progress = stack.enter_context(progress_bars())
            bar = progress.add_task("design" if written else self.orchestrator, total=self.episodes, note="")
            for number in range(self.episodes):
                observation, info = env.reset(seed=self.seed + number, options={"task_id": self.task})
                policy.reset(env, observation, info)
                *_, info = env.step(policy.act(observation, info) if written is None else written)
                if record:
                    record.add(env.episode)
                infos.append(info)
                solved = sum(one["outcome"] == "solved" for one in infos)
                progress.update(bar, advance=1, note=f"{solved} solved · ${sum(one['cost'] for one in infos):.2f}")
        return infos


Command = subcommands({"check": CheckDesignCommand, "run": RunDesignCommand})


def _read(file: str) -> str:
    """Return the text of a file, or of standard input."""
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise OptionError(f"{file} cannot be read: {error.strerror}.") from None
    return content.decode("utf-8", "replace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return run_command(Command, given, "python -m examples.designs", "Check, draw and run designs.")


if __name__ == "__main__":
    sys.exit(main())
