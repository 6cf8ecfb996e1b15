"""The likelihood of right and wrong answers under the error model of experts, and its maximum.

Of problems of n steps, k of them with an adversarial note, a share p^n (1 - deceived)^k is solved, where p is the
chance of a step (`toolorchestra.agents.experts.specification.ExpertSpec.chance`). Samples of one problem are
correlated: given the noise z_j of its steps that all samples share, they are independent, each right with probability
Q = prod_j q(z_j), so r of m are right with probability C(m, r) E[Q^r (1 - Q)^(m - r)]. Every step has noise of its own,
so E[Q^i] is a product of one-dimensional integrals, and the probability is an alternating sum of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from toolorchestra.agents.experts.specification import logit
from toolorchestra.toolscale.common.errors import install_line

try:
    from scipy import optimize
    from scipy.special import expit, ndtr, ndtri
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"Fitting experts needs {missing.name}, which is not installed: {install_line('fit')}", name=missing.name
    ) from None

Array = np.ndarray[Any, np.dtype[np.float64]]

MAX_SAMPLES = 16
"""Maximum number of samples of a problem in one outcome; of more, alternating sums would lose their precision."""
MAX_OF_PAIR = 8
"""Maximum number of samples of each of two experts, for the same reason."""
_MAX_SHARE = 0.999  # of a skill and of the chance to be deceived
_TINY = 1e-10


def _normal_nodes(count: int) -> tuple[Array, Array]:
    """Return values of a normal variable and their weights, by which to integrate (Gauss-Hermite)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


_NODES, _WEIGHTS = _normal_nodes(41)
_PAIR_NODES, _PAIR_WEIGHTS = _normal_nodes(21)


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


class FitParameters(msgspec.Struct, frozen=True):
    """The arguments of the likelihood.

    Attributes:
        subjects: The subjects that have a skill of their own.
        values: The logit of each skill, the load, the logit of the chance to be deceived, and the logit of the share
            of noise that all samples of an expert have in common.
        errors: Their standard errors; 0 where they were not fitted.
        free: Positions of those that were fitted.
        log_likelihood: The logarithm of the likelihood, but for a constant.
    """

    subjects: tuple[str, ...]
    values: Array
    errors: Array
    free: tuple[int, ...]
    log_likelihood: float

    @property
    def noise(self) -> float:
        """The share of noise that all samples have in common."""
        return float(expit(self.values[-1]))

    def shares(self, kinds: Sequence[Kind]) -> Array:
        """Return the share of each kind of problem that is solved."""
        return _of_problems(self.chances(kinds), kinds)

    def chances(self, kinds: Sequence[Kind]) -> Array:
        """Return the chance of a step of each kind of problem, and last that of not believing a note."""
        skill = self.values[[self.subjects.index(kind.subject) for kind in kinds]]
        _, steps, difficulty, _, fits = (np.array(column) for column in zip(*kinds, strict=True))
        right = fits * expit(skill - difficulty - self.values[-3] * np.log2(steps))
        return np.append(right, expit(-self.values[-2]))


