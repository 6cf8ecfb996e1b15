"""The command ``toolorchestra``.

One dataclass per command: its fields are the options, the text below each is its help, and `run` does the
work. What a command needs is imported when it runs, so that ``--help`` is quick. The work itself is done
elsewhere in the library; here it is only called and shown.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import tyro
from tyro.conf import Positional, arg, subcommand

from toolorchestra.cli.exchange import Export, Import
from toolorchestra.cli.experts import Experts
from toolorchestra.cli.mas import Mas
from toolorchestra.cli.masbench import MASBench
from toolorchestra.cli.multiagent import mover_env, mover_policy
from toolorchestra.cli.output import print_json, write_text
from toolorchestra.cli.select import Select
from toolorchestra.cli.study import Study
from toolorchestra.cli.synth import Synth, with_subcommand
from toolorchestra.toolscale.errors import OptionError, ToolOrchestraError, UnknownNameError

if TYPE_CHECKING:
    from rich.console import Console

    from toolorchestra.agents.chat.base import ChatModel
    from toolorchestra.agents.policies.base import Policy
    from toolorchestra.envs.base import OrchestrationEnv
    from toolorchestra.envs.episode import Episode
    from toolorchestra.envs.multiagent.views import CurrentAgentEnv
    from toolorchestra.envs.recording import Reset
    from toolorchestra.envs.sources.base import TaskSource
    from toolorchestra.toolscale.domain import Domain
    from toolorchestra.toolscale.task import Task

Env = Annotated[Positional[str], arg(metavar="ENV")]
EnvOptions = Annotated[dict[str, str], arg(metavar="NAME VALUE …")]
RolloutPolicy = Literal[
    "oracle",
    "noisy-oracle",
    "random",
    "llm",
    "null",
    "direct",
    "direct+tools",
    "majority-vote",
    "self-refine",
    "knn-router",
    "fixed-workflow",
    "strongest",
    "cheapest",
]
Split = Literal["train", "test", "test_intents", "all"]


# --------------------------------------------------------------------------------------------------- commands


@dataclass
class Envs:
    """List the environments: their agents, tools, database entries and tasks."""

    json: bool = False
    """Print a JSON list of {id, protocol, source, agents, tools, entries, tasks}."""

    def run(self) -> int:
        """Print the list."""
        from toolorchestra.cli import display
        from toolorchestra.envs.registration import environment_ids, multiagent_ids

        rows = []
        with display.progress_bars(transient=True) as progress:  # sources of questions are made, which takes seconds
            ids = sorted([*environment_ids(), *multiagent_ids()])
            bar = progress.add_task("reading", total=len(ids), note="")
            for env_id in ids:
                progress.update(bar, note=env_id)
                rows.append(_env_facts(env_id))
                progress.advance(bar)
        if self.json:
            return print_json(rows)
        console = display.stdout_console()
        console.print(display.environment_table(rows))
        console.print(
            "\nPlay one:  toolorchestra play ID  (or the folder of a domain of your own; one agent only).", style="dim"
        )
        return 0


@dataclass
class Tasks:
    """List the tasks of an environment, or show one with its reference trajectory."""

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    id: Annotated[str | None, arg(metavar="TASK")] = None
    """Show this task in full: request, reference trajectory, what must be told."""
    split: Split = "all"
    """Only tasks of this split."""
    difficulty: tuple[int, ...] = ()
    """Only tasks of these levels (1 to 5)."""
    intent: str | None = None
    """Only tasks of this intent."""
    limit: int = 20
    """Most tasks listed; 0 for all."""
    json: bool = False
    """Print JSON: the whole tasks, all that match."""

    def run(self) -> int:
        """Print the tasks."""
        from toolorchestra.cli import display

        source = task_source(self.env)
        console = display.stdout_console()
        if self.id is not None:
            task = source.task(self.id)
            if self.json:
                return print_json(task)
            console.print(display.task_card(task))
            return 0
        tasks = list(source.tasks(self.split))
        if self.intent is not None:
            intents = {task.intent for task in tasks}
            if self.intent not in intents:
                raise UnknownNameError("intent", self.intent, intents)
            tasks = [task for task in tasks if task.intent == self.intent]
        if self.difficulty:
            tasks = [task for task in tasks if task.difficulty in self.difficulty]
        if self.json:
            return print_json(tasks)
        shown = tasks[: self.limit] if self.limit else tasks
        console.print(display.task_table(shown))
        console.print(display.task_summary(tasks), style="dim")
        if len(shown) < len(tasks):
            console.print(f"{len(shown)} shown; --limit 0 shows all, --id TASK one in full.", style="dim")
        return 0


@dataclass
class Play:
    """Play an environment yourself, in the terminal."""

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    split: Split = "all"
    """Split from which requests are drawn."""
    difficulty: tuple[int, ...] = ()
    """Levels from which requests are drawn (1 to 5); all by default."""
    task: Annotated[str | None, arg(metavar="TASK")] = None
    """Play this task."""
    seed: int | None = None
    """Seed of the first draw; the same seed brings the same requests."""
    env_options: EnvOptions = field(default_factory=dict)
    """Arguments of the environment, e.g. `tools full`."""
    record: Annotated[Path | None, arg(metavar="FILE")] = None
    """Append the episodes played to this JSONL file."""

    def run(self) -> int:
        """Play until the person has had enough."""
        from toolorchestra.agents.policies.human import HumanPolicy
        from toolorchestra.cli import display
        from toolorchestra.envs.episode import write_episodes

        env, console = environment(self.env, **option_values(self.env_options)), display.stdout_console()
        policy = HumanPolicy(read=_reader(env), show=lambda text: console.print(text, style="dim", markup=False))
        options: dict[str, Any] = {"split": self.split, "task_id": self.task, "difficulty": self.difficulty or None}
        played = solved = 0
        seed, seen = self.seed, set[str]()
        try:
            while True:
                self._episode(env, policy, console, seen, seed=seed, options=options)
                seed, played = None, played + 1
                solved += env.episode.outcome == "solved"
                if self.record is not None:
                    write_episodes(self.record, [env.episode])
                console.print(f"\n{solved} of {played} solved.", style="bold")
                if env.episode.outcome != "solved" and _agreed("See the reference trajectory?", default=False):
                    console.print(display.task_card(env.task))
                if self.task is not None or not _agreed("Another one?", default=True):
                    return 0
        except (KeyboardInterrupt, EOFError):
            console.print("\nGoodbye.", style="dim")
            return 0

    def _episode(self, env: OrchestrationEnv, policy: Policy, console: Console, seen: set[str], **reset: Any) -> None:
        from toolorchestra.cli import display

        observation, info = env.reset(**reset)
        if env.play.world.name not in seen:
            console.print(display.place_card(env.play.world.rules))
            seen.add(env.play.world.name)
        display.print_episode(console, env.episode)
        policy.reset(env, observation, info)
        over = False
        while not over:
            observation, _, terminated, truncated, info = env.step(policy.act(observation, info))
            over = terminated or truncated
            display.print_turn(console, env.episode)


@dataclass
class Rollout:
    """Let a policy play many episodes and record them as JSONL."""

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    policy: RolloutPolicy = "oracle"
    """Who plays. `oracle` and `noisy-oracle` know the reference trajectory; `llm` is any chat model (--model);
    the others after
    `null` are baselines that ask experts. In a game of several agents `random`, `null` or `llm` speaks for all."""
    policy_options: Annotated[dict[str, str], arg(metavar="NAME VALUE …")] = field(default_factory=dict)
    """Arguments of the policy, e.g. `expert gpt-5` or `n 8`."""
    env_options: EnvOptions = field(default_factory=dict)
    """Arguments of the environment, e.g. `tools full`."""
    episodes: Annotated[int | Literal["all"], arg(metavar="N|all")] = 100
    """How many to play; `all` plays every task of the split once."""
    split: Split = "test"
    """Split from which tasks are drawn."""
    difficulty: tuple[int, ...] = ()
    """Levels from which tasks are drawn (1 to 5); all by default."""
    seed: int = 0
    """Seed of the first episode (the next has the next seed) and of the policy."""
    error: float = 0.2
    """For `noisy-oracle`: probability of a mistake per turn."""
    model: Annotated[str | None, arg(metavar="NAME|PATH")] = None
    """For `llm`: the model's name at --base-url, or without it the folder or hub id of a local model."""
    base_url: Annotated[str | None, arg(metavar="URL")] = None
    """For `llm`: an OpenAI-compatible server, e.g. http://localhost:8000/v1."""
    api_key_env: Annotated[str | None, arg(metavar="NAME")] = None
    """For `llm`: environment variable that holds the server's key, if it wants one."""
    price: Annotated[tuple[float, float], arg(metavar="IN OUT")] = (0.0, 0.0)
    """For `llm`: US dollars per million tokens read and written."""
    temperature: float = 0.0
    """For `llm`: sampling temperature; 0 is greedy."""
    max_tokens: int = 8_000
    """For `llm`: most tokens of one reply."""
    parallel: int = 8
    """For `llm`: episodes in progress at a time."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where to write; by default rollouts/ENV.POLICY.SPLIT.jsonl."""
    resume: bool = False
    """Go on with an interrupted file: what it holds is not played again."""
    json: bool = False
    """Print the summary as JSON."""

    def __post_init__(self) -> None:
        if self.policy == "llm" and self.model is None:
            raise OptionError("The policy `llm` needs a model: --model NAME --base-url URL, or --model PATH.")
        if self.policy != "llm" and (self.model or self.base_url):
            raise OptionError(f"--model and --base-url are for --policy llm, not {self.policy}.")
        if self.api_key_env and not self.base_url:
            raise OptionError("--api-key-env is for a server: give its --base-url as well.")
        if self.episodes != "all" and self.episodes < 1:
            raise OptionError(f"--episodes must be at least 1, or `all`; got {self.episodes}.")
        if self.parallel < 1:
            raise OptionError(f"--parallel must be at least 1, got {self.parallel}.")

    def run(self) -> int:
        """Play, record and sum up."""
        from toolorchestra.cli import display
        from toolorchestra.envs.episode import Episode
        from toolorchestra.envs.recording import Recording, Tally, play_many

        env_options = option_values(self.env_options)
        env = _playable(self.env, **env_options)
        resets = self._resets(env.source)
        env.close()
        make_policy = self._policy()
        make_policy()  # before a file is made, to say what is wrong with its options
        file = self.out or Path("rollouts") / f"{Path(self.env).name}.{self.policy}.{self.split}.jsonl"
        skipped = {"episodes", "out", "resume", "json", "parallel"}
        made_by = {key: value for key, value in asdict(self).items() if key not in skipped}
        made_by["every_task"] = self.episodes == "all"
        parallel = self.parallel if self.policy == "llm" else 1
        unplayed: list[str] = []
        with Recording(file, made_by, resume=self.resume) as recording, display.progress_bars() as progress:
            tally = Tally(recording.episodes)
            waiting = [reset for reset in resets if reset.seed not in recording.done]
            bar = progress.add_task(self.policy, total=len(resets), completed=len(resets) - len(waiting), note="")
            began = time.perf_counter()
            playing = play_many(lambda: _playable(self.env, **env_options), make_policy, waiting, parallel=parallel)
            try:
                for number, played in enumerate(playing, 1):
                    if isinstance(played, Episode):
                        recording.write(played)
                        tally.add(played)
                    else:
                        unplayed.append(played.error)
                    rate = number / (time.perf_counter() - began)
                    note = f"{tally.share:.0%} solved · {rate:,.1f} episodes/s · ${tally.cost:.2f}"
                    progress.update(bar, advance=1, note=note)
            except KeyboardInterrupt:
                progress.stop()
                print(
                    f"Interrupted: {tally.outcomes.total()} episodes are in {file}; --resume goes on.", file=sys.stderr
                )
                return 130
        summary = tally.summary() | {"seconds": time.perf_counter() - began, "unplayed": len(unplayed)}
        if self.policy == "llm":
            summary["model"] = make_policy().model.meter.usage  # type: ignore[attr-defined]  # a ChatPolicy
        if self.json:
            print_json({"file": str(file), **summary})
        else:
            display.stdout_console().print(display.tally_text(summary, file))
        if unplayed:
            print(f"{len(unplayed)} episodes were not played ({unplayed[0]}); --resume tries again.", file=sys.stderr)
        return 1 if unplayed else 0

    def _resets(self, source: TaskSource) -> list[Reset]:
        from toolorchestra.envs.recording import Reset

        levels = self.difficulty or None
        if self.episodes != "all":
            options = {"split": self.split, "difficulty": levels}
            return [Reset(self.seed + number, options) for number in range(self.episodes)]
        tasks = [task for task in source.tasks(self.split) if levels is None or task.difficulty in levels]
        return [Reset(self.seed + number, {"task_id": task.id}) for number, task in enumerate(tasks)]

    def _policy(self) -> Callable[[], Policy]:
        """Return what makes the policy; a chat model is loaded once."""
        from toolorchestra.agents.policies.chat_policy import ChatPolicy
        from toolorchestra.agents.policies.registry import make_policy
        from toolorchestra.envs.registration import is_multiagent

        if self.policy == "llm":
            model = self._chat_model(str(self.model))
            return lambda: ChatPolicy(model, self.seed, self.temperature, self.max_tokens)
        if is_multiagent(self.env):
            return lambda: mover_policy(self.env, self.policy, self.seed)
        options: dict[str, Any] = {"error": self.error} if self.policy == "noisy-oracle" else {}
        options |= {"seed": self.seed} | option_values(self.policy_options)
        return lambda: make_policy(self.policy, **options)

    def _chat_model(self, model: str) -> ChatModel:
        """Return the chat model at the server, or the local one."""
        try:
            if self.base_url is None:
                from toolorchestra.agents.chat.transformers_chat import TransformersChat

                return TransformersChat(model)
            from toolorchestra.agents.chat.base import Price
            from toolorchestra.agents.chat.openai_chat import OpenAIChat

            return OpenAIChat(
                self.base_url,
                model,
                api_key_env=self.api_key_env,
                price=Price(*self.price),
                max_concurrency=self.parallel,
                stream=True,  # a long answer must not look like a hanging server
            )
        except ImportError as error:
            raise OptionError(f"{error}.") from None


