"""Vectors of questions for the learned routers, and the two ways in which they fit weights to outcomes.

The papers embed questions by a neural text encoder. Here a question's vector is its TF-IDF weights projected on the
leading right singular vectors of the bank's questions (latent semantic analysis), which needs no model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from toolorchestra.agents.policies.routing import EvaluationBank
from toolorchestra.toolscale.errors import OptionError

Floats = NDArray[np.float64]


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
