"""How far what trains is from what generated: the same weights compute other log-probabilities in another program.

Rounding, kernels and parallelism differ, and so do weights that were not brought to a server. Correcting for it is left
to the loss (``--importance-cap``).
"""

from __future__ import annotations

import torch
from torch import Tensor

from toolorchestra.algos.hardware import distributed


class Mismatch:
    """Statistics of log-probabilities of the same ids, by what generated them and by what trains on them."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._count, self._gaps, self._ratios, self._largest = 0, 0.0, 0.0, 0.0

    @torch.no_grad()
    def add(self, sampled: Tensor, trained: Tensor, mask: Tensor) -> None:
        """Compare log-probabilities, all of one shape, where the mask is not 0."""
        difference = (trained - sampled).double()[mask.bool()]  # (n,)
        if difference.numel():
            self._count += difference.numel()
            self._gaps += float(difference.abs().sum())
            self._ratios += float(difference.exp().sum())
            self._largest = max(self._largest, float(difference.abs().max()))

    def metrics(self) -> dict[str, float]:
        """Return statistics since the last call, of all processes together, if there are any.

        ``mismatch`` and ``mismatch_max`` are the mean and the maximum of ``|log π(trainer) - log π(sampler)|`` per
        token, ``importance_ratio`` is the mean of ``π(trainer) / π(sampler)``, not truncated.
        """
        counts, gaps, ratios, largest = zip(
            *distributed.gather((self._count, self._gaps, self._ratios, self._largest)), strict=True
        )
        self._clear()
        if not (count := sum(counts)):
            return {}
        return {"mismatch": sum(gaps) / count, "mismatch_max": max(largest), "importance_ratio": sum(ratios) / count}