@dataclass
class Show:
    """Show a recorded episode in the terminal."""

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """JSONL file of episodes, as `rollout` writes it."""
    number: Annotated[Positional[int], arg(metavar="N")] = 1
    """Which episode: 1 is the first, -1 the last."""
    task: Annotated[str | None, arg(metavar="TASK")] = None
    """Show the first episode of this task instead."""
    list: bool = False
    """List the episodes of the file."""
    tree: bool = False
    """Show the decision tree of an episode of TMATR instead."""
    svg: Annotated[Path | None, arg(metavar="FILE")] = None
    """Also write the picture of that tree."""
    json: bool = False
    """Print that tree as JSON."""

    def run(self) -> int:
        """Print the episode, its tree, or the list."""
        from toolorchestra.cli import display

        episodes = _read(self.file)
        console = display.stdout_console()
        if self.list:
            console.print(display.episode_table(episodes))
            return 0
        if self.task is not None:
            ids = [episode.task_id for episode in episodes]
            if self.task not in ids:
                raise UnknownNameError(f"task in {self.file}", self.task, set(ids))
            position = ids.index(self.task)
        elif self.number == 0 or abs(self.number) > len(episodes):
            raise OptionError(f"{self.file} has {len(episodes)} episodes; got number {self.number}.")
        else:
            position = self.number - 1 if self.number > 0 else len(episodes) + self.number
        if self.tree or self.svg or self.json:
            return self._decisions(episodes[position], color=display.colored(console))
        display.print_episode(console, episodes[position])
        console.print(f"Episode {position + 1} of {len(episodes)} in {self.file}; --list lists them.", style="dim")
        return 0

    def _decisions(self, episode: Episode, *, color: bool) -> int:
        """Print the decision tree of an episode, and draw it."""
        from toolorchestra.envs.tmatr.figure import svg, tree_text
        from toolorchestra.envs.tmatr.tree import decision_tree

        if not episode.env_id.startswith("TMATR"):
            raise OptionError(f"Expected an episode of TMATR, which has a decision tree; found {episode.env_id}.")
        tree = decision_tree(episode)
        if self.svg:
            write_text(self.svg, svg(tree))
        print(tree.to_json().decode() if self.json else tree_text(tree, color=color))
        return 0


