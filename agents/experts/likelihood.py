"""The likelihood of right and wrong answers under the error model of experts, and its maximum.

Of problems of n steps, k of them with an adversarial note, a share p^n (1 - deceived)^k is solved, where p is the
chance of a step (`toolorchestra.agents.experts.specification.ExpertSpec.chance`). Samples of one problem are
correlated: given the noise z_j of its steps that all samples share, they are independent, each right with probability
Q = prod_j q(z_j), so r of m are right with probability C(m, r) E[Q^r (1 - Q)^(m - r)]. Every step has noise of its own,
so E[Q^i] is a product of one-dimensional integrals, and the probability is an alternating sum of them.

The optimiser is Fisher scoring: the expected information of so few outcomes is cheap, and gives the standard errors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from statistics import NormalDist
from typing import Any, NamedTuple

import msgspec
import numpy as np

from toolorchestra.agents.experts.specification import logit

Array = np.ndarray[Any, np.dtype[np.float64]]

MAX_SAMPLES = 16
"""Maximum number of samples of a problem in one outcome; of more, alternating sums would lose their precision."""
MAX_OF_PAIR = 8
"""Maximum number of samples of each of two experts in one `ExpertPair`, for the same reason."""


def _normal_nodes(count: int) -> tuple[Array, Array]:
    """Return values of a normal variable and their weights, by which to integrate (Gauss-Hermite)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


_NODES, _WEIGHTS = _normal_nodes(41)
_PAIR_NODES, _PAIR_WEIGHTS = _normal_nodes(21)
_TINY = 1e-10
_NORMAL = NormalDist()


class Kind(NamedTuple):
    """What the answers to a problem depend on.

    The difficulty is in logits, `notes` counts the steps about which there is a note, and `fits` is the share of the
    problem's text that fits into the context.
    """

    subject: str
    steps: int
    difficulty: float
    notes: int
    fits: float


class Outcome(NamedTuple):
    """The outcome of one problem: the number of samples, and of those that are right."""

    kind: Kind
    samples: int
    right: int


class Numbers(msgspec.Struct, frozen=True):
    """The arguments of the likelihood at its maximum.

    Attributes:
        subjects: The subjects that have a skill of their own.
        values: The logit of each skill, the load, the logit of the chance to be deceived, and the logit of the share
            of noise that all samples of an expert have in common.
        errors: Their standard errors; 0 where they were not fitted.
        free: Positions of those that were fitted.
        log_likelihood: The logarithm of the likelihood.
    """

    subjects: tuple[str, ...]
    values: Array
    errors: Array
    free: tuple[int, ...]
    log_likelihood: float

    @property
    def noise(self) -> float:
        """The share of noise that all samples have in common."""
        return _expit(float(self.values[-1]))

    @property
    def deceived(self) -> float:
        """The chance to believe a note."""
        return _expit(float(self.values[-2]))

    def step(self, kind: Kind) -> float:
        """Return the chance of a step of a problem."""
        skill, load = self.values[self.subjects.index(kind.subject)], self.values[-3]
        return kind.fits * _expit(float(skill - kind.difficulty - load * math.log2(kind.steps)))

    def share(self, kind: Kind) -> float:
        """Return the share of such problems that is solved."""
        solved: float = self.step(kind) ** kind.steps * (1 - self.deceived) ** kind.notes
        return solved


