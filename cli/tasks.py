"""The command `toolorchestra tasks`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from toolorchestra.cli.environments import task_source
from toolorchestra.cli.files import print_json
from toolorchestra.cli.options import Env, SourceOptions, Split
from toolorchestra.toolscale.common.errors import UnknownNameError


@dataclass
class TasksCommand(SourceOptions):
    """List the tasks of an environment, or show one with its reference trajectory."""

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    id: Annotated[str | None, arg(metavar="TASK")] = None
    """Show this task in full: request, reference trajectory, and what the answer must say."""
    split: Split = "all"
    """Only tasks of this split."""
    difficulty: tuple[int, ...] = ()
    """Only tasks of these levels (1 to 5)."""
    intent: str | None = None
    """Only tasks of this intent."""
    limit: int = 20
    """Maximum number of tasks listed; 0 for all."""
    json: bool = False
    """Print JSON: the whole tasks, all that match."""

    def run(self) -> int:
        """Print the tasks."""
        from toolorchestra.cli.display import show
        from toolorchestra.cli.display_domains import task_card, task_summary, task_table

        source = task_source(self.env, **self._source(self.env))
        if self.id is not None:
            task = source.task(self.id)
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
            show(f"{len(shown)} shown; --limit 0 shows all, --id TASK one in full.", style="dim")
        return 0