@dataclass
class Validate:
    """Check an environment: determinism, reference trajectories, floors, hostile actions, verifier, privacy."""

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    only: tuple[str, ...] = ()
    """Run only these checks."""
    random_episodes: int = 1000
    """Episodes of the random policy (environments of one agent)."""
    hostile: int = 3000
    """Hostile actions sent (environments of one agent)."""
    seed: int = 0
    """Seed of all that is random about the checks."""
    env_options: EnvOptions = field(default_factory=dict)
    """Arguments of the environment, e.g. `tools full`."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> int:
        """Check, print the report, and return 1 when a check failed."""
        from toolorchestra.cli import display
        from toolorchestra.envs.checks.environment import check_environment

        env_id, kwargs = _resolve(self.env)
        with display.progress_bars() as progress:
            bar = progress.add_task("", total=1, note="")

            def tell(check: str, done: int, total: int) -> None:
                progress.update(bar, description=check, completed=done, total=max(1, total))

            report = check_environment(
                env_id,
                checks=self.only or None,
                random_episodes=self.random_episodes,
                hostile=self.hostile,
                seed=self.seed,
                progress=tell,
                **kwargs,
                **option_values(self.env_options),
            )
            progress.remove_task(bar)
        if self.json:
            print_json({"env_id": report.env_id, "passed": report.passed, "results": report.results})
        else:
            display.print_report(display.stdout_console(), report)
        return 0 if report.passed else 1


@dataclass
class Build:
    """Build a domain's folder: database and tasks from its YAML."""

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Folder with a domain.yaml."""

    def run(self) -> int:
        """Build and say what was made and what was dropped."""
        from toolorchestra.cli import display
        from toolorchestra.toolscale.domain_folder import build_domain

        began = time.perf_counter()
        domain = build_domain(self.folder)
        display.print_build(display.stdout_console(), domain, time.perf_counter() - began)
        return 0


@dataclass
class Card:
    """Print the card of a domain as Markdown: rules, entities, tools, example tasks, statistics."""

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks."""

    def run(self) -> int:
        """Print it."""
        from toolorchestra.toolscale.domain_card import card

        print("\n".join(card(domain) for domain, _ in _domains(self.env)), end="")
        return 0


