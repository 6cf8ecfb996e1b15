"""Prime factorisations, as mathematical problems need and show them."""

from __future__ import annotations

from collections import Counter


def factors(number: int) -> dict[int, int]:
    """Return the prime factors of a number and their exponents."""
    found, divisor = Counter[int](), 2
    while number > 1:
        if number % divisor:
            divisor += 1
        else:
            found[divisor] += 1
            number //= divisor
    return found


def product(found: dict[int, int]) -> str:
    r"""Return a factorisation in LaTeX.

    >>> product({2: 3, 7: 1})
    '2^{3} \\cdot 7'
    """
    return r" \cdot ".join(f"{prime}^{{{power}}}" if power > 1 else str(prime) for prime, power in found.items())
