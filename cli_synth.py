"""The command ``toolorchestra synth``: domains made rather than written.

One dataclass per command, as in `toolorchestra.cli`; the work itself is done in `toolorchestra.toolscale`.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from tyro.conf import Positional, arg, subcommand

from toolorchestra.toolscale.errors import OptionError

if TYPE_CHECKING:
    from toolorchestra.toolscale.task import Task


@dataclass
class SynthDomain:
    """Make a domain of what FOLDER holds: its own YAML, or a SQLite file."""

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Folder of the domain: with a domain.yaml written by hand, or to be filled."""
    from_sqlite: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the domain's YAML from this SQLite file first."""
    title: Annotated[str | None, arg(metavar="TEXT")] = None
    """What the domain is, e.g. "Public library" (with --from-sqlite; by default from the file's name)."""
    seed: int = 0
    """Seed of the domain, where it is made here."""
    random_episodes: int = 200
    """Episodes of the random policy when the domain is validated."""
    hostile: int = 300
    """Hostile actions sent when it is validated."""

    def __post_init__(self) -> None:
        if self.title is not None and self.from_sqlite is None:
            raise OptionError("--title is for a domain made here: give --from-sqlite FILE as well.")

    def run(self) -> int:
        """Write, build, filter and validate; return 1 when a check failed."""
        from toolorchestra.envs import display
        from toolorchestra.toolscale.domain import build_domain

        console = display.stdout_console()
        began = time.perf_counter()
        if self.from_sqlite is not None:
            from toolorchestra.toolscale.synth.from_sqlite import domain_from_sqlite

            domain_from_sqlite(self.from_sqlite, self.folder, title=self.title, seed=self.seed)
        domain = build_domain(self.folder)
        display.print_build(console, domain, time.perf_counter() - began)
        return self._validate()

    def _validate(self) -> int:
        from toolorchestra.envs import display
        from toolorchestra.envs.checks import check_environment

        console = display.stdout_console()
        report = check_environment(
            "ToolOrchestra-Custom-v0",
            random_episodes=self.random_episodes,
            hostile=self.hostile,
            seed=self.seed,
            domain=str(self.folder),
        )
        console.print()
        display.print_report(console, report)
        if report.passed:
            console.print(
                f"\nPlay it:  toolorchestra play {self.folder}\nTrain on it:  import toolorchestra; "
                f'gymnasium.make("ToolOrchestra-Custom-v0", domain="{self.folder}")',
                style="dim",
                markup=False,
            )
        return 0 if report.passed else 1