@dataclass
class Stats:
    """Print how large domains are and how varied their tasks: sizes, shares, diversity."""

    env: Env = "ToolOrchestra-All-v0"
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    json: bool = False
    """Print JSON: a list of figures, one object a domain."""
    markdown: bool = False
    """Print the statistics page, with the paper's sizes beside ours."""

    def __post_init__(self) -> None:
        if self.json and self.markdown:
            raise OptionError("Expected one of --json and --markdown, got both.")

    def run(self) -> int:
        """Print them."""
        from toolorchestra.cli import display
        from toolorchestra.toolscale.domain_card import statistics_page
        from toolorchestra.toolscale.domain_statistics import statistics

        facts = [statistics(domain, tasks) for domain, tasks in _domains(self.env)]
        if self.json:
            return print_json(facts)
        if self.markdown:
            print(statistics_page(facts), end="")
        else:
            display.stdout_console().print(display.statistics_tables(facts))
        return 0


@dataclass
class Robustness:
    """Report how policies withstood the attacks of a robustness set (`synth adversarial` makes one)."""

    tasks: Annotated[Positional[Path], arg(metavar="TASKS")]
    """JSONL file of the attacked tasks."""
    episodes: Annotated[Positional[tuple[Path, ...]], arg(metavar="EPISODES")]
    """JSONL files of episodes of them, one for each policy, as `rollout TASKS` writes them."""
    json: bool = False
    """Print the report as JSON."""

    def __post_init__(self) -> None:
        if not self.episodes:
            raise OptionError("Expected at least one file of episodes: toolorchestra rollout TASKS --split all …")

    def run(self) -> int:
        """Judge the episodes and print the shares."""
        from toolorchestra.cli import display
        from toolorchestra.envs.robustness import robustness

        source = environment(str(self.tasks)).source
        results = {file.stem: robustness(source, _read(file)) for file in self.episodes}
        if self.json:
            return print_json(
                {
                    name: {**msgspec.structs.asdict(found), "share": found.share, "interval": found.interval}
                    for name, found in results.items()
                }
            )
        display.stdout_console().print(display.robustness_table(results))
        return 0


