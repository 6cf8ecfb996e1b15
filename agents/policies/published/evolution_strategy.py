"""Sep-CMA-ES: evolution of a vector with a covariance matrix that is diagonal (Ros and Hansen, PPSN 2008).

All is as in CMA-ES (arXiv:1604.00772), but the diagonal alone is learnt, faster by ``(n + 2) / 3``, so that time and
memory are linear in the number of parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from toolorchestra.agents.policies.published.question_vectors import Floats
from toolorchestra.toolscale.errors import OptionError


class SepCMAES:
    """Maximises a function of a vector.

    Args:
        start: The first mean.
        sigma: The first step size.
        population: Candidates of a generation; by default ``4 + 3 ln n``.
        seed: Of the draws.

    Attributes:
        mean: The present mean.
        sigma: The present step size.

    >>> search = SepCMAES(np.ones(3), seed=1)
    >>> for _ in range(60):
    ...     candidates = search.ask()
    ...     search.tell(candidates, [-float(one @ one) for one in candidates])
    >>> bool(np.abs(search.mean).max() < 1e-3)
    True
    """

    def __init__(self, start: Floats, sigma: float = 0.5, population: int | None = None, seed: int = 0) -> None:
        n = len(start)
        population = 4 + int(3 * math.log(n)) if population is None else population
        if population < 2 or not sigma > 0:
            raise OptionError(f"Expected at least 2 candidates and a positive step, got {population=} and {sigma=}.")
        self.mean, self.sigma, self.population = np.array(start, dtype=np.float64), sigma, population
        self._rng = np.random.default_rng(seed)
        weights = math.log((population + 1) / 2) - np.log(np.arange(1, population // 2 + 1))
        self._weights = weights / weights.sum()
        mass = 1 / (self._weights**2).sum()
        self._mass, self._n = mass, n
        self._path_rate = (mass + 2) / (n + mass + 5)
        self._damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (n + 1)) - 1) + self._path_rate
        self._covariance_path_rate = (4 + mass / n) / (n + 4 + 2 * mass / n)
        faster = (n + 2) / 3
        self._rank_one = min(1.0, faster * 2 / ((n + 1.3) ** 2 + mass))
        rank_mu = faster * 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass)
        self._rank_mu = min(1 - self._rank_one, rank_mu)
        self._length = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))  # of a normal vector, on average
        self._diagonal = np.ones(n)
        self._step_path, self._path = np.zeros(n), np.zeros(n)
        self._generation = 0

    def ask(self) -> list[Floats]:
        """Return the candidates of the next generation."""
        scale = self.sigma * np.sqrt(self._diagonal)
        return [self.mean + scale * self._rng.normal(size=self._n) for _ in range(self.population)]

    def tell(self, candidates: Sequence[Floats], values: Sequence[float]) -> None:
        """Move towards the candidates with the highest values."""
        self._generation += 1
        best = np.argsort(-np.asarray(values), kind="stable")[: len(self._weights)]
        steps = (np.array(candidates)[best] - self.mean) / self.sigma
        step = self._weights @ steps
        self.mean = self.mean + self.sigma * step
        rate, n = self._path_rate, self._n
        self._step_path = (1 - rate) * self._step_path + math.sqrt(rate * (2 - rate) * self._mass) * step / np.sqrt(
            self._diagonal
        )
        length = float(np.linalg.norm(self._step_path))
        decay = math.sqrt(1 - (1 - rate) ** (2 * self._generation))
        short = length / decay < (1.4 + 2 / (n + 1)) * self._length
        c = self._covariance_path_rate
        self._path = (1 - c) * self._path + short * math.sqrt(c * (2 - c) * self._mass) * step
        self._diagonal = (
            (1 - self._rank_one - self._rank_mu) * self._diagonal
            + self._rank_one * (self._path**2 + (not short) * c * (2 - c) * self._diagonal)
            + self._rank_mu * (self._weights @ steps**2)
        )
        self.sigma *= math.exp(rate / self._damping * (length / self._length - 1))


def maximised(value: Callable[[Floats], float], search: SepCMAES, generations: int) -> Floats:
    """Return the mean after so many generations."""
    for _ in range(generations):
        candidates = search.ask()
        search.tell(candidates, [value(one) for one in candidates])
    return search.mean