def maximise(
    outcomes: Iterable[Outcome], *, load: float, deceived: float, noise: float, max_share: float = 0.999
) -> Numbers:
    """Return the numbers under which outcomes, of at most `MAX_SAMPLES` samples each, are likeliest.

    `load`, `deceived` and `noise` are where the search starts, and the result where the outcomes do not determine
    it: `load` if no subject has problems of different lengths, `deceived` if there is no note, `noise` if every problem
    was answered once. `max_share` bounds the skills and the chance to be deceived.
    """
    counts = Counter(outcomes)
    kinds = sorted({(outcome.kind, outcome.samples) for outcome in counts})
    subjects = tuple(sorted({kind.subject for kind, _ in kinds}))
    lengths: dict[str, set[int]] = {}
    for kind, _ in kinds:
        lengths.setdefault(kind.subject, set()).add(kind.steps)
    skills = len(subjects)
    fitted = {
        skills: any(len(found) > 1 for found in lengths.values()),
        skills + 1: any(kind.notes for kind, _ in kinds),
        skills + 2: any(samples > 1 for _, samples in kinds),
    }
    free = [*range(skills), *(at for at, informative in fitted.items() if informative)]
    rights = range(max(samples for _, samples in kinds) + 1)
    model = _Model(
        subject=np.array([subjects.index(kind.subject) for kind, _ in kinds]),
        steps=np.array([float(kind.steps) for kind, _ in kinds]),
        difficulty=np.array([kind.difficulty for kind, _ in kinds]),
        notes=np.array([float(kind.notes) for kind, _ in kinds]),
        fits=np.array([kind.fits for kind, _ in kinds]),
        samples=np.array([samples for _, samples in kinds]),
        counts=np.array([[float(counts[Outcome(*kind, right)]) for right in rights] for kind in kinds]),
    )
    start = np.array([*(2.0 for _ in subjects), load, logit(deceived), logit(noise)])
    bound = logit(max_share)
    low = np.array([*(-bound for _ in subjects), 0.0, -bound, -6.0])
    high = np.array([*(bound for _ in subjects), 5.0, bound, 3.5])
    values, covariance = _scoring(model, np.clip(start, low, high), low, high, free)
    errors = np.zeros_like(values)
    errors[free] = np.sqrt(np.diag(covariance))
    return Numbers(subjects, values, errors, tuple(free), model.log_likelihood(values))


class _Model(msgspec.Struct, frozen=True):
    """The likelihood of counts: a row for each kind of problem, with the problems that had 0, 1, 2 … right answers."""

    subject: np.ndarray[Any, np.dtype[np.int64]]
    steps: Array
    difficulty: Array
    notes: Array
    fits: Array
    samples: np.ndarray[Any, np.dtype[np.int64]]
    counts: Array

    def probabilities(self, values: Array) -> Array:
        """Return the probability of 0, 1, 2 … right answers to a problem of each kind."""
        load, deceived, noise = values[-3], _expit(values[-2]), _expit(values[-1])
        step = self.fits / (1 + np.exp(self.difficulty + load * np.log2(self.steps) - values[self.subject]))
        powers = np.arange(int(self.samples.max()) + 1)
        moments = _moments(step, noise, powers) ** self.steps[:, None]
        moments = moments * _moments(np.array([1 - deceived]), noise, powers) ** self.notes[:, None]
        found = np.zeros_like(moments)
        for samples in np.unique(self.samples):
            rows = self.samples == samples
            found[rows, : samples + 1] = moments[rows, : samples + 1] @ _from_moments(int(samples)).T
        return np.maximum(found, _TINY)

    def log_likelihood(self, values: Array) -> float:
        """Return the logarithm of the probability of the counts, but for a constant."""
        return float((self.counts * np.log(self.probabilities(values))).sum())

    def score(self, values: Array, free: Sequence[int]) -> tuple[Array, Array]:
        """Return the derivative of the log-likelihood by the free values, and the expected information."""
        width, chances = 1e-4, self.probabilities(values)
        shifts = width * np.eye(len(values))[list(free)]
        slope = np.stack(
            [(self.probabilities(values + by) - self.probabilities(values - by)) / (2 * width) for by in shifts]
        )
        problems = self.counts.sum(axis=1, keepdims=True)
        score = (self.counts * slope / chances).sum(axis=(1, 2))
        return score, np.einsum("akr,bkr,kr->ab", slope, slope, problems / chances)


def _scoring(model: _Model, values: Array, low: Array, high: Array, free: list[int]) -> tuple[Array, Array]:
    """Return the likeliest values within bounds, and the covariance of the free ones."""
    best = model.log_likelihood(values)
    ridge = 1e-6 * np.eye(len(free))
    for _ in range(100):
        score, information = model.score(values, free)
        # a value at a bound that would move beyond it stays there, so that the others can move
        at_low, at_high = values[free] <= low[free], values[free] >= high[free]
        moving = ~((at_low & (score < 0)) | (at_high & (score > 0)))
        step = np.zeros(len(free))
        if moving.any():
            step[moving] = np.linalg.solve((information + ridge)[np.ix_(moving, moving)], score[moving])
        step = np.clip(step, -1, 1)
        gain = 0.0
        while np.abs(step).max() > 1e-7 and not gain:
            tried = values.copy()
            tried[free] += step
            tried = np.clip(tried, low, high)
            found = model.log_likelihood(tried)
            if found > best:
                gain, values, best = found - best, tried, found
            step = step / 2
        if gain < 1e-9:
            break
    _, information = model.score(values, free)
    return values, np.asarray(np.linalg.inv(information + ridge))