@dataclass
class SynthAdversarial:
    """Make a robustness set: tasks to which a harm is appended, in domains that were not trained on."""

    train: tuple[str, ...] = ()
    """Domains trained on, by name or environment id: the set has no task of theirs."""
    domains: tuple[str, ...] = ()
    """Domains to make it in, by name, or the folder of one; by default all shipped ones but those of --train."""
    count: int = 300
    """Tasks in all (at least 278, as in the paper, unless you need fewer)."""
    split: Literal["train", "test", "test_intents", "all"] = "all"
    """Split whose tasks are attacked."""
    seed: int = 0
    """Seed of the choice of tasks and attacks."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where to write; by default adversarial.jsonl here, or in the folder of a domain of your own."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise OptionError(f"--count must be at least 1, got {self.count}.")

    def run(self) -> int:
        """Make, check and write the tasks."""
        from toolorchestra.envs import display
        from toolorchestra.toolscale.adversarial import make_attacked
        from toolorchestra.toolscale.domain import BUILTIN, builtin_domains, load_domain
        from toolorchestra.toolscale.task import write_tasks

        trained = {load_domain(_domain_name(name)).name for name in self.train}
        names = [_domain_name(name) for name in self.domains] or [n for n in builtin_domains() if n not in trained]
        domains = [load_domain(name) for name in names]
        if both := trained & {domain.name for domain in domains}:
            raise OptionError(f"Expected domains that are not trained on; {min(both)} is in --train and in --domains.")
        if not domains:
            raise OptionError("No domain is left: --train names all of them.")
        own = [domain for domain in domains if domain.file and BUILTIN not in domain.file.parents]
        if own and len(domains) > 1:
            raise OptionError(f"A set with a domain of your own ({own[0].name}) has tasks of that one only.")
        file = self.out or (own[0].file.parent if own and own[0].file else Path()) / "adversarial.jsonl"
        console = display.stdout_console()
        tasks: list[Task] = []
        for number, domain in enumerate(domains):
            due = self.count * (number + 1) // len(domains) - self.count * number // len(domains)
            made, _ = make_attacked(domain, due, seed=self.seed, split=self.split)
            tasks += made
            kinds = Counter(task.attack.kind for task in made if task.attack)
            shown = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
            console.print(f"{domain.name}: {len(made)} tasks ({shown})", markup=False)
        write_tasks(file, tasks)
        console.print(
            f"\n{len(tasks):,} attacked tasks in {file}\n"
            f"Play them:  toolorchestra rollout {file} --split all --episodes all --policy llm … --out played.jsonl\n"
            f"Report:     toolorchestra robustness {file} played.jsonl",
            markup=False,
        )
        return 0 if len(tasks) == self.count else 1


@dataclass
class SynthPreferences:
    """Make preference pairs: what a user would like optimised, in words and as the vector P."""

    env: Annotated[Positional[str], arg(metavar="ENV")]
    """Id of an environment, folder of a domain, or JSONL file of tasks: its tools are what may be preferred."""
    count: int = 200
    """Pairs in all."""
    tools: tuple[str, ...] = ()
    """Only these tools, in this order; by default all."""
    seed: int = 0
    """Seed of the pairs."""
    out: Annotated[Path, arg(metavar="FOLDER")] = Path("preferences")
    """Where to write train.jsonl, eval.jsonl and report.json."""

    def run(self) -> int:
        """Make, check, divide and write the pairs."""
        from toolorchestra.cli import environment
        from toolorchestra.envs import display
        from toolorchestra.toolscale.errors import UnknownNameError
        from toolorchestra.toolscale.jsonl import write_jsonl
        from toolorchestra.toolscale.preferences import make_pairs, tool_facts

        source = environment(self.env).source
        offered = {name: tool for task in source.tasks("all") for name, tool in source.world(task).tools.items()}
        for name in self.tools:
            if name not in offered:
                raise UnknownNameError("tool", name, offered)
        facts = tool_facts(offered[name] for name in (self.tools or offered))
        pairs, report = make_pairs(facts, self.count, seed=self.seed)
        self.out.mkdir(parents=True, exist_ok=True)
        for split in ("train", "eval"):
            write_jsonl(self.out / f"{split}.jsonl", [pair for pair in pairs if pair.split == split])
        (self.out / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
        console = display.stdout_console()
        console.print(display.pairs_table(pairs))
        kept = ", ".join(f"{split} {count}" for split, count in report.kept.items())
        console.print(f"\n{len(pairs):,} pairs over {len(facts)} tools in {self.out} ({kept})", markup=False)
        for reason, count in report.dropped.most_common():
            console.print(f"  {count:,} dropped: {reason}", style="yellow", markup=False)
        for validator, why in report.not_run.items():
            console.print(f"  validator {validator} did not run: {why}", style="dim", markup=False)
        return 0 if len(pairs) == self.count else 1


@dataclass
class SynthTasks:
    """Generate tasks at scale: verified, without a model, the same for the same seed."""

    domains: Annotated[Positional[tuple[str, ...]], arg(metavar="DOMAIN")] = ("all",)
    """Names or folders of domains; "all" is those that are shipped."""
    count: int = 20_000
    """Tasks in all; each domain gives an equal share."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("tasks.jsonl")
    """File to write, which appears when all tasks are made."""
    seed: int = 0
    """Seed of what is drawn."""
    workers: int = 2
    """Processes that make tasks."""

    def run(self) -> int:
        """Generate the tasks and say what was made."""
        from toolorchestra.envs import display
        from toolorchestra.toolscale.domain import builtin_domains
        from toolorchestra.toolscale.generate import generate

        names = builtin_domains() if self.domains == ("all",) else [_domain_name(name) for name in self.domains]
        began = time.perf_counter()
        with display.progress_bars() as progress:
            bar = progress.add_task("tasks", total=self.count, note="")

            def tell(made: int) -> None:
                progress.update(bar, completed=made)

            found = generate(names, self.count, self.out, seed=self.seed, workers=self.workers, progress=tell)
        console = display.stdout_console()
        console.print(display.generated_table(found))
        seconds = time.perf_counter() - began
        console.print(f"\n{found.made:,} verified tasks in {self.out} ({seconds:.1f} s)", markup=False)
        if found.made < found.asked:
            console.print(
                f"{found.asked - found.made:,} fewer than asked for: these domains give no more.", style="yellow"
            )
        return 0 if found.made == found.asked else 1


def _domain_name(name: str) -> str:
    """Return what `load_domain` takes for a name, a folder or an environment id."""
    found = re.fullmatch(r"ToolOrchestra-(\w+)-v\d+", name)
    return found[1].lower() if found else name


SynthCommand = (
    Annotated[SynthDomain, subcommand("domain")]
    | Annotated[SynthTasks, subcommand("tasks")]
    | Annotated[SynthPreferences, subcommand("preferences")]
    | Annotated[SynthAdversarial, subcommand("adversarial")]
)
"""What `synth` can make; `domain` where none is named."""
SUBCOMMANDS = ("domain", "tasks", "preferences", "adversarial")


@dataclass
class Synth:
    """Make a domain (`synth FOLDER`), and what else can be made of domains."""

    command: SynthCommand

    def run(self) -> int:
        """Run the subcommand."""
        return self.command.run()


def with_subcommand(arguments: list[str]) -> list[str]:
    """Return the arguments after ``synth`` with the subcommand `domain` where none is named."""
    named = not arguments or arguments[0] in (*SUBCOMMANDS, "-h", "--help")
    return arguments if named or len(SUBCOMMANDS) == 1 else ["domain", *arguments]