@dataclass
class Schema:
    """Print the JSON Schema of domain files, for editors."""

    def run(self) -> int:
        """Print it."""
        from toolorchestra.toolscale.format import json_schema

        return print_json(json_schema())


@dataclass
class Train:
    """Train a policy (`toolorchestra train grpo --help` lists the options)."""

    algorithm: Positional[Literal["sft", "grpo", "msarl", "tmatr", "multi-grpo"]]
    """One agent: `sft` imitates recorded or reference episodes, `grpo` learns from reward (warm-started by SFT).
    Several
    agents: `multi-grpo` trains each by its own rewards in any game, `msarl` a reasoner and a helper by nested GRPO,
    `tmatr` a team in turns by online DPO."""
    arguments: Annotated[Positional[tuple[str, ...]], arg(metavar="…")] = ()
    """Options of the algorithm; `python algos/grpo.py …` is the same as `toolorchestra train grpo …`."""

    def run(self) -> int:
        """Hand over to the algorithm."""
        name, options = _LEARNERS[self.algorithm]
        try:
            module = importlib.import_module(f"toolorchestra.algos.{name}")
        except ModuleNotFoundError as error:
            if str(error.name).startswith("toolorchestra"):
                raise
            raise OptionError(
                f"Training needs {error.name}, which is not installed: pip install 'toolorchestra[train]'."
            ) from None
        prog = f"toolorchestra train {self.algorithm}"
        module.main(tyro.cli(getattr(module, options), prog=prog, args=list(self.arguments)))
        return 0


