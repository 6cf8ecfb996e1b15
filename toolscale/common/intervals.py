"""Small statistics that reports need, with nothing but the standard library."""

from __future__ import annotations

import math


def wilson_interval(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval for a share: where it lies with 95 % confidence (z = 1.96).

    >>> low, high = wilson_interval(9, 10)
    >>> round(low, 3), round(high, 3)
    (0.596, 0.982)
    >>> wilson_interval(0, 0)
    (0.0, 1.0)
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"Expected 0 <= successes <= trials, got {successes} of {trials}.")
    if trials == 0:
        return 0.0, 1.0
    share = successes / trials
    scale = 1.0 + z * z / trials
    middle = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1.0 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)
