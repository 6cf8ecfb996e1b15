"""Task sources: the tasks of an environment by split, and the world of each task.

Every protocol works with every source. Here are the domains of `toolorchestra.toolscale`, files of tasks, and mixtures
of sources. Not covered: sources of questions (`toolorchestra.envs.sources`), which are imported when they are needed.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from toolorchestra.envs.world import World
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.domain_folder import TAU2_DOMAINS, builtin_domains, load_domain
from toolorchestra.toolscale.tasks.task import Task, read_tasks


class TaskSource(ABC):
    """Gives tasks and their worlds. Override `tasks` and `world`; task ids must be unique within the source.

    Attributes:
        name: As in environment ids.
        default_answer: How tasks are answered where the option `answer` of an environment is not given.
    """

    name: str
    default_answer: Literal["typed", "text"] = "typed"

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle a source of `QUESTIONS` or `EXERCISES` by its name, and any other source whole."""
        if self.name in _ALL_QUESTIONS and question_source(self.name) is self:
            return question_source, (self.name,)
        return super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the tasks that are kept to be found sooner."""
        return {name: value for name, value in vars(self).items() if name not in ("_by_id", "_fitting_known")}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the source itself: it never changes."""
        return self

    @abstractmethod
    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split (one of `SPLITS`, or ``all``), always the same in the same order."""

    @abstractmethod
    def world(self, task: Task) -> World:
        """Return the world in which a task takes place."""

    def task(self, task_id: str) -> Task:
        """Return the task with an id."""
        if task_id not in self._by_id:
            raise UnknownNameError("task", task_id, self._by_id, limit=3)
        return self._by_id[task_id]

    def sample(self, split: str, levels: frozenset[int] | None, rng: np.random.Generator) -> Task:
        """Return a random task of a split and, if given, of one of the difficulty `levels`.

        Raises:
            OptionError: There is none.
        """
        tasks = self._fitting(split, levels)
        if not tasks:
            there = sorted({task.difficulty for task in self.tasks(split)})
            raise OptionError(
                f"{self.name} has no task of split {split!r} with difficulty {sorted(levels or [])}; "
                f"there are difficulties {there}."
            )
        return tasks[int(rng.integers(len(tasks)))]

    def _fitting(self, split: str, levels: frozenset[int] | None) -> list[Task]:
        if (split, levels) not in self._fitting_known:
            found = [task for task in self.tasks(split) if levels is None or task.difficulty in levels]
            self._fitting_known[split, levels] = found
        return self._fitting_known[split, levels]

    @functools.cached_property
    def _by_id(self) -> dict[str, Task]:
        return {task.id: task for task in self.tasks("all")}

    @functools.cached_property
    def _fitting_known(self) -> dict[tuple[str, frozenset[int] | None], list[Task]]:
        return {}


class DomainSource(TaskSource):
    """The tasks of one domain, by name or from a folder."""

    def __init__(self, domain: Domain | str | Path) -> None:
        self.domain = domain if isinstance(domain, Domain) else load_domain(domain)
        self.name = self.domain.name.title().replace("_", "")
        self.default_answer = self.domain.default_answer

    def tasks(self, split: str) -> list[Task]:
        """Return the domain's tasks of a split."""
        return self.domain.tasks(split)

    def task(self, task_id: str) -> Task:
        """Return the domain's task with an id."""
        return self.domain.task(task_id)

    def world(self, task: Task) -> World:
        """Return the domain itself."""
        return self.domain


class FileSource(TaskSource):
    """The tasks of a JSONL file: generated, filtered, imported or adversarial ones.

    Args:
        file: One `Task` a line, as `toolorchestra.toolscale.export.exchange` writes them, of one domain or several.
        domain: The domain of all tasks, or its folder. Default: the file's own folder if it has a ``domain.yaml``, else
            the shipped domain or the world of questions that each task names.

    Raises:
        OptionError: The file cannot be read or has no task, or a task is of another domain or not unique.
    """

    def __init__(self, file: str | Path, domain: Domain | str | Path | None = None) -> None:
        file = Path(file)
        if domain is None and (file.parent / "domain.yaml").is_file():
            domain = file.parent
        only = domain if domain is None or isinstance(domain, Domain) else load_domain(domain)
        self.name = file.stem.title().replace("_", "").replace("-", "")
        self._tasks = read_tasks(file)
        names = dict.fromkeys(task.domain for task in self._tasks)
        if only is not None and (wrong := [name for name in names if name != only.name]):
            raise OptionError(f"{file}: expected tasks of the domain {only.name}, found one of {wrong[0]}.")
        try:
            self._worlds = {name: only or _world(name) for name in names}
        except UnknownNameError as error:
            raise OptionError(f"{file}: {error} For tasks of your own domain, give its folder: domain=….") from None
        if all(isinstance(world, Domain) and world.default_answer == "text" for world in self._worlds.values()):
            self.default_answer = "text"
        for task in self._tasks:
            tools = self._worlds[task.domain].tools
            if wrong := [call.name for call in task.whole_path if call.name not in tools]:
                raise OptionError(f"{file}: the task {task.id} calls {wrong[0]!r}, which {task.domain} does not have.")

    def tasks(self, split: str) -> list[Task]:
        """Return the tasks of a split, in the order of the file."""
        if split != "all" and split not in SPLITS:
            raise UnknownNameError("split", split, ("all", *SPLITS))
        return [task for task in self._tasks if split in ("all", task.split)]

    def world(self, task: Task) -> World:
        """Return the task's domain, or its world of questions."""
        return self._worlds[task.domain]


