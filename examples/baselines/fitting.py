"""What the baselines that learn share: their contract, vectors of questions, and ways to fit weights to outcomes.

The papers embed questions by a neural text encoder. Here a question's vector is its TF-IDF weights projected on the
leading right singular vectors of the bank's questions (latent semantic analysis), which needs no model.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from toolorchestra.agents.policies.base import Policy
from toolorchestra.toolscale.common.errors import OptionError

if TYPE_CHECKING:
    from examples.baselines.routing import EvaluationBank

Floats = NDArray[np.float64]
Trace = TypeVar("Trace")


class LearnedPolicy(Policy):
    """A policy that learns from episodes: `fit` returns one that has, and `learnt` what it has learnt."""

    @classmethod
    @abstractmethod
    def fit(cls, env: gymnasium.Env[Any, Any], *, split: str = "train", seed: int = 0, **options: Any) -> Self:
        """Return a policy that has learnt from episodes in `env`, which it plays itself.

        Args:
            env: The environment; it is left open.
            split: Split of the tasks that are played.
            seed: Of the episodes' seeds and of everything random in learning.
            options: How much is played, and further arguments of the policy.
        """

    @abstractmethod
    def learnt(self) -> dict[str, Any]:
        """Return the arguments that make an equal policy, as for other environments and processes."""


class QuestionVectors:
    """Vectors of `size` numbers at most, for the questions of a bank (`rows`) and for any other text (`of`)."""

    def __init__(self, bank: EvaluationBank, size: int = 32) -> None:
        if size < 1:
            raise OptionError(f"Expected vectors of at least one number, got size={size}.")
        vectors = bank.vectors.astype(np.float64)
        _, strength, basis = np.linalg.svd(vectors, full_matrices=False)
        self._bank = bank
        self._basis = basis[: min(size, int((strength > 1e-9).sum()))]
        self.rows: Floats = vectors @ self._basis.T

    @property
    def size(self) -> int:
        """How many numbers a vector has."""
        return len(self._basis)

    def of(self, text: str) -> Floats:
        """Return the vector of a text."""
        return self._basis @ self._bank.vector(text)


def sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def softmax(scores: Floats) -> Floats:
    """Return probabilities by scores, along the last axis."""
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(raised / raised.sum(-1, keepdims=True))


def logistic_weights(x: Floats, y: Floats, l2: float = 1.0, steps: int = 20) -> Floats:
    """Return the weights of a logistic regression with an L2 penalty, by Newton's method.

    Args:
        x: A row for each case.
        y: Shares in [0, 1].
        l2: Weight of the penalty.
        steps: Newton steps.
    """
    weights = np.zeros(x.shape[1])
    for _ in range(steps):
        p = sigmoid(x @ weights)
        gradient = x.T @ (p - y) + l2 * weights
        hessian = (x * (p * (1 - p))[:, None]).T @ x + l2 * np.eye(x.shape[1])
        weights = weights - np.linalg.solve(hessian, gradient)
    return weights


def adam(
    parameters: Sequence[Floats],
    gradients: Callable[[Sequence[Floats]], Sequence[Floats]],
    *,
    steps: int = 300,
    rate: float = 0.05,
) -> list[Floats]:
    """Return parameters after steps of Adam (arXiv:1412.6980) down the gradients of a loss."""
    now = [one.copy() for one in parameters]
    first, second = ([np.zeros_like(one) for one in now] for _ in range(2))
    for step in range(1, steps + 1):
        for place, gradient in enumerate(gradients(now)):
            first[place] = 0.9 * first[place] + 0.1 * gradient
            second[place] = 0.999 * second[place] + 0.001 * gradient**2
            mean, square = first[place] / (1 - 0.9**step), second[place] / (1 - 0.999**step)
            now[place] = now[place] - rate * mean / (np.sqrt(square) + 1e-8)
    return now


def reinforced(
    weights: Floats,
    play: Callable[[Floats, int], tuple[bool, float, Trace] | None],
    gradient: Callable[[Trace, Floats], Floats],
    *,
    episodes: int,
    batch: int,
    rate: float,
    cost_weight: float,
    shortened: bool = True,
) -> Floats:
    """Return weights after steps along the gradient of success less cost (REINFORCE).

    Args:
        weights: Those at first.
        play: Plays the episode of a number with weights, and returns whether it was solved, what it cost and the
            choices made; None if nobody judged it.
        gradient: Returns the gradient of the log-probability of choices under weights.
        episodes: How many are played.
        batch: Episodes of one step, whose mean reward is the baseline.
        rate: Length of a step; if not `shortened`, the most that it can be.
        cost_weight: Weight in the reward of the cost, as a share of what an episode costs at first.
        shortened: Whether every step has that length.
    """
    usual: float | None = None
    for first in range(0, episodes, batch):
        found = [play(weights, number) for number in range(first, min(first + batch, episodes))]
        played = [one for one in found if one is not None]
        if not played:
            continue
        usual = usual or sum(cost for _, cost, _ in played) / len(played) or 1.0
        rewards = np.array([solved - cost_weight * cost / usual for solved, cost, _ in played])
        total = np.zeros_like(weights)
        for advantage, (*_, choices) in zip(rewards - rewards.mean(), played, strict=True):
            total += advantage * gradient(choices, weights)
        weights = weights + rate * unit(total, shortened=shortened)
    return weights


def unit(gradient: Floats, *, shortened: bool = True) -> Floats:
    """Return a gradient with length 1; if not `shortened`, one that is shorter stays as it is."""
    length = float(np.linalg.norm(gradient))
    return gradient / ((length or 1.0) if shortened else max(1.0, length))


def k_means(rows: Floats, clusters: int, seed: int = 0, starts: int = 8) -> tuple[Floats, np.ndarray]:
    """Return the centres of clusters and the cluster of each row: of several starts the closest fit."""
    rng = np.random.default_rng(seed)
    found = [_clustered(rows, clusters, rng) for _ in range(starts)]
    return min(found, key=lambda one: float(((rows - one[0][one[1]]) ** 2).sum()))


def _clustered(rows: Floats, clusters: int, rng: np.random.Generator, steps: int = 50) -> tuple[Floats, np.ndarray]:
    """Return centres, drawn far apart at first (k-means++), and the cluster of each row."""
    centres = rows[[rng.integers(len(rows))]]
    while len(centres) < min(clusters, len(rows)):
        distance = ((rows[:, None] - centres) ** 2).sum(2).min(1)
        if distance.sum() <= 1e-12:  # fewer different rows than clusters
            break
        centres = np.vstack([centres, rows[rng.choice(len(rows), p=distance / distance.sum())]])
    members = np.full(len(rows), -1)
    for _ in range(steps):
        nearest = ((rows[:, None] - centres) ** 2).sum(2).argmin(1)
        if (nearest == members).all():
            break
        members = nearest
        centres = np.array([rows[members == n].mean(0) if (members == n).any() else c for n, c in enumerate(centres)])
    return centres, members


class SepCMAES:
    """Maximises a function of a vector: sep-CMA-ES (Ros and Hansen, PPSN 2008).

    All is as in CMA-ES (arXiv:1604.00772), but the diagonal of the covariance matrix alone is learnt, faster by
    ``(n + 2) / 3``, so that time and memory are linear in the number of parameters.

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
