"""The command ``toolorchestra synth``: domains made rather than written.

One dataclass per command, as in `toolorchestra.cli.main`; the work itself is done in `toolorchestra.toolscale`.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from tyro.conf import Positional, arg, subcommand

from toolorchestra.toolscale.errors import ExpertError, OptionError, SynthesisError

if TYPE_CHECKING:
    from toolorchestra.agents.chat.base import ChatModel
    from toolorchestra.agents.chat.openai_chat import OpenAIChat
    from toolorchestra.toolscale.domain import Domain
    from toolorchestra.toolscale.filters import Solver, Stage
    from toolorchestra.toolscale.preferences import PairReport, PreferencePair, ToolFacts
    from toolorchestra.toolscale.synth.answer_store import ModelAnswer, ModelQuestion
    from toolorchestra.toolscale.synth.model_queries import QuerySettings
    from toolorchestra.toolscale.task import Task
    from toolorchestra.toolscale.tool import Tool


@dataclass(kw_only=True)
class _WithModel:
    """The options of commands that may ask a language model."""

    llm: Annotated[str | None, arg(metavar="BASE_URL")] = None
    """Ask a model at this OpenAI-compatible server, e.g. http://localhost:8000/v1."""
    model: Annotated[str | None, arg(metavar="NAME")] = None
    """With --llm: the model's name on that server."""
    repairs: int = 3
    """With --llm: times that an invalid answer is shown its error and asked for again."""
    parallel: int = 4
    """With --llm: questions under way at a time."""
    price: Annotated[tuple[float, float], arg(metavar="IN OUT")] = (0.0, 0.0)
    """With --llm: US dollars per million tokens read and written."""
    budget: Annotated[float | None, arg(metavar="USD")] = None
    """With --llm: stop before the next question when this much is spent, earlier runs for the same folder included."""
    api_key_env: Annotated[str | None, arg(metavar="NAME")] = None
    """With --llm: environment variable that holds the server's key, if it wants one."""
    temperature: float = 0.7
    """With --llm: sampling temperature; 0 is greedy."""
    max_tokens: int = 8_000
    """With --llm: most tokens of one answer."""
    timeout: float = 300.0
    """With --llm: seconds to wait for one answer."""
    retries: int = 4
    """With --llm: attempts after the first where the server is busy, fails or is not there."""

    def __post_init__(self) -> None:
        if self.llm is not None and self.model is None:
            raise OptionError("--llm needs a model: --model NAME.")
        for option in ("model", "budget", "api_key_env"):
            if self.llm is None and getattr(self, option) is not None:
                raise OptionError(f"--{option.replace('_', '-')} is for --llm BASE_URL: give that as well.")
        if self.budget is not None and not (self.budget > 0 and max(self.price) > 0):
            raise OptionError("--budget needs dollars to count: more than 0 of them, and --price IN OUT.")
        if not min(self.price) >= 0:
            raise OptionError(f"--price must be at least 0, got {self.price[0]:g} and {self.price[1]:g}.")
        self._at_least(repairs=0, parallel=1, temperature=0, max_tokens=1, timeout=0.001, retries=0)

    def _at_least(self, **least: float) -> None:
        for option, bound in least.items():
            if getattr(self, option) < bound:
                shown = f"--{option.replace('_', '-')}"
                raise OptionError(f"{shown} must be at least {bound:g}, got {getattr(self, option)}.")

    def _settings(self, seed: int) -> QuerySettings:
        from toolorchestra.toolscale.synth.model_queries import QuerySettings

        return QuerySettings(self.repairs, self.parallel, self.budget, self.temperature, self.max_tokens, seed)

    def _chat(self, budget: float | None = None) -> OpenAIChat:
        from toolorchestra.agents.chat.base import Price
        from toolorchestra.agents.chat.openai_chat import OpenAIChat

        try:
            return OpenAIChat(
                str(self.llm),
                str(self.model),
                api_key_env=self.api_key_env,
                price=Price(*self.price) if max(self.price) > 0 else None,
                timeout=self.timeout,
                max_retries=self.retries,
                max_concurrency=self.parallel,
                budget=budget,
            )
        except ImportError as error:
            raise OptionError(f"{error}.") from None