class MixtureSource(TaskSource):
    """Several sources at once: `sample` draws a source, each as likely, then one of its tasks."""

    def __init__(self, sources: Sequence[TaskSource], name: str = "All") -> None:
        self.sources = list(sources)
        self.name = name
        self._home = {task.id: source for source in self.sources for task in source.tasks("all")}

    def tasks(self, split: str) -> list[Task]:
        """Return the tasks of a split of all sources, source after source."""
        return [task for source in self.sources for task in source.tasks(split)]

    def world(self, task: Task) -> World:
        """Return the world of the source that the task is from."""
        return self._home[task.id].world(task)

    def sample(self, split: str, levels: frozenset[int] | None, rng: np.random.Generator) -> Task:
        """Return a random task of a random source among those that have one."""
        fitting = [source for source in self.sources if source._fitting(split, levels)]
        if not fitting:
            return super().sample(split, levels, rng)  # says what is missing
        return fitting[int(rng.integers(len(fitting)))].sample(split, levels, rng)


class _QuestionSource(NamedTuple):
    """How a source of questions is made, and the name of its world; `others` are those of further worlds."""

    world: str
    entry_point: str
    arguments: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


_PACKAGE = f"{__name__.rpartition('.')[0]}.sources"
QUESTIONS = {
    "Math": _QuestionSource("math", f"{_PACKAGE}.math.source:MathSource"),
    "MultiHopQA": _QuestionSource(
        "multi_hop_qa", f"{_PACKAGE}.multihop.source:MultiHopQASource", others=("multi_hop_qa_second",)
    ),
    **{
        f"MASBench{axis}": _QuestionSource("masbench", f"{_PACKAGE}.masbench.source:MASBenchSource", (axis.lower(),))
        for axis in ("Depth", "Horizon", "Breadth", "Parallel", "Robustness")
    },
}
"""The sources of questions by name. Their modules are imported when a source is made."""
EXERCISES = {
    "MathParity": _QuestionSource("math_parity", f"{_PACKAGE}.math.parity:ParitySource"),
    "Chains": _QuestionSource("chains", f"{_PACKAGE}.chains:ChainSource"),
}
"""Sources of questions without ids of their own, for studies: ids with ``Custom`` play them by name."""
_ALL_QUESTIONS = {**QUESTIONS, **EXERCISES}


@functools.cache
def question_source(name: str) -> TaskSource:
    """Return a source of `QUESTIONS` or `EXERCISES` of default size; each is made once per process."""
    found = _ALL_QUESTIONS[name]
    source: TaskSource = pkgutil.resolve_name(found.entry_point)(*found.arguments)
    return source


def _world(name: str) -> World:
    """Return the world that tasks name: a shipped domain, or one of questions."""
    for source, question in _ALL_QUESTIONS.items():
        if name in (question.world, *question.others):
            tasks = question_source(source).tasks("all")
            return question_source(source).world(next(task for task in tasks if task.domain == name))
    return load_domain(name)


def make_source(
    name: str | None = None,
    domain: str | Path | None = None,
    tasks: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> TaskSource:
    """Return a source by its name, or from a folder or a file of tasks.

    Names are those in environment ids (of the domains, ``All`` of them, and those in `QUESTIONS`), those in
    `EXERCISES`, and those of public data sets (`toolorchestra.envs.sources.public`), which alone have options: `files`,
    `limit`, `revision`, `held_out`.

    Raises:
        UnknownNameError: There is no such source.
        OptionError: It does not take such an option, or cannot be read.
    """
    if tasks is not None:
        return FileSource(tasks, domain)
    if domain is not None:
        return DomainSource(domain)
    sources = {name.title().replace("_", ""): name for name in (*builtin_domains(), *TAU2_DOMAINS)}
    if options and name in ("All", *_ALL_QUESTIONS, *sources):
        raise OptionError(f"The source {name} takes no options, got {dict(options)}: public data sets have some.")
    if name == "All":
        return MixtureSource([DomainSource(domain) for domain in builtin_domains()])
    if name in _ALL_QUESTIONS:
        return question_source(name)
    if name not in sources:
        public = importlib.import_module(f"{_PACKAGE}.public")
        if name not in public.SOURCES:
            raise UnknownNameError("task source", str(name), [*sources, "All", *_ALL_QUESTIONS, *public.SOURCES])
        found: TaskSource = public.public_source(name, options or {})
        return found
    return DomainSource(sources[name])


def source_argument(env_id: str, name: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the argument ``source`` of an environment that a command line names apart, or no argument.

    Args:
        env_id: Id of the environment, which must leave its source open.
        name: Name of the source; None if none is given.
        options: Options of the source.

    Raises:
        UnknownNameError: There is no such source.
        OptionError: The environment has a source, the source takes no such option, or options are without a source.
    """
    if name is None:
        if options:
            raise OptionError(f"Options of a source need its name, got {dict(options)}: give --source NAME.")
        return {}
    if ":" not in env_id and not env_id.endswith("-Custom-v0"):
        open_id = f"{'-'.join(env_id.split('-')[:-2])}-Custom-v0" if env_id.endswith("-v0") else "PROTOCOL-Custom-v0"
        raise OptionError(f"{env_id} has a source: with --source {name} expected an id like {open_id}.")
    return {"source": make_source(name, options=options)}
