"""Named sets of instances: those of the paper's sizes (MAS-Orchestra Table A.1), and any number of others.

``masbench-v1`` has the published counts: its text and answers are the same bytes everywhere, which `DIGESTS` pins. The
splits are apart by template, so that any fresh instances of a split may be used with a set's other one.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from toolorchestra.envs.sources.masbench.generate import Instance, InstanceSettings, make_instance
from toolorchestra.envs.sources.masbench.graph import AXES, Axes
from toolorchestra.envs.sources.masbench.tasks import make_task
from toolorchestra.toolscale.common.errors import UnknownNameError
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.tasks.task import Task

V1 = "masbench-v1"
Counts = dict[str, dict[int, int]]
"""How many instances of each value a split has."""


def spread(total: int, values: Iterable[int]) -> dict[int, int]:
    """Return numbers for values that add up to a total and differ by at most 1.

    >>> spread(11, (2, 4, 6))
    {2: 4, 4: 4, 6: 3}
    """
    values = list(values)
    return {value: total // len(values) + (at < total % len(values)) for at, value in enumerate(values)}


_PUBLISHED = read_yaml(Path(__file__).with_name("masbench_v1.yaml"))
COUNTS: dict[str, Counts] = _PUBLISHED["counts"]
"""The published counts, by axis; of the training sets, only the totals are known."""
DIGESTS: dict[str, str] = _PUBLISHED["digests"]
"""The `digest` of each split of ``masbench-v1``."""


def instances(
    axes: Axes, split: str, *, seed: int | str = 0, settings: InstanceSettings | None = None, first: int = 0
) -> Iterator[Instance]:
    """Yield instances of some axis values without end, from the `first` on; the same of the same seed.

    >>> [instance.answers for instance in itertools.islice(instances(Axes(depth=2), "test", seed=3), 3)]
    [('8',), ('11',), ('16',)]
    """
    series = f"{seed}:{axes}:{split}"
    for number in itertools.count(first):
        yield make_instance(axes, split, f"{series}:{number}", settings)


def named_set(axis: str, split: str, name: str = V1) -> Iterator[Task]:
    """Yield the tasks of a split of a named set.

    Raises:
        UnknownNameError: There is no such set, axis or split.
    """
    if name != V1:
        raise UnknownNameError("set of MASBench", name, (V1,))
    check_axis(axis)
    if split not in COUNTS[axis]:
        raise UnknownNameError("split", split, COUNTS[axis])
    for value, count in COUNTS[axis][split].items():
        yield from tasks(Axes(**{axis: value}), split, count, seed=name.removeprefix("masbench-"))


def tasks(
    axes: Axes, split: str, count: int, *, seed: int | str = 0, settings: InstanceSettings | None = None
) -> Iterator[Task]:
    """Yield so many instances as tasks, whose ids name the seed."""
    for number, instance in enumerate(itertools.islice(instances(axes, split, seed=seed, settings=settings), count)):
        yield make_task(instance, f"masbench-{seed}/{axes}/{split}-{number:05d}", settings)


def digest(made: Iterable[Task]) -> str:
    """Return what the texts and answers of tasks are known by: a hash that any change of a byte changes."""
    found = hashlib.blake2b(digest_size=16)
    for task in made:
        found.update(msgspec.json.encode((task.id, task.instruction, task.communicate)))
    return found.hexdigest()


def check_axis(axis: str) -> None:
    """Raise an `UnknownNameError` if there is no axis of a name."""
    if axis not in AXES:
        raise UnknownNameError("axis of MASBench", axis, AXES)
