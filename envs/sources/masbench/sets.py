"""Named sets of instances: those of the paper's sizes (MAS-Orchestra Table A.1), and as many more as wanted.

``masbench-v1`` has the published counts: its text and answers are the same bytes everywhere, which `DIGESTS` pins. The
splits are apart by template, so that any fresh instances of a split may be used with a set's other one.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator

import msgspec

from toolorchestra.envs.sources.masbench.generate import Instance, InstanceSettings, make_instance
from toolorchestra.envs.sources.masbench.graph import AXES, Axes
from toolorchestra.envs.sources.masbench.tasks import make_task
from toolorchestra.toolscale.errors import UnknownNameError
from toolorchestra.toolscale.task import Task

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


COUNTS: dict[str, Counts] = {
    "depth": {"train": spread(3993, (2, 4, 6, 8)), "test": {2: 199, 4: 200, 6: 200, 8: 200, 10: 199, 12: 197}},
    "horizon": {"train": spread(2174, (2, 4, 6)), "test": {2: 167, 4: 150, 6: 126, 8: 124}},
    "breadth": {"train": spread(2000, (2, 4)), "test": {2: 200, 4: 200, 6: 192, 8: 84}},
    "parallel": {"train": spread(1807, (2, 4)), "test": {2: 167, 4: 150, 6: 126, 8: 124}},
    "robustness": {"train": spread(3000, (2, 4, 6)), "test": {2: 200, 4: 200, 6: 200}},
}
"""The published counts, by axis; of the training sets, only the totals are known."""

DIGESTS = {
    "depth/train": "e6dc4777bb0ad13b98486da65915ab8b",
    "depth/test": "108e6b20f5329250e3788d067e024cd3",
    "horizon/train": "098031090cd617568b9c843ce6b16f82",
    "horizon/test": "0fdc5983d58f6570a2f0d0bf56427072",
    "breadth/train": "f4f5e1e033f827e0e10a6f5795cd6483",
    "breadth/test": "ff4f768c3f0c7317528db68ec7821d11",
    "parallel/train": "b4fd75063f3b28c9d84525a855e11172",
    "parallel/test": "a19cb47fed5d2b700bddb29b20723f40",
    "robustness/train": "13915c1cc9265d86c1fd54d9ea1c66ae",
    "robustness/test": "da9356106ef5ae8dcedb48b4d391dff1",
}
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
        yield make_task(instance, f"masbench-{seed}/{axes}/{split}-{number:05d}")


def digest(made: Iterable[Task]) -> str:
    """Return what the texts and answers of tasks are known by: a hash that any change of a byte changes."""
    found = hashlib.blake2b(digest_size=16)
    for task in made:
        found.update(msgspec.json.encode((task.id, task.instruction, task.communicate)))
    return found.hexdigest()


def check_axis(axis: str) -> None:
    """Check that there is an axis of a name.

    Raises:
        UnknownNameError: There is none.
    """
    if axis not in AXES:
        raise UnknownNameError("axis of MASBench", axis, AXES)