_LEARNERS = {
    "sft": ("sft", "TrainSFT"),
    "grpo": ("grpo", "TrainGRPO"),
    "msarl": ("msarl", "TrainMSARL"),
    "tmatr": ("tmatr", "TrainTMATR"),
    "multi-grpo": ("multi_grpo", "TrainMultiGRPO"),
}
"""Module and options of each algorithm."""


Command = (
    Annotated[Envs, subcommand("envs")]
    | Annotated[Tasks, subcommand("tasks")]
    | Annotated[Play, subcommand("play")]
    | Annotated[Rollout, subcommand("rollout")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Validate, subcommand("validate")]
    | Annotated[Build, subcommand("build")]
    | Annotated[Card, subcommand("card")]
    | Annotated[Stats, subcommand("stats")]
    | Annotated[Synth, subcommand("synth")]
    | Annotated[Experts, subcommand("experts")]
    | Annotated[MASBench, subcommand("masbench")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Import, subcommand("import")]
    | Annotated[Robustness, subcommand("robustness")]
    | Annotated[Select, subcommand("select")]
    | Annotated[Schema, subcommand("schema")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Mas, subcommand("mas")]
    | Annotated[Study, subcommand("study")]
)

_DESCRIPTION = """\
The Gymnasium for LLM orchestration: play, record, check and train on tasks with tools, databases and costs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 (a check or an episode failed), 2 (a mistake)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        from toolorchestra import __version__

        print(f"toolorchestra {__version__}")
        return 0
    if len(given) > 2 and given[0] == "train" and not given[1].startswith("-"):
        given.insert(2, "--")  # what follows is the algorithm's
    if given[:1] == ["synth"]:
        given[1:] = with_subcommand(given[1:])
    try:
        command = tyro.cli(
            Command,
            prog="toolorchestra",
            description=_DESCRIPTION,
            args=given or ["--help"],
            config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
        )
        code = command.run()
        sys.stdout.flush()
        return code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except ToolOrchestraError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}.", file=sys.stderr)
        return 2


# ------------------------------------------------------------------------------------------- environments by name


def _resolve(name: str) -> tuple[str, dict[str, Any]]:
    """Return the environment id and its arguments that a person means by `name`."""
    import gymnasium

    from toolorchestra.envs.registration import environment_ids, is_multiagent, multiagent_ids

    if name in gymnasium.registry or ":" in name or is_multiagent(name):
        return name, {}
    if Path(name).is_dir():
        return "ToolOrchestra-Custom-v0", {"domain": name}
    if Path(name).suffix == ".jsonl":
        return "ToolOrchestra-Custom-v0", {"tasks": name}
    raise UnknownNameError("environment", name, [*environment_ids(), *multiagent_ids()])


def environment(name: str, **options: Any) -> OrchestrationEnv:
    """Make an environment of one agent with these arguments, without wrappers."""
    import gymnasium

    from toolorchestra.envs.base import OrchestrationEnv
    from toolorchestra.envs.registration import is_multiagent

    env_id, kwargs = _resolve(name)
    if is_multiagent(env_id):
        raise OptionError(
            f"{name} is a game of several agents, and this command is for environments of one. For such games there "
            "are `tasks`, `rollout --policy llm|random|null`, `show`, `validate` and `train`."
        )
    try:
        env = gymnasium.make(env_id, disable_env_checker=True, **kwargs, **options).unwrapped
    except (gymnasium.error.Error, ModuleNotFoundError, TypeError) as error:
        if isinstance(error, TypeError) and not options:  # no argument that it does not take, but a fault of its own
            raise
        raise OptionError(f"The environment {name!r} cannot be made: {error}.") from None
    if not isinstance(env, OrchestrationEnv):
        raise OptionError(f"{name} is no environment of this library but {type(env).__name__}.")
    return env


def task_source(name: str) -> TaskSource:
    """Return where the tasks of an environment come from, of one agent or of several."""
    return _playable(name).source


def _playable(name: str, **options: Any) -> OrchestrationEnv | CurrentAgentEnv:
    """Make what one policy can play: an environment of one agent, or a game of several as seen by whoever moves."""
    from toolorchestra.envs.registration import is_multiagent

    return mover_env(name, **options) if is_multiagent(name) else environment(name, **options)


def option_values(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of options: numbers, lists and so on where they are written as in JSON, else text."""

    def value(text: str) -> Any:
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return text

    return {name: value(text) for name, text in options.items()}