def maximise(outcomes: Iterable[Outcome], *, load: float, deceived: float, noise: float) -> FitParameters:
    """Return the numbers under which outcomes, of at most `MAX_SAMPLES` samples each, are likeliest.

    `load`, `deceived` and `noise` are where the search starts, and the result where the outcomes do not determine
    it: `load` if no subject has problems of different lengths, `deceived` if there is no note, `noise` if every problem
    was answered once.
    """
    counted = Counter(outcomes)
    posed = sorted({(outcome.kind, outcome.samples) for outcome in counted})
    kinds = [kind for kind, _ in posed]
    subjects = tuple(sorted({kind.subject for kind in kinds}))
    skills = len(subjects)
    informative = (
        len({(kind.subject, kind.steps) for kind in kinds}) > skills,
        any(kind.notes for kind in kinds),
        any(samples > 1 for _, samples in posed),
    )
    free = [*range(skills), *(skills + at for at, informs in enumerate(informative) if informs)]
    bound = logit(_MAX_SHARE)
    low = np.array([-bound] * skills + [0.0, -bound, -6.0])
    high = np.array([bound] * skills + [5.0, bound, 3.5])
    start = np.clip(np.array([2.0] * skills + [load, logit(deceived), logit(noise)]), low, high)
    # of each kind and number of samples: how many problems had 0, 1, 2 … right answers
    rights = [np.array([counted[Outcome(*one, right)] for right in range(one[1] + 1)], float) for one in posed]
    counts, problems = np.concatenate(rights), np.concatenate([np.full_like(of, of.sum()) for of in rights])

    def numbers(found: Array) -> FitParameters:
        values = start.copy()
        values[free] = found
        return FitParameters(subjects, values, np.zeros_like(values), tuple(free), 0.0)

    def chances(found: Array) -> Array:
        """Return the probability of each of the counts."""
        tried = numbers(found)
        moments = _of_problems(_moments(tried.chances(kinds), tried.noise, tried.noise, np.zeros(1))[:, 0], kinds)
        parts = [_from_moments(samples) @ of[: samples + 1] for of, (_, samples) in zip(moments, posed, strict=True)]
        return np.concatenate(parts).clip(_TINY)

    best = optimize.minimize(
        lambda found: -float(counts @ np.log(chances(found))),
        start[free],
        method="L-BFGS-B",
        jac="3-point",
        bounds=optimize.Bounds(low[free], high[free]),
        options={"ftol": 1e-13, "gtol": 1e-5},
    )
    slope = optimize.approx_fprime(best.x, chances, 1e-6)
    information = slope.T @ (slope * (problems / chances(best.x))[:, None])  # as is expected
    errors = np.zeros_like(start)
    errors[free] = np.sqrt(np.diag(np.linalg.inv(information + 1e-6 * np.eye(len(free)))))
    return msgspec.structs.replace(numbers(best.x), errors=errors, log_likelihood=-float(best.fun))


def shared_log_likelihood(
    shared: float, first: FitParameters, second: FitParameters, pairs: Sequence[tuple[Outcome, Outcome]]
) -> float:
    """Return the log-likelihood of what two experts made of the same problems, in at most `MAX_OF_PAIR` samples each.

    `shared` is the share of noise that both have in common, at most what samples of either have in common.
    """
    kinds = sorted({outcome.kind for outcome, _ in pairs})
    given = math.sqrt(shared) * _PAIR_NODES
    ours, theirs = (
        _moments(one.chances(kinds), one.noise, max(0.0, one.noise - shared), given) for one in (first, second)
    )
    joint = _of_problems(np.einsum("kzi,kzj,z->kij", ours, theirs, _PAIR_WEIGHTS, optimize=True), kinds)
    total = 0.0
    for ((kind, m, r), (_, n, s)), count in Counter(pairs).items():
        moments = joint[kinds.index(kind), : m + 1, : n + 1]
        total += count * math.log(max(float(_from_moments(m)[r] @ moments @ _from_moments(n)[s]), _TINY))
    return total


def _moments(chances: Array, noise: float, own: float, given: Array) -> Array:
    """Return E[q(z)^i] of each chance, for each value of the part of z that is given; z is the noise samples share.

    `noise` is the share of z in all noise, and `own` that of the part which is not given.
    """
    thresholds = ndtri(np.clip(chances, _TINY, 1 - _TINY))
    moved = thresholds[:, None, None] - given[:, None] - math.sqrt(own) * _NODES
    right = ndtr(moved / math.sqrt(1 - noise))
    powers = np.vander(right.ravel(), MAX_SAMPLES + 1, increasing=True).reshape(*right.shape, -1)
    return np.einsum("kgzi,z->kgi", powers, _WEIGHTS, optimize=True)  # type: ignore[no-any-return]


def _of_problems(moments: Array, kinds: Sequence[Kind]) -> Array:
    """Return the moments of problems, given those of a step of each kind of problem and last of a note."""
    return np.stack([of**kind.steps * moments[-1] ** kind.notes for of, kind in zip(moments[:-1], kinds, strict=True)])


@cache
def _from_moments(samples: int) -> Array:
    """Return the matrix that makes of E[Q^i], i = 0 … m, the probabilities of r = 0 … m right answers."""
    matrix = np.zeros((samples + 1, samples + 1))
    for right in range(samples + 1):
        for more in range(samples - right + 1):
            ways = math.comb(samples, right) * math.comb(samples - right, more)
            matrix[right, right + more] = -ways if more % 2 else ways
    return matrix
