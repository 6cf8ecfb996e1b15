"""The sources `MASBenchDepth` … `MASBenchRobustness`, and any combination of axes as a source.

Tasks of a split are made when they are asked for, once. Test values go beyond those of training, as in the paper.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from toolorchestra.envs.sources.masbench.generate import InstanceSettings, check_axes
from toolorchestra.envs.sources.masbench.graph import Axes
from toolorchestra.envs.sources.masbench.sets import COUNTS, check_axis, named_set, spread, tasks
from toolorchestra.envs.sources.masbench.world import MASBenchWorld
from toolorchestra.envs.sources.questions import check_sizes
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.toolscale.common.errors import UnknownNameError
from toolorchestra.toolscale.domain import SPLITS
from toolorchestra.toolscale.tasks.task import Task

AXIS_SETTINGS = InstanceSettings(alone=True, shared_world=True)
"""Settings of the sources of one axis, and so of the environments."""


class MASBenchSource(TaskSource):
    """Problems of one axis, or of any combinations of values.

    >>> source = MASBenchSource("depth", train=10, test=10)
    >>> [task.intent for task in source.tasks("test")[:3]]
    ['depth2', 'depth4', 'depth6']
    >>> MASBenchSource([Axes(depth=6, parallel=3)], train=4, test=2).tasks("train")[0].bindings["masbench"]["axes"]
    {'depth': 6, 'parallel': 3}

    Args:
        wanted: An axis, whose values are the paper's, or combinations of values.
        seed: Equal arguments give equal problems.
        train: Number of training problems, as many of each value as of any other.
        test: Number of test problems.
        settings: How hard they are beside their axes. By default a single axis is varied `InstanceSettings.alone`, and
            independent components share a world; combinations leave to chance what they do not name.
        name: As it stands in environment ids.
    """

    def __init__(
        self,
        wanted: str | Sequence[Axes],
        *,
        seed: int = 0,
        train: int = 300,
        test: int = 120,
        settings: InstanceSettings | None = None,
        name: str | None = None,
    ) -> None:
        sizes = {"train": train, "test": test}
        check_sizes("instances", sizes)
        if isinstance(wanted, str):
            check_axis(wanted)
            values = {split: [Axes(**{wanted: value}) for value in counts] for split, counts in COUNTS[wanted].items()}
            settings = settings or AXIS_SETTINGS
        else:
            values = {"train": list(wanted), "test": list(wanted)}
        for axes in itertools.chain(*values.values()):
            check_axes(axes)
        self.name = name or f"MASBench{wanted.title() if isinstance(wanted, str) else 'Mixed'}"
        self._make: Callable[[str], Iterator[Task]] = functools.partial(_tasks, values, sizes, seed, settings)
        self._made: dict[str, list[Task]] = {"test_intents": []}
        self._world = MASBenchWorld()

    @classmethod
    def published(cls, axis: str) -> MASBenchSource:
        """Return the source of the named set ``masbench-v1``, with the published counts (MAS-Orchestra Table A.1)."""
        source = cls(axis, train=0, test=0)
        source._make = functools.partial(named_set, axis)
        return source

    def tasks(self, split: str) -> list[Task]:
        """Return the tasks of a split, values in turn; ``test_intents`` has none."""
        if split == "all":
            return [task for one in SPLITS for task in self.tasks(one)]
        if split not in SPLITS:
            raise UnknownNameError("split", split, ("all", *SPLITS))
        if split not in self._made:
            self._made[split] = list(self._make(split))
        return self._made[split]

    def world(self, task: Task) -> MASBenchWorld:
        """Return the world of all problems."""
        return self._world


def _tasks(
    values: Mapping[str, Sequence[Axes]],
    sizes: Mapping[str, int],
    seed: int,
    settings: InstanceSettings | None,
    split: str,
) -> Iterator[Task]:
    """Yield the tasks of a split, values in turn."""
    counts = spread(sizes[split], range(len(values[split])))
    series = (tasks(axes, split, counts[at], seed=seed, settings=settings) for at, axes in enumerate(values[split]))
    for turn in itertools.zip_longest(*series):
        yield from (task for task in turn if task is not None)
