"""Statistics of evaluations: intervals of success shares, paired differences, pass@k and maj@k; numpy only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.intervals import wilson_interval


class Interval(NamedTuple):
    """An estimate and the interval around it."""

    estimate: float
    low: float
    high: float

    def points(self, unit: str = "") -> str:
        """Return a difference of shares in percentage points.

        >>> Interval(0.1, -0.05, 0.25).points()
        '+10.0 [-5.0, +25.0]'
        """
        estimate, low, high = (f"{100 * number:+.1f}" for number in self)
        return f"{estimate}{unit} [{low}, {high}]"


def success_share(outcomes: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the share of successes (1 each, failures 0) with Wilson's interval, which never leaves [0, 1].

    >>> [round(x, 3) for x in success_share([1] * 9 + [0])]
    [0.9, 0.596, 0.982]
    """
    values = _numbers(outcomes)
    if len(values) == 0:
        return Interval(math.nan, 0.0, 1.0)
    if not np.isin(values, (0.0, 1.0)).all():
        raise OptionError("success_share needs outcomes of 0 or 1. Use mean_interval for other rewards.")
    low, high = wilson_interval(int(values.sum()), len(values), _z(confidence))
    return Interval(float(values.mean()), low, high)


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return a mean with its normal interval, mean ± z · s/√n; without bounds below two values."""
    numbers = _numbers(values)
    if len(numbers) == 0:
        return Interval(math.nan, -math.inf, math.inf)
    mean = float(numbers.mean())
    if len(numbers) == 1:
        return Interval(mean, -math.inf, math.inf)
    half = _z(confidence) * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return Interval(mean, mean - half, mean + half)


def known_mean(values: ArrayLike) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    numbers = np.asarray(values, dtype=np.float64)
    known = numbers[~np.isnan(numbers)]
    return float(known.mean()) if known.size else math.nan


def paired_difference(ours: ArrayLike, theirs: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the mean of ours - theirs, one number each for the same tasks in the same order, with its normal interval.

    Pairing removes the tasks' own difficulty from the comparison, so the interval is narrower than that of two
    independent shares. A task that was not judged, NaN on either side, is left out.

    >>> [round(x, 3) for x in paired_difference([1, 1, 1, 0], [0, 1, 0, 0])]
    [0.5, -0.066, 1.066]
    """
    return mean_interval(_differences(ours, theirs), confidence)


def paired_bootstrap(
    ours: ArrayLike, theirs: ArrayLike, confidence: float = 0.95, *, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Return the same as `paired_difference`, with a percentile bootstrap interval over tasks."""
    differences = _differences(ours, theirs)
    if len(differences) == 0:
        return Interval(math.nan, -math.inf, math.inf)
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    rows = max(1, 2_000_000 // len(differences))  # bounds memory
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        drawn = rng.integers(0, len(differences), size=(count, len(differences)))
        means[start : start + count] = differences[drawn].mean(axis=1)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(means, (tail, 1.0 - tail))
    return Interval(float(differences.mean()), float(low), float(high))


def crossed_bootstrap(
    values: ArrayLike, confidence: float = 0.95, *, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Return the mean of numbers of shape ``(seeds, tasks)`` with its percentile interval over seeds and tasks.

    Both are drawn again, as they are crossed: every seed has the same tasks. One seed gives an interval over tasks.
    A task that is NaN under some seed is left out.

    >>> found = crossed_bootstrap([[1, 0, 1, 1], [1, 1, 1, 1]])
    >>> found.estimate, found.low < found.estimate < found.high
    (0.875, True)
    """
    numbers = np.atleast_2d(np.asarray(values, dtype=np.float64))
    numbers = numbers[:, ~np.isnan(numbers).any(axis=0)]
    seeds, tasks = numbers.shape
    if numbers.size == 0:
        return Interval(math.nan, -math.inf, math.inf)
    rng = np.random.default_rng(seed)
    of_seeds = rng.multinomial(seeds, [1 / seeds] * seeds, size=resamples) / seeds  # (resamples, seeds)
    of_tasks = rng.multinomial(tasks, [1 / tasks] * tasks, size=resamples) / tasks
    means = np.einsum("rs,rs->r", of_seeds, of_tasks @ numbers.T)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(means, (tail, 1.0 - tail))
    return Interval(float(numbers.mean()), float(low), float(high))


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided p-value of the exact sign test; ties are left out of both counts.

    For successes and failures on the same tasks it is McNemar's exact test.

    >>> sign_test(9, 1)
    0.021484375
    >>> sign_test(0, 0)
    1.0
    """
    changed = better + worse
    tail = sum(math.comb(changed, count) for count in range(min(better, worse) + 1))
    return min(1.0, float(2 * tail / 2**changed))


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Return the unbiased probability that one of k samples is right, 1 - C(n - c, k) / C(n, k).

    A task has n `samples`, of which c are `correct`; k is at most n.

    >>> round(pass_at_k(samples=5, correct=2, k=2), 3)
    0.7
    """
    if not 0 <= correct <= samples or not 1 <= k <= samples:
        raise OptionError(
            f"pass_at_k needs 0 <= correct <= samples and 1 <= k <= samples, got correct={correct}, "
            f"samples={samples}, k={k}. Draw at least k samples of each task."
        )
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)


def maj_at_k(answers: Sequence[Hashable | None], truth: Hashable, k: int | None = None) -> float:
    """Return the probability that the majority of the first k answers (all, if None) is right; ties have equal chances.

    Answers are normalised final answers of one task; None (no answer) has no vote.

    >>> maj_at_k(["7", "7", "3", None], "7"), maj_at_k(["7", "3"], "7"), maj_at_k([None], "7")
    (1.0, 0.5, 0.0)
    """
    if k is not None and not 1 <= k <= len(answers):
        raise OptionError(f"k must lie in [1, {len(answers)}], the number of answers, got {k}.")
    votes = Counter(answer for answer in answers[:k] if answer is not None)
    if not votes:
        return 0.0
    max_votes = max(votes.values())
    winners = [answer for answer, count in votes.items() if count == max_votes]
    return (truth in winners) / len(winners)


def _differences(ours: ArrayLike, theirs: ArrayLike) -> NDArray[np.float64]:
    a, b = np.asarray(ours, dtype=np.float64).ravel(), np.asarray(theirs, dtype=np.float64).ravel()
    if len(a) != len(b):
        raise OptionError(f"A paired comparison needs the same tasks on both sides, got {len(a)} and {len(b)}.")
    judged = ~(np.isnan(a) | np.isnan(b))
    return _numbers(a[judged]) - _numbers(b[judged])


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(numbers).all():
        raise OptionError("Statistics need finite numbers. Leave out episodes that an error ended.")
    return numbers


def _z(confidence: float) -> float:
    if not 0.0 < confidence < 1.0:
        raise OptionError(f"confidence must lie between 0 and 1, got {confidence}. Write 95 % as 0.95.")
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)