@dataclass(kw_only=True)
class SynthDomain(_WithModel):
    """Make a domain: of the YAML in FOLDER, of a SQLite file, or of a title with a language model."""

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Folder of the domain: with a domain.yaml written by hand, or to be filled."""
    from_sqlite: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the domain's YAML from this SQLite file first."""
    records: Literal["keep", "sample"] = "keep"
    """With --from-sqlite: keep the file's records, or sample new ones like them."""
    title: Annotated[str | None, arg(metavar="TEXT")] = None
    """What the domain is, e.g. "Public library"; with --from-sqlite by default from the file's name."""
    today: Annotated[str | None, arg(metavar="DATE")] = None
    """Date on which the tasks take place (YYYY-MM-DD); with --llm by default 2025-07-23, with --from-sqlite the last
    day in the records."""
    seed: int = 0
    """Seed of the domain where it is made here, of the model's sampling, and of the validation."""
    subjects: int = 6
    """With --llm: areas over which records and requests are spread."""
    entries: int = 200
    """With --llm: database rows."""
    tools: int = 16
    """With --llm: tools, besides a calendar and a calculator."""
    intents: int = 18
    """With --llm: kinds of request, besides the evolved ones."""
    tasks_per_intent: int = 12
    """With --llm: most tasks of each kind of request."""
    evolved: int = 8
    """With --llm: harder kinds of request made of others."""
    solver: tuple[Literal["llm", "noisy-oracle"], ...] = ()
    """Drop tasks that none of these solves in --k attempts: the model of --llm, or an oracle that errs."""
    k: int = 8
    """Attempts of each solver."""
    random_episodes: int = 200
    """Episodes of the random policy when the domain is validated."""
    hostile: int = 300
    """Hostile actions sent when it is validated."""

    def __post_init__(self) -> None:
        if self.llm is not None and self.from_sqlite is not None:
            raise OptionError("--llm and --from-sqlite both write the domain: give one of them.")
        if self.llm is not None and (self.model is None or self.title is None):
            raise OptionError('--llm needs a model and a title: --model NAME --title "Public library".')
        if self.llm is None:
            if "llm" in self.solver:
                raise OptionError("--solver llm needs a model: --llm BASE_URL --model NAME.")
            if self.from_sqlite is None and (self.title is not None or self.today is not None):
                raise OptionError(
                    "--title and --today are for a domain made here: give --llm BASE_URL or --from-sqlite FILE, or "
                    "write them into domain.yaml."
                )
        super().__post_init__()
        self._at_least(
            subjects=1, entries=10, tools=1, intents=1, tasks_per_intent=1, evolved=0, k=1, random_episodes=1, hostile=1
        )

    def run(self) -> int:
        """Write, build, filter and validate; return 1 when a check failed, 3 when the same command can go on."""
        try:
            synthesis = self._synthesise()
            return self._build(synthesis)
        except SynthesisError as error:
            print(f"stopped: {error}" if error.resumable else f"failed: {error}", file=sys.stderr)
            return 3 if error.resumable else 1
        except KeyboardInterrupt:
            print(
                f"\nInterrupted. What was answered is saved in {self.folder}; the same command goes on.",
                file=sys.stderr,
            )
            return 130

    def _synthesise(self) -> list[Stage]:
        """Write the domain's YAML where that is asked for; return the stages of the report."""
        if self.from_sqlite is not None:
            from toolorchestra.toolscale.synth.from_sqlite import domain_from_sqlite

            domain_from_sqlite(
                self.from_sqlite, self.folder, title=self.title, today=self.today, records=self.records, seed=self.seed
            )
        if self.llm is None:
            return []
        from rich.console import Console
        from rich.live import Live

        from toolorchestra.cli import display
        from toolorchestra.toolscale.synth.pipeline import report_stages, synthesise
        from toolorchestra.toolscale.synth.stages import Sizes

        with self._chat() as chat, Live(console=Console(stderr=True), refresh_per_second=4) as live:
            record = synthesise(
                self.folder,
                str(self.title),
                _Asked(chat),
                today=self.today or "2025-07-23",
                sizes=Sizes(self.subjects, self.entries, self.tools, self.intents, self.tasks_per_intent, self.evolved),
                settings=self._settings(self.seed),
                watch=lambda counts: live.update(display.synthesis_table(counts)),
            )
        return report_stages(record)

    def _build(self, synthesis: list[Stage]) -> int:
        """Build, filter, report and validate."""
        from toolorchestra.cli import display
        from toolorchestra.toolscale.domain_folder import build_domain, save_tasks
        from toolorchestra.toolscale.filters import apply_filters

        console = display.stdout_console()
        began = time.perf_counter()
        domain = build_domain(self.folder)
        with ExitStack() as stack, display.progress_bars() as progress:
            bar = progress.add_task("", total=1, note="")
            solvers: dict[str, Solver] = {name: stack.enter_context(self._solver(name)) for name in self.solver}
            try:
                tasks, report = apply_filters(
                    domain,
                    domain.tasks(),
                    solvers=solvers,
                    k=self.k,
                    progress=lambda name, done, total: progress.update(
                        bar, description=name, completed=done, total=total
                    ),
                )
            except ExpertError as error:
                raise SynthesisError(f"The solver failed: {error} The same command goes on.", resumable=True) from None
            progress.remove_task(bar)
        if not tasks:
            report.save(self.folder / "report.json")
            raise SynthesisError(f"No task is left after the filters; {self.folder / 'report.json'} says why.")
        report.stages[:0] = synthesis
        save_tasks(self.folder, domain, tasks, domain.dropped + report.dropped)
        report.save(self.folder / "report.json")
        display.print_build(console, domain, time.perf_counter() - began)
        console.print()
        console.print(display.filter_table(report))
        return self._validate()

    @contextmanager
    def _solver(self, name: str) -> Iterator[Solver]:
        """Yield what plays a task of the domain just built, and tells whether that solved it."""
        import gymnasium

        from toolorchestra.agents.policies.base import Policy, play_episode
        from toolorchestra.agents.policies.chat_policy import ChatPolicy
        from toolorchestra.agents.policies.reference import NoisyOraclePolicy
        from toolorchestra.envs.base import OrchestrationEnv

        with ExitStack() as stack:
            chat = stack.enter_context(self._chat(self._left())) if name == "llm" else None
            env = gymnasium.make("ToolOrchestra-Custom-v0", domain=str(self.folder), disable_env_checker=True).unwrapped
            assert isinstance(env, OrchestrationEnv)
            stack.callback(env.close)

            def solves(domain: Domain, task: Task, seed: int) -> bool:
                policy: Policy = (
                    NoisyOraclePolicy(seed)
                    if chat is None
                    else ChatPolicy(chat, seed, self.temperature, self.max_tokens)
                )
                play_episode(env, policy, seed=seed, options={"split": "all", "task_id": task.id})
                return env.episode.outcome == "solved"

            yield solves

    def _left(self) -> float | None:
        """Return what is left of the budget."""
        from toolorchestra.toolscale.synth.answer_store import AnswerStore
        from toolorchestra.toolscale.synth.pipeline import ANSWERS

        if self.budget is None:
            return None
        with AnswerStore(self.folder / ANSWERS) as store:
            return max(0.0, self.budget - store.spent)

    def _validate(self) -> int:
        from toolorchestra.cli import display
        from toolorchestra.envs.checks.environment import check_environment

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
                f"\nPlay it:      toolorchestra play {self.folder}\nTrain on it:  import toolorchestra; "
                f'gymnasium.make("ToolOrchestra-Custom-v0", domain="{self.folder}")',
                style="dim",
                markup=False,
                soft_wrap=True,
            )
        return 0 if report.passed else 1


class _Asked:
    """A chat model as the synthesis asks one."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat
        self.name = chat.name

    def ask(self, question: ModelQuestion) -> ModelAnswer:
        """Answer a question."""
        from toolorchestra.agents.chat.base import ChatRequest
        from toolorchestra.toolscale.synth.answer_store import ModelAnswer

        request = ChatRequest(
            [{"role": role, "content": text} for role, text in question.messages],
            temperature=question.temperature,
            max_tokens=question.max_tokens,
            seed=question.seed,
        )
        (found,) = self._chat.complete([request])
        return ModelAnswer(
            found.text, found.prompt_tokens, found.completion_tokens, found.cost, found.finish_reason == "length"
        )


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
        from toolorchestra.cli import display
        from toolorchestra.toolscale.adversarial import make_attacked
        from toolorchestra.toolscale.domain_folder import BUILTIN, builtin_domains, load_domain
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


@dataclass(kw_only=True)
class SynthPreferences(_WithModel):
    """Make preference pairs: what a user would like optimised, in words and as the vector P.

    By rule, or with --llm proposed and judged by a model; the rules check all of them.
    """

    env: Annotated[Positional[str], arg(metavar="ENV")]
    """Id of an environment, folder of a domain, or JSONL file of tasks: its tools are what may be preferred."""
    count: int = 200
    """Pairs in all."""
    env_options: Annotated[dict[str, str], arg(metavar="NAME VALUE …")] = field(default_factory=dict)
    """Arguments of the environment: `tools full` has pairs speak of experts, search and Python as well."""
    tools: tuple[str, ...] = ()
    """Only these tools, in this order; by default all."""
    seed: int = 0
    """Seed of the pairs."""
    out: Annotated[Path, arg(metavar="FOLDER")] = Path("preferences")
    """Where to write train.jsonl, eval.jsonl and report.json."""

    def run(self) -> int:
        """Make, check, divide and write the pairs; return 3 when the same command can go on."""
        try:
            return self._run()
        except SynthesisError as error:
            print(f"stopped: {error}", file=sys.stderr)
            return 3 if error.resumable else 1

    def _run(self) -> int:
        from toolorchestra.cli import display
        from toolorchestra.cli.main import environment, option_values
        from toolorchestra.toolscale.errors import UnknownNameError
        from toolorchestra.toolscale.jsonl import write_jsonl
        from toolorchestra.toolscale.preferences import tool_facts

        env = environment(self.env, **option_values(self.env_options))
        worlds = {env.source.world(task).name: task for task in env.source.tasks("all")}
        offered: dict[str, Tool] = {}
        for task in worlds.values():
            env.reset(options={"task_id": task.id})
            offered |= env.play.tools
        env.close()
        for name in self.tools:
            if name not in offered:
                raise UnknownNameError("tool", name, offered)
        facts = tool_facts(offered[name] for name in (self.tools or offered))
        self.out.mkdir(parents=True, exist_ok=True)
        pairs, report = self._pairs(facts)
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

    def _pairs(self, facts: list[ToolFacts]) -> tuple[list[PreferencePair], PairReport]:
        """Make the pairs by rule, or have the model propose and judge them."""
        from toolorchestra.toolscale.preferences import make_pairs

        if self.llm is None:
            return make_pairs(facts, self.count, seed=self.seed)
        from rich.console import Console
        from rich.live import Live

        from toolorchestra.cli import display
        from toolorchestra.toolscale.synth.answer_store import AnswerStore
        from toolorchestra.toolscale.synth.model_queries import ModelQueries
        from toolorchestra.toolscale.synth.preference_generation import judge_pairs, propose_pairs

        with (
            self._chat() as chat,
            Live(console=Console(stderr=True), refresh_per_second=4) as live,
            AnswerStore(self.out / "answers.jsonl") as store,
            ModelQueries(
                _Asked(chat),
                store,
                self._settings(self.seed),
                lambda counts: live.update(display.synthesis_table(counts)),
            ) as asker,
        ):
            proposals = propose_pairs(facts, self.count, asker)
            judge = judge_pairs(proposals, facts, asker)
        return make_pairs(facts, self.count, proposals=proposals, judge=judge)


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
        from toolorchestra.cli import display
        from toolorchestra.toolscale.domain_folder import builtin_domains
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
    """Return what `load_domain` takes for a name (`Restaurant` as well, as ids spell it), a folder or an id."""
    from toolorchestra.toolscale.domain_folder import builtin_domains

    found = re.fullmatch(r"ToolOrchestra-(\w+)-v\d+", name)
    spelt = (found[1] if found else name).lower()
    return spelt if found or spelt in builtin_domains() else name


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
    return arguments if named else ["domain", *arguments]