class ExpertPair(NamedTuple):
    """The outcome of one problem for two experts: of each, the number of samples, and of those that are right."""

    kind: Kind
    first: tuple[int, int]
    second: tuple[int, int]


def shared_log_likelihood(shared: float, first: Numbers, second: Numbers, pairs: Sequence[ExpertPair]) -> float:
    """Return the log-likelihood of outcomes for two experts, of at most `MAX_OF_PAIR` samples of each.

    `shared` is the share of noise that both have in common, at most what samples of either have in common.
    """
    counts = Counter(pairs)
    total = 0.0
    noted = _joint_moments(first, second, shared, 1 - first.deceived, 1 - second.deceived)
    for kind in {pair.kind for pair in counts}:
        moments = _joint_moments(first, second, shared, first.step(kind), second.step(kind)) ** kind.steps
        moments = moments * noted**kind.notes
        for pair, count in counts.items():
            if pair.kind == kind:
                (m, r), (n, s) = pair.first, pair.second
                chance = _from_moments(m)[r] @ moments[: m + 1, : n + 1] @ _from_moments(n)[s]
                total += count * math.log(max(float(chance), _TINY))
    return total


def _joint_moments(first: Numbers, second: Numbers, shared: float, chance: float, other: float) -> Array:
    """Return E[q(z)^i q'(z)^j] of two experts, where z is the noise that they share."""
    powers = np.arange(MAX_OF_PAIR + 1)
    ours = _moments_given(np.array([chance]), first.noise, shared, powers)[0]
    theirs = _moments_given(np.array([other]), second.noise, shared, powers)[0]
    return np.einsum("zi,zj,z->ij", ours, theirs, _PAIR_WEIGHTS)  # type: ignore[no-any-return]


def _moments_given(chance: Array, noise: float, shared: float, powers: np.ndarray[Any, Any]) -> Array:
    """Return E[q^i] for each chance, given each node of the noise that different experts share."""
    own = max(0.0, noise - shared)
    moved = _thresholds(chance)[:, None, None] - math.sqrt(shared) * _PAIR_NODES[None, :, None]
    moved = (moved - math.sqrt(own) * _PAIR_NODES[None, None, :]) / math.sqrt(1 - noise)
    return np.einsum("kzwi,w->kzi", _cdf(moved)[..., None] ** powers, _PAIR_WEIGHTS)  # type: ignore[no-any-return]


def _moments(chance: Array, noise: float, powers: np.ndarray[Any, Any]) -> Array:
    """Return E[q(z)^i] for each chance and power, where q(z) is the chance given the noise z that samples share."""
    moved = (_thresholds(chance)[:, None] - math.sqrt(noise) * _NODES) / math.sqrt(1 - noise)
    return np.einsum("kzi,z->ki", _cdf(moved)[..., None] ** powers, _WEIGHTS)  # type: ignore[no-any-return]


@cache
def _from_moments(samples: int) -> Array:
    """Return the matrix that makes of E[Q^i], i = 0 … m, the probabilities of r = 0 … m right answers."""
    matrix = np.zeros((samples + 1, samples + 1))
    for right in range(samples + 1):
        for more in range(samples - right + 1):
            ways = math.comb(samples, right) * math.comb(samples - right, more)
            matrix[right, right + more] = -ways if more % 2 else ways
    return matrix


def _expit(value: float) -> float:
    return float(1 / (1 + np.exp(-value)))


_erf = np.vectorize(math.erf, otypes=[float])


def _cdf(value: Array) -> Array:
    return 0.5 * (1 + _erf(value / math.sqrt(2)))  # type: ignore[no-any-return]


def _thresholds(chance: Array) -> Array:
    return np.array([_NORMAL.inv_cdf(min(1 - _TINY, max(_TINY, share))) for share in chance])
