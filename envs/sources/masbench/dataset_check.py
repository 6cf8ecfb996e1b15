"""A check of generated instances: each is solved from its text alone; answers and templates are well distributed."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from toolorchestra.envs.sources.masbench.generate import InstanceSettings
from toolorchestra.envs.sources.masbench.graph import MODULUS, Axes
from toolorchestra.envs.sources.masbench.sets import instances
from toolorchestra.envs.sources.masbench.tasks import faults

CRITICAL = 40.289
"""χ² that 22 degrees of freedom exceed with a probability of 1 %."""
_MAX_SHOWN = 20


class DatasetCheck(msgspec.Struct, frozen=True):
    """The results of a check.

    Attributes:
        instances: Instances made, as many of either split.
        disagreements: Instances of which text and graph disagree, in answers, axes or split.
        faults: Some of what is wrong with those.
        duplicates: Instances whose text is that of another.
        templates: Templates met, by split.
        shared: Templates met in both splits.
        answers: How often each of 0…22 is an answer; magic numbers are left out.
        chi_square: Pearson's statistic against equal frequencies.
        milliseconds: Mean processor time to make an instance.
        slowest: Longest one.
        solving: Mean processor time to check one.
    """

    instances: int
    disagreements: int
    faults: tuple[str, ...]
    duplicates: int
    templates: dict[str, int]
    shared: int
    answers: tuple[int, ...]
    chi_square: float
    milliseconds: float
    slowest: float
    solving: float

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong: all agree, no template is in both splits, and the answers are balanced."""
        return not self.disagreements and not self.shared and self.chi_square < CRITICAL


def check_dataset(
    wanted: Iterable[Axes],
    count: int,
    *,
    seed: int | str = 0,
    settings: InstanceSettings | None = None,
    progress: Callable[[], object] = lambda: None,
) -> DatasetCheck:
    """Generate `count` instances of each of some axis values in both splits, check them and return the results.

    `progress` is called after each instance.
    """
    making: list[float] = []
    checking = 0.0
    wrong: list[str] = []
    bad = 0
    texts = set[int]()
    templates: dict[str, set[str]] = {"train": set(), "test": set()}
    answers = Counter[str]()
    for axes, split in itertools.product(wanted, templates):
        series = instances(axes, split, seed=seed, settings=settings)
        for number in range(count):
            began = time.thread_time()
            instance = next(series)
            ended = time.thread_time()
            found = faults(instance)
            checking += time.thread_time() - ended
            making.append(ended - began)
            bad += bool(found)
            wrong += [f"{axes} {split} {number}: {fault}" for fault in found]
            texts.add(hash(instance.text))
            templates[split].update(instance.templates)
            answers.update(
                answer
                for target, answer in zip(instance.graph.targets, instance.answers, strict=True)
                if instance.graph.nodes[target.node].kind != "needle"  # the others are counted modulo 23
            )
            progress()
    made = len(making)
    counts = tuple(answers[str(value)] for value in range(MODULUS))
    return DatasetCheck(
        instances=made,
        disagreements=bad,
        faults=tuple(wrong[:_MAX_SHOWN]),
        duplicates=made - len(texts),
        templates={split: len(found) for split, found in templates.items()},
        shared=len(templates["train"] & templates["test"]),
        answers=counts,
        chi_square=chi_square(counts),
        milliseconds=1e3 * sum(making) / made,
        slowest=1e3 * max(making),
        solving=1e3 * checking / made,
    )


def chi_square(counts: Iterable[int]) -> float:
    """Return Pearson's statistic of counts against equal frequencies.

    >>> chi_square([10, 10, 10]), chi_square([5, 15])
    (0.0, 5.0)
    """
    counts = list(counts)
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected
