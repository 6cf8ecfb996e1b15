"""The command `toolorchestra envs`: the environments, and of one its tasks, its domains' cards and statistics."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from toolorchestra.cli.environments import domains_of, task_source
from toolorchestra.cli.files import print_json
from toolorchestra.cli.options import SourceOptions, Split, UsageError
from toolorchestra.toolscale.common.errors import UnknownNameError

_DOMAINS = "ToolOrchestra-All-v0"  # of which --stats tells where no environment is named


@dataclass
class EnvsCommand(SourceOptions):
    """List the environments; or the tasks of one, or one task with its reference trajectory."""

    env: Annotated[Positional[str | None], arg(metavar="ENV")] = None
    """List the tasks of this one: id of an environment, folder of a domain, or JSONL file of tasks."""
    task: Annotated[str | None, arg(metavar="TASK")] = None
    """Show this task in full: request, reference trajectory, and what the answer must say."""
    split: Split = "all"
    """Only tasks of this split."""
    difficulty: tuple[int, ...] = ()
    """Only tasks of these levels (1 to 5)."""
    intent: str | None = None
    """Only tasks of this intent."""
    limit: int = 20
    """Maximum number of tasks listed; 0 for all."""
    card: bool = False
    """Print the card of ENV's domain as Markdown instead: rules, entities, tools, example tasks, statistics."""
    stats: bool = False
    """Print how large domains are and how varied their tasks instead: those of ENV, by default all shipped ones."""
    markdown: bool = False
    """With --stats: the statistics page, with the paper's sizes beside ours."""
    beside: Annotated[Path | None, arg(metavar="FILE")] = None
    """With --stats: requests to put beside ours: τ²-bench's tasks.json, or JSON Lines of objects with an
    instruction."""
    json: bool = False
    """Print JSON: a list of {id, protocol, source, agents, tools, entries, tasks}; of ENV the whole tasks, all that
    match; with --stats the figures of each domain, or with --beside those that are compared."""

    def __post_init__(self) -> None:
        if self.json and (self.markdown or self.card):
            raise UsageError("--json excludes --markdown and --card, which print Markdown.")
        if (self.markdown or self.beside) and not self.stats:
            raise UsageError("--markdown and --beside go with --stats.")
        if self.env is None and (self.task or self.card):
            raise UsageError("--task and --card are about one environment: toolorchestra envs ENV …")

    def run(self) -> int:
        """Print what is asked for."""
        if self.stats:
            return self._print_statistics(self.env or _DOMAINS)
        if self.env is None:
            return self._print_environments()
        if self.card:
            from toolorchestra.toolscale.export.domain_card import card

            print("\n".join(card(domain) for domain, _ in domains_of(self.env)), end="")
            return 0
        return self._print_tasks(self.env)

    def _print_environments(self) -> int:
        from toolorchestra.cli.display.console import show
        from toolorchestra.cli.display.domains import environment_table
        from toolorchestra.envs.registration import environment_ids, multiagent_ids

        ids = sorted([*environment_ids(), *multiagent_ids()])
        rows = _known_facts(ids)
        if self.json:
            return print_json(rows)
        show(environment_table(rows))
        show(
            "\nIts tasks:  toolorchestra envs ID\n"
            "Play one:   toolorchestra play ID  (or the folder of a domain of your own; one agent only).",
            style="dim",
        )
        return 0

    def _print_tasks(self, env: str) -> int:
        from toolorchestra.cli.display.console import show
        from toolorchestra.cli.display.domains import task_card, task_summary, task_table

        source = task_source(env, **self._source(env))
        if self.task is not None:
            task = source.task(self.task)
            if self.json:
                return print_json(task)
            show(task_card(task))
            return 0
        tasks = list(source.tasks(self.split))
        if self.intent is not None:
            if self.intent not in (intents := {task.intent for task in tasks}):
                raise UnknownNameError("intent", self.intent, intents)
            tasks = [task for task in tasks if task.intent == self.intent]
        if self.difficulty:
            tasks = [task for task in tasks if task.difficulty in self.difficulty]
        if self.json:
            return print_json(tasks)
        shown = tasks[: self.limit] if self.limit else tasks
        show(task_table(shown))
        show(task_summary(tasks), style="dim")
        if len(shown) < len(tasks):
            show(f"{len(shown)} shown; --limit 0 shows all, --task TASK one in full.", style="dim")
        return 0

    def _print_statistics(self, env: str) -> int:
        from toolorchestra.cli.display.console import show
        from toolorchestra.cli.display.domains import beside_table, statistics_tables
        from toolorchestra.toolscale.export.domain_card import statistics_page
        from toolorchestra.toolscale.export.domain_statistics import request_statistics, statistics
        from toolorchestra.toolscale.export.text_statistics import read_requests, text_statistics

        file = self.beside
        beside = None if file is None else [text_statistics(file.stem, read_requests(file))]
        domains = domains_of(env)
        texts = [request_statistics(domain, tasks) for domain, tasks in domains]
        facts = [statistics(*pair, requests) for pair, requests in zip(domains, texts, strict=True)]
        if self.json:
            return print_json([*texts, *beside] if beside else facts)
        if self.markdown:
            print(statistics_page(facts, texts, beside), end="")
        else:
            show(statistics_tables(facts))
            if beside:
                show(beside_table([*texts, *beside]))
        return 0


def _known_facts(ids: Sequence[str]) -> list[dict[str, str | int]]:
    """Return the rows of the list of environments, from the file of sizes (to count takes seconds)."""
    from toolorchestra.toolscale.common.yaml_reader import read_yaml

    sizes: Any = read_yaml(Path(__file__).with_name("environment_sizes.yaml"))
    rows: list[dict[str, str | int]] = []
    for env_id in ids:
        protocol, source, _ = env_id.rsplit("-", 2)
        agents = sizes["agents"][protocol]
        rows.append(
            {"id": env_id, "protocol": protocol, "source": source, "agents": agents, **sizes["sources"][source]}
        )
    return rows