def _domains(name: str) -> list[tuple[Domain, list[Task]]]:
    """Return the domains in which an environment's tasks take place, each with those tasks."""
    from toolorchestra.toolscale.domain import Domain

    source = task_source(name)
    found: dict[str, tuple[Domain, list[Task]]] = {}
    for task in source.tasks("all"):
        world = source.world(task)
        if isinstance(world, Domain):
            found.setdefault(world.name, (world, []))[1].append(task)
    if not found:
        raise OptionError(f"Expected an environment whose tasks take place in domains; {name} has none.")
    return list(found.values())


def _env_facts(env_id: str) -> dict[str, str | int]:
    """Return what the list of environments says of one."""
    from toolorchestra.cli.display import entries
    from toolorchestra.envs.multiagent.views import CurrentAgentEnv
    from toolorchestra.toolscale.domain import Domain

    env = _playable(env_id)
    source = env.source
    tasks = source.tasks("all")
    worlds = {world.name: world for world in map(source.world, tasks)}
    return {
        "id": env_id,
        "protocol": env_id.rsplit("-", 2)[0],
        "source": env_id.rsplit("-", 2)[1],
        "agents": len(env.game.possible_agents) if isinstance(env, CurrentAgentEnv) else 1,
        "tools": sum(len(world.tools) for world in worlds.values()),
        "entries": sum(entries(world) for world in worlds.values() if isinstance(world, Domain)),
        "tasks": len(tasks),
    }


# ----------------------------------------------------------------------------------------------- reading, writing


def _read(file: Path) -> list[Episode]:
    """Return the episodes of a file."""
    from toolorchestra.envs.episode import read_episodes

    try:
        episodes: list[Episode] = list(read_episodes(file))
    except OSError as error:
        raise OptionError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise OptionError(str(error)) from None
    if not episodes:
        raise OptionError(f"{file} holds no episode.")
    return episodes


def _agreed(question: str, *, default: bool) -> bool:
    """Ask a person yes or no."""
    answer = input(f"{question} [{'Y/n' if default else 'y/N'}] ").strip().lower()
    return default if not answer else answer.startswith("y")


def _reader(env: OrchestrationEnv) -> Callable[[str], str]:
    """Return what reads a line, with history and completion of tool and parameter names where there is a terminal."""
    try:
        import readline
    except ModuleNotFoundError:
        return input
    readline.parse_and_bind("tab: complete")
    readline.set_completer_delims(" ;")

    def complete(text: str, state: int) -> str | None:
        line = readline.get_line_buffer()[: readline.get_begidx()].split(";")[-1].split()
        tools = env.play.tools
        if not line or line == ["?"]:
            words = [*(f"{name} " for name in tools), "answer ", "? ", "quit"]
        else:
            words = [f"{name}=" for name in tools[line[0]].parameters] if line[0] in tools else []
        found = [word for word in words if word.startswith(text)]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    return input


if __name__ == "__main__":
    sys.exit(main())
